"""The device side: first-in first-out streams, and collectives that join the ranks."""

from __future__ import annotations

from collections import defaultdict, deque

from .events import GpuEvent
from .host import Process

GAP_NS = 900
"""Shortest time between two pieces of work on one stream."""


class Devices:
    """The devices of all ranks. `run` times everything launched since the last run."""

    def __init__(self, processes: list[Process]) -> None:
        self._processes = processes
        self._taken = [0] * len(processes)
        self._queues: list[dict[int, deque[GpuEvent]]] = [defaultdict(deque) for _ in processes]
        self._free: list[dict[int, int]] = [defaultdict(int) for _ in processes]

    def run(self) -> None:
        """Give every queued piece of work its start and end.

        A piece starts when its launch allows it, the one before it on its stream has ended and all that it
        waits for has ended; a collective also ends for all ranks at once, when the last to arrive has been
        served. Raises RuntimeError if the ranks wait for each other for ever.
        """
        for rank, process in enumerate(self._processes):
            for gpu in process.gpus[self._taken[rank] :]:
                self._queues[rank][gpu.stream].append(gpu)
            self._taken[rank] = len(process.gpus)
        progress = True
        while progress:
            progress = False
            for rank in range(len(self._processes)):
                for stream in self._queues[rank]:
                    progress |= self._advance(rank, stream)
        if any(queue for queues in self._queues for queue in queues.values()):
            raise RuntimeError("the simulated ranks wait for each other")

    def _advance(self, rank: int, stream: int) -> bool:
        queue, moved = self._queues[rank][stream], False
        while queue and all(other.end >= 0 for other in queue[0].waits):
            gpu = queue[0]
            if gpu.start < 0:
                gpu.start = max(gpu.ready, self._free[rank][stream], *(other.end for other in gpu.waits), 0)
                moved = True
            if gpu.collective is None:
                gpu.end = gpu.start + gpu.duration
            elif not self._finish_collective(gpu):
                break
            self._free[rank][stream] = gpu.end + GAP_NS + gpu.correlation % 400
            queue.popleft()
            moved = True
        return moved

    def _finish_collective(self, gpu: GpuEvent) -> bool:
        collective = gpu.collective
        assert collective is not None
        members = collective.members.values()
        if len(members) < len(self._processes) or any(member.start < 0 for member in members):
            return False
        gpu.end = max(member.start for member in members) + collective.transfer
        gpu.duration = gpu.end - gpu.start
        return True
