"""GPU time and launches: how long launches take, both passes of training, what has no launch."""

from __future__ import annotations

from typing import Literal

import numpy as np

from tracelens_graph.analyses.grouping import group_by
from tracelens_graph.analyses.statistics import Groups
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import climb, launcher
from tracelens_graph.schema import Kind
from tracelens_graph.schema.tables import statistics
from tracelens_graph.table import Column, Table

NO_OP = "(no op)"

LAUNCH_DELAY = {
    "name": Column("op that the work is charged to, or call that launched it"),
    "launches": Column("calls that launched GPU work"),
    **statistics("delay_{}_us", "the times from the start of a call to the start of its first GPU event", "us",
                 ("mean", "median")),
    "delay_p99_us": Column("99 of 100 of these times are not longer", "us"),
    "delay_max_us": Column("greatest of these times", "us"),
    **statistics("after_{}_us", "the times from the end of a call to the start of its first GPU event; negative where "
                 "that starts before the call returns", "us", ("mean", "median")),
    "after_p99_us": Column("99 of 100 of these times are not longer", "us"),
    "after_max_us": Column("greatest of these times", "us"),
    "longest_uid": Column("uid of the call with the longest delay"),
}  # fmt: skip

FORWARD_BACKWARD = {
    "name": Column("forward op"),
    "forward_calls": Column("calls with GPU work charged to them"),
    "forward_us": Column("sum of the durations of the GPU events that they are the nearest linked op above", "us"),
    "recomputed_calls": Column("calls that run again what checkpointing dropped"),
    "recomputed_us": Column("sum of the durations of their GPU events", "us"),
    "backward_calls": Column("backward ops of such calls with GPU work charged to them"),
    "backward_us": Column("sum of the durations of their GPU events", "us"),
    "ratio": Column("backward_us / forward_us; absent without forward time"),
    "percent": Column("the three sums together as share of the sum over all GPU events", "%"),
    "uid": Column("smallest uid of the forward ops"),
}

UNLAUNCHED = {
    "kind": Column("Kernel, Memcpy or Memset"),
    "name": Column("name of the GPU events"),
    "streams": Column("streams that they are on"),
    "gpu_events": Column("GPU events without a launch in the trace"),
    "gpu_sum_us": Column("sum of their durations", "us"),
    "percent": Column("share of the sum over all GPU events", "%"),
    "early_events": Column("those that began before the first runtime call of the trace: launched before recording"),
    "first_start_ms": Column("start of the first of them, from the trace's start", "ms"),
    "last_end_ms": Column("end of the last of them", "ms"),
    "uid": Column("the one that starts first"),
}

ABOUT = {"launch_delay": LAUNCH_DELAY, "forward_backward": FORWARD_BACKWARD, "unlaunched_gpu_time": UNLAUNCHED}
"""Name of a query -> its columns."""


def launch_delay(g: Core, by: Literal["op", "call"] = "op", step: int | None = None) -> Table:
    """From a launch call to the start of its first GPU event, by op or by launch call.

    Args:
        g: the graph.
        by: "op" for the op that the GPU event is charged to, "call" for the runtime call.
        step: n of `ProfilerStep#n`.

    Raises:
        AnalysisError: `by` is neither; the trace has no such step.
    """
    if by not in ("op", "call"):
        raise AnalysisError(f'by is "op" or "call", not {by!r}')
    w, c = g.window(step=step), g.columns
    gpu = w.linked_gpu_rows
    # The first of a call's GPU events in row order is the one that starts first.
    _, first = group_by(c.parent[gpu])
    gpu, calls = gpu[first], c.parent[gpu[first]]
    named = c.owner[gpu] if by == "op" else calls
    code = np.where(named >= 0, c.name[named] if len(c) else 0, len(g.names))
    codes, group = distinct(code)
    delay = Groups(group, c.start_ns[gpu] - c.start_ns[calls], len(codes))
    after = Groups(group, c.start_ns[gpu] - c.end_ns[calls], len(codes))
    order = np.lexsort((calls, -delay.values, group))
    longest = calls[order[np.searchsorted(group[order], np.arange(len(codes)))]]
    columns = {
        "name": [([*g.names, NO_OP])[i] for i in codes.tolist()],
        "launches": delay.count,
        **{
            f"{name}_{which}_us": values / 1e3
            for name, times in (("delay", delay), ("after", after))
            for which, values in (
                ("mean", times.mean), ("median", times.median), ("p99", times.quantile(0.99)), ("max", times.max),
            )
        },
        "longest_uid": c.uid[longest],
    }  # fmt: skip
    table = Table("launch_delay", columns, LAUNCH_DELAY, w.titled(f"Launch delay by {by}"))
    return table.take(np.argsort(-delay.sum, kind="stable"))


def forward_backward(g: Core, step: int | None = None) -> Table:
    """GPU time of ops in the forward pass against that of their backward passes.

    Each GPU event counts for the nearest op above its launch that is linked with the other pass, so nested ops share
    nothing. Work of neither pass (optimizer, copies) is in no row: what percentages lack to 100.

    Raises:
        AnalysisError: the trace has no such step.
    """
    w, c = g.window(step=step), g.columns
    forward, backward = g.autograd.forward, g.autograd.backward
    linked, is_backward = np.zeros((2, len(c) + 1), bool)
    linked[forward] = linked[backward] = is_backward[backward] = True
    gpu = w.linked_gpu_rows
    op = climb(c.parent, launcher(c, gpu), linked)
    gpu, op = gpu[op >= 0], op[op >= 0]
    # Of the forward ops of one backward op the original one stands for it, not its recomputation.
    order = np.lexsort((forward, c.start_ns[forward], g.recompute[forward], backward))
    stands_for = np.arange(len(c) + 1)
    stands_for[backward[order[::-1]]] = forward[order[::-1]]
    again = g.recompute[op] if len(op) else np.zeros(0, bool)
    side = np.where(is_backward[op], 2, np.where(again, 1, 0))
    codes, group = distinct(c.name[stands_for[op]] if len(op) else op)
    cell = group * 3 + side
    sums = sum_by_group(cell, c.dur_ns[gpu], 3 * len(codes)).reshape(-1, 3)
    _, once = group_by(op)
    calls = np.bincount(cell[once], minlength=3 * len(codes)).reshape(-1, 3)
    total = int(c.dur_ns[w.gpu_rows].sum())
    columns = {
        "name": [g.names[i] for i in codes.tolist()],
        **{
            name: values
            for i, part in enumerate(("forward", "recomputed", "backward"))
            for name, values in ((f"{part}_calls", calls[:, i]), (f"{part}_us", sums[:, i] / 1e3))
        },
        "ratio": np.divide(sums[:, 2], sums[:, 0], out=np.full(len(codes), np.nan), where=sums[:, 0] > 0),
        "percent": 100 * sums.sum(axis=1) / max(total, 1),
        "uid": Groups(group, c.uid[stands_for[op]] if len(op) else op, len(codes)).min.astype(np.int64),
    }
    table = Table(
        "forward_backward", columns, FORWARD_BACKWARD, w.titled("GPU time of forward and backward pass by op")
    )
    return table.take(np.argsort(-sums.sum(axis=1), kind="stable"))


def unlaunched_gpu_time(g: Core, step: int | None = None) -> Table:
    """GPU work whose launch is not in the trace, by name.

    Raises:
        AnalysisError: the trace has no such step.
    """
    w, c = g.window(step=step), g.columns
    rows = w.gpu_rows[c.parent[w.gpu_rows] < 0]
    rows = rows[np.lexsort((c.uid[rows], c.start_ns[rows]))]
    group, first = group_by(c.kind[rows], c.name[rows])
    groups = len(first)
    spots, _ = group_by(group, c.device[rows], c.stream[rows])
    streams = np.bincount(group[np.unique(spots, return_index=True)[1]], minlength=groups)
    calls = np.flatnonzero(c.kind == Kind.RuntimeCall)
    begin = int(c.start_ns[calls].min()) if len(calls) else np.iinfo(np.int64).min
    sums = sum_by_group(group, c.dur_ns[rows], groups)
    lead = rows[first]
    columns = {
        "kind": [Kind(kind).name for kind in c.kind[lead].tolist()],
        "name": [g.names[code] for code in c.name[lead].tolist()],
        "streams": streams,
        "gpu_events": np.bincount(group, minlength=groups),
        "gpu_sum_us": sums / 1e3,
        "percent": 100 * sums / max(int(c.dur_ns[w.gpu_rows].sum()), 1),
        "early_events": np.bincount(group[c.start_ns[rows] < begin], minlength=groups),
        "first_start_ms": c.start_ns[lead] / 1e6,
        "last_end_ms": Groups(group, c.end_ns[rows], groups).max / 1e6,
        "uid": c.uid[lead],
    }
    table = Table("unlaunched_gpu_time", columns, UNLAUNCHED, w.titled("GPU work whose launch is not in the trace"))
    return table.take(np.argsort(-sums, kind="stable"))
