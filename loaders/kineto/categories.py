"""Event categories of Kineto traces, of every year and vendor, as data.

Whether an event is GPU work is decided here, by its category, and never by the presence of a `stream`
argument (compiled Triton ops carry one on the host). Sources: the activity types of Kineto's
`ActivityType.cpp` over its history, and the vendors' traces.
"""

from __future__ import annotations

from enum import Enum

from tracelens_graph.schema import Kind


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


CATEGORIES: dict[str, tuple[Family, Kind | None]] = {
    "cpu_op": (Family.op, Kind.Op),
    "Operator": (Family.op, Kind.Op),
    "python_function": (Family.python, Kind.PythonFunction),
    "cuda_runtime": (Family.runtime, Kind.RuntimeCall),
    "cuda_driver": (Family.runtime, Kind.RuntimeCall),
    "Runtime": (Family.runtime, Kind.RuntimeCall),
    "hip_runtime": (Family.runtime, Kind.RuntimeCall),
    "hip_driver": (Family.runtime, Kind.RuntimeCall),
    "xpu_runtime": (Family.runtime, Kind.RuntimeCall),
    "xpu_driver": (Family.runtime, Kind.RuntimeCall),
    "mtia_runtime": (Family.runtime, Kind.RuntimeCall),
    "glow_runtime": (Family.runtime, Kind.RuntimeCall),
    "privateuse1_runtime": (Family.runtime, Kind.RuntimeCall),
    "privateuse1_driver": (Family.runtime, Kind.RuntimeCall),
    "kernel": (Family.gpu, Kind.Kernel),
    "Kernel": (Family.gpu, Kind.Kernel),
    "hpu_op": (Family.gpu, Kind.Kernel),
    "mtia_ccp_events": (Family.gpu, Kind.Kernel),
    "collective_comm": (Family.gpu, Kind.Kernel),
    "gpu_memcpy": (Family.gpu, Kind.Memcpy),
    "Memcpy": (Family.gpu, Kind.Memcpy),
    "gpu_memset": (Family.gpu, Kind.Memset),
    "Memset": (Family.gpu, Kind.Memset),
    "user_annotation": (Family.annotation, Kind.Annotation),
    "gpu_user_annotation": (Family.device_annotation, Kind.DeviceAnnotation),
    "cuda_sync": (Family.sync, Kind.SyncEvent),
    "cuda_event": (Family.sync, Kind.SyncEvent),
    "xpu_sync": (Family.sync, Kind.SyncEvent),
    "graph_event_node": (Family.sync, Kind.SyncEvent),
    "overhead": (Family.overhead, Kind.Overhead),
    "cpu_instant_event": (Family.memory, Kind.MemoryEvent),
    "ac2g": (Family.launch_flow, None),
    "async_cpu_to_gpu": (Family.launch_flow, None),
    "async_gpu": (Family.launch_flow, None),
    "async": (Family.launch_flow, None),
    "fwdbwd": (Family.autograd_flow, None),
    "forward_backward": (Family.autograd_flow, None),
    "Trace": (Family.other, None),
    "cuda_profiler_range": (Family.other, None),
    "external_correlation": (Family.other, None),
    "hardware_counters": (Family.other, None),
    "mtia_counters": (Family.other, None),
    "mtia_insight": (Family.other, None),
    "xpu_scope_profiler": (Family.other, None),
}
"""Category -> the fields to read and the kind of node (None: not a node of its own).

Categories that are not listed, and events of family `other`, are counted and left out of the graph.
"""

KINDS_BY_NAME: dict[str, dict[str, Kind]] = {
    "mtia_ccp_events": {"dma_request": Kind.Memcpy, "event_wait": Kind.SyncEvent},
}
"""Category -> names of events in it that are of another kind: MTIA records copies and waits among its kernels."""
