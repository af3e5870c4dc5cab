"""What the change of the time of two windows is made of: GPU work, work beside other work, and idle time by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.alignment.contexts import BUILT_IN
from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.host_work import is_of_host
from tracelens_graph.analyses.idle.blame import culprit
from tracelens_graph.analyses.idle.host_states import SYNCHRONIZATION
from tracelens_graph.analyses.idle.idle import CAUSE_MEANING, UNKNOWN, Cause, Idle, calls_of, edge_parts, idle_parts
from tracelens_graph.analyses.shared.gpu_work import gpu_classes
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.analyses.timeline.timeline import ROW_MEANING, times_on_devices
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import ancestors, in_no_other
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import LAYER_KINDS, Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.names import short_name
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import quoted, shown_name

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

IDLE, AROUND = "idle", "around"

_LONGEST_RANGE = 120
"""Columns of the name of an annotation."""

_KERNELS = "sum of kernels"
_SUMS = (_KERNELS, "sum of collectives", "sum of copies")
"""Sums of durations of what works, in the order of its classes."""
_BUSY = {
    "computation": ("computation_time", _KERNELS, "kernels and fills", "beside others"),
    "exposed_communication": (
        "exposed_comm_time", "total_comm_time", "collectives", "hidden behind other GPU work"
    ),
    "exposed_copies": ("exposed_memcpy_time", "total_memcpy_time", "copies", "hidden behind other GPU work"),
}  # fmt: skip
"""Parts of the time in which the GPU works -> row of the timeline; the one that also counts what lies beside other
work; what works, and the words for the difference."""
_LEAST_OVERLAP, _LEAST_BESIDE = 0.005, 0.05
"""Least change of work beside other work that is shown: shares of the time from first to last event and of it all."""


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
    sums = sum_by_group(gpu_classes(window.core, rows), c.dur_ns[rows], len(_SUMS)).tolist()
    return {**times_on_devices(window.core, rows)[0], **dict(zip(_SUMS, sums, strict=True))}


class Overlap(NamedTuple):
    """Work of one class that runs beside other work: the row of the totals that holds the rest, ns, and why."""

    total: str
    ns: tuple[int, int]
    why: str


def overlaps(difference: Diff) -> list[Overlap]:
    """Work whose total changed mostly because another part of it runs beside other work than before."""
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

    def us_on_the_way(self, idle: Idle) -> float:
        """Median time from the end of a launch call to the start of its work where the GPU waited for it, us."""
        c = self.window.core.columns
        rows = idle.row[c.parent[idle.row] >= 0]
        launch = c.parent[rows]
        ended = c.start_ns[launch] + c.dur_ns[launch]
        first = idle.start[c.parent[idle.row] >= 0]
        ns = (c.start_ns[rows] - ended)[ended > first]
        return float(np.median(ns)) / 1e3 if len(ns) else 0.0

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
        is_free = kind in LAYER_KINDS or quoted(name) != name
        return shown_name(name, _LONGEST_RANGE) if is_free else short_name(name)

    def where(self, idle: Idle, cause: Cause, name: str) -> str:
        """The op, or the module, around what the longest gaps of a cause are due to, and how many of these it holds;
        the window is called by a name."""
        part, core = idle.parts[cause], self.window.core
        longest = np.argsort(-part, kind="stable")[:_MOST_GAPS]
        longest = longest[(part[longest] > 0) & (2 * part[longest] > part.max())].tolist()
        if not longest:
            return ""
        found = Counter(self._around(culprit(core, idle, gap, cause)[0]) for gap in longest)
        (place, number), *_ = found.most_common(1)
        if not place or 2 * number <= len(longest):
            return ""
        every = f"the longest of {name}" if len(longest) == 1 else f"the {len(longest):,} longest of {name}"
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
_LEAST_DELAY = 1.0
"""Change, us, of the time from the end of a launch to its work from which on it is shown."""
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
        f"{what} take {times[0] / 1e6:,.3f} -> {times[1] / 1e6:,.3f} ms, {_change(*share)} % of that {beside}; "
        f"{ROW_MEANING[row]}"
    )


def _launch_times(sides: list[_Side]) -> str:
    """How long launch calls take on both sides, where that differs; empty else."""
    us, calls = [side.us_of_launch() for side in sides], [side.launches() for side in sides]
    is_other = min(us) > 0 and max(calls) <= _SLOWER_LAUNCH * min(calls) and max(us) > _SLOWER_LAUNCH * min(us)
    return f" of {us[0]:,.1f} -> {us[1]:,.1f} us each (median)" if is_other else ""


def _delays(sides: list[_Side], idle: list[Idle]) -> str:
    """How long after the call work begins for which the GPU waits, where that differs; empty else."""
    us = [side.us_on_the_way(one) for side, one in zip(sides, idle, strict=True)]
    is_other = min(us) > 0 and max(us) > _SLOWER_LAUNCH * min(us) and max(us) - min(us) > _LEAST_DELAY
    return f"work begun {us[0]:,.1f} -> {us[1]:,.1f} us after its launch returned" if is_other else ""


def _why_idle(part: str, cause: Cause, sides: list[_Side], names: tuple[str, str]) -> str:
    texts, idle = [], [side.idle[part] for side in sides]
    if part == IDLE:
        texts.append(_number([int((one.parts[cause] > 0).sum()) for one in idle], "gap", "gaps"))
        times = [int(one.parts[cause].sum()) for one in idle]
        longer = times.index(max(times))
        place = sides[longer].where(idle[longer], cause, names[longer])
        if place and abs(times[1] - times[0]) > _LEAST_OF_CAUSE * max(times):
            texts.append(place)
        if cause is Cause.launches and (later := _delays(sides, idle)):
            texts.append(later)
        for one, many, number in _FIGURES.get(cause, ()):
            if any(counts := [number(side) for side in sides]):
                times_of = _launch_times(sides) if number is _Side.launches else ""
                texts.append(_number(counts, one, many) + times_of)
        if cause is Cause.python and (slower := _launch_times(sides)):  # it is exposed by calls that return later
            texts.append(_number([side.launches() for side in sides], "launch", "launches") + slower)
    because = [side.because(one, cause) for side, one in zip(sides, idle, strict=True)]
    if because[0] == because[1]:
        texts += [f"the longest due to {because[0]}"] if because[0] else []
    else:
        causes = (f"in {name} to {called}" for name, called in zip(names, because, strict=True) if called)
        texts.append(f"the longest due {', '.join(causes)}")
    return "; ".join(filter(None, (", ".join(texts), CAUSE_MEANING[cause])))
