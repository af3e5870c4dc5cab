"""What all ranks of a job do in one step, on the common clock: when they compute, wait for one another, communicate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.rank_pictures.wait_map import LEAST_SHARE, chosen, step_keys
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.meetings import Meetings
from tracelens_graph.graph.intervals import Intervals, merge

MOST_LANES = 48
"""Ranks that are shown; of more, some are chosen."""
MOST_PARTS = 1500
"""Parts of collectives that are shown one by one; further ones are put together."""
MOST_BARS = 12_000
"""Intervals of all lanes; where there are more, near ones become one."""
_FINEST = 4000
"""Parts of the time below which intervals are not told apart, at first."""


@dataclass(frozen=True, eq=False)
class Lane:
    """One rank; times on the common clock, ns.

    Attributes:
        rank: its place in the attendances.
        begins_ns: when its steps begin.
        computing: when it computes.
        waiting, moving: when it waits, and communicates, in collectives that are not shown one by one.
    """

    rank: int
    begins_ns: list[int]
    computing: Intervals
    waiting: Intervals
    moving: Intervals


@dataclass(frozen=True, eq=False)
class StepLanes:
    """A stretch of time over all ranks.

    Attributes:
        step: what stands for the step, None for the whole recording.
        begin_ns, end_ns: the stretch: from the first rank's begin of the step to the last one's end.
        lanes: the ranks.
        parts: parts of collectives that are shown one by one, by collective, then by rank.
        joined: the collectives that several of these are of.
        late_ns: those of them to which a rank comes late enough to matter, and how much later than the median of the
            others.
        notes: what is not shown.
    """

    step: int | None
    begin_ns: int
    end_ns: int
    lanes: list[Lane]
    parts: np.ndarray
    joined: list[int]
    late_ns: dict[int, int]
    notes: list[str]

    @classmethod
    def of(cls, job: Job) -> StepLanes:
        """The step of median duration; without steps the whole recording."""
        m = job.meetings
        step, begin, end = _stretch(m)
        within = (m.end_ns > begin) & (m.start_ns < end)
        # All parts of a collective, so that its line leads to who came after the end of the stretch.
        there = np.flatnonzero(within | np.isin(m.meeting, m.meeting[within & (m.meeting >= 0)]))
        late_by = _late_by(job, there)
        ranks = chosen(late_by, MOST_LANES)
        notes = []
        if len(ranks) < len(m.attendances):
            notes.append(
                f"{len(ranks):,} of {len(m.attendances):,} ranks are drawn: those that come latest, and others at equal"
                " distances"
            )
        there = there[np.isin(m.trace[there], ranks)]
        single = _longest(m, there)
        rest = np.setdiff1d(there, single)
        if len(rest):
            notes.append(f"{len(rest):,} parts of shorter collectives are drawn without lines, near ones as one bar")
        raw = [_lane(m, rank, rest, begin, end) for rank in ranks.tolist()]
        lanes, finest = _coarse(raw, end - begin)
        if finest:
            notes.append(f"gaps of less than {finest / 1e3:,.3g} us between bars are not drawn")
        meeting = m.meeting[single]
        order = np.lexsort((m.trace[single], meeting))
        numbers, count = np.unique(meeting[meeting >= 0], return_counts=True)
        joined = numbers[count > 1].tolist()
        _, later = job.figures.held_up_ns
        late = {at: int(later[at]) for at in joined if later[at] > LEAST_SHARE * (end - begin)}
        return cls(step, begin, end, lanes, single[order], joined, late, notes)


def _stretch(m: Meetings) -> tuple[int | None, int, int]:
    """The step of median duration, mean over its ranks, and when it begins on the first and ends on the last rank."""
    times: dict[int, list[tuple[int, int]]] = {}
    for rank, keys in enumerate(step_keys(m.attendances)):
        steps = m.attendances[rank].steps
        begins = m.clock_ns(rank, np.array([one.start_ns for one in steps], np.int64)).tolist()
        ends = m.clock_ns(rank, np.array([one.end_ns for one in steps], np.int64)).tolist()
        for key, *time in zip(keys, begins, ends, strict=True):
            times.setdefault(key, []).append((time[0], time[1]))
    if not times:
        spans = [m.clock_ns(place, np.array(rank.span_ns)) for place, rank in enumerate(m.attendances)]
        known = np.concatenate([span for span in spans if span[1] > span[0]] or [np.zeros(1, np.int64)])
        return None, int(known.min()), int(known.max())
    mean = {key: sum(end - begin for begin, end in of) / len(of) for key, of in times.items()}
    step = sorted(mean, key=lambda key: (mean[key], key))[(len(mean) - 1) // 2]
    return step, min(begin for begin, _ in times[step]), max(end for _, end in times[step])


def _late_by(job: Job, there: np.ndarray) -> np.ndarray:
    """For each rank how much later than the others it comes to the collectives of some parts, where it is the last."""
    m = job.meetings
    last, later = job.figures.held_up_ns
    at = np.unique(m.meeting[there][m.meeting[there] >= 0])
    at = at[last[at] >= 0]
    return np.bincount(last[at], weights=later[at], minlength=len(m.attendances))


def _longest(m: Meetings, there: np.ndarray) -> np.ndarray:
    """The parts of the collectives that take longest, all of a collective or none; what is not matched comes last."""
    meeting = m.meeting[there]
    key = np.where(meeting >= 0, meeting, len(m) + np.arange(len(there)))
    numbers, place, count = np.unique(key, return_inverse=True, return_counts=True)
    duration = np.bincount(place, weights=(m.end_ns - m.start_ns)[there], minlength=len(numbers))
    order = np.lexsort((-duration, numbers >= len(m)))
    taken = order[np.cumsum(count[order]) <= MOST_PARTS]
    return there[np.isin(place, taken)]


def _lane(m: Meetings, rank: int, rest: np.ndarray, begin: int, end: int) -> Lane:
    attendance = m.attendances[rank]
    own = rest[m.trace[rest] == rank]
    start, stop, wait = m.start_ns[own], m.end_ns[own], m.wait_ns[own]
    steps = m.clock_ns(rank, np.array([one.start_ns for one in attendance.steps], np.int64))
    starts, stops = (m.clock_ns(rank, edges) for edges in attendance.gpu.computing)
    return Lane(
        rank,
        steps[(steps >= begin) & (steps < end)].tolist(),
        _within(starts, stops, begin, end),
        _within(start, start + wait, begin, end),
        _within(start + wait, stop, begin, end),
    )


def _within(start: np.ndarray, stop: np.ndarray, begin: int, end: int) -> Intervals:
    return merge(np.clip(start, begin, end), np.clip(stop, begin, end))


def _coarse(lanes: list[Lane], span: int) -> tuple[list[Lane], int]:
    """Lanes with at most `MOST_BARS` intervals in all, and the gaps that were closed for it, ns."""
    finest, found = 0, lanes
    while sum(len(one[0]) for lane in found for one in (lane.computing, lane.waiting, lane.moving)) > MOST_BARS:
        finest = max(2 * finest, span // _FINEST, 1)
        found = [
            Lane(
                lane.rank,
                lane.begins_ns,
                _closed(lane.computing, finest),
                _closed(lane.waiting, finest),
                _closed(lane.moving, finest),
            )
            for lane in lanes
        ]
    return found, finest


def _closed(intervals: Intervals, finest: int) -> Intervals:
    """Intervals without the gaps that are shorter."""
    start, stop = merge(intervals[0], intervals[1] + finest)
    return start, stop - finest
