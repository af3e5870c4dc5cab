"""The stretch before a late arrival on two ranks: the one that came last, and the median of the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.ranks.chains import Chain, RankChains
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.host_labels import HostLabels
from tracelens_graph.analyses.ranks.parts import POINT_TO_POINT
from tracelens_graph.analyses.shared.gpu_class import COMMUNICATION, gpu_classes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.trace_set import TraceSet


@dataclass(frozen=True)
class Side:
    """What one of the two ranks did in the stretch.

    Attributes:
        ordinal: place of the rank in the set.
        row: the first kernel of its part of the collective.
        chain: what this had to wait for.
        start_ns, end_ns: what of the chain counts; on the clock of its trace.
        host_ns: from when to when the host launched what lies between; on the same clock.
    """

    ordinal: int
    row: int
    chain: Chain
    start_ns: int
    end_ns: int
    host_ns: tuple[int, int]


@dataclass(frozen=True)
class Late:
    """A late arrival.

    Attributes:
        meeting: number of the collective.
        late_ns: how much later than the median of the others the last rank came.
        new_ns: the part of it that was not there at the collective before.
        is_transfer: whether it is a transfer, whose two ranks run different programs.
        before_ns: how much later the last rank was where the stretch begins: at the collective before, or, without
            one, at the beginning of the step.
        is_first: whether there is no collective before.
        host_ran_on: whether the host of the last rank did not wait for what the others waited for since it launched
            its part of the collective before, so that it may have come late to that.
        blamed, median: the two ranks.
    """

    meeting: int
    late_ns: int
    new_ns: int
    is_transfer: bool
    before_ns: int
    is_first: bool
    host_ran_on: bool
    blamed: Side
    median: Side


@dataclass(frozen=True)
class Kernel:
    """GPU work of one name: how often it ran, for how long in all, and the row of the longest."""

    count: int
    ns: int
    row: int

    @property
    def mean_ns(self) -> float:
        """Mean duration; 0 of nothing."""
        return self.ns / self.count if self.count else 0.0


class Kernels:
    """The GPU work of a rank that does not communicate, by when it was launched."""

    def __init__(self, core: Core) -> None:
        c = core.columns
        rows = core.everything.linked_gpu_rows
        rows = rows[gpu_classes(core, rows) != COMMUNICATION]
        launched = c.start_ns[c.parent[rows]]
        order = np.argsort(launched, kind="stable")
        self._core, self._rows, self._launched = core, rows[order], launched[order]

    def within(self, start_ns: int, end_ns: int) -> dict[str, Kernel]:
        """The work that was launched within a span, by name."""
        c = self._core.columns
        rows = self._rows[slice(*np.searchsorted(self._launched, (start_ns, end_ns)))]
        codes, place = np.unique(c.name[rows], return_inverse=True)
        ns = sum_by_group(place, c.dur_ns[rows], len(codes))
        count = np.bincount(place, minlength=len(codes))
        longest = rows[np.lexsort((c.dur_ns[rows], place))[np.cumsum(count) - 1]] if len(codes) else rows
        return {
            self._core.names[code]: Kernel(*told)
            for code, *told in zip(codes.tolist(), count.tolist(), ns.tolist(), longest.tolist(), strict=True)
        }


class Rank:
    """What is asked of one rank, each made when it is first wanted."""

    def __init__(self, core: Core) -> None:
        self.core = core

    @cached_property
    def chains(self) -> RankChains:
        """Its binding causes."""
        return RankChains(self.core)

    @cached_property
    def host(self) -> HostLabels:
        """Its host time."""
        return HostLabels(self.core)

    @cached_property
    def kernels(self) -> Kernels:
        """Its GPU work."""
        return Kernels(self.core)


class Arrivals:
    """Late arrivals of the ranks of a job, and what the two ranks of each did before.

    Args:
        figures: what each collective cost.
        traces: the same ranks, with whole graphs.
    """

    def __init__(self, figures: Figures, traces: TraceSet) -> None:
        self.figures, self.traces = figures, traces
        self.ranks = [Rank(one.core) for one in traces]
        self._m = figures.meetings

    @cached_property
    def _parts(self) -> list[dict[int, int]]:
        """For each rank its part of each collective."""
        found: list[dict[int, int]] = [{} for _ in self.traces]
        for part, trace, meeting in zip(
            range(len(self._m.meeting)), self._m.trace.tolist(), self._m.meeting.tolist(), strict=True
        ):
            if meeting >= 0:
                found[trace][meeting] = part
        return found

    @cached_property
    def _by_start(self) -> list[list[int]]:
        """For each rank its collectives in the order in which it came to them."""
        start = self._m.start_ns
        return [sorted(parts, key=lambda meeting: (start[parts[meeting]], meeting)) for parts in self._parts]

    @cached_property
    def _by_row(self) -> list[dict[int, int]]:
        return [
            {row: meeting for meeting, part in parts.items() for row in self._m.parts.collective(part).rows}
            for parts in self._parts
        ]

    def waited_for(self, ordinal: int, row: int) -> tuple[int, int]:
        """For which rank the kernel of a collective waited, -1 for none that is known, and how long, ns."""
        meeting = self._by_row[ordinal].get(row, -1)
        if meeting < 0:
            return -1, 0
        wait = int(self._m.wait_ns[self._parts[ordinal][meeting]])
        return (int(self._m.trace[self._m.last_part[meeting]]), wait) if wait else (-1, 0)

    def median_of(self, meeting: int, last: int) -> int:
        """The rank with the median start of those that were there before the last: the lower of two."""
        parts = self._m.parts_of(meeting)
        others = parts[self._m.trace[parts] != last]
        order = others[np.argsort(self._m.start_ns[others], kind="stable")]
        return int(self._m.trace[order[(len(order) - 1) // 2]])

    def explain(self, meeting: int, last: int, late_ns: int) -> Late:
        """The stretch before a late arrival on both ranks."""
        median = self.median_of(meeting, last)
        both = (last, median)
        before = self._before(meeting, last, median)
        chains = []
        for ordinal in both:
            floor = None if before is None else self._own(ordinal, self._starts(ordinal, before)[0])
            chains.append(self._chain(ordinal, meeting, floor, self._stops(ordinal, both)))
        aligned = self._aligned(both, chains)
        reference = before if aligned is None else aligned
        starts = [self._window_start(ordinal, meeting, reference, aligned is not None, both) for ordinal in both]
        if aligned is not None:
            ends = [self._own(ordinal, self._starts(ordinal, meeting)[0]) for ordinal in both]
            new = late_ns
        else:
            ends = [chain.ready_ns for chain in chains]
            took = [end - start for start, end in zip(starts, ends, strict=True)]
            new = min(max(took[0] - took[1], 0), late_ns)
        begun = [
            int(self._m.clock_ns(ordinal, np.array([start]))[0]) for ordinal, start in zip(both, starts, strict=True)
        ]
        sides = [
            Side(ordinal, self._first_row(ordinal, meeting), chain, start, end,
                 self._launches(ordinal, meeting, reference, start, end))
            for ordinal, chain, start, end in zip(both, chains, starts, ends, strict=True)
        ]  # fmt: skip
        ran_on = reference is not None and self.ranks[last].chains.reaches(
            chains[0], sides[0].host_ns[0], self._stops(last, both)
        )
        is_transfer = self._m.kind[meeting] in POINT_TO_POINT
        return Late(meeting, late_ns, new, is_transfer, begun[0] - begun[1], reference is None, ran_on, *sides)

    # --- which collective came before ----------------------------------------------------------------------------

    def _before(self, meeting: int, last: int, median: int) -> int | None:
        """The collective of both ranks to which the late one came last before this one; None without one."""
        order = self._by_start[last]
        at = self._places[last][meeting]
        start = self._m.start_ns
        for one in reversed(order[:at]):
            if one in self._parts[median] and start[self._parts[median][one]] < start[self._parts[median][meeting]]:
                return one
        return None

    @cached_property
    def _places(self) -> list[dict[int, int]]:
        return [{meeting: at for at, meeting in enumerate(order)} for order in self._by_start]

    def _aligned(self, both: tuple[int, int], chains: list[Chain]) -> int | None:
        """The collective that the chain of one of the ranks passes: when it ended, both stood at the same place."""
        passed = [
            self._ends[ordinal][chain.passed] for ordinal, chain in zip(both, chains, strict=True) if chain.passed >= 0
        ]
        return max(passed, key=lambda one: int(self._m.last_end_ns[one])) if passed else None

    # --- points of a rank ----------------------------------------------------------------------------------------

    @cached_property
    def _ends(self) -> list[dict[int, int]]:
        """For each rank the points at which its parts of collectives end, and the collectives."""
        return [{} for _ in self.traces]

    def _stops(self, ordinal: int, both: tuple[int, int]) -> dict[int, int]:
        ends = self._ends[ordinal]
        if not ends:
            chains, end_ns = self.ranks[ordinal].chains, self.traces[ordinal].core.columns.end_ns
            for meeting, part in self._parts[ordinal].items():
                rows = self._m.parts.collective(part).rows
                ends[chains.end_of(max(rows, key=lambda row: int(end_ns[row])))] = meeting
        key = both if both[0] == ordinal else both[::-1]
        if key not in self._shared:
            other = self._parts[key[1]]
            self._shared[key] = {point: meeting for point, meeting in ends.items() if meeting in other}
        return self._shared[key]

    @cached_property
    def _shared(self) -> dict[tuple[int, int], dict[int, int]]:
        return {}

    def _first_row(self, ordinal: int, meeting: int) -> int:
        rows = self._m.parts.collective(self._parts[ordinal][meeting]).rows
        start_ns = self.traces[ordinal].core.columns.start_ns
        return min(rows, key=lambda row: int(start_ns[row]))

    def _chain(self, ordinal: int, meeting: int, floor_ns: int | None, stops: dict[int, int]) -> Chain:
        chains = self.ranks[ordinal].chains
        return chains.to(chains.start_of(self._first_row(ordinal, meeting)), floor_ns, stops)

    def _starts(self, ordinal: int, meeting: int) -> tuple[int, int]:
        """Start and end of a rank's part, as recorded on the clock of the set."""
        part = self._parts[ordinal][meeting]
        return int(self._m.parts.start_ns[part]), int(self._m.parts.end_ns[part])

    def _own(self, ordinal: int, time_ns: int) -> int:
        """A recorded time on the clock of the rank's trace."""
        return time_ns - int(self._m.parts.shift_ns[ordinal])

    def _window_start(
        self, ordinal: int, meeting: int, reference: int | None, aligned: bool, both: tuple[int, int]
    ) -> int:
        """From when on the chain of a rank counts."""
        if reference is None:
            return self._begin(ordinal, meeting)
        if aligned:
            return self._own(ordinal, self._starts(ordinal, reference)[1])
        chains = self.ranks[ordinal].chains
        return chains.ready_ns(chains.start_of(self._first_row(ordinal, reference)), self._stops(ordinal, both))

    def _begin(self, ordinal: int, meeting: int) -> int:
        """When the step of a rank's part began on the host; without steps, when its launching threads began."""
        rank, part = self._m.attendances[ordinal], self._parts[ordinal][meeting]
        place = rank.step_of[self._m.node[part]] if rank.step_of else -1
        if place >= 0:
            return rank.steps[place].start_ns
        return self.ranks[ordinal].host.first_ns

    def _launches(
        self, ordinal: int, meeting: int, reference: int | None, start_ns: int, end_ns: int
    ) -> tuple[int, int]:
        """When the host launched a rank's part of the reference, and of the collective; else the times on the GPU."""
        c = self.traces[ordinal].core.columns
        done = int(c.parent[self._first_row(ordinal, meeting)])
        until = int(c.start_ns[done]) if done >= 0 else end_ns
        if reference is None:
            return min(start_ns, until), until
        begun = int(c.parent[self._first_row(ordinal, reference)])
        return min(int(c.start_ns[begun]) if begun >= 0 else start_ns, until), until
