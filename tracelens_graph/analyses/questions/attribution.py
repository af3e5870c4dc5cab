"""To what GPU time is charged: the tables of the report, and the questions of the modules beside this one.

Functions take a graph, and with `step` the number of one `ProfilerStep` to look at. Tables of the report are those of
`analyses`, with the columns that the queries give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tracelens_graph.analyses import kernels, ops, perf_tables, runtime
from tracelens_graph.analyses.questions import attribution_calls, attribution_places
from tracelens_graph.analyses.questions.attribution_calls import (
    forward_backward,
    launch_delay,
    unlaunched_gpu_time,
)
from tracelens_graph.analyses.questions.attribution_places import gpu_time_under, modules, python_lines
from tracelens_graph.graph.core import Core
from tracelens_graph.schema.tables import RUNTIME_SUMMARY, TABLES
from tracelens_graph.table import Column, Table

_CALL = ("name", "op category", "process_name", "process_label", "thread_name", "Input Dims", "Input type",
         "Input Strides", "Concrete Inputs")  # fmt: skip

_SHOWN: Mapping[str, tuple[str, ...]] = {
    "ops_summary_by_category": ("op category", "Count", "total_direct_kernel_time_ms", "Percentage (%)"),
    "ops_summary": (
        "name", "total_direct_kernel_time_ms", "total_subtree_kernel_time_ms", "Count", "Categories", "Percentage (%)",
    ),
    "ops_unique_args": (
        *_CALL, "operation_count",
        *(f"total_direct_kernel_time_{which}" for which in ops.STATISTICS),
        *(f"total_subtree_kernel_time_{which}" for which in ops.STATISTICS),
        "ex_UID", "Percentage (%)",
    ),
    "kernel_summary": (
        "Parent op category", "Parent cpu_op", "Kernel name", "Kernel stream",
        *(f"Kernel duration (µs)_{which}" for which in ("sum", "count", "mean", "min", "max")),
        "Percent of kernels time (%)", "Percent of total time (%)", "ex_UID",
    ),
    "unified_perf_summary": (
        *_CALL, "ex_UID", "operation_count", "total_duration_us", "GFLOPS", "Data Moved (MB)", "FLOPS/Byte",
        "Compute Spec", "TB/s_mean", "TFLOPS/s_mean",
        *(f"Kernel Time (µs)_{which}" for which in ("mean", "median", "std", "min", "max", "sum")),
        "has_perf_model", "Percentage (%)",
    ),
}  # fmt: skip
"""Table of the report -> the columns of its query."""

ABOUT: Mapping[str, Mapping[str, Column]] = {
    **{table: {name: TABLES[table][name] for name in names} for table, names in _SHOWN.items()},
    "runtime_summary": RUNTIME_SUMMARY,
    **attribution_places.ABOUT,
    **attribution_calls.ABOUT,
}
"""Name of a query -> its columns."""


def ops_summary_by_category(g: Core, step: int | None = None) -> Table:
    """GPU time by category of operation, as in the report.

    Raises:
        AnalysisError: the trace has no such step.
    """
    return _shown(ops.ops_summary_by_category(g.window(step=step)))


def ops_summary(g: Core, step: int | None = None) -> Table:
    """GPU time by name of operation, as in the report.

    Raises:
        AnalysisError: the trace has no such step.
    """
    return _shown(ops.ops_summary(g.window(step=step)))


def ops_unique_args(g: Core, step: int | None = None) -> Table:
    """GPU time by operation, thread and arguments, as in the report.

    Raises:
        AnalysisError: the trace has no such step.
    """
    return _shown(ops.ops_unique_args(g.window(step=step)))


def kernel_summary(g: Core, step: int | None = None) -> Table:
    """Durations of kernels by launching op, name and stream, as in the report.

    Raises:
        AnalysisError: the trace has no such step.
    """
    return _shown(kernels.kernel_summary(g.window(step=step)))


def unified_perf_summary(g: Core, step: int | None = None) -> Table:
    """Cost and rates by operation and arguments, each GPU event in one row, as in the report.

    Raises:
        AnalysisError: the trace has no such step.
    """
    return _shown(perf_tables.unified_perf_summary(g.window(step=step)))


def runtime_summary(g: Core, step: int | None = None) -> Table:
    """Runtime and driver calls: host time, GPU work, launch delay, as in the report.

    Raises:
        AnalysisError: the trace has no such step.
    """
    return runtime.runtime_summary(g.window(step=step))


def _shown(table: Table) -> Table:
    about = ABOUT[table.name]
    return Table(table.name, {name: table[name] for name in about}, about, table.title, table.notes)


QUESTIONS: Mapping[str, Callable[..., Table]] = {
    "ops_summary_by_category": ops_summary_by_category,
    "ops_summary": ops_summary,
    "ops_unique_args": ops_unique_args,
    "kernel_summary": kernel_summary,
    "unified_perf_summary": unified_perf_summary,
    "runtime_summary": runtime_summary,
    "modules": modules,
    "gpu_time_under": gpu_time_under,
    "python_lines": python_lines,
    "launch_delay": launch_delay,
    "forward_backward": forward_backward,
    "unlaunched_gpu_time": unlaunched_gpu_time,
}
"""Name of a query -> its twin."""
