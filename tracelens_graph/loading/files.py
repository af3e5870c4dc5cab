"""Which files folders, patterns and paths stand for, and the note on files that are left out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from glob import glob, has_magic
from pathlib import Path

from tracelens_graph.errors import NotATraceError, TraceError
from tracelens_graph.loaders.sources import is_stream
from tracelens_graph.loaders.xplane.files import COPY, runs_in
from tracelens_graph.loading.fused import with_ranks_apart
from tracelens_graph.loading.pairing import is_execution_trace_file

SUFFIXES = (".json", ".json.gz", ".json.zst", ".zip", ".tlg", ".xplane.pb", ".xplane.pb.gz", ".sqlite", ".rpd", ".db")
"""What the files of a folder that may be traces end with."""

_NAMED = 5
"""How many files a note names."""


def trace_files(named: Iterable[str], tell: Callable[[str], None] | None = None) -> list[str]:
    """The files that folders, patterns and paths stand for, each once; those of a folder or pattern by name.

    A file that is named in several ways, or has several names, counts once. Pipes, sockets and devices in a folder are
    left out: reading them may never end. One that is named itself is taken. A file into which ranks were fused stands
    for a file of each of them.

    Args:
        named: folders, patterns and paths.
        tell: called with a line on each kind of file that was left out, and on damage of files of fused ranks.

    Raises:
        NotATraceError: a folder holds no file that may be a trace, or a pattern fits none.
        TraceError: a folder cannot be read.
    """
    files: dict[str, None] = {}
    special: list[str] = []
    for one in named:
        inside = _inside(one)
        odd = [] if inside == [one] else [file for file in inside if is_stream(file)]
        special += odd
        files |= dict.fromkeys(file for file in inside if file not in odd)
        if not files and odd:
            raise NotATraceError(f"{one}: {special_note(odd)}")
    kept, again = _each_once(files)
    if tell is not None:
        for line in (*([special_note(special)] if special else ()), *([_again_note(again)] if again else ())):
            tell(line)
    return with_ranks_apart(kept, tell)


def _inside(one: str) -> list[str]:
    """What a folder, pattern or path stands for."""
    try:
        if os.path.isdir(one):
            inside = runs_in(one) or _in_folder(Path(one)) or _in_folders_beside(one)
            if not inside:
                raise NotATraceError(f"{one}: no file in it ends with {', '.join(SUFFIXES)}")
            return inside
        if has_magic(one) and not os.path.exists(one):
            inside = sorted(glob(one, recursive=True))
            if not inside:
                raise NotATraceError(f"no file fits {one}")
            return inside
    except OSError as error:
        raise TraceError(f"{one}: {(error.strerror or str(error)).lower()}") from None
    return [one]


def _in_folder(folder: Path) -> list[str]:
    """The files of a folder that may be traces, by name.

    JAX writes a smaller copy beside each of its profiles, for a viewer, which is none.
    """
    found = {str(path) for path in folder.iterdir() if path.name.endswith(SUFFIXES)}
    copies = {f"{name.partition('.xplane.pb')[0]}{COPY}" for name in found if ".xplane.pb" in name}
    return sorted(found - copies)


def _in_folders_beside(one: str) -> list[str]:
    """Files of the folders in a folder, where one of these holds the execution traces of what is in the others."""
    inside = [_in_folder(path) for path in sorted(Path(one).iterdir()) if path.is_dir()]
    recorded = [bool(files) and is_execution_trace_file(files[0]) for files in inside]
    return [file for files in inside for file in files] if any(recorded) and not all(recorded) else []


def _each_once(files: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """The files without those that are the same as another one, and which these are."""
    first: dict[tuple[int, int], str] = {}
    kept: list[str] = []
    again: dict[str, str] = {}
    for file in files:
        try:
            state = os.stat(file)
        except (OSError, ValueError):
            kept.append(file)
            continue
        same = first.setdefault((state.st_dev, state.st_ino), file)
        if same == file:
            kept.append(file)
        else:
            again[file] = same
    return kept, again


def special_note(files: Sequence[str]) -> str:
    """One line on pipes, sockets and devices."""
    what = "1 pipe, socket or device" if len(files) == 1 else f"{len(files):,} pipes, sockets or devices"
    return f"left out {what}: {_few([Path(file).name for file in files])}"


def _again_note(again: Mapping[str, str]) -> str:
    pairs = [f"{file} is {same}" for file, same in again.items()]
    what = "1 file that is named twice" if len(again) == 1 else f"{len(again):,} files that are named twice"
    return f"left out {what}: {_few(pairs)}"


def left_out_note(files: Sequence[str]) -> list[str]:
    """One line on files that are no profiler traces; none without any."""
    if not files:
        return []
    what = "1 file that is not a trace" if len(files) == 1 else f"{len(files):,} files that are not traces"
    return [f"left out {what}: {_few([Path(file).name for file in files])}"]


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")
