"""Tables of kernels: what they do, how long they run, which are short, how they are tiled; copies; graph launches."""

from __future__ import annotations

from dataclasses import replace

from tracelens_graph.schema.tables.shared import (
    GPU_EVENTS,
    GPU_TIME,
    MEAN_TIME,
    PERCENT,
    count,
    instance,
    key,
    share,
    statistics,
    text,
    total,
    uid,
)
from tracelens_graph.tables.column import About, Column, Role, TableSchema

_DURATIONS = statistics("Kernel duration (µs)_{}", "the durations", "us", ("sum", "count", "mean", "min", "max"))

KERNEL_SUMMARY: About = {
    "Parent op category": text(
        "category of the launching op; graph or runtime where no op is above the launch", "category", compared="carried"
    ),
    "Parent cpu_op": key("op nearest above the launch; the runtime call where no op is", "op"),
    "kernel_category": text("what the kernel does, told by its name and the op that launched it", "does"),
    "Kernel name": key("name of the kernel", "kernel"),
    "Kernel stream": Column("stream on the device", heading="stream"),
    "Kernel duration (µs)_sum": replace(_DURATIONS["Kernel duration (µs)_sum"], heading="sum us", compared="main"),
    "Kernel duration (µs)_count": replace(_DURATIONS["Kernel duration (µs)_count"], heading="kernels"),
    "Kernel duration (µs)_mean": replace(_DURATIONS["Kernel duration (µs)_mean"], heading="mean us", compared="diff"),
    "Kernel duration (µs)_min": replace(_DURATIONS["Kernel duration (µs)_min"], compared="beside"),
    "Kernel duration (µs)_max": replace(_DURATIONS["Kernel duration (µs)_max"], compared="beside"),
    "Percent of kernels time (%)": share("share of the sum over all kernels", "% of kernel time"),
    "Percent of total time (%)": share("sum as share of the time from the first to the last GPU event"),
    "ex_UID": instance("uid of the first kernel"),
}

KERNEL_CATEGORY_DETAIL: About = {
    "cpu_op": key("op nearest above the launch; the runtime call where no op is, `graph` for graph launches"),
    "kernel_category": key(KERNEL_SUMMARY["kernel_category"].definition),
    "kernel_name": key("name of the kernel"),
    "count": count("kernels"),
    "total_time_ms": total("sum of their durations", "ms", compared="main"),
    "avg_time_us": Column("mean of their durations", "us", Role.mean),
}

KERNEL_CATEGORY_SUMMARY: About = {
    "cpu_op": KERNEL_CATEGORY_DETAIL["cpu_op"],
    "kernel_category": KERNEL_CATEGORY_DETAIL["kernel_category"],
    "count": KERNEL_CATEGORY_DETAIL["count"],
    "total_time_ms": KERNEL_CATEGORY_DETAIL["total_time_ms"],
    "% of parent time": Column("share of the sum over all kernels of the cpu_op", "%"),
    "% of graph time": Column("the same, so called where the only cpu_op is a graph launch", "%"),
}

SHORT_KERNEL_HISTOGRAM: About = {
    "bin_start": Column("shortest length in the bin", "us"),
    "bin_end": Column("end of the bin; only in the last bin a length in it", "us"),
    "count": count("kernels"),
}

SHORT_KERNELS_SUMMARY: About = {
    "Parent cpu_op": key("op nearest above the launch; the runtime call where no op is"),
    "Input dims": key("sizes of the parent's inputs, one list per argument", cells="list"),
    "Input strides": key("strides of the parent's inputs, in elements", cells="list"),
    "Concrete Inputs": key("values of the parent's inputs that are no tensors, as text", cells="list"),
    "Kernel name": key("name of the kernel"),
    "Short Kernel duration (µs) sum": total("sum of the durations", "us"),
    "Short Kernel count": count("kernels"),
    "Short Kernel duration (µs) mean": Column("mean of the durations", "us", Role.mean),
    "Short Kernel duration (µs) percent of total time": share(
        "sum as share of the time from the first to the last GPU event"
    ),
    "ex_UID": uid("uid of the first kernel"),
}

SHORT_KERNELS: About = {
    name: column
    for name, column in SHORT_KERNELS_SUMMARY.items()
    if name not in ("Input dims", "Input strides", "Concrete Inputs", "ex_UID")
}

_NAMES = Column("number of different names")

CATEGORY_SHARES: About = {
    "category": key("kind of kernel, by its name; Memcpy and Memset for copies and fills"),
    "names": _NAMES,
    "count": GPU_EVENTS,
    "gpu_time_us": replace(GPU_TIME, compared="main"),
    "mean_time_us": MEAN_TIME,
    "percent": PERCENT,
}

KERNELS_BY_TILE: About = {
    "operation": key("what is computed, as the name says"),
    "family": key("whose naming it is"),
    "dtype": key("type of the first operand's elements"),
    **{f"tile_{axis}": key(f"size of a thread block's tile along {axis.upper()}", cells="number") for axis in "mnk"},
    "names": _NAMES,
    "count": count("number of kernels"),
    "gpu_time_us": GPU_TIME,
    "mean_time_us": MEAN_TIME,
    "percent": PERCENT,
}

COPIES: About = {
    "direction": key("H is the host, D a device, P another device; fill for fills, else unknown"),
    "name": key("name of the copies, which also tells the kind of memory"),
    "size_class": key("size of a single copy; absent where it was not recorded"),
    "count": count("number of copies"),
    "bytes": total("their bytes", "B"),
    "gpu_time_us": GPU_TIME,
    "gb_per_s": Column("bytes per time", "GB/s"),
    "percent": PERCENT,
}

GRAPH_LAUNCHES: About = {
    "call": key("the runtime call"),
    "launches": count("number of launches"),
    "gpu_events": Column("GPU events that one launch replays; 0 where the trace holds none of them"),
    "names": _NAMES,
    "gpu_time_us": total("sum of their durations in all launches", "us"),
    "mean_gpu_time_us": Column("the same per launch", "us", Role.mean),
    "percent": PERCENT,
    "longest": text("name with the most time"),
    "longest_time_us": Column("its time in all launches", "us"),
    "uid": uid("the first of the launches"),
}

UNUSUAL_KERNELS: About = {
    "op": key("op that the kernels are charged to"),
    "kernel": key("name of the kernel"),
    "calls": Column("number of calls of the op with kernels"),
    "same_arguments": Column("how many of them have the arguments of this call, itself included"),
    "input_dims": text("sizes of the inputs of this call, JSON"),
    "count": count("number of kernels of that name in the call"),
    "gpu_time_us": total("sum of their durations", "us"),
    "percent": Column("share of the time of all kernels of the op", "%"),
    "uid": uid("the call"),
}

SCHEMAS = {
    "kernel_summary": TableSchema(
        "How long the kernels ran, one row per launching op, kernel and stream.",
        KERNEL_SUMMARY,
        counts="kernel",
        leads="Kernel name",
    ),
    "kernel_category_detail": TableSchema(
        "Which kernels each launching op runs, and of which category they are.",
        KERNEL_CATEGORY_DETAIL,
        counts="kernel",
        leads="kernel_name",
    ),
    "kernel_category_summary": TableSchema(
        "What the kernels of each launching op do, by category: GEMM, attention, copies, ...",
        KERNEL_CATEGORY_SUMMARY,
        counts="kernel",
    ),
    "short_kernel_histogram": TableSchema(
        "How many kernels are shorter than a threshold, by length.", SHORT_KERNEL_HISTOGRAM
    ),
    "short_kernels_summary": TableSchema(
        "Which kernels are shorter than a threshold, and which ops launch them.",
        SHORT_KERNELS_SUMMARY,
        leads="Kernel name",
    ),
    "short_kernels": TableSchema(
        "Which kernels are shorter than a threshold, by op and name.", SHORT_KERNELS, leads="Kernel name"
    ),
    "category_shares": TableSchema("What kinds of kernels the GPU time goes to.", CATEGORY_SHARES, counts="kernel"),
    "kernels_by_tile": TableSchema("How kernels are tiled, as their names say.", KERNELS_BY_TILE),
    "copies": TableSchema("What is copied and filled, in which direction, and how fast.", COPIES),
    "graph_launches": TableSchema("Which captured graphs are launched, and what they replay.", GRAPH_LAUNCHES),
    "unusual_kernels": TableSchema(
        "Which kernels a single call of an op runs, and no other call of it.", UNUSUAL_KERNELS
    ),
}
