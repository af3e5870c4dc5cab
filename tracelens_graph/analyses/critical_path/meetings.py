"""Where the ranks of a job meet: when each came to the collectives that kernels carry out, and who came last.

Of each part of a rank in such a collective two moments are known here, its start and its end; all else of a rank is
known where its trace is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
        start_ns: when each part starts.
        found: points of collectives, without their edges.
        met: per part the point of collectives that its end follows from; -1 for none.
        served, whole: per part whether its end follows from that alone, and whether all its ranks are there.
        arrivals: parts, and the point that each may be the last to come to.
        bridges: what passes ranks without a file.
    """

    def __init__(self, traces: TraceSet, matched: MatchedCollectives | None, known: Sequence[Known]) -> None:
        self._matched = matched
        self.bridges = Bridges() if matched is None else through(matched)
        self.part: Rows = np.zeros(0, np.int64) if matched is None else parts_on_gpu(matched)
        self.start_ns = self.part if matched is None else self._of_parts(matched.start_ns)
        rank = self.part if matched is None else self._of_parts(matched.trace)
        self.first = np.searchsorted(rank, np.arange(len(traces) + 1))
        points = CollectivePoints(0) if matched is None else self._points(matched, known)
        count, none = len(self.part), np.zeros(0, np.int32)
        self.met = np.full(count, -1, np.int32)
        moves = points.kind == Edge.transfer
        self.met[points.after[moves] - count] = points.before[moves] - 2 * count
        self.served, self.whole = np.zeros((2, count), bool)
        self.served[points.served - count] = True
        self.whole[points.whole - count] = True
        self.arrivals = points.before[~moves], points.after[~moves] - 2 * count
        self.found = replace(points, before=none, after=none, kind=none, served=none, whole=none)
        if matched is not None:
            self._arrive_over(matched)

    def _of_parts(self, values: np.ndarray) -> np.ndarray:
        """Values of all parts, of those that kernels carried out; not copied where these are all."""
        return values if len(self.part) == len(values) else values[self.part]

    def _points(self, matched: MatchedCollectives, known: Sequence[Known]) -> CollectivePoints:
        """Points of collectives; points of their parts are their starts, one for each, and then their ends."""
        count = len(self.part)
        single = np.ones(count, bool)
        for rank, (first, last) in enumerate(pairwise(self.first.tolist())):
            if len(several := known[rank].several):
                single[first:last] = ~np.isin(matched.node[self.part[first:last]], several)
        own = np.arange(count, dtype=np.int32)
        return collective_points(
            matched,
            PartPoints(self.part, own, count + own, single),
            np.concatenate((self.start_ns, self._of_parts(matched.end_ns))),
            lambda one: known[int(matched.trace[one])].root.get(int(matched.node[one])),
        )

    def _arrive_over(self, matched: MatchedCollectives) -> None:
        """Let parts come to collectives, too, that they lead to over ranks without a file."""
        part, point = self.arrivals
        for one in self.bridges.over:
            if one.is_joint:
                number, order = matched.number[one.follows], np.argsort(self.found.collective, kind="stable")
                at, of = expanded(
                    *(np.searchsorted(self.found.collective[order], number, side) for side in ("left", "right"))
                )
                part = np.append(part, np.searchsorted(self.part, one.sends)[of])
                point = np.append(point, order[at])
        self.arrivals = part, point

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
        came = np.append(self.found.time, EARLIEST)[self.met]
        node = self.part if self._matched is None else self._of_parts(self._matched.node)
        return [
            Given(clock, node[first:last], came[first:last], self.served[first:last], self.whole[first:last])
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
            into = ns[starts] + self._later.get(rank, 0) - NO_CAUSE * int(without[rank])
            takes += [narrow(into), narrow(ns[others])]
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
