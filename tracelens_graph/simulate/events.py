"""What happens in a simulated process: host events, GPU events, collectives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tensors import Tensor

MODULE_PREFIX = "nn.Module: "


@dataclass(eq=False)
class HostThread:
    """What identifies a host thread in a trace."""

    pid: int
    tid: int
    number: int
    """PyTorch's small number of the thread, as in `Fwd thread id`."""


@dataclass(eq=False, slots=True)
class HostEvent:
    """An interval on a host thread; times are int nanoseconds of the job's true clock."""

    cat: str
    name: str
    thread: HostThread
    start: int
    parent: HostEvent | None
    """Nearest enclosing event that is no annotation."""
    annotation: HostEvent | None
    """Innermost annotation open on the thread at the start."""
    step: int | None
    recompute: bool
    end: int = -1
    inputs: tuple[Any, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    sequence: int | None = None
    forward_thread: int = 0
    scope: int = 0
    """RecordScope of PyTorch: 0 function, 1 backward function, 7 user."""
    external_id: int = 0
    record_id: int = 0
    correlation: int = 0
    args: dict[str, Any] = field(default_factory=dict)
    uid: int = -1

    @property
    def is_module(self) -> bool:
        """A frame of an nn.Module call."""
        return self.cat == "python_function" and self.name.startswith(MODULE_PREFIX)

    def ancestors(self) -> list[HostEvent]:
        """The enclosing events, innermost first."""
        above = []
        event = self.parent
        while event is not None:
            above.append(event)
            event = event.parent
        return above


@dataclass(eq=False, slots=True)
class GpuEvent:
    """A piece of work on a stream; `start` and `end` are set when the devices run."""

    cat: str
    name: str
    stream: int
    duration: int
    launch: HostEvent | None = None
    ready: int = 0
    """Earliest start that the launch allows."""
    waits: tuple[GpuEvent, ...] = ()
    collective: Collective | None = None
    correlation: int = 0
    args: dict[str, Any] = field(default_factory=dict)
    start: int = -1
    end: int = -1
    uid: int = -1

    @property
    def owner(self) -> HostEvent | None:
        """The operator the work is charged to: the nearest cpu_op above the launch."""
        if self.launch is None:
            return None
        return next((event for event in self.launch.ancestors() if event.cat == "cpu_op"), None)


@dataclass(eq=False, slots=True)
class Collective:
    """One collective over the ranks of a group: everybody's kernel ends when the data has moved."""

    group: str
    sequence: int
    kind: str
    dtype: str
    elements_in: int
    elements_out: int
    transfer: int
    """Nanoseconds from the last arrival to the common end."""
    members: dict[int, GpuEvent] = field(default_factory=dict)


@dataclass(slots=True)
class MemoryInstant:
    """One allocation (positive bytes) or release (negative bytes) of device memory."""

    thread: HostThread
    time: int
    address: int
    bytes: int
    total_allocated: int
    total_reserved: int


@dataclass(slots=True)
class SyncEvent:
    """A cuda_sync activity."""

    kind: str
    call: HostEvent
    stream: int
    waits_on_stream: int = -1
    record: HostEvent | None = None
