"""Arithmetic of half-open intervals [start, end), vectorised and exact in integer nanoseconds."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

import numpy as np

from tracelens_graph.utils.arrays import Codes, Ns

Intervals = tuple[Ns, Ns]
"""Starts and ends of disjoint intervals in ascending order."""


def merge(start: Ns, end: Ns) -> Intervals:
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
    # The running maximum, not the last end: an earlier interval of a run may reach furthest.
    return start[begins], reach[np.append(begins[1:], len(start)) - 1]


def union(*several: Intervals) -> Intervals:
    """What any of several sets of disjoint intervals covers."""
    return merge(*(np.concatenate(edges) for edges in zip(*several, strict=True)))


def length(intervals: Intervals) -> int:
    """Total length of disjoint intervals."""
    return int((intervals[1] - intervals[0]).sum())


def union_length(start: Ns, end: Ns) -> int:
    """Length of the union of intervals: the busy time of what they cover."""
    return length(merge(start, end))


def length_before(intervals: Intervals, at: Ns) -> Ns:
    """How much of disjoint intervals lies before each of some instants."""
    start, end = intervals
    running = np.concatenate(([0], np.cumsum(end - start)))
    begun = np.searchsorted(start, at, "right")
    # The entry appended is looked up, and its result dropped, where nothing has begun or nothing is there.
    unfinished = np.where(begun > 0, np.maximum(np.append(end, 0)[begun - 1] - at, 0), 0)
    return running[begun] - unfinished


def sum_before(start: Ns, end: Ns, at: Ns) -> Ns:
    """How much of some intervals, which may overlap, lies before each of some instants, summed over them."""
    found = np.zeros(len(at), np.int64)
    for edge, sign in ((np.sort(start), 1), (np.sort(end), -1)):
        before = np.searchsorted(edge, at)
        total = np.concatenate(([0], np.cumsum(edge)))[before]
        found += sign * (before * at - total)
    return found


def overlapping(intervals: Intervals, begin: int, end: int) -> Intervals:
    """Those of disjoint intervals that have a part in a stretch of time."""
    first, stop = np.searchsorted(intervals[1], begin, "right"), np.searchsorted(intervals[0], end)
    return intervals[0][first:stop], intervals[1][first:stop]


def gaps(intervals: Intervals) -> Intervals:
    """The holes between disjoint intervals."""
    return intervals[1][:-1], intervals[0][1:]


def union_length_by_group(group: Codes, start: Ns, end: Ns, groups: int) -> Ns:
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


def sum_by_group(group: Codes, values: np.ndarray, groups: int) -> np.ndarray:
    """Sum of integer values per group, 0 <= group < groups, exact."""
    if len(values) and len(values) * int(np.abs(values).max()) < 2**53:  # floats hold these sums exactly
        return np.bincount(group, weights=values, minlength=groups).astype(np.int64)
    order = np.argsort(group, kind="stable")
    # Prefix sums of integers are exact where the floats of `bincount` would round.
    running = np.concatenate(([0], np.cumsum(values[order])))
    return np.diff(running[np.searchsorted(group[order], np.arange(groups + 1))])


def _union_length_by_loop(group: Codes, start: Ns, end: Ns, groups: int) -> Ns:
    edges = np.searchsorted(group, np.arange(groups + 1))
    return np.array([union_length(start[a:b], end[a:b]) for a, b in pairwise(edges.tolist())], np.int64)


def union_length_by_range(start: Ns, end: Ns, low: np.ndarray, high: np.ndarray) -> Ns:
    """Length of the union of the intervals at positions low..high-1, for many such ranges; they may share intervals.

    An instant is covered by a range if the first interval that holds it, of those from `low` on, stands before `high`.
    So each stretch of time during which interval j is the next behind interval i of those that run counts for the
    ranges that begin behind i, and hold j. There are at most two such stretches per start and end, whatever overlaps.
    """
    before, position, stretch = _stretches(start, end)
    order = np.argsort(position, kind="stable")
    before, position, stretch = before[order] + 1, position[order], stretch[order]
    first, last = np.searchsorted(position, low), np.searchsorted(position, high)
    return _sum_of_smaller(before, stretch, first, last, low)


def _stretches(start: Ns, end: Ns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Neighbours among the intervals that run at one time: positions (-1 for none) of both, and for how long, ns."""
    solid = np.flatnonzero(end > start)
    time = np.concatenate((end[solid], start[solid]))
    order = np.argsort(time, kind="stable")  # what ends goes before what starts
    which = np.concatenate((solid, solid))[order].tolist()
    running: list[int] = []
    since = [0] * len(start)
    found: list[tuple[int, int, int]] = []

    def ends(before: int, position: int, at: int) -> None:
        if at > since[position]:
            found.append((before, position, at - since[position]))
        since[position] = at

    for at, position, starts in zip(time[order].tolist(), which, (order >= len(solid)).tolist(), strict=True):
        place = bisect_left(running, position)
        before = running[place - 1] if place else -1
        if starts:
            running.insert(place, position)
            since[position] = at
        else:
            del running[place]
            ends(before, position, at)
        behind = running[place + starts] if place + starts < len(running) else -1
        if behind >= 0:
            ends(position if not starts else before, behind, at)
    table = np.array(found, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _sum_of_smaller(
    keys: np.ndarray, values: np.ndarray, first: np.ndarray, last: np.ndarray, bound: np.ndarray
) -> np.ndarray:
    """For many ranges first..last-1 the sum of the values whose keys are at most a bound of the range's own.

    The keys are parted by their bits, the highest first, each time in order: what lies in a range stays in one.
    """
    total = np.zeros(len(bound), np.int64)
    bits = max(int(keys.max(initial=0)), int(bound.max(initial=0)) + 1).bit_length()
    bound = bound + 1
    for bit in reversed(range(bits)):
        low_half = (keys >> bit & 1) == 0
        lower = np.concatenate(([0], np.cumsum(low_half)))
        running = np.concatenate(([0], np.cumsum(np.where(low_half, values, 0))))
        upper = (bound >> bit & 1) == 1
        # Higher bits are equal here: where the bound has this one, all keys without it are smaller.
        total += np.where(upper, running[last] - running[first], 0)
        first, last = (np.where(upper, lower[-1] + edge - lower[edge], lower[edge]) for edge in (first, last))
        order = np.concatenate((np.flatnonzero(low_half), np.flatnonzero(~low_half)))
        keys, values = keys[order], values[order]
    return total
