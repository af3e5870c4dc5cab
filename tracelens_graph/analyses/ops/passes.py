"""Ops in the forward pass, in recomputation and in their backward passes."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.shared.grouping import Groups, group_by
from tracelens_graph.errors import TraceLensGraphError
from tracelens_graph.graph.arrays import distinct, quotients
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import climb, launcher
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.hlo.origin import Pass
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

FORWARD_BACKWARD = TableSchema(
    "forward_backward",
    "What ops take in the forward pass, in recomputation and in their backward pass.",
    {
        "name": Column.key("forward op"),
        "forward_calls": Column.count("calls with GPU work charged to them"),
        "forward_us": Column.total(
            "sum of the durations of the GPU events whose nearest linked op above they are", "us"
        ),
        "recomputed_calls": Column.count("calls that run again what checkpointing dropped"),
        "recomputed_us": Column.total("sum of the durations of their GPU events", "us"),
        "backward_calls": Column.count("backward ops of such calls with GPU work charged to them"),
        "backward_us": Column.total("sum of the durations of their GPU events", "us"),
        "ratio": Column("backward_us / forward_us; absent without forward time"),
        "percent": Column.share("the three sums together as share of the sum over all GPU events"),
        "uid": Column.uid("smallest uid of the forward ops"),
    },
)


def forward_backward(g: Core | Window) -> Table:
    """GPU time of ops in the forward pass, compared with their backward passes.

    Each GPU event counts for the nearest op above its launch that is linked with the other pass, or that is the
    engine's around such an op, so nested ops share nothing. Work of neither pass (optimizer, copies) is in no row: what
    percentages lack to 100. Nor is recomputed work whose nearest linked op is the backward op that has it recomputed:
    it is no work of that op. Forward ops that have a backward op in common, as instructions of one name in JAX, count
    as the first of them.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    links = autograd_of(core)
    forward, backward, again = links.forward, links.backward, links.recompute
    linked, is_backward = np.zeros((2, len(c) + 1), bool)
    linked[forward] = linked[backward] = linked[links.engine[0]] = is_backward[backward] = True
    gpu = w.linked_gpu_rows
    op = links.run_by(climb(c.parent, launcher(c, gpu), linked))
    counts = (op >= 0) & ~(again[gpu] & ~again[op])
    gpu, op = gpu[counts], op[counts]
    # Of the forward ops of one backward op the original one stands for it, not its recomputation.
    order = np.lexsort((forward, c.start_ns[forward], again[forward], backward))
    stands_for = np.arange(len(c) + 1)
    stands_for[backward[order[::-1]]] = forward[order[::-1]]
    original = ~is_backward[forward] & ~again[forward]
    mine, of = forward[original], stands_for[backward[original]]
    order = np.lexsort((of, c.start_ns[of], again[of], mine))
    stands_for[mine[order[::-1]]] = of[order[::-1]]
    side = np.where(is_backward[op], 2, np.where(again[op], 1, 0)) if len(op) else op
    codes, group = distinct(c.name[stands_for[op]] if len(op) else op)
    cell = group * 3 + side
    sums = sum_by_group(cell, c.dur_ns[gpu], 3 * len(codes)).reshape(-1, 3)
    _, once = group_by(op)
    calls = np.bincount(cell[once], minlength=3 * len(codes)).reshape(-1, 3)
    total = int(c.dur_ns[w.gpu_rows].sum())
    columns = {
        "name": [core.names[i] for i in codes.tolist()],
        **{
            name: values
            for i, part in enumerate(("forward", "recomputed", "backward"))
            for name, values in ((f"{part}_calls", calls[:, i]), (f"{part}_us", sums[:, i] / 1e3))
        },
        "ratio": quotients(sums[:, 2], sums[:, 0]),
        "percent": 100 * sums.sum(axis=1) / max(total, 1),
        "uid": Groups(group, c.uid[stands_for[op]] if len(op) else op, len(codes)).min.astype(np.int64),
    }
    note = w.framework.no_backward
    notes = [note, *passes_by_name(core, w.gpu_rows)] if note and not len(backward) else []
    table = FORWARD_BACKWARD.table(columns, w.titled("GPU time of forward and backward pass by op"), notes)
    return table.take(np.argsort(-sums.sum(axis=1), kind="stable"))


def passes_by_name(core: Core, rows: np.ndarray) -> list[str]:
    """One line on the GPU time of each pass by the names of instructions; none where nothing is known of backward work.

    The names stand in the profile only, so the line is missing where that cannot be read any more.
    """
    c = core.columns
    rows = rows[c.owner[rows] >= 0]
    group, first = group_by(c.name[c.owner[rows]], c.argset[c.owner[rows]])
    uids = c.uid[c.owner[rows[first]]].tolist()
    try:
        events = core.details.events(uids)
    except TraceLensGraphError:
        return []
    passes = [one.value for one in Pass]
    arguments = (events.get(uid, {}).get("args") for uid in uids)
    named = [one.get("pass") if isinstance(one, dict) else None for one in arguments]
    code = np.array([passes.index(one) if one in passes else len(passes) for one in named], np.int64)
    ns = sum_by_group(code[group], c.dur_ns[rows], len(passes) + 1).tolist()
    if not ns[passes.index(Pass.backward.value)]:
        return []
    times = (f"{name} {time / 1e3:,.3f} us" for name, time in zip(passes, ns, strict=False) if time)
    return [f"by the names of instructions: {', '.join(times)}"]
