"""A folder of programs: what is in it, and how it is written and read again.

`replay.json` lists the programs with their plans as JSON, so that whoever has the folder needs no trace.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, cast, get_args

from tracelens_graph.errors import TraceLensGraphError
from tracelens_graph.output.folder import writing_folder
from tracelens_graph.output.markers import GENERATOR, is_ours
from tracelens_graph.replay.heading import identifier
from tracelens_graph.replay.plan_json import plan_from_json
from tracelens_graph.replay.program_text import HasProgram, ProgramKind, program
from tracelens_graph.replay.replay_plan import ReplayPlan
from tracelens_graph.utils.texts import cut_end

INDEX = "replay.json"
_VERSION = 2
_LARGEST = 256 << 20
"""Bytes of an index that is read."""
_LONGEST_NAME = 255
"""Characters of a file's name."""


class FolderError(TraceLensGraphError):
    """A folder is not one that programs were written to; the message says why."""


@dataclass(frozen=True)
class Program:
    """A program of a folder.

    Attributes:
        file: its name.
        kind: what it runs: one `op`, a `sequence` of them, `collectives`, a Triton kernel that is to be filled in,
            an `instruction` of XLA, or a `batch` of operations one after another.
        about: its heading.
        plan: what it runs, as JSON's values.
    """

    file: str
    kind: ProgramKind
    about: str
    plan: Any

    @classmethod
    def of(cls, plan: HasProgram, file: str) -> Program:
        """The program of a plan."""
        return cls(file, plan.kind, plan.about, plan.json())

    @property
    def source(self) -> str:
        """Its text."""
        return program(self.kind, self.about, self.plan)

    @cached_property
    def plans(self) -> tuple[ReplayPlan, ...]:
        """Plans of the operations that it calls, in order; a Triton kernel is one, collectives are none.

        Raises:
            NotAPlanError: what stands in the index is none; the message names the place.
        """
        if self.kind in ("collectives", "instruction"):
            return ()
        entries = self.plan.get("steps") if self.kind == "sequence" and isinstance(self.plan, dict) else self.plan
        listed = entries if isinstance(entries, list) else [entries]
        if self.kind in ("sequence", "triton"):
            listed = [one.get("plan") if isinstance(one, dict) else None for one in listed]
        return tuple(map(plan_from_json, listed))


def program_name(plan: ReplayPlan, number: int) -> str:
    """Name of a program's file, such as `001_aten_mm_1f2e3d.py`: place, operation, and a hash of the arguments."""
    told = (plan.op, plan.overload, plan.recorded.dims, plan.recorded.types, plan.recorded.strides,
            plan.recorded.values)  # fmt: skip
    return f"{number:03d}_{identifier(plan.op)}_{sha256(repr(told).encode()).hexdigest()[:6]}.py"


def write_folder(
    folder: str | os.PathLike[str], programs: Sequence[Program], trace: str, others: Mapping[str, str] | None = None
) -> list[Path]:
    """Write programs and their index: all of them, or none. Programs that an earlier index lists and this does not go.

    Args:
        folder: where to; it is made if it is not there.
        programs: the programs.
        trace: name of the trace's file.
        others: further files of the programs -> their text.

    Returns:
        The programs' files.

    Raises:
        OutputError: a file cannot be written, or stands there and is not ours.
    """
    texts = {one.file: one.source for one in programs} | dict(others or {})
    index = {
        "generator": GENERATOR,
        "schema_version": _VERSION,
        "trace": trace,
        "files": list(texts),
        "operations": [{"file": one.file, "kind": one.kind, "about": one.about, "plan": one.plan} for one in programs],
    }
    names = [*texts, INDEX]
    earlier = _earlier(Path(folder))
    with writing_folder(folder, names, is_known=earlier.__contains__) as output:
        for name, text in texts.items():
            with output.file(name) as file:
                file.write(_encoded(text))
        with output.file(INDEX) as file:
            # Compact, so that it begins with its mark.
            file.write(json.dumps(index, separators=(",", ":")).encode())
    for path in earlier.difference(output.paths):
        path.unlink(missing_ok=True)
    return [Path(folder) / one.file for one in programs]


def read_folder(folder: str | os.PathLike[str]) -> list[Program]:
    """The programs that the index of a folder lists.

    Raises:
        FolderError: it has no index, or one that cannot be read or lists nothing.
    """
    path = Path(folder) / INDEX
    index = _read_index(path)
    operations = index.get("operations")
    if not isinstance(operations, list) or not operations:
        raise FolderError(f"{path}: lists no operations")
    if index.get("schema_version", _VERSION) != _VERSION:
        told = cut_end(repr(index["schema_version"]), 20)
        raise FolderError(f"{path}: has schema_version {told}, not {_VERSION}; write it with this version")
    return [_program(path, number, one) for number, one in enumerate(operations, 1)]


def _read_index(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FolderError(f"{path.parent}: holds no {INDEX}; name a folder that `replay -o` wrote")
    try:
        if path.stat().st_size > _LARGEST:
            raise FolderError(f"{path}: is larger than {_LARGEST:,} bytes")
        index = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise FolderError(f"{path}: is no JSON: {error}") from None
    except OSError as error:
        raise FolderError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    return index if isinstance(index, dict) else {}


def _program(path: Path, number: int, entry: Any) -> Program:
    told = entry if isinstance(entry, dict) else {}
    file, kind, about = (told.get(key) for key in ("file", "kind", "about"))
    if not _is_name(file) or kind not in get_args(ProgramKind) or not isinstance(about, str) or "plan" not in told:
        raise FolderError(f"{path}: entry {number} names no program")
    return Program(str(file), cast("ProgramKind", kind), about, told["plan"])


def _earlier(folder: Path) -> set[Path]:
    """Files of an earlier run: its index, and what that lists; programs only as they were written, not edited since."""
    try:
        if not is_ours(folder / INDEX):
            return set()
        listed = _read_index(folder / INDEX).get("files")
        sources = {one.file: one.source for one in read_folder(folder)}
    except (FolderError, OSError):
        return set()
    paths = [folder / one for one in listed if _is_name(one)] if isinstance(listed, list) else []
    return {folder / INDEX, *(path for path in paths if path.is_file() and _is_as_written(path, sources))}


def _is_as_written(path: Path, sources: Mapping[str, str]) -> bool:
    source = sources.get(path.name)
    return source is None or path.read_bytes() == _encoded(source)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _is_name(name: object) -> bool:
    """Whether a text is the name of a file in the folder itself, without anything that systems do not write."""
    return isinstance(name, str) and name.isprintable() and len(name) <= _LONGEST_NAME and Path(name).name == name != ""
