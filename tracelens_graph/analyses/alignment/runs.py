"""GPU events that one op launched in a row are one leaf, but each a leaf of its own in a graph's replay."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.points import Point
from tracelens_graph.schema import Kind


def with_whole_runs(
    points: list[Point], sides: tuple[Forest, Forest], leaves: tuple[np.ndarray, np.ndarray]
) -> list[Point]:
    """The points, in which the neighbours of a replayed kernel stand with it where its partner is a run that has them.

    Args:
        points: every leaf lies in one.
        sides: the forests.
        leaves: for each leaf of either side its partner, -1 without one.
    """
    moved: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for side in range(2):
        forest, other, partner = sides[side], sides[1 - side], leaves[side]
        row = forest.row[forest.leaf_parent]
        kind = forest.window.core.columns.kind[np.maximum(row, 0)]
        is_replayed = (row >= 0) & (kind == Kind.RuntimeCall)
        size = np.diff(other.first_event)
        paired = np.flatnonzero(is_replayed & (partner >= 0))
        for leaf in paired[size[partner[paired]] > 1].tolist():
            names = [other.event_name(row) for row in other.events_of(int(partner[leaf])).tolist()]
            own = forest.event_name(int(forest.events_of(leaf)[0]))
            place = names.index(own) if own in names else None
            if place is None:
                continue
            for near, name in enumerate(names, leaf - place):
                is_free = 0 <= near < forest.leaves and is_replayed[near] and partner[near] < 0
                if is_free and forest.event_name(int(forest.events_of(near)[0])) == name:
                    moved[side].setdefault(near, leaf)
    if not any(moved):
        return points
    return _moved(points, sides, moved)


def _moved(
    points: list[Point], sides: tuple[Forest, Forest], moved: tuple[dict[int, int], dict[int, int]]
) -> list[Point]:
    of: tuple[dict[int, Point], dict[int, Point]] = ({}, {})
    for point in points:
        for side in range(2):
            of[side].update(dict.fromkeys(point.leaves[side], point))
    for side in range(2):
        for leaf, to in moved[side].items():
            of[side][leaf].leaves[side].remove(leaf)
            of[side][to].leaves[side].append(leaf)
    for point in points:
        for side in range(2):
            point.leaves[side].sort()
        first, second = (int(forest.ns[point.leaves[side]].sum()) for side, forest in enumerate(sides))
        point.ns = first, second
    return [point for point in points if any(point.leaves)]
