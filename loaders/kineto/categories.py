"""What is read of the events of each category, as data."""

from __future__ import annotations

from enum import Enum

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
