"""What a simulated run consists of: events on host and device, collectives, and the tensors that they work on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracelens_graph.simulate.kernels import Kernel
    from tracelens_graph.simulate.places import Group

ITEM_BYTES = {"c10::BFloat16": 2, "float": 4, "long int": 8, "unsigned char": 1}
COMM_DTYPE = {"c10::BFloat16": "BFloat16", "float": "Float", "long int": "Long", "unsigned char": "Byte"}
SCALAR_TYPE = {"long int": 4, "float": 6, "c10::BFloat16": 15}
"""PyTorch's number of each type, as it appears among concrete inputs."""


LONGEST_LIST = 30
"""The profiler writes no shapes for longer lists of tensors."""


@dataclass(eq=False, slots=True)
class Storage:
    """A block of memory; `address` stays 0 for host memory."""

    bytes: int
    address: int = 0
    live: bool = False
    """Allocated on the device and not yet released."""


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """Shape, strides and type over a storage."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    storage: Storage
    offset: int = 0
    device: str = "cuda:0"

    @property
    def numel(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size of all elements."""
        return self.numel * ITEM_BYTES[self.dtype]

    def view(self, shape: Sequence[int]) -> Tensor:
        """The same elements in another contiguous shape; one dimension may be -1."""
        known = math.prod(n for n in shape if n != -1)
        full = tuple(self.numel // known if n == -1 else n for n in shape)
        if full[:-2] == self.shape[:-1]:  # the last dimension splits, whatever the strides of the others
            return replace(
                self, shape=full, strides=(*self.strides[:-1], full[-1] * self.strides[-1], self.strides[-1])
            )
        return replace(self, shape=full, strides=contiguous(full))

    def transpose(self, a: int, b: int) -> Tensor:
        """Two dimensions swapped, without a copy."""
        shape, strides = list(self.shape), list(self.strides)
        shape[a], shape[b] = shape[b], shape[a]
        strides[a], strides[b] = strides[b], strides[a]
        return replace(self, shape=tuple(shape), strides=tuple(strides))

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """A slice along one dimension, without a copy."""
        shape = (*self.shape[:dim], length, *self.shape[dim + 1 :])
        return replace(self, shape=shape, offset=self.offset + start * self.strides[dim])


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous tensor of that shape."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def host_tensor(shape: Sequence[int], dtype: str) -> Tensor:
    """A contiguous tensor in host memory."""
    shape = tuple(shape)
    return Tensor(shape, contiguous(shape), dtype, Storage(math.prod(shape) * ITEM_BYTES[dtype]), device="cpu")


def _number(value: float) -> str:
    """A float as the profiler prints it: a whole one ends in a point."""
    text = f"{value:.17g}"
    return text if "e" in text or "." in text else text + "."


def argument_columns(inputs: Sequence[Any]) -> dict[str, list[Any]]:
    """`Input Dims`, `Input type`, `Input Strides` and `Concrete Inputs` of one operator."""
    columns: tuple[list[Any], ...] = ([], [], [], [])
    for value in inputs:
        row: tuple[Any, str, Any, str]
        if isinstance(value, Tensor):
            row = (list(value.shape), value.dtype, list(value.strides), "")
        elif value is None or isinstance(value, (str, tuple)):
            row = ([], "", [], "")
        elif isinstance(value, list) and value and isinstance(value[0], Tensor):
            short = value if len(value) <= LONGEST_LIST else ()
            row = ([list(t.shape) for t in short], "TensorList", [list(t.strides) for t in short], "")
        elif isinstance(value, list):
            row = ([], "ScalarList", [], str(list(value)))
        else:
            row = ([], "Scalar", [], _number(value) if isinstance(value, float) else str(value))
        for column, cell in zip(columns, row, strict=True):
            column.append(cell)
    dims, types, strides, concrete = columns
    return {"Concrete Inputs": concrete, "Input type": types, "Input Strides": strides, "Input Dims": dims}


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
    hidden: bool = False
    """Left out of the trace."""
    args: dict[str, Any] = field(default_factory=dict)
    uid: int = -1

    @property
    def is_module(self) -> bool:
        """A frame of an nn.Module call."""
        return self.cat == "python_function" and self.name.startswith(MODULE_PREFIX)

    def gives(self, out: Tensor) -> Tensor:
        """The only output of the operator, which is noted."""
        self.outputs = (out,)
        return out

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
    """A piece of work on a stream; `previous`, `start` and `end` are set when the devices run."""

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
    kernel: Kernel | None = None
    captured: GpuEvent | None = None
    """The node of a graph that this is a replay of."""
    gap: int = 0
    """Shortest time from its end to the start of the next work of its stream."""
    previous: GpuEvent | None = None
    """The work before it on its stream."""
    hidden: bool = False
    """Left out of the trace."""
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
class Member:
    """One rank's part of a collective; `wait` and the end of `gpu` are set when the devices run."""

    rank: int
    gpu: GpuEvent
    sequence: int
    """The number that this rank gave the collective."""
    elements_in: int
    elements_out: int
    transfer: int
    """Nanoseconds from the last arrival that counts for this rank to its end, noise left out."""
    end_noise: int
    """Nanoseconds that the rank leaves later than it could."""
    awaits: tuple[int, ...] | None
    """Ranks whose arrival the end needs, itself among them; None for all of the collective."""
    split_in: tuple[int, ...] = ()
    """Rows for each rank of the group, of an uneven all-to-all."""
    split_out: tuple[int, ...] = ()
    wait: int = -1
    """Nanoseconds from the own arrival to the last one that counts."""


@dataclass(eq=False, slots=True)
class Collective:
    """One collective: the kernels of several ranks that move data together."""

    group: Group
    sequence: int
    """Its number in the group; of a transfer that between its two ends."""
    kind: str
    """PyTorch's name; `send_recv` for a transfer, which has a kernel of each kind."""
    dtype: str
    ranks: tuple[int, ...]
    """Who takes part: the ranks of the group, or the two ends of a transfer."""
    number: int
    """Its place among those of its group, or of its two ends, from 1 on."""
    seed: str
    """Of the random numbers that belong to it."""
    latency: int
    """Part of every transfer time that does not depend on the size."""
    is_barrier: bool
    """Whether no rank leaves before all have come, and all leave together but for noise."""
    is_odd: bool = False
    """Of a kind that is a barrier, but here no rank waited."""
    is_extra: bool = False
    """Run by one rank alone."""
    source: int | None = None
    """Of a transfer, broadcast or scatter."""
    target: int | None = None
    """Of a transfer, reduce or gather."""
    step: int | None = None
    members: dict[int, Member] = field(default_factory=dict)
    started: int = 0
    """Number of members whose kernels have started."""


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
    """A cuda_sync activity: a call that waits for work, or makes a stream wait for it."""

    kind: str
    call: HostEvent
    stream: int
    waits_on_stream: int = -1
    record: HostEvent | None = None
    awaited: tuple[GpuEvent, ...] = ()
    """What it waits for: the last work of a stream, or of each of them."""
    asked: int = 0
    """When a waiting call began to wait."""
    wake: int = 0
    """Nanoseconds from the end of the awaited work to the return of the waiting call, if it had to wait."""
