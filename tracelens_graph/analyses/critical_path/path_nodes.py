"""Which nodes stand for the segments of a critical path, and in which calls a thread spent some time."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.points import Edge
from tracelens_graph.graph.arrays import is_kind, positions_by
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import climb, host_rows, least_above
from tracelens_graph.schema import GPU_KINDS, Flag, Kind
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows


class Pieces(NamedTuple):
    """Spans of host time, cut where an outermost call begins or ends.

    Attributes:
        span: number of the span that each piece is of.
        start_ns, end_ns: the pieces.
        row: the innermost call that has more than half of the piece; -1 where no call is open.
    """

    span: Rows
    start_ns: Ns
    end_ns: Ns
    row: Rows


def host_pieces(core: Core, thread: Codes, start_ns: Ns, end_ns: Ns) -> Pieces:
    """Some spans of host time in pieces.

    Args:
        core: the graph.
        thread: code of the thread of each span.
        start_ns, end_ns: the spans.
    """
    timelines, found = core.once(_Timelines), [Pieces(*np.zeros((4, 0), np.int64))]
    for code, spans in positions_by(thread):
        begin, end = start_ns[spans], end_ns[spans]
        times, inside, bounds = timelines.of(code)
        first = np.searchsorted(bounds, begin, "right")
        count = np.searchsorted(bounds, end, "left") - first + 1
        of = np.repeat(np.arange(len(spans)), count)
        at = np.arange(len(of)) - (np.cumsum(count) - count)[of]
        cuts = np.append(bounds, 0)
        begin = np.where(at == 0, begin[of], cuts[first[of] + at - 1])
        end = np.where(at == count[of] - 1, end[of], cuts[first[of] + at])
        # Whatever has more than half of a piece is open in its middle.
        row = inside[np.searchsorted(times, (begin + end) // 2, "right") - 1]
        c = core.columns
        while len(short := np.flatnonzero((row >= 0) & (2 * _within(c, row, begin, end) <= end - begin))):
            row[short] = c.parent[row[short]]
        found.append(Pieces(spans[of], begin, end, row))
    return Pieces(*(np.concatenate(one) for one in zip(*found, strict=True)))


def _within(c: Columns, row: Rows, begin: Ns, end: Ns) -> Ns:
    return np.minimum(c.end_ns[row], end) - np.maximum(c.start_ns[row], begin)


class _Timelines:
    """Of a thread, which call is the innermost at each moment, and when an outermost one begins or ends.

    Sorted once a thread, for all paths over it.
    """

    def __init__(self, core: Core) -> None:
        self._core, c = core, core.columns
        hosts = host_rows(c)
        hosts = hosts[c.dur_ns[hosts] > 0]
        self._rows = {code: hosts[own] for code, own in positions_by(c.thread[hosts])}
        self.of = cache(self._of)

    def _of(self, thread: int) -> tuple[Ns, Rows, Ns]:
        rows = self._rows.get(thread, np.zeros(0, np.int64))
        times, inside = innermost_calls(self._core, rows)
        outermost = np.searchsorted(rows[self._core.columns.parent[rows] < 0], inside, "right")
        return times, np.append(inside, -1), np.unique(times[np.diff(outermost, prepend=0) != 0])


def innermost_calls(core: Core, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From each moment up to the next, which of some calls of one thread is the innermost; -1 for none.

    Args:
        core: the graph.
        rows: the calls, all of one thread, ascending.

    Returns:
        Moments, ascending, and rows.
    """
    c = core.columns
    end = c.start_ns[rows] + c.dur_ns[rows]
    late = np.flatnonzero(c.flags[rows] & Flag.outlives_parent.value)
    if len(late):
        end[late] = least_above(c.parent, rows[late], c.end_ns)
    # Rounded ends may lie behind the start of the next call, which would be over with them.
    behind = np.searchsorted(rows, c.last[rows], "right")
    end = np.minimum(end, np.append(c.start_ns[rows], np.iinfo(np.int64).max)[behind])
    times = np.concatenate((c.start_ns[rows], end))
    inside = np.concatenate((rows, c.parent[rows].astype(np.int64)))
    # Of ends at one moment the outermost comes last, and starts come after ends: the last one there holds.
    order = np.lexsort((np.concatenate((rows, -rows - 1)), times))
    return times[order], inside[order]


_MODULE = "nn.Module: "


class Nodes(NamedTuple):
    """Nodes of a rank, and their names.

    Attributes:
        uid: uid; None where there is no node.
        name, op, module: names; empty where there is none.
    """

    uid: list[int | None]
    name: list[str]
    op: list[str]
    module: list[str]


def nodes_of(core: Core, row: Rows) -> Nodes:
    """Nodes of rows of a rank; -1 is none."""
    count, c = len(row), core.columns
    nodes = Nodes([None] * count, [""] * count, [""] * count, [""] * count)
    there = np.flatnonzero(row >= 0)
    rows = row[there]
    is_gpu = is_kind(c.kind[rows], GPU_KINDS)
    op = np.where(is_gpu, c.owner[rows], climb(c.parent, rows, core.once(_is_op)))
    module = climb(c.parent, rows, core.once(_is_module))
    for place, uid, name, of_op, of_module in zip(
        there.tolist(), c.uid[rows].tolist(), c.name[rows].tolist(), op.tolist(), module.tolist(), strict=True
    ):
        nodes.uid[place], nodes.name[place] = uid, core.names[name]
        nodes.op[place] = core.names[c.name[of_op]] if of_op >= 0 else ""
        nodes.module[place] = core.names[c.name[of_module]].removeprefix(_MODULE) if of_module >= 0 else ""
    return nodes


def _is_op(core: Core) -> Mask:
    return core.columns.kind == Kind.Op


def _is_module(core: Core) -> Mask:
    return core.columns.kind == Kind.Module


NO_CALL = "(no recorded call)"
"""What stands for host time in which no call is open."""


def named_segments(
    causes: Causes, core: Core, edge: Rows, start_ns: Ns, end_ns: Ns, kind: Codes
) -> tuple[Rows, Ns, Ns, Codes, Rows]:
    """Segments of a path on a rank, those of host time in pieces, and the row that stands for each; -1 for none.

    For host time that is the innermost call with more than half of the piece, for a launch or wait the call, else the
    GPU work.
    """
    before, after, of_edge = causes.before[edge], causes.after[edge], causes.kind[edge]
    rows = np.where(of_edge == Edge.launch, causes.row[before], causes.row[after])
    host = np.flatnonzero((of_edge == Edge.host) | (of_edge == Edge.call))
    thread, other = (core.columns.thread[causes.row[points[host]]] for points in (after, before))
    pieces = host_pieces(core, thread, start_ns[host] - causes.shift_ns, end_ns[host] - causes.shift_ns)
    none = pieces.row < 0  # where its own thread does nothing, the thread that it works for may
    span, begin, end, _ = (one[none] for one in pieces)
    more = host_pieces(core, other[span], begin, end)
    more = more._replace(span=span[more.span])
    pieces = Pieces(*(np.concatenate((one[~none], further)) for one, further in zip(pieces, more, strict=True)))
    rest = np.delete(np.arange(len(edge)), host)
    of = np.concatenate((rest, host[pieces.span]))
    order = np.lexsort((np.concatenate((start_ns[rest], pieces.start_ns)), of))
    made = (
        (start_ns, pieces.start_ns + causes.shift_ns), (end_ns, pieces.end_ns + causes.shift_ns), (rows, pieces.row)
    )  # fmt: skip
    start_ns, end_ns, rows = (np.concatenate((all_of[rest], cut))[order] for all_of, cut in made)
    return edge[of[order]], start_ns, end_ns, kind[of[order]], rows
