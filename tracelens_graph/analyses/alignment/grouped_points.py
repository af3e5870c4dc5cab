"""The points of an alignment, grouped by where they stand in the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tracelens_graph.analyses.alignment.align import Alignment
from tracelens_graph.analyses.alignment.contexts import Context, Contexts
from tracelens_graph.analyses.alignment.divergence_points import Point
from tracelens_graph.analyses.alignment.layers import Layers
from tracelens_graph.analyses.alignment.places import Place
from tracelens_graph.analyses.alignment.slow_layers import with_slow_layers
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
        """The places, of which those say so whose work differs in few of many equal layers."""
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
