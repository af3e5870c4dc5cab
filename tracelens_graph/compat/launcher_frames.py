"""Summaries of a DataFrame of launcher calls: pandas in and out, so that callers may filter it in between.

The frame is what `TreePerfAnalyzer.get_df_kernel_launchers` gives: one row per call of an op that launched GPU work,
in the order of starts. Of a whole frame the summaries say what the tables of a report say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tracelens_graph.errors import AnalysisError

DIRECT, SUBTREE = "total_direct_kernel_time", "total_subtree_kernel_time"
ARGUMENTS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
STATISTICS = ("mean", "median", "std", "min", "max", "sum")

SAME_CALL = ("name", "op category", "process_name", "process_label", "thread_name", *ARGUMENTS)
_IN_DETAILS: dict[str, tuple[str, Callable[[np.ndarray], Any]]] = {
    "mean": ("mean_duration_us", np.mean),
    "median": ("median_duration_us", np.median),
    "std": ("std_dev_duration_us", np.std),
    "min": ("min_duration_us", np.min),
    "max": ("max_duration_us", np.max),
}
"""Statistic -> its name in the details of a kernel, and how to compute it."""

Details = list[dict[str, Any]]


def by_name(calls: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """GPU time per name of launcher, and per further keys as far as the frame has them; the greatest first."""
    group, first, present = grouped(calls, ("name", *keys))
    table = calls[present].iloc[first].reset_index(drop=True)
    sums = {time: calls[time].groupby(group).sum() for time in (DIRECT, SUBTREE) if time in calls}
    table = table.assign(**{f"{time}_sum": total for time, total in sums.items()})
    table = table.assign(**{f"{time}_ms": total / 1000 for time, total in sums.items()})
    table["Count"] = np.bincount(group, minlength=len(first))
    if "op category" in calls:
        labels = calls["op category"].groupby(group).unique()
        table["Categories"] = pd.Series([sorted(each) for each in labels], dtype=object)
    if "call_stack" in calls and "parent_module" in present:
        table["call_stack_first"] = calls["call_stack"].iloc[first].to_numpy()
    return greatest_first(table, calls, first, f"{DIRECT}_sum")


def by_category(calls: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """GPU time per category of launchers, and per further keys as far as the frame has them; the greatest first."""
    group, first, present = grouped(calls, ("op category", *keys))
    table = calls[present].iloc[first].reset_index(drop=True)
    table["Count"] = np.bincount(group, minlength=len(first))
    if "call_stack" in calls and "parent_module" in present:
        table["call_stack_first"] = calls["call_stack"].iloc[first].to_numpy()
    table[f"{DIRECT}_ms"] = calls[DIRECT].groupby(group).sum() / 1000
    return greatest_first(table, calls, first, f"{DIRECT}_ms")


def by_shape(calls: pd.DataFrame, name: str) -> pd.DataFrame:
    """GPU time of one op per dims, types and strides of its inputs; the greatest first."""
    calls = calls[calls["name"] == name]
    group, first, present = grouped(calls, ARGUMENTS[:3])
    times, kernels = calls[DIRECT].groupby(group), calls["direct_kernel_count"].groupby(group)
    table = calls[present].iloc[first].reset_index(drop=True)
    table["Total Kernel Time (µs)"] = times.sum()
    table["Count"] = np.bincount(group, minlength=len(first))
    table["Mean Kernel Time (µs)"] = times.mean()
    table["Std Kernel Time (µs)"] = times.std()
    table["Max Direct Kernel Count"] = kernels.max()
    table["Min Direct Kernel Count"] = kernels.min()
    table["Total Kernel Time (ms)"] = times.sum() / 1000
    return greatest_first(table, calls, first, "Total Kernel Time (µs)")


def by_arguments(
    calls: pd.DataFrame, statistics: Sequence[str], keys: Iterable[str] = (), shares: bool = True
) -> pd.DataFrame:
    """Calls of one op with the same arguments, on threads of the same name, as one row; the greatest time first.

    Args:
        calls: the frame.
        statistics: which statistics of the times of calls; the sum is always among them.
        keys: further columns that tell rows apart, as far as the frame has them.
        shares: add each row's share of the time, and the running share.
    """
    group, first, present = grouped(calls, (*SAME_CALL, *keys))
    table = calls[present].iloc[first].reset_index(drop=True)
    table["operation_count"] = np.bincount(group, minlength=len(first))
    if "ts" in calls:
        table["first_occurrence_time"] = calls["ts"].groupby(group).min() - calls["ts"].min()
    wanted = {*statistics, "sum"}
    for which in [*(w for w in STATISTICS if w in wanted), *sorted(wanted.difference(STATISTICS))]:
        for time in (DIRECT, SUBTREE):
            if time in calls:
                table[f"{time}_{which}"] = calls[time].groupby(group).agg(which)
    if "UID" in calls:
        table["ex_UID"] = calls["UID"].iloc[first].to_numpy()
    odd = 0
    if "kernel_details" in calls:
        details, odd = details_by_place(calls["kernel_details"], group, len(first), statistics)
        table["kernel_details_summary"] = details
    if "overlapping_kernel_names" in present:
        table["overlapping_kernels_details_summary"] = _details_by_kernel(
            calls["overlapping_kernels_details"], group, len(first)
        )
        share = calls["overlap_pct"].groupby(group)
        table = table.assign(**{f"overlap_pct_{w}": share.agg(w).round(2) for w in STATISTICS[:-1]})
    if "call_stack" in calls:
        table["call_stack"] = calls["call_stack"].iloc[first].to_numpy()
    table = greatest_first(table, calls, first, f"{DIRECT}_sum", shares)
    if odd:
        table.attrs["notes"] = [note_on_details(odd)]
    return table


def note_on_details(odd: int) -> str:
    """What is said of calls that are not in the details of kernels."""
    return f"{odd:,} calls with another number of GPU events than the first of their row are not in kernel details"


def grouped(calls: pd.DataFrame, keys: Iterable[str]) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Number of the group of each call, position of the first call of each group, and the keys that the frame has."""
    present = [key for key in keys if key in calls]
    if not present:
        raise AnalysisError(f"the frame has none of the columns {', '.join(keys)}")
    # By their text: arguments are lists or tuples, and what is absent in two calls is equal in them.
    texts = [calls[key].map(str) for key in present]
    group = calls.groupby(texts, sort=False, dropna=False).ngroup().to_numpy(np.int64)
    return group, np.unique(group, return_index=True)[1], present


def greatest_first(
    table: pd.DataFrame, calls: pd.DataFrame, first: np.ndarray, by: str, shares: bool = True
) -> pd.DataFrame:
    """Rows by a time, the greatest first, then by the first UID; with shares."""
    uid = calls["UID"].to_numpy()[first] if "UID" in calls else np.arange(len(first))
    time = table[by].to_numpy(float)
    table = table.iloc[np.lexsort((uid, -time))].reset_index(drop=True)
    if shares:
        share = 100 * table[by] / total if (total := time.sum()) else np.full(len(table), np.nan)
        table["Percentage (%)"] = share
        table["Cumulative Percentage (%)"] = np.cumsum(share)
    return table


def details_by_place(
    details: pd.Series[Any], group: np.ndarray, groups: int, statistics: Sequence[str]
) -> tuple[pd.Series[Any], int]:
    """Statistics of the kernels of each group by their place in the call, the shortest in total first.

    Returns:
        A list per group, and the number of calls that have another number of kernels than the first of their group.
    """
    found, odd = [], 0
    for calls in _lists(details, group, groups):
        pattern: Details = next(filter(None, calls), [])
        alike = [[kernel["dur"] for kernel in kernels] for kernels in calls if len(kernels) == len(pattern)]
        odd += len(calls) - len(alike)
        entries = [
            _entry(kernel, times, statistics) for kernel, times in zip(pattern, np.array(alike, float).T, strict=True)
        ]
        found.append(sorted(entries, key=_total))
    return pd.Series(found, dtype=object), odd


def _details_by_kernel(details: pd.Series[Any], group: np.ndarray, groups: int) -> pd.Series[Any]:
    """Number and durations of the kernels of each group by name and stream, the shortest in total first."""
    found = []
    for calls in _lists(details, group, groups):
        alike: dict[tuple[str, Any], Details] = {}
        for kernel in (kernel for kernels in calls for kernel in kernels):
            alike.setdefault((kernel["name"], kernel["stream"]), []).append(kernel)
        entries = [_entry(same[0], np.array([k["dur"] for k in same]), ["mean"]) for same in alike.values()]
        found.append(sorted(entries, key=_total))
    return pd.Series(found, dtype=object)


def _lists(details: pd.Series[Any], group: np.ndarray, groups: int) -> list[list[Details]]:
    lists: list[list[Details]] = [[] for _ in range(groups)]
    for number, kernels in zip(group.tolist(), details, strict=True):
        lists[number].append(kernels)
    return lists


def _entry(kernel: dict[str, Any], times: np.ndarray, statistics: Sequence[str]) -> dict[str, Any]:
    known = {key: value for key, value in kernel.items() if key != "dur"}
    # Durations are whole nanoseconds. Their sum is exact, so that equal sums stay in the order of the pattern.
    known |= {"count": len(times), "total_duration_us": float(np.rint(times.sum() * 1000) / 1000)}
    return known | {name: float(of(times)) for name, of in (_IN_DETAILS[w] for w in statistics if w in _IN_DETAILS)}


def _total(entry: dict[str, Any]) -> float:
    total: float = entry["total_duration_us"]
    return total
