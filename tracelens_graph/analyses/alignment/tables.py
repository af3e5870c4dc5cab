"""The tables of a comparison by structure."""

from __future__ import annotations

from tracelens_graph.analyses.alignment.causes import Reasons
from tracelens_graph.analyses.alignment.difference import Diff, Place
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.schema.tables.across import DIFF_PLACES
from tracelens_graph.short_names import short_name
from tracelens_graph.table import Table


def places_table(difference: Diff) -> Table:
    """Where two traces differ, the largest change first; changes add up to that of the GPU time."""
    reasons = Reasons(difference)
    places = difference.places
    found = [reasons.of(place) for place in places]
    first, second = ([place.ns[side] / 1e6 for place in places] for side in range(2))
    columns: dict[str, Cells] = {
        "change_ms": [place.change_ns / 1e6 for place in places],
        "a_ms": first,
        "b_ms": second,
        "times": [len(place.points) for place in places],
        "op": [_op(place) for place in places],
        "module": ["/".join(place.modules) + (" (backward)" if place.is_backward else "") for place in places],
        "reason": [str(why.reason) for why in found],
        "why": [why.text for why in found],
        "events_a": [_events(place, 0) for place in places],
        "events_b": [_events(place, 1) for place in places],
        "kernels_a": [[short_name(name) for name in place.kernels[0]] for place in places],
        "kernels_b": [[short_name(name) for name in place.kernels[1]] for place in places],
        "uid_a": [_uid(difference, place, 0) for place in places],
        "uid_b": [_uid(difference, place, 1) for place in places],
    }
    return Table("diff_places", columns, DIFF_PLACES, "Where the GPU work differs", [])


def _op(place: Place) -> str:
    first, second = place.names
    return first if first == second or not second else second if not first else f"{first} -> {second}"


def _events(place: Place, side: int) -> int:
    return sum(count for count, _ in place.kernels[side].values())


def _uid(difference: Diff, place: Place, side: int) -> int | None:
    """The longest GPU event's launcher, or the event itself where it has none."""
    forest = difference.alignment.sides[side]
    leaves = [leaf for point in place.points for leaf in point.leaves[side]]
    if not leaves:
        return None
    leaf = max(leaves, key=lambda one: (int(forest.ns[one]), -one))
    row = int(forest.row[forest.leaf_parent[leaf]])
    core = forest.window.core
    return int(core.columns.uid[row if row >= 0 else int(forest.events_of(leaf)[0])])
