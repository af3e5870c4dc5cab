"""The few ways through the graph that analyses are made of, vectorised over rows.

All functions take the graph's columns and work on row numbers (positions in the columns), not uids.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tracelens_graph.graph.arrays import distinct, expanded, is_kind
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.intervals import union_length_by_group, union_length_by_range
from tracelens_graph.schema import FIRST_MADE_UID, GPU_KINDS, HOST_KINDS, Kind
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows


def rows_of_kind(columns: Columns, kinds: Iterable[Kind]) -> Rows:
    """Rows of nodes of these kinds, ascending."""
    return np.flatnonzero(is_kind(columns.kind, kinds))


def is_captured(columns: Columns) -> Mask:
    """For each row whether it is a call that a graph was captured with, below a replay: it took no host time there."""
    return (columns.uid >= FIRST_MADE_UID) & (columns.dur_ns == 0) & is_kind(columns.kind, HOST_KINDS)


def host_rows(columns: Columns) -> Rows:
    """Rows of the calls that the host made while the trace was recorded, ascending."""
    return np.flatnonzero(is_kind(columns.kind, HOST_KINDS) & ~is_captured(columns))


def gpu_rows(columns: Columns, linked_only: bool = False) -> Rows:
    """Rows of GPU events, ascending; with `linked_only` only those whose launch is in the trace."""
    rows = rows_of_kind(columns, GPU_KINDS)
    return rows[columns.parent[rows] >= 0] if linked_only else rows


def ancestors(columns: Columns, row: int) -> list[int]:
    """Rows above a row, the nearest first."""
    above, parent = [], columns.parent
    while (row := int(parent[row])) >= 0:
        above.append(row)
    return above


def children(columns: Columns, row: int) -> Rows:
    """Rows of the children of a row, ascending."""
    found, last = [], columns.last
    child, end = row + 1, int(last[row])
    while child <= end:  # from child to child, so that what lies below them is not looked at
        found.append(child)
        child = int(last[child]) + 1
    return np.array(found, np.int64)


_STEPS = 64
"""Levels that are climbed one by one; nearly all searches end before. From there on strides double."""


def climb(parent: Rows, rows: Rows, stop: Mask) -> Rows:
    """From each row upwards the first row, itself included, where `stop` holds; -1 where none does.

    Args:
        parent: row of the parent of every row, -1 for none.
        rows: where to begin; -1 stays -1.
        stop: for every row whether to stop there.
    """
    found = np.array(rows, np.int64)
    for _ in range(_STEPS):
        # -1 reads the last entry of `stop`, which the first test makes harmless.
        climbing = np.flatnonzero((found >= 0) & ~stop[found])
        if not len(climbing):
            return found
        found[climbing] = parent[found[climbing]]
    every = np.arange(len(parent))
    jump = np.append(np.where(stop[: len(parent)], every, parent), -1)  # the last entry is where -1 leads
    # Rows that stop point at themselves, so doubled strides never pass one.
    while not np.array_equal(further := jump[jump], jump):
        jump = further
    return jump[found]


def least_above(parent: Rows, rows: Rows, values: np.ndarray) -> np.ndarray:
    """For each row the least value of the row and of all rows above it.

    Args:
        parent: row of the parent of every row, -1 for none.
        rows: which rows; -1 is none.
        values: a value for every row.
    """
    found, least = np.array(rows, np.int64), values[rows]
    for _ in range(_STEPS):
        climbing = np.flatnonzero(found >= 0)
        if not len(climbing):
            return least
        least[climbing] = np.minimum(least[climbing], values[found[climbing]])
        found[climbing] = parent[found[climbing]]
    # The entry behind the last row stands for -1: it leads to itself, and is never the least.
    outer, lowest = np.append(parent, -1), np.append(values, np.iinfo(values.dtype).max)
    while (outer >= 0).any():
        lowest, outer = np.minimum(lowest, lowest[outer]), outer[outer]
    return np.minimum(least, lowest[found])


def nearest_above(columns: Columns, rows: Rows, kinds: Iterable[Kind]) -> Rows:
    """For each row the nearest ancestor of one of the kinds, -1 without one."""
    return climb(columns.parent, columns.parent[rows], is_kind(columns.kind, kinds))


def launches_of(columns: Columns, gpu: Rows) -> Rows:
    """For each GPU row the runtime call that launched it, -1 without one; of a replayed graph the launch of the graph.

    That is its parent, but where it hangs below a captured call.
    """
    launch = columns.parent[gpu]
    # A mask over all rows is made only where it is needed: this is asked once per device.
    below = np.flatnonzero((launch >= 0) & (columns.kind[launch] != Kind.RuntimeCall))
    if len(below):
        above = climb(columns.parent, launch[below], columns.kind == Kind.RuntimeCall)
        launch[below] = np.where(above >= 0, above, launch[below])
    return launch


def launcher(columns: Columns, rows: Rows) -> Rows:
    """For each GPU row the op it is charged to, else the runtime call that launched it; -1 without a launch."""
    owner = columns.owner[rows]
    return np.where(owner >= 0, owner, launches_of(columns, rows))


def busy_below(columns: Columns, rows: Rows, gpu: Rows) -> Ns:
    """For each row the length of the union of the given GPU events in its subtree, itself included, ns.

    Args:
        columns: the graph's columns.
        rows: rows to ask for.
        gpu: rows of GPU events, ascending.
    """
    low, high = np.searchsorted(gpu, rows, "left"), np.searchsorted(gpu, columns.last[rows], "right")
    width = len(gpu) + 1
    # A caller often holds the GPU work of its only callee: equal spans are measured once.
    spans, back = np.unique(low * width + high, return_inverse=True)
    low, high = spans // width, spans % width
    if int((high - low).sum()) > _EXPANDED * max(width, len(rows)):
        start = columns.start_ns[gpu]
        return union_length_by_range(start, start + columns.dur_ns[gpu], low, high)[back]
    busy = np.zeros(len(spans), np.int64)
    # Expanding every span to its events costs their total number; blocks keep the memory of it bounded.
    block = np.cumsum(high - low) // 4_000_000
    for number in distinct(block)[0].tolist():
        picked = np.flatnonzero(block == number)
        places, group = expanded(low[picked], high[picked])
        events = gpu[places]
        start = columns.start_ns[events]
        busy[picked] = union_length_by_group(group, start, start + columns.dur_ns[events], len(picked))
    return busy[back]


_EXPANDED = 64
"""How often an event may be looked at, once for each call above it, before deep stacks are gone about otherwise."""


def subtree_sums(columns: Columns, values: np.ndarray) -> np.ndarray:
    """For every row the sum of a value over its subtree, itself included."""
    running = np.concatenate(([0], np.cumsum(values)))
    return running[columns.last.astype(np.int64) + 1] - running[:-1]


def innermost_at(start: Ns, end: Ns, enclosing: Rows, at: Ns) -> Rows:
    """For each instant the innermost of nested intervals that hold it, -1 outside of all.

    Args:
        start, end: nested half-open intervals in pre-order; an empty one holds nothing.
        enclosing: position of the interval around each, -1 for none.
        at: the instants.
    """
    if not len(start):
        return np.full(len(at), -1, np.int64)
    found = np.searchsorted(start, at, "right").astype(np.int64) - 1
    return first_ending_after(end, enclosing, found, at)


def first_ending_after(end: Ns, enclosing: Rows, found: Rows, at: Ns) -> Rows:
    """From each interval outwards the first, itself included, that ends after an instant; -1 where none does.

    Args:
        end: end of every interval.
        enclosing: position of the interval around each, -1 for none.
        found: where to begin; -1 stays -1.
        at: the instants.
    """
    found = np.array(found, np.int64)
    for _ in range(_STEPS):
        outside = np.flatnonzero((found >= 0) & (end[found] <= at))
        if not len(outside):
            return found
        found[outside] = enclosing[found[outside]]
    # Strides of 1, 2, 4, ... intervals outwards, each with the latest end among those that it passes by.
    strides = [(np.append(enclosing, -1), end)]
    while (strides[-1][0] >= 0).any():
        outer, latest = strides[-1]
        further = np.where(outer[:-1] >= 0, latest[outer[:-1]], latest)
        strides.append((outer[outer], np.maximum(latest, further)))
    # Longest first, as in a binary search: what is left behind a stride is shorter than it.
    for outer, latest in reversed(strides):
        outside = np.flatnonzero((found >= 0) & (latest[found] <= at))
        found[outside] = outer[found[outside]]
    return found


def in_no_other(last: Rows, rows: Rows) -> Mask:
    """Which of ascending rows lie below no other of them."""
    # Subtrees nest or lie apart, so the furthest end of all rows before decides.
    return rows > np.maximum.accumulate(np.concatenate(([-1], last[rows])))[:-1]


def outermost_above(last: Rows, outer: Rows, rows: Rows) -> Rows:
    """For each row the outermost of some rows that it lies below, or is; -1 for none.

    Args:
        last: for every row of the graph the last one below it.
        outer: the rows, ascending.
        rows: the rows that are asked for.
    """
    if not len(outer):
        return np.full(len(rows), -1, np.int64)
    outer = outer[in_no_other(last, outer)]
    at = np.searchsorted(outer, rows, "right") - 1
    over = outer[np.maximum(at, 0)]
    return np.where((at >= 0) & (rows <= last[over]), over, -1)


def outermost(label: Codes, row: Rows, last: Rows) -> Rows:
    """Positions of the nodes that lie in no other node of their label, ascending.

    Args:
        label: a number for what each node is, from 0.
        row, last: rows of the nodes, and of their last descendants.
    """
    order = np.lexsort((row, label))
    label, row, last = label[order], row[order].astype(np.int64), last[order].astype(np.int64)
    if not len(order):
        return order
    # One running maximum for all labels: each gets a range of rows of its own.
    shift = label.astype(np.int64) * (int(last.max()) + 1)
    reach = np.maximum.accumulate(last + shift)
    outer = np.ones(len(order), bool)
    outer[1:] = (row + shift)[1:] > reach[:-1]
    return np.sort(order[outer])
