"""What bound the points of the ranks of a job: each is asked where it is read, and answers in some bytes a collective.

Within a rank everything follows from its own points once it is known when the others had come to its collectives. So a
rank is asked how long its fastest causes take, how long those take that bind, and then, with the usual ones of all
ranks, which collective the start of each collective follows from. The path is followed back over these, from rank to
rank, and the ranks that it leads over are asked for the segments of their stretches. One trace is a job of one rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tracelens_graph.analyses.critical_path.bridges import bridged
from tracelens_graph.analyses.critical_path.causes import (
    Latencies,
    bound_latency,
    check_gpu_work,
    least_latency,
    notes_on,
    together,
)
from tracelens_graph.analyses.critical_path.meetings import Again, Meetings
from tracelens_graph.analyses.critical_path.rank_answers import (
    Did,
    Given,
    Known,
    Leg,
    Stretches,
    bound_latencies_of,
    did_on,
    kernel_names,
    known_of,
    stretches_of,
)
from tracelens_graph.analyses.critical_path.rerun import MOST_QUANTILE, NEVER, Latency
from tracelens_graph.analyses.ranks.clocks import RankClock
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.strangers import of_one_job
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.graph.window import Window, whole_window
from tracelens_graph.schema import HOST_KINDS
from tracelens_graph.utils.arrays import Mask, Ns, Rows


class JobCauses:
    """What bound the points of the ranks of a job, as far as paths and what-if need it.

    Args:
        traces: the ranks.
        matched: which of their collectives are one, in all that was recorded; by default they are matched, and traces
            of other runs left out.

    Attributes:
        traces: the ranks.
        matched: which of their collectives are one; None of one rank alone.
        known: what each rank answered first.
        last_ns: the last GPU end on the clock of the set.
        steps: the steps of the job.
        paths: step, or None for all there is -> its critical path, where that was followed.

    Raises:
        AnalysisError: no rank has a GPU event.
    """

    def __init__(self, traces: TraceSet, matched: MatchedCollectives | None = None) -> None:
        if matched is None and len(traces) > 1:
            matched, ours = of_one_job(traces.whole(), whole=traces)
            traces = ours or traces
        self.traces, self.matched = traces, None if matched is None else bridged(matched)
        matched = self.matched
        self.paths: dict[int | None, Any] = {}
        self._first_given = [Given(self._clock(at)) for at in range(len(traces))]
        found: dict[int, Known] = {}
        self._least = least_latency(together(_first_answers(self.ask(known_of, self._first_given), found)))
        self.known = [found[at] for at in range(len(traces))]
        ends = [one.last_ns for one in self.known if one.last_ns is not None]
        check_gpu_work([len(ends)])
        self.last_ns = max(ends)
        self.steps = joined_steps(step for one in self.known for step in one.steps)
        self.meetings = Meetings(traces, matched, self.known)

    def __repr__(self) -> str:
        return f"<JobCauses of {len(self.traces):,} ranks that meet {len(self.meetings.found.time):,} times>"

    def _clock(self, rank: int) -> RankClock:
        return RankClock(self.traces[rank].offset_ns, None) if self.matched is None else self.matched.rank_clock(rank)

    def ask(self, question: Callable[..., Any], given: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Place and answer of all ranks, each with what is given to it."""
        return self.traces.ask(question, dict(enumerate(given)))

    def over(self, traces: TraceSet) -> JobCauses:
        """The same of windows of the traces."""
        found = copy(self)
        found.traces, found.paths = traces, {}
        for name in ("span", "moments", "stretches"):
            found.__dict__.pop(name, None)
        return found

    @cached_property
    def is_covered(self) -> bool:
        """Whether kernels carried out most collectives; waiting in those on the host is host time."""
        return self.matched is None or 2 * len(np.unique(self.meetings.found.collective)) >= len(self.matched)

    @cached_property
    def notes(self) -> list[str]:
        """What a reader must know."""
        left_out = () if self.matched is None else self.matched.left_out
        known = [one.about for one in self.known]
        return [*left_out, *notes_on(self.traces, self.matched, known, self.meetings.found)]

    @cached_property
    def given(self) -> list[Given]:
        """What each rank must know of the others."""
        least = self._least
        first = [replace(one, least_ns=least) for one in self._met]
        found = self.ask(bound_latencies_of, first)
        usual = bound_latency(together(latencies for _, latencies in found), least, 0.5)
        return [replace(one, usual_ns=usual) for one in first]

    @cached_property
    def _met(self) -> list[Given]:
        """What each rank must know of the others, but for latencies; what was given first where there are none."""
        found = self.meetings.given([one.clock for one in self._first_given])
        return [one if len(one.node) else first for one, first in zip(found, self._first_given, strict=True)]

    @cached_property
    def bounded(self) -> list[Given]:
        """The same, with the latencies of the slowest that bind."""
        found = self.ask(bound_latencies_of, self.given)
        most = bound_latency(together(latencies for _, latencies in found), self._least, MOST_QUANTILE)
        return [replace(one, most_ns=most) for one in self.given]

    @cached_property
    def did(self) -> list[Did]:
        """What each rank did; names that are equal on several are held once."""
        known: dict[tuple[str, ...], tuple[str, ...]] = {}
        found = [Did({}, np.zeros(0, np.int64))] * len(self.traces)
        for rank, did in self.ask(did_on, self.given):
            lanes = {at: replace(one, names=known.setdefault(one.names, one.names)) for at, one in did.lanes.items()}
            found[rank] = Did(lanes, did.moves_ns)
        return found

    # --- paths -------------------------------------------------------------------------------------------------------

    def extent(self, step: int | None) -> tuple[int | None, int]:
        """From when to when a path leads: over a step, over the windows of the traces, or as far as it can be followed.

        Raises:
            AnalysisError: there is no such step, or no GPU event in the windows.
        """
        if step is not None:
            return self.steps.of(step)
        return self.span

    @cached_property
    def span(self) -> tuple[int | None, int]:
        """The same of all that there is."""
        if all(one.is_whole for one in self.traces):
            return None, self.last_ns
        starts, ends = [], []
        for rank, one in enumerate(self.traces):
            window, c = one.window, one.core.columns
            rows = window.gpu_rows
            if len(rows):
                hosts = window.rows_of_kind(*HOST_KINDS)
                first = min(int(c.start_ns[some].min()) for some in (rows, hosts) if len(some))
                start, end = self._clock(rank)(rank, np.array([first, int(c.end_ns[rows].max())])).tolist()
                starts.append(start)
                ends.append(end)
        if not ends:
            raise AnalysisError("the window has no GPU events, so there is no path to follow through it")
        return min(starts), max(ends)

    @cached_property
    def moments(self) -> Ns:
        """When paths end, ascending."""
        return np.unique(np.append(self.steps.end_ns, self.span[1]))

    @cached_property
    def stretches(self) -> Mapping[int, Stretches]:
        """Per rank where its stretches begin that lead to its collectives, and to its ends at `moments`."""
        return dict(self.ask(stretches_of, [(one, self.moments) for one in self.given]))

    def until(self, end: int) -> JobCauses:
        """The same, for paths that end at a moment."""
        found = copy(self)
        found.__dict__.pop("stretches", None)
        found.moments = np.array([end])
        return found

    def sink(self, end: int) -> int:
        """The rank on which a path ends: the last one with a GPU end at that moment."""
        moment = int(np.searchsorted(self.moments, end))
        return max(rank for rank, one in self.stretches.items() if one.sink[moment] > -2)

    def legs(self, start: int | None, end: int) -> list[tuple[int, Leg]]:
        """The stretches of a path and their ranks, in the order of time."""
        return list(self._legs(start, end))[::-1]

    def _legs(self, start: int | None, end: int) -> Iterator[tuple[int, Leg]]:
        m, rank = self.meetings, self.sink(end)
        leg, target = Leg(-1, end, start), int(self.stretches[rank].sink[int(np.searchsorted(self.moments, end))])
        for _ in range(len(m.part) + 1):
            yield rank, leg
            if target < 0 or (start is not None and m.found.time[m.met[m.first[rank] + target]] <= start):
                return
            last = int(m.last[m.met[m.first[rank] + target]])
            rank = m.rank(last)
            leg = Leg(last - int(m.first[rank]), end, start)
            target = int(self.stretches[rank].part[leg.part])

    def kernels(self, parts: Iterable[int]) -> dict[int, str]:
        """Part -> the name of its first kernel."""
        wanted: dict[int, list[int]] = {}
        for part in dict.fromkeys(parts):
            wanted.setdefault(self.meetings.rank(part), []).append(part)
        nodes = {rank: [self.meetings.node(one) for one in of] for rank, of in wanted.items()}
        return {
            part: name
            for rank, names in self.traces.ask(kernel_names, nodes)
            for part, name in zip(wanted[rank], names, strict=True)
        }

    # --- run again ---------------------------------------------------------------------------------------------------

    def rerun(self, again: Again, latency: Latency, step: int | None, without: Mask | None = None) -> tuple[int, int]:
        """When a step begins and ends where ranks follow from one another in other times.

        Without a step 0, and when everything has ended.

        Args:
            again: how ranks follow from one another; the ends of each are all of its GPU ends, and those of each step.
            latency: how long causes last that did not bind.
            step: number of the step.
            without: ranks that nobody waits for, and whose ends do not count.
        """
        without = np.zeros(len(self.traces), bool) if without is None else without
        found = again.ends(latency, without)
        if without.any():
            first = min(one.first_ns for one in self.known if one.first_ns is not None)
            found = [(rank, at, first if without[rank] else end) for rank, at, end in found]
        if step is None:
            return 0, max(end for _, at, end in found if at == 0 and end > NEVER // 2)
        return joined_steps((*self._begins[rank][at - 1], end) for rank, at, end in found if at).of(step)

    @cached_property
    def _begins(self) -> list[list[tuple[int, int]]]:
        """Per rank the number of each of its steps, and when it begins on the host; in the order of the numbers."""
        return [sorted(dict(sorted((step[:2] for step in one.steps), reverse=True)).items()) for one in self.known]


def _first_answers(answers: Iterable[tuple[int, Known]], found: dict[int, Known]) -> Iterator[Latencies]:
    """Latencies of ranks, which are not held; all else goes to `found`."""
    for rank, known in answers:
        yield known.latencies
        found[rank] = replace(known, latencies={})


def job_causes(ranks: Any, matched: MatchedCollectives | None = None) -> JobCauses:
    """What bound the points of some ranks; of one graph it is kept with the graph.

    Args:
        ranks: a set of traces, a graph or a window of one; or `JobCauses`.
        matched: which collectives of the ranks are one; by default they are matched.

    Raises:
        AnalysisError: no rank has a GPU event.
    """
    if isinstance(ranks, JobCauses):
        return ranks
    if isinstance(ranks, Core | Window) and matched is None:
        window = ranks if isinstance(ranks, Window) else whole_window(ranks)
        found = window.whole.once(_alone)
        return found if window.is_whole else found.over(TraceSet.of(window))
    return JobCauses(TraceSet.of(ranks), matched)


def _alone(window: Window) -> JobCauses:
    return JobCauses(TraceSet.of(window))


# --- steps ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of a job: their numbers, ascending, and from which to which moment each lasts on the device.

    A step lasts from the last GPU end of the steps before it to its own; the first begins with its mark on the host.
    """

    number: Rows
    start_ns: Ns
    end_ns: Ns

    def of(self, number: int) -> tuple[int, int]:
        """Start and end of a step.

        Raises:
            AnalysisError: there is no such step, or it launched nothing on a GPU.
        """
        at = int(np.searchsorted(self.number, number))
        if at == len(self.number) or self.number[at] != number:
            there = ", ".join(map(str, self.number.tolist())) or "none"
            raise AnalysisError(f"no rank has GPU work of step {number}; steps with GPU work: {there}")
        return int(self.start_ns[at]), int(self.end_ns[at])


def joined_steps(known: Iterable[tuple[int, int, int]]) -> Steps:
    """The steps of a job by number, begin on the host, and last GPU end of those of its ranks."""
    ends: dict[int, int] = {}
    begin: dict[int, int] = {}
    for number, start, end in known:
        ends[number] = max(end, ends.get(number, end))
        begin[number] = min(start, begin.get(number, start))
    numbers = np.array(sorted(ends), np.int64)
    end_ns = np.maximum.accumulate(np.array([ends[one] for one in numbers.tolist()], np.int64))
    start_ns = np.concatenate(([min(begin[numbers[0]], end_ns[0])], end_ns[:-1])) if len(numbers) else end_ns
    return Steps(numbers, start_ns, end_ns)
