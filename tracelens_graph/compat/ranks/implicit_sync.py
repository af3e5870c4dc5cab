"""TraceLens's tables of collectives that end together on all ranks: who waited, how fast they were, who is late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.nodes import Nodes
from tracelens_graph.analyses.ranks.sizes import bus_factors, rule_of
from tracelens_graph.analyses.shared.call_columns import statistic
from tracelens_graph.analyses.shared.grouping import Cells, Groups, picked
from tracelens_graph.compat.ranks.instances import Instances
from tracelens_graph.compat.ranks.kernels import Arguments

WITH_BARRIER = (
    "allreduce", "allreduce_coalesced", "reduce_scatter", "_reduce_scatter_base", "all_gather", "_allgather_base",
    "all_to_all",
)  # fmt: skip
"""Kinds of which TraceLens takes it that no rank leaves before all have come."""

GIB_PER_S = 1e9 / 1024
"""One unit of 2^20 bytes per nanosecond."""


def has_barrier(one: Arguments) -> bool:
    """Whether TraceLens takes it that no rank leaves the collective before all have come: so it does without a name."""
    return one.kind in WITH_BARRIER or one.cells["Collective name"] is None


def full_megabytes(one: Arguments) -> float:
    """Size of the whole message: what a rank gets out of an all-gather, else what it puts in."""
    rule = rule_of(one.kind)
    return one.megabytes("Out" if rule and rule.message == "out" else "In")


def waits(found: Instances) -> np.ndarray:
    """For each kernel the time from its start to the latest start, ns: longer than the kernel if it ended before."""
    return found.per_part(found.last_start_ns) - found.start_ns


def implicit_sync_columns(found: Instances, nodes: Nodes) -> dict[str, Cells]:
    """Columns of `nccl_implicit_sync`."""
    said, kernels = found.said, found.kernels
    wait, latency = waits(found), found.shortest_ns
    ranks = np.array(kernels.ranks, np.int64)
    full = np.array([full_megabytes(one) for one in said], float)
    bandwidth = np.divide(full * GIB_PER_S, latency, out=np.full(len(found), np.nan), where=latency > 0)
    sizes = np.array([one.group_size or np.nan for one in said], float)
    columns: dict[str, Cells] = {
        "collective_id": found.ids,
        **{name: [one.cells[name] for one in said] for name in _SAID},
        **{f"{way} msg size (MB)": np.array([one.megabytes(way) for one in said], float) for way in ("In", "Out")},
        "Full msg size (MB)": full,
        "comm_latency": latency / 1e3,
        "skew in start time": (found.last_start_ns - found.first_start_ns) / 1e3,
        "earliest arrival rank": ranks[found.trace[found.first_part]],
        "avg_wait_time": found.reduced(np.add, wait) / found.count / 1e3,
        "skew in end time": (found.last_end_ns - found.first_end_ns) / 1e3,
        "algo bw (GB/s)": bandwidth,
        "bus bw (GB/s)": bandwidth * bus_factors([one.kind for one in said], sizes),
    }
    ts, dur = kernels.ts(), kernels.dur_ns / 1e3
    for place in found.places:
        columns[f"rank_{ranks[place]}_ts"] = found.wide(ts, place)
        columns[f"rank_{ranks[place]}_dur"] = found.wide(dur, place)
    for place in found.places:
        columns[f"rank_{ranks[place]}_wait_time"] = found.wide(wait / 1e3, place)
    columns["node_span"] = found.spans(nodes)
    return columns


_SAID = (
    "Process Group Name", "Process Group Ranks", "Collective name", "Group size", "dtype", "In msg nelems",
    "Out msg nelems",
)  # fmt: skip
_FIGURES = ("comm_latency", "skew in start time", "skew in end time", "algo bw (GB/s)", "bus bw (GB/s)")


def summary_implicit_sync_columns(each: Mapping[str, Cells], statistics: Sequence[str]) -> dict[str, Cells]:
    """Columns of `nccl_summary_implicit_sync`, from those of `nccl_implicit_sync`; the greatest sum of latencies first.

    Bandwidths that are known of no collective are left out.
    """
    keys = ("Collective name", "dtype", "In msg nelems")
    told = list(zip(*(each[key] for key in keys), strict=True))
    codes = {one: code for code, one in enumerate(sorted(set(told), key=_in_order))}  # rows of equal sums by these
    group = np.array([codes[one] for one in told], np.int64)
    _, first = np.unique(group, return_index=True)
    columns: dict[str, Cells] = {key: picked(each[key], first) for key in keys}
    for name in ("Process Group Name", "Group size", "Full msg size (MB)"):
        columns[name] = picked(each[name], first)
    for figure in _FIGURES:
        values = np.asarray(each[figure], float)
        if not figure.endswith("(GB/s)") or not np.isnan(values).all():
            known = ~np.isnan(values)
            groups = Groups(group[known], values[known], len(first))
            columns |= {f"{figure}_{which}": statistic(groups, which) for which in statistics}
    latency = Groups(group, np.rint(np.asarray(each["comm_latency"]) * 1e3).astype(np.int64), len(first))
    columns["count"] = latency.count
    columns["Total comm latency (ms)"] = latency.sum / 1e6
    order = np.argsort(-latency.sum, kind="stable")
    return {name: picked(cells, order) for name, cells in columns.items()}


def _in_order(cells: Sequence[Any]) -> list[tuple[bool, bool, Any]]:
    """What cells are sorted by: numbers, then text, then what was not recorded."""
    return [(cell is None, isinstance(cell, str), 0 if cell is None else cell) for cell in cells]


def straggler_columns(found: Instances, nodes: Nodes) -> dict[str, Cells]:
    """Columns of `straggler_summary`, from collectives that several ranks took part in.

    Times are rounded to tenths of a microsecond, as TraceLens rounds them.
    """
    found = found.only(found.count > 1)
    kernels, wait = found.kernels, waits(found)
    ranks = len(kernels.ranks)
    of_rank = Groups(found.trace[found.order], wait[found.order], ranks)
    total, taken = of_rank.sum, of_rank.count
    last, first = (np.bincount(found.trace[parts], minlength=ranks) for parts in (found.last_part, found.first_part))
    every = Groups(kernels.place, kernels.dur_ns, ranks).sum
    there = np.flatnonzero(taken)
    order = there[np.argsort(total[there], kind="stable")]
    numbers = [kernels.ranks[place] for place in order.tolist()]
    return {
        "rank": np.array(numbers, np.int64),
        "total_wait_time_us": _tenths(total[order]),
        "mean_wait_time_us": _tenths(total[order] / taken[order]),
        "times_arrived_last": last[order],
        "times_arrived_first": first[order],
        "pct_arrived_last": np.round(100 * last[order] / taken[order], 1),
        "num_collectives": taken[order],
        "total_nccl_dur_us": _tenths(every[order]),
        "node_id": [nodes.node_of(rank) for rank in numbers],
    }


def _tenths(ns: np.ndarray) -> np.ndarray:
    """Times in us, rounded to one digit; halves to the even one."""
    return np.rint(ns / 100) / 10
