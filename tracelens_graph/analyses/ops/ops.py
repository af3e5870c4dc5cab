"""GPU time per operation: by category, by name, and by name and arguments.

Time is charged to launchers: the op nearest above a launch, or the runtime call where there is none. "Direct"
time is that of the GPU events charged to a launcher, "subtree" time that of all below it. Both are busy times
of single calls, added up over calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tracelens_graph.analyses.ops.kernel_details import Overlap, detail_columns, details_of_unlinked, overlap, truncated
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH, UNLINKED, OpCalls, launchers
from tracelens_graph.analyses.shared.call_columns import (
    argument_cells,
    argument_codes,
    by_time,
    numbers,
    place_columns,
    statistic,
    tensor_cells,
    thread_labels,
)
from tracelens_graph.analyses.shared.call_stacks import entry_points, module_stacks, parent_modules
from tracelens_graph.analyses.shared.gpu_work import CALL_STACK_FIRST, IS_RECOMPUTE, PARENT_MODULE, SHARE
from tracelens_graph.analyses.shared.grouping import Cells, Groups, group_by, picked, shares, text_codes
from tracelens_graph.analyses.timeline.timeline import unlinked_notes
from tracelens_graph.categories.kernel_rules import OTHER
from tracelens_graph.categories.ops import OP_RULES
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import outermost
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import FIVE, About, Column, Role, statistics
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Codes

IN_CALL = "the busy time of the GPU events charged to a call"

_BELOW = "the busy time of all GPU events below a call"
_BELOW_OUTER = f"{_BELOW}, summed over the outermost calls of the row"

OPS_SUMMARY_BY_CATEGORY = TableSchema(
    "ops_summary_by_category",
    "Which kinds of operation the GPU time is charged to: GEMM, elementwise, ...",
    {
        "op category": Column.key("kind of operation: that of the kernels with most of its time", "category"),
        "parent_module": PARENT_MODULE,
        "is_recompute": IS_RECOMPUTE,
        "call_stack_first": replace(CALL_STACK_FIRST, heading=None),
        "Count": Column.count("calls that launched GPU work", "calls", "count"),
        "total_direct_kernel_time_ms": Column.total(
            f"sum over calls of {IN_CALL}", "ms", "GPU ms", compared="main", figure="ms"
        ),
        **SHARE,
    },
    figure="category",
)

OPS_SUMMARY = TableSchema(
    "ops_summary",
    "Which ops the GPU time is charged to.",
    {
        "name": Column.key("op nearest above the launch; the runtime call where no op is", "op"),
        "parent_module": PARENT_MODULE,
        "is_recompute": IS_RECOMPUTE,
        "call_stack_first": CALL_STACK_FIRST,
        "total_direct_kernel_time_sum": Column.total(f"sum over calls of {IN_CALL}", "us"),
        "total_subtree_kernel_time_sum": Column.total(_BELOW_OUTER, "us"),
        "total_direct_kernel_time_ms": Column.total(
            f"sum over calls of {IN_CALL}", "ms", "GPU ms", compared="main", figure="ms"
        ),
        "total_subtree_kernel_time_ms": Column.total(_BELOW_OUTER, "ms", "below ms", compared="diff"),
        "Count": Column.count("calls that launched GPU work", "calls", "count"),
        "Categories": Column(
            "categories of the calls, sorted", role=Role.text, heading="category", compared="carried", cells="list"
        ),
        **SHARE,
    },
    figure="op",
)

ARGUMENTS: About = {
    "Input Dims": Column.key("sizes of the inputs, one list per argument", "shapes", cells="list"),
    "Input type": Column.key("types of the inputs", cells="list"),
    "Input Strides": Column.key("strides of the inputs, in elements", cells="list"),
    "Concrete Inputs": Column.key("values of inputs that are not tensors, as text", cells="list"),
    "Instruction": Column.key("of profiles of JAX: what is known of the instruction beside its operands, JSON"),
}

PLACE: About = {
    "process_name": Column.text("name of the process, from the trace's metadata"),
    "process_label": Column.text("label of the process, from the trace's metadata"),
    "thread_name": Column.text("name of the thread, from the trace's metadata"),
}

KERNEL_DETAILS = Column.listed("GPU events of a call by their place in it, durations in us over all calls")

KERNEL_DETAILS_SHORT = Column.listed("the same, short")

ENTRY_POINT = Column.text("Python function that the first call comes from", "called from")

_DIRECT = statistics("total_direct_kernel_time_{}", IN_CALL, "us", (*FIVE, "sum"))
_DIRECT |= {
    "total_direct_kernel_time_sum": replace(_DIRECT["total_direct_kernel_time_sum"], heading="sum us", compared="main"),
    "total_direct_kernel_time_mean": replace(
        _DIRECT["total_direct_kernel_time_mean"], heading="mean us", compared="diff"
    ),
    "total_direct_kernel_time_min": replace(_DIRECT["total_direct_kernel_time_min"], compared="beside"),
    "total_direct_kernel_time_max": replace(_DIRECT["total_direct_kernel_time_max"], compared="beside"),
}

_SUBTREE = statistics("total_subtree_kernel_time_{}", _BELOW, "us", (*FIVE, "sum"))
_SUBTREE |= {"total_subtree_kernel_time_sum": replace(_SUBTREE["total_subtree_kernel_time_sum"], compared="diff")}

_OVERLAP = statistics(
    "overlap_pct_{}", "the share of the call's busy time with a kernel beside it, 0 to 1, in hundredths", "", FIVE
)
_OVERLAP |= {"overlap_pct_mean": replace(_OVERLAP["overlap_pct_mean"], heading="overlap")}

TENSORS: About = {
    "et_node": Column("id of the first call's node in the execution trace"),
    "input_tensors": Column.listed("ids of the tensors that the first call read, in the execution trace"),
    "input_storages": Column.listed("ids of the storages that these are on"),
    "output_tensors": Column.listed("ids of the tensors that the first call gave out"),
    "output_storages": Column.listed("ids of the storages that these are on"),
}
"""Of graphs that are linked with an execution trace only."""

OPS_UNIQUE_ARGS = TableSchema(
    "ops_unique_args",
    "Which calls the GPU time is charged to, one row per op, thread and set of arguments, with the kernels of a call.",
    {
        "name": OPS_SUMMARY["name"],
        "op category": Column.text(OPS_SUMMARY_BY_CATEGORY["op category"].definition, compared="carried"),
        **PLACE,
        **ARGUMENTS,
        "parent_module": PARENT_MODULE,
        "is_recompute": IS_RECOMPUTE,
        "num_kernels": Column("GPU events charged to each of the calls", heading="kernels"),
        "overlapping_kernel_names": Column(
            "kernels of other ops that run at the same time on other streams, one name for each",
            heading="beside",
            cells="list",
        ),
        "operation_count": Column.count("calls", "calls"),
        "first_occurrence_time": Column(
            "start of the first call, from the first call in the table", "us", Role.time, "first us"
        ),
        **_DIRECT,
        **_SUBTREE,
        "ex_UID": Column.instance("uid of the first call", compared="beside"),
        **TENSORS,
        "kernel_details_summary": KERNEL_DETAILS,
        "trunc_kernel_details": KERNEL_DETAILS_SHORT,
        "overlapping_kernels_details_summary": Column.listed("the overlapping kernels with their durations in us"),
        "trunc_overlapping_kernels_details": Column.listed("the same, short"),
        **_OVERLAP,
        "call_stack": Column.text("names of the modules around the first call, the outermost first", "modules"),
        "entry_point": ENTRY_POINT,
        **SHARE,
    },
)


STATISTICS = (*FIVE, "sum")


def ops_summary_by_category(
    g: Core | Window,
    linked_only: bool = False,
    *,
    recompute: bool = False,
    by_module: bool = False,
    call_stack: bool = False,
) -> Table:
    """GPU time per category of operation, the greatest first.

    Args:
        linked_only: leave out GPU events whose launch is not in the trace, and communication.
        recompute: separate recomputation of activations from the rest.
        by_module: separate by the innermost module around the op.
        call_stack: show the modules around the first call.
    """
    found = launchers(w := window_of(g), linked_only)
    labels = [found.categories[i] for i in found.category.tolist()]
    keys = {"op category": (found.category, labels)} | _optional_keys(found, recompute, by_module)
    known = {"op category": UNLINKED, "Count": len(found.unlinked)}
    columns, time = _summed(OPS_SUMMARY_BY_CATEGORY, found, keys, known, call_stack)
    title = "GPU time by category of operation"
    table = _table(OPS_SUMMARY_BY_CATEGORY, title, columns, w, linked_only)
    unknown = (OP_RULES.other, OTHER)
    other = float(sum(t for t, name in zip(time, table["op category"], strict=True) if name in unknown))
    if other:
        share = 100 * other / float(time.sum())
        table.notes = [*table.notes, f"other: {share:.1f} % of this time is in operations of no known category"]
    return table


def ops_summary(
    g: Core | Window,
    linked_only: bool = False,
    *,
    recompute: bool = False,
    by_module: bool = False,
    call_stack: bool = False,
) -> Table:
    """GPU time per name of operation, the greatest first.

    Arguments are those of `ops_summary_by_category`.
    """
    found = launchers(w := window_of(g), linked_only)
    name = found.core.columns.name[found.rows]
    keys = {"name": (name, [found.core.names[i] for i in name.tolist()])} | _optional_keys(found, recompute, by_module)
    known = {"name": NO_LAUNCH, "Count": len(found.unlinked), "Categories": [UNLINKED]}
    columns, _ = _summed(OPS_SUMMARY, found, keys, known, call_stack)
    return _table(OPS_SUMMARY, "GPU time by operation", columns, w, linked_only)


def ops_unique_args(
    g: Core | Window,
    linked_only: bool = False,
    *,
    first_occurrence: bool = False,
    call_stack: bool = False,
    overlapping: bool = False,
    recompute: bool = False,
    by_kernel_count: bool = False,
    by_module: bool = False,
    as_recorded: bool = False,
) -> Table:
    """GPU time per operation, thread and set of arguments, the greatest first.

    Args:
        linked_only: leave out GPU events whose launch is not in the trace, and communication.
        first_occurrence: when each row was called first, from the first call of all.
        call_stack: modules around the first call, and the line of Python that it comes from.
        overlapping: show which kernels of other operations run at the same time on other streams.
        recompute: separate recomputation of activations from the rest.
        by_kernel_count: separate calls with different numbers of GPU events.
        by_module: separate by the innermost module around the op.
        as_recorded: kernel details with durations and streams as the file spells them.
    """
    found = launchers(w := window_of(g), linked_only)
    core, c = found.core, found.core.columns
    keys = _optional_keys(found, recompute, by_module)
    if by_kernel_count:
        keys["num_kernels"] = (found.count, found.count)
    beside = overlap(found) if overlapping else None
    if beside:
        keys["overlapping_kernel_names"] = (beside.names_code, beside.names)
    _, label = thread_labels(core)
    argset = argument_codes(core)
    group, first = group_by(
        c.name[found.rows], found.category, label[c.thread[found.rows]], argset[c.argset[found.rows]],
        *(codes for codes, _ in keys.values()),
    )  # fmt: skip
    rows = found.rows[first]
    columns: dict[str, Cells] = {
        "name": [core.names[i] for i in c.name[rows].tolist()],
        "op category": [found.categories[i] for i in found.category[first].tolist()],
    }
    columns |= place_columns(core, rows) | argument_cells(core, c.argset[rows])
    columns |= {name: picked(cells, first) for name, (_, cells) in keys.items()}
    columns["operation_count"] = np.bincount(group, minlength=len(first))
    if first_occurrence:
        start = c.start_ns[found.rows]
        earliest = Groups(group, start, len(first)).min
        columns["first_occurrence_time"] = (earliest - (start.min() if len(start) else 0)) / 1e3
    direct, subtree = (Groups(group, values, len(first)) for values in (found.direct_ns, found.subtree_ns))
    for which in STATISTICS:
        for name, values in (("direct", direct), ("subtree", subtree)):
            columns[f"total_{name}_kernel_time_{which}"] = statistic(values, which)
    columns["ex_UID"] = c.uid[rows].tolist()
    columns |= tensor_cells(core, rows)
    details, notes = detail_columns(found, group, first, as_recorded=as_recorded)
    columns |= details
    if beside:
        columns |= _overlap_columns(beside, group, len(first))
    if call_stack:
        columns["call_stack"] = module_stacks(core, rows)
        columns["entry_point"] = entry_points(core, rows)
    columns = by_time(columns, "total_direct_kernel_time_sum", c.uid[rows])
    _append_unlinked(columns, found, {"name": NO_LAUNCH, "op category": UNLINKED,
                                      "operation_count": len(found.unlinked)})  # fmt: skip
    time = numbers(columns["total_direct_kernel_time_sum"])
    for which in STATISTICS:
        for name in (f"total_direct_kernel_time_{which}", f"total_subtree_kernel_time_{which}"):
            columns[name] = numbers(columns[name]) / 1e3
    title = "GPU time by operation and arguments"
    table = _table(OPS_UNIQUE_ARGS, title, columns | shares(time), w, linked_only)
    table.notes = [*table.notes, *notes]
    return table


def _summed(
    schema: TableSchema,
    found: OpCalls,
    keys: Mapping[str, tuple[Codes, Cells]],
    known: dict[str, Any],
    call_stack: bool,
) -> tuple[dict[str, Cells], np.ndarray]:
    """The columns of one of the summaries, the greatest time first, and the time of its rows in ns.

    Args:
        keys: column -> codes and cells, one per launcher.
        known: what the row of GPU events without a launch says beside its times.
        call_stack: show the modules around the first call.
    """
    group, first = group_by(*(codes for codes, _ in keys.values()))
    direct = sum_by_group(group, found.direct_ns, len(first))
    figures: dict[str, Cells] = {
        "Count": np.bincount(group, minlength=len(first)),
        "Categories": _categories(found, group, len(first)) if "Categories" in schema else [],
    }
    # A call in another one of its row has nothing below it that the outer one has not.
    outer = outermost(group, found.rows, found.core.columns.last[found.rows])
    subtree = sum_by_group(group[outer], found.subtree_ns[outer], len(first))
    for name, ns in (("direct", direct), ("subtree", subtree)):
        figures |= {f"total_{name}_kernel_time_{unit}": ns for unit in ("sum", "ms")}
    columns = {name: picked(cells, first) for name, (_, cells) in keys.items()}
    columns |= {name: figures[name] for name in schema if name in figures}
    if call_stack:
        columns["call_stack_first"] = module_stacks(found.core, found.rows[first])
    main = "total_direct_kernel_time_ms"
    columns = by_time(columns, main, found.core.columns.uid[found.rows[first]])
    _append_unlinked(columns, found, known)
    time = numbers(columns[main])
    for name in columns.keys() & figures.keys() - {"Count", "Categories"}:
        columns[name] = numbers(columns[name]) / (1e6 if name.endswith("_ms") else 1e3)
    return columns | shares(time), time


# --- parts -------------------------------------------------------------------------------------------------------


def _table(schema: TableSchema, title: str, columns: dict[str, Cells], w: Window, linked_only: bool) -> Table:
    if linked_only:
        title += ", without communication and GPU events without a launch"
    return schema.table(columns, w.titled(title), unlinked_notes(w, linked_only))


def _optional_keys(found: OpCalls, recompute: bool, by_module: bool) -> dict[str, tuple[np.ndarray, Cells]]:
    """Further keys of grouping: column -> codes and cells, one per launcher."""
    keys: dict[str, tuple[np.ndarray, Cells]] = {}
    if by_module:
        names = parent_modules(found.core, found.module)
        keys["parent_module"] = (text_codes(names), names)
    if recompute:
        again = autograd_of(found.core).recompute[found.rows]
        keys["is_recompute"] = (again, again.tolist())
    return keys


def _categories(found: OpCalls, group: np.ndarray, groups: int) -> list[list[str]]:
    kinds = max(len(found.categories), 1)
    lists: list[list[str]] = [[] for _ in range(groups)]
    for pair in distinct(group * kinds + found.category)[0].tolist():
        lists[pair // kinds].append(found.categories[pair % kinds])
    return lists


def _overlap_columns(beside: Overlap, group: np.ndarray, groups: int) -> dict[str, Cells]:
    columns = beside.details(group, groups)
    share = Groups(group, np.round(beside.share, 2), groups)
    for which in FIVE:
        columns[f"overlap_pct_{which}"] = statistic(share, which)
    return columns


def _append_unlinked(columns: dict[str, Cells], found: OpCalls, known: dict[str, Any]) -> None:
    """Add the row of GPU events without a launch, each of which counts as a call of its own."""
    if not len(found.unlinked):
        return
    dur = found.core.columns.dur_ns[found.unlinked]
    times = Groups(np.zeros(len(dur), np.int64), dur, 1)
    known |= {f"total_{kind}_kernel_time_ms": times.sum[0] for kind in ("direct", "subtree")}
    for which in STATISTICS:
        known |= {f"total_{kind}_kernel_time_{which}": statistic(times, which)[0] for kind in ("direct", "subtree")}
    if "kernel_details_summary" in columns:
        details = details_of_unlinked(found)
        known |= {"kernel_details_summary": details, "trunc_kernel_details": truncated(details)}
    for name, cells in columns.items():
        columns[name] = [*(cells.tolist() if isinstance(cells, np.ndarray) else cells), known.get(name)]
