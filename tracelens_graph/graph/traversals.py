"""The few ways through the graph that analyses are made of, vectorised over rows.

All functions take the graph's columns and work on row numbers (positions in the columns), not uids.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tracelens_graph.graph.columns import Columns
from tracelens_graph.schema import GPU_KINDS, Kind


def rows_of_kind(columns: Columns, kinds: Iterable[Kind]) -> np.ndarray:
    """Rows of nodes of these kinds, ascending."""
    table = np.zeros(256, bool)
    table[list(kinds)] = True
    return np.flatnonzero(table[columns.kind])


def gpu_rows(columns: Columns, linked_only: bool = False) -> np.ndarray:
    """Rows of GPU events, ascending; with `linked_only` only those whose launch is in the trace."""
    rows = rows_of_kind(columns, GPU_KINDS)
    return rows[columns.parent[rows] >= 0] if linked_only else rows


def ancestors(columns: Columns, row: int) -> list[int]:
    """Rows above a row, the nearest first."""
    above, parent = [], columns.parent
    while (row := int(parent[row])) >= 0:
        above.append(row)
    return above


def children(columns: Columns, row: int) -> np.ndarray:
    """Rows of the children of a row, ascending."""
    inside = np.arange(row + 1, int(columns.last[row]) + 1)
    return inside[columns.parent[inside] == row]


def nearest_above(columns: Columns, rows: np.ndarray, kinds: Iterable[Kind], or_self: bool = False) -> np.ndarray:
    """For each row the nearest ancestor of one of the kinds, -1 without one."""
    wanted = np.zeros(256, bool)
    wanted[list(kinds)] = True
    parent, kind = columns.parent, columns.kind
    found = np.array(rows if or_self else parent[rows], np.int64)
    while True:
        climbing = np.flatnonzero((found >= 0) & ~wanted[kind[found]])
        if not len(climbing):
            return found
        found[climbing] = parent[found[climbing]]


def launcher(columns: Columns, rows: np.ndarray) -> np.ndarray:
    """For each GPU row the op it is launched by, else the runtime call itself; -1 without a launch.

    From the runtime call upwards Python frames are passed over; the first op is the launcher, any other runtime
    call in between ends the search.
    """
    parent, kind = columns.parent, columns.kind
    call = parent[rows].astype(np.int64)
    calls, back = np.unique(call, return_inverse=True)
    found = np.where(calls >= 0, parent[calls], -1).astype(np.int64)
    while True:
        climbing = np.flatnonzero((found >= 0) & (kind[found] <= Kind.PythonFunction))
        if not len(climbing):
            break
        found[climbing] = parent[found[climbing]]
    is_op = (found >= 0) & (kind[found] == Kind.Op)
    return np.where(is_op, found, calls)[back]


def subtree_sums(columns: Columns, values: np.ndarray) -> np.ndarray:
    """For every row the sum of a value over its subtree, itself included."""
    running = np.concatenate(([0], np.cumsum(values)))
    return running[columns.last.astype(np.int64) + 1] - running[:-1]


def innermost_at(start: np.ndarray, end: np.ndarray, enclosing: np.ndarray, at: np.ndarray) -> np.ndarray:
    """For each instant the innermost of nested intervals that hold it, -1 outside of all.

    Args:
        start, end: nested half-open intervals in pre-order; an empty one holds nothing.
        enclosing: position of the interval around each, -1 for none.
        at: the instants.
    """
    if not len(start):
        return np.full(len(at), -1, np.int64)
    found = np.searchsorted(start, at, "right").astype(np.int64) - 1
    while True:
        outside = np.flatnonzero((found >= 0) & (end[found] <= at))
        if not len(outside):
            return found
        found[outside] = enclosing[found[outside]]
