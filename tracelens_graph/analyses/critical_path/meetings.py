"""Where the ranks of a job meet: when each came to the collectives that kernels carry out, and who came last.

Of each part of a rank in such a collective two moments are known here, its start and its end; all else of a rank is
known where its trace is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from tracelens_graph.analyses.critical_path.bridges import Bridges, through
from tracelens_graph.analyses.critical_path.causes import NO_CAUSE, levels
from tracelens_graph.analyses.critical_path.collective_points import (
    EARLIEST,
    CollectivePoints,
    PartPoints,
    collective_points,
    parts_on_gpu,
)
from tracelens_graph.analyses.critical_path.points import Edge
from tracelens_graph.analyses.critical_path.rank_answers import Given, Known
from tracelens_graph.analyses.critical_path.rerun import NEVER, Reach, forward
from tracelens_graph.analyses.critical_path.walk import NEAR_NS
from tracelens_graph.analyses.ranks.clocks import RankClock
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.graph.arrays import Places, expanded
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.utils.arrays import Mask, Ns, Rows, narrow


class Meetings:
    """When ranks came to their collectives, and who came last.

    Args:
        traces: the ranks.
        matched: which of their collectives are one; None where none are.
        known: what each rank answered first.

    Attributes:
        part: parts of matched collectives that kernels carried out, those of one rank behind those of the other. Here
            a part is a place in it.
        first: per rank its first part; at the end how many there are.
    """

    def __init__(self, traces: TraceSet, matched: MatchedCollectives | None, known: Sequence[Known]) -> None:
        self._traces, self._matched, self._known = traces, matched, known
        self.part: Rows = np.zeros(0, np.int64) if matched is None else parts_on_gpu(matched)
        rank = self.part if matched is None else matched.trace[self.part]
        self.first = np.searchsorted(rank, np.arange(len(traces) + 1))

    @cached_property
    def found(self) -> CollectivePoints:
        """Points of collectives; points of their parts are their starts, one for each, and then their ends."""
        matched, part = self._matched, self.part
        if matched is None:
            return CollectivePoints(0)
        count = len(part)
        single = np.ones(count, bool)
        for rank, (first, last) in enumerate(pairwise(self.first.tolist())):
            single[first:last] = ~np.isin(matched.node[part[first:last]], self._known[rank].several)
        own = np.arange(count, dtype=np.int32)
        return collective_points(
            matched,
            PartPoints(part, own, count + own, single),
            np.concatenate((self.start_ns, matched.end_ns[part])),
            lambda one: self._known[int(matched.trace[one])].root.get(int(matched.node[one])),
        )

    @cached_property
    def start_ns(self) -> Ns:
        """When each part starts."""
        return np.zeros(0, np.int64) if self._matched is None else self._matched.start_ns[self.part]

    @cached_property
    def met(self) -> Rows:
        """Per part the point of collectives that its end follows from; -1 for none."""
        count = len(self.part)
        met = np.full(count, -1, np.int32)
        moves = self.found.kind == Edge.transfer
        met[self.found.after[moves] - count] = self.found.before[moves] - 2 * count
        return met

    @cached_property
    def arrivals(self) -> tuple[Rows, Rows]:
        """Parts, and the point that each may be the last to come to."""
        comes = self.found.kind == Edge.arrive
        part, point = self.found.before[comes], self.found.after[comes] - 2 * len(self.part)
        for one in self.bridges.over:
            if one.is_joint and self._matched is not None:
                number, order = self._matched.number[one.follows], np.argsort(self.found.collective, kind="stable")
                at, of = expanded(
                    *(np.searchsorted(self.found.collective[order], number, side) for side in ("left", "right"))
                )
                part = np.append(part, np.searchsorted(self.part, one.sends)[of])
                point = np.append(point, order[at])
        return part, point

    @cached_property
    def bridges(self) -> Bridges:
        """What passes ranks without a file."""
        return Bridges() if self._matched is None else through(self._matched)

    @cached_property
    def _arrivals_at(self) -> Places:
        return Places(self.arrivals[1], len(self.found.time))

    @cached_property
    def last(self) -> Rows:
        """Per point of collectives the part that came last to it."""
        part, point = self.arrivals
        last = np.full(len(self.found.time), -1, np.int32)
        at = np.flatnonzero(self.start_ns[part] == self.found.time[point])
        last[point[at]] = part[at]  # of equal indices the last assignment stays, as in `bind`
        return last

    def rank(self, part: int) -> int:
        """The rank of a part."""
        return int(np.searchsorted(self.first, part, "right")) - 1

    def node(self, part: int) -> int:
        """The place of a part among the collectives of its rank."""
        assert self._matched is not None
        return int(self._matched.node[self.part[part]])

    def given(self, clocks: Sequence[RankClock]) -> list[Given]:
        """What each rank must know of the others, but for latencies."""
        found, count = self.found, len(self.part)
        came = np.append(found.time, EARLIEST)[self.met]
        served, whole = np.zeros((2, count), bool)
        served[found.served - count] = True
        whole[found.whole - count] = True
        node = self.part if self._matched is None else self._matched.node[self.part]
        return [
            Given(clock, node[first:last], came[first:last], served[first:last], whole[first:last])
            for clock, (first, last) in zip(clocks, pairwise(self.first.tolist()), strict=True)
        ]

    def near(self, part: Rows) -> tuple[Rows, Rows]:
        """Parts that came nearly as late as the last one to points that begin the transfers of some, and these points.

        Points come with each part that has such.
        """
        at = self._arrivals_at.of(self.met[part])
        other, point = (one[at] for one in self.arrivals)
        near = (self.found.time[point] - self.start_ns[other] < NEAR_NS) & (other != self.last[point])
        return other[near], point[near]

    @cached_property
    def through_ns(self) -> Ns:
        """Per part how much later than it starts it comes: what ranks without a file compute before they send it on."""
        later = np.zeros(len(self.part), np.int64)
        for one in self.bridges.over:
            later[np.searchsorted(self.part, one.sends)] = one.later_ns
        return later

    def again(self, reach: Mapping[int, Reach], through: bool = False) -> Again:
        """The ranks, as each follows from the others.

        Args:
            reach: how each rank follows from the others.
            through: whether what passes ranks without a file takes what it takes at least, with nobody to wait for.
        """
        return Again(self, reach, self.through_ns if through else None)


class Again:
    """Ranks that are run again: points of collectives, the beginning, then what ranks have left.

    Args:
        meetings: where they meet.
        reach: how each rank follows from the others.
        later_ns: per part how much later than it starts it comes.
    """

    def __init__(self, meetings: Meetings, reach: Mapping[int, Reach], later_ns: Ns | None = None) -> None:
        m, self._reach = meetings, dict(sorted(reach.items()))
        self._meetings, origin = m, len(m.found.time)
        part, point = m.arrivals
        by_part = np.argsort(part, kind="stable")
        before, after, moments = [], [], [m.found.time, np.array([EARLIEST])]
        self._ends: list[tuple[int, int, int]] = []
        self._edges: dict[int, tuple[Rows, Rows]] = {}
        self._later: dict[int, Ns] = {}
        points = origin + 1
        for rank, one in self._reach.items():
            first, own = int(m.first[rank]), int(m.first[rank + 1] - m.first[rank])
            behind = points + np.arange(len(one.between_ns) + one.ends)
            # What leads to the start of a part leads on to where it comes.
            starts, others = np.flatnonzero(one.target < own), np.flatnonzero(one.target >= own)
            low, high = (np.searchsorted(part[by_part], first + one.target[starts], side) for side in ("left", "right"))
            arrival, of = expanded(low, high)
            edges = self._edges[rank] = narrow(starts[of]), narrow(others)
            if later_ns is not None:
                self._later[rank] = later_ns[first + one.target[edges[0]]]
            sources = np.concatenate((m.met[first : first + own], behind, [origin]))
            before.append(sources[one.source[np.concatenate(edges)]].astype(np.int32))
            after += [point[by_part[arrival]].astype(np.int32), behind[one.target[others] - own].astype(np.int32)]
            self._ends += [(rank, at, int(end)) for at, end in enumerate(behind[len(one.between_ns) :])]
            moments += [one.between_ns, np.full(one.ends, np.iinfo(np.int64).max)]
            points += len(behind)
        moment, self._before, self._after = np.concatenate(moments), np.concatenate(before), np.concatenate(after)
        level, self._ordered = levels(moment, self._before, self._after)
        self._before, self._after = self._before[self._ordered], self._after[self._ordered]
        self._order = narrow(np.lexsort((level, moment)))

    def _takes(self, weight: str | Sequence[str], without: Mask) -> Ns:
        takes = []
        for rank, one in self._reach.items():
            ns = one.takes_ns(weight if isinstance(weight, str) else weight[rank])
            starts, others = self._edges[rank]
            takes += [ns[starts] + self._later.get(rank, 0) - NO_CAUSE * int(without[rank]), ns[others]]
        return np.concatenate(takes)[self._ordered]

    def ends(self, weight: str | Sequence[str], without: Mask) -> list[tuple[int, int, int]]:
        """Rank, place and moment of all ends.

        Args:
            weight: name of the weights of all ranks, or of each; see `Reach`.
            without: ranks that nobody waits for.
        """
        given = np.zeros(len(self._order), np.int64)
        came = forward(self._before, self._after, self._takes(weight, without), self._order, given)
        return [(rank, at, int(came[end])) for rank, at, end in self._ends]

    def tails(self, rank: int) -> Ns:
        """Per part how much later than its start the first end of a rank must come; `NEVER` if it does not follow."""
        given = np.full(len(self._order), NEVER)
        given[next(end for one, at, end in self._ends if (one, at) == (rank, 0))] = 0
        takes = self._takes("least", np.zeros(len(self._reach), bool))
        later = forward(self._after, self._before, takes, self._order[::-1], given)
        tails = np.full(len(self._meetings.part), NEVER)
        part, point = self._meetings.arrivals
        np.maximum.at(tails, part, later[point])
        return np.where(tails < NEVER // 2, NEVER, tails)
