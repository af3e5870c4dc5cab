"""What GPU events the calls of a group consist of, as list cells of the op tables."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tracelens_graph.analyses.ops.launchers import OpCalls
from tracelens_graph.analyses.shared.grouping import group_by
from tracelens_graph.analyses.shared.statistics import Groups
from tracelens_graph.graph.core import Core

_NAME_CHARACTERS = 64

Details = list[dict[str, Any]]


def details_of_groups(found: OpCalls, group: np.ndarray, first: np.ndarray) -> tuple[list[Details], list[str]]:
    """For each group of launchers its GPU events, by their place in the call, the shortest in total first.

    The first call of a group sets the pattern; calls with another number of GPU events are not in the statistics.

    Args:
        found: the launchers.
        group: group of each launcher.
        first: first launcher of each group.

    Returns:
        A list per group, and notes on calls that are left out.
    """
    size = found.count[first]
    begin = np.concatenate(([0], np.cumsum(size)))
    fits = found.count == size[group]
    kept = fits[found.of]
    owner = found.of[kept]
    place = np.flatnonzero(kept) - found.first[owner]
    detail = begin[group[owner]] + place
    pattern = found.gpu[np.repeat(found.first[first], size) + np.arange(begin[-1]) - np.repeat(begin[:-1], size)]
    entries = _entries(found.core, pattern, Groups(detail, found.core.columns.dur_ns[found.gpu[kept]], int(begin[-1])))
    lists = [
        sorted(entries[low:high], key=lambda entry: entry["total_duration_us"])
        for low, high in zip(begin[:-1].tolist(), begin[1:].tolist(), strict=True)
    ]
    odd = int(np.count_nonzero(~fits))
    notes = [f"{odd:,} calls with another number of GPU events than the first of their row are not in kernel details"]
    return lists, notes if odd else []


def details_of_unlinked(found: OpCalls) -> Details:
    """GPU events without a launch by name and stream, the shortest in total first."""
    c, rows = found.core.columns, found.unlinked
    group, first = group_by(c.name[rows], c.stream[rows])
    entries = _entries(found.core, rows[first], Groups(group, c.dur_ns[rows], len(first)))
    return sorted(entries, key=lambda entry: entry["total_duration_us"])


def truncated(details: Details) -> Details:
    """Short names, streams and rounded means of a list of details."""
    return [
        {
            "name": _shortened(entry["name"]),
            "stream": entry["stream"],
            "mean_duration_us": _hundredths(entry["total_duration_us"], entry["count"]),
        }
        for entry in details
    ]


def _hundredths(total_us: float, count: int) -> float:
    """The mean to two places, half a hundredth to the even one: of the exact quotient, which floats seldom hold."""
    return round(Fraction(round(1000 * total_us), 10 * count)) / 100


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_CHARACTERS else name[:_NAME_CHARACTERS] + "..."


def _entries(core: Core, pattern: np.ndarray, times: Groups) -> Details:
    """An entry per group of durations; `pattern` is a GPU row of each."""
    c = core.columns
    columns = {
        "name": [core.names[i] for i in c.name[pattern].tolist()],
        "stream": [stream if stream >= 0 else None for stream in c.stream[pattern].tolist()],
        "count": times.count.tolist(),
        "total_duration_us": (times.sum / 1e3).tolist(),
        "mean_duration_us": (times.mean / 1e3).tolist(),
        "median_duration_us": (times.median / 1e3).tolist(),
        "std_dev_duration_us": (times.std(ddof=0) / 1e3).tolist(),
        "min_duration_us": (times.min / 1e3).tolist(),
        "max_duration_us": (times.max / 1e3).tolist(),
    }
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
