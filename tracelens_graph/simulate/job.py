"""All ranks of a job, run side by side until their traces end: programs on hosts, work on the streams of devices."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tracelens_graph.simulate import kernels
from tracelens_graph.simulate.emit import begin_late
from tracelens_graph.simulate.events import Collective, GpuEvent, HostEvent
from tracelens_graph.simulate.host import COMPUTE_STREAM, Process, Thread
from tracelens_graph.simulate.options import Options
from tracelens_graph.simulate.places import START_NS, places
from tracelens_graph.simulate.training import run_program
from tracelens_graph.simulate.waits import Waits


@dataclass(eq=False, slots=True)
class _Stream:
    queue: deque[GpuEvent] = field(default_factory=deque)
    last: GpuEvent | None = None
    """The work that ended last."""
    is_ready: bool = False


class Devices:
    """The devices of all ranks. `run` times everything launched since the last run, as far as it can."""

    def __init__(self, processes: list[Process]) -> None:
        self._processes = processes
        self._taken = [0] * len(processes)
        self._streams: dict[tuple[int, int], _Stream] = {}
        self._ready: deque[_Stream] = deque()
        self._waiting: dict[GpuEvent, list[_Stream]] = {}
        self._of_member: dict[GpuEvent, _Stream] = {}

    def run(self) -> None:
        """Give start and end to every queued piece of work whose causes are known.

        A piece starts when its launch allows it, the one before it on its stream has ended and all that it
        waits for has ended. A collective's kernel ends when the ranks that it waits for have started theirs
        and the data has moved. Work that waits for something not yet launched stays queued.
        """
        for rank, process in enumerate(self._processes):
            for gpu in process.gpus[self._taken[rank] :]:
                stream = self._streams.setdefault((rank, gpu.stream), _Stream())
                stream.queue.append(gpu)
                self._wake(stream)
            self._taken[rank] = len(process.gpus)
        while self._ready:
            stream = self._ready.popleft()
            stream.is_ready = False
            self._advance(stream)

    def _wake(self, stream: _Stream) -> None:
        if not stream.is_ready:
            stream.is_ready = True
            self._ready.append(stream)

    def _advance(self, stream: _Stream) -> None:
        queue = stream.queue
        while queue:
            gpu = queue[0]
            if gpu.start < 0:
                awaited = next((other for other in gpu.waits if other.end < 0), None)
                if awaited is not None:
                    self._waiting.setdefault(awaited, []).append(stream)
                    return
                gpu.previous = stream.last
                free = 0 if stream.last is None else stream.last.end + stream.last.gap
                gpu.start = max(gpu.ready, free, *(other.end for other in gpu.waits), 0)
                if gpu.collective is None:
                    gpu.end = gpu.start + gpu.duration
                else:
                    self._of_member[gpu] = stream
                    self._arrive(gpu.collective)
            if gpu.end < 0:
                return
            stream.last = queue.popleft()
            for waiting in self._waiting.pop(gpu, ()):
                self._wake(waiting)

    def _arrive(self, collective: Collective) -> None:
        """One more rank has started its kernel: end those that waited for it alone."""
        collective.started += 1
        have_all = collective.started == len(collective.ranks)
        if collective.is_barrier and not have_all:
            return
        starts = {rank: member.gpu.start for rank, member in collective.members.items() if member.gpu.start >= 0}
        everyone = max(starts.values()) if have_all else -1
        for member in collective.members.values():
            gpu = member.gpu
            if gpu.start < 0 or gpu.end >= 0:
                continue
            if member.awaits is None:
                last = everyone
            else:
                last = max(starts[rank] for rank in member.awaits) if starts.keys() >= set(member.awaits) else -1
            if last >= 0:
                member.wait = last - gpu.start
                gpu.end = last + member.transfer + member.end_noise
                gpu.duration = gpu.end - gpu.start
                self._wake(self._of_member.pop(gpu))


def run_job(options: Options) -> list[Process]:
    """Run every rank to the end; all events have their times then, and what a trace lacks is gone."""
    collectives: dict[Any, Collective] = {}
    stagger = round(1000 * options.start_stagger_us)
    processes = [Process(place, options, START_NS + stagger * place.rank, collectives) for place in places(options)]
    for process in processes:
        _leave_over(process)
    drive([run_program(process) for process in processes], Devices(processes))
    for process in processes:
        process.hosts = [event for event in process.hosts if not event.hidden]
        process.gpus = [gpu for gpu in process.gpus if not gpu.hidden]
        process.syncs = [sync for sync in process.syncs if not sync.call.hidden]
        begin_late(process)
        if options.python_stacks:
            _idle_thread(process)
    return processes


def drive(programs: list[Waits], devices: Devices) -> None:
    """Run programs until they wait for work of their devices, then the devices, and so on.

    Raises RuntimeError if the ranks wait for each other for ever.
    """
    awaited: dict[int, tuple[GpuEvent, ...]] = dict.fromkeys(range(len(programs)), ())
    while awaited:
        going = [rank for rank, works in awaited.items() if all(gpu.end >= 0 for gpu in works)]
        if not going:
            raise RuntimeError(f"the simulated ranks wait for each other: {sorted(awaited)}")
        for rank in going:
            works = next(programs[rank], None)
            if works is None:
                del awaited[rank]
            else:
                awaited[rank] = works
        devices.run()


def _leave_over(process: Process) -> None:
    """Work that was launched before the recording started."""
    ready = process.start - 30_000
    for i in range(process.options.unlaunched):
        kernel = kernels.elementwise("CUDAFunctor_add<c10::BFloat16>", 4_000_000 + 500_000 * i, 3)
        gpu = GpuEvent("kernel", kernel.name, COMPUTE_STREAM, kernel.duration, ready=ready)
        gpu.correlation, gpu.args = 5_000 + 7 * i, kernel.launch_args()
        process.submit(gpu)


def _idle_thread(process: Process) -> None:
    """A helper thread of Python as the profiler writes it: under process 0, the GPU's number too."""
    thread = Thread(process, 0, 0, 3, sequence=0)
    end = max(event.end for event in process.hosts)
    names = ("threading.py(1032): _bootstrap", "threading.py(1075): _bootstrap_inner", "tqdm/_monitor.py(60): run")
    parent = None
    for i, name in enumerate(names):
        start = process.start - 20_000 + 900 * i
        parent = HostEvent("python_function", name, thread, start, parent, None, None, False, end + 9_000 - 900 * i)
        process.hosts.append(parent)
