"""Tables of cost: what operations should take at the device's rates, and what they reached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tracelens_graph.schema.tables.ops import (
    ARGUMENTS,
    ENTRY_POINT,
    KERNEL_DETAILS,
    KERNEL_DETAILS_SHORT,
    OPS_UNIQUE_ARGS,
    PLACE,
)
from tracelens_graph.schema.tables.shared import (
    FIVE,
    IS_RECOMPUTE,
    SHARE,
    count,
    instance,
    key,
    share,
    shown,
    statistics,
    text,
    total,
)
from tracelens_graph.tables.column import About, Column, Role, TableSchema

_RATES: About = {
    **statistics("TB/s_{}", "the bytes moved per second of GPU busy time", "TB/s", FIVE),
    **statistics("TFLOPS/s_{}", "the operations per second of GPU busy time", "TFLOPS", FIVE),
}
_ROOF_SHARES = shown(
    statistics("Pct Roofline_{}", "the time at the roof as share of the GPU busy time", "%", FIVE),
    Pct_Roofline_mean="% of roof",
)

_COST: About = {
    "GFLOPS": Column("floating-point operations of a call; a multiply-add counts as two", "GFLOP", heading="GFLOP"),
    "Data Moved (MB)": Column("least traffic of a call to and from memory: each tensor once", "MiB", heading="MB"),
    "FLOPS/Byte": Column("operations per byte moved", "FLOP/B"),
    "Compute Spec": text("units that compute it, and in which precision"),
    "Roofline Time": Column("time at the roof: the larger of operations / rate and bytes / bandwidth", "us"),
    "Roofline Bound": text("COMPUTE_BOUND or MEMORY_BOUND; LINK_BOUND of a copy between host and device", "bound"),
}

_KERNEL_TIME = statistics("Kernel Time (µs)_{}", "GPU busy time per call", "us", (*FIVE, "sum"))
_KERNEL_TIME |= {
    "Kernel Time (µs)_mean": replace(_KERNEL_TIME["Kernel Time (µs)_mean"], heading="mean us", compared="diff"),
    "Kernel Time (µs)_sum": replace(_KERNEL_TIME["Kernel Time (µs)_sum"], heading="sum us", compared="main"),
}

SPEEDUP: About = {
    "speedup (trace2/trace1)": Column(
        "TraceLens's name for the time of the second trace as multiple of that of the first: above 1 it is slower"
    ),
    "speedup_of_trace2": Column(
        "how many times as fast the second trace is: above 1 it is faster", heading="speed-up", drop_priority=0
    ),
}

UNIFIED_COMPARISON: About = {
    "speedup (trace2/trace1)": SPEEDUP["speedup (trace2/trace1)"],
    "delta_us (trace2 - trace1)": Column("lca_total_kernel_time_trace2_us less the kernel time of the row", "us"),
    "lca_count_trace2": Column("lowest common ancestors (LCAs) of its GPU events that have any in the second trace"),
    "lca_id": text("numbers of these LCAs in the merged tree, joined by `; `"),
    "lca_name": text("their names, joined likewise"),
    "lca_total_kernel_time_trace1_us": Column("sum over its LCAs of the time with any GPU event below that differs",
                                              "us"),
    "lca_total_kernel_time_trace2_us": Column("the same of the second trace", "us"),
    "speedup_of_trace2": SPEEDUP["speedup_of_trace2"],
}  # fmt: skip
"""Columns that a comparison adds, behind the sum of kernel times."""

UNIFIED_PERF_SUMMARY: About = {
    "name": key(
        "outermost op whose model claims it, else the op that launched; one row per op for every GPU event", "op"
    ),
    "op category": OPS_UNIQUE_ARGS["op category"],
    **PLACE,
    **ARGUMENTS,
    "is_recompute": IS_RECOMPUTE,
    "ex_UID": replace(
        instance("uid of the first call; of an event that stands for itself, its own"), compared="beside"
    ),
    "operation_count": count("calls", "calls"),
    "total_duration_us": total("sum of the durations of the calls on the host", "us"),
    "mean_duration_us": Column("mean of the durations of the calls on the host", "us", Role.mean),
    "std_duration_us": Column("standard deviation of the durations of the calls on the host", "us", Role.spread),
    **{name: _COST[name] for name in ("GFLOPS", "Data Moved (MB)", "FLOPS/Byte", "Compute Spec", "Roofline Bound")},
    **_RATES,
    "TB/s_mean": replace(_RATES["TB/s_mean"], heading="TB/s", compared="diff"),
    "TFLOPS/s_mean": replace(_RATES["TFLOPS/s_mean"], heading="TFLOPS/s", compared="diff"),
    **_KERNEL_TIME,
    **statistics("duration_us_{}", "the durations of the calls on the host", "us", ("median", "min", "max")),
    "Roofline Time (µs)_first": _COST["Roofline Time"],
    **_ROOF_SHARES,
    "kernel_details_summary": KERNEL_DETAILS,
    "trunc_kernel_details": KERNEL_DETAILS_SHORT,
    "perf_params": Column("the sizes that operations and bytes follow from", cells="list"),
    "has_perf_model": Column("whether a model applies", role=Role.flag),
    "entry_point": replace(ENTRY_POINT, heading=None),
    "call_stack_full": Column(
        "frames, modules and ops above the kernels of the first call, the outermost first", cells="list"
    ),
    **SHARE,
    **UNIFIED_COMPARISON,
}

PERF_SHEET: About = {
    "name": key("the operation", "op"),
    "num_kernels": replace(OPS_UNIQUE_ARGS["num_kernels"], heading=None),
    "is_recompute": IS_RECOMPUTE,
    **{f"{name}_first": _COST[name] for name in ("GFLOPS", "Data Moved (MB)", "FLOPS/Byte")},
    **_RATES,
    "TB/s_mean": replace(_RATES["TB/s_mean"], heading="TB/s"),
    "TFLOPS/s_mean": replace(_RATES["TFLOPS/s_mean"], heading="TFLOPS/s"),
    **{f"{name}_first": column for name, column in PLACE.items()},
    "Compute Spec": _COST["Compute Spec"],
    "Roofline Time (µs)_first": _COST["Roofline Time"],
    "Roofline Bound_first": _COST["Roofline Bound"],
    **_ROOF_SHARES,
    "kernel_details__summarize_kernel_stats": KERNEL_DETAILS,
    "trunc_kernel_details": KERNEL_DETAILS_SHORT,
    **{f"{name}_first": replace(column, heading=None, role=Role.value) for name, column in ARGUMENTS.items()},
    **shown(
        statistics("Kernel Time (µs)_{}", "GPU busy time of all GPU events below a call", "us", (*FIVE, "sum")),
        Kernel_Time___s__mean="mean us",
        Kernel_Time___s__sum="sum us",
    ),
    "name_count": count("calls", "calls"),
    "UID_first": instance("uid of the first call"),
}
"""Columns of the tables by family, beside one `param: ...` for each size."""

_SIZE = "param: "


def size_columns(names: Iterable[str]) -> dict[str, Column]:
    """The columns `param: ...` among some: the sizes that operations and bytes follow from."""
    return {
        name: Column("a size that operations and bytes follow from", heading=name.removeprefix(_SIZE))
        for name in names
        if name.startswith(_SIZE)
    }


ROOFLINE_SUMMARY: About = {
    "part": key("what bounds the work, or why nothing runs; the parts add up to GPU time and idle time"),
    "count": count("GPU events; of idle time, gaps"),
    "time_ms": total("sum of the durations of the GPU events; of idle time, its length", "ms", compared="main"),
    "percent": share("share of the sum over all parts"),
    "at_roof_ms": total("sum over calls of the least time on the device, but not more than a call took", "ms"),
    "could_be_won_ms": total("the time less that at the roof", "ms", compared="diff"),
    "meaning": text("the part in words"),
}

BELOW_ROOF: About = {
    "op": key("op that the work is given to", "op"),
    "input_dims": ARGUMENTS["Input Dims"],
    "input_types": ARGUMENTS["Input type"],
    "bound": text("what bounds it at the roof: compute or memory", "bound"),
    "calls": count("calls with these arguments", "calls"),
    "time_ms": total("sum of the durations of their GPU work", "ms", "time ms", compared="main"),
    "percent_of_roof": Column("time at the roof as share of the time", "%", heading="% of roof"),
    "could_be_won_ms": total(
        "the time less that at the roof, which is that of the first call for all", "ms", "could be won ms"
    ),
    "uid": instance("uid of the first call"),
}

UNMODELLED: About = {
    "op": key("op that the work is given to, or the runtime call where no op is above the launch"),
    "reason": key("why no performance model says what the work costs"),
    "gpu_events": count("GPU events without a model"),
    "gpu_sum_ms": total("sum of their durations", "ms", compared="main"),
    "percent": share("share of the sum over all GPU events of the window"),
}

WORK_SUMMARY: About = {
    "family": key("family of the operations: `matrix product`, `convolution`, `attention`, `reduce`, ...", "family"),
    "sizes": key(
        "of a product `batch x M x N x K`, M and N in descending order; of a convolution those of input and filters, "
        "channels behind the batch; of attention `batch x heads x queries x keys x width`; else empty", "sizes",
    ),
    "total_ms": total("sum of the durations of their GPU events", "ms", "GPU ms", compared="main", figure="ms"),
    "calls": count("calls", "calls"),
    "tflops_s": Column("operations of their models over that time", "TFLOPS/s", heading="TFLOPS/s", compared="diff"),
    "op": text("the operation with most of the time"),
}  # fmt: skip

SCHEMAS = {
    "unified_perf_summary": TableSchema(
        "What calls should cost and what they reached, every GPU event in one row.", UNIFIED_PERF_SUMMARY
    ),
    "work_summary": TableSchema(
        "GPU time by family of operations and sizes, whatever operations are called.", WORK_SUMMARY, counts="call"
    ),
    "roofline_summary": TableSchema(
        "Which GPU time is bound by computing, which by memory, what has no model, and how much could be won.",
        ROOFLINE_SUMMARY,
        ordered=True,
        counts="GPU event",
    ),
    "below_roof": TableSchema(
        "Which operations are far below the roof: those first where most could be won.", BELOW_ROOF, counts="call"
    ),
    "unmodelled": TableSchema("Which operations have no performance model, and why.", UNMODELLED, counts="GPU event"),
    "unmodelled_time": TableSchema(
        "Which operations have no performance model, and why.", UNMODELLED, counts="GPU event"
    ),
}
