"""GPU time per kernel: by the op that launched it, its name and its stream."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracelens_graph.analyses.ops.launchers import NO_LAUNCH, UNLINKED, OpCalls, launchers
from tracelens_graph.analyses.shared.grouping import Cells, group_by, picked
from tracelens_graph.analyses.shared.statistics import Groups
from tracelens_graph.analyses.timeline.timeline import unlinked_notes
from tracelens_graph.categories.ops import call_category
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column, statistics
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

_DURATIONS = statistics("Kernel duration (µs)_{}", "the durations", "us", ("sum", "count", "mean", "min", "max"))

KERNEL_SUMMARY = TableSchema(
    "kernel_summary",
    "How long the kernels ran, one row per launching op, kernel and stream.",
    {
        "Parent op category": Column.text(
            "category of the launching op; graph or runtime where no op is above the launch",
            "category",
            compared="carried",
        ),
        "Parent cpu_op": Column.key("op nearest above the launch; the runtime call where no op is", "op"),
        "kernel_category": Column.text("what the kernel does, told by its name and the op that launched it", "does"),
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
        g: the graph, or a window of it.
        kernel_categories: add the category of each kernel, told by its name and op.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    found = launchers(w)
    gpu = np.concatenate((found.gpu, found.unlinked))
    names, parent = _parents(found)
    of = np.concatenate((parent[found.of], np.full(len(found.unlinked), len(names) - 1)))
    is_kernel = c.kind[gpu] == Kind.Kernel
    kernels, of = gpu[is_kernel], of[is_kernel]
    group, first = group_by(of, c.name[kernels], c.stream[kernels])
    times = Groups(group, c.dur_ns[kernels], len(first))
    total = w.span_ns()
    parents = [names[i] for i in of[first].tolist()]
    kernel_names = [core.names[i] for i in c.name[kernels[first]].tolist()]
    columns: dict[str, Cells] = {
        "Parent op category": [category for category, _ in parents],
        "Parent cpu_op": [op for _, op in parents],
        **({"kernel_category": _categories(w, kernel_names, parents)} if kernel_categories else {}),
        "Kernel name": kernel_names,
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
    columns = {name: picked(cells, order) for name, cells in columns.items()}
    return KERNEL_SUMMARY.table(columns, w.titled("GPU time by kernel"), unlinked_notes(w, False))


def _categories(w: Window, kernels: list[str], parents: list[tuple[str, str]]) -> list[str]:
    # The default table does without these rules, and without the time that it takes to import them.
    from tracelens_graph.categories.kernels import kernel_categories

    ops = ["" if category == UNLINKED else op for category, op in parents]
    return kernel_categories(zip(kernels, ops, strict=True), extension_of(w).all_kernel_rules)


def _parents(found: OpCalls) -> tuple[list[tuple[str, str]], np.ndarray]:
    """Category and name of launchers, each pair once, and which each has; the last pair is for events without one."""
    core, c = found.core, found.core.columns
    kinds = len(found.categories) + 1
    key = c.name[found.rows].astype(np.int64) * kinds
    key += np.where(c.kind[found.rows] == Kind.Op, found.category, kinds - 1)
    keys, code = np.unique(key, return_inverse=True)
    pairs = []
    for name, category in zip((keys // kinds).tolist(), (keys % kinds).tolist(), strict=True):
        text = core.names[name]
        pairs.append((found.categories[category] if category < kinds - 1 else call_category(text, found.rules), text))
    return [*pairs, (UNLINKED, NO_LAUNCH)], code
