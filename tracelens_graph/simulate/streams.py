"""The device side: first-in first-out streams, and collectives that join the ranks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tracelens_graph.simulate.events import Collective, GpuEvent
from tracelens_graph.simulate.host import Process


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
