"""How the graph stands in a database: labels, keys, properties with types and units, constraints and indexes.

Every node has `name`. An event is `:Event` and its kind; GPU work is `:GpuEvent` too. The nodes with the most GPU time
of their kind are `:Hot` (the first 1 %) and `:Warm` (the next 9 %).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tracelens_graph.schema import CONTEXT_KINDS, DERIVED, GPU_KINDS, STORED, Kind
from tracelens_graph.schema.facts import KERNELS, SETUP, SHOWS, SPENT_ON, stored_on
from tracelens_graph.schema.stored import Stored

DATABASE_VERSION = 9
"""Of what stands in a database beside the graph itself: raised where queries need what earlier pushes did not write."""

Scope = Literal["trace", "run", "diff", ""]
"""Within what a key is unique: one trace, one run, one comparison, or the whole database."""


@dataclass(frozen=True)
class Key:
    """What identifies the nodes of a label: `name`, unique within `scope`."""

    name: str
    scope: Scope


EVENT, GPU_EVENT = "Event", "GpuEvent"
HOT, WARM = "Hot", "Warm"
HEAT = {HOT: 0.01, WARM: 0.09}
"""Extra label -> the share of the nodes of a kind that have it, those with the most GPU time first."""

KEYS: Mapping[str, Key] = {
    EVENT: Key("uid", "trace"),
    "Run": Key("name", ""),
    "Trace": Key("id", ""),
    "Process": Key("key", "trace"),
    "Thread": Key("key", "trace"),
    "Device": Key("key", "trace"),
    "Stream": Key("key", "trace"),
    "ProcessGroup": Key("key", "run"),
    "Collective": Key("key", "run"),
    "Tensor": Key("key", "trace"),
    "Storage": Key("key", "trace"),
    "ModulePath": Key("key", "trace"),
    "OddLayer": Key("key", "trace"),
    "Gap": Key("key", "trace"),
    "CapturedGraph": Key("key", "trace"),
    "StepTime": Key("key", "trace"),
    "Finding": Key("key", ""),
    "ModulePlace": Key("key", ""),
    "CollectiveKind": Key("key", ""),
    "Signature": Key("key", ""),
    "Program": Key("key", ""),
    "KernelName": Key("key", ""),
    "Category": Key("key", ""),
    "SubtreeClass": Key("key", ""),
    "Diff": Key("key", ""),
    "Divergence": Key("place", "diff"),
    "Matching": Key("run", ""),
    "Meeting": Key("number", "run"),
    "CriticalPath": Key("number", "run"),
    "PathSegment": Key("number", "run"),
}
"""Label -> key; a constraint each. Scope trace run or diff is a property of that name beside the key."""

KNOWLEDGE = tuple(kind for kind in CONTEXT_KINDS if KEYS[kind] == Key("key", ""))
"""Labels of nodes that all traces of a database share."""

PULLED_EDGES = ("CALLS", "LAUNCHES", "RAN_AS", "CHARGED_TO", "DEPENDS_ON", "HAS_SIGNATURE", "OF_PROGRAM")
"""Types of the edges from events that a graph is put together from again."""

REPEATED_EDGES = {"ON_THREAD": "thread", "DURING": "annotation"}
"""Types of edges from nearly every event, half of all edges -> the property of the event that says the same; such edges
are pushed with `--all-edges` alone."""

LABEL = "label_"
"""What the properties of a trace begin with that the user gave it: `--label batch=64` is `label_batch`, a number."""

PATHS = "Trace", ("run", "name")
"""A name is unique in its run: a constraint of its own."""

_MEANING = {prop.name: (prop.meaning, prop.unit) for prop in STORED + DERIVED}
_AS_IN_MEMORY = (
    "start_ns", "dur_ns", "gpu_sum_ns", "gpu_busy_ns", "external_id", "correlation", "device", "stream", "bytes",
    "sequence", "forward_thread",
)  # fmt: skip

EVENT_PROPERTIES = (
    Stored("uid", "int", "zero-based position of the event in the file's event list"),
    Stored("name", "str", "name of the event"),
    Stored("short_name", "str", "short form of the name; of a layer or an op the name itself, unless it is very long"),
    Stored("pre", "int", "place in pre-order of the call forest"),
    Stored("last", "int", "`pre` of the last descendant: the subtree of n is `pre >= n.pre AND pre <= n.last`"),
    Stored("depth", "int", "number of ancestors"),
    *(Stored(name, "int", *_MEANING[name]) for name in _AS_IN_MEMORY),
    Stored("end_ns", "int", "end, from the trace's start", "ns"),
    Stored("gpu_events", "int", "GPU events in the subtree, itself included; absent for none"),
    Stored("step", "int", "n of the `ProfilerStep#n` that holds the event"),
    Stored("iteration", "int", "number of the iteration of a server that holds the event"),
    Stored("phase", "str", "of the event at which an iteration begins: what it computes, such as decode"),
    Stored("requests", "int", "of such an event: requests computed together"),
    Stored("context_requests", "int", "of such an event: those that read their prompts"),
    Stored("context_tokens", "int", "of such an event: tokens of prompts"),
    Stored("generation_requests", "int", "of such an event: those that write their answers"),
    Stored("generation_tokens", "int", "of such an event: tokens of answers"),
    Stored("keys", "int", "of such an event: tokens that requests attend to, past and new ones"),
    Stored("captured", "int", "of such an event: batch size of the captured graph that the iteration replays"),
    Stored("padding", "int", "of such an event: places of the captured batch that are empty"),
    Stored("host_ns", "int", "of such an event: duration of the iteration on the host", "ns"),
    Stored("host_gap_ns", "int", "of such an event: time on the host since the iteration before ended", "ns"),
    Stored("device_ns", "int", "of such an event: from the first start of GPU work to that of later iterations", "ns"),
    Stored("idle_ns", "int", "of such an event: part of that in which no GPU event runs", "ns"),
    Stored("recompute", "bool", "true where activations are recomputed for the backward pass; else absent"),
    Stored("thread", "int", "number of (pid, tid) in the trace's list `threads`: `number` of the event's `Thread`"),
    Stored("annotation", "int", "uid of the innermost annotation or step over the event"),
    Stored("owner_rule", "str", "how a GPU event got the op it is charged to"),
    Stored("flags", "strs", "what was odd about the event, by the names of `schema.Flag`"),
    Stored("gpu_class", "str", "of a GPU event: computation, communication or memcpy"),
    Stored("code", "str", "whose a PythonFunction with a line is: user, library, plumbing, compiled or passed_on"),
    Stored("line_pre", "int", "of a GPU event or an allocation: `pre` of the user's line, a PythonFunction"),
    Stored("category", "str", "of an op or call that has GPU work: kind of operation; of a kernel: by its name"),
    Stored("op_category", "str", "of a GPU event that no op's model covers: kind of operation of its launch"),
    Stored("flops", "float", "of a modelled op: floating-point operations, a multiply-add counts as two"),
    Stored("moved_bytes", "float", "of a modelled op: least traffic to and from memory, each tensor once", "B"),
    Stored("link_bytes", "float", "of a copy between host and device: what crosses the link between them", "B"),
    Stored("compute_spec", "str", "of a modelled op: units and precision that compute it, such as matrix_bf16"),
    Stored("no_model", "str", "of an op that has a model which does not apply: why"),
    Stored("class_with_kernels", "str", "hash of the call subtree with shapes and with the names of kernels"),
    Stored("on", "str", "of an allocation or release: whose memory, such as cuda:0 or cpu"),
    Stored("address", "int", "of an allocation or release: address of the block"),
    Stored("allocated", "int", "of an allocation or release: bytes that are in use behind it", "B"),
    Stored("reserved", "int", "of an allocation or release: bytes that the allocator holds behind it", "B"),
    Stored("pass", "str", "of an allocation: forward, backward or optimizer; absent for what was there before"),
    Stored("collective", "str", "recorded arguments of a collective, JSON"),
    Stored("source", "str", "of an instruction of JAX: the line of source that it comes from, `/opt/train.py:44`"),
    Stored("arrows", "str", "of a backward op: uids of the ops that the file's own arrows to it come from, JSON"),
    Stored("args", "str", "recorded arguments that tables are made of, JSON; after `push --with-args` all of them"),
)
"""Properties of events, beside `trace`, the id of their trace. Absent values are no property."""

ARGUMENTS_OF_TABLES: Mapping[Kind, tuple[str, ...]] = {
    Kind.Op: ("pass",),
    Kind.RuntimeCall: ("grid", "block"),
    **dict.fromkeys(
        GPU_KINDS,
        (
            "stream", "grid", "block", "registers per thread", "shared memory", "blocks per SM",
            "est. achieved occupancy %",
        ),
    ),
    Kind.SyncEvent: ("cuda_sync_kind", "wait_on_stream", "wait_on_cuda_event_record_corr_id"),
    Kind.MemoryEvent: ("Device Type", "Device Id", "Addr", "Total Allocated", "Total Reserved", "Before History"),
}  # fmt: skip
"""Kind of event -> the recorded arguments of it that tables are made of: with them a pulled graph answers as its trace
does. Those of ops are of JAX, those of runtime calls of ROCm."""

RATES = (
    "matrix_fp64", "matrix_fp32", "matrix_tf32", "matrix_fp16", "matrix_bf16", "matrix_fp8", "matrix_fp4",
    "matrix_int8", "vector_fp64", "vector_fp32", "vector_fp16", "vector_bf16",
)  # fmt: skip
"""Compute specs for which a device may have a rate: property `<spec>_tflops`."""

_ARGSET = tuple(
    Stored(name, "str", f"{meaning}, JSON as recorded")
    for name, meaning in (
        ("input_dims", "dims of the inputs"),
        ("input_types", "types of the inputs"),
        ("input_strides", "strides of the inputs"),
        ("concrete_inputs", "values of the inputs that are not tensors"),
    )
)
_INSTRUCTION = (
    Stored("instruction", "str", "of instructions of XLA, what is known of them beside their operands, JSON"),
    Stored("hlo_kind", "str", "what the instruction is called for: its opcode, and what a fusion or custom call does"),
    Stored("hlo_flops", "int", "operations of a run without transcendental ones"),
    Stored("hlo_transcendentals", "int", "transcendental operations of a run"),
    Stored("hlo_bytes", "int", "least traffic of a run to and from memory", "B"),
    Stored("hlo_xla_flops", "int", "the operations by XLA's rules, where they are others; -1 for unknown"),
    Stored("hlo_xla_transcendentals", "int", "the transcendental operations by XLA's rules, where they are others"),
    Stored("hlo_xla_bytes", "int", "the traffic by XLA's rules, where it is another; -1 for unknown", "B"),
    Stored("hlo_departs", "str", "what our rules depart in, where that makes a difference"),
)

CONTEXT_PROPERTIES: Mapping[str, tuple[Stored, ...]] = {
    "Run": (Stored("name", "str", "name of the run"),),
    "Trace": (
        Stored("id", "str", "hash of the file's decompressed bytes"),
        Stored("name", "str", "name of the trace, unique in its run"),
        Stored("run", "str", "name of its run"),
        Stored("path", "str", "`run/name`"),
        Stored("state", "str", "loading, complete or dropping; only complete traces answer queries"),
        Stored("begun_ns", "int", "when it was first pushed, since 1970", "ns"),
        Stored("pushed_ns", "int", "when it was first completed, since 1970; what replaces it keeps this", "ns"),
        Stored("source", "str", "name of the file"),
        Stored("rank", "int", "rank in its job"),
        Stored("start_epoch_ns", "int", "absolute time of `start_ns = 0`, since 1970", "ns"),
        Stored("lead_ns", "int", "how much earlier the zero of Perfetto UI is than `start_ns = 0`", "ns"),
        Stored("dur_ns", "int", "from the trace's first event to the end of its last", "ns"),
        Stored("events", "int", "entries of the file's event list"),
        Stored("nodes", "int", "event nodes that were pushed"),
        Stored("edges", "int", "edges that were pushed"),
        Stored("pulled_edges", "str", "how many of them are of each type that `db pull` reads, JSON"),
        Stored("damage", "str", "what was repaired in the file and what was lost; absent for a sound file"),
        Stored("lost_arrows", "int", "arrows from forward to backward ops that end on no op; absent for none"),
        Stored("lean", "bool", "true where some events were left out"),
        Stored("options", "str", "what was pushed, JSON"),
        Stored("schema_version", "int", "version of the graph model"),
        Stored("database_version", "int", "version of what stands in the database beside the graph"),
        Stored("tool_version", "str", "version of tracelens_graph that pushed it"),
        Stored("architecture", "str", "short name of the device, where the trace shows it"),
        Stored("info", "str", "facts about the file, JSON"),
        Stored("threads", "str", "[pid, tid] of every thread number, JSON"),
        *SETUP,
        *stored_on("Trace"),
    ),
    "Process": (
        Stored("name", "str", "name of the process, else its number"),
        Stored("pid", "str", "number of the process, as text"),
        Stored("labels", "str", "labels that the profiler gave it"),
    ),
    "Thread": (
        Stored("name", "str", "name of the thread, else its number"),
        Stored("number", "int", "of its events, `thread`"),
        Stored("pid", "str", "number of the process, as text"),
        Stored("tid", "str", "number of the thread, as text"),
    ),
    "Device": (
        Stored("name", "str", "name of the device, else its index"),
        Stored("device", "int", "index of the device"),
        Stored("architecture", "str", "its short name among the known ones"),
        Stored("memory_bandwidth_gbps", "float", "rate of its memory", "GB/s"),
        Stored("host_link_gbps", "float", "rate of the link to the host, in one direction", "GB/s"),
        *(Stored(f"{rate}_tflops", "float", f"rate that holds for {rate}, dense", "TFLOP/s") for rate in RATES),
        Stored("properties", "str", "recorded properties, JSON"),
        *stored_on("Device"),
    ),
    "StepTime": stored_on("StepTime"),
    "Finding": (
        Stored("name", "str", "what it is called in every version: `data-loader`, `kernels@compute.gemm`"),
        Stored("topic", "str", "what it is about"),
    ),
    "ModulePlace": (
        Stored("name", "str", "name of the module, with the number of the instance; or what work of no module is"),
        Stored("path", "str", "names of the modules from the top, joined by /; only its end where it is very long"),
    ),
    "CollectiveKind": (
        Stored("name", "str", "kind of collective; empty where it is not known"),
        Stored("group", "str", "name of the process group, else its key"),
        Stored("description", "str", "what the program calls the group"),
        Stored("group_size", "int", "number of ranks in it"),
    ),
    "Stream": (
        Stored("name", "str", "`stream n`"),
        Stored("device", "int", "index of the device"),
        Stored("stream", "int", "number of the stream"),
    ),
    "ProcessGroup": (
        Stored("name", "str", "name of the group"),
        Stored("description", "str", "what the program calls it"),
        Stored("size", "int", "number of ranks"),
        Stored("ranks", "str", "ranks, JSON"),
    ),
    "Collective": (
        Stored("name", "str", "kind of collective"),
        Stored("sequence", "int", "sequence number, or place in the group's order"),
        Stored("dtype", "str", "type of the elements"),
        Stored("in_bytes", "int", "input of one rank", "B"),
        Stored("out_bytes", "int", "output of one rank", "B"),
        Stored("source_rank", "int", "of a transfer: who sends"),
        Stored("target_rank", "int", "of a transfer: who receives"),
    ),
    "Tensor": (
        Stored("name", "str", "such as `t123: float32[64,8]`; `t123#2: ...` for the second tensor with its id"),
        Stored("tensor_id", "int", "id in the execution trace"),
        Stored("version", "int", "which of the tensors with this id it is, from 1 on"),
        Stored("dtype", "str", "type of the elements"),
        Stored("shape", "str", "sizes, JSON"),
        Stored("strides", "str", "strides in elements, JSON; absent where they are not recorded"),
        Stored("offset", "int", "place of its first element in the storage, in elements"),
        Stored("elements", "int", "number of elements"),
        Stored("bytes", "int", "size of its elements", "B"),
        Stored("on", "str", "device, such as `cuda:0`"),
        Stored("start_ns", "int", "start of the op that made it, else of its first use, from the trace's start", "ns"),
        Stored("end_ns", "int", "end of the last op that uses it", "ns"),
    ),
    "Storage": (
        Stored("name", "str", "such as `s124`; `s124#2` for the second storage with its id"),
        Stored("storage_id", "int", "id in the execution trace"),
        Stored("version", "int", "which of the storages with this id it is, from 1 on"),
        Stored("bytes", "int", "how far its tensors reach, the least that it can have", "B"),
        Stored("on", "str", "device, such as `cuda:0`"),
        Stored("made_by", "int", "uid of the op that allocated it; absent for one made out of sight"),
        Stored("start_ns", "int", "start of that op, 0 without one, from the trace's start", "ns"),
        Stored("end_ns", "int", "end of the last op that uses one of its tensors", "ns"),
    ),
    "ModulePath": (
        Stored("name", "str", "name of the module, with the number of the instance; or what work of no module is"),
        Stored("path", "str", "names of the modules from the top, joined by /; only its end where it is very long"),
        Stored("class", "str", "the name without the number of the instance"),
        Stored("depth", "int", "1 for modules in no other"),
        Stored("number", "int", "place in the module tree, from 0 on, by first calls"),
        Stored("is_module", "bool", "false for what work of no module is"),
    ),
    "OddLayer": (
        Stored("name", "str", "name of the layer"),
        Stored("inside", "str", "name of the module around the layers; absent where there is none"),
        Stored("number", "int", "place among the odd layers, by first call"),
        Stored("kernels", "bool", "whether names of kernels count for what is odd"),
        Stored("oddity", "str", "layers that are odd in the same way have the same one"),
        Stored("times", "int", "number of layers beside it that are odd in this way, itself included"),
        Stored("layers", "int", "number of layers around it, itself included"),
        Stored("alike", "int", "how many of them are as most are"),
        Stored("differs", "str", "what departs first: call, arguments or kernel"),
        Stored("way", "str", "names of the calls from the layer to where it departs"),
        Stored("usual_gpu_ns", "float", "mean GPU time of those that are as most are", "ns"),
    ),
    "Gap": (
        Stored("name", "str", "its length"),
        Stored("number", "int", "place among the gaps of all devices, the longest first, from 1"),
        Stored("number_on_device", "int", "place among those of its device"),
        Stored("device", "int", "index of the device"),
        Stored("start_ns", "int", "start, from the trace's start", "ns"),
        Stored("end_ns", "int", "end, from the trace's start", "ns"),
        Stored("dur_ns", "int", "length", "ns"),
        Stored("cause", "str", "what most of it is due to, as in the table `idle_causes`"),
        Stored("call_ns", "int", "part of it that the runtime call of CAUSED_BY lasted", "ns"),
        Stored("op_ns", "int", "part of it that the op of CAUSED_BY lasted", "ns"),
        Stored("frame_ns", "int", "part of it that the module or Python function of CAUSED_BY lasted", "ns"),
        Stored("because", "str", "call or frame to which most of it is due; of the hundred longest of each device"),
        Stored("because_ns", "int", "time of it, and of other calls of its function, in the gap", "ns"),
        Stored("line", "str", "the user's line that it comes from"),
    ),
    "CapturedGraph": (
        Stored("name", "str", "file of the capture, and which of the graphs in it"),
        Stored("file", "str", "name of the file of the capture"),
        Stored("graph", "int", "which of the graphs in it"),
        Stored("batch_size", "int", "batch that it was captured for"),
        Stored("mode", "str", "FULL for a whole forward pass, PIECEWISE for a piece of one"),
        Stored("rule", "str", "how replayed kernels were joined with captured calls"),
        Stored("calls", "int", "number of captured calls that launch, copy or fill"),
        Stored("gpu_events", "int", "GPU events of all its replays"),
        Stored("joined", "int", "those that got the op of a captured call"),
        Stored("least_batch", "int", "least batch of the steps that replay it"),
        Stored("greatest_batch", "int", "greatest batch of these"),
        Stored("doubtful", "int", "joined ones that would fit another call, too"),
        Stored("implausible", "int", "kernels that cannot be their op's work: joined by name, or left out"),
        Stored("lost", "int", "captured calls that replays lack"),
        Stored("extra", "int", "GPU events of replays without a captured call"),
        Stored("what", "str", "what is odd, lost or extra, by name"),
    ),
    "Signature": (
        Stored("name", "str", "name of the op"),
        *_ARGSET,
        *_INSTRUCTION,
        Stored("flops", "float", "floating-point operations of a call, where the arguments alone are enough"),
        Stored("moved_bytes", "float", "least traffic of a call, where the arguments alone are enough", "B"),
        Stored("compute_spec", "str", "units and precision that compute it"),
        *(Stored(axis, "int", f"of a matrix product: its size {axis}") for axis in "MNK"),
        Stored("batch", "int", "of a matrix product: number of products that are computed at once"),
        Stored("no_model", "str", "why no model applies"),
    ),
    "Program": (
        Stored("name", "str", "name of the program, such as `jit_step`"),
        Stored("fingerprint", "str", "hash of its instructions, their shapes and configuration"),
        Stored("instructions", "int", "number of its instructions, those in bodies of fusions and loops included"),
        Stored("replicas", "int", "how often it runs side by side"),
        Stored("partitions", "int", "devices that each of these is divided among"),
        Stored("shapes", "str", "types and dims of its parameters and of its results"),
        Stored("xla_flops", "int", "operations of an execution without transcendental ones, by XLA's own analysis"),
        Stored("xla_transcendentals", "int", "transcendental operations of an execution, by XLA's own analysis"),
        Stored("xla_bytes", "int", "traffic of an execution to and from memory, by XLA's own analysis", "B"),
    ),
    "KernelName": (
        Stored("name", "str", "the whole name"),
        Stored("short_name", "str", "a readable form of it"),
        Stored("category", "str", "kind of kernel, by its name"),
        Stored("family", "str", "whose naming it is"),
        Stored("operation", "str", "what is computed, as the name says"),
        Stored("dtype", "str", "type of the first operand's elements"),
        Stored("dtype_b", "str", "of the second, where it is another"),
        Stored("out_dtype", "str", "of the result"),
        Stored("compute_dtype", "str", "of the accumulator"),
        *(Stored(f"tile_{axis}", "int", f"size of a thread block's tile along {axis.upper()}") for axis in "mnk"),
        Stored("stages", "int", "buffers of the pipeline over K"),
        Stored("transposes", "str", "for A and B, T where it is transposed and N where not"),
        Stored("layout", "str", "order of the dimensions"),
        *(Stored(f"instruction_{axis}", "int", f"{axis.upper()} of the matrix instruction") for axis in "mnk"),
        *(Stored(f"cluster_{axis}", "int", f"thread blocks of a cluster along {axis.upper()}") for axis in "mn"),
        Stored("split_k", "int", "thread blocks that share a sum over K; 1 for an unknown number, 0 for none"),
        Stored("arch", "str", "architecture that it was compiled for"),
        Stored("epilogue", "str", "what is fused behind the product"),
        Stored("head_dim", "int", "size of an attention head"),
        Stored("causal", "bool", "whether attention is masked causally"),
        Stored("fused", "str", "names of the operations that a compiler fused"),
        Stored("functor", "str", "function that a generic kernel applies"),
    ),
    "Category": (
        Stored("name", "str", "the category"),
        Stored("of", "str", "op or kernel: what it sorts"),
    ),
    "SubtreeClass": (
        Stored("name", "str", "normalised name of the root"),
        Stored("root", "str", "kind of the root"),
        Stored("without_shapes", "str", "hash of the call subtree without shapes"),
    ),
}
"""Label -> properties, beside the scope (`trace` or `run`) and, where it is none of them, the key."""

EDGE_PROPERTIES: Mapping[str, tuple[Stored, ...]] = {
    "SPENT": (*stored_on(*SPENT_ON), KERNELS),
    "SHOWS": SHOWS,
    "IN_MODULE": (
        Stored("pass", "str", "forward; backward for what a backward op launches, whose forward op the module called; "
               "optimizer for the step of an optimizer outside of modules"),
    ),
    "OF_PROGRAM": (
        Stored("runs", "str", "how often each execution of the program runs the instruction: once; any, in the body of "
               "a loop or in a branch"),
    ),
    "RAN": (
        Stored("numbers", "strs", "by which the profile names it; several where it was compiled several times"),
        Stored("compiler_fingerprint", "str", "what XLA noted as its fingerprint; absent for nothing"),
    ),
}  # fmt: skip
"""Type of edge -> its properties. Further types of edges have none."""

INDEXES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (EVENT, ("trace", "pre")),
    (EVENT, ("trace", "phase")),  # on the events at which iterations begin
    (GPU_EVENT, ("trace", "pre")),
    *((label, ("trace",)) for label in (GPU_EVENT, *Kind.__members__)),
    ("Thread", ("trace", "number")),
    *((label, ("trace",)) for label in ("ModulePath", "OddLayer", "Gap", "CapturedGraph")),
    *((label, ("run",)) for label in ("Meeting", "CriticalPath")),
    *((kind.name, ("trace", "short_name")) for kind in (Kind.Module, Kind.Op, Kind.Kernel)),
)
"""Label and properties of each range index. Names are in none: a name may be longer than an index can hold."""


def event_labels(kind: Kind) -> tuple[str, ...]:
    """Labels of the events of a kind, without those of heat."""
    return (EVENT, kind.name, GPU_EVENT) if kind in GPU_KINDS else (EVENT, kind.name)
