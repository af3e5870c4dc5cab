"""The tables of a comparison by structure: totals and places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.host_work import is_of_host
from tracelens_graph.analyses.alignment.merged import one_name
from tracelens_graph.analyses.alignment.noise import Interval, Noise, Proof
from tracelens_graph.analyses.alignment.places import Place
from tracelens_graph.analyses.alignment.reasons import OTHER_CALLS, Why
from tracelens_graph.analyses.alignment.rules import Reasons
from tracelens_graph.analyses.alignment.spread import STEP, step_time
from tracelens_graph.analyses.alignment.times import times_table
from tracelens_graph.analyses.shared.gpu_work import uids_of
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.analyses.timeline.timeline import times_of, times_on_devices
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.user_code import line_names
from tracelens_graph.tables.column import About, Column
from tracelens_graph.tables.names import short_name
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

_INTERVAL: About = {
    "low_ms": Column("least change that noise allows, by all steps or by equal work; absent with `--noise off`", "ms"),
    "high_ms": Column("greatest change that noise allows", "ms"),
    "proof": Column.text("what shows that the change is not noise; `noise` if nothing does, empty if not asked"),
}

DIFF_PLACES = TableSchema(
    "diff_places",
    "Where the GPU work of two traces differs by structure, and why; changes add up to that of all GPU time.",
    {
        "place": Column("number of the place, as `--point` takes it", heading="#", cells="number"),
        "change_ms": Column.total("GPU time of b less that of a", "ms", heading="change ms", figure="ms"),
        "a_ms": Column.total(
            "sum of the durations of the GPU events there in a", "ms", heading="A ms", drop_priority=1
        ),
        "b_ms": Column.total("the same in b", "ms", heading="B ms", drop_priority=1),
        **_INTERVAL,
        "times": Column.count(
            "how often the program comes there; of modules that one side alone has, how many",
            heading="times",
            drop_priority=1,
        ),
        "op": Column.key("op, or what else launched the work; `x -> y` where b calls y in place of x", "op"),
        "module": Column.key("classes of the modules around it, the outermost first", "module"),
        "reason": Column.text("why they differ: one word", "reason", drop_priority=0),
        "why": Column.text("why they differ: the evidence"),
        "events_a": Column.count("GPU events there in a", drop_priority=2),
        "events_b": Column.count("GPU events there in b", drop_priority=2),
        "kernels_a": Column(
            "short names of its kernels in a, those with the most time first", cells="list", drop_priority=2
        ),
        "kernels_b": Column("the same in b", cells="list", drop_priority=2),
        "line_a": Column.text("innermost line of Python around what launched the longest of them in a"),
        "line_b": Column.text("the same in b"),
        "shapes_a": Column.text("dims of the arguments of the op that launched it in a, JSON"),
        "shapes_b": Column.text("the same in b"),
        "types_a": Column.text("types of these arguments in a, JSON"),
        "types_b": Column.text("the same in b"),
        "uid_a": Column.uid("what launched the longest of them in a"),
        "uid_b": Column.uid("the same in b"),
    },
    counts="point",
    figure="place",
)

_CHANGE: About = {
    "change_ms": Column("the second less the first", "ms", heading="change ms"),
    "change_percent": Column("that as share of the first; absent where the first is 0", "%"),
}

DIFF_TOTALS = TableSchema(
    "diff_totals",
    "How long two traces take in all.",
    {
        "time": Column.key("what is measured", "time"),
        "a_ms": Column("of a, devices added up", "ms", heading="A ms"),
        "b_ms": Column("the same of b", "ms", heading="B ms"),
        **_CHANGE,
        **_INTERVAL,
        "proven_ms": Column("part of the change beyond noise: all, what places prove, or none", "ms", figure="ms"),
        "proven_percent": Column("that as share of the first; absent where that is 0", "%", figure="percent"),
        "meaning": Column.text("what it is, in words"),
    },
    ordered=True,
)

TOTALS: Mapping[str, str] = {
    "gpu_time": "sum of the durations of GPU events",
    "total_time": "first to last GPU event",
    "computation_time": "computation",
    "exposed_comm_time": "exposed communication",
    "exposed_memcpy_time": "exposed copies",
    "idle_time": "idle",
    STEP: "whole step, host and GPU",
}
"""What two traces are compared by as wholes -> what it is."""
_ON_HOST = {
    "gpu_time": "sum of the own times of ops", "total_time": "first to last op", "computation_time": "in ops",
    "idle_time": "outside of ops",
}  # fmt: skip
"""The same of host time."""
_OF_ITERATIONS = "GPU work and gaps before it"
"""What the total is of some iterations of a server, which do not follow each other."""


def diff_tables(difference: Diff, with_noise: bool = True) -> dict[str, Table]:
    """`diff_totals`, `diff_times` and `diff_places` of a comparison.

    Args:
        with_noise: whether intervals are asked for, and which changes are noise.
    """
    reasons = Reasons(difference)
    why = [reasons.of(place) for place in difference.places]
    noise = noise_of(difference, why) if with_noise else None
    tables = totals_table(difference, noise), times_table(difference), places_table(difference, why, noise)
    return {table.name: table for table in tables}


def noise_of(difference: Diff, why: Sequence[Why]) -> Noise:
    """The intervals of a comparison."""
    return Noise(difference, np.array([one.reason in OTHER_CALLS for one in why], bool))


def totals_table(difference: Diff, noise: Noise | None = None) -> Table:
    """How long both sides take in all, devices added up; the times below `total_time` add up to it."""
    windows = difference.a, difference.b
    sides = [
        times_on_devices(w.core, w.gpu_rows)[0]
        if w.all_iterations is None
        else times_of(w.core, w.gpu_rows, all_iterations=w.all_iterations)
        for w in windows
    ]
    meaning = TOTALS if not all(w.all_iterations for w in windows) else {**TOTALS, "total_time": _OF_ITERATIONS}
    meaning = {**meaning, **_ON_HOST} if is_of_host(windows[0]) else meaning
    lengths = [step_time(window) for window in windows]
    for times, ns, length in zip(sides, difference.ns, lengths, strict=True):
        times |= {"gpu_time": ns, STEP: length if all(lengths) else 0}
    first, second = ([times.get(name, 0) for name in TOTALS] for times in sides)
    changes = [other - one for one, other in zip(first, second, strict=True)]
    found = [None if noise is None else noise.of_total(name) for name in TOTALS]
    proven = [_proven(change, one, noise) for change, one in zip(changes, found, strict=True)]
    columns: dict[str, Cells] = {
        "time": list(TOTALS),
        "a_ms": [ns / 1e6 for ns in first],
        "b_ms": [ns / 1e6 for ns in second],
        "change_ms": [ns / 1e6 for ns in changes],
        "change_percent": [percent(change, one) for change, one in zip(changes, first, strict=True)],
        **_intervals(found),
        "proven_ms": [ns / 1e6 for ns in proven],
        "proven_percent": [percent(change, one) for change, one in zip(proven, first, strict=True)],
        "meaning": list(meaning.values()),
    }
    return DIFF_TOTALS.table(columns, f"{difference.names[1]} against {difference.names[0]}", [])


def _proven(change: int, found: Interval | None, noise: Noise | None) -> int:
    """What of the change of a total is no noise."""
    if found is None or noise is None:
        return change
    return {Proof.noise: 0, Proof.places: noise.proven_ns}.get(found.proof, change)


def percent(change: int, of: int) -> float | None:
    """A change as share of something; None of nothing, unless nothing changed."""
    return 100 * change / of if of else None if change else 0.0


def places_table(difference: Diff, why: Sequence[Why] | None = None, noise: Noise | None = None) -> Table:
    """Where two traces differ, the largest change first; changes add up to that of the GPU time."""
    places = difference.places
    if why is None:
        reasons = Reasons(difference)
        why = [reasons.of(place) for place in places]
    columns: dict[str, Cells] = {
        "place": np.arange(1, len(places) + 1),
        "change_ms": [place.change_ns / 1e6 for place in places],
        **_intervals([None] * len(places) if noise is None else noise.of_places()),
        "times": [place.times for place in places],
        "op": [op_of(place) for place in places],
        "module": [module_of(place) for place in places],
        "reason": [str(one.reason) for one in why],
        "why": [one.text for one in why],
    }
    for k, side in enumerate("ab"):
        columns[f"{side}_ms"] = [place.ns[k] / 1e6 for place in places]
        columns[f"events_{side}"] = [place.events(k) for place in places]
        columns[f"kernels_{side}"] = [list(map(short_name, place.kernels[k])) for place in places]
        columns |= _launchers(difference, k, side)
    ordered = {name: columns[name] for name in DIFF_PLACES}
    return DIFF_PLACES.table(ordered, _title(difference), [] if noise is None else noise.notes())


def _intervals(found: Sequence[Interval | None]) -> dict[str, Cells]:
    """The columns of intervals."""
    return {
        "low_ms": [None if one is None else round(one.low_ns) / 1e6 for one in found],
        "high_ms": [None if one is None else round(one.high_ns) / 1e6 for one in found],
        "proof": ["" if one is None else str(one.proof) for one in found],
    }


def op_of(place: Place) -> str:
    """What is called at a place, on both sides."""
    return one_name(place.names)


def module_of(place: Place) -> str:
    """The classes of the modules around a place, as a path."""
    return " ".join(filter(None, ("/".join(place.modules), "(backward)" if place.is_backward else "")))


def lines_of_python(core: Core, rows: np.ndarray) -> list[str | None]:
    """The user's line of Python that each row comes from; None without."""
    return [name or None for name in line_names(core, rows)]


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
        f"uid_{side}": uids_of(core, rows),
    }


def _launcher(difference: Diff, place: Place, side: int) -> int:
    forest = difference.alignment.sides[side]
    leaves = place.leaves(side)
    if not leaves:
        return -1
    leaf = max(leaves, key=lambda one: (int(forest.ns[one]), -one))
    row = int(forest.row[forest.leaf_parent[leaf]])
    return row if row >= 0 else int(forest.events_of(leaf)[0])
