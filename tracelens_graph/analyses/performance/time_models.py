"""Columns with the times that models other than the roofline predict, beside the measured ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.analyses.performance.perf_rows import STATISTICS, CostedCalls, stats
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.analyses.shared.statistics import Groups
from tracelens_graph.errors import ExtensionError
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.model import TimeModel, Work
from tracelens_graph.tables.table import Column

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture


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
        share = np.divide(1e5 * times, busy, out=np.full(len(busy), np.nan), where=busy > 0)
        columns |= stats(f"Pct {model.label}", Groups(group, share, len(first)))
    return columns


def time_about(models: Sequence[TimeModel]) -> Iterator[tuple[str, Column]]:
    """Names and definitions of the columns."""
    for model in models:
        yield f"{model.label} Time (µs)_first", Column(f"time of a call that {model.label} predicts", "us")
        for which in STATISTICS:
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
        raise ExtensionError(f"{model.label}: a time in us is wanted, not {found!r:.60}")
    return float(found)
