"""The stretch before a late arrival on two ranks: the one that came last, and the one with the median start.

The stretch begins at the collective that both ranks took part in before. Where what one of the two did afterwards had
to wait for its end, both stood at the same place then, and all lateness is new. An all-reduce that runs beside
computation makes nobody wait; then the stretch is from where the ranks could have come to it to where they could
have come to the next one, and lateness that was there already is not new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.stragglers.chains import Chain
from tracelens_graph.analyses.stragglers.rank_work import HostLabels, RankWork, pipelines, shared_ends
from tracelens_graph.analyses.stragglers.slow_hosts import slow_hosts, totals_of
from tracelens_graph.graph.deferred import Deferred
from tracelens_graph.graph.trace_set import TraceSet

_MOST_KNOWN = 64
"""Ranks for which what was found in them is held."""
_READ, _READ_EVENTS = 4, 400_000
"""How many where that holds graphs that are read again when needed; more as long as they have no more events."""

_WOKEN_NS = 20_000
"""Who waited no longer than this within a collective did not wait for its end; what starts so soon after it did."""


@dataclass(frozen=True)
class Side:
    """What one of the two ranks did in the stretch.

    Attributes:
        rank: the rank.
        chain: what the start of its part of the collective had to wait for.
        start_ns, end_ns: what of the chain counts; on the clock of its trace.
        host_ns: from when to when the host launched what lies between; on the same clock.
    """

    rank: RankWork
    chain: Chain
    start_ns: int
    end_ns: int
    host_ns: tuple[int, int]


@dataclass(frozen=True)
class Late:
    """A late arrival.

    Attributes:
        collective: number of the collective.
        late_ns: how much later than the median of the others the last rank came.
        new_ns: the part of it that is new since the collective before.
        before_ns: how much later the last rank was where the stretch begins: at the collective before, or, without
            one, at the beginning of the step.
        recorded_ns: how much later the recording of the last rank began.
        since: number of the collective at whose end the stretch begins; None for the beginning of the step.
        blamed, median: the two ranks.
    """

    collective: int
    late_ns: int
    new_ns: int
    before_ns: int
    recorded_ns: int
    since: int | None
    blamed: Side
    median: Side

    @property
    def is_first(self) -> bool:
        """Whether there is no collective before."""
        return self.since is None

    def host_ran_on(self) -> bool:
        """Whether nothing held the last rank's host up since it launched its part of the collective before.

        The others may have waited there meanwhile; then it was late before, though that did not show.
        """
        side, shared = self.blamed, shared_ends(self.blamed.rank, self.median.rank)
        return not self.is_first and side.rank.chains.reaches(side.chain, side.host_ns[0], shared)


class Arrivals:
    """Late arrivals of the ranks of a job.

    Args:
        figures: what each collective cost.
        traces: the same ranks, with whole graphs.

    Attributes:
        is_held: whether the graphs are held, and not read again when needed.
    """

    def __init__(self, figures: Figures, traces: TraceSet) -> None:
        self.figures, self.traces = figures, traces
        self._m = figures.matched
        self.is_held = not any(isinstance(one.graph, Deferred) for one in traces)
        largest = max((one.info.events for one in traces), default=0)
        again = max(_READ, _READ_EVENTS // max(largest, 1))
        self.rank = lru_cache(_MOST_KNOWN if self.is_held else min(again, _MOST_KNOWN))(self._rank)

    def _rank(self, ordinal: int, on_gpu: bool = True) -> RankWork:
        return RankWork(self._m, ordinal, self.traces[ordinal].core, on_gpu)

    def is_known(self, collective: int, last: int) -> bool:
        """Whether the rank that came last and the median one both took part with a kernel, or both without."""
        parts = self._m.parts_of(collective)
        both = parts[np.isin(self._m.trace[parts], (last, self.median_of(collective, last)))]
        return len({self._m.parts.form_of(part).on_host for part in both.tolist()}) == 1

    def stretch(self, collective: int, last: int, late_ns: int) -> Late:
        """The stretch before a late arrival.

        Args:
            collective: number of the collective.
            last: place of the rank that came last.
            late_ns: how much later than the median of the others it came.

        Raises:
            KeyError: the collective is not known of both ranks, see `is_known`.
        """
        median = self.median_of(collective, last)
        if collective not in self.rank(last).parts:
            return self._stretch_on_host(collective, self.rank(last, False), self.rank(median, False), late_ns)
        ranks = (self.rank(last), self.rank(median))
        stops = [shared_ends(*ranks), shared_ends(*ranks[::-1])]
        before = self._before(collective, *ranks)
        chains = [
            one.chains.to(one.point(collective), None if before is None else one.start_ns(before), ends)
            for one, ends in zip(ranks, stops, strict=True)
        ]
        passed = [one.ends[chain.passed] for one, chain in zip(ranks, chains, strict=True) if chain.passed >= 0]
        if passed:
            aligned = max(passed, key=lambda one: int(self._m.last_end_ns[one]))
            reference: int | None = aligned
            starts = [one.end_ns(aligned) for one in ranks]
            ends = [one.start_ns(collective) for one in ranks]
            new = late_ns
        else:
            reference = before
            starts = [
                one.begin_ns(collective) if before is None else one.chains.ready_ns(one.point(before), shared)
                for one, shared in zip(ranks, stops, strict=True)
            ]
            ends = [chain.ready_ns for chain in chains]
            new = min(max((ends[0] - starts[0]) - (ends[1] - starts[1]), 0), late_ns)
        sides = [
            Side(one, chain, start, end, self._launches(one, collective, reference, start, end))
            for one, chain, start, end in zip(ranks, chains, starts, ends, strict=True)
        ]
        return self._late(collective, late_ns, new, reference, sides)

    def _stretch_on_host(self, collective: int, last: RankWork, median: RankWork, late_ns: int) -> Late:
        """As `stretch`, of a collective without kernels, which the host waits for if it comes to the next one later."""
        ranks = (last, median)
        before = self._before(collective, last, median)
        ends = [one.start_ns(collective) for one in ranks]
        if before is None:
            starts = [one.begin_ns(collective) for one in ranks]
        else:
            starts = [one.end_ns(before) for one in ranks]
            apart = [end - start for start, end in zip(starts, ends, strict=True)]
            begun = median.start_ns(before)
            ran_on = median.own_ns(begun, starts[1]) > starts[1] - begun - _WOKEN_NS
            if ran_on or min(apart) < 0 or apart[1] <= _WOKEN_NS < apart[0]:  # at last the median one queued up
                starts = [one.start_ns(before) for one in ranks]
        own = [one.own_ns(start, end) for one, start, end in zip(ranks, starts, ends, strict=True)]
        of_step = [one.own_of_step_ns(collective) for one in ranks]
        # What others wait for in a step is no more than the rank did longer in it.
        new = max(min(own[0] - own[1], of_step[0] - of_step[1], late_ns), 0)
        sides = [
            Side(one, Chain(end), start, end, (start, end)) for one, start, end in zip(ranks, starts, ends, strict=True)
        ]
        return self._late(collective, late_ns, new, before, sides)

    def _late(self, collective: int, late_ns: int, new_ns: int, since: int | None, sides: Sequence[Side]) -> Late:
        # A trace's own clock is 0 at its first event.
        moments = [self._m.clock_ns(side.rank.ordinal, np.array([side.start_ns, 0])) for side in sides]
        before, recorded = (moments[0] - moments[1]).tolist()
        return Late(collective, late_ns, new_ns, before, recorded, since, *sides)

    def median_of(self, collective: int, last: int) -> int:
        """The rank with the median start of those that were there before a late one: the lower of two."""
        parts = self._m.parts_of(collective)
        order = parts[np.argsort(self._m.start_ns[parts], kind="stable")]
        place = int(np.flatnonzero(self._m.trace[order] == last)[0])
        earlier = order[:place] if place else np.roll(order, -1)[:-1]
        return int(self._m.trace[earlier[(len(earlier) - 1) // 2]])

    def _before(self, collective: int, last: RankWork, median: RankWork) -> int | None:
        """The collective of both ranks to which the late one came last before this one; None without one."""
        start = self._m.start_ns
        own = start[median.parts[collective]]
        for at in range(last.place[collective] - 1, -1, -1):
            part = median.parts.get(last.order[at])
            if part is not None and start[part] < own:
                return last.order[at]
        return None

    def _launches(
        self, rank: RankWork, collective: int, reference: int | None, start_ns: int, end_ns: int
    ) -> tuple[int, int]:
        """When the host launched a rank's part of the reference, and of the collective; else the times on the GPU."""
        until = rank.launched_ns(collective, end_ns)
        begun = start_ns if reference is None else rank.launched_ns(reference, start_ns)
        return min(begun, until), until

    @cached_property
    def slow_hosts(self) -> list[str]:
        """Per rank the threads on which all calls take longer than on the others; empty where graphs are not held."""
        if not self.is_held:
            return [""] * len(self.traces)
        return slow_hosts([totals_of(one.core, HostLabels(one.core)) for one in self.traces])

    @cached_property
    def pipeline(self) -> list[int]:
        """For each rank the number of its pipeline; see `pipelines`."""
        return pipelines(self._m)[0].tolist()
