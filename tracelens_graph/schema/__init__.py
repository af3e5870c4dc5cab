"""The graph model: kinds of nodes, types of edges, and their properties with units.

This is the single source of truth. The columns of the graph in memory, the attributes that networkx shows,
the exports and the reference pages are all made from the tables below. Nothing here imports anything of the
package, so every layer may read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

__all__ = [
    "CONTEXT_EDGES",
    "CONTEXT_KINDS",
    "DERIVED",
    "DEVICE_KINDS",
    "DIFF_EDGES",
    "DIFF_KINDS",
    "EVENT_EDGES",
    "FLAG_MEANING",
    "FOREST_KINDS",
    "GPU_KINDS",
    "HOST_KINDS",
    "KIND_MEANING",
    "LAYER_KINDS",
    "NESTING_RANK",
    "OWNER_RULE_MEANING",
    "PYTHON_KINDS",
    "RANK_EDGES",
    "RANK_KINDS",
    "REPAIRS_OF_FILE",
    "REPAIR_MEANING",
    "SCHEMA_VERSION",
    "STORED",
    "EdgeType",
    "Flag",
    "Kind",
    "OwnerRule",
    "Property",
]

SCHEMA_VERSION = 3


class Kind(IntEnum):
    """The kind of an event node. Saved graphs hold these numbers; the sets below group kinds."""

    Module = 0
    PythonFunction = 1
    Op = 2
    RuntimeCall = 3
    Kernel = 4
    Memcpy = 5
    Memset = 6
    Annotation = 7
    Step = 8
    DeviceAnnotation = 9
    SyncEvent = 10
    Overhead = 11
    MemoryEvent = 12


NESTING_RANK = {Kind.Module: 0, Kind.PythonFunction: 0, Kind.Op: 1, Kind.RuntimeCall: 2}
"""Host kinds, and which is the outer one of two events with the same start and end: that of the lower rank."""

HOST_KINDS = tuple(NESTING_RANK)
"""Kinds that nest in the call forest."""

PYTHON_KINDS = (Kind.Module, Kind.PythonFunction)
GPU_KINDS = (Kind.Kernel, Kind.Memcpy, Kind.Memset)
"""GPU work, and nothing else is: decided by the event's category, never by a `stream` argument."""

FOREST_KINDS = (*HOST_KINDS, *GPU_KINDS)
"""Kinds that have a place in the call forest."""

LAYER_KINDS = tuple(kind for kind in Kind if kind not in FOREST_KINDS)
"""Kinds that stand beside the call forest: they cover or accompany events, and are nobody's parent."""

DEVICE_KINDS = (*GPU_KINDS, Kind.DeviceAnnotation, Kind.SyncEvent)
"""Kinds that are recorded on a device, so that their process and thread stand for a device and a stream."""

KIND_MEANING = {
    Kind.Module: "an nn.Module frame of the Python stack (`nn.Module: Linear_3`)",
    Kind.PythonFunction: "any other frame of the Python stack",
    Kind.Op: "an operation of the framework's dispatcher (`aten::linear`)",
    Kind.RuntimeCall: "a call of the device runtime or driver (`cudaLaunchKernel`)",
    Kind.Kernel: "a kernel on a device",
    Kind.Memcpy: "a copy on a device",
    Kind.Memset: "a fill on a device",
    Kind.Annotation: "a range that the program marked (record_function)",
    Kind.Step: "a range `ProfilerStep#n`",
    Kind.DeviceAnnotation: "the device side of an annotation; never GPU time",
    Kind.SyncEvent: "a synchronisation or event record on a device; never GPU time",
    Kind.Overhead: "work of the profiler itself",
    Kind.MemoryEvent: "an allocation or release (`[memory]`)",
}


class OwnerRule(IntEnum):
    """How a GPU event got the op it is charged to."""

    none = 0
    nearest_op = 1
    no_op = 2
    unlinked = 3
    hlo = 4
    graph_capture = 5
    pseudo_op = 6
    inferred = 7


OWNER_RULE_MEANING = {
    OwnerRule.none: "not a GPU event",
    OwnerRule.nearest_op: "charged to the nearest op above its launch",
    OwnerRule.no_op: "launched outside of any op: charged to nobody",
    OwnerRule.unlinked: "its launch is not in the trace: charged to nobody",
    OwnerRule.hlo: "launched in a graph: charged to the instruction that it names itself",
    OwnerRule.graph_capture: "replayed from a graph: charged to the op that the capture recorded",
    OwnerRule.pseudo_op: "a part of a fused op: charged to an op made for that part",
    OwnerRule.inferred: "replayed from a graph: charged to what it was identified as, which is inferred",
}


class Flag(IntEnum):
    """Bits of the column `flags`: what was odd about an event."""

    outlives_parent = 1
    no_duration = 2
    negative_duration = 4
    linked_by_flow = 8
    starts_before_launch = 16
    captured = 32
    inferred = 64


FLAG_MEANING = {
    Flag.outlives_parent: "ends after the event it started in",
    Flag.no_duration: "no duration was recorded (an unfinished call); counted as zero",
    Flag.negative_duration: "the recorded duration is negative; counted as zero",
    Flag.linked_by_flow: "linked to its launch by a flow arrow, as there is no correlation id",
    Flag.starts_before_launch: "starts on the device before its launch call began (clock skew)",
    Flag.captured: "a call of a captured graph that was replayed here: it took no host time",
    Flag.inferred: "a call that no trace recorded: what replayed kernels were identified as",
}


FIRST_MADE_UID = 2**39
"""Nodes that are no events of the trace's file are numbered from here on."""

REPAIR_MEANING = {
    "bad_utf8": "invalid UTF-8 replaced",
    "non_finite": "bare inf/nan set to null",
    "bad_value": "unreadable values set to null",
    "missing_value": "missing values set to null",
    "backslash": "lone backslashes doubled",
    "quote": "unescaped quotes in strings escaped",
    "control": "control characters in strings escaped",
    "trailing_comma": "trailing or doubled commas mended",
    "missing_comma": "missing commas mended",
    "damage": "text between events skipped",
    "metadata": "unreadable keys of the trace's metadata dropped",
    "negative_duration": "negative durations counted as zero",
    "truncated": "the end of the file is missing",
    "id_twice": "nodes of an execution trace with the id of an earlier one left out",
    "odd_id": "ids of nodes that are no 64-bit numbers kept as names",
    "no_parent": "nodes of an execution trace whose parent is missing, or comes after them, taken as outermost",
    "bad_arguments": "inputs or outputs of nodes of an execution trace that are not lists left out",
    "second_trace": "the file holds more than one trace, one behind the other; only the first is read",
    "second_list": "the file holds its list of events more than once; the last one is read, as JSON readers do",
    "checksum": "the compressed file is damaged: its checksum is wrong; names and numbers in it may be wrong",
    "behind_packed": "what follows the compressed data in the file is passed over",
}
"""What was done to broken input: kind of repair -> words for the user."""

REPAIRS_OF_FILE = frozenset(("truncated", "second_trace", "second_list", "checksum", "behind_packed"))
"""Those of a file as a whole, which are not counted."""


@dataclass(frozen=True)
class Property:
    """A property of event nodes: one column of the graph in memory.

    `dtype` is numpy's name of the column's type; `absent` the value that stands for "not recorded", which
    attributes and exports leave out. `code_of` names the table that an integer code points into.
    """

    name: str
    dtype: str
    meaning: str
    unit: str = ""
    absent: int | None = None
    code_of: str = ""


STORED = (
    Property("uid", "int64", "zero-based position of the event in the file's event list"),
    Property("kind", "uint8", "kind of the node", code_of="kind"),
    Property("name", "int32", "name of the event", code_of="names"),
    Property("thread", "int32", "(pid, tid) as the file gives them", code_of="threads"),
    Property("start_ns", "int64", "start, from the trace's start", "ns"),
    Property("dur_ns", "int64", "duration", "ns"),
    Property("external_id", "int64", "External id, joins an op with its runtime calls and kernels", absent=-1),
    Property("correlation", "int64", "correlation id, joins a runtime call with the GPU work it launched", absent=-1),
    Property("device", "int32", "index of the device", absent=-1),
    Property("stream", "int64", "stream (queue) on the device", absent=-1),
    Property("bytes", "int64", "bytes copied, filled, allocated (+) or released (-)", "B", absent=-(2**63)),
    Property("argset", "int32", "argument set: dims, types, strides, concrete inputs", absent=-1, code_of="argsets"),
    Property("sequence", "int64", "autograd sequence number", absent=-1),
    Property("forward_thread", "int64", "small number of the forward thread, on backward ops", absent=-1),
    Property("parent", "int32", "row of the caller; of a GPU event, of its launch", absent=-1),
    Property("last", "int32", "row of the last descendant"),
    Property("depth", "int32", "number of ancestors"),
    Property("owner", "int32", "row of the op a GPU event is charged to", absent=-1),
    Property("owner_rule", "uint8", "how the owner was found", absent=0, code_of="owner_rule"),
    Property("flags", "uint8", "what was odd about the event", absent=0),
)
"""Columns of the graph in memory, in the order in which they are stored."""

DERIVED = (
    Property("step", "int32", "row of the step that holds the event", absent=-1),
    Property("annotation", "int32", "row of the innermost annotation that holds the event", absent=-1),
    Property("recompute", "bool", "whether the event belongs to a recomputation of activations", absent=0),
    Property("gpu_sum_ns", "int64", "sum of the durations of the GPU events in the subtree; adds up", "ns"),
    Property("gpu_busy_ns", "int64", "length of the union of the GPU events in the subtree; does not add up", "ns"),
)
"""Columns computed on first use."""


@dataclass(frozen=True)
class EdgeType:
    """A type of edge: what it joins and what it means."""

    name: str
    source: str
    target: str
    meaning: str


_HOST, _GPU = ("|".join(kind.name for kind in kinds) for kinds in (HOST_KINDS, GPU_KINDS))

EVENT_EDGES = (
    EdgeType("CALLS", _HOST, _HOST, "host nesting"),
    EdgeType("LAUNCHES", "RuntimeCall", _GPU, "runtime call to the GPU event it launched"),
    EdgeType("RAN_AS", "Module|PythonFunction|Op", _GPU, "captured call to the GPU event that it ran as in a replay"),
    EdgeType("CHARGED_TO", _GPU, "Op", "GPU event to the op it is charged to"),
    EdgeType("HAS_BACKWARD", "Op", "Op", "forward op to its backward op"),
    EdgeType("NEXT_ON_STREAM", _GPU, _GPU, "next GPU event of the same stream"),
    EdgeType("SYNCS", "RuntimeCall", "SyncEvent", "runtime call to the synchronisation it asked for"),
    EdgeType("DEPENDS_ON", _GPU, _GPU, "GPU event to one it waits for, as recorded"),
    EdgeType("DURING", "event", "Annotation|Step", "event to the innermost annotation over it"),
)
"""Edges between event nodes."""

CONTEXT_EDGES = (
    EdgeType("MEMBER_OF", "Kernel|Annotation", "Collective",
             "kernel, or span on the host, to the collective it is this rank's part of"),
    EdgeType("HAS_SIGNATURE", "Op", "Signature", "op to its name and argument set"),
    EdgeType("OF_PROGRAM", "Op", "Program", "op to the compiled program whose instruction it is; only of JAX"),
    EdgeType("REPLAY_OF", "RuntimeCall", "CapturedGraph", "launch of a graph to the graph as it was captured"),
    EdgeType("RAN", "Trace", "Program", "trace to a compiled program that ran; only of JAX"),
    EdgeType("NAMED", _GPU, "KernelName", "GPU event to its name"),
    EdgeType("INSTANCE_OF", "event", "SubtreeClass", "root of a call subtree with GPU work to its class"),
    EdgeType("CONSUMES", "Op|Annotation", "Tensor", "op to a tensor among its arguments whose content it reads"),
    EdgeType("PRODUCES", "Op|Annotation", "Tensor", "op to a tensor that it made; ops around it only pass it on"),
    EdgeType("WRITES", "Op|Annotation", "Tensor", "op to a tensor among its arguments that it writes"),
    EdgeType("VIEW_OF", "Tensor", "Tensor", "tensor to the one that it was made a view of"),
    EdgeType("STORED_IN", "Tensor", "Storage", "tensor to the memory that it lies in; of a resized one to each"),
    EdgeType("IN_MODULE", f"Op|{_GPU}|MemoryEvent", "Module|Annotation|Op",
             "op, GPU event or allocation to the module call whose work it is, or to the step of an optimizer"),
    EdgeType("ALLOCATED_IN", "MemoryEvent", _HOST, "allocation to the innermost call around it"),
    EdgeType("RELEASES", "MemoryEvent", "MemoryEvent",
             "release to its allocation; without a recorded release, the next allocation at the address to it"),
    EdgeType("PART_OF", f"Module|Annotation|Op|{_GPU}|ModulePath", "ModulePath",
             "module call to its place in the module tree, that to the one above it; work of no module to what it is"),
    EdgeType("NEXT_LAYER", "Module", "Module", "layer to the next one of its class in the same call of a module"),
    EdgeType("OF_LAYER", "OddLayer", "Module", "what is known of an odd layer to the layer"),
    EdgeType("UNLIKE", "OddLayer", "Module", "odd layer to the first of those that are as most are"),
    EdgeType("DEPARTS_AT", "OddLayer", f"{_HOST}|{_GPU}", "odd layer to the first call or kernel in it that differs"),
    EdgeType("INSTEAD_OF", "OddLayer", f"{_HOST}|{_GPU}", "odd layer to what the others have in that place"),
    EdgeType("BEFORE", _GPU, "Gap", "GPU event at whose end a device had nothing to do to that idle time"),
    EdgeType("AFTER", _GPU, "Gap", "GPU event that ended it to the idle time"),
    EdgeType("CAUSED_BY", "Gap", "RuntimeCall|Op|Module|PythonFunction",
             "idle time to the call, the op and the frame that the launching thread was in for most of it; none where "
             "the work had been queued before, or its launch is not in the trace"),
    EdgeType("IN_CATEGORY", "Op|KernelName", "Category", "op that launches GPU work, or name of a kernel, to its kind"),
    EdgeType("MODELLED_BY", _GPU, "Op", "GPU event to the one op whose model covers it"),
    EdgeType("ON_THREAD", "event", "Thread", "host event to its thread"),
    EdgeType("ON_STREAM", "event", "Stream", "device event to its stream"),
    EdgeType("IN_PROCESS", "Thread", "Process", "thread to its process"),
    EdgeType("OF_DEVICE", "Stream", "Device", "stream to its device"),
    EdgeType("IN_TRACE", "Process|Device", "Trace", "process or device to the trace it is in"),
    EdgeType("OF_RUN", "Trace", "Run", "trace to its run"),
    EdgeType("IN_GROUP", "Collective", "ProcessGroup", "collective to its process group"),
    EdgeType("TOOK", "Trace", "StepTime", "trace to what each of its steps took"),
    EdgeType("SPENT", "Trace", "Signature|KernelName|Category|ModulePlace|CollectiveKind",
             "trace to what it spent GPU time on"),
    EdgeType("SHOWS", "Trace", "Finding", "trace to what its verdict says"),
)  # fmt: skip
"""Edges from event nodes to context and knowledge nodes, and among those."""

CONTEXT_KINDS = {
    "Run": "the run that the trace belongs to",
    "Trace": "one trace file",
    "Process": "a process of the host",
    "Thread": "a thread of the host",
    "Device": "a device",
    "Stream": "a stream (queue) of a device",
    "ProcessGroup": "the ranks that communicate together",
    "Collective": "one collective operation over the ranks of its group",
    "Tensor": "a tensor; only of a trace that is linked with its execution trace",
    "Storage": "memory of tensors; only of a trace that is linked with its execution trace",
    "ModulePath": "a place in the tree of modules, at which calls of one module stand; or what work of no module is",
    "OddLayer": "a layer that is not as most of those beside it, and where it departs from them",
    "CapturedGraph": "a captured graph, and what became of its replays; of a trace that is joined with captures",
    "Gap": "a stretch of time in which a device did nothing",
    "StepTime": "what a step took: a fact, which stays when events are forgotten",
    "Finding": "what a verdict may say, shared by all traces",
    "ModulePlace": "a place in the tree of modules by its path, shared by all traces",
    "CollectiveKind": "a kind of collective in a process group, shared by all traces",
    "Signature": "op name and argument set with what a call should cost, shared by all traces",
    "Program": "compiled program (HLO module), shared by all traces that ran it; only of JAX",
    "KernelName": "name of GPU work and what it says, shared by all traces",
    "Category": "kind of operation or of kernel, shared by all traces",
    "SubtreeClass": "call subtrees that are equal in structure, shared by all traces",
}

DIFF_EDGES = (
    EdgeType("MATCHES", "event", "event", "event of the first trace to the one of the second that it belongs to"),
    EdgeType("COMPARES", "Diff", "Trace", "comparison to its traces"),
    EdgeType("OF_DIFF", "Divergence", "Diff", "place where two traces differ to their comparison"),
    EdgeType("IN_A", "Divergence", _GPU, "place to a GPU event of the first trace there"),
    EdgeType("IN_B", "Divergence", _GPU, "place to a GPU event of the second trace there"),
    EdgeType("ONLY_IN_A", "Diff", "event", "comparison to an event of the first trace without a partner in the second"),
    EdgeType("ONLY_IN_B", "Diff", "event", "comparison to an event of the second trace without a partner in the first"),
)
"""Edges of comparisons in a database."""

DIFF_KINDS = {
    "Diff": "a comparison of two traces by structure",
    "Divergence": "a place where two traces do the same with other GPU work, such as one op of all equal layers",
}
"""Nodes of comparisons in a database."""

RANK_EDGES = (
    EdgeType("MEMBER_OF", "Kernel|Annotation", "Meeting", "first kernel of a rank's part to the collective"),
    EdgeType("SENDS", "Kernel", "Kernel", "first kernel of the rank that sends to that of the one that receives"),
    EdgeType("OF_MATCHING", "Meeting|CriticalPath", "Matching", "collective, or path, to the matching it is of"),
    EdgeType("OF_RANK", "Matching", "Trace", "matching to the ranks that were matched"),
    EdgeType("OF_PATH", "PathSegment", "CriticalPath", "segment to its critical path"),
    EdgeType("NEXT_ON_PATH", "PathSegment", "PathSegment", "segment to the one that follows it"),
    EdgeType("ON_PATH", "event", "PathSegment", "GPU work, or the call on the host, to a segment that it accounts for"),
)
"""Edges of the ranks of a run in a database."""

RANK_KINDS = {
    "Matching": "the collectives of the ranks of one run, matched",
    "Meeting": "one collective that ranks took part in together, on one clock",
    "CriticalPath": "what bounds a step over all ranks, or everything there is",
    "PathSegment": "a stretch of time on a critical path, which begins where the one before it ends",
}
"""Nodes of the ranks of a run in a database."""
