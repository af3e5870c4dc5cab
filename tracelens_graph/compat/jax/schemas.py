"""TraceLens's tables of JAX profiles. A kernel is its own launcher in them."""

from __future__ import annotations

from dataclasses import replace

from tracelens_graph.analyses.ops.ops import ARGUMENTS
from tracelens_graph.analyses.shared.gpu_work import SHARE
from tracelens_graph.analyses.timeline.timeline import GPU_TIMELINE
from tracelens_graph.tables.column import FIVE, About, Column, Role, shown, statistics
from tracelens_graph.tables.schema import TableSchema

_TIME = "the durations of the kernels"

_NAME = Column.key("name of the kernel", "kernel")

_CATEGORY = Column.key("TraceLens's category of the kernel, by its name and its instruction", "category")

_PER_GPU = Column("sum divided by the number of GPUs with kernels", "ms", heading="ms per GPU")

_ARGUMENTS: About = {
    "Input Dims": replace(ARGUMENTS["Input Dims"], definition="sizes of the operands of the instruction"),
    "Input type": replace(ARGUMENTS["Input type"], definition="types of the operands, as XLA calls them"),
    "Input Strides": replace(ARGUMENTS["Input Strides"], definition="strides of the operands, in elements"),
    "Concrete Inputs": replace(ARGUMENTS["Concrete Inputs"], definition="empty: operands are arrays"),
}

_DETAILS = "target of a custom call, operands, result, and where in the program it comes from; `NA` if not known"

GPU_EVENTS_AVERAGES = TableSchema(
    "gpu_events_averages",
    "Where the time of a GPU went, in the mean of all GPUs.",
    {name: GPU_TIMELINE[name] for name in ("type", "time ms", "percent")},
)

KERNEL_LAUNCHERS = TableSchema(
    "kernel_launchers",
    "Every kernel with the operands of its instruction, and how long it waited after its launch.",
    {
        "name": _NAME,
        "UID": Column.instance("uid of the kernel"),
        "op category": _CATEGORY,
        "total_direct_kernel_time": Column.total("duration of the kernel", "us", "us"),
        "total_subtree_kernel_time": Column.total("the same", "us"),
        "direct_kernel_count": Column("1"),
        "pid": Column("number of the GPU, from 1 on", heading="GPU"),
        "tid": Column("number of the stream", heading="stream"),
        **_ARGUMENTS,
        "kernel_details": Column.listed(f"name and duration (us) of the kernel; of its instruction the {_DETAILS}"),
        "GPU_kernel_launch_latency": Column(
            "from the start of the launch to that of the kernel", "us", heading="latency us"
        ),
    },
)

DF_XLA_PERF = TableSchema(
    "df_xla_perf",
    "Every kernel that XLA wrote itself, with the bytes of its operands.",
    {
        **KERNEL_LAUNCHERS,
        "total_input_bytes": Column.total(
            "bytes of all operands; absent where the size of a type is not known", "B", "operands B"
        ),
    },
)

KERNEL_LAUNCHERS_SUMMARY = TableSchema(
    "kernel_launchers_summary",
    "Which kernels the GPU time goes to.",
    {
        "name": _NAME,
        "total_direct_kernel_time_sum": Column.total(f"sum of {_TIME}", "us"),
        "total_subtree_kernel_time_sum": Column.total("the same", "us"),
        "total_direct_kernel_time_ms": Column.total(f"sum of {_TIME}", "ms", "GPU ms", compared="main"),
        "total_subtree_kernel_time_ms": Column.total("the same", "ms"),
        "Count": Column.count("kernels", "kernels"),
        "Categories": Column("categories of the kernels, sorted", role=Role.text, heading="category", cells="list"),
        **SHARE,
        "time ms per gpu": _PER_GPU,
    },
)

XLA_SUMMARY = TableSchema(
    "xla_summary",
    "Which kernels that XLA wrote itself the GPU time goes to.",
    {
        **KERNEL_LAUNCHERS_SUMMARY,
        "name": Column.key("name of the kernel without the number that XLA puts behind it", "kernel"),
    },
)

KERNEL_LAUNCHERS_SUMMARY_BY_CATEGORY = TableSchema(
    "kernel_launchers_summary_by_category",
    "Which kinds of kernels the GPU time goes to.",
    {
        "op category": _CATEGORY,
        **{
            name: KERNEL_LAUNCHERS_SUMMARY[name]
            for name in ("Count", "total_direct_kernel_time_ms", *SHARE, "time ms per gpu")
        },
    },
)

_DIRECT = statistics("total_direct_kernel_time_{}", _TIME, "us", (*FIVE, "sum"))

KERNEL_LAUNCHERS_UNIQUE_ARGS = TableSchema(
    "kernel_launchers_unique_args",
    "Which kernels with which operands the GPU time goes to.",
    {
        "name": _NAME,
        "op category": _CATEGORY,
        **_ARGUMENTS,
        "operation_count": Column.count("kernels", "kernels"),
        **shown(_DIRECT, total_direct_kernel_time_mean="mean us", total_direct_kernel_time_sum="sum us"),
        **statistics("total_subtree_kernel_time_{}", _TIME, "us", (*FIVE, "sum")),
        "ex_UID": Column.instance("uid of the first of the kernels"),
        "kernel_details_summary": Column.listed(
            f"count and statistics of the kernels; of their instruction the {_DETAILS}"
        ),
        **SHARE,
    },
)
