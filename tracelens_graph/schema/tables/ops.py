"""Tables of operations: by category, by name, by name and arguments."""

from __future__ import annotations

from dataclasses import replace

from tracelens_graph.schema.tables.shared import (
    CALL_STACK_FIRST,
    FIVE,
    GPU_EVENTS,
    GPU_TIME,
    IS_RECOMPUTE,
    PARENT_MODULE,
    SHARE,
    count,
    instance,
    key,
    listed,
    share,
    statistics,
    text,
    total,
    uid,
)
from tracelens_graph.tables.column import About, Column, Role, TableSchema

IN_CALL = "the busy time of the GPU events charged to a call"
_BELOW = "the busy time of all GPU events below a call"

OPS_SUMMARY_BY_CATEGORY: About = {
    "op category": key("kind of operation: told by its name, else by the name of its first kernel", "category"),
    "parent_module": PARENT_MODULE,
    "is_recompute": IS_RECOMPUTE,
    "call_stack_first": replace(CALL_STACK_FIRST, heading=None),
    "Count": count("calls that launched GPU work", "calls", "count"),
    "total_direct_kernel_time_ms": total(f"sum over calls of {IN_CALL}", "ms", "GPU ms", compared="main", figure="ms"),
    **SHARE,
}

OPS_SUMMARY: About = {
    "name": key("op nearest above the launch; the runtime call where no op is", "op"),
    "parent_module": PARENT_MODULE,
    "is_recompute": IS_RECOMPUTE,
    "call_stack_first": CALL_STACK_FIRST,
    "total_direct_kernel_time_sum": total(f"sum over calls of {IN_CALL}", "us"),
    "total_subtree_kernel_time_sum": total(f"sum over calls of {_BELOW}", "us"),
    "total_direct_kernel_time_ms": total(f"sum over calls of {IN_CALL}", "ms", "GPU ms", compared="main", figure="ms"),
    "total_subtree_kernel_time_ms": total(f"sum over calls of {_BELOW}", "ms", "below ms", compared="diff"),
    "Count": count("calls that launched GPU work", "calls", "count"),
    "Categories": Column(
        "categories of the calls, sorted", role=Role.text, heading="category", compared="carried", cells="list"
    ),
    **SHARE,
}

ARGUMENTS: About = {
    "Input Dims": key("sizes of the inputs, one list per argument", "shapes", cells="list"),
    "Input type": key("types of the inputs", cells="list"),
    "Input Strides": key("strides of the inputs, in elements", cells="list"),
    "Concrete Inputs": key("values of inputs that are no tensors, as text", cells="list"),
    "Instruction": key("of profiles of JAX: what is known of the instruction beside its operands, JSON"),
}
PLACE: About = {
    "process_name": text("name of the process, from the trace's metadata"),
    "process_label": text("label of the process, from the trace's metadata"),
    "thread_name": text("name of the thread, from the trace's metadata"),
}
KERNEL_DETAILS = listed("GPU events of a call by their place in it, durations in us over all calls")
KERNEL_DETAILS_SHORT = listed("the same, short")
ENTRY_POINT = text("Python function that the first call comes from", "called from")

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
_SUBTREE |= {
    "total_subtree_kernel_time_sum": replace(_SUBTREE["total_subtree_kernel_time_sum"], compared="diff"),
}
_OVERLAP = statistics("overlap_pct_{}", "the share of the call's busy time with a kernel beside it, 0 to 1", "", FIVE)
_OVERLAP |= {"overlap_pct_mean": replace(_OVERLAP["overlap_pct_mean"], heading="overlap")}

TENSORS: About = {
    "et_node": Column("id of the first call's node in the execution trace"),
    "input_tensors": listed("ids of the tensors that the first call read, in the execution trace"),
    "input_storages": listed("ids of the storages that these are on"),
    "output_tensors": listed("ids of the tensors that the first call gave out"),
    "output_storages": listed("ids of the storages that these are on"),
}
"""Of graphs that are linked with an execution trace only."""

OPS_UNIQUE_ARGS: About = {
    "name": OPS_SUMMARY["name"],
    "op category": text(OPS_SUMMARY_BY_CATEGORY["op category"].definition, compared="carried"),
    **PLACE,
    **ARGUMENTS,
    "parent_module": PARENT_MODULE,
    "is_recompute": IS_RECOMPUTE,
    "num_kernels": Column("GPU events charged to each of the calls", heading="kernels"),
    "overlapping_kernel_names": Column(
        "kernels of other ops that run at the same time on other streams", heading="beside", cells="list"
    ),
    "operation_count": count("calls", "calls"),
    "first_occurrence_time": Column(
        "start of the first call, from the first call in the table", "us", Role.time, "first us"
    ),
    **_DIRECT,
    **_SUBTREE,
    "ex_UID": replace(instance("uid of the first call"), compared="beside"),
    **TENSORS,
    "kernel_details_summary": KERNEL_DETAILS,
    "trunc_kernel_details": KERNEL_DETAILS_SHORT,
    "overlapping_kernels_details_summary": listed("the overlapping kernels with their durations in us"),
    "trunc_overlapping_kernels_details": listed("the same, short"),
    **_OVERLAP,
    "call_stack": text("names of the modules around the first call, the outermost first", "modules"),
    "entry_point": ENTRY_POINT,
    **SHARE,
}

TOP_OPS: About = {
    "name": OPS_SUMMARY["name"],
    "total_ms": total(f"sum over calls of {IN_CALL}", "ms", "GPU ms"),
    "percent": share("share of the sum over all operations", "%"),
    "count": count("calls that launched GPU work", "calls"),
    "mostly_in": text(
        "innermost nn.Module around most of its time with the one around that, by class, and its share; else the line "
        "of Python of the longest call",
        "mostly in",
    ),
    "uid": replace(uid("the longest call"), heading="uid", drop_priority=0),
}

_OP = key("name of the op")
_DIMS = key("sizes of the inputs, JSON")

OP_SIGNATURES: About = {
    "op": _OP,
    "input_dims": _DIMS,
    "input_types": key("types of the inputs, JSON"),
    "input_strides": key("strides of the inputs, JSON"),
    "concrete_inputs": key("values of the inputs that are no tensors, JSON"),
    "calls": count("number of calls with GPU work"),
    "gpu_events": count("number of their GPU events"),
    "gpu_time_us": total("sum over calls of the time in which their GPU events run", "us", compared="main"),
    "percent": share("share of the GPU time of all rows"),
    "gflops": Column("floating-point operations of a call", "GFLOP"),
    "moved_mb": Column("least traffic of a call to and from memory", "MiB"),
    "flops_per_byte": Column("operations per byte moved", "FLOP/B"),
    "compute_spec": text("units that compute it, and in which precision"),
    "tflops_per_s": Column("mean over calls of the operations per second of GPU time", "TFLOPS", Role.mean),
    "tb_per_s": Column("mean over calls of the bytes moved per second of GPU time", "TB/s", Role.mean),
    "roofline_us": Column("least time of a call at the device's rates", "us"),
    "bound": text("COMPUTE_BOUND or MEMORY_BOUND; LINK_BOUND of a copy between host and device"),
    "percent_of_roof": Column("mean over calls of least time / GPU time", "%", Role.mean),
    "no_model": text("why no performance model applies, where there is one"),
    "uid": uid("the first of the calls"),
}

MODULES_OF_SIGNATURE: About = {
    "op": _OP,
    "input_dims": _DIMS,
    "module": key("innermost nn.Module around the work; absent for none"),
    "inside": key("the nn.Module around that one"),
    "backward": Column("whether it is work of the backward pass", role=Role.flag),
    "gpu_events": GPU_EVENTS,
    "gpu_time_us": GPU_TIME,
    "percent": Column("share of the GPU time of the op with these sizes", "%"),
    "uid": uid("the first call of the module"),
}

PROGRAMS: About = {
    "program": key("name of the program", "program"),
    "gpu_ms": total(
        "sum of the durations of the GPU events that are charged to its instructions", "ms", "GPU ms", compared="main"
    ),
    "percent": Column("share of the sum over all GPU events", "%", Role.share, "% of GPU", drop_priority=2),
    "host_ms": replace(
        total(
            "sum of the durations of its instructions on the host, without those in others: launching, on a CPU "
            "computing",
            "ms",
            "host ms",
        ),
        drop_priority=1,
    ),
    "executions": replace(count("executions, each device's for itself", "runs"), drop_priority=-1),
    "compiled": Column(
        "how often it was compiled: numbers by which the profile names it", heading="compiled", drop_priority=-1
    ),
    "compile_ms": Column(
        "time in which its function was traced, lowered and compiled during the recording; absent where that was "
        "before, or no call tells",
        "ms",
        heading="compile ms",
        drop_priority=0,
    ),
    "versions": Column(
        "programs of this name that ran; several where it was compiled for other shapes or constants",
        heading="versions",
        drop_priority=-1,
    ),
    "instructions": Column(
        "number of its instructions, those in bodies of fusions and loops included",
        heading="instructions",
        drop_priority=2,
    ),
    "devices": Column("devices that it was compiled for", heading="devices", drop_priority=2),
    "shapes": Column(
        "types and dims of its parameters and results, equal ones once with their number",
        role=Role.text,
        heading="shapes",
        drop_priority=0,
    ),
    "fingerprint": Column(
        "hash of its instructions, their shapes and configuration; equal in all profiles",
        role=Role.key,
        heading="fingerprint",
        drop_priority=3,
    ),
    "numbers": listed("by which the profile names it"),
    "xla_flops": Column(
        "operations of an execution but for transcendental ones, as XLA's own analysis counts them: what "
        "`Compiled.cost_analysis()` says, a loop's body once and -1 for each custom call; absent where not known",
        drop_priority=9,
    ),
    "xla_transcendentals": Column("transcendental operations of an execution, by XLA's analysis", drop_priority=9),
    "xla_bytes": Column("traffic of an execution to and from memory, by XLA's analysis", "B", drop_priority=9),
}

INSTRUCTION_COSTS: About = {
    "instruction": key("name of the instruction", "instruction"),
    "program": replace(key("name of its compiled program", "program"), drop_priority=2),
    "kind": replace(
        key("what it is called for: its opcode, of a fusion and a custom call also what it does", "kind"),
        drop_priority=2,
    ),
    "calls": replace(count("how often it ran", "calls"), drop_priority=2),
    "flops": Column("operations of a run but for transcendental ones", heading="FLOPs", drop_priority=-1),
    "transcendentals": Column("transcendental operations of a run", heading="transc.", drop_priority=3),
    "bytes": Column("least traffic of a run to and from memory", "B", heading="bytes", drop_priority=-1),
    "xla_flops": Column(
        "the operations by XLA's rules; -1 for what it does not know", heading="XLA FLOPs", drop_priority=0
    ),
    "xla_transcendentals": Column(
        "the transcendental operations by XLA's rules", heading="XLA transc.", drop_priority=3
    ),
    "xla_bytes": Column(
        "the traffic by XLA's rules; -1 for what it does not know", "B", heading="XLA bytes", drop_priority=-1
    ),
    "departs": replace(text("what our rules depart in, where that makes a difference", "departs in"), drop_priority=-1),
    "uid": uid("the first run"),
}

FORWARD_BACKWARD: About = {
    "name": key("forward op"),
    "forward_calls": count("calls with GPU work charged to them"),
    "forward_us": total("sum of the durations of the GPU events that they are the nearest linked op above", "us"),
    "recomputed_calls": count("calls that run again what checkpointing dropped"),
    "recomputed_us": total("sum of the durations of their GPU events", "us"),
    "backward_calls": count("backward ops of such calls with GPU work charged to them"),
    "backward_us": total("sum of the durations of their GPU events", "us"),
    "ratio": Column("backward_us / forward_us; absent without forward time"),
    "percent": share("the three sums together as share of the sum over all GPU events"),
    "uid": uid("smallest uid of the forward ops"),
}

SCHEMAS = {
    "ops_summary_by_category": TableSchema(
        "Which kinds of operation the GPU time is charged to: GEMM, elementwise, ...",
        OPS_SUMMARY_BY_CATEGORY,
        figure="category",
    ),
    "ops_summary": TableSchema("Which ops the GPU time is charged to.", OPS_SUMMARY, figure="op"),
    "ops_unique_args": TableSchema(
        "Which calls the GPU time is charged to, one row per op, thread and set of arguments, with the kernels of "
        "a call.",
        OPS_UNIQUE_ARGS,
    ),
    "top_ops": TableSchema("Which ops take most GPU time, and where they are called.", TOP_OPS),
    "op_signatures": TableSchema("What each set of arguments of an op costs.", OP_SIGNATURES),
    "modules_of_signature": TableSchema("Which modules an op with certain shapes works for.", MODULES_OF_SIGNATURE),
    "programs": TableSchema(
        "Which compiled programs of JAX ran, how often they were compiled, and what they take.",
        PROGRAMS,
        counts="execution",
    ),
    "instruction_costs": TableSchema(
        "What instructions of XLA should cost, by our rules and by those of XLA's own analysis.", INSTRUCTION_COSTS
    ),
    "forward_backward": TableSchema(
        "What ops take in the forward pass, in recomputation and in their backward pass.", FORWARD_BACKWARD
    ),
}
