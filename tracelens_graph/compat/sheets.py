"""The sheets of TraceLens's reports, with its columns and cells, by front end.

A profile of JAX has other sheets than a trace of PyTorch. A table of ours becomes a sheet by its
cells (tuples for arguments and sizes) and the order of its columns; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracelens_graph.analyses.ops.kernel_details import has_streams
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH, UNLINKED, launchers
from tracelens_graph.analyses.performance.perf_sheets import perf_sheets
from tracelens_graph.analyses.report.report_tables import ReportOptions, report_tables
from tracelens_graph.analyses.shared.call_stacks import OUTSIDE_MODULES, parent_modules
from tracelens_graph.analyses.shared.gpu_work import as_tracelens_counts
from tracelens_graph.compat.cells import NO_MODULE, as_tuples, has_model, in_order, stacks_of_modules
from tracelens_graph.compat.jax.tables import jax_tables
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.graph.window import Window
from tracelens_graph.op_table import OP_TABLE
from tracelens_graph.schema import PYTHON_KINDS, Kind
from tracelens_graph.tables.table import Table

_OPS = ("ops_summary_by_category", "ops_summary", "ops_unique_args")
_CATEGORIES = ("kernel_category_detail", "kernel_category_summary")
_TUPLES = ("Input Dims", "Input dims", "Input type", "Input Strides", "Input strides", "Concrete Inputs")
_PARENT = ("Parent op category", "Parent cpu_op")
_OF_KERNELS = ("kernel_summary", "short_kernels_summary")
"""Sheets that do not have our column ex_UID."""


@dataclass(frozen=True)
class Asked:
    """What a report contains.

    Attributes:
        options: of the tables that sheets of PyTorch are made of.
        unlinked: let the timeline cover GPU events whose launch is not in the trace.
        call_stack: add where calls come from to unified_perf_summary.
        python_frames: with that, functions and modules of Python; else ops alone, as later versions of TraceLens have
            them by default.
        overlap: add the sheet ops_unique_args_kl_overlap.
        kernels: add kernel_summary.
        short: add the sheets of short kernels.
        collectives: add coll_analysis if the trace has any.
        pseudo_ops: let unified_perf_summary and the sheets of families have pseudo ops.
        inference: give the columns and sheets of TraceLens's report of inference, and not of training.
    """

    options: ReportOptions
    unlinked: bool = False
    call_stack: bool = False
    python_frames: bool = True
    overlap: bool = False
    kernels: bool = False
    short: bool = False
    collectives: bool = True
    pseudo_ops: bool = True
    inference: bool = False


def sheets(w: Window, asked: Asked) -> dict[str, Table]:
    """The sheets of TraceLens's report of a trace, in its order.

    Args:
        asked: what it contains; of that, sheets of JAX know the tables of an extension only.
    """
    return jax_sheets(w) if w.framework.compiles_programs else pytorch_sheets(w, asked)[0]


def jax_sheets(w: Window) -> dict[str, Table]:
    """The sheets of TraceLens's report of a JAX profile, and the tables of an extension."""
    more = report_tables(w)
    tables = {**jax_tables(w), **{name: more[name] for name in more.of_extension}}
    return {name: replace(table, columns=_sizes_as_tuples(_cells(name, table))) for name, table in tables.items()}


def pytorch_sheets(w: Window, asked: Asked) -> tuple[dict[str, Table], Mapping[str, Table]]:
    """The sheets of TraceLens's report of a trace of PyTorch, and the tables by family that are among them."""
    o, w = replace(asked.options, as_recorded=True), as_tracelens_counts(w, asked.pseudo_ops)
    families = perf_sheets(w, arch=o.arch, recompute=o.recompute, by_kernel_count=o.by_kernel_count, as_recorded=True)
    found = _of_pytorch(w, replace(asked, options=o), families)
    streams = has_streams(w.core)
    return {name: replace(table, columns=_in_order(_cells(name, table, streams))) for name, table in found}, families


def _of_pytorch(w: Window, asked: Asked, families: Mapping[str, Table]) -> Iterator[tuple[str, Table]]:
    options = asked.options
    tables = report_tables(w, options)
    timed = report_tables(w, replace(options, linked_only=not asked.unlinked))
    yield "gpu_timeline", timed["gpu_timeline"]
    if len(rows_of_kind(w.core.columns, (Kind.Op, *PYTHON_KINDS))):
        yield from ((name, _of_inference(w, tables[name]) if asked.inference else tables[name]) for name in _OPS)
        if asked.overlap:
            beside = report_tables(w, replace(options, overlap=True))["ops_unique_args"]
            yield "ops_unique_args_kl_overlap", replace(beside, name="ops_unique_args_kl_overlap")
        stacks = replace(options, call_stack=asked.call_stack, python_frames=asked.python_frames)
        unified = report_tables(w, stacks)["unified_perf_summary"]
        if len(unified):
            yield "unified_perf_summary", unified
        for name, table in families.items():
            if _family(name) in _FAMILIES:
                yield from _by_pass(table) if asked.inference and name == _NORMS else [(name, table)]
    if asked.kernels:
        yield "kernel_summary", tables["kernel_summary"]
    if options.kernel_categories:
        yield from ((name, tables[name]) for name in _CATEGORIES)
    if asked.short:
        # Their percentages are of the timeline's total.
        yield from ((name, timed[name]) for name in ("short_kernel_histogram", "short_kernels_summary"))
    if asked.collectives and len(found := tables["coll_analysis"]):
        yield "coll_analysis", found
    yield from ((name, table) for name, table in families.items() if _family(name) not in _FAMILIES)
    if options.compare_with is not None:
        yield "diff_stats", tables["diff_stats"]
    yield from ((name, tables[name]) for name in tables.of_extension)


def _of_inference(w: Window, table: Table) -> Table:
    """A table of ops with the columns that it has in TraceLens's report of inference.

    Where rows differ in the module around calls, they say what is around the first call.
    """
    columns: dict[str, Any] = {}
    for name, cells in table.columns.items():
        if name == "total_subtree_kernel_time_ms":
            continue
        columns[name] = [NO_MODULE if cell == OUTSIDE_MODULES else cell for cell in cells] if name == _MODULE else cells
        if name == "total_subtree_kernel_time_sum" and table.name == "ops_summary":
            columns["total_subtree_kernel_time_count"] = table.columns["Count"]
        if _MODULE in table.columns and name == _BEFORE_STACK[table.name]:
            columns["call_stack" if table.name == "ops_unique_args" else "call_stack_first"] = _stacks(w, table)
    if _MODULE in columns and table.name == "ops_unique_args":
        columns = {name: columns[name] for name in ("name", "op category", _MODULE, *columns)}
    return replace(table, columns=columns)


_MODULE, _NORMS = "parent_module", "Normalization"
_BEFORE_STACK = {"ops_summary_by_category": "Count", "ops_summary": "Categories", "ops_unique_args": "ex_UID"}
"""Table of ops -> the column that what is around the first call stands behind."""


def _stacks(w: Window, table: Table) -> list[list[str]]:
    """What is around the first call of each row of a table of ops."""
    if "ex_UID" in table.columns:
        return stacks_of_modules(w.core, w.core.rows_of(table.columns["ex_UID"]))
    found = launchers(w, linked_only=True)
    is_named = table.name == "ops_summary"
    names = [w.core.names[code] for code in w.core.columns.name[found.rows].tolist()]
    labels = names if is_named else [found.categories[code] for code in found.category.tolist()]
    first: dict[tuple[str, str], int] = {}
    for row, *key in zip(found.rows.tolist(), labels, parent_modules(w.core, found.module), strict=True):
        first.setdefault((key[0], key[1]), row)
    keys = zip(table.columns["name" if is_named else "op category"], table.columns[_MODULE], strict=True)
    return stacks_of_modules(w.core, np.array([first[key] for key in keys], np.int64))


def _by_pass(table: Table) -> Iterator[tuple[str, Table]]:
    """A table of forward and backward ops as one of each, where there are any."""
    backward = np.array(["backward" in name.lower() for name in table.columns["name"]], bool)
    for suffix, rows in (("_fwd", np.flatnonzero(~backward)), ("_bwd", np.flatnonzero(backward))):
        if len(rows):
            yield f"{table.name}{suffix}", replace(table.take(rows), name=f"{table.name}{suffix}")


def _family(sheet: str) -> str:
    return sheet.removesuffix("_fwd").removesuffix("_bwd")


_FAMILIES = {_family(entry.sheet) for entry in OP_TABLE.values() if entry.in_tracelens}
"""Families that TraceLens has sheets of."""


def _cells(name: str, table: Table, streams: bool = True) -> dict[str, Any]:
    """The columns of a table with TraceLens's cells; no streams where the trace has none."""
    columns = dict(table.columns)
    if not streams and "Kernel stream" in columns:
        columns["Kernel stream"] = [None] * len(table)
    return {
        column: [_cell(column, cell) for cell in cells] if isinstance(cells, list) else cells
        for column, cells in columns.items()
        if not (column == "ex_UID" and name in _OF_KERNELS)
    }


def _sizes_as_tuples(columns: dict[str, Any]) -> dict[str, Any]:
    """Columns with JAX's sizes and arguments as tuples: in PyTorch's families TraceLens leaves lists as they are."""
    return {
        column: [as_tuples(cell) for cell in cells] if column.startswith(("param: ", "Input ")) else cells
        for column, cells in columns.items()
    }


def _cell(column: str, cell: Any) -> Any:
    if column in _TUPLES:
        return as_tuples(cell)
    return None if column in _PARENT and cell in (NO_LAUNCH, UNLINKED) else cell


def _in_order(columns: dict[str, Any]) -> dict[str, Any]:
    """Columns and cells of PyTorch's tables with sizes in TraceLens's order."""
    if "has_perf_model" in columns:
        columns["has_perf_model"] = has_model(columns["name"], columns["has_perf_model"])
    if "perf_params" in columns:
        cells = zip(columns["name"], columns["perf_params"], strict=True)
        columns["perf_params"] = [
            params and {size: params[size] for size in in_order(params, op)} for op, params in cells
        ]
    if "UID_first" in columns and len(columns["name"]):
        op = columns["name"][int(np.argmin(columns["UID_first"]))]
        sizes = in_order((column for column in columns if column.startswith("param: ")), op)
        columns = {column: columns[column] for column in ("name", *sizes, *columns)}
    return columns
