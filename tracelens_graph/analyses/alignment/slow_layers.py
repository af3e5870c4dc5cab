"""Layers that take another time than their equals: their work is a place of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log

import numpy as np

from tracelens_graph.analyses.alignment.align import Alignment
from tracelens_graph.analyses.alignment.divergence_points import Point, around_both
from tracelens_graph.analyses.alignment.layers import Among, Layers, Odd, odd_points
from tracelens_graph.analyses.alignment.places import Place

_OF_LAYER = 0.5
"""Share of the time of a layer, or of the part of it that holds what is slow, that must take another time."""
_LIKE_LAYER = 0.5
"""Share of the ratio of slow layers, as logarithm, by which work in them changes that is part of the cause."""


def with_slow_layers(places: list[Place], alignment: Alignment, layers: Layers) -> list[Place]:
    """The places, of which those say so whose points take another time in few of many layers, or calls.

    What is so at several places is one place with all that these layers do.
    """
    is_of_time = [_is_of_time(place, alignment) for place in places]
    odd = {at: found for at, place in enumerate(places)
           if is_of_time[at] and (found := odd_points(place.points, place.change_ns, layers)) is not None}  # fmt: skip
    alike = [at for at, place in enumerate(places) if is_of_time[at] and place.is_alike]
    groups: dict[tuple[str, ...], list[int]] = {}
    for at in alike:
        if at in odd and odd[at].among.names:
            groups.setdefault(tuple(odd[at].among.names), []).append(at)
    left = list(places)
    for members in groups.values():
        _take_out(left, [at for at in members if left[at] is places[at]], odd, alike, alignment, layers)
    for at, one in odd.items():
        if one.explain and left[at] is places[at] and left[at].among is None:
            left[at] = replace(places[at], among=one.among)
    return [place for place in left if place.points]


def _is_of_time(place: Place, alignment: Alignment) -> bool:
    """Whether both sides make the same calls at a place, with the same arguments."""
    if place.names[0] != place.names[1] or not all(place.kernels) or place.points[0].is_moved:
        return False
    a, b = alignment.sides
    leaves = np.array(place.leaves(0), np.int64)
    partner = alignment.leaves[0][leaves]
    return bool((a.leaf_args[leaves] == b.leaf_args[partner])[partner >= 0].all())


def _take_out(
    places: list[Place], members: Sequence[int], odd: Mapping[int, Odd], alike: Sequence[int], alignment: Alignment,
    layers: Layers,
) -> None:  # fmt: skip
    """Take what some layers do out of the places, as one, unless most of it is as in the others.

    Args:
        places: all places; in place.
        members: those whose points stand out in these layers.
        odd: the points of all that stand out in some.
        alike: which places run the same calls and kernels on both sides.
        layers: the modules of the first side.
    """
    if len(members) < 2:
        return
    among = max((odd[at].among for at in members), key=lambda one: one.of)
    first = [places[at].points[point].leaves[0][0] for at in members for point in odd[at].points.tolist()]
    path, of, among = layers.innermost(np.array(first, np.int64), among)
    if not path:
        return
    inside = {at: [point for point in places[at].points if of[point.leaves[0][0]] >= 0] for at in alike}
    taken = {at: points for at, points in inside.items() if _are_as_slow(points, among)}
    ns = [sum(point.ns[0] for points in parts.values() for point in points) for parts in (taken, inside)]
    if ns[0] < _OF_LAYER * ns[1]:
        return
    parts: dict[int, list[Point]] = {}
    for points in taken.values():
        for point in points:
            parts.setdefault(int(of[point.leaves[0][0]]), []).append(point)
    for at, points in taken.items():
        gone = {*map(id, points)}
        places[at] = places[at].with_points([one for one in places[at].points if id(one) not in gone], alignment.sides)
    whole = [_as_one(points, alignment) for points in parts.values()]
    before, after = (sum(point.ns[side] for point in whole) for side in range(2))
    *modules, own = path
    called = f"nn.Module: {own}"
    place = Place(
        tuple(modules), False, (called, called), (), (0, 0), ({}, {}), among=among._replace(ratio=after / before)
    )
    places.append(place.with_points(whole, alignment.sides))


def _are_as_slow(points: Sequence[Point], among: Among) -> bool:
    """Whether what slow layers do at a place takes another time as their other work does."""
    before, after = (sum(point.ns[side] for point in points) for side in range(2))
    if not before or not after or among.ratio is None:
        return False
    return log(after / before / among.others) / log(among.ratio / among.others) > _LIKE_LAYER


def _as_one(points: Sequence[Point], alignment: Alignment) -> Point:
    """The points of one module as one."""
    first, second = (sorted(leaf for point in points for leaf in point.leaves[side]) for side in range(2))
    ns = sum(point.ns[0] for point in points), sum(point.ns[1] for point in points)
    start = points[0].container[0]
    return Point(around_both(alignment.sides, alignment.nodes[0], start, (first, second)), (first, second), ns)
