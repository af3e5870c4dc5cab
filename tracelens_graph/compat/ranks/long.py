"""TraceLens's tables of single kernels: one row per kernel and rank, and their summary by arguments."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.ranks.nodes import Nodes
from tracelens_graph.analyses.shared.grouping import Cells, Groups, picked, text_codes
from tracelens_graph.analyses.timeline.collectives import KEYS
from tracelens_graph.compat.ranks.instances import collective_id, spans_of_groups
from tracelens_graph.compat.ranks.kernels import RankKernels

_ARGUMENTS = (
    "Process Group Name", "Process Group Ranks", "Collective name", "Group size", "dtype", "In msg nelems",
    "In msg size (MB)", "Out msg nelems", "Out msg size (MB)", "In split size", "Out split size",
)  # fmt: skip


def long_columns(kernels: RankKernels, nodes: Nodes) -> dict[str, Cells]:
    """Columns of `nccl_long`: every kernel, by rank and start."""
    arguments = kernels.arguments
    said = kernels.said.tolist()
    grouped = kernels.number >= 0
    spans = spans_of_groups(kernels, nodes)
    of_argument: dict[str, list[object]] = {
        name: [one.megabytes(name[:3].strip()) for one in arguments]
        if "size (MB)" in name
        else [one.cells[name] for one in arguments]
        for name in _ARGUMENTS
    }
    columns: dict[str, Cells] = {
        "collective_id": [
            collective_id(kernels, at) if is_grouped else None for at, is_grouped in enumerate(grouped.tolist())
        ],
        "index_in_group": [number if number >= 0 else None for number in kernels.number.tolist()],
        "rank": np.array(kernels.ranks, np.int64)[kernels.place],
    }
    for name, cells in of_argument.items():
        if "size (MB)" in name:
            columns[name] = np.array(cells, float)[kernels.said]
        else:
            columns[name] = [cells[at] for at in said]
    return {
        **columns,
        "stream": [stream if stream >= 0 else None for stream in kernels.stream.tolist()],
        "ts": kernels.ts(),
        "dur": kernels.dur_ns / 1e3,
        "node_id": [nodes.node_of(kernels.ranks[at]) for at in kernels.place.tolist()],
        "node_span": [spans[group] for group in kernels.group.tolist()],
    }


def summary_long_columns(kernels: RankKernels, nodes: Nodes) -> dict[str, Cells]:
    """Columns of `nccl_summary_long`: kernels by rank, arguments and stream, the greatest sum first."""
    group = text_codes(list(zip(kernels.place.tolist(), kernels.said.tolist(), kernels.stream.tolist(), strict=True)))
    _, first = np.unique(group, return_index=True)
    times, spans = Groups(group, kernels.dur_ns, len(first)), spans_of_groups(kernels, nodes)
    said = [kernels.arguments[at] for at in kernels.said[first].tolist()]
    ranks = [kernels.ranks[at] for at in kernels.place[first].tolist()]
    columns: dict[str, Cells] = {
        "rank": np.array(ranks, np.int64),
        **{key: [one.cells[key] for one in said] for key in KEYS},
        "stream": [stream if stream >= 0 else None for stream in kernels.stream[first].tolist()],
        **{
            f"{way} msg size (MB)_first": np.array([one.megabytes(way) for one in said], float) for way in ("In", "Out")
        },
        "dur_sum": times.sum / 1e3,
        "dur_mean": times.mean / 1e3,
        "dur_std": times.std() / 1e3,
        "dur_min": times.min / 1e3,
        "dur_max": times.max / 1e3,
        "operation_count": times.count,
        "node_id": [nodes.node_of(rank) for rank in ranks],
        "node_span": [spans[at] for at in kernels.group[first].tolist()],
    }
    order = np.argsort(-times.sum, kind="stable")
    return {name: picked(cells, order) for name, cells in columns.items()}
