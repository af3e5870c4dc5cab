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

_IN_CALL = "the GPU events charged to a call, busy time per call"
_BELOW = "all GPU events below a call, busy time per call"
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
    **_KEYS,
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
    "Kernel name": Column("name of the kernel"),
    "Kernel stream": Column("stream on the device"),
    **statistics("Kernel duration (µs)_{}", "the durations", "us", ("sum", "count", "mean", "min", "max")),
    "Percent of kernels time (%)": Column("share of the sum over all kernels", "%"),
    "Percent of total time (%)": Column("sum as share of the time from the first to the last GPU event", "%"),
    "ex_UID": Column("uid of the first kernel"),
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

TABLES: Mapping[str, About] = {
    "gpu_timeline": GPU_TIMELINE,
    "ops_summary_by_category": OPS_SUMMARY_BY_CATEGORY,
    "ops_summary": OPS_SUMMARY,
    "ops_unique_args": OPS_UNIQUE_ARGS,
    "kernel_summary": KERNEL_SUMMARY,
    "overview": OVERVIEW,
    "modules": MODULES,
}
"""Name of a table -> its columns. A table may lack those that were not asked for."""
