"""The call forest: which host event was called by which, from start and duration alone.

Rules (docs/architecture.md): intervals are half-open; an event of zero length lies inside [s, e) if
s <= t < e and is never a parent but of equal zero-length ones. An event that starts inside an open event and
outlives it is its child if at least half of it lies inside, else its sibling; either way it is flagged, and for
nesting its end is cut to its parent's, so that nobody has an ancestor that ended before it began.

Nearly all events nest properly, and for these depth, parent and last descendant come from sorting alone. Only
the stretches around an event that crosses its parent's end are walked with a stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows


@dataclass(frozen=True)
class Forest:
    """A forest in pre-order: the subtree of row i is the rows i..last[i].

    Attributes:
        order: input position of each row.
        parent: row of the parent, -1 for a root.
        last: row of the last descendant, the row itself for a leaf.
        depth: number of ancestors.
        outlives: whether the event ends after the event it started in.
    """

    order: Rows
    parent: Rows
    last: Rows
    depth: np.ndarray
    outlives: Mask


def build_forest(group: Codes, start: Ns, dur: Ns, rank: np.ndarray, rows: Rows | None = None) -> Forest:
    """The call forest of events, one set of trees per group.

    Args:
        group: thread of each event, small non-negative numbers; groups come out in ascending order.
        start: start, ns.
        dur: duration, ns, not negative.
        rank: who goes outside when start and duration are equal: the lower rank, then who comes first here.
        rows: which events of these arrays count; all without it. `Forest.order` gives positions in it.
    """
    count = len(start) if rows is None else len(rows)
    groups = int(group.max()) + 1 if count else 0
    # Each group is picked by a pass over all events, so many groups are cheaper together.
    if count < _LARGE or groups > _FEW:
        return _forest(*((group, start, dur, rank) if rows is None else (c[rows] for c in (group, start, dur, rank))))
    # Trees of one group after the other: what is needed on the way takes several times the memory of the result.
    order, parent, last, depth = (np.empty(count, np.int32) for _ in range(4))
    outlives = np.empty(count, bool)
    first = 0
    for one in range(groups):
        here = np.flatnonzero((group if rows is None else group[rows]) == one).astype(np.int32)
        picked = here if rows is None else rows[here]
        part = _forest(group[picked], start[picked], dur[picked], rank[picked])
        there = slice(first, first + len(here))
        order[there] = here[part.order]
        # Roots keep -1: shifted, they would point at the last row of the group before.
        parent[there] = np.where(part.parent >= 0, part.parent + np.int32(first), np.int32(-1))
        last[there] = part.last + np.int32(first)
        depth[there], outlives[there] = part.depth, part.outlives
        first += len(here)
    return Forest(order, parent, last, depth, outlives)


_LARGE, _FEW = 1 << 18, 64
"""Events from which on, and groups up to which, trees are made group by group."""


def _forest(group: Codes, start: Ns, dur: Ns, rank: np.ndarray) -> Forest:
    count = len(start)
    if not count:
        none = np.zeros(0, np.int64)
        return Forest(none, none, none, none, np.zeros(0, bool))
    order = _nesting_order(group, start, dur, rank).astype(np.int32)
    del rank
    group, start, dur = group[order], start[order], dur[order]
    begin, end, reach = _line_up(group, start, dur)
    del group, start, dur
    # With proper nesting an event's depth is the number of earlier events that have not ended yet.
    depth = np.arange(count, dtype=np.int32)
    depth -= _places(np.sort(reach), begin, "right")
    last = _places(begin, reach, "left")
    last -= 1
    parent = _parents(depth)
    outlives = np.zeros(count, bool)
    crossing = np.flatnonzero((parent >= 0) & (end > end[parent]))
    if len(crossing):
        _repair_crossings(crossing, begin, end, reach, parent, last, depth, outlives)
    return Forest(order, parent, last, depth, outlives)


def _places(ascending: np.ndarray, values: np.ndarray, side: Literal["left", "right"]) -> np.ndarray:
    """What `numpy.searchsorted` gives, in half of the memory."""
    found = np.empty(len(values), np.int32)
    for first in range(0, len(values), _SLICE):
        here = slice(first, first + _SLICE)
        found[here] = np.searchsorted(ascending, values[here], side=side)
    return found


_SLICE = 1 << 18


def _nesting_order(group: Codes, start: Ns, dur: Ns, rank: np.ndarray) -> np.ndarray:
    """Positions by group, start, longer first, rank, position."""
    low = int(start.min())
    span = int(start.max()) - low + 1
    if (int(group.max()) + 1) * span >= 2**62:
        return np.lexsort((rank, -dur, start, group))
    key = group.astype(np.int64) * span
    key += start - low
    order = np.argsort(key, kind="stable")
    key = key[order]
    same = key[1:] == key[:-1]
    if same.any():
        tied = np.zeros(len(key), bool)
        tied[1:] |= same
        tied[:-1] |= same
        rows = np.flatnonzero(tied)
        picked = order[rows]
        # Tied rows are in order of position by now, and `lexsort` keeps that where all else is equal.
        order[rows] = picked[np.lexsort((rank[picked], -dur[picked], key[rows]))]
    return order


def _line_up(group: Codes, start: Ns, dur: Ns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, end and end for nesting on one axis on which groups follow one another.

    Times are doubled, so that a zero-length event can reach half a nanosecond: then it lies inside what holds
    its instant, and holds nothing but its equals.
    """
    low = int(start.min())
    span = 2 * (int((start + dur).max()) - low) + 2
    groups = int(group.max()) + 1
    if groups * span >= 2**62:
        # Absurd times (overflowed clocks): ranks keep the order, and only the order matters for nesting;
        # halves are then measured in ranks, which is as good as such times deserve.
        instants, ranks = np.unique(np.concatenate((start, start + dur)), return_inverse=True)
        start, dur = ranks[: len(start)], ranks[len(start) :] - ranks[: len(start)]
        low, span = 0, 2 * len(instants) + 2
    begin = group.astype(np.int64)
    begin *= span
    for _ in range(2):
        begin += start
    begin -= 2 * low
    end = begin + dur
    end += dur
    return begin, end, np.maximum(end, begin + 1)


def _parents(depth: np.ndarray) -> np.ndarray:
    """Parent rows from depths in pre-order: the nearest earlier row one level up."""
    count, deepest = len(depth), int(depth.max())
    # Sixteen bits are sorted by radix, in one pass over the rows.
    # It is stable: the rows of one level are searched below, and must ascend.
    rows = np.argsort(depth.astype(np.int16) if deepest < 2**15 else depth, kind="stable").astype(np.int32)
    parent = np.full(count, -1, np.int32)
    if deepest < _LEVELS:
        edges = np.searchsorted(depth[rows], np.arange(deepest + 2))
        for level in range(1, len(edges) - 1):
            above = rows[edges[level - 1] : edges[level]]
            here = rows[edges[level] : edges[level + 1]]
            parent[here] = above[_places(above, here, "left") - 1]
        return parent
    # Recursion makes deep stacks, and a pass per level would be slow: one key holds level and row.
    key = depth[rows].astype(np.int64) * count + rows
    inner = np.searchsorted(key, count)  # the first row that has a parent
    parent[rows[inner:]] = rows[np.searchsorted(key, key[inner:] - count) - 1]
    return parent


_LEVELS = 1000
"""Levels that are gone through one by one."""


def _repair_crossings(
    crossing: np.ndarray,
    begin: Ns,
    end: Ns,
    reach: Ns,
    parent: Rows,
    last: Rows,
    depth: np.ndarray,
    outlives: Mask,
) -> None:
    """Walk the stretches behind crossing events with a stack and correct their rows in place."""
    done = -1
    for row in crossing.tolist():
        if row <= done:
            continue
        first, stop = int(parent[row]), row + 1
        bound, reached = end[row], max(reach[row], reach[first])
        while True:
            # What is open at the event: up to the outermost that ends too early, below one that covers it all.
            while parent[first] >= 0 and end[parent[first]] < bound:
                first = int(parent[first])
                reached = max(reached, reach[first])
            # What begins before all of it has ended: each row is looked at once.
            while (further := int(np.searchsorted(begin, reached))) > stop:
                bound, reached = max(bound, end[stop:further].max()), max(reached, reach[stop:further].max())
                stop = further
            if parent[first] < 0 or bound <= end[parent[first]]:
                break
        opened = [row]
        while opened[-1] != first:
            opened.append(int(parent[opened[-1]]))
        stack = [(above, int(end[above]), int(reach[above])) for above in reversed(opened[1:])]
        outlives[row:stop] = False
        _walk(row, stop, stack, begin, end, reach, parent, last, depth, outlives)
        done = stop - 1


def _walk(
    first: int,
    stop: int,
    stack: list[tuple[int, int, int]],
    begin: Ns,
    end: Ns,
    reach: Ns,
    parent: Rows,
    last: Rows,
    depth: np.ndarray,
    outlives: Mask,
) -> None:
    """The rule itself, event by event, for the rows first..stop-1.

    `stack` holds what is open at `first`: row, end and end for nesting, the two ends cut to the parent's.
    """
    base, above = int(depth[stack[0][0]]), int(parent[stack[0][0]])
    starts, ends, reaches = (column[first:stop].tolist() for column in (begin, end, reach))
    for offset in range(stop - first):
        row, this_start, this_end, this_reach = first + offset, starts[offset], ends[offset], reaches[offset]
        while stack and stack[-1][2] <= this_start:
            last[stack.pop()[0]] = row - 1
        while stack and this_end > stack[-1][1]:
            outlives[row] = True
            inside = stack[-1][1] - this_start
            if 2 * inside >= ends[offset] - this_start:
                this_end = stack[-1][1]
                this_reach = max(this_end, this_start + 1)
            else:
                last[stack.pop()[0]] = row - 1
        parent[row] = stack[-1][0] if stack else above
        depth[row] = base + len(stack)
        stack.append((row, this_end, this_reach))
    # A stretch goes on until all that is open in it has ended, so nothing behind it can lie below these.
    for row, _, _ in stack:
        last[row] = stop - 1
