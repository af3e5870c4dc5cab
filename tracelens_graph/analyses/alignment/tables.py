"""The tables of a comparison by structure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tracelens_graph.analyses.alignment.causes import Reasons
from tracelens_graph.analyses.alignment.difference import Diff, Place
from tracelens_graph.analyses.places.python_lines import frames_with_line
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.analyses.timeline.timeline import times_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import climb
from tracelens_graph.schema.tables.across import DIFF_PLACES, DIFF_TOTALS
from tracelens_graph.tables.names import short_name
from tracelens_graph.tables.table import Table

TOTALS: Mapping[str, str] = {
    "gpu_time": "sum of the durations of GPU events",
    "total_time": "first to last GPU event",
    "computation_time": "computation",
    "exposed_comm_time": "exposed communication",
    "exposed_memcpy_time": "exposed copies",
    "idle_time": "idle",
}
"""What two traces are compared by as wholes -> what it is."""


def totals_table(difference: Diff) -> Table:
    """How long both sides take in all; the times below `total_time` add up to it."""
    sides = [times_of(w.core, w.gpu_rows) for w in (difference.a, difference.b)]
    for times, ns in zip(sides, difference.ns, strict=True):
        times["gpu_time"] = ns
    first, second = ([times.get(name, 0) for name in TOTALS] for times in sides)
    changes = [other - one for one, other in zip(first, second, strict=True)]
    columns: dict[str, Cells] = {
        "time": list(TOTALS),
        "a_ms": [ns / 1e6 for ns in first],
        "b_ms": [ns / 1e6 for ns in second],
        "change_ms": [ns / 1e6 for ns in changes],
        "change_percent": [percent(change, one) for change, one in zip(changes, first, strict=True)],
        "meaning": list(TOTALS.values()),
    }
    return Table("diff_totals", columns, DIFF_TOTALS, f"{difference.names[1]} against {difference.names[0]}", [])


def percent(change: int, of: int) -> float | None:
    """A change as share of something; None of nothing, unless nothing changed."""
    return 100 * change / of if of else None if change else 0.0


def places_table(difference: Diff) -> Table:
    """Where two traces differ, the largest change first; changes add up to that of the GPU time."""
    reasons = Reasons(difference)
    places = difference.places
    found = [reasons.of(place) for place in places]
    columns: dict[str, Cells] = {
        "place": np.arange(1, len(places) + 1),
        "change_ms": [place.change_ns / 1e6 for place in places],
        "times": [len(place.points) for place in places],
        "op": [op_of(place) for place in places],
        "module": [module_of(place) for place in places],
        "reason": [str(why.reason) for why in found],
        "why": [why.text for why in found],
    }
    for k, side in enumerate("ab"):
        columns[f"{side}_ms"] = [place.ns[k] / 1e6 for place in places]
        columns[f"events_{side}"] = [sum(count for count, _ in place.kernels[k].values()) for place in places]
        columns[f"kernels_{side}"] = [list(map(short_name, place.kernels[k])) for place in places]
        columns |= _launchers(difference, k, side)
    ordered = {name: columns[name] for name in DIFF_PLACES}
    return Table("diff_places", ordered, DIFF_PLACES, _title(difference), [])


def op_of(place: Place) -> str:
    """What is called at a place, on both sides."""
    first, second = place.names
    return first if first == second or not second else second if not first else f"{first} -> {second}"


def module_of(place: Place) -> str:
    """The classes of the modules around a place, as a path."""
    return " ".join(filter(None, ("/".join(place.modules), "(backward)" if place.is_backward else "")))


def lines_of_python(core: Core, rows: np.ndarray) -> list[str | None]:
    """The innermost line of Python around each row, in PyTorch itself only where there is no other; None without."""
    c = core.columns
    above = [climb(c.parent, rows, frames_with_line(core, without)) for without in ("torch/", None)]
    frame = np.where(above[0] >= 0, *above)
    return [core.names[c.name[row]] if row >= 0 else None for row in frame.tolist()]


def _title(difference: Diff) -> str:
    first, second = difference.names
    return f"Where the GPU work of {second} (B) differs from that of {first} (A)"


def _launchers(difference: Diff, k: int, side: str) -> dict[str, Cells]:
    """Of one side what launched the longest event of each place, or the event itself where nothing did."""
    rows = np.array([_launcher(difference, place, k) for place in difference.places], np.int64)
    core = difference.alignment.sides[k].window.core
    c = core.columns
    sets = [core.argsets[code] if row >= 0 and code >= 0 else None
            for row, code in zip(rows.tolist(), c.argset[rows].tolist(), strict=True)]  # fmt: skip
    return {
        f"line_{side}": lines_of_python(core, rows),
        f"shapes_{side}": [None if one is None else one[0] for one in sets],
        f"types_{side}": [None if one is None else one[1] for one in sets],
        f"uid_{side}": [int(c.uid[row]) if row >= 0 else None for row in rows.tolist()],
    }


def _launcher(difference: Diff, place: Place, side: int) -> int:
    forest = difference.alignment.sides[side]
    leaves = [leaf for point in place.points for leaf in point.leaves[side]]
    if not leaves:
        return -1
    leaf = max(leaves, key=lambda one: (int(forest.ns[one]), -one))
    row = int(forest.row[forest.leaf_parent[leaf]])
    return row if row >= 0 else int(forest.events_of(leaf)[0])
