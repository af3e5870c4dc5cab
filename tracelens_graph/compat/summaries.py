"""Summaries of DataFrames of calls: pandas in and out, so that callers may filter them in between.

Of whole frames they say what the tables of a report say. Launchers are what `TreePerfAnalyzer.get_df_kernel_launchers`
gives, a row per call that launched GPU work, by start; modelled calls come from its `build_df_…` methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tracelens_graph.errors import AnalysisError
from tracelens_graph.utils.arrays import Codes, Rows

DIRECT, SUBTREE = "total_direct_kernel_time", "total_subtree_kernel_time"
ARGUMENTS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
STATISTICS = ("mean", "median", "std", "min", "max", "sum")

_PLACE = ("process_name", "process_label", "thread_name")
_SAME_CALL = ("name", "op category", *_PLACE, *ARGUMENTS)
_TIME, _WORK, _RATES = "Kernel Time (µs)", ("GFLOPS", "Data Moved (MB)", "FLOPS/Byte"), ("TB/s", "TFLOPS/s")
_ROOF, _BOUND, _SHARE = "Roofline Time (µs)", "Roofline Bound", "Pct Roofline"
_OTHER_TIME, _OTHER_RATE = "Non-Data-Mov Kernel Time (µs)", "Non-Data-Mov TFLOPS/s"

_IN_DETAILS: dict[str, tuple[str, Callable[[np.ndarray], Any]]] = {
    "mean": ("mean_duration_us", np.mean),
    "median": ("median_duration_us", np.median),
    "std": ("std_dev_duration_us", np.std),
    "min": ("min_duration_us", np.min),
    "max": ("max_duration_us", np.max),
}
"""Statistic -> its name in the details of a kernel, and how to compute it."""

Details = list[dict[str, Any]]


# --- launchers ---------------------------------------------------------------------------------------------------


def by_name(calls: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """GPU time per name of launcher, and per further keys as far as the frame has them; the greatest first."""
    table = _Summary(calls, ("name", *keys))
    sums = {time: table.groups(time).sum() for time in (DIRECT, SUBTREE) if time in calls}
    table.columns |= {f"{time}_sum": total for time, total in sums.items()}
    table.columns |= {f"{time}_ms": total / 1000 for time, total in sums.items()}
    table.columns["Count"] = table.count
    if "op category" in calls:
        labels = [sorted(each) for each in table.groups("op category").unique()]
        table.columns["Categories"] = pd.Series(labels, dtype=object)
    table.first_stack()
    return table.ranked(f"{DIRECT}_sum")


def by_category(calls: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """GPU time per category of launchers, and per further keys as far as the frame has them; the greatest first."""
    table = _Summary(calls, ("op category", *keys))
    table.columns["Count"] = table.count
    table.first_stack()
    table.columns[f"{DIRECT}_ms"] = table.groups(DIRECT).sum() / 1000
    return table.ranked(f"{DIRECT}_ms")


def by_shape(calls: pd.DataFrame, name: str) -> pd.DataFrame:
    """GPU time of one op per dims, types and strides of its inputs; the greatest first."""
    table = _Summary(calls[calls["name"] == name], ARGUMENTS[:3])
    times, kernels = table.groups(DIRECT), table.groups("direct_kernel_count")
    table.columns |= {
        "Total Kernel Time (µs)": times.sum(),
        "Count": table.count,
        "Mean Kernel Time (µs)": times.mean(),
        "Std Kernel Time (µs)": times.std(),
        "Max Direct Kernel Count": kernels.max(),
        "Min Direct Kernel Count": kernels.min(),
        "Total Kernel Time (ms)": times.sum() / 1000,
    }
    return table.ranked("Total Kernel Time (µs)")


def by_arguments(
    calls: pd.DataFrame, statistics: Sequence[str], keys: Iterable[str] = (), shares: bool = True
) -> pd.DataFrame:
    """Calls of one op with the same arguments, on threads of the same name, as one row; the greatest time first.

    Args:
        statistics: which statistics of the times of calls; the sum is always among them.
        keys: further columns that separate rows, as far as the frame has them.
        shares: add each row's share of the time, and the running share.
    """
    table = _Summary(calls, (*_SAME_CALL, *keys))
    table.columns["operation_count"] = table.count
    if "ts" in calls:
        table.columns["first_occurrence_time"] = table.groups("ts").min() - calls["ts"].min()
    wanted = {*statistics, "sum"}
    for which in [*(w for w in STATISTICS if w in wanted), *sorted(wanted.difference(STATISTICS))]:
        table.statistics((DIRECT, SUBTREE), (which,))
    table.first_uid()
    table.details("kernel_details_summary", statistics)
    if "overlapping_kernel_names" in table.keys:
        found = _details_by_kernel(table.lists("overlapping_kernels_details"))
        table.columns["overlapping_kernels_details_summary"] = pd.Series(found, dtype=object)
        share = table.groups("overlap_pct")
        table.columns |= {f"overlap_pct_{which}": share.agg(which) for which in STATISTICS[:-1]}
    table.first(("call_stack",))
    return table.ranked(f"{DIRECT}_sum", shares)


# --- modelled calls ----------------------------------------------------------------------------------------------


def modelled_by_sizes(calls: pd.DataFrame, statistics: Sequence[str], by_kernel_count: bool = False) -> pd.DataFrame:
    """Modelled calls of one op with the same sizes as one row; the greatest time first.

    Args:
        statistics: which statistics of rates and times, by pandas's names; the sum of times is always there.
        by_kernel_count: separate calls with different numbers of GPU events; needs the kernel details.
    """
    sizes = [name for name in map(str, calls) if name.startswith("param: ")]
    table = _Summary(_counted(calls, by_kernel_count), ("name", *sizes, "num_kernels", "is_recompute"))
    table.first(_WORK, "_first")
    table.statistics((*_RATES, _OTHER_RATE), statistics)
    table.first(_PLACE, "_first")
    table.first(("Compute Spec",))
    table.first((_ROOF, _BOUND), "_first")
    table.statistics((_SHARE,), statistics)
    table.details("kernel_details__summarize_kernel_stats", statistics)
    table.first(ARGUMENTS, "_first")
    table.statistics((_OTHER_TIME,), ("sum",))
    table.statistics((_TIME,), dict.fromkeys((*statistics, "sum")))
    table.columns["name_count"] = table.count
    table.first(("UID",), "_first")
    return table.ranked(f"{_TIME}_sum", shares=False)


def modelled_by_arguments(
    calls: pd.DataFrame, statistics: Sequence[str], shares: bool = False, by_kernel_count: bool = False
) -> pd.DataFrame:
    """Modelled calls of one op with the same arguments, on threads of the same name, as one row; most time first.

    Args:
        statistics: which statistics of rates and times, by pandas's names; means, deviations and the sum of times
            are always there.
        shares: add each row's share of the time, and the running share.
        by_kernel_count: separate calls with different numbers of GPU events; needs the kernel details.
    """
    table = _Summary(_counted(calls, by_kernel_count), (*_SAME_CALL, "num_kernels", "is_recompute"))
    more = [which for which in statistics if which not in ("mean", "std", "sum")]
    table.first_uid()
    table.columns["operation_count"] = table.count
    host = table.groups("duration_us")
    table.columns |= {"total_duration_us": host.sum(), "mean_duration_us": host.mean(), "std_duration_us": host.std()}
    table.first((*_WORK, "Compute Spec", _BOUND))
    table.statistics(_RATES, ("mean", "std"))
    table.statistics((_TIME,), ("mean", "std", "sum"))
    table.statistics(("duration_us", *_RATES), more)
    table.first((_ROOF,), "_first")
    table.statistics((_SHARE,), statistics)
    table.statistics((_TIME,), more)
    table.details("kernel_details_summary", statistics)
    table.first(("perf_params", "has_perf_model"))
    return table.ranked(f"{_TIME}_sum", shares)


def _counted(calls: pd.DataFrame, wanted: bool) -> pd.DataFrame:
    return calls.assign(num_kernels=calls["kernel_details"].map(len)) if wanted else calls


# --- a summary in the making ---------------------------------------------------------------------------------------


class _Summary:
    """Columns by groups of calls.

    Attributes:
        keys: those of the keys that the frame has.
        columns: the columns so far, one cell per group.
        count: number of calls of each group.

    Raises:
        AnalysisError: the frame has none of the keys.
    """

    def __init__(self, calls: pd.DataFrame, keys: Sequence[str]) -> None:
        self.keys = [key for key in keys if key in calls]
        if not self.keys:
            raise AnalysisError(f"the frame has none of the columns {', '.join(keys)}")
        # By their text: arguments are lists or tuples, and what is absent in two calls is equal in them.
        texts = [calls[key].map(str) for key in self.keys]
        self._calls, self._notes = calls, list[str]()
        self._group: Codes = calls.groupby(texts, sort=False, dropna=False).ngroup().to_numpy(np.int64)
        self._first: Rows = np.unique(self._group, return_index=True)[1]
        self.columns: dict[str, Any] = {}
        self.first(self.keys)
        self.count = np.bincount(self._group, minlength=len(self._first))

    def groups(self, name: str) -> Any:
        """A column of the frame, grouped."""
        return self._calls[name].groupby(self._group)

    def first(self, names: Iterable[str], suffix: str = "") -> None:
        """Add what the first call of each group has, as far as the frame has it."""
        for name in names:
            if name in self._calls:
                self.columns[f"{name}{suffix}"] = self._calls[name].iloc[self._first].reset_index(drop=True)

    def first_uid(self) -> None:
        """Add the UID of the first call, if the frame has UIDs."""
        if "UID" in self._calls:
            self.columns["ex_UID"] = self._calls["UID"].to_numpy()[self._first]

    def first_stack(self) -> None:
        """Add the call stack of the first call, if rows differ in the module around them."""
        if "parent_module" in self.keys:
            self.first(("call_stack",), "_first")

    def statistics(self, names: Iterable[str], which: Iterable[str]) -> None:
        """Add statistics of figures, as far as the frame has them."""
        for name in names:
            if name in self._calls:
                values = self._calls[name].astype(float).groupby(self._group)
                self.columns |= {f"{name}_{statistic}": values.agg(statistic) for statistic in which}

    def lists(self, name: str) -> list[list[Details]]:
        """The details of the calls of each group."""
        lists: list[list[Details]] = [[] for _ in self._first]
        for number, kernels in zip(self._group.tolist(), self._calls[name], strict=True):
            lists[number].append(kernels)
        return lists

    def details(self, name: str, statistics: Sequence[str]) -> None:
        """Add statistics of GPU events by their place in the call, if the frame has details."""
        if "kernel_details" not in self._calls:
            return
        found, odd = _details_by_place(self.lists("kernel_details"), statistics)
        self.columns[name] = pd.Series(found, dtype=object)
        if odd:
            self._notes.append(
                f"{odd:,} calls with another number of GPU events than the first of their row are not in kernel details"
            )

    def ranked(self, by: str, shares: bool = True) -> pd.DataFrame:
        """Rows by a time, the greatest first, then by the first UID; with shares if asked for."""
        table = pd.DataFrame(self.columns)
        calls = self._calls
        uid = calls["UID"].to_numpy()[self._first] if "UID" in calls else np.arange(len(self._first))
        time = table[by].to_numpy(float)
        table = table.iloc[np.lexsort((uid, -time))].reset_index(drop=True)
        if shares:
            share = 100 * table[by] / total if (total := time.sum()) else np.full(len(table), np.nan)
            table["Percentage (%)"] = share
            table["Cumulative Percentage (%)"] = np.cumsum(share)
        table.attrs["notes"] = self._notes
        return table


def _details_by_place(groups: list[list[Details]], statistics: Sequence[str]) -> tuple[list[Details], int]:
    """Statistics of the kernels of each group by their place in the call, the shortest in total first.

    Returns:
        A list per group, and the number of calls that have another number of kernels than the first of their group.
    """
    found, odd = [], 0
    for calls in groups:
        pattern: Details = next(filter(None, calls), [])
        alike = [[kernel["dur"] for kernel in kernels] for kernels in calls if len(kernels) == len(pattern)]
        odd += len(calls) - len(alike)
        times = np.array(alike, float).T
        entries = [_entry(kernel, each, statistics) for kernel, each in zip(pattern, times, strict=True)]
        found.append(sorted(entries, key=_total))
    return found, odd


def _details_by_kernel(groups: list[list[Details]]) -> list[Details]:
    """Number and durations of the kernels of each group by name and stream, the shortest in total first."""
    found = []
    for calls in groups:
        alike: dict[tuple[str, Any], Details] = {}
        for kernel in (kernel for kernels in calls for kernel in kernels):
            alike.setdefault((kernel["name"], kernel["stream"]), []).append(kernel)
        entries = [_entry(same[0], np.array([k["dur"] for k in same]), ["mean"]) for same in alike.values()]
        found.append(sorted(entries, key=_total))
    return found


def _entry(kernel: dict[str, Any], times: np.ndarray, statistics: Sequence[str]) -> dict[str, Any]:
    known = {key: value for key, value in kernel.items() if key != "dur"}
    # Durations are whole nanoseconds. Their sum is exact, so that equal sums stay in the order of the pattern.
    known |= {"count": len(times), "total_duration_us": float(np.rint(times.sum() * 1000) / 1000)}
    return known | {name: float(of(times)) for name, of in (_IN_DETAILS[w] for w in statistics if w in _IN_DETAILS)}


def _total(entry: dict[str, Any]) -> float:
    return entry["total_duration_us"]
