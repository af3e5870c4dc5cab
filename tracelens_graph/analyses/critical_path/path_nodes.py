"""Which nodes stand for the segments of a critical path, and in which call a thread spent most of some time."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.points import Edge
from tracelens_graph.graph.arrays import is_kind, positions_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import climb, host_rows, least_above
from tracelens_graph.schema import GPU_KINDS, Flag, Kind
from tracelens_graph.utils.arrays import Mask, Ns, Rows


def longest_calls(core: Core, thread: np.ndarray, start_ns: np.ndarray, end_ns: np.ndarray) -> np.ndarray:
    """For each span the row of the innermost call with most of its time; -1 where no call was open.

    Args:
        core: the graph.
        thread: code of the thread of each span.
        start_ns, end_ns: the spans; those of one thread do not overlap.
    """
    found, timelines = np.full(len(thread), -1, np.int64), core.once(_Timelines)
    for code, spans in positions_by(thread):
        found[spans] = _most_of(*timelines.of(code), start_ns[spans], end_ns[spans])
    return found


class _Timelines:
    """Which call of a thread is the innermost at each moment; sorted once a thread, for all paths over it."""

    def __init__(self, core: Core) -> None:
        self._core, c = core, core.columns
        hosts = host_rows(c)
        hosts = hosts[c.dur_ns[hosts] > 0]
        self._rows = {code: hosts[own] for code, own in positions_by(c.thread[hosts])}
        self.of = cache(self._of)

    def _of(self, thread: int) -> tuple[Ns, Rows]:
        return innermost_calls(self._core, self._rows.get(thread, np.zeros(0, np.int64)))


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


def _most_of(times: np.ndarray, inside: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    first = np.maximum(np.searchsorted(times, start, "right") - 1, 0)
    count = np.maximum(np.searchsorted(times, end, "left") - first, 0)
    span = np.repeat(np.arange(len(start)), count)
    at = np.arange(len(span)) - np.repeat(np.cumsum(count) - count, count) + first[span]
    until = np.append(times[1:], times[-1:])
    length = np.minimum(until[at], end[span]) - np.maximum(times[at], start[span])
    known = (length > 0) & (inside[at] >= 0)
    span, row, length = span[known], inside[at][known], length[known]
    found = np.full(len(start), -1, np.int64)
    if not len(span):
        return found
    order = np.lexsort((row, span))
    span, row, length = span[order], row[order], length[order]
    new = np.ones(len(span), bool)
    new[1:] = (span[1:] != span[:-1]) | (row[1:] != row[:-1])
    group = np.cumsum(new) - 1
    total = sum_by_group(group, length, int(group[-1]) + 1)
    span, row = span[new], row[new]
    best = np.lexsort((-row, total, span))  # of equal ones the outermost stands last
    last = best[np.flatnonzero(np.diff(span[best], append=len(start)))]
    found[span[last]] = row[last]
    return found


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


def segment_rows(causes: Causes, core: Core, edge: Rows, start_ns: Ns, end_ns: Ns) -> Rows:
    """Per segment of a path on a rank the row of the node that stands for it; -1 for none.

    Of host time it is the innermost call with most of it, of a launch or wait the call, else the GPU work.
    """
    before, after, kind = causes.before[edge], causes.after[edge], causes.kind[edge]
    rows = np.where(kind == Edge.launch, causes.row[before], causes.row[after])
    left = np.flatnonzero((kind == Edge.host) | (kind == Edge.call))
    shift = causes.shift_ns
    for point in (after, before):  # where its own thread does nothing, the thread that it works for does
        thread = core.columns.thread[causes.row[point[left]]]
        found = longest_calls(core, thread, start_ns[left] - shift, end_ns[left] - shift)
        rows[left[found >= 0]] = found[found >= 0]
        left = left[found < 0]
    return rows
