"""Short kernels: where launching costs more than the work."""

from __future__ import annotations

import json
import math

import numpy as np

from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.shared.grouping import Cells, Groups, cell_order, group_by, text_codes
from tracelens_graph.analyses.timeline.timeline import unlinked_notes
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import launcher, rows_of_kind
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

SHORT_KERNEL_HISTOGRAM = TableSchema(
    "short_kernel_histogram",
    "How many kernels are shorter than a threshold, by length.",
    {
        "bin_start": Column("shortest length in the bin", "us"),
        "bin_end": Column("end of the bin; only in the last bin a length in it", "us"),
        "count": Column.count("kernels"),
    },
)

SHORT_KERNELS_SUMMARY = TableSchema(
    "short_kernels_summary",
    "Which kernels are shorter than a threshold, and which ops launch them.",
    {
        "Parent cpu_op": Column.key("op nearest above the launch; the runtime call where no op is", heading="op"),
        "Input dims": Column.key("sizes of the parent's inputs, one list per argument", cells="list"),
        "Input strides": Column.key("strides of the parent's inputs, in elements", cells="list"),
        "Concrete Inputs": Column.key("values of the parent's inputs that are not tensors, as text", cells="list"),
        "Kernel name": Column.key("name of the kernel", heading="kernel"),
        "Short Kernel duration (µs) sum": Column.total("sum of the durations", "us", "sum us"),
        "Short Kernel count": Column.count("kernels", "kernels"),
        "Short Kernel duration (µs) mean": Column("mean of the durations", "us", Role.mean, "mean us"),
        "Short Kernel duration (µs) percent of total time": Column.share(
            "sum as share of the time from the first to the last GPU event", "% of time"
        ),
        "ex_UID": Column.uid("uid of the first kernel"),
    },
    leads="Kernel name",
)

ARGUMENTS = {"Input dims": 0, "Input strides": 2, "Concrete Inputs": 3}
"""Column -> part of the argument set of the parent."""


def short_kernel_histogram(g: Core | Window, threshold_us: float = 10, bins: int = 100) -> Table:
    """A histogram of the durations of short kernels.

    Bins of equal width from the shortest kernel to the longest that is shorter than the threshold; a bin holds
    its start, the last one its end too. If all are equally long, the bins cover that length plus and minus half a
    microsecond. Kernels whose launch is not in the trace are included, copies and fills are not.

    Args:
        threshold_us: kernels shorter than this are short.
        bins: number of bins.

    Raises:
        AnalysisError: the threshold is no positive number, or there is no bin.
    """
    w = window_of(g)
    if bins < 1:
        raise AnalysisError(f"a histogram has at least one bin, not {bins}")
    short = _shorter_than(w, threshold_us)
    lengths = w.core.columns.dur_ns[short] / 1e3
    count, edge = np.histogram(lengths, bins) if len(short) else (np.zeros(0, np.int64), np.zeros(1))
    return SHORT_KERNEL_HISTOGRAM.table(
        {"bin_start": edge[:-1], "bin_end": edge[1:], "count": count},
        w.titled(f"Kernels shorter than {threshold_us:g} us by length"),
        _notes(w, short, threshold_us),
    )


def short_kernels_summary(
    g: Core | Window, threshold_us: float = 10, linked_only: bool = False, by_arguments: bool = True
) -> Table:
    """Short kernels by name, parent and the parent's arguments, the greatest sum first.

    All short kernels are in the table, as in the histogram, so the counts of both add up to the same. The parent
    is the op that a kernel is charged to, else the runtime call that launched it. By arguments, a trace without any op
    separates kernels by their names alone, and the columns of the parent are left out.

    Args:
        threshold_us: kernels shorter than this are short.
        linked_only: percentages are of the time from the first to the last GPU event whose launch is in the trace
            (TraceLens's total), instead of all GPU events. The rows are the same.
        by_arguments: whether arguments of the parent separate rows.

    Raises:
        AnalysisError: the threshold is no positive number.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    short = _shorter_than(w, threshold_us)
    # A group's first kernel is its earliest.
    short = short[np.lexsort((c.uid[short], c.start_ns[short]))]
    owner = np.asarray(launcher(c, short), np.int64)
    parent = np.where(owner >= 0, c.name[owner], -1)
    argset = np.where(owner >= 0, c.argset[owner], -1)
    by_parent = not by_arguments or len(rows_of_kind(c, (Kind.Op,))) > 0
    parts = ARGUMENTS if by_parent and by_arguments else {}
    keys = [*([parent] if by_parent else []), *([_argument_codes(core)[argset]] if parts else [])]
    group, first = group_by(c.name[short], *keys)
    times = Groups(group, c.dur_ns[short], len(first))
    columns: dict[str, Cells] = {}
    if by_parent:
        columns["Parent cpu_op"] = [core.names[code] if code >= 0 else NO_LAUNCH for code in parent[first].tolist()]
    for column, part in parts.items():
        texts = [core.argsets[code][part] if code >= 0 else "" for code in argset[first].tolist()]
        columns[column] = [json.loads(text) if text else None for text in texts]
    span = w.span_ns(linked_only)
    columns |= {
        "Kernel name": [core.names[code] for code in c.name[short[first]].tolist()],
        "Short Kernel duration (µs) sum": times.sum / 1e3,
        "Short Kernel count": times.count,
        "Short Kernel duration (µs) mean": times.mean / 1e3,
        "Short Kernel duration (µs) percent of total time": 100 * times.sum / span if span else times.sum * np.nan,
        "ex_UID": c.uid[short[first]],
    }
    then = ("ex_UID",) if by_arguments else ("Parent cpu_op", "Kernel name")
    order = cell_order(times.sum, *(columns[one] for one in then))
    title = w.titled(f"Kernels shorter than {threshold_us:g} us")
    return SHORT_KERNELS_SUMMARY.table(columns, title, _notes(w, short, threshold_us)).take(order)


def _shorter_than(w: Window, threshold_us: float) -> np.ndarray:
    if not (threshold_us > 0 and math.isfinite(threshold_us)):
        raise AnalysisError(f"the length of a short kernel is a positive number of microseconds, not {threshold_us}")
    kernels = w.rows_of_kind(Kind.Kernel)
    return kernels[w.core.columns.dur_ns[kernels] / 1e3 < threshold_us]


def _argument_codes(core: Core) -> np.ndarray:
    """For each argument set a code, equal where the parts shown are; the last entry is that of no arguments."""
    parts = [
        tuple("".join(text.split()) for text in (*map(argset.__getitem__, ARGUMENTS.values()), *instruction))
        for argset, *instruction in zip(core.argsets, *filter(None, [core.instructions]), strict=True)
    ]
    return text_codes([*parts, None])


def _notes(w: Window, short: np.ndarray, threshold_us: float) -> list[str]:
    if not len(w.gpu_rows):
        return unlinked_notes(w, False)
    if not len(short):
        return [f"no kernel is shorter than {threshold_us:g} us"]
    c = w.core.columns
    lone = short[c.parent[short] < 0]
    share = 100 * int(c.dur_ns[lone].sum()) / max(int(c.dur_ns[short].sum()), 1)
    text = f"{len(lone):,} short kernels ({share:.1f} % of their time) have no launch in the trace: included"
    return [text] if len(lone) else []
