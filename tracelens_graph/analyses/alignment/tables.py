"""The tables of a comparison by structure: totals, what their change is made of, and places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.alignment.causes import OTHER_CALLS, Reasons, Why
from tracelens_graph.analyses.alignment.difference import BUILT_IN, Diff, Place
from tracelens_graph.analyses.alignment.host_work import is_of_host
from tracelens_graph.analyses.alignment.noise import Interval, Noise, Proof
from tracelens_graph.analyses.alignment.spread import STEP, step_time
from tracelens_graph.analyses.idle.blame import culprit
from tracelens_graph.analyses.idle.host_states import SYNCHRONIZATION
from tracelens_graph.analyses.idle.idle import CAUSE_MEANING, UNKNOWN, Cause, Idle, calls_of, edge_parts, idle_parts
from tracelens_graph.analyses.shared.gpu_work import gpu_classes, uids_of
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.analyses.timeline.timeline import ROW_MEANING, times_by_group, times_of
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import ancestors, in_no_other
from tracelens_graph.graph.user_code import line_names
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import LAYER_KINDS, Kind
from tracelens_graph.tables.column import About, Column
from tracelens_graph.tables.names import short_name
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

_INTERVAL: About = {
    "low_ms": Column("least change that noise allows, by all steps or by equal work; absent with `--noise off`", "ms"),
    "high_ms": Column("greatest change that noise allows", "ms"),
    "proof": Column.text("what shows that the change is no noise, `noise` for nothing; empty where that is not asked"),
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
        "a_ms": Column("of a", "ms", heading="A ms"),
        "b_ms": Column("of b", "ms", heading="B ms"),
        **_CHANGE,
        **_INTERVAL,
        "proven_ms": Column("what of the change is no noise: all, what places prove, or nothing", "ms", figure="ms"),
        "proven_percent": Column("that as share of the first; absent where that is 0", "%", figure="percent"),
        "meaning": Column.text("what it is, in words"),
    },
    ordered=True,
)

DIFF_TIMES = TableSchema(
    "diff_times",
    "What the change of the time from first to last GPU event is made of: GPU work and idle time by cause.",
    {
        "part": Column.key(
            "computation, exposed_communication, exposed_copies and idle add up to the time from the "
            "first to the last GPU event of a device; around: what of the steps lies before and "
            "behind it"
        ),
        "cause": Column.key("what time without GPU work is due to; empty for GPU work"),
        "change_ms": Column.total("time of b less that of a", "ms", heading="change ms"),
        "a_ms": Column.total("time in a, over all devices", "ms", heading="A ms"),
        "b_ms": Column.total("the same in b", "ms", heading="B ms"),
        "why": Column.text("what it is, and what of it changed", drop_priority=0),
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
        difference: the comparison.
        with_noise: whether intervals are asked for, and which changes are noise.
    """
    reasons = Reasons(difference)
    why = [reasons.of(place) for place in difference.places]
    noise = noise_of(difference, why) if with_noise else None
    tables = totals_table(difference, noise), times_table(difference), places_table(difference, why, noise)
    return {table.name: table for table in tables}


def noise_of(difference: Diff, why: Sequence[Why]) -> Noise:
    """The intervals of a comparison.

    Args:
        difference: the comparison.
        why: the reasons of its places, which show where arguments differ.
    """
    return Noise(difference, np.array([one.reason in OTHER_CALLS for one in why], bool))


def totals_table(difference: Diff, noise: Noise | None = None) -> Table:
    """How long both sides take in all; the times below `total_time` add up to it.

    Args:
        difference: the comparison.
        noise: its intervals; None for a table without.
    """
    windows = difference.a, difference.b
    sides = [times_of(w.core, w.gpu_rows, all_iterations=w.all_iterations) for w in windows]
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
    """Where two traces differ, the largest change first; changes add up to that of the GPU time.

    Args:
        difference: the comparison.
        why: the reasons of its places, where they are known.
        noise: its intervals; None for a table without.
    """
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
    first, second = place.names
    return first if first == second or not second else second if not first else f"{first} -> {second}"


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


IDLE, AROUND = "idle", "around"

_KERNELS = "sum of kernels"
_SUMS = (_KERNELS, "sum of collectives", "sum of copies")
"""Sums of durations of what works, in the order of its classes."""
_BUSY = {
    "computation": ("computation_time", _KERNELS, "kernels and fills", "run beside others"),
    "exposed_communication": (
        "exposed_comm_time", "total_comm_time", "collectives", "are hidden behind other GPU work"
    ),
    "exposed_copies": ("exposed_memcpy_time", "total_memcpy_time", "copies", "are hidden behind other GPU work"),
}  # fmt: skip
_LEAST_OVERLAP, _LEAST_BESIDE = 0.005, 0.05
"""Least change of work beside other work that is shown: shares of the time from first to last event and of it all."""
"""Parts of the time in which the GPU works -> row of the timeline; the one that also counts what lies beside other
work; what works, and the words for the difference."""


@dataclass(frozen=True)
class TimePart:
    """One part of the time of two windows.

    Attributes:
        part: a key of the GPU timeline's classes, `idle`, or `around`: the steps before and behind all GPU work.
        cause: why the GPU did not work; None where it did.
        ns: time on both sides, devices added up.
        why: what it is, and what of it changed.
    """

    part: str
    cause: Cause | None
    ns: tuple[int, int]
    why: str

    @property
    def change_ns(self) -> int:
        """How much more time the second side takes."""
        return self.ns[1] - self.ns[0]


def time_parts(difference: Diff) -> list[TimePart]:
    """The parts of the time of two windows: GPU work first, then idle time, the largest change first.

    All but `around` add up, in ns, to the time from the first to the last GPU event, of each device by itself.
    """
    sides = [_Side(window) for window in (difference.a, difference.b)]
    found = [
        TimePart(part, None, (sides[0].times[row], sides[1].times[row]), _why_busy(row, beside, sides))
        for part, (row, *beside) in _BUSY.items()
    ]
    for part in (IDLE, AROUND):
        first, second = (side.idle[part].parts.sum(axis=1).tolist() for side in sides)
        rows = [
            TimePart(part, cause, (first[cause], second[cause]), _why_idle(part, cause, sides, difference.names))
            for cause in Cause
            if first[cause] or second[cause]
        ]
        found += sorted(rows, key=lambda row: (-abs(row.change_ns), row.cause in UNKNOWN, -sum(row.ns), row.cause))
    return [one for one in found if any(one.ns)]


def times_table(difference: Diff) -> Table:
    """What the change of the time of two windows is made of, as a table."""
    parts = time_parts(difference)
    columns: dict[str, Cells] = {
        "part": [one.part for one in parts],
        "cause": [one.cause.name if one.cause is not None else "" for one in parts],
        "change_ms": np.array([one.change_ns / 1e6 for one in parts], float),
        "a_ms": np.array([one.ns[0] / 1e6 for one in parts], float),
        "b_ms": np.array([one.ns[1] / 1e6 for one in parts], float),
        "why": [one.why for one in parts],
    }
    return DIFF_TIMES.table(columns, "What the change of the time is made of", [])


def _busy_times(window: Window) -> dict[str, int]:
    """Times of the GPU timeline and sums of durations by class, devices added up, ns."""
    rows, c = window.gpu_rows, window.core.columns
    devices, device = np.unique(c.device[rows], return_inverse=True)
    by_device = times_by_group(window.core, rows, device, len(devices))
    sums = sum_by_group(gpu_classes(window.core, rows), c.dur_ns[rows], len(_SUMS)).tolist()
    return {**{name: int(ns.sum()) for name, ns in by_device.items()}, **dict(zip(_SUMS, sums, strict=True))}


class Overlap(NamedTuple):
    """Work of one class that runs beside other work: the row of the totals that holds the rest, ns, and why."""

    total: str
    ns: tuple[int, int]
    why: str


def overlaps(difference: Diff) -> list[Overlap]:
    """Of which work another part runs beside other work than before, and that is most of the change of its total."""
    windows = difference.a, difference.b
    times = [{} if is_of_host(window) else _busy_times(window) for window in windows]
    found = []
    for number, (row, _, what, _) in enumerate(_BUSY.values()):
        alone, every = ([one.get(name, 0) for one in times] for name in (row, _SUMS[number]))
        beside = every[0] - alone[0], every[1] - alone[1]
        change = abs(beside[1] - beside[0])
        of_time = _LEAST_OVERLAP * max(one.get("total_time", 0) for one in times)
        if change > max(of_time, _LEAST_BESIDE * max(every)) and 2 * change >= abs(alone[1] - alone[0]):
            a, b = (ns / 1e6 for ns in every)
            text = f"{what} take {a:,.3f} -> {b:,.3f} ms in all, on {_streams(windows, number)}"
            found.append(Overlap(row, beside, text))
    return found


def _streams(windows: tuple[Window, Window], number: int) -> str:
    """On how many streams of its devices the work of a class runs."""
    counts = []
    for window in windows:
        rows, c = window.gpu_rows, window.core.columns
        rows = rows[gpu_classes(window.core, rows) == number]
        counts.append(len(np.unique(np.stack((c.device[rows], c.stream[rows])), axis=1).T))
    return _number(counts, "stream", "streams")


class _Side:
    """Times of one window."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.times = _busy_times(window)
        self.idle = {IDLE: idle_parts(window), AROUND: edge_parts(window)}

    def launches(self) -> int:
        """Number of calls that launched GPU work."""
        rows = self.window.linked_gpu_rows
        return len(np.unique(self.window.core.columns.parent[rows]))

    def us_of_launch(self) -> float:
        """Median duration of these calls, us."""
        c = self.window.core.columns
        calls = np.unique(c.parent[self.window.linked_gpu_rows])
        return float(np.median(c.dur_ns[calls])) / 1e3 if len(calls) else 0.0

    def waits(self) -> int:
        """Number of calls that wait for the GPU; of JAX, where functions of Python wait, those in no other one."""
        core = self.window.core
        calls = calls_of(core)
        if core.framework.waits_in_functions:
            rows = np.flatnonzero(calls.state == SYNCHRONIZATION)
            return int(np.count_nonzero(self.window.holds(rows) & in_no_other(core.columns.last, rows)))
        rows = self.window.rows_of_kind(Kind.RuntimeCall)
        return int((calls.state[rows] == SYNCHRONIZATION).sum())

    def because(self, idle: Idle, cause: Cause) -> str:
        """Name of the host event that the longest gap of a cause is due to; empty without one."""
        if not len(idle.row) or not idle.parts[cause].any():
            return ""
        core = self.window.core
        row, _ = culprit(core, idle, int(idle.parts[cause].argmax()), cause)
        if row < 0:
            return ""
        kind = Kind(int(core.columns.kind[row]))
        name = normal_name(kind, core.names[core.columns.name[row]])
        if built_in := BUILT_IN.match(name):
            return built_in[1]
        # Annotations are free text, in which brackets and blanks mean nothing.
        return name if kind in LAYER_KINDS else short_name(name)

    def where(self, idle: Idle, cause: Cause) -> str:
        """The op, or the module, around what the longest gaps of a cause are due to, and how many of these it holds."""
        part, core = idle.parts[cause], self.window.core
        longest = np.argsort(-part, kind="stable")[:_MOST_GAPS]
        longest = longest[(part[longest] > 0) & (2 * part[longest] > part.max())].tolist()
        if not longest:
            return ""
        found = Counter(self._around(culprit(core, idle, gap, cause)[0]) for gap in longest)
        (place, number), *_ = found.most_common(1)
        if not place or 2 * number <= len(longest):
            return ""
        every = "the longest" if len(longest) == 1 else f"the {len(longest):,} longest"
        return f"{every} in {place}" if number == len(longest) else f"{number:,} of {every} in {place}"

    def _around(self, row: int) -> str:
        """The outermost op and the module around a host event, or itself: `aten::item, ViTSelfAttention`."""
        core, c, names = self.window.core, self.window.core.columns, dict[Kind, str]()
        for above in (row, *ancestors(c, row)) if row >= 0 else ():
            kind = Kind(int(c.kind[above]))
            if kind in (Kind.Op, Kind.Module):
                names[kind] = normal_name(kind, core.names[c.name[above]]).removeprefix("nn.Module: ")
            if kind == Kind.Module:
                break
        return ", ".join(names.values())


_MOST_GAPS = 100
"""Gaps that are looked at for where the longest are."""
_LEAST_OF_CAUSE = 0.2
"""Share of the longer time of a cause from which on a change of it shows where its longest gaps are."""
_SLOWER_LAUNCH = 1.25
"""Factor from which on the duration of launch calls is shown; of more calls by it, they are other calls."""
_WAITS = ("call that waits for the GPU", "calls that wait for the GPU", _Side.waits)
_FIGURES: dict[Cause, tuple[tuple[str, str, Callable[[_Side], int]], ...]] = {
    Cause.launches: (("launch", "launches", _Side.launches), _WAITS),
    Cause.python: (_WAITS,),
    Cause.synchronization: (_WAITS,),
}
"""Causes -> what else is counted: a call that waits takes the host's lead, so that all that follows shows as idle."""


def _change(before: int, after: int) -> str:
    return f"{before:,} -> {after:,}" if before != after else f"{before:,}"


def _number(counts: list[int], one: str, many: str) -> str:
    return f"{_change(*counts)} {one if counts == [1, 1] else many}"


def _why_busy(row: str, about: list[str], sides: list[_Side]) -> str:
    whole, what, beside = about
    times = [side.times[whole] for side in sides]
    if not all(times):
        return ROW_MEANING[row]
    share = [round(100 * (1 - side.times[row] / time)) for side, time in zip(sides, times, strict=True)]
    if whole == _KERNELS and not any(share):
        return ROW_MEANING[row]
    return (
        f"{what} take {times[0] / 1e6:,.3f} -> {times[1] / 1e6:,.3f} ms, of which {_change(*share)} % {beside}; "
        f"{ROW_MEANING[row]}"
    )


def _launch_times(sides: list[_Side]) -> str:
    """How long launch calls take on both sides, where that differs; empty else."""
    us, calls = [side.us_of_launch() for side in sides], [side.launches() for side in sides]
    is_other = min(us) > 0 and max(calls) <= _SLOWER_LAUNCH * min(calls) and max(us) > _SLOWER_LAUNCH * min(us)
    return f" of {us[0]:,.1f} -> {us[1]:,.1f} us each in the median" if is_other else ""


def _why_idle(part: str, cause: Cause, sides: list[_Side], names: tuple[str, str]) -> str:
    texts, idle = [], [side.idle[part] for side in sides]
    if part == IDLE:
        texts.append(_number([int((one.parts[cause] > 0).sum()) for one in idle], "gap", "gaps"))
        times = [int(one.parts[cause].sum()) for one in idle]
        longer = times.index(max(times))
        place = sides[longer].where(idle[longer], cause)
        if place and abs(times[1] - times[0]) > _LEAST_OF_CAUSE * max(times):
            texts.append(f"in {names[longer]} {place}")
        for one, many, number in _FIGURES.get(cause, ()):
            if any(counts := [number(side) for side in sides]):
                times_of = _launch_times(sides) if number is _Side.launches else ""
                texts.append(_number(counts, one, many) + times_of)
    because = [side.because(one, cause) for side, one in zip(sides, idle, strict=True)]
    if because[0] == because[1]:
        texts += [f"the longest due to {because[0]}"] if because[0] else []
    else:
        causes = (f"in {name} to {called}" for name, called in zip(names, because, strict=True) if called)
        texts.append(f"the longest due {', '.join(causes)}")
    return "; ".join(filter(None, (", ".join(texts), CAUSE_MEANING[cause])))
