"""Summaries of DataFrames of modelled calls: pandas in and out, so that callers may filter them in between.

Of whole frames they say what the sheets of a report say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tracelens_graph.compat.launcher_frames import (
    ARGUMENTS,
    SAME_CALL,
    details_by_place,
    greatest_first,
    grouped,
    note_on_details,
)

TIME = "Kernel Time (µs)"
_WORK = ("GFLOPS", "Data Moved (MB)", "FLOPS/Byte")
_RATES = ("TB/s", "TFLOPS/s")
_PLACE = ("process_name", "process_label", "thread_name")
_ROOF, _BOUND, _SHARE = "Roofline Time (µs)", "Roofline Bound", "Pct Roofline"
_OTHER_TIME, _OTHER_RATE = "Non-Data-Mov Kernel Time (µs)", "Non-Data-Mov TFLOPS/s"


def by_sizes(calls: pd.DataFrame, statistics: Sequence[str], by_kernel_count: bool = False) -> pd.DataFrame:
    """Modelled calls of one op with the same sizes as one row; the greatest time first.

    Args:
        calls: the frame.
        statistics: which statistics of rates and times, by pandas's names; the sum of times is always there.
        by_kernel_count: tell calls with different numbers of GPU events apart; needs the kernel details.
    """
    sizes = [name for name in map(str, calls) if name.startswith("param: ")]
    if by_kernel_count:
        calls = calls.assign(num_kernels=calls["kernel_details"].map(len))
    group, first, present = grouped(calls, ("name", *sizes, "num_kernels", "is_recompute"))
    table = _Summary(calls, group, first, present)
    table.first(_WORK, "_first")
    table.statistics((*_RATES, _OTHER_RATE), statistics)
    table.first(_PLACE, "_first")
    table.first(("Compute Spec",))
    table.first((_ROOF, _BOUND), "_first")
    table.statistics((_SHARE,), statistics)
    table.details("kernel_details__summarize_kernel_stats", statistics)
    table.first(ARGUMENTS, "_first")
    table.statistics((_OTHER_TIME,), ("sum",))
    table.statistics((TIME,), dict.fromkeys((*statistics, "sum")))
    table.columns["name_count"] = np.bincount(group, minlength=len(first))
    table.first(("UID",), "_first")
    return table.sorted(f"{TIME}_sum", shares=False)


def by_arguments(
    calls: pd.DataFrame, statistics: Sequence[str], shares: bool = False, by_kernel_count: bool = False
) -> pd.DataFrame:
    """Calls of one op with the same arguments, on threads of the same name, as one row; the greatest time first.

    Args:
        calls: the frame.
        statistics: which statistics of rates and times, by pandas's names; means, deviations and the sum of times
            are always there.
        shares: add each row's share of the time, and the running share.
        by_kernel_count: tell calls with different numbers of GPU events apart; needs the kernel details.
    """
    if by_kernel_count:
        calls = calls.assign(num_kernels=calls["kernel_details"].map(len))
    group, first, present = grouped(calls, (*SAME_CALL, "num_kernels", "is_recompute"))
    table = _Summary(calls, group, first, present)
    more = [which for which in statistics if which not in ("mean", "std", "sum")]
    if "UID" in calls:
        table.columns["ex_UID"] = calls["UID"].iloc[first].to_numpy()
    table.columns["operation_count"] = np.bincount(group, minlength=len(first))
    host = calls["duration_us"].groupby(group)
    table.columns |= {"total_duration_us": host.sum(), "mean_duration_us": host.mean(), "std_duration_us": host.std()}
    table.first((*_WORK, "Compute Spec", _BOUND))
    table.statistics(_RATES, ("mean", "std"))
    table.statistics((TIME,), ("mean", "std", "sum"))
    table.statistics(("duration_us", *_RATES), more)
    table.first((_ROOF,), "_first")
    table.statistics((_SHARE,), statistics)
    table.statistics((TIME,), more)
    table.details("kernel_details_summary", statistics)
    table.first(("perf_params", "has_perf_model"))
    return table.sorted(f"{TIME}_sum", shares)


class _Summary:
    """A summary in the making: columns by groups of calls."""

    def __init__(self, calls: pd.DataFrame, group: np.ndarray, first: np.ndarray, keys: Sequence[str]) -> None:
        self._calls, self._group, self._first = calls, group, first
        self._notes: list[str] = []
        self.columns: dict[str, Any] = {key: calls[key].iloc[first].reset_index(drop=True) for key in keys}

    def first(self, names: Iterable[str], suffix: str = "") -> None:
        """Add what the first call of each group has, as far as the frame has it."""
        for name in names:
            if name in self._calls:
                self.columns[f"{name}{suffix}"] = self._calls[name].iloc[self._first].reset_index(drop=True)

    def statistics(self, names: Iterable[str], which: Iterable[str]) -> None:
        """Add statistics of figures, as far as the frame has them."""
        for name in names:
            if name in self._calls:
                values = self._calls[name].astype(float).groupby(self._group)
                self.columns |= {f"{name}_{statistic}": values.agg(statistic) for statistic in which}

    def details(self, name: str, statistics: Sequence[str]) -> None:
        """Add statistics of GPU events by their place in the call, if the frame has details."""
        if "kernel_details" in self._calls:
            lists = self._calls["kernel_details"]
            self.columns[name], odd = details_by_place(lists, self._group, len(self._first), statistics)
            if odd:
                self._notes.append(note_on_details(odd))

    def sorted(self, by: str, shares: bool) -> pd.DataFrame:
        """The rows by a time, the greatest first."""
        table = greatest_first(pd.DataFrame(self.columns), self._calls, self._first, by, shares)
        table.attrs["notes"] = self._notes
        return table
