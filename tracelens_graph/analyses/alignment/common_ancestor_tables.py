"""Schemas of TraceLens's tables of a comparison by structure."""

from __future__ import annotations

from dataclasses import replace

from tracelens_graph.analyses.performance.perf_tables import SPEEDUP
from tracelens_graph.tables.column import About, Column
from tracelens_graph.tables.schema import TableSchema

_TRACELENS_ARGUMENTS: About = {
    "Input Dims": Column("sizes of the arguments of the op that launched it", cells="list"),
    "Input Strides": Column("their strides", cells="list"),
    "Input type": Column("their types", cells="list"),
    "Concrete Inputs": Column("values of those that are not tensors", cells="list"),
}

_TRACELENS_MODULES: About = {
    "nn_module_stack": Column.text("modules around the op, the outermost first, behind `root`; joined by `;`"),
    "nn_module_parent": Column.text("the innermost of them"),
}

DIFF_STATS = TableSchema(
    "diff_stats",
    "TraceLens's table of a comparison: GPU events by lowest common ancestor.",
    {
        "name": Column.key("the GPU event"),
        "cpu_op_name": Column.text("the op that launched it"),
        "cpu_op_uid": Column.uid("that op, in its own trace"),
        "source": Column.text("`trace1` for the first trace, `trace2` for the second"),
        **_TRACELENS_ARGUMENTS,
        "kernel_time": Column.total("its duration", "us"),
        "busy_time": Column("time with any GPU event of its trace below the LCA, the same in all their rows", "us"),
        "lowest_common_ancestor_name": Column.text(
            "the LCA: lowest node of both traces above it; `x | y` if called differently"
        ),
        "lowest_common_ancestor_id": Column(
            "number of the LCA in the merged tree; absent at the top of one trace alone"
        ),
        "gpu_op_uid": Column.uid("the GPU event, in its own trace"),
        **_TRACELENS_MODULES,
    },
)

DIFF_STATS_SUMMARY = TableSchema(
    "diff_stats_unique_args_summary",
    "TraceLens's summary of it: events that differ in their times alone.",
    {
        "name": DIFF_STATS["name"],
        "operation_count": Column.count("GPU events that differ in nothing of this row but their times"),
        **{
            name: DIFF_STATS[name]
            for name in (
                "cpu_op_name",
                "cpu_op_uid",
                "source",
                *_TRACELENS_ARGUMENTS,
                "busy_time",
                "lowest_common_ancestor_name",
                *_TRACELENS_MODULES,
            )
        },
        "kernel_time_mean": Column("mean of their durations", "us"),
        "kernel_time_sum": Column.total("sum of their durations", "us"),
    },
)

PERF_SUMMARY_BY_LCA = TableSchema(
    "perf_summary_by_lca",
    "TraceLens's table of lowest common ancestors, with both times.",
    {
        "name": Column.key("ops below the LCA that launched work in trace1, or else in trace2"),
        "lowest_common_ancestor_name": DIFF_STATS["lowest_common_ancestor_name"],
        "lowest_common_ancestor_id": DIFF_STATS["lowest_common_ancestor_id"],
        **{
            name: replace(column, definition=f"{column.definition}; of the first GPU event")
            for name, column in _TRACELENS_MODULES.items()
        },
        **{
            name: replace(
                _TRACELENS_ARGUMENTS[name], definition=f"{_TRACELENS_ARGUMENTS[name].definition}; of the first"
            )
            for name in ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
        },
        "kernel_time_trace1_us": Column.total("time with any GPU event of trace1 below the LCA", "us"),
        "kernel_time_trace2_us": Column.total("the same of trace2", "us"),
        "gpu_sum_trace1_us": Column.total("sum of the durations of these GPU events of trace1; ours", "us"),
        "gpu_sum_trace2_us": Column.total("the same of trace2; ours", "us"),
        "num_kernels_trace1": Column.count("these GPU events of trace1"),
        "num_kernels_trace2": Column.count("the same of trace2"),
        "kernel_names_trace1": Column("their names in trace1", cells="list"),
        "kernel_names_trace2": Column("the same in trace2", cells="list"),
        **SPEEDUP,
        "delta_us (trace2 - trace1)": Column.total("kernel_time_trace2_us less kernel_time_trace1_us", "us"),
        "pct_of_trace1_total (%)": Column.share("share of the sum of kernel_time_trace1_us"),
        "cumulative_pct_trace1 (%)": Column("running sum of these shares", "%"),
        "pct_of_trace2_total (%)": Column.share("share of the sum of kernel_time_trace2_us"),
    },
)
