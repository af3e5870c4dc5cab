"""Which nodes stand for the segments of a critical path, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.host_time import longest_calls
from tracelens_graph.analyses.critical_path.points import Edge
from tracelens_graph.graph.arrays import is_kind, positions_by
from tracelens_graph.graph.trace_set import rank_number
from tracelens_graph.graph.traversals import climb
from tracelens_graph.schema import GPU_KINDS, Kind

_MODULE = "nn.Module: "


@dataclass(frozen=True)
class Nodes:
    """Nodes of some ranks, and what is to be said of each.

    Attributes:
        rank: rank in the job; None where there is no node.
        uid: uid; None where there is no node.
        name, op, module: names; empty where there is none.
    """

    rank: list[int | None]
    uid: list[int | None]
    name: list[str]
    op: list[str]
    module: list[str]


def rank_of(causes: Causes, ordinal: int) -> int:
    """Rank in the job, else the place in the set."""
    return rank_number(causes.traces, ordinal)


def nodes_of(causes: Causes, ordinal: np.ndarray, row: np.ndarray) -> Nodes:
    """What is to be said of rows of ranks; -1 is none."""
    count = len(row)
    nodes = Nodes([None] * count, [None] * count, [""] * count, [""] * count, [""] * count)
    for one, of in positions_by(ordinal):
        if one < 0:
            continue
        core, c = causes.core(one), causes.core(one).columns
        there = of[row[of] >= 0]
        rows = row[there]
        is_gpu = is_kind(c.kind[rows], GPU_KINDS)
        op = np.where(is_gpu, c.owner[rows], climb(c.parent, rows, c.kind == Kind.Op))
        module = climb(c.parent, rows, c.kind == Kind.Module)
        rank = rank_of(causes, one)
        for place in of.tolist():
            nodes.rank[place] = rank
        for place, uid, name, of_op, of_module in zip(
            there.tolist(), c.uid[rows].tolist(), c.name[rows].tolist(), op.tolist(), module.tolist(), strict=True
        ):
            nodes.uid[place], nodes.name[place] = uid, core.names[name]
            nodes.op[place] = core.names[c.name[of_op]] if of_op >= 0 else ""
            nodes.module[place] = core.names[c.name[of_module]].removeprefix(_MODULE) if of_module >= 0 else ""
    return nodes


def segment_rows(causes: Causes, edge: np.ndarray, start_ns: np.ndarray, end_ns: np.ndarray) -> np.ndarray:
    """Per segment of a path the row of the node that stands for it; -1 for none.

    Of host time it is the innermost call with most of it, of a launch or wait the call, else the GPU work.
    """
    before, after = causes.before[edge], causes.after[edge]
    kind = np.where(edge >= 0, causes.kind[edge], -1)
    rows = np.where(kind == Edge.launch, causes.row[before], causes.row[after])
    rows[edge < 0] = -1
    host = np.flatnonzero((kind == Edge.host) | (kind == Edge.call))
    for ordinal, of in positions_by(causes.ordinal[after[host]]):
        spans = host[of]
        core = causes.core(ordinal)
        shift = causes.on_clock(ordinal, 0)
        start, end = start_ns[spans] - shift, end_ns[spans] - shift
        left = np.arange(len(spans))
        for point in (after, before):  # where its own thread does nothing, the thread that it works for does
            thread = core.columns.thread[causes.row[point[spans[left]]]]
            found = longest_calls(core, thread, start[left], end[left])
            rows[spans[left[found >= 0]]] = found[found >= 0]
            left = left[found < 0]
    return rows
