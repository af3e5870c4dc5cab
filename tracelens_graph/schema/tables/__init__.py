"""Tables and their columns: names, definitions, units, roles. Reports, DataFrames and reference pages read them here.

Where a table is known from TraceLens it has the same names and columns; what only we have is `snake_case` with the unit
as suffix. "Busy" is the length of a union of intervals, so work that overlaps counts once; everything else called time
is a sum or a statistic of durations.

To add a column, declare it in the table's columns in one of the modules here, and fill it in the analysis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tracelens_graph.schema.tables import (
    across,
    calls,
    kernels,
    linkage,
    memory,
    ops,
    paths,
    performance,
    places,
    ranks,
    replay,
    structure,
    tensors,
    timeline,
    tracelens_jax,
    tracelens_ranks,
)
from tracelens_graph.tables.column import About, Column, TableSchema

TABLES: Mapping[str, TableSchema] = {
    name: schema
    for theme in (
        timeline, ops, kernels, performance, places, ranks, paths, structure, calls, tensors, memory, across, linkage,
        tracelens_ranks, tracelens_jax, replay,
    )
    for name, schema in theme.SCHEMAS.items()
}  # fmt: skip
"""Name of a table -> what it answers, and its columns."""


REPORT_TABLES = (
    "gpu_timeline", "ops_summary_by_category", "ops_summary", "ops_unique_args", "kernel_summary",
    "kernel_category_detail", "kernel_category_summary", "unified_perf_summary", "work_summary", "coll_analysis",
    "runtime_summary", "step_summary", "programs", "short_kernel_histogram", "idle_causes", "short_kernels_summary",
    "memory_summary", "memory_peak", "allocations_by_module",
)  # fmt: skip
"""Names of the tables that a report can have, in its order."""


def about_columns(table: str, columns: Iterable[str]) -> dict[str, Column]:
    """What is known of the columns of a table by its name; of one by family of operations, by its columns.

    Args:
        table: name of the table.
        columns: names of its columns; the answer keeps to these.
    """
    there = list(columns)
    known: About = {}
    if table in tracelens_ranks.SCHEMAS:
        return tracelens_ranks.declared(TABLES[table].columns, there)
    if table in TABLES:
        known = TABLES[table].columns
    elif "UID_first" in there:
        known = {**performance.PERF_SHEET, **performance.size_columns(there)}
    return {name: known[name] for name in there if name in known}
