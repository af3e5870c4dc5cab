"""The points of an alignment, grouped by where they stand in the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log

import numpy as np

from tracelens_graph.analyses.alignment.align import Alignment
from tracelens_graph.analyses.alignment.contexts import Context, Contexts
from tracelens_graph.analyses.alignment.divergence_points import Point, around_both
from tracelens_graph.analyses.alignment.layers import Among, Layers, Odd, odd_points
from tracelens_graph.analyses.alignment.places import Place
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Mask, Rows

_NAMES = 3
"""Names of ops of one place that are listed."""


_Key = tuple[Context, Context, bool, bool]
_What = tuple[int, tuple[str, str], tuple[str, ...], bool, bool]


def places_of(alignment: Alignment) -> list[Place]:
    """The places of an alignment, the largest change first; each point is part of one."""
    return _Groups(alignment).places()


def _rank(place: Place) -> tuple[object, ...]:
    """The largest change first, of equal ones what runs other work."""
    return -abs(place.change_ns), place.is_alike, -max(place.ns), place.modules, sorted(place.names)


class _Groups:
    def __init__(self, alignment: Alignment) -> None:
        self._alignment = alignment
        self._contexts = [Contexts(side) for side in alignment.sides]
        self._layers = [
            Layers(contexts, leaves) for contexts, leaves in zip(self._contexts, alignment.leaves, strict=True)
        ]

    def places(self) -> list[Place]:
        groups: dict[_Key, list[Point]] = {}
        for point in self._alignment.points:
            is_whole = not all(point.leaves) or point.is_moved or point.is_replaced
            kinds = (Kind.Module,) if point.is_replaced else (Kind.Module, Kind.Op) if is_whole else ()
            first, second = (self._contexts[k].of(point.container[k], point.leaves[k], kinds) for k in range(2))
            if point.is_moved:  # what moved with it goes without saying
                first, second = (replace(context, names=context.names[:1]) for context in (first, second))
            if (first.kernel or second.kernel) and (first.is_op or second.is_op):
                first, second = (replace(context, kernel="") for context in (first, second))
            groups.setdefault((first, second, point.is_moved, point.is_replaced), []).append(point)
        places = [self._place(points, (one, other)) for (one, other, *_), points in groups.items()]
        named = self._with_layers(list(groups), places)
        return sorted(with_slow_layers(named, self._alignment, self._layers[0]), key=_rank)

    def _with_layers(self, keys: Sequence[_Key], places: Sequence[Place]) -> list[Place]:
        """The places; those say so whose work differs in few of many equal layers."""
        usual = {one for one, other, *_ in keys if one == other}
        leaves = []
        of_all: dict[_What, list[Rows]] = {}
        for (one, other, is_moved, is_replaced), place in zip(keys, places, strict=True):
            side = 0 if one.names else 1
            own = np.array(place.leaves(side), np.int64)
            # Where no other layer makes the calls of either side, that one does says nothing.
            is_other = one != other and not usual.isdisjoint((one, other))
            is_odd = not (one.names and other.names) or is_moved or is_replaced or is_other
            if not is_odd:
                own = own[self._differ(own)]
            what = side, place.names, place.modules, is_moved, is_replaced
            leaves.append((what, own))
            of_all.setdefault(what, []).append(own)
        # The same change in other layers, where arguments have other sizes, is no other one.
        is_of_few = {
            what: self._layers[what[0]].around(np.concatenate(every)) is not None for what, every in of_all.items()
        }
        return [
            replace(place, among=self._layers[what[0]].around(own)) if is_of_few[what] else place
            for (what, own), place in zip(leaves, places, strict=True)
        ]

    def _differ(self, leaves: Rows) -> Mask:
        """Of leaves of the first side whether their partners run others, or another number, or with other arguments."""
        a, b = self._alignment.sides
        partner = self._alignment.leaves[0][leaves]
        first, second = (np.diff(side.first_event) for side in (a, b))
        found: Mask = (partner < 0) | (a.kernel[leaves] != b.kernel[partner]) | (first[leaves] != second[partner])
        return found | (a.leaf_args[leaves] != b.leaf_args[partner])

    def _place(self, points: list[Point], where: tuple[Context, Context]) -> Place:
        one, other = where
        fuller = max(where, key=lambda context: (len(context.modules), context.modules))
        # A module is missing only where the other side has nothing in its place.
        only = 1 if not one.names else 0 if not other.names else None
        modules = self._contexts[only].modules(points, only) if only is not None and where[only].is_module else 0
        names = _listed(one.names), _listed(other.names)
        place = Place(fuller.modules, fuller.is_backward, names, (), (0, 0), ({}, {}), modules)
        return place.with_points(points, self._alignment.sides)


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


_OF_LAYER = 0.5
"""Share of the time of a layer, or of the part of it that holds what is slow, that must take another time."""
_LIKE_LAYER = 0.5
"""Share of the ratio of slow layers, as logarithm, by which work in them changes that is part of the cause."""


def with_slow_layers(places: list[Place], alignment: Alignment, layers: Layers) -> list[Place]:
    """The places; those say so whose points take another time in few of many layers, or calls.

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
