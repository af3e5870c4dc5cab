"""Gaps between paired leaves, moved to where they begin and end highest in the call tree."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.utils.arrays import Rows


def settle_gaps(forest: Forest, of: np.ndarray, of_other: np.ndarray, run: Rows) -> None:
    """Move the gaps of one side, in place.

    A gap moves past a leaf that equals the one at its other end, callers included: the pair goes from one to the other.

    Args:
        forest: the side.
        of: for each of its leaves the partner, -1 without one.
        of_other: the same for the other side.
        run: for each of its leaves -1; else it stands elsewhere on the other side, and no gap moves past it.
    """
    loose = np.flatnonzero(of < 0)
    if not len(loose):
        return
    root = forest.root
    # What stands elsewhere equals nothing.
    place = np.where(run < 0, forest.leaf_place, np.arange(forest.leaves).astype(np.uint64))
    starts = loose[np.flatnonzero(np.diff(loose, prepend=-2) != 1)].tolist()
    for start in starts:
        end = start
        while end < forest.leaves and of[end] < 0 and root[end] == root[start]:
            end += 1
        length = end - start
        down = 0
        while _may_move(place, root, of, start + down, end + down):
            down += 1
        up = 0
        while start - up > 0 and _may_move(place, root, of, end - up - 1, start - up - 1):
            up += 1
        if not (up or down):
            continue
        moves = sorted(range(-up, down + 1), key=lambda move: (_cut(forest, start + move, length), abs(move), move))
        _move(of, of_other, start, end, moves[0])


def _may_move(place: np.ndarray, root: np.ndarray, of: np.ndarray, loose: int, paired: int) -> bool:
    """Whether a leaf in a gap may take the partner of the one behind or before it."""
    inside = paired < len(of) and of[paired] >= 0
    return bool(inside and place[loose] == place[paired] and root[loose] == root[paired])


def _move(of: np.ndarray, of_other: np.ndarray, start: int, end: int, move: int) -> None:
    length = end - start
    from_leaves = range(end, end + move) if move > 0 else range(start - 1, start - 1 + move, -1)
    for leaf in from_leaves:
        to = leaf - length if move > 0 else leaf + length
        of[to], of[leaf] = of[leaf], -1
        of_other[of[to]] = to


def _cut(forest: Forest, start: int, length: int) -> int:
    """How deep in the tree a gap begins or ends, whichever is deeper: depth of the lowest node around that place."""
    return max(_depth_between(forest, start), _depth_between(forest, start + length))


def _depth_between(forest: Forest, leaf: int) -> int:
    """Depth of the lowest node around a leaf and the one before it, 0 for roots and ends."""
    if leaf <= 0 or leaf >= forest.leaves:
        return 0
    node = int(forest.leaf_parent[leaf])
    while node >= 0 and forest.low[node] > leaf - 1:
        node = int(forest.parent[node])
    row = int(forest.row[node]) if node >= 0 else -1
    return int(forest.window.core.columns.depth[row]) + 1 if row >= 0 else 0
