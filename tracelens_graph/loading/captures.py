"""Traces of captures in files and folders, read to join a trace with what it replays."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracelens_graph.errors import LinkError, NotATraceError, TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph, readable
from tracelens_graph.loading.pseudo_ops import with_pseudo_ops

if TYPE_CHECKING:
    from tracelens_graph.captures.recording import CapturedGraph

DETAILS = "execution_details.json"
"""File beside captures that says of each its batch size and mode."""
_GREATEST_SIZE = 2**20
"""Batches that a server can have."""
_RANK = re.compile(r"rank[_-]?(\d+)", re.I)


def with_captures(core: Core, captures: Any, tell: Callable[[str], None]) -> Graph:
    """The graph, joined with captured graphs, and with ops for parts of what is fused in them.

    Args:
        core: a whole graph.
        captures: a folder of captures, the trace of one, or several of these.
        tell: called with a line on whatever of the captures could not be used.

    Raises:
        LinkError: they hold no captured graph, or the graph cannot be joined; the message says why.
    """
    from tracelens_graph.captures.join import joined_with, replays_in

    if core.link is not None or core.programs is not None or core.info.replays:
        raise LinkError(f"{core.info.source}: {_why_not(core)}")
    replays = replays_in(core)
    if not replays:
        tell(f"{core.info.source}: {_nothing_to_join(core)}")
        return readable(core)
    files = capture_files(captures, core.info.rank, tell)
    wanted = _of_sizes(files, {replay.size for replay in replays})
    graphs = load_captures(wanted, tell)
    joined = joined_with(core, graphs)
    if len(wanted) < len(files) and not all(one.file for one in joined.info.replays):
        graphs += load_captures([one for one in files if one not in wanted], tell)
        joined = joined_with(core, graphs)
    if not graphs:
        raise LinkError(f"{', '.join(_named(captures))}: no captured graph is in it")
    left = [one for one in joined.info.replays if not one.file]
    if len(left) == len(joined.info.replays):
        notes = {one.note for one in left if one.note}
        tell("; ".join((f"{core.info.source}: none of its replayed graphs fits a captured one", *sorted(notes))))
    return with_pseudo_ops(joined)


def _named(captures: Any) -> list[str]:
    """The paths of captures, as text."""
    named = [captures] if isinstance(captures, str | bytes | os.PathLike) else captures
    try:
        found = [os.fsdecode(one) for one in named]
    except TypeError:
        found = []
    if not found or not isinstance(named, Sequence):
        raise LinkError(f"capture={captures!r:.60}: a path, or a list of paths, of captures is wanted")
    return found


def _of_sizes(files: Sequence[_File], sizes: set[int | None]) -> list[_File]:
    """The files of the batch sizes that are replayed, where all are known: the least that each batch fits into."""
    entries = [one.get("batch_size") for _, details in files for one in details]
    known = [one for one in entries if type(one) is int]
    if None in sizes or len(known) < len(entries) or not all(details for _, details in files):
        return list(files)
    needed = {min((one for one in known if one >= size), default=None) for size in sizes if size is not None}
    return [file for file in files if any(one["batch_size"] in needed for one in file[1])]


def _why_not(core: Core) -> str:
    if core.link is not None:
        return "is linked with an execution trace already; join the trace itself with captures, and link it then"
    if core.programs is not None:
        return "is a profile of JAX, whose kernels name their instructions; captures are of PyTorch"
    return "is joined with captures already"


def _nothing_to_join(core: Core) -> str:
    if core.info.inferred:
        return "its replayed kernels were identified before it was saved; join the trace itself with captures"
    return "no launch of a graph in it ran GPU work, so there is nothing to join with captures"


_File = tuple[str, list[dict[str, Any]]]
"""A trace of captures, and what is known of it from the file of details beside it."""


def load_captures(files: Sequence[_File], tell: Callable[[str], None]) -> list[CapturedGraph]:
    """The captured graphs in some files.

    Args:
        files: as `capture_files` gives them.
        tell: called with a line on each file that cannot be used.
    """
    from tracelens_graph.captures.recording import captured_graphs, without_captures
    from tracelens_graph.loading.profile import load_profile

    graphs: list[CapturedGraph] = []
    for path, details in files:
        try:
            recorded = load_profile(path)
        except TraceError as error:
            tell(f"{error}; left out of the captures")
            continue
        found = captured_graphs(recorded)
        if not found:
            why = recorded.info.damage or without_captures(recorded)
            tell(f"{path}: holds no captured graph ({why}); left out of the captures")
        graphs += _described(found, details, tell)
    return graphs


def capture_files(captures: Any, rank: int | None, tell: Callable[[str], None]) -> list[_File]:
    """The traces of captures in files and folders, with what is known of each.

    Args:
        captures: a path, or several.
        rank: the rank that is to be joined: where files are named by ranks, those of others are left out.
        tell: called with a line on a file of details that cannot be read.

    Raises:
        LinkError: there is no such file or folder, or no trace in it.
    """
    from tracelens_graph.loading.files import trace_files

    found: list[_File] = []
    for one in _named(captures):
        if not os.path.exists(one):
            raise LinkError(f"{one}: there is no such file or folder of captures")
        try:
            files = [file for file in trace_files([one]) if Path(file).name != DETAILS]
        except NotATraceError as error:
            raise LinkError(str(error)) from None
        ranks = {file: int(match[1]) for file in files if (match := _RANK.search(Path(file).name))}
        if rank in ranks.values():
            files = [file for file in files if ranks.get(file, rank) == rank]
        folder = Path(one) if os.path.isdir(one) else Path(one).parent
        details = _details(folder / DETAILS, tell)
        described = [(file, _of_file(file, files, details)) for file in files]
        if details and os.path.isdir(one) and not any(entries for _, entries in described):
            tell(f"{folder / DETAILS}: names none of the captures beside it; left out")
        found += described
    return found


def _details(path: Path, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """What the file of details says, one entry for each captured graph."""
    try:
        read = json.loads(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        tell(f"{path}: cannot be read ({error}); batch sizes and modes are those in the captures")
        return []
    entries = read if isinstance(read, list) else []
    known = [one for one in entries if isinstance(one, dict) and isinstance(one.get("file"), str)]
    if not isinstance(read, list) or len(known) < len(entries):
        tell(f"{path}: is no list of captured graphs with their files; what is none is left out")
    return known


def _of_file(file: str, files: Sequence[str], details: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries on a file: those that name it, else those whose name begins as its name does, and no other's."""
    name = Path(file).name
    if same := [one for one in details if Path(one["file"]).name == name]:
        return same
    stem = name.partition(".")[0]
    if sum(Path(other).name.partition(".")[0] == stem for other in files) > 1:
        return []
    return [one for one in details if Path(one["file"]).name.partition(".")[0] == stem]


def _described(
    graphs: Sequence[CapturedGraph], details: Sequence[dict[str, Any]], tell: Callable[[str], None]
) -> list[CapturedGraph]:
    """Captured graphs of a file, with batch sizes and modes as details have them, if these are as many, or one."""
    if graphs and len(details) not in (0, 1, len(graphs)):
        tell(f"{graphs[0].file}: {DETAILS} has {len(details):,} entries for its {len(graphs):,} graphs; left out")
        details = []
    if not details:
        return list(graphs)
    of_each = list(details) * len(graphs) if len(details) == 1 else details
    return [_with_entry(graph, entry, tell) for graph, entry in zip(graphs, of_each, strict=False)]


def _with_entry(graph: CapturedGraph, entry: dict[str, Any], tell: Callable[[str], None]) -> CapturedGraph:
    size, mode = entry.get("batch_size"), entry.get("mode")
    if type(size) is int and 0 < size <= _GREATEST_SIZE and graph.may_be_of(size):
        graph = replace(graph, batch_size=size)
    elif size is not None:
        known = "" if graph.batch_size is None else f", taken as {graph.batch_size} by its ops"
        tell(f"{graph.file}: {DETAILS} says batch_size {size!r:.24}, but no op in it has that size{known}")
    return replace(graph, mode=mode[:40]) if isinstance(mode, str) and mode else graph
