"""What the change of the time of two windows is made of: GPU work as far as it is exposed, and idle time by cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.idle.host_states import SYNCHRONIZATION
from tracelens_graph.analyses.idle.idle import (
    CAUSE_MEANING,
    UNKNOWN,
    Cause,
    Idle,
    calls_of,
    culprit,
    edge_parts,
    idle_parts,
)
from tracelens_graph.analyses.shared.gpu_class import COMPUTATION, gpu_classes
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.analyses.timeline.timeline import ROW_MEANING, times_by_group
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import LAYER_KINDS, Kind
from tracelens_graph.schema.tables.across import DIFF_TIMES
from tracelens_graph.tables.names import short_name
from tracelens_graph.tables.table import Table

IDLE, AROUND = "idle", "around"

_KERNELS = "sum of kernels"
_BUSY = {
    "computation": ("computation_time", _KERNELS, "kernels and fills", "run beside others"),
    "exposed_communication": (
        "exposed_comm_time", "total_comm_time", "collectives", "are hidden behind other GPU work"
    ),
    "exposed_copies": ("exposed_memcpy_time", "total_memcpy_time", "copies", "are hidden behind other GPU work"),
}  # fmt: skip
"""Parts of the time in which the GPU works -> row of the timeline; the one that also counts what lies beside other
work; what works, and what is said of the difference."""

_WHERE = {AROUND: "before the first and behind the last GPU event of the steps"}


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
    return Table("diff_times", columns, DIFF_TIMES, "What the change of the time is made of", [])


class _Side:
    """Times of one window."""

    def __init__(self, window: Window) -> None:
        self.window = window
        rows, c = window.gpu_rows, window.core.columns
        devices, device = np.unique(c.device[rows], return_inverse=True)
        by_device = times_by_group(window.core, rows, device, len(devices))
        self.times = {name: int(ns.sum()) for name, ns in by_device.items()}
        computes = gpu_classes(window.core, rows) == COMPUTATION
        self.times[_KERNELS] = int(c.dur_ns[rows[computes]].sum())
        self.idle = {IDLE: idle_parts(window), AROUND: edge_parts(window)}

    def launches(self) -> int:
        """Number of calls that launched GPU work."""
        rows = self.window.linked_gpu_rows
        return len(np.unique(self.window.core.columns.parent[rows]))

    def waits(self) -> int:
        """Number of calls that wait for the GPU; of JAX, where functions of Python wait, those in no other one."""
        core = self.window.core
        calls = calls_of(core)
        if core.framework.waits_in_functions:
            rows = np.flatnonzero(calls.state == SYNCHRONIZATION)
            reach = np.maximum.accumulate(np.concatenate(([-1], core.columns.last[rows[:-1]]))) if len(rows) else rows
            return int(np.count_nonzero(self.window.holds(rows) & (rows > reach)))
        rows = self.window.rows_of_kind(Kind.RuntimeCall)
        return int((calls.state[rows] == SYNCHRONIZATION).sum())

    def because(self, idle: Idle, cause: Cause) -> str:
        """Name of the host event that the longest gap of a cause is due to; empty without one."""
        if not len(idle.row) or not idle.parts[cause].any():
            return ""
        core = self.window.core
        row = culprit(core, idle, int(idle.parts[cause].argmax()), cause)
        if row < 0:
            return ""
        kind = Kind(int(core.columns.kind[row]))
        name = normal_name(kind, core.names[core.columns.name[row]])
        # Annotations are free text, in which brackets and blanks mean nothing.
        return name if kind in LAYER_KINDS else short_name(name)


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


def _why_idle(part: str, cause: Cause, sides: list[_Side], names: tuple[str, str]) -> str:
    said = [_WHERE[part]] if part == AROUND else []
    if part == IDLE:
        said.append(_number([int((side.idle[part].parts[cause] > 0).sum()) for side in sides], "gap", "gaps"))
        for one, many, number in _FIGURES.get(cause, ()):
            if any(counts := [number(side) for side in sides]):
                said.append(_number(counts, one, many))
    because = [side.because(side.idle[part], cause) for side in sides]
    if because[0] == because[1]:
        said += [f"the longest due to {because[0]}"] if because[0] else []
    else:
        told = (f"in {name} to {called}" for name, called in zip(names, because, strict=True) if called)
        said.append(f"the longest due {', '.join(told)}")
    return f"{', '.join(said)}; {CAUSE_MEANING[cause]}"
