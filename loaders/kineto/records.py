"""Typed records of events: what the first pass takes out of the JSON, one struct per family.

msgspec picks the struct by the event's `cat` while it parses, skips every field that is not declared, and makes
no dictionary: this is what makes loading several times faster than parsing the file into dictionaries.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from math import prod
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from tracelens_graph.graph.collective_kinds import HOST_BACKENDS, kind_of
from tracelens_graph.schema import Kind
from tracelens_graph.schema.categories import KIND_OF_CATEGORY


class Family(Enum):
    """Which fields of an event are read in the first pass."""

    op = "op"
    python = "python"
    runtime = "runtime"
    gpu = "gpu"
    annotation = "annotation"
    device_annotation = "device_annotation"
    sync = "sync"
    overhead = "overhead"
    memory = "memory"
    launch_flow = "launch_flow"
    autograd_flow = "autograd_flow"
    other = "other"


OTHER_ACCELERATORS = {"mtia_": "MTIA", "hpu_": "HPU", "privateuse1_": "PrivateUse1", "glow_": "Glow"}
"""How categories of events of devices that are no GPUs begin -> what the device is called."""

_FAMILIES = {
    Kind.Op: Family.op,
    Kind.PythonFunction: Family.python,
    Kind.RuntimeCall: Family.runtime,
    Kind.Kernel: Family.gpu,
    Kind.Memcpy: Family.gpu,
    Kind.Memset: Family.gpu,
    Kind.Annotation: Family.annotation,
    Kind.DeviceAnnotation: Family.device_annotation,
    Kind.SyncEvent: Family.sync,
    Kind.Overhead: Family.overhead,
    Kind.MemoryEvent: Family.memory,
}

_NO_NODES = {
    Family.launch_flow: ("ac2g", "async_cpu_to_gpu", "async_gpu", "async"),
    Family.autograd_flow: ("fwdbwd", "forward_backward"),
    Family.other: (
        "Trace", "cuda_profiler_range", "external_correlation", "hardware_counters", "mtia_counters", "mtia_insight",
        "xpu_scope_profiler",
    ),
}  # fmt: skip

CATEGORIES: dict[str, tuple[Family, Kind | None]] = {
    **{category: (_FAMILIES[kind], kind) for category, kind in KIND_OF_CATEGORY.items()},
    **{category: (family, None) for family, categories in _NO_NODES.items() for category in categories},
}
"""Category -> the fields to read and the kind of node (None: not a node of its own).

Categories that are not listed, and events of family `other`, are counted and left out of the graph.
"""


NO_NUMBER = float("nan")
"""Default of times: separates an absent value from zero."""

NO_BYTES = -(2**63)
"""Default of sizes, which may be negative but never this."""

_OLD_NAMES = {"Operator", "Kernel", "Memcpy", "Memset", "Runtime"}
"""Categories of 2021, whose External id is written `external id`."""


class OpArgs(Struct, gc=False, rename={
    "external_id": "External id", "sequence": "Sequence number", "forward_thread": "Fwd thread id",
    "dims": "Input Dims", "types": "Input type", "strides": "Input Strides", "concrete": "Concrete Inputs",
    "instruction": "Instruction", "collective": "Collective name",
}):  # fmt: skip
    """Arguments of an op; `Instruction` stands in pieces of profiles of JAX."""

    external_id: int | str | None = -1
    sequence: int | str | None = -1
    forward_thread: int | str | None = -1
    dims: Raw = Raw()
    types: Raw = Raw()
    strides: Raw = Raw()
    concrete: Raw = Raw()
    instruction: Raw = Raw()
    collective: Raw = Raw()


class OldOpArgs(OpArgs, gc=False, rename={"old_external_id": "external id", "old_dims": "Input dims"}):
    """Arguments of an op as PyTorch wrote them in 2021; some versions spell them as today."""

    old_external_id: int | str | None = -1
    old_dims: Raw = Raw()

    def renew(self) -> None:
        """Put what stands under an old name where it stands today."""
        if self.old_external_id not in (-1, None):
            self.external_id = self.old_external_id
        if len(memoryview(self.old_dims)):
            self.dims = self.old_dims


class LaunchArgs(Struct, gc=False, rename={"external_id": "External id"}):
    """Arguments of a runtime or driver call, and of a synchronisation."""

    external_id: int | str | None = -1
    correlation: int | str | None = -1
    device: int | str | None = -1
    stream: int | str | None = -1


class OldLaunchArgs(LaunchArgs, gc=False, rename={"external_id": "external id"}):
    """Arguments of a runtime call as of 2021."""

    external_id: int | str | None = -1


class GpuArgs(Struct, gc=False, rename={"external_id": "External id", "collective": "Collective name"}):
    """Arguments of a kernel, copy or fill."""

    external_id: int | str | None = -1
    correlation: int | str | None = -1
    device: int | str | None = -1
    stream: int | str | None = -1
    original_stream: int | str | None = -1
    bytes: int | float | str | None = NO_BYTES
    collective: Raw = Raw()


class OldGpuArgs(GpuArgs, gc=False, rename={"external_id": "external id"}):
    """Arguments of GPU work as of 2021."""

    external_id: int | str | None = -1


class RangeArgs(Struct, gc=False, rename={"external_id": "External id"}):
    """Arguments of an annotation."""

    external_id: int | str | None = -1


class MemoryArgs(Struct, gc=False, rename={"bytes": "Bytes", "device": "Device Id"}):
    """Arguments of an allocation."""

    bytes: int | float | str | None = NO_BYTES
    device: int | str | None = -1


class CollectiveArgs(Struct, gc=False, rename={
    "kind": "Collective name", "group": "Process Group Name", "group_description": "Process Group Description",
    "ranks": "Process Group Ranks", "group_size": "Group size", "in_elements": "In msg nelems",
    "out_elements": "Out msg nelems", "in_split": "In split size", "out_split": "Out split size",
    "sequence": "Seq", "rank": "Rank", "source_rank": "Src Rank", "target_rank": "Dst Rank",
}):  # fmt: skip
    """Arguments of a collective, on its op and on its kernel."""

    kind: Any = None
    group: Any = None
    group_description: Any = None
    ranks: Any = None
    group_size: Any = None
    dtype: Any = None
    in_elements: Any = None
    out_elements: Any = None
    in_split: Any = None
    out_split: Any = None
    sequence: Any = None
    rank: Any = None
    source_rank: Any = None
    target_rank: Any = None


class CollectiveEvent(Struct, gc=False):
    """An event read only for its collective arguments."""

    args: CollectiveArgs = field(default_factory=CollectiveArgs)


class Head(Struct, gc=False):
    """When an entry that is not a node begins, and whether viewers draw it."""

    ph: str = "X"
    ts: Raw = Raw()
    dur: float | str | None = None


class FlowEvent(Struct, gc=False):
    """One end of an arrow between events."""

    ph: str
    id: int | str
    ts: float | str
    pid: int | str
    tid: int | str
    cat: str = ""


_ARGS: dict[Family, tuple[type[Struct], type[Struct]]] = {
    Family.op: (OpArgs, OldOpArgs),
    Family.runtime: (LaunchArgs, OldLaunchArgs),
    Family.gpu: (GpuArgs, OldGpuArgs),
    Family.annotation: (RangeArgs, RangeArgs),
    Family.device_annotation: (RangeArgs, RangeArgs),
    Family.sync: (LaunchArgs, LaunchArgs),
    Family.memory: (MemoryArgs, MemoryArgs),
}


def _record(category: str, family: Family, time: Any) -> type[Struct]:
    """The struct for one category; `time` is the type of its times: float, or Raw to keep the digits."""
    absent = Raw() if time is Raw else NO_NUMBER
    fields: list[Any] = []
    if family is Family.launch_flow:
        fields = [("id", int | str, 0)]
    elif family is Family.autograd_flow:
        fields = [("ph", str), ("id", int | str), ("ts", time), ("pid", int | str), ("tid", int | str)]
    elif family is Family.other:
        fields = [("ts", time, absent), ("dur", time, absent), ("ph", str, "X")]
    else:
        fields = [("name", str), ("ts", time), ("pid", int | str), ("tid", int | str), ("dur", time, absent)]
        if family in _ARGS:
            args = _ARGS[family][category in _OLD_NAMES]
            fields.append(("args", args, field(default_factory=args)))
    return msgspec.defstruct(f"{family.value}_{category}", fields, tag_field="cat", tag=category, gc=False)


class Records:
    """The structs of one way of reading times, and the decoders over all of them.

    Attributes:
        exact: whether times are kept as digits (Raw) instead of floats.
        family: struct class -> (family, kind or -1).
        unknown: categories met that the table does not know; their events are skipped and counted.
    """

    def __init__(self, exact: bool, unknown: frozenset[str] = frozenset()) -> None:
        time = Raw if exact else float
        self.exact = exact
        self.unknown = unknown
        self.by_category: dict[str, type[Struct]] = {}
        self.family: dict[type, Family] = {}
        self.category: dict[type, str] = {}
        for category, (family, _) in [*CATEGORIES.items(), *((name, (Family.other, None)) for name in unknown)]:
            record = _record(category, family, time)
            self.by_category[category] = record
            self.family[record] = family
            self.category[record] = category
        union: Any = None
        for record in self.by_category.values():
            union = record if union is None else union | record
        self.events: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[union])
        self.event: msgspec.json.Decoder[Any] = msgspec.json.Decoder(union)


@cache
def records(exact: bool, unknown: frozenset[str] = frozenset()) -> Records:
    """The records for a way of reading times and a set of further categories to skip."""
    return Records(exact, unknown)


class _Args(Struct, gc=False, rename={"dims": "Input Dims", "types": "Input type"}):
    dims: Any = None
    types: Any = None


class _Span(Struct, gc=False):
    tid: int | str | None = None
    args: _Args = field(default_factory=_Args)


_BEGINNINGS = tuple(f"{backend}:" for backend in HOST_BACKENDS)
_SPAN = msgspec.json.Decoder(_Span)


def is_host_collective(name: str) -> bool:
    """Whether an annotation is the span in which a backend ran a collective on the host."""
    return name.startswith(_BEGINNINGS)


def arguments(name: str, event: Raw) -> dict[str, Any]:
    """Arguments of a collective on the host: kind, type and number of elements, and the thread that ran it.

    Args:
        name: name of its span, such as `gloo:all_reduce`.
        event: the span as the file has it.
    """
    found = CollectiveArgs(kind=kind_of(name.partition(":")[2]))
    if found.kind == "all_to_all":
        found.kind = "all_to_allv"  # Both are called so here, and their split sizes are not recorded.
    try:
        span = _SPAN.decode(event)
    except (msgspec.MsgspecError, RecursionError):
        return msgspec.structs.asdict(found)
    args = span.args
    if found.kind == "barrier":
        found.in_elements = 0
    if isinstance(args.dims, list) and args.dims:
        counts = [_elements(dims) for dims in args.dims]
        known = [count for count in counts if count is not None]
        if len(known) == len(counts) and sum(known) < 2**63:
            found.in_elements = sum(known)
    if isinstance(args.types, list) and args.types and isinstance(args.types[0], str):
        found.dtype = args.types[0]
    return {**msgspec.structs.asdict(found), "thread": span.tid}


def _elements(dims: Any) -> int | None:
    """Number of elements of a tensor, or of a list of tensors; None where it is not clear."""
    if not isinstance(dims, list):
        return None
    if all(isinstance(one, list) for one in dims) and dims:
        parts = [_elements_of_one(one) for one in dims]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None
    return _elements_of_one(dims)


def _elements_of_one(dims: list[Any]) -> int | None:
    is_shape = all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in dims)
    return prod(dims) if is_shape else None
