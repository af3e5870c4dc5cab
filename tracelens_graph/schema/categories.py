"""Categories of events in Kineto traces, of every year and vendor, and the kinds of nodes that they stand for.

Whether an event is GPU work is decided here, by its category, and never by the presence of a `stream` argument
(compiled Triton ops carry one on the host). Sources: the activity types of Kineto's `ActivityType.cpp` over its
history, and the vendors' traces. Names of copies say their direction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tracelens_graph.schema import Kind

_CATEGORIES: dict[Kind, tuple[str, ...]] = {
    Kind.Op: ("cpu_op", "Operator"),
    Kind.PythonFunction: ("python_function",),
    Kind.RuntimeCall: (
        "cuda_runtime", "cuda_driver", "Runtime", "hip_runtime", "hip_driver", "xpu_runtime", "xpu_driver",
        "mtia_runtime", "glow_runtime", "privateuse1_runtime", "privateuse1_driver",
    ),
    Kind.Kernel: ("kernel", "Kernel", "hpu_op", "mtia_ccp_events", "collective_comm"),
    Kind.Memcpy: ("gpu_memcpy", "Memcpy"),
    Kind.Memset: ("gpu_memset", "Memset"),
    Kind.Annotation: ("user_annotation",),
    Kind.DeviceAnnotation: ("gpu_user_annotation",),
    Kind.SyncEvent: ("cuda_sync", "cuda_event", "xpu_sync", "graph_event_node"),
    Kind.Overhead: ("overhead",),
    Kind.MemoryEvent: ("cpu_instant_event",),
}  # fmt: skip
"""Kind -> its categories; the first is the one that PyTorch writes today."""

KIND_OF_CATEGORY = {category: kind for kind, categories in _CATEGORIES.items() for category in categories}

KINDS_BY_NAME: dict[str, dict[str, Kind]] = {
    "mtia_ccp_events": {"dma_request": Kind.Memcpy, "event_wait": Kind.SyncEvent},
}
"""Category -> names of events in it that are of another kind: MTIA records copies and waits among its kernels."""

CATEGORY_OF_KIND = {kind: categories[0] for kind, categories in _CATEGORIES.items()} | {
    Kind.Module: "python_function",
    Kind.Step: "user_annotation",
}
"""Category that PyTorch writes for a kind today; names separate modules and steps from others of their category."""

_STEP_NAME = re.compile(r"ProfilerStep#[0-9]+")


def is_step_name(name: str) -> bool:
    """Whether a range of this name is a step."""
    return _STEP_NAME.fullmatch(name) is not None


DIRECTIONS = (
    ("HtoD", ("HtoD", "HOST_TO_DEVICE", "HostToDevice", "pyH2D")),
    ("DtoH", ("DtoH", "DEVICE_TO_HOST", "DeviceToHost", "pyD2H")),
    ("DtoD", ("DtoD", "DEVICE_TO_DEVICE", "DeviceToDevice", "pyD2D")),
    ("HtoH", ("HtoH", "HOST_TO_HOST", "HostToHost", "pyH2H")),
    ("PtoP", ("PtoP", "PeerToPeer", "pyP2P")),
)
"""Direction of a copy, and words in its name that show it (XLA's are `MemcpyH2D`); the first that fits counts."""


def copy_direction(name: str) -> str:
    """Direction of a copy; "unknown" where its name does not show it."""
    return next((way for way, words in DIRECTIONS if any(word in name for word in words)), "unknown")


def over_the_link(gpu_events: Iterable[str]) -> bool:
    """Whether one of some GPU events, given by name, is a copy between host and device."""
    return any(copy_direction(name) in ("HtoD", "DtoH") for name in gpu_events)
