"""Tables and their columns: names, definitions, units. Reports, DataFrames and the reference pages read them here.

Where a table is known from TraceLens it has the same names and columns. "Busy" is the length of a union of
intervals, so work that overlaps counts once; everything else called time is a sum or a statistic of durations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tracelens_graph.table import Column

About = Mapping[str, Column]

_WORDS = {
    "sum": "sum",
    "mean": "mean",
    "median": "median",
    "std": "standard deviation (one degree of freedom less; none for a single value)",
    "min": "smallest",
    "max": "greatest",
    "count": "number",
}


def statistics(name: str, of: str, unit: str, which: Iterable[str]) -> dict[str, Column]:
    """Columns `name.format(which)` for some statistics of one quantity."""
    return {name.format(w): Column(f"{_WORDS[w]} of {of}", "" if w == "count" else unit) for w in which}


SHARE = {
    "Percentage (%)": Column("share of the sum over all rows of the table", "%"),
    "Cumulative Percentage (%)": Column("share of this row and those above it", "%"),
}

GPU_TIMELINE: About = {
    "type": Column("what the time was spent on"),
    "time ms": Column("length of the union of the intervals concerned", "ms"),
    "percent": Column("share of total_time", "%"),
    "is_recompute": Column("whether the block covers recomputation of activations"),
}

_IN_CALL = "the busy time of the GPU events charged to a call"
_BELOW = "the busy time of all GPU events below a call"
_FIVE = ("mean", "median", "std", "min", "max")

_KEYS: About = {
    "parent_module": Column("innermost nn.Module around the op, without the number of the instance"),
    "is_recompute": Column("whether the calls belong to recomputation of activations"),
    "call_stack_first": Column("names of the modules around the first call, the outermost first"),
}

OPS_SUMMARY_BY_CATEGORY: About = {
    "op category": Column("kind of operation: told by its name, else by the name of its first kernel"),
    **_KEYS,
    "Count": Column("calls that launched GPU work"),
    "total_direct_kernel_time_ms": Column(f"sum over calls of {_IN_CALL}", "ms"),
    **SHARE,
}

OPS_SUMMARY: About = {
    "name": Column("op nearest above the launch; the runtime call where no op is"),
    **_KEYS,
    "total_direct_kernel_time_sum": Column(f"sum over calls of {_IN_CALL}", "us"),
    "total_subtree_kernel_time_sum": Column(f"sum over calls of {_BELOW}", "us"),
    "total_direct_kernel_time_ms": Column(f"sum over calls of {_IN_CALL}", "ms"),
    "total_subtree_kernel_time_ms": Column(f"sum over calls of {_BELOW}", "ms"),
    "Count": Column("calls that launched GPU work"),
    "Categories": Column("categories of the calls, sorted"),
    **SHARE,
}

OPS_UNIQUE_ARGS: About = {
    "name": OPS_SUMMARY["name"],
    "op category": OPS_SUMMARY_BY_CATEGORY["op category"],
    "process_name": Column("name of the process, from the trace's metadata"),
    "process_label": Column("label of the process, from the trace's metadata"),
    "thread_name": Column("name of the thread, from the trace's metadata"),
    "Input Dims": Column("sizes of the inputs, one list per argument"),
    "Input type": Column("types of the inputs"),
    "Input Strides": Column("strides of the inputs, in elements"),
    "Concrete Inputs": Column("values of inputs that are no tensors, as text"),
    "parent_module": _KEYS["parent_module"],
    "is_recompute": _KEYS["is_recompute"],
    "num_kernels": Column("GPU events charged to each of the calls"),
    "overlapping_kernel_names": Column("kernels of other ops that run at the same time on other streams"),
    "operation_count": Column("calls"),
    "first_occurrence_time": Column("start of the first call, from the first call in the table", "us"),
    **statistics("total_direct_kernel_time_{}", _IN_CALL, "us", (*_FIVE, "sum")),
    **statistics("total_subtree_kernel_time_{}", _BELOW, "us", (*_FIVE, "sum")),
    "ex_UID": Column("uid of the first call"),
    "kernel_details_summary": Column("GPU events of a call by their place in it, durations in us over all calls"),
    "trunc_kernel_details": Column("the same, short"),
    "overlapping_kernels_details_summary": Column("the overlapping kernels with their durations in us"),
    "trunc_overlapping_kernels_details": Column("the same, short"),
    **statistics("overlap_pct_{}", "the share of the call's busy time with a kernel beside it, 0 to 1", "", _FIVE),
    "call_stack": Column("names of the modules around the first call, the outermost first"),
    "entry_point": Column("Python function that the first call comes from"),
    **SHARE,
}

KERNEL_SUMMARY: About = {
    "Parent op category": Column("category of the launching op; graph or runtime where no op is above the launch"),
    "Parent cpu_op": Column("op nearest above the launch; the runtime call where no op is"),
    "kernel_category": Column("what the kernel does, told by its name and the op that launched it"),
    "Kernel name": Column("name of the kernel"),
    "Kernel stream": Column("stream on the device"),
    **statistics("Kernel duration (µs)_{}", "the durations", "us", ("sum", "count", "mean", "min", "max")),
    "Percent of kernels time (%)": Column("share of the sum over all kernels", "%"),
    "Percent of total time (%)": Column("sum as share of the time from the first to the last GPU event", "%"),
    "ex_UID": Column("uid of the first kernel"),
}

KERNEL_CATEGORY_DETAIL: About = {
    "cpu_op": Column("op nearest above the launch; the runtime call where no op is, `graph` for graph launches"),
    "kernel_category": KERNEL_SUMMARY["kernel_category"],
    "kernel_name": Column("name of the kernel"),
    "count": Column("kernels"),
    "total_time_ms": Column("sum of their durations", "ms"),
    "avg_time_us": Column("mean of their durations", "us"),
}

KERNEL_CATEGORY_SUMMARY: About = {
    "cpu_op": KERNEL_CATEGORY_DETAIL["cpu_op"],
    "kernel_category": KERNEL_SUMMARY["kernel_category"],
    "count": KERNEL_CATEGORY_DETAIL["count"],
    "total_time_ms": KERNEL_CATEGORY_DETAIL["total_time_ms"],
    "% of parent time": Column("share of the sum over all kernels of the cpu_op", "%"),
    "% of graph time": Column("the same, so called where the only cpu_op is a graph launch", "%"),
}

MODULES: About = {
    "path": Column("names of the modules from the top, joined by /; only its end where it is very long"),
    "depth": Column("levels below the line for all GPU events"),
    "module": Column("instance or class of the module; a line without uid is none"),
    "class": Column("the name without the number of the instance"),
    "instances": Column("instances called in the window, at this place of the tree"),
    "calls": Column("calls of these in the window, recomputation included"),
    "forward us": Column("GPU time launched by the module, modules inside included; all that is not backward", "us"),
    "backward us": Column("GPU time of the backward ops of forward ops in the module, modules inside included", "us"),
    "total us": Column("forward and backward", "us"),
    "percent": Column("share of the sum over all GPU events", "%"),
    "uid": Column("the first call"),
}

OVERVIEW: About = {
    "trace": Column("name of the file"),
    "rank": Column("rank in the job, from the metadata"),
    "steps": Column("steps"),
    "step ms": Column("mean duration of a step on the host", "ms"),
    "total ms": Column("from the first to the last GPU event", "ms"),
    "busy %": Column("share of that time with a GPU event", "%"),
    "computation ms": Column("computation runs", "ms"),
    "communication ms": Column("communication runs", "ms"),
    "exposed communication ms": Column("communication runs and no computation", "ms"),
    "idle ms": Column("nothing runs", "ms"),
}

COLL_ANALYSIS: About = {
    "rank": Column("rank in the job, 0 where the trace does not tell"),
    "Process Group Name": Column("name of the process group"),
    "Process Group Ranks": Column("ranks in it; text where the trace does not list them all"),
    "Collective name": Column("operation"),
    "Group size": Column("number of ranks in the process group"),
    "dtype": Column("type of the elements"),
    "In msg nelems": Column("elements this rank puts in"),
    "Out msg nelems": Column("elements this rank gets out"),
    "In split size": Column("elements to each rank, of an uneven all-to-all"),
    "Out split size": Column("elements from each rank, of an uneven all-to-all"),
    "stream": Column("stream on the device"),
    "In msg size (MB)_first": Column("elements put in times their size; 1 MB is 2^20 bytes", "MB"),
    "Out msg size (MB)_first": Column("elements got out times their size; 1 MB is 2^20 bytes", "MB"),
    **statistics("dur_{}", "the durations of the kernels, waiting for other ranks included", "us",
                 ("sum", "mean", "std", "min", "max")),
    "operation_count": Column("kernels"),
}  # fmt: skip

RUNTIME_SUMMARY: About = {
    "name": Column("runtime or driver call; a line in brackets stands for GPU events without a launch in the trace"),
    "calls": Column("calls"),
    **statistics("host_{}_us", "the durations of the calls", "us", ("sum", "mean", "median", "max")),
    "host_self_us": Column("sum of the durations without that of calls inside them", "us"),
    "gpu_events": Column("GPU events that the calls launched"),
    "gpu_sum_us": Column("sum of the durations of these", "us"),
    "calls_without_gpu": Column("calls that launched no GPU event"),
    "delay_min_us": Column("smallest delay from the start of a call to the start of its first GPU event", "us"),
    "delay_median_us": Column("median of these delays", "us"),
    "delay_p90_us": Column("nine tenths of these delays are not longer", "us"),
    "delay_max_us": Column("greatest of these delays", "us"),
    "longest_uid": Column("uid of the longest call"),
}

STEP_SUMMARY: About = {
    "name": Column("step; a line in brackets stands for GPU events launched in no step"),
    "step": Column("number of the step"),
    "pid": Column("process of the step"),
    "start_ms": Column("start of the step on the host, from the trace's start", "ms"),
    "step_time_ms": Column("duration of the step on the host", "ms"),
    "gpu_events": Column("GPU events launched in the step"),
    "gpu_sum_ms": Column("sum of their durations", "ms"),
    "computation_time_ms": Column("time in which one of them computes", "ms"),
    "exposed_comm_time_ms": Column("time in which one of them communicates and none computes", "ms"),
    "exposed_memcpy_time_ms": Column("time in which one of them copies and none computes or communicates", "ms"),
    "busy_time_ms": Column("time in which any of them runs", "ms"),
    "idle_time_ms": Column("total_time_ms without busy_time_ms; GPU events of other steps do not count", "ms"),
    "total_time_ms": Column("from the first start to the last end of one of them", "ms"),
    "busy_percent": Column("busy_time_ms as share of step_time_ms; above 100 where work is behind the host", "%"),
    "top_ops": Column("ops charged with most GPU time: name, ms, percent of gpu_sum_ms"),
    "uid": Column("uid of the step"),
}

SHORT_KERNEL_HISTOGRAM: About = {
    "bin_start": Column("shortest length in the bin", "us"),
    "bin_end": Column("end of the bin; only in the last bin a length in it", "us"),
    "count": Column("kernels"),
}

SHORT_KERNELS_SUMMARY: About = {
    "Parent cpu_op": Column("op nearest above the launch; the runtime call where no op is"),
    "Input dims": Column("sizes of the parent's inputs, one list per argument"),
    "Input strides": Column("strides of the parent's inputs, in elements"),
    "Concrete Inputs": Column("values of the parent's inputs that are no tensors, as text"),
    "Kernel name": Column("name of the kernel"),
    "Short Kernel duration (µs) sum": Column("sum of the durations", "us"),
    "Short Kernel count": Column("kernels"),
    "Short Kernel duration (µs) mean": Column("mean of the durations", "us"),
    "Short Kernel duration (µs) percent of total time": Column(
        "sum as share of the time from the first to the last GPU event", "%"
    ),
    "ex_UID": Column("uid of the first kernel"),
}

ATTRIBUTION: About = {
    "name": Column("name at this level; a line in brackets stands for GPU events that nobody here is charged with"),
    "count": Column("nodes of this name with GPU work in their subtree"),
    "inclusive_sum_us": Column("sum of the durations of the GPU events in the subtrees, each event once", "us"),
    "inclusive_busy_us": Column("length of the union of those GPU events", "us"),
    "exclusive_sum_us": Column("sum of the durations of the GPU events charged to the nodes themselves", "us"),
    "exclusive_busy_us": Column("length of the union of those GPU events", "us"),
    "inclusive_percent": Column("inclusive_sum_us as share of the sum over all GPU events", "%"),
    "uid": Column("the first node of this name with GPU work; none for a line in brackets"),
}

IDLE_CAUSES: About = {
    "cause": Column("what the idle time is due to; the causes add up to the idle time, those unknown included"),
    "gaps": Column("gaps between GPU events of which a part is due to it"),
    "idle ms": Column("idle time due to it, over all devices", "ms"),
    "percent of idle": Column("share of the idle time", "%"),
    "percent of total": Column("share of the time from the first to the last GPU event", "%"),
    "longest ms": Column("the longest part of one gap that is due to it", "ms"),
    "gap start ms": Column("where that gap begins, from the trace's start", "ms"),
    "ends with uid": Column("uid of the GPU event that ends it"),
    "because": Column("call or frame to which that part is due most"),
    "because uid": Column("its uid"),
    "meaning": Column("the cause in words"),
}

COMPARISON: About = {
    "only_in": Column("the runs that have the row, where others do not; else empty"),
    "RUN::COLUMN": Column("a column of the table that is compared, in one run"),
    "COLUMN__RUN_diff": Column("its value in a run less that in the first; a row that a run lacks counts as 0 in sums"),
    "COLUMN__RUN_pct": Column("that difference as share of the value in the first run", "%"),
}

_RATES = {
    "TB/s": ("the bytes moved per second of GPU busy time", "TB/s"),
    "TFLOPS/s": ("the operations per second of GPU busy time", "TFLOPS"),
}
_ROOF_SHARE = "the time at the roof as share of the GPU busy time"

_COST: About = {
    "GFLOPS": Column("floating-point operations of a call; a multiply-add counts as two", "GFLOP"),
    "Data Moved (MB)": Column("least traffic of a call to and from memory: each tensor once", "MiB"),
    "FLOPS/Byte": Column("operations per byte moved", "FLOP/B"),
    "Compute Spec": Column("units that compute it, and in which precision"),
    "Roofline Time": Column("time at the roof: the larger of operations / rate and bytes / bandwidth", "us"),
    "Roofline Bound": Column("COMPUTE_BOUND or MEMORY_BOUND: which of the two it is"),
}

UNIFIED_PERF_SUMMARY: About = {
    "name": Column("outermost op whose model claims it, else the op that launched; one row per op for every GPU event"),
    **{name: OPS_UNIQUE_ARGS[name] for name in list(OPS_UNIQUE_ARGS)[1:9]},
    "is_recompute": _KEYS["is_recompute"],
    "ex_UID": Column("uid of the first call; of an event that stands for itself, its own"),
    "operation_count": Column("calls"),
    "total_duration_us": Column("sum of the durations of the calls on the host", "us"),
    "mean_duration_us": Column("mean of the durations of the calls on the host", "us"),
    "std_duration_us": Column("standard deviation of the durations of the calls on the host", "us"),
    **{name: _COST[name] for name in ("GFLOPS", "Data Moved (MB)", "FLOPS/Byte", "Compute Spec", "Roofline Bound")},
    **{
        key: value
        for rate, (of, unit) in _RATES.items()
        for key, value in statistics(rate + "_{}", of, unit, _FIVE).items()
    },
    **statistics("Kernel Time (µs)_{}", "GPU busy time per call", "us", (*_FIVE, "sum")),
    **statistics("duration_us_{}", "the durations of the calls on the host", "us", ("median", "min", "max")),
    "Roofline Time (µs)_first": _COST["Roofline Time"],
    **statistics("Pct Roofline_{}", _ROOF_SHARE, "%", _FIVE),
    "kernel_details_summary": OPS_UNIQUE_ARGS["kernel_details_summary"],
    "trunc_kernel_details": OPS_UNIQUE_ARGS["trunc_kernel_details"],
    "perf_params": Column("the sizes that operations and bytes follow from"),
    "has_perf_model": Column("whether a model applies"),
    "entry_point": OPS_UNIQUE_ARGS["entry_point"],
    "call_stack_full": Column("frames, modules and ops above the kernels of the first call, the outermost first"),
    **SHARE,
}

PERF_SHEET: About = {
    "name": Column("the operation"),
    "num_kernels": OPS_UNIQUE_ARGS["num_kernels"],
    "is_recompute": _KEYS["is_recompute"],
    **{f"{name}_first": _COST[name] for name in ("GFLOPS", "Data Moved (MB)", "FLOPS/Byte")},
    **{
        key: value
        for rate, (of, unit) in _RATES.items()
        for key, value in statistics(rate + "_{}", of, unit, _FIVE).items()
    },
    **{f"{name}_first": OPS_UNIQUE_ARGS[name] for name in ("process_name", "process_label", "thread_name")},
    "Compute Spec": _COST["Compute Spec"],
    "Roofline Time (µs)_first": _COST["Roofline Time"],
    "Roofline Bound_first": _COST["Roofline Bound"],
    **statistics("Pct Roofline_{}", _ROOF_SHARE, "%", _FIVE),
    "kernel_details__summarize_kernel_stats": OPS_UNIQUE_ARGS["kernel_details_summary"],
    "trunc_kernel_details": OPS_UNIQUE_ARGS["trunc_kernel_details"],
    **{f"{name}_first": OPS_UNIQUE_ARGS[name] for name in list(OPS_UNIQUE_ARGS)[5:9]},
    **statistics("Kernel Time (µs)_{}", "GPU busy time of all GPU events below a call", "us", (*_FIVE, "sum")),
    "name_count": Column("calls"),
    "UID_first": Column("uid of the first call"),
}
"""Columns of the tables by family, beside one `param: ...` for each size."""

ROOFLINE_SUMMARY: About = {
    "part": Column("what bounds the work, or why nothing runs; the parts add up to GPU time and idle time"),
    "count": Column("GPU events; of idle time, gaps"),
    "time ms": Column("sum of the durations of the GPU events; of idle time, its length", "ms"),
    "percent": Column("share of the sum over all parts", "%"),
    "at roof ms": Column("sum over calls of the least time on the device, but not more than a call took", "ms"),
    "could be won ms": Column("the time less that at the roof", "ms"),
    "meaning": Column("the part in words"),
}

UNMODELLED: About = {
    "op": Column("op that the work is given to, or the runtime call where no op is above the launch"),
    "reason": Column("why no performance model says what the work costs"),
    "GPU events": Column("GPU events without a model"),
    "GPU ms": Column("sum of their durations", "ms"),
    "percent": Column("share of the sum over all GPU events of the window", "%"),
}

TABLES: Mapping[str, About] = {
    "gpu_timeline": GPU_TIMELINE,
    "ops_summary_by_category": OPS_SUMMARY_BY_CATEGORY,
    "ops_summary": OPS_SUMMARY,
    "ops_unique_args": OPS_UNIQUE_ARGS,
    "kernel_summary": KERNEL_SUMMARY,
    "kernel_category_detail": KERNEL_CATEGORY_DETAIL,
    "kernel_category_summary": KERNEL_CATEGORY_SUMMARY,
    "unified_perf_summary": UNIFIED_PERF_SUMMARY,
    "roofline_summary": ROOFLINE_SUMMARY,
    "unmodelled": UNMODELLED,
    "attribution": ATTRIBUTION,
    "overview": OVERVIEW,
    "modules": MODULES,
    "coll_analysis": COLL_ANALYSIS,
    "runtime_summary": RUNTIME_SUMMARY,
    "step_summary": STEP_SUMMARY,
    "short_kernel_histogram": SHORT_KERNEL_HISTOGRAM,
    "short_kernels_summary": SHORT_KERNELS_SUMMARY,
    "idle_causes": IDLE_CAUSES,
    "comparison": COMPARISON,
}
"""Name of a table -> its columns. A table may lack those that were not asked for."""

TABLE_MEANING: Mapping[str, str] = {
    "gpu_timeline": "What the GPUs' time was spent on: computation, exposed communication, exposed copies, nothing.",
    "ops_summary_by_category": "Which kinds of operation the GPU time is charged to: GEMM, elementwise, ...",
    "ops_summary": "Which ops the GPU time is charged to.",
    "ops_unique_args": "Which calls the GPU time is charged to, one row per op, thread and set of arguments, with the "
    "kernels of a call.",
    "unified_perf_summary": "What calls should cost and what they reached, every GPU event in one row.",
    "kernel_summary": "How long the kernels ran, one row per launching op, kernel and stream.",
    "kernel_category_detail": "Which kernels each launching op runs, and of which category they are.",
    "kernel_category_summary": "What the kernels of each launching op do, by category: GEMM, attention, copies, ...",
    "coll_analysis": "Which collectives ran, how large their messages were, and how long they took on this rank.",
    "runtime_summary": "What the runtime and driver calls cost the host, what they launched, and how long that took to "
    "start.",
    "step_summary": "How long each step took, and what the GPU did for it.",
    "short_kernel_histogram": "How many kernels are shorter than a threshold, by length.",
    "short_kernels_summary": "Which kernels are shorter than a threshold, and which ops launch them.",
    "roofline_summary": "Which GPU time is bound by computing, which by memory, what has no model, and how much could "
    "be won.",
    "unmodelled": "Which operations have no performance model, and why.",
    "attribution": "GPU time per name at one level of the graph: modules, ops, launches or kernels.",
    "modules": "GPU time of every nn.Module, forward and backward, in the order of the module tree.",
    "idle_causes": "What the host did in every gap in which the GPU had nothing to do.",
    "overview": "Several traces side by side, one row each: which rank is the slowest.",
    "comparison": "One table of several runs side by side, with the differences of each run from the first.",
}
"""Name of a table -> the question that it answers."""
