"""The host side: a process with its threads, on whose clocks operators run and work is launched."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tracelens_graph.simulate.events import (
    MODULE_PREFIX,
    Collective,
    GpuEvent,
    HostEvent,
    HostThread,
    Member,
    MemoryInstant,
    Storage,
    SyncEvent,
    Tensor,
    contiguous,
)
from tracelens_graph.simulate.kernels import Kernel
from tracelens_graph.simulate.options import Options
from tracelens_graph.simulate.places import Place, clock_of

COMPUTE_STREAM = 7
COMM_STREAMS = range(20, 2000, 4)
"""One for each communicator that a rank uses, by first use."""
GAP_NS = 900
"""Shortest time between two pieces of work on one stream."""
GRAPH_GAP_NS = 400
"""The same within a graph."""
ID_BLOCK = 1024
"""PyTorch hands External ids to threads in blocks of this size."""
SEGMENT = 20 << 20
"""The caching allocator takes memory from the driver in pieces of this size."""

# nanoseconds before the first child and after the last, as (least, most)
COST = {
    "cpu_op": ((700, 1600), (150, 500)),
    "python_function": ((250, 900), (60, 260)),
    "launch": ((2400, 3800), (900, 1900)),
    "call": ((150, 350), (60, 200)),
    "graph": ((9_000, 14_000), (4_000, 7_000)),
}
CBID = {
    "cudaLaunchKernel": 211, "cudaLaunchKernelExC": 430, "cuLaunchKernelEx": 652, "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51, "cudaStreamIsCapturing": 317, "cudaEventRecord": 135, "cudaStreamWaitEvent": 147,
    "cudaStreamSynchronize": 131, "cudaDeviceSynchronize": 165, "cudaEventSynchronize": 137, "cudaMalloc": 20,
    "cudaStreamBeginCapture": 318, "cudaStreamEndCapture": 315, "cudaGraphInstantiate": 309, "cudaGraphLaunch": 311,
}  # fmt: skip
HIP_NAMES = {"cudaLaunchKernelExC": "hipModuleLaunchKernel", "cuLaunchKernelEx": "hipExtModuleLaunchKernel"}
HIP_CID = {
    "hipLaunchKernel": 107, "hipExtModuleLaunchKernel": 65, "hipModuleLaunchKernel": 169, "hipMemcpyAsync": 134,
    "hipStreamSynchronize": 245, "hipGraphLaunch": 215, "hipStreamBeginCapture": 219, "hipStreamEndCapture": 220,
}  # fmt: skip


class Process:
    """One rank: its threads, its device's work in launch order, and every counter the profiler keeps."""

    def __init__(self, place: Place, options: Options, start: int, collectives: dict[Any, Collective]) -> None:
        rank = place.rank
        self.rank = rank
        self.place = place
        self.options = options
        self.clock = clock_of(options, place)
        self.rng = random.Random(f"{options.seed}/{rank}")
        self.name = f"rank{rank}"
        """Of its trace."""
        self.is_rocm = False
        self.keys = 0
        """How many keys attention reads now, of all requests."""
        self.pid = 25286 + rank if place.node is None else 25286 + 1117 * place.node + place.device
        self.start = start
        self.step: int | None = None
        self.micro_batch = 0
        self.hosts: list[HostEvent] = []
        self.gpus: list[GpuEvent] = []
        self.nodes: list[AutogradNode] = []
        self.memory: list[MemoryInstant] = []
        self.syncs: list[SyncEvent] = []
        self.collectives = collectives
        """Of the whole job, by what identifies them."""
        self.joined: list[Collective] = []
        """Those that this rank takes part in, in the order of their launches."""
        self.parameters: set[Tensor] = set()
        self.gradients: dict[Tensor, Tensor] = {}
        self.main = Thread(self, self.pid, self.pid, 1, sequence=84)
        # its own counter starts lower, so that its numbers soon repeat those of the main thread
        self.autograd = Thread(self, self.pid, self.pid + 97, 2, sequence=80)
        self._records = 9_000
        self._external = 0
        self._correlation = 8_000
        self._aside = 0
        self._is_aside = False
        self._counts: Counter[Any] = Counter()
        self._comm_streams: dict[int, int] = {}
        self._last: dict[int, GpuEvent] = {}
        self._set_aside = self.gpus, self._last
        self._allocated = 0
        self._reserved = 0
        self._address = 0x7EF0_0000_0000
        self._pending: dict[int, list[GpuEvent]] = {}

    def next_record(self) -> int:
        """The next `Record function id`."""
        self._records += 1
        return self._records

    def next_external_block(self) -> int:
        """The first of the next block of External ids."""
        self._external += ID_BLOCK
        return self._external - ID_BLOCK + 1

    def next_correlation(self) -> int:
        """The next correlation id; some go to calls nobody records."""
        if self._is_aside:
            self._aside += 1
        else:
            self._correlation += self.rng.randint(1, 9)
        return self._correlation + self._aside

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Run what is planted with random numbers of its own, so that all else takes the times it would have taken."""
        usual, self.rng = self.rng, random.Random(f"{self.options.seed}/{self.rank}/{self._aside}")
        self._is_aside = True
        yield
        self.rng, self._is_aside = usual, False

    def count(self, what: Any, step: int = 1) -> int:
        """How often this has been called with `what`, in steps of that size."""
        self._counts[what] += step
        return self._counts[what]

    def counted(self, what: Any) -> int:
        """What `count` gave last."""
        return self._counts[what]

    def comm_stream(self, comms_id: int) -> int:
        """The stream of a communicator."""
        return self._comm_streams.setdefault(comms_id, COMM_STREAMS[len(self._comm_streams)])

    def last_on(self, stream: int) -> GpuEvent | None:
        """The work launched last on a stream."""
        return self._last.get(stream)

    def last_work(self) -> tuple[GpuEvent, ...]:
        """The work launched last on each stream."""
        return tuple(self._last.values())

    def wait_for(self, stream: int, work: GpuEvent | None) -> None:
        """Make the next work of a stream wait for the end of other work."""
        if work is not None:
            self._pending.setdefault(stream, []).append(work)

    def submit(self, gpu: GpuEvent) -> GpuEvent:
        """Queue work on its stream."""
        gpu.waits = tuple(self._pending.pop(gpu.stream, ()))
        gpu.gap = GRAPH_GAP_NS if gpu.captured else GAP_NS + (gpu.correlation - self._aside) % 400
        self.gpus.append(gpu)
        self._last[gpu.stream] = gpu
        return gpu

    def begin_capture(self) -> None:
        """Take what is launched from now on as the nodes of a graph; none of it runs."""
        self._set_aside = self.gpus, self._last
        self.gpus, self._last = [], {}

    def end_capture(self) -> list[GpuEvent]:
        """The nodes of the graph, in the order of their launches."""
        nodes = self.gpus
        self.gpus, self._last = self._set_aside
        return nodes

    def allocate(self, thread: Thread, storage: Storage) -> None:
        """Take device memory for a storage."""
        storage.address, storage.live = self._address, True
        self._address += (storage.bytes + 511) // 512 * 512
        self._count_memory(thread, storage, storage.bytes)

    def release(self, thread: Thread, storage: Storage) -> None:
        """Give back the memory of a storage, unless that has happened."""
        if storage.live:
            storage.live = False
            self._count_memory(thread, storage, -storage.bytes)

    def _count_memory(self, thread: Thread, storage: Storage, change: int) -> None:
        thread.spend(40, 90)
        self._allocated += change
        self._reserved = max(self._reserved, (self._allocated + SEGMENT - 1) // SEGMENT * SEGMENT)
        self.memory.append(MemoryInstant(thread, thread.now, storage.address, change, self._allocated, self._reserved))


@dataclass(eq=False, slots=True)
class AutogradNode:
    """A node of the autograd graph: made by one forward operator, run by one backward operator."""

    name: str
    forward: HostEvent
    sequence: int
    enclosing: list[HostEvent]
    """Forward operators around `forward` that carry the same sequence number."""
    run: Callable[..., Sequence[Tensor | None]]
    """Run on a thread with the gradients of `outputs`; gives those of `inputs`."""
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    saved: tuple[Tensor, ...] = ()
    """Further tensors kept for the backward pass."""
    unpack: Callable[[Thread], None] | None = None
    """How checkpointing brings saved tensors back; None where they were simply kept."""
    twin: HostEvent | None = None
    """The same operator in the other of the two forward passes that checkpointing makes."""
    evaluate: HostEvent | None = None
    backward: HostEvent | None = None


class Thread(HostThread):
    """A host thread: a clock, a stack of open events, and the autograd state of its own."""

    def __init__(self, process: Process, pid: int, tid: int, number: int, sequence: int) -> None:
        super().__init__(pid, tid, number)
        self.process = process
        self.now = process.start
        self.sequence = sequence
        self.tape: list[AutogradNode] | None = None
        """Autograd nodes of the forward pass in progress; None without gradients."""
        self.unpack: Callable[[Thread], None] | None = None
        """Set while checkpointing keeps saved tensors out of memory."""
        self.made: list[HostEvent] = []
        """Operators that made autograd nodes, or would have with gradients on."""
        self.recomputing = False
        self._stack: list[HostEvent] = []
        self._annotations: list[HostEvent] = []
        self._external = 0
        self._external_left = 0

    def enclosing(self, event: HostEvent) -> list[HostEvent]:
        """Open operators with the sequence number of `event`, itself left out, outermost first."""
        return [e for e in self._stack if e is not event and e.sequence == event.sequence is not None]

    def spend(self, least: int, most: int) -> None:
        """Let between `least` and `most` nanoseconds pass."""
        self.now += self.process.rng.randint(least, most)

    def wait_until(self, time: int) -> int:
        """Block until a time, and a little longer to wake up; gives how much longer."""
        self.now = max(self.now, time)
        begin = self.now
        self.spend(900, 2200)
        return self.now - begin

    # -- events ---------------------------------------------------------------------------------

    def _open(self, cat: str, name: str) -> HostEvent:
        event = HostEvent(
            cat,
            name,
            self,
            self.now,
            self._stack[-1] if self._stack else None,
            self._annotations[-1] if self._annotations else None,
            self.process.step,
            self.recomputing,
        )
        self.process.hosts.append(event)
        return event

    @contextmanager
    def _span(self, event: HostEvent, cost: str) -> Iterator[HostEvent]:
        before, after = COST[cost]
        self._stack.append(event)
        self.spend(*before)
        yield event
        self.spend(*after)
        event.end = self.now
        self._stack.pop()
        self.spend(30, 120)

    def _identify(self, event: HostEvent) -> None:
        if not self._external_left:
            self._external, self._external_left = self.process.next_external_block(), ID_BLOCK
        event.external_id = self._external
        self._external += 1
        self._external_left -= 1
        event.record_id = self.process.next_record()

    @contextmanager
    def op(
        self, name: str, *inputs: Any, sequence: int | None = None, forward_thread: int = 0, scope: int = 0
    ) -> Iterator[HostEvent]:
        """Run an operator; the caller sets `outputs` on the event it is given."""
        event = self._open("cpu_op", name)
        event.inputs, event.sequence = inputs, sequence
        event.forward_thread, event.scope = forward_thread, scope
        self._identify(event)
        with self._span(event, "cpu_op"):
            yield event

    @contextmanager
    def grad_op(self, name: str, *inputs: Any) -> Iterator[HostEvent]:
        """Run an operator that autograd sees: it carries the thread's sequence number."""
        with self.op(name, *inputs, sequence=None if self.tape is None else self.sequence) as event:
            yield event

    @contextmanager
    def frame(self, name: str) -> Iterator[None]:
        """Run a Python function; without Python stacks its time passes unseen."""
        if not self.process.options.python_stacks:
            self.spend(*COST["python_function"][0])
            yield
            return
        event = self._open("python_function", name)
        if event.is_module:
            event.args["Python module id"] = int(name.rpartition("_")[2])
        with self._span(event, "python_function"):
            yield

    @contextmanager
    def module(self, name: str, forward: str) -> Iterator[None]:
        """Call an nn.Module; `forward` is the frame of its forward method."""
        with self.frame(MODULE_PREFIX + name), self.frame("torch/nn/modules/module.py(1791): _call_impl"):
            self.now += round(1000 * self.process.options.python_overhead_us)
            with self.frame(forward):
                yield

    def begin_annotation(self, name: str) -> HostEvent:
        """Open a record_function range; ranges may outlive the Python frame that opened them."""
        event = self._open("user_annotation", name)
        event.scope = 7
        self._identify(event)
        self._annotations.append(event)
        self.spend(300, 900)
        return event

    def end_annotation(self) -> None:
        """Close the innermost range."""
        self.spend(100, 300)
        self._annotations.pop().end = self.now
        self.spend(30, 120)

    @contextmanager
    def annotation(self, name: str) -> Iterator[HostEvent]:
        """Run under a record_function range."""
        event = self.begin_annotation(name)
        yield event
        self.end_annotation()

    # -- calls into the CUDA runtime --------------------------------------------------------------

    @contextmanager
    def runtime(self, name: str, cost: str = "call") -> Iterator[HostEvent]:
        """A call of the CUDA runtime, or of the driver if the name starts with cu, not cuda."""
        if self.process.is_rocm:
            name = HIP_NAMES.get(name, name.replace("cuda", "hip"))
        event = self._open("cuda_driver" if name.startswith("cuL") else "cuda_runtime", name)
        event.correlation = self.process.next_correlation()
        event.args |= {"cid": HIP_CID.get(name, 48)} if self.process.is_rocm else {"cbid": CBID[name]}
        with self._span(event, cost):
            yield event

    def launch(self, kernel: Kernel, stream: int = COMPUTE_STREAM) -> GpuEvent:
        """Launch a kernel."""
        args = kernel.launch_args()
        gpu = GpuEvent("kernel", kernel.name, stream, self._duration(kernel), kernel=kernel, args=args)
        return self._submit(gpu, kernel.api)

    def _duration(self, kernel: Kernel) -> int:
        options = self.process.options
        jitter = self.process.rng.uniform(1 - options.jitter, 1 + options.jitter)
        duration = (kernel.duration + kernel.key_ns * self.process.keys) * jitter
        return round(duration * options.slow_factor if options.slow_rank == self.process.rank else duration)

    def launch_graph(self, nodes: Iterable[GpuEvent]) -> HostEvent:
        """Replay a graph: one call launches all of its kernels, which keep their order on each stream."""
        process, copies = self.process, dict[GpuEvent, GpuEvent]()
        with self.runtime("cudaGraphLaunch", "graph") as call:
            ready = call.start + process.rng.randint(5_000, 8_000)
        for node in nodes:
            assert node.kernel is not None
            gpu = GpuEvent(node.cat, node.name, node.stream, self._duration(node.kernel), call, ready, captured=node)
            gpu.correlation, gpu.args = call.correlation, node.args
            copies[node] = process.submit(gpu)
            gpu.waits += tuple(copies[other] for other in node.waits if other in copies)
        return call

    def join(self, kernel: Kernel, collective: Collective, member: Member) -> GpuEvent:
        """Launch this rank's kernel of a collective."""
        self.process.rng.random()  # as for other kernels, whose durations vary
        collective.members[member.rank] = member
        return self._submit(member.gpu, kernel.api)

    def memcpy(self, kind: str, size: int) -> GpuEvent:
        """Start a copy; `kind` as in "HtoD (Pinned -> Device)"."""
        rate = 1600.0 if kind.startswith("DtoD") else 22.0 if "Pinned" in kind else 9.0
        return self._copy("gpu_memcpy", f"Memcpy {kind}", "cudaMemcpyAsync", size, rate)

    def memset(self, size: int) -> GpuEvent:
        """Start filling device memory."""
        return self._copy("gpu_memset", "Memset (Device)", "cudaMemsetAsync", size, 1900.0)

    def _copy(self, cat: str, name: str, call: str, size: int, gb_per_s: float) -> GpuEvent:
        duration = self.process.rng.randint(700, 1100) + round(size / gb_per_s)
        args = {"bytes": size, "memory bandwidth (GB/s)": size / duration}
        return self._submit(GpuEvent(cat, name, COMPUTE_STREAM, duration, args=args), call)

    def _submit(self, gpu: GpuEvent, call: str) -> GpuEvent:
        with self.runtime(call, "launch") as launch:
            gpu.launch, gpu.correlation = launch, launch.correlation
            if self.process.is_rocm and gpu.kernel is not None:
                launch.args = {"kernel": gpu.name, **launch.args, **gpu.kernel.shape_args()}
            gpu.ready = launch.start + self.process.rng.randint(2600, 4200)
        return self.process.submit(gpu)

    def compute(self, name: str, *inputs: Any, kernel: Kernel, out: Tensor | tuple[int, ...]) -> Tensor:
        """Run an operator of one kernel; `out` is the tensor that it writes, or the shape of a new one."""
        with self.op(name, *inputs) as op:
            written = out if isinstance(out, Tensor) else self.new(out)
            self.launch(kernel)
            return op.gives(written)

    # -- memory -------------------------------------------------------------------------------------

    def new(self, shape: tuple[int, ...], dtype: str = "c10::BFloat16") -> Tensor:
        """Allocate a contiguous tensor on the device."""
        tensor = Tensor(shape, contiguous(shape), dtype, Storage(0))
        tensor.storage.bytes = tensor.bytes
        self.process.allocate(self, tensor.storage)
        return tensor
