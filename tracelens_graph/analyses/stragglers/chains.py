"""What a rank's part of a collective had to wait for on the rank itself: the chain of binding causes before it."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from tracelens_graph.analyses.critical_path.causes import bound_alone, unbound
from tracelens_graph.analyses.critical_path.collective_points import CollectivePoints
from tracelens_graph.analyses.critical_path.points import UNEXPLAINED_NS, Edge
from tracelens_graph.analyses.critical_path.rank_answers import kept_rank
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, MEMCPY, gpu_classes
from tracelens_graph.graph.core import Core


class Share(IntEnum):
    """What time of a chain was spent in."""

    host = 0
    """The host had yet to launch what comes next."""
    computation = 1
    communication = 2
    copy = 3
    stream = 4
    """The GPU went from one piece of work to the next."""
    unexplained = 5
    """Work started long after all that it is known to follow from."""


_HOST = (Edge.host, Edge.call, Edge.launch, Edge.sync)


@dataclass(frozen=True)
class Chain:
    """Binding causes that lead to the start of a GPU event.

    Attributes:
        ready_ns: when the event could have started, had it not been for what it is not to wait for.
        edges: the edges, the last one first.
        passed: the first of some points that the chain passes, where it ends; -1 if it passes none.
    """

    ready_ns: int
    edges: list[int] = field(default_factory=list)
    passed: int = -1


class RankChains:
    """The chains of one rank; times are on the clock of its trace."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._rank = rank = core.once(kept_rank).points
        meet = CollectivePoints(len(rank.time))
        known = bound_alone(unbound(rank, lambda _, time: time, lambda _: meet))
        self._time, self._before, self._after, self._kind = rank.time, known.before, known.after, known.kind
        self._binding, self._least = known.binding, known.least_ns
        self._into = np.argsort(self._after, kind="stable")
        self._sorted = self._after[self._into]

    def start_of(self, row: int) -> int:
        """The point at which a GPU event starts."""
        return int(self._rank.gpu_start[np.searchsorted(self._rank.gpu_rows, row)])

    def end_of(self, row: int) -> int:
        """The point at which a GPU event ends."""
        return int(self._rank.gpu_end[np.searchsorted(self._rank.gpu_rows, row)])

    def time_ns(self, point: int) -> int:
        """When a point was."""
        return int(self._time[point])

    def ready_ns(self, point: int, stops: Container[int]) -> int:
        """When a GPU event could have started, had it not come behind one of some others on its stream."""
        return self._bound(point, stops)[0]

    def to(self, point: int, floor_ns: int | None, stops: Container[int]) -> Chain:
        """The chain that leads to a point.

        Args:
            point: the start of a GPU event.
            floor_ns: how far back to go at most; None for to the beginning.
            stops: ends of GPU events at which a chain stops. That the event itself comes behind one of them on its
                stream does not count: what would it have had to wait for otherwise?
        """
        ready, edge = self._bound(point, stops)
        followed: list[int] = []
        while edge >= 0:
            followed.append(edge)
            before = int(self._before[edge])
            if before in stops:
                return Chain(ready, followed, before)
            if floor_ns is not None and self._time[before] <= floor_ns:
                break
            edge = int(self._binding[before])
        return Chain(ready, followed)

    def reaches(self, chain: Chain, moment_ns: int, stops: Container[int]) -> bool:
        """Whether a chain goes on back to a moment without passing any of some points."""
        if chain.passed >= 0 or not chain.edges:
            return False
        point = int(self._before[chain.edges[-1]])
        while self._time[point] > moment_ns and (edge := int(self._binding[point])) >= 0:
            point = int(self._before[edge])
            if point in stops:
                return False
        return True

    def _bound(self, point: int, stops: Container[int]) -> tuple[int, int]:
        """When a point could have come, and the edge that binds it then; -1 for none."""
        edges = self._into[slice(*np.searchsorted(self._sorted, (point, point + 1)))]
        behind = [self._kind[edge] == Edge.stream and int(self._before[edge]) in stops for edge in edges.tolist()]
        left = edges[~np.array(behind, bool)]
        time = int(self._time[point])
        if not len(left):
            return time, -1
        # The recorded cause still holds unless it is one of those left out.
        if len(left) == len(edges) or not behind[edges.tolist().index(self._binding[point])]:
            return time, int(self._binding[point])
        allowed = self._time[self._before[left]] + self._least[self._kind[left]]
        return min(time, int(allowed.max())), int(left[np.argmax(allowed)])

    def shares(self, chain: Chain, start_ns: int) -> np.ndarray:
        """How a chain spent the time from a moment on: ns by `Share`; they add up."""
        found = np.zeros(len(Share), np.int64)
        edges = np.array(chain.edges, np.int64)
        if not len(edges):
            return found
        begin = np.maximum(self._time[self._before[edges]], start_ns)
        end = np.minimum(self._time[self._after[edges]], chain.ready_ns)
        length = np.maximum(end - begin, 0)
        kind = self._kind[edges]
        share = np.full(len(edges), Share.stream)
        share[np.isin(kind, _HOST)] = Share.host
        gaps = self._time[self._after[edges]] - self._time[self._before[edges]] > UNEXPLAINED_NS
        share[(share == Share.stream) & gaps] = Share.unexplained
        runs = np.flatnonzero(kind == Edge.run)
        work = gpu_classes(self._core, self._rank.row[self._after[edges[runs]]])
        share[runs] = np.select(
            (work == COMMUNICATION, work == MEMCPY), (Share.communication, Share.copy), Share.computation
        )
        np.add.at(found, share, length)
        # What comes before the first thing that is known of the chain.
        rest = max(chain.ready_ns - start_ns - int(length.sum()), 0)
        found[Share.host if kind[-1] in _HOST else Share.unexplained] += rest
        return found

    def longest(self, chain: Chain, start_ns: int, share: Share) -> int:
        """Row of the GPU event with most of a share of a chain's time from a moment on; -1 without one."""
        edges = np.array(chain.edges, np.int64)
        rows = self._rank.row[self._after[edges[self._kind[edges] == Edge.run]]]
        wanted = {Share.communication: COMMUNICATION, Share.copy: MEMCPY}
        rows = rows[gpu_classes(self._core, rows) == wanted[share]] if share in wanted else rows
        if not len(rows):
            return -1
        c = self._core.columns
        inside = np.maximum(c.end_ns[rows] - np.maximum(c.start_ns[rows], start_ns), 0)
        return int(rows[np.argmax(inside)])
