"""Columns of TraceLens's tables of ranks: kernels, collectives that end together, uneven all-to-alls.

In the second, who waited, how fast they were and who is late is counted. In the last no rank waits for all others, so
there is no latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.rank_collectives import Nodes
from tracelens_graph.analyses.ranks.sizes import bus_factors, rule_of
from tracelens_graph.analyses.shared.call_columns import statistic
from tracelens_graph.analyses.shared.grouping import Cells, Groups, picked, text_codes
from tracelens_graph.analyses.timeline.collectives import KEYS
from tracelens_graph.compat.ranks.instances import Instances, collective_id, spans_of_groups
from tracelens_graph.compat.ranks.kernels import Arguments, RankKernels
from tracelens_graph.compat.ranks.schemas import OF_RANK
from tracelens_graph.graph.arrays import distinct, quotients
from tracelens_graph.graph.info import MOST_RANKS
from tracelens_graph.utils.arrays import Codes, Ns

_ARGUMENTS = (
    "Process Group Name", "Process Group Ranks", "Collective name", "Group size", "dtype", "In msg nelems",
    "In msg size (MB)", "Out msg nelems", "Out msg size (MB)", "In split size", "Out split size",
)  # fmt: skip
_SIZES = ("In msg size (MB)", "Out msg size (MB)")


def long_columns(kernels: RankKernels, nodes: Nodes) -> dict[str, Cells]:
    """Columns of `nccl_long`: every kernel, by rank and start."""
    spans = spans_of_groups(kernels, nodes)
    numbers = kernels.number.tolist()
    return {
        "collective_id": [collective_id(kernels, at) if number >= 0 else None for at, number in enumerate(numbers)],
        "index_in_group": [number if number >= 0 else None for number in numbers],
        "rank": np.array(kernels.ranks, np.int64)[kernels.place],
        **{name: picked(_cells(kernels.arguments, name), kernels.argument_codes) for name in _ARGUMENTS},
        "stream": _streams(kernels.stream),
        "ts": kernels.ts(),
        "dur": kernels.dur_ns / 1e3,
        "node_id": [nodes.node_of(kernels.ranks[at]) for at in kernels.place.tolist()],
        "node_span": [spans[group] for group in kernels.group.tolist()],
    }


def summary_long_columns(kernels: RankKernels, nodes: Nodes) -> dict[str, Cells]:
    """Columns of `nccl_summary_long`: kernels by rank, arguments and stream, the greatest sum first."""
    group = text_codes(
        list(zip(kernels.place.tolist(), kernels.argument_codes.tolist(), kernels.stream.tolist(), strict=True))
    )
    _, first = np.unique(group, return_index=True)
    times, spans = Groups(group, kernels.dur_ns, len(first)), spans_of_groups(kernels, nodes)
    arguments = [kernels.arguments[at] for at in kernels.argument_codes[first].tolist()]
    ranks = [kernels.ranks[at] for at in kernels.place[first].tolist()]
    columns: dict[str, Cells] = {
        "rank": np.array(ranks, np.int64),
        **{key: _cells(arguments, key) for key in KEYS},
        "stream": _streams(kernels.stream[first]),
        **{f"{size}_first": _cells(arguments, size) for size in _SIZES},
        **{f"dur_{which}": statistic(times, which) / 1e3 for which in ("sum", "mean", "std", "min", "max")},
        "operation_count": times.count,
        "node_id": [nodes.node_of(rank) for rank in ranks],
        "node_span": [spans[at] for at in kernels.group[first].tolist()],
    }
    order = np.argsort(-times.sum, kind="stable")
    return {name: picked(cells, order) for name, cells in columns.items()}


def _cells(arguments: Sequence[Arguments], name: str) -> Cells:
    """A column of arguments; NaN for a size that is not known."""
    if name.endswith("(MB)"):
        return np.array([one.megabytes(name.split()[0]) for one in arguments], float)
    return [one.cells[name] for one in arguments]


def _streams(streams: Codes) -> list[int | None]:
    return [number if number >= 0 else None for number in streams.tolist()]


# --- collectives that end together -----------------------------------------------------------------------------------

WITH_BARRIER = (
    "allreduce", "allreduce_coalesced", "reduce_scatter", "_reduce_scatter_base", "all_gather", "_allgather_base",
    "all_to_all",
)  # fmt: skip
"""TraceLens assumes of these kinds that no rank leaves before all have come."""

GIB_PER_S = 1e9 / 1024
"""One unit of 2^20 bytes per nanosecond."""


def has_barrier(one: Arguments) -> bool:
    """Whether TraceLens takes it that no rank leaves the collective before all have come: so it does without a name."""
    return one.kind in WITH_BARRIER or one.cells["Collective name"] is None


def full_megabytes(one: Arguments) -> float:
    """Size of the whole message: what a rank gets out of an all-gather, else what it puts in."""
    rule = rule_of(one.kind)
    return one.megabytes("Out" if rule and rule.message == "out" else "In")


def waits(found: Instances) -> Ns:
    """For each kernel the time from its start to the latest start, ns: longer than the kernel if it ended before."""
    return found.per_part(found.last_start_ns) - found.start_ns


def implicit_sync_columns(found: Instances, nodes: Nodes) -> dict[str, Cells]:
    """Columns of `nccl_implicit_sync`."""
    arguments, kernels = found.arguments, found.kernels
    wait, latency = waits(found), found.shortest_ns
    ranks = np.array(kernels.ranks, np.int64)
    full = np.array([full_megabytes(one) for one in arguments], float)
    bandwidth = quotients(full * GIB_PER_S, latency)
    sizes = np.array([one.group_size or np.nan for one in arguments], float)
    columns: dict[str, Cells] = {
        "collective_id": found.ids,
        **{name: _cells(arguments, name) for name in (*_EVEN, *_SIZES)},
        "Full msg size (MB)": full,
        "comm_latency": latency / 1e3,
        "skew in start time": (found.last_start_ns - found.first_start_ns) / 1e3,
        "earliest arrival rank": ranks[found.trace[found.first_part]],
        "avg_wait_time": found.reduced(np.add, wait) / found.count / 1e3,
        "skew in end time": (found.last_end_ns - found.first_end_ns) / 1e3,
        "algo bw (GB/s)": bandwidth,
        "bus bw (GB/s)": bandwidth * bus_factors([one.kind for one in arguments], sizes),
    }
    ts, dur = kernels.ts(), kernels.dur_ns / 1e3
    for place in found.places:
        columns[f"rank_{ranks[place]}_ts"] = found.wide(ts, place)
        columns[f"rank_{ranks[place]}_dur"] = found.wide(dur, place)
    for place in found.places:
        columns[f"rank_{ranks[place]}_wait_time"] = found.wide(wait / 1e3, place)
    columns["node_span"] = found.spans(nodes)
    return columns


_EVEN = (
    "Process Group Name", "Process Group Ranks", "Collective name", "Group size", "dtype", "In msg nelems",
    "Out msg nelems",
)  # fmt: skip
_FIGURES = ("comm_latency", "skew in start time", "skew in end time", "algo bw (GB/s)", "bus bw (GB/s)")


def summary_implicit_sync_columns(each: Mapping[str, Cells], statistics: Sequence[str]) -> dict[str, Cells]:
    """Columns of `nccl_summary_implicit_sync`, from those of `nccl_implicit_sync`; the greatest sum of latencies first.

    Bandwidths that are known of no collective are left out.
    """
    keys = ("Collective name", "dtype", "In msg nelems")
    rows = list(zip(*(each[key] for key in keys), strict=True))
    codes = {one: code for code, one in enumerate(sorted(set(rows), key=_in_order))}  # rows of equal sums by these
    group = np.array([codes[one] for one in rows], np.int64)
    _, first = np.unique(group, return_index=True)
    columns: dict[str, Cells] = {key: picked(each[key], first) for key in keys}
    for name in ("Process Group Name", "Group size", "Full msg size (MB)"):
        columns[name] = picked(each[name], first)
    for figure in _FIGURES:
        if not figure.endswith("(GB/s)") or not np.isnan(np.asarray(each[figure], float)).all():
            columns |= _of_groups(each, figure, group, len(first), statistics)
    # Back to whole ns, whose sums are exact in any order.
    latency = Groups(group, np.rint(np.asarray(each["comm_latency"]) * 1e3).astype(np.int64), len(first))
    columns["count"] = latency.count
    columns["Total comm latency (ms)"] = latency.sum / 1e6
    order = np.argsort(-latency.sum, kind="stable")
    return {name: picked(cells, order) for name, cells in columns.items()}


def _of_groups(
    each: Mapping[str, Cells], name: str, group: Codes, count: int, statistics: Sequence[str]
) -> dict[str, Cells]:
    """Statistics of a figure by groups of collectives, without those where it is not known."""
    values = np.asarray(each[name], float)
    known = ~np.isnan(values)
    groups = Groups(group[known], values[known], count)
    return {f"{name}_{which}": statistic(groups, which) for which in statistics}


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


def _tenths(ns: Ns) -> np.ndarray:
    """Times in us, rounded to one digit; halves to the even one."""
    return np.rint(ns / 100) / 10


_UNEVEN = ("Process Group Name", "Process Group Ranks", "Collective name", "Group size", "dtype")


def all2allv_columns(found: Instances, nodes: Nodes) -> dict[str, Cells]:
    """Columns of `nccl_all2allv`, the most data first."""
    kernels = found.kernels
    sent = kernels.by_arguments([one.megabytes("In") for one in kernels.arguments])
    elements = kernels.by_arguments([one.elements("In") for one in kernels.arguments])
    late = found.start_ns - found.per_part(found.first_start_ns)
    early = found.per_part(found.last_end_ns) - found.end_ns
    total, wall = found.reduced(np.add, sent), found.last_end_ns - found.first_start_ns
    of_rank = _rate(sent, kernels.dur_ns)
    columns: dict[str, Cells] = {
        "collective_id": found.ids,
        **{name: _cells(found.arguments, name) for name in _UNEVEN},
        "stream": _streams(kernels.stream[found.lowest]),
        "total data communicated (MB)": total,
        "total nelems communicated": [
            None if np.isnan(count) else int(count) for count in found.reduced(np.add, elements).tolist()
        ],
        "wall_time (us)": wall / 1e3,
        "max_rank_dur (us)": found.longest_ns / 1e3,
        "min_rank_dur (us)": found.shortest_ns / 1e3,
        "avg_rank_dur (us)": found.reduced(np.add, kernels.dur_ns) / found.count / 1e3,
        "throughput (GB/s)": _rate(total, wall),
        "max_rank_throughput (GB/s)": found.reduced(np.maximum, of_rank),
        "min_rank_throughput (GB/s)": found.reduced(np.minimum, of_rank),
        "size_imbalance": quotients(found.reduced(np.maximum, sent) * found.count, total),
        "skew in start time": found.reduced(np.maximum, late) / 1e3,
        "skew in end time": found.reduced(np.maximum, early) / 1e3,
    }
    arguments = [kernels.arguments[at] for at in kernels.argument_codes.tolist()]
    ts, dur = kernels.ts(), kernels.dur_ns / 1e3
    of_rank_cells = {name: _cells(arguments, name) for name in OF_RANK}
    for place in found.places:
        rank = kernels.ranks[place]
        columns[f"rank_{rank}_ts"] = found.wide(ts, place)
        columns[f"rank_{rank}_dur"] = found.wide(dur, place)
        columns |= {f"rank_{rank}_{name}": found.wide(cells, place) for name, cells in of_rank_cells.items()}
    for place in found.places:
        rank = kernels.ranks[place]
        columns[f"rank_{rank}_skew in start time"] = found.wide(late / 1e3, place)
        columns[f"rank_{rank}_skew in end time"] = found.wide(early / 1e3, place)
    columns["node_span"] = found.spans(nodes)
    order = np.argsort(-total, kind="stable")  # those of unknown size last
    return {name: picked(cells, order) for name, cells in columns.items()}


def _rate(megabytes: np.ndarray, ns: Ns) -> np.ndarray:
    """GiB/s; NaN where no time has passed."""
    return quotients(megabytes * GIB_PER_S, ns)


def summary_all2allv_columns(each: Mapping[str, Cells], statistics: Sequence[str]) -> dict[str, Cells]:
    """Columns of `nccl_summary_all2allv`, from those of `nccl_all2allv`; the greatest sum of wall times first."""
    group = text_codes(list(zip(each["Process Group Name"], each["dtype"], strict=True)))
    _, first = np.unique(group, return_index=True)
    figures = partial(_of_groups, each, group=group, count=len(first))
    wall = Groups(group, np.rint(np.asarray(each["wall_time (us)"]) * 1e3).astype(np.int64), len(first))
    columns: dict[str, Cells] = {
        **{key: picked(each[key], first) for key in ("Process Group Name", "dtype")},
        **figures("total data communicated (MB)", statistics=statistics),
        **figures("wall_time (us)", statistics=statistics),
        "Total wall_time (us)": wall.sum / 1e3,
        **figures("throughput (GB/s)", statistics=statistics),
        **figures("size_imbalance", statistics=("mean", "max")),
        **figures("max_rank_dur (us)", statistics=("mean", "max")),
        **figures("skew in start time", statistics=("mean", "max")),
        **figures("skew in end time", statistics=("mean", "max")),
        "count": wall.count,
        **{key: picked(each[key], first) for key in ("Process Group Ranks", "Collective name", "Group size")},
        "Total wall_time (ms)": wall.sum / 1e6,
        "node_span": picked(each["node_span"], first),
    }
    order = np.argsort(-wall.sum, kind="stable")
    return {name: picked(cells, order) for name, cells in columns.items()}


def heatmap(found: Instances) -> tuple[dict[str, Cells], int]:
    """Columns of `nccl_all2allv_heatmap`, and how many kernels do not show how much goes to which rank.

    Splits are counted in rows of the tensor, so a share of them is that share of the elements.
    """
    kernels = found.kernels
    sent = [_sent(one, kernels.ranks_of(one)) for one in kernels.arguments]
    known = kernels.by_arguments([one is not None for one in sent], bool)[found.order]
    targets = np.array(sorted({rank for one in sent if one for rank in one[0]}), np.int64)
    total = np.zeros((len(kernels.ranks), len(targets)))
    times = np.zeros(total.shape, np.int64)
    # Kernels of one rank with the same arguments send the same.
    codes, of = distinct(found.trace[found.order][known] * len(sent) + kernels.argument_codes[found.order][known])
    for code, count in zip(codes.tolist(), np.bincount(of, minlength=len(codes)).tolist(), strict=True):
        place, at = divmod(code, len(sent))
        ranks, megabytes = sent[at] or ((), np.zeros(0))
        receiving = np.searchsorted(targets, ranks)
        total[place, receiving] += megabytes * count
        times[place, receiving] += count
    source, target = np.nonzero(times)
    columns: dict[str, Cells] = {
        "src_rank": np.array(kernels.ranks, np.int64)[source],
        "dst_rank": targets[target],
        "total_sent_MB": total[source, target],
        "avg_sent_MB": total[source, target] / times[source, target],
        "count": times[source, target],
    }
    return columns, int(np.count_nonzero(~known))


def _sent(one: Arguments, ranks: Sequence[int] | None) -> tuple[Sequence[int], np.ndarray] | None:
    """What a kernel with some arguments sends to which rank, in units of 2^20 bytes; None where it does not show it."""
    split: Any = one.cells["In split size"]
    size = one.megabytes("In")
    if not isinstance(split, list) or not ranks or len(split) != len(ranks) or np.isnan(size):
        return None
    if not all(0 <= rows < 2**53 for rows in split) or not all(0 <= rank < MOST_RANKS for rank in ranks):
        return None
    share = np.array(split, float)
    return ranks, share * (size / share.sum() if share.any() else 0.0)
