"""Kernels by the op that launches them: durations, streams, categories."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracelens_graph.analyses.ops.launchers import NO_LAUNCH, UNLINKED, OpCalls, launchers
from tracelens_graph.analyses.shared.gpu_work import fitting_names, gpu_categories, is_in_tracelens_layout, names_of
from tracelens_graph.analyses.shared.grouping import Cells, Groups, group_by, picked, text_codes
from tracelens_graph.analyses.timeline.timeline import unlinked_notes
from tracelens_graph.categories.ops import GRAPH, call_category
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column, Role, statistics
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

_DURATIONS = statistics("Kernel duration (µs)_{}", "the durations", "us", ("sum", "count", "mean", "min", "max"))

KERNEL_SUMMARY = TableSchema(
    "kernel_summary",
    "How long the kernels ran, one row per launching op, kernel and stream.",
    {
        "Parent op category": Column.text(
            "category of the launching op, or of the runtime call where no op is", "category", compared="carried"
        ),
        "Parent cpu_op": Column.key("op nearest above the launch; the runtime call where no op is", "op"),
        "kernel_category": Column.text("what the kernel does, by its name and the op that launched it", "does"),
        "Kernel name": Column.key("name of the kernel", "kernel"),
        "Kernel stream": Column("stream on the device", heading="stream"),
        "Kernel duration (µs)_sum": replace(_DURATIONS["Kernel duration (µs)_sum"], heading="sum us", compared="main"),
        "Kernel duration (µs)_count": replace(_DURATIONS["Kernel duration (µs)_count"], heading="kernels"),
        "Kernel duration (µs)_mean": replace(
            _DURATIONS["Kernel duration (µs)_mean"], heading="mean us", compared="diff"
        ),
        "Kernel duration (µs)_min": replace(_DURATIONS["Kernel duration (µs)_min"], compared="beside"),
        "Kernel duration (µs)_max": replace(_DURATIONS["Kernel duration (µs)_max"], compared="beside"),
        "Percent of kernels time (%)": Column.share("share of the sum over all kernels", "% of kernel time"),
        "Percent of total time (%)": Column.share("sum as share of the time from the first to the last GPU event"),
        "ex_UID": Column.instance("uid of the first kernel"),
    },
    counts="kernel",
    leads="Kernel name",
)


def kernel_summary(g: Core | Window, kernel_categories: bool = False) -> Table:
    """Durations of kernels per launching op, kernel name and stream, the greatest sum first.

    Kernels only, without copies and fills; communication, and kernels whose launch is not in the trace, included.
    Two sums are the wholes of the percentages: all kernel durations, and the time from the first start to the
    last end of all GPU events.

    Args:
        kernel_categories: add the category of each kernel, by its name and op.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    found = launchers(w)
    gpu = np.concatenate((found.gpu, found.unlinked))
    parents, parent = _parents(found)
    of = np.concatenate((parent[found.of], np.full(len(found.unlinked), len(parents) - 1)))
    is_kernel = c.kind[gpu] == Kind.Kernel
    kernels, of = gpu[is_kernel], of[is_kernel]
    group, first = group_by(of, c.name[kernels], c.stream[kernels])
    times = Groups(group, c.dur_ns[kernels], len(first))
    total = w.span_ns()
    labels, category = gpu_categories(w)
    columns: dict[str, Cells] = {
        "Parent op category": [parents[i][0] for i in of[first].tolist()],
        "Parent cpu_op": [parents[i][1] for i in of[first].tolist()],
        **({"kernel_category": [labels[i] for i in category[kernels[first]].tolist()]} if kernel_categories else {}),
        "Kernel name": names_of(core, kernels[first]),
        "Kernel stream": [stream if stream >= 0 else None for stream in c.stream[kernels[first]].tolist()],
        "Kernel duration (µs)_sum": times.sum / 1e3,
        "Kernel duration (µs)_count": times.count,
        "Kernel duration (µs)_mean": times.mean / 1e3,
        "Kernel duration (µs)_min": times.min / 1e3,
        "Kernel duration (µs)_max": times.max / 1e3,
        "Percent of kernels time (%)": 100 * times.sum / max(int(times.sum.sum()), 1),
        "Percent of total time (%)": 100 * times.sum / max(total, 1),
        "ex_UID": c.uid[kernels[first]],
    }
    order = np.lexsort((c.uid[kernels[first]], -times.sum))
    return KERNEL_SUMMARY.table(columns, w.titled("GPU time by kernel"), unlinked_notes(w, False)).take(order)


def _parents(found: OpCalls) -> tuple[list[tuple[str, str]], np.ndarray]:
    """Category and name of launchers, each pair once, and which each has; the last pair is for events without one."""
    core, c = found.core, found.core.columns
    category, name = found.category, c.name[found.rows].astype(np.int64)
    labels = found.categories
    if is_in_tracelens_layout(core):
        # There only their names give calls that are no ops a category.
        labels = [*labels, *(call_category(text, found.rules) for text in core.names)]
        category = np.where(found.is_op, category, len(found.categories) + name)
    keys, code = np.unique(name * max(len(labels), 1) + category, return_inverse=True)
    pairs = [(labels[key % len(labels)], core.names[key // len(labels)]) for key in keys.tolist()]
    return [*pairs, (UNLINKED, NO_LAUNCH)], code


KERNEL_CATEGORY_DETAIL = TableSchema(
    "kernel_category_detail",
    "Which kernels each launching op runs, and their categories.",
    {
        "cpu_op": Column.key(
            "op nearest above the launch; the runtime call where no op is, `graph` for graph launches"
        ),
        "kernel_category": Column.key(KERNEL_SUMMARY["kernel_category"].definition),
        "kernel_name": Column.key("name of the kernel"),
        "count": Column.count("kernels"),
        "total_time_ms": Column.total("sum of their durations", "ms", compared="main"),
        "avg_time_us": Column("mean of their durations", "us", Role.mean),
    },
    counts="kernel",
    leads="kernel_name",
)

KERNEL_CATEGORY_SUMMARY = TableSchema(
    "kernel_category_summary",
    "What the kernels of each launching op do, by category: GEMM, attention, copies, ...",
    {
        "cpu_op": KERNEL_CATEGORY_DETAIL["cpu_op"],
        "kernel_category": KERNEL_CATEGORY_DETAIL["kernel_category"],
        "count": KERNEL_CATEGORY_DETAIL["count"],
        "total_time_ms": KERNEL_CATEGORY_DETAIL["total_time_ms"],
        "% of parent time": Column("share of the sum over all kernels of the cpu_op", "%"),
        "% of graph time": Column("the same, so called where the only cpu_op is a graph launch", "%"),
    },
    counts="kernel",
)


def kernel_category_detail(g: Core | Window) -> Table:
    """Kernels by launching op, category and name; the greatest time first at each level.

    Kernels only, without copies and fills. Those without a launch in the trace come last, under a name of their own.

    Args:
        g: the graph, or a window of it; the rules are those of its extension.
    """
    w = window_of(g)
    found = w.once(_kernels)
    columns: dict[str, Cells] = {
        "cpu_op": found.parents,
        "kernel_category": found.categories,
        "kernel_name": found.names,
        "count": found.count,
        "total_time_ms": found.sum_ns / 1e6,
        "avg_time_us": found.sum_ns / np.maximum(found.count, 1) / 1e3,
    }
    title = w.titled("Kernels by op and category")
    return KERNEL_CATEGORY_DETAIL.table(columns, title, _notes(w, found))


def kernel_category_summary(g: Core | Window) -> Table:
    """Time by launching op and category of kernel, and the category's share of the op's kernel time.

    The share is called `% of graph time` where all kernels come from graph launches, else `% of parent time`.

    Args:
        g: the graph, or a window of it; the rules are those of its extension.
    """
    w = window_of(g)
    found = w.once(_kernels)
    parent = text_codes(found.parents)
    group, first = group_by(parent, text_codes(found.categories))
    count, sum_ns = sum_by_group(group, found.count, len(first)), sum_by_group(group, found.sum_ns, len(first))
    whole = sum_by_group(parent, found.sum_ns, int(parent.max(initial=-1)) + 1)[parent[first]]
    share = "% of graph time" if found.only_graphs else "% of parent time"
    columns: dict[str, Cells] = {
        "cpu_op": picked(found.parents, first),
        "kernel_category": picked(found.categories, first),
        "count": count,
        "total_time_ms": sum_ns / 1e6,
        share: 100 * sum_ns / np.maximum(whole, 1),
    }
    title = w.titled("GPU time by op and category of kernels")
    return KERNEL_CATEGORY_SUMMARY.table(columns, title, _notes(w, found))


@dataclass
class _Kernels:
    """Kernels by launching op and name, in the order of the tables.

    Attributes:
        parents: name of the op, or of the call where no op is; GRAPH for graph launches.
        names: name of the kernel.
        categories: its category.
        count: number of kernels.
        sum_ns: sum of their durations.
        only_graphs: whether graph launches replay them all.
    """

    parents: list[str]
    names: list[str]
    categories: list[str]
    count: np.ndarray
    sum_ns: np.ndarray
    only_graphs: bool


def _kernels(w: Window) -> _Kernels:
    core, c = w.core, w.core.columns
    found = launchers(w)
    gpu = np.concatenate((found.gpu, found.unlinked))
    owner = np.concatenate((found.rows[found.of], np.full(len(found.unlinked), -1)))
    is_kernel = c.kind[gpu] == Kind.Kernel
    gpu, owner = gpu[is_kernel], owner[is_kernel]
    # All graph launches are one parent: what a graph replays does not depend on which call replays it.
    graph = len(core.names)
    replays = fitting_names(core, lambda name: call_category(name) == GRAPH)
    parent = np.where(owner >= 0, c.name[owner], -1) if len(owner) else owner
    replayed = (owner >= 0) & (c.kind[owner] == Kind.RuntimeCall) & replays[parent] if len(owner) else owner < 0
    parent = np.where(replayed, graph, parent)
    group, first = group_by(parent, c.name[gpu])
    labels = {-1: NO_LAUNCH, graph: GRAPH}
    parents = [labels[code] if code in labels else core.names[code] for code in parent[first].tolist()]
    names = [core.names[code] for code in c.name[gpu[first]].tolist()]
    kinds, kind = gpu_categories(w)
    categories = [kinds[i] for i in kind[gpu[first]].tolist()]
    count = np.bincount(group, minlength=len(first))
    sum_ns = sum_by_group(group, c.dur_ns[gpu], len(first))

    op, _ = group_by(parent[first])
    both, _ = group_by(parent[first], text_codes(categories))
    of_op, of_category = sum_by_group(op, sum_ns, len(first))[op], sum_by_group(both, sum_ns, len(first))[both]
    # Codes after sums keep the rows of an op, and of a category in it, together where sums are equal.
    order = np.lexsort((np.arange(len(first)), -sum_ns, both, -of_category, op, -of_op, parent[first] < 0))
    return _Kernels(
        [parents[i] for i in order.tolist()],
        [names[i] for i in order.tolist()],
        [categories[i] for i in order.tolist()],
        count[order],
        sum_ns[order],
        bool(len(parent)) and bool(replayed.all()),
    )


def _notes(w: Window, found: _Kernels) -> list[str]:
    """What is not in the table, and how much of it has no known category."""
    notes, unknown = unlinked_notes(w, False), extension_of(w).all_kernel_rules.other
    c, every = w.core.columns, w.gpu_rows
    beside = every[c.kind[every] != Kind.Kernel]
    if len(beside):
        ms = int(c.dur_ns[beside].sum()) / 1e6
        notes.append(f"{len(beside):,} copies and fills ({ms:,.3f} ms) are not kernels: left out")
    other = np.array([category == unknown for category in found.categories], bool)
    if found.sum_ns[other].any():
        share = 100 * int(found.sum_ns[other].sum()) / int(found.sum_ns.sum())
        notes.append(f"{share:.1f} % of kernel time is in {unknown}: no rule fits these names")
    return notes
