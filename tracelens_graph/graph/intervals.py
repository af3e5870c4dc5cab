"""Arithmetic of half-open intervals [start, end), vectorised and exact in integer nanoseconds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

Intervals = tuple[np.ndarray, np.ndarray]
"""Starts and ends of disjoint intervals in ascending order."""


def merge(start: np.ndarray, end: np.ndarray) -> Intervals:
    """The union of intervals as disjoint intervals; those that touch become one, empty ones vanish."""
    solid = end > start
    start, end = start[solid], end[solid]
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.empty(len(start), bool)
    first[0] = True
    np.greater(start[1:], reach[:-1], out=first[1:])
    begins = np.flatnonzero(first)
    return start[begins], reach[np.append(begins[1:], len(start)) - 1]


def length(intervals: Intervals) -> int:
    """Total length of disjoint intervals."""
    return int((intervals[1] - intervals[0]).sum())


def union_length(start: np.ndarray, end: np.ndarray) -> int:
    """Length of the union of intervals: the busy time of what they cover."""
    return length(merge(start, end))


def length_before(intervals: Intervals, at: np.ndarray) -> np.ndarray:
    """How much of disjoint intervals lies before each of some instants."""
    start, end = intervals
    running = np.concatenate(([0], np.cumsum(end - start)))
    begun = np.searchsorted(start, at, "right")
    unfinished = np.where(begun > 0, np.maximum(np.append(end, 0)[begun - 1] - at, 0), 0)
    found: np.ndarray = running[begun] - unfinished
    return found


def gaps(intervals: Intervals) -> Intervals:
    """The holes between disjoint intervals."""
    return intervals[1][:-1], intervals[0][1:]


def union_length_by_group(group: np.ndarray, start: np.ndarray, end: np.ndarray, groups: int) -> np.ndarray:
    """Length of the union of the intervals of each group.

    Args:
        group: group of each interval, 0 <= group < groups.
        groups: number of groups; the result has that many entries, 0 for a group without intervals.
    """
    if not len(start):
        return np.zeros(groups, np.int64)
    order = np.lexsort((start, group))
    group, start, end = group[order], start[order], end[order]
    # Each group gets a range of its own, so that one running maximum serves all groups.
    low = int(start.min())
    span = int(end.max()) - low + 1
    if groups * span >= 2**62:
        return _union_length_by_loop(group, start, end, groups)
    shift = group.astype(np.int64) * span - low
    reach = np.maximum.accumulate(end + shift)
    covered = np.empty_like(reach)
    covered[0] = start[0] + shift[0]
    np.maximum(start[1:] + shift[1:], reach[:-1], out=covered[1:])
    fresh = np.maximum(end + shift - covered, 0)
    return sum_by_group(group, fresh, groups)


def sum_by_group(group: np.ndarray, values: np.ndarray, groups: int) -> np.ndarray:
    """Sum of integer values per group, 0 <= group < groups, exact."""
    if len(values) and len(values) * int(np.abs(values).max()) < 2**53:  # floats hold these sums exactly
        return np.bincount(group, weights=values, minlength=groups).astype(np.int64)
    order = np.argsort(group, kind="stable")
    running = np.concatenate(([0], np.cumsum(values[order])))
    return np.diff(running[np.searchsorted(group[order], np.arange(groups + 1))])


def _union_length_by_loop(group: np.ndarray, start: np.ndarray, end: np.ndarray, groups: int) -> np.ndarray:
    edges = np.searchsorted(group, np.arange(groups + 1))
    return np.array([union_length(start[a:b], end[a:b]) for a, b in pairwise(edges.tolist())], np.int64)
