"""Graphs that a trace recorded: the calls between the begin and the end of a capture of a stream, which ran nothing."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.graph.arrays import fitting
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.instances import CallTree
from tracelens_graph.graph.traversals import climb, rows_of_kind
from tracelens_graph.graph.user_code import Code, codes_of
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Mask, Rows

BEGIN = re.compile(r"^(?:cuda|hip|cu)StreamBeginCapture")
_END = re.compile(r"^(?:cuda|hip|cu)StreamEndCapture")
RECORDED = {"launch": Kind.Kernel, "copy": Kind.Memcpy, "fill": Kind.Memset}
"""What calls that a capture records are called without their API, and the GPU work that they stand for."""
_ANNOTATED = re.compile(r"^capture_(\d+)_(\w+)")
"""What servers call the range in which they capture one graph: its batch size, and its mode."""


@dataclass(frozen=True, eq=False)
class CapturedGraph:
    """A graph as it was captured.

    Attributes:
        file: the trace of the capture.
        rank: the rank that recorded it, where it says so.
        number: which of the graphs in the file, from 1.
        batch_size: what it was captured for; None where that is not known.
        mode: FULL for one graph of the forward pass, PIECEWISE for one of several, or what the server calls it.
        kinds: the kind of GPU work of each captured call, in their order.
        names: the names of their kernels; None where the trace does not say, as of CUDA.
        grids, streams: of each call; None where not recorded.
        tree: modules, frames of the user and ops above the calls.
        call: position in the tree of what made each captured call; -1 for none.
        cut: what of the capture was not recorded: "begin", "end", "both", or nothing.
    """

    file: str
    rank: int | None
    number: int
    batch_size: int | None
    mode: str
    kinds: Codes
    names: tuple[str | None, ...]
    grids: tuple[Any, ...]
    streams: tuple[Any, ...]
    tree: CallTree
    call: Rows
    cut: str = ""

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def is_part(self) -> bool:
        """Whether it is known to be the first or the last part of a capture."""
        return self.cut in ("begin", "end")

    def called(self, at: int) -> str:
        """What a captured call launches: the name of its kernel, else the op that made it."""
        return self.names[at] or self.ops[at] or Kind(int(self.kinds[at])).name

    def may_be_of(self, size: int) -> bool:
        """Whether a dimension of what its ops are given is a multiple of a batch size; true where none is recorded."""
        dims = {int(one) for argset in self.tree.argsets for one in re.findall(r"\d{1,18}", argset[0])}
        return not dims or any(one >= size and one % size == 0 for one in dims)

    def says_the_same(self, other: CapturedGraph) -> bool:
        """Whether another graph has the same calls for the same work."""
        own, theirs = self.tree, other.tree
        return (
            list(own.names) == list(theirs.names)
            and list(own.argsets) == list(theirs.argsets)
            and all(np.array_equal(getattr(own, one), getattr(theirs, one)) for one in ("name", "argset", "parent"))
            and np.array_equal(self.call, other.call)
        )

    @cached_property
    def ops(self) -> list[str | None]:
        """The op that made each captured call; None for none."""
        tree = self.tree
        op = climb(tree.parent, self.call, tree.kind == Kind.Op)
        return [tree.names[tree.name[one]] if one >= 0 else None for one in op.tolist()]


class Capture(NamedTuple):
    """A capture of a stream, as far as a trace recorded it.

    Attributes:
        begin, end: when it began and ended, ns; those of the least and greatest integers where that was not recorded.
        rows: the calls that it recorded.
        cut: as in CapturedGraph.
    """

    begin: int
    end: int
    rows: Rows
    cut: str = ""


def captured_calls(core: Core) -> list[Capture]:
    """The captures in a trace, by their begin; none of their calls launched what ran.

    A capture lasts from a begin to the next end on the thread. What has no end lasts to the trace's end. An end without
    a begin is of a capture within which the recording began.
    """
    c = core.columns
    begins, ends = (_called(core, pattern) for pattern in (BEGIN, _END))
    if not len(begins) and not len(ends):
        return []
    rows, found = _recorded(core), []
    for thread in np.unique(c.thread[np.append(begins, ends)]).tolist():
        own = rows[c.thread[rows] == thread]
        starts, stops = (np.sort(c.start_ns[one[c.thread[one] == thread]]).tolist() for one in (begins, ends))
        if stops and (not starts or stops[0] < starts[0]):
            starts = [_BEFORE, *starts]
        for begin in starts:
            end = stops[at] if (at := bisect_right(stops, begin)) < len(stops) else _NEVER
            cut = "begin" if begin == _BEFORE else "end" if end == _NEVER else ""
            inside = (c.start_ns[own] > begin) & (c.start_ns[own] < end)
            found.append(Capture(begin, end, own[inside], cut))
    return sorted(found, key=lambda one: one.begin)


_BEFORE, _NEVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def _called(core: Core, pattern: re.Pattern[str]) -> Rows:
    """Rows of the runtime calls whose names fit."""
    calls = rows_of_kind(core.columns, (Kind.RuntimeCall,))
    return calls[fitting(core.names, core.columns.name[calls], pattern.search)]


def _recorded(core: Core) -> Rows:
    """Rows of the calls that launch, copy or fill, and ran nothing."""
    c = core.columns
    calls = rows_of_kind(c, (Kind.RuntimeCall,))
    rows = calls[fitting(core.names, c.name[calls], lambda name: normal_name(Kind.RuntimeCall, name) in RECORDED)]
    rows = rows[~np.isin(rows, np.unique(c.parent[core.gpu_rows]))]
    # The runtime's call may hold the driver's, which records the same work.
    is_recorded = np.zeros(len(c) + 1, bool)
    is_recorded[rows] = True
    return rows[climb(np.append(c.parent, -1), c.parent[rows], is_recorded) < 0]


def without_captures(core: Core) -> str:
    """What a trace without a captured graph holds instead, in words."""
    if len(_called(core, BEGIN)) or len(_called(core, _END)):
        return "no call that launches, copies or fills is in its captures"
    if not (number := len(_recorded(core))):
        calls = "its calls ran what they launched" if len(core.gpu_rows) else "it has no calls that launch GPU work"
        return f"no capture of a stream begins or ends in it, and {calls}"
    return f"no capture of a stream begins or ends in it; {number:,} of its calls launched nothing"


def arguments_of(core: Core, rows: Rows) -> list[dict[str, Any]]:
    """What the trace recorded of each call."""
    c = core.columns
    events = core.details.events(c.uid[rows].tolist())
    found = [events.get(uid, {}).get("args") for uid in c.uid[rows].tolist()]
    return [one if isinstance(one, dict) else {} for one in found]


def captured_graphs(core: Core) -> list[CapturedGraph]:
    """The graphs that a trace recorded and that hold GPU work.

    Where it recorded neither begin nor end of a capture, calls of a thread are the inside of one if none of those
    between the first and the last ran anything.
    """
    captures = [one for one in captured_calls(core) if len(one.rows)] or _insides(core)
    ranges = _ranges(core)
    found = []
    for number, one in enumerate(captures, 1):
        at = core.columns.start_ns[one.rows[0]] if one.begin == _BEFORE else one.begin
        around = [(size, mode) for start, end, size, mode in ranges if start <= at < end]
        alone = "FULL" if len(captures) == 1 else "PIECEWISE"
        size, mode = around[-1] if around else (_usual_size(core, one.rows), alone)
        found.append(_graph(core, one, number, size, mode))
    return found


def _insides(core: Core) -> list[Capture]:
    """Of each thread the calls that launched nothing, if they stand together."""
    c, rows, found = core.columns, _recorded(core), []
    ran = np.unique(c.parent[core.gpu_rows])
    for thread in np.unique(c.thread[rows]).tolist():
        own = rows[c.thread[rows] == thread]
        between = ran[(c.thread[ran] == thread) & (ran > own[0]) & (ran < own[-1])]
        if not len(between):
            found.append(Capture(_BEFORE, _NEVER, own, "both"))
    return found


def _graph(core: Core, capture: Capture, number: int, size: int | None, mode: str) -> CapturedGraph:
    rows = capture.rows
    c = core.columns
    tree, call = calls_above(core, rows, capture.begin, capture.end if capture.begin == _BEFORE else _NEVER)
    arguments = arguments_of(core, rows)
    apis = [normal_name(Kind.RuntimeCall, core.names[name]) for name in c.name[rows].tolist()]
    names = [one.get("kernel") for one in arguments]
    return CapturedGraph(
        file=core.info.source,
        rank=core.info.rank,
        number=number,
        batch_size=size,
        mode=mode,
        kinds=np.array([RECORDED[api] for api in apis], np.uint8),
        names=tuple(name if isinstance(name, str) and name else None for name in names),
        grids=tuple(one.get("grid") for one in arguments),
        streams=tuple(one.get("stream") for one in arguments),
        tree=tree,
        call=call,
        cut=capture.cut,
    )


def _ranges(core: Core) -> list[tuple[int, int, int, str]]:
    """Start, end, batch size and mode of the ranges in which a server captured its graphs."""
    c, found = core.columns, []
    for row in rows_of_kind(c, (Kind.Annotation,)).tolist():
        if match := _ANNOTATED.match(core.names[c.name[row]]):
            found.append((int(c.start_ns[row]), int(c.end_ns[row]), int(match[1]), match[2]))
    return sorted(found)


def _usual_size(core: Core, rows: Rows) -> int | None:
    """The most frequent first dimension of what the ops above some calls are given."""
    c = core.columns
    ops = climb(c.parent, c.parent[rows], c.kind == Kind.Op)
    argsets = c.argset[ops[ops >= 0]]
    found: Counter[int] = Counter()
    for argset, count in Counter(argsets[argsets >= 0].tolist()).items():
        if match := re.match(r"\[\[(\d+)", core.argsets[argset][0].replace(" ", "")):
            found[int(match[1])] += count
    return found.most_common(1)[0][0] if found else None


def calls_above(core: Core, rows: Rows, begin: int, end: int = _NEVER) -> tuple[CallTree, Rows]:
    """Modules, and frames of the user and ops that lie in the capture, above the calls; of each call the nearest.

    A piece of a model is captured within its modules. Frames of libraries say nothing about the program, and would be
    most of the rows of a trace with many replays.
    """
    c = core.columns
    bearing = np.zeros(len(c), bool)
    above = c.parent[rows].astype(np.int64)
    while (above >= 0).any():
        above = np.unique(above[above >= 0])
        bearing[above] = True
        above = c.parent[above].astype(np.int64)
    kept = bearing & _shown(core) & ((c.start_ns >= begin) & (c.end_ns <= end) | (c.kind == Kind.Module))
    nodes = np.flatnonzero(kept)
    position = np.full(len(c) + 1, -1, np.int64)
    position[nodes] = np.arange(len(nodes))
    name, names = _renumbered(c.name[nodes], core.names)
    argset, argsets = _renumbered(c.argset[nodes], core.argsets)
    collectives = {
        place: core.collective_args[uid]
        for place, uid in enumerate(c.uid[nodes].tolist())
        if uid in core.collective_args
    }
    tree = CallTree(
        kind=c.kind[nodes],
        parent=position[climb(c.parent, c.parent[nodes], kept)],
        name=name,
        argset=argset,
        names=names,
        argsets=argsets,
        collectives=collectives,
    )
    return tree, position[climb(c.parent, c.parent[rows], kept)]


def _shown(core: Core) -> Mask:
    """Modules, ops, and frames of the user; of generated code the outermost frames."""
    c, codes = core.columns, codes_of(core)
    shown = (c.kind == Kind.Module) | (c.kind == Kind.Op) | (codes == Code.user)
    compiled = np.flatnonzero(codes == Code.compiled)
    above = climb(c.parent, c.parent[compiled], (codes >= Code.compiled) & (codes != Code.plumbing))
    shown[compiled[(above < 0) | (codes[above] != Code.compiled)]] = True
    return shown


def _renumbered(codes: Codes, table: Any) -> tuple[Codes, list[Any]]:
    """Codes of the entries of a table that are used, and these; -1 stays."""
    used, found = np.unique(codes, return_inverse=True)
    absent = int(np.count_nonzero(used < 0))
    return np.where(codes < 0, -1, found - absent), [table[code] for code in used[absent:].tolist()]
