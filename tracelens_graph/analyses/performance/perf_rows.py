"""Calls with the cost and time that models give them: the common part of the performance tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.analyses.ops.launchers import OpCalls
from tracelens_graph.analyses.shared.call_columns import statistic
from tracelens_graph.analyses.shared.grouping import Cells, Groups, group_by
from tracelens_graph.errors import ExtensionError
from tracelens_graph.graph.arrays import quotients
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.model import TimeModel, Work
from tracelens_graph.tables.column import FIVE, Column

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.perf.roofs import Roof


RATES = ("TB/s", "TFLOPS/s")


@dataclass
class CostedCalls:
    """Calls, and what models say of them.

    Attributes:
        calls: the calls with their GPU events.
        cost: per call the position of its estimate in `costs`, -1 for none.
        costs: different estimates.
        arch: the device that roofs are computed for; None for none.
    """

    calls: OpCalls
    cost: np.ndarray
    costs: Sequence[Cost]
    arch: Architecture | None = None

    @cached_property
    def roofs(self) -> list[Roof | None]:
        """The roof of each estimate; None where there is none."""
        if self.arch is None:
            return [None] * len(self.costs)
        from tracelens_graph.perf.roofs import roofline

        found = (roofline(cost, self.arch) for cost in self.costs)
        return [None if isinstance(roof, str) else roof for roof in found]

    def per_call(self, values: Iterable[float | int | None]) -> np.ndarray:
        """A figure of the estimates for each call, NaN where it is not known."""
        # The last entry is for calls without an estimate, whose position is -1.
        table = np.array([np.nan if value is None else value for value in values] + [np.nan], float)
        return table[self.cost]

    @cached_property
    def rates(self) -> Mapping[str, np.ndarray]:
        """Per call the achieved rates, in 10^12 bytes and 10^12 operations per second of busy time; NaN if unknown."""
        seconds = self.calls.direct_ns / 1e9
        flops = self.per_call(cost.flops for cost in self.costs)
        moved = self.per_call(cost.bytes for cost in self.costs)
        return {name: quotients(work / 1e12, seconds) for name, work in zip(RATES, (moved, flops), strict=True)}

    @cached_property
    def roof_us(self) -> np.ndarray:
        """Per call the time at the roof, us; NaN if unknown."""
        return self.per_call(None if roof is None else roof.time_us for roof in self.roofs)

    @cached_property
    def percent_of_roof(self) -> np.ndarray:
        """Per call the time at the roof as share of the busy time, in percent; NaN if unknown."""
        least = self.roof_us * 1e3
        busy = self.calls.direct_ns
        return quotients(100 * least, busy)

    def of_first(self, first: np.ndarray) -> list[Cost | None]:
        """The estimates of some calls."""
        return [self.costs[code] if code >= 0 else None for code in self.cost[first].tolist()]

    def roof_of_first(self, first: np.ndarray) -> list[Roof | None]:
        """The roofs of some calls."""
        return [self.roofs[code] if code >= 0 else None for code in self.cost[first].tolist()]

    def bounds(self, group: np.ndarray, groups: int) -> list[str | None]:
        """What bounds those calls of each group with most time, as copies over the link and on the device may be one
        group; None where it is not known."""
        known = np.flatnonzero(~np.isnan(self.roof_us))
        which, first = group_by(group[known], self.cost[known])
        time = Groups(which, self.calls.direct_ns[known], len(first)).sum
        calls = known[first[np.argsort(-time, kind="stable")[::-1]]]
        found: list[str | None] = [None] * groups
        for of, roof in zip(group[calls].tolist(), self.roof_of_first(calls), strict=True):
            found[of] = roof.bound if roof else None
        return found


def work_columns(costs: Sequence[Cost | None], suffix: str = "") -> dict[str, Cells]:
    """Operations, bytes and intensity of estimates, None where not known."""
    return {
        f"GFLOPS{suffix}": [None if cost is None else cost.flops / 1e9 for cost in costs],
        f"Data Moved (MB){suffix}": [
            None if cost is None or cost.bytes is None else cost.bytes / 2**20 for cost in costs
        ],
        f"FLOPS/Byte{suffix}": [None if cost is None else cost.intensity for cost in costs],
    }


def stats(name: str, values: Groups, which: Iterable[str] = FIVE, scale: float = 1) -> dict[str, Cells]:
    """Columns `name_mean` and so on."""
    return {f"{name}_{w}": statistic(values, w) * scale for w in which}


def time_columns(
    found: CostedCalls, group: np.ndarray, first: np.ndarray, models: Sequence[TimeModel], backward: np.ndarray
) -> dict[str, Cells]:
    """Columns with predicted times, and their shares in measured ones.

    Args:
        found: calls with their costs.
        group: number of the group of each call.
        first: the first call of each group.
        models: what predicts.
        backward: per call whether its cost is that of the backward pass of the op that it is a call of.
    """
    columns: dict[str, Cells] = {}
    busy = found.calls.direct_ns
    for model in models:
        times = _predicted(found, model, backward)
        columns[f"{model.label} Time (µs)_first"] = [None if np.isnan(us) else us for us in times[first].tolist()]
        share = quotients(1e5 * times, busy)
        columns |= stats(f"Pct {model.label}", Groups(group, share, len(first)))
    return columns


def time_about(models: Sequence[TimeModel]) -> Iterator[tuple[str, Column]]:
    """Names and definitions of the columns."""
    for model in models:
        yield f"{model.label} Time (µs)_first", Column(f"time of a call that {model.label} predicts", "us")
        for which in FIVE:
            meaning = f"{which} over calls of the time that {model.label} predicts as share of the GPU busy time"
            yield f"Pct {model.label}_{which}", Column(meaning, "%")


def _predicted(found: CostedCalls, model: TimeModel, backward: np.ndarray) -> np.ndarray:
    """The prediction for each call, us; NaN where there is none. Equal work is asked for once."""
    core, name = found.calls.core, found.calls.core.columns.name[found.calls.rows]
    keys = np.stack((name.astype(np.int64), found.cost.astype(np.int64), backward.astype(np.int64)), axis=1)
    different, back = np.unique(keys, axis=0, return_inverse=True)
    times = np.full(len(different), np.nan)
    for i, (code, cost, is_backward) in enumerate(different.tolist()):
        if cost >= 0:
            times[i] = _time(model, Work(core.names[code], found.costs[cost], bool(is_backward)), found.arch)
    return times[back.reshape(-1)]


def _time(model: TimeModel, work: Work, arch: Architecture | None) -> float:
    try:
        found: Any = model.time_us(work, arch)
    except CannotModel:
        return np.nan
    if found is None:
        return np.nan
    if not isinstance(found, Real):
        raise ExtensionError(f"{model.label}: expected a time in us, not {found!r:.60}")
    return float(found)
