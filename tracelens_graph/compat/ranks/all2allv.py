"""TraceLens's tables of uneven all-to-alls: no rank waits for all others in them, so there is no latency to tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.nodes import Nodes
from tracelens_graph.analyses.shared.call_columns import statistic
from tracelens_graph.analyses.shared.grouping import Cells, Groups, picked, text_codes
from tracelens_graph.compat.ranks.implicit_sync import GIB_PER_S
from tracelens_graph.compat.ranks.instances import Instances
from tracelens_graph.compat.ranks.kernels import Arguments
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.info import MOST_RANKS

_SAID = ("Process Group Name", "Process Group Ranks", "Collective name", "Group size", "dtype")
_OF_RANK = (
    "In msg nelems",
    "Out msg nelems",
    "In msg size (MB)",
    "Out msg size (MB)",
    "In split size",
    "Out split size",
)


def is_all2allv(one: Arguments) -> bool:
    """Whether kernels with these arguments carry out an uneven all-to-all."""
    return one.kind == "all_to_allv"


def all2allv_columns(found: Instances, nodes: Nodes) -> dict[str, Cells]:
    """Columns of `nccl_all2allv`, the most data first."""
    kernels, said = found.kernels, found.said
    sent = kernels.by_arguments([one.megabytes("In") for one in kernels.arguments])
    elements = kernels.by_arguments([_or_nan(one.elements("In")) for one in kernels.arguments])
    late = found.start_ns - found.per_part(found.first_start_ns)
    early = found.per_part(found.last_end_ns) - found.end_ns
    total, wall = found.reduced(np.add, sent), found.last_end_ns - found.first_start_ns
    of_rank = _rate(sent, kernels.dur_ns)
    stream = kernels.stream[found.lowest].tolist()
    columns: dict[str, Cells] = {
        "collective_id": found.ids,
        **{name: [one.cells[name] for one in said] for name in _SAID},
        "stream": [number if number >= 0 else None for number in stream],
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
        "size_imbalance": np.divide(
            found.reduced(np.maximum, sent) * found.count, total, out=np.full(len(found), np.nan), where=total > 0
        ),
        "skew in start time": found.reduced(np.maximum, late) / 1e3,
        "skew in end time": found.reduced(np.maximum, early) / 1e3,
    }
    arguments = [kernels.arguments[at] for at in kernels.said.tolist()]
    ts, dur = kernels.ts(), kernels.dur_ns / 1e3
    told = {name: _cells(arguments, name) for name in _OF_RANK}
    for place in found.places:
        rank = kernels.ranks[place]
        columns[f"rank_{rank}_ts"] = found.wide(ts, place)
        columns[f"rank_{rank}_dur"] = found.wide(dur, place)
        columns |= {f"rank_{rank}_{name}": found.wide(cells, place) for name, cells in told.items()}
    for place in found.places:
        rank = kernels.ranks[place]
        columns[f"rank_{rank}_skew in start time"] = found.wide(late / 1e3, place)
        columns[f"rank_{rank}_skew in end time"] = found.wide(early / 1e3, place)
    columns["node_span"] = found.spans(nodes)
    order = np.argsort(-total, kind="stable")  # those of unknown size last
    return {name: picked(cells, order) for name, cells in columns.items()}


def _cells(arguments: Sequence[Arguments], name: str) -> Cells:
    if name.endswith("(MB)"):
        return np.array([one.megabytes(name.split()[0]) for one in arguments], float)
    return [one.cells[name] for one in arguments]


def _or_nan(count: int | None) -> float:
    return np.nan if count is None else float(count)


def _rate(megabytes: np.ndarray, ns: np.ndarray) -> np.ndarray:
    """GiB/s; NaN where no time has passed."""
    return np.divide(megabytes * GIB_PER_S, ns, out=np.full(len(ns), np.nan), where=ns > 0)


def summary_all2allv_columns(each: Mapping[str, Cells], statistics: Sequence[str]) -> dict[str, Cells]:
    """Columns of `nccl_summary_all2allv`, from those of `nccl_all2allv`; the greatest sum of wall times first."""
    told = list(zip(each["Process Group Name"], each["dtype"], strict=True))
    group = text_codes(told)
    _, first = np.unique(group, return_index=True)

    def figures(name: str, which: Sequence[str]) -> dict[str, Cells]:
        values = np.asarray(each[name], float)
        known = ~np.isnan(values)
        of_group = Groups(group[known], values[known], len(first))
        return {f"{name}_{one}": statistic(of_group, one) for one in which}

    wall = Groups(group, np.rint(np.asarray(each["wall_time (us)"]) * 1e3).astype(np.int64), len(first))
    columns: dict[str, Cells] = {
        **{key: picked(each[key], first) for key in ("Process Group Name", "dtype")},
        **figures("total data communicated (MB)", statistics),
        **figures("wall_time (us)", statistics),
        "Total wall_time (us)": wall.sum / 1e3,
        **figures("throughput (GB/s)", statistics),
        **figures("size_imbalance", ("mean", "max")),
        **figures("max_rank_dur (us)", ("mean", "max")),
        **figures("skew in start time", ("mean", "max")),
        **figures("skew in end time", ("mean", "max")),
        "count": wall.count,
        **{key: picked(each[key], first) for key in ("Process Group Ranks", "Collective name", "Group size")},
        "Total wall_time (ms)": wall.sum / 1e6,
        "node_span": picked(each["node_span"], first),
    }
    order = np.argsort(-wall.sum, kind="stable")
    return {name: picked(cells, order) for name, cells in columns.items()}


@dataclass(frozen=True)
class Heatmap:
    """What ranks send to one another.

    Attributes:
        columns: those of `nccl_all2allv_heatmap`, by sending and receiving rank.
        left_out: kernels that do not tell how much goes to which rank.
    """

    columns: dict[str, Cells]
    left_out: int


def heatmap(found: Instances) -> Heatmap:
    """The pairs of ranks of uneven all-to-alls, by their ranks in the job.

    Splits are counted in rows of the tensor, so a share of them is that share of the elements.
    """
    kernels = found.kernels
    said = kernels.said[found.order]
    sent = [_sent(one, kernels.ranks_of(one)) for one in kernels.arguments]
    known = kernels.by_arguments([one is not None for one in sent], bool)[found.order]
    targets = np.array(sorted({rank for one in sent if one for rank in one[0]}), np.int64)
    total = np.zeros((len(kernels.ranks), len(targets)))
    times = np.zeros(total.shape, np.int64)
    # Kernels of one rank with the same arguments send the same.
    codes, of = distinct(found.trace[found.order][known] * len(sent) + said[known])
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
    return Heatmap(columns, int(np.count_nonzero(~known)))


def _sent(one: Arguments, ranks: Sequence[int] | None) -> tuple[Sequence[int], np.ndarray] | None:
    """What a kernel with some arguments sends to which rank, in units of 2^20 bytes; None where it does not tell."""
    split: Any = one.cells["In split size"]
    size = one.megabytes("In")
    if not isinstance(split, list) or not ranks or len(split) != len(ranks) or np.isnan(size):
        return None
    if not all(0 <= rows < 2**53 for rows in split) or not all(0 <= rank < MOST_RANKS for rank in ranks):
        return None
    share = np.array(split, float)
    return ranks, share * (size / share.sum() if share.any() else 0.0)
