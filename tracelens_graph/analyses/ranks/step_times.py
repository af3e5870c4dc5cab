"""How long steps of a job take, and how much of them is communication and waiting, over all ranks and rank by rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.ranks.attendance import Attendance
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.graph.intervals import Intervals, length, length_before, merge
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

RANK_TIMES = TableSchema(
    "rank_times",
    "How long a step of a job takes, and how much of it is communication and waiting.",
    {
        "time": Column.key("what is measured", "of a step"),
        "mean_ms": Column(
            "mean over steps on the device and ranks; without steps over the ranks, from first to "
            "last GPU event. The last step of a recording ends with its last GPU event, so it lacks "
            "the pause before the next one",
            "ms",
            heading="ms",
            figure="ms",
        ),
        "percent": Column("share of the steps", "%", heading="%", figure="percent"),
        "most_ms": Column(
            "mean over the steps of the rank that has the most", "ms", heading="most ms", figure="most_ms"
        ),
        "most_trace": Column.text("name of the trace of that rank", "most on"),
        "least_ms": Column("mean over the steps of the rank that has the least", "ms", heading="least ms"),
        "least_trace": Column.text("name of the trace of that rank", "least on"),
        "meaning": Column.text("what it is, in words"),
    },
    ordered=True,
)


ROW_MEANING = {
    "step": "a step on the device of a rank; without steps the time from first to last GPU event",
    "computing": "computation runs on the GPU; of ranks with GPU work alone, as nothing tells when the host computes",
    "communication": "a collective runs, waiting included",
    "exposed": "a collective runs and no computation on the GPU",
    "waiting": "a collective runs, but other ranks have not come",
    "exposed_waiting": "waiting, and no computation runs on the GPU",
    "copying": "neither computation nor a collective runs, but other work of the GPU, mostly copies and fills; of "
    "ranks with GPU work alone",
    "idle": "nothing runs on the GPU, which waits for its host; of ranks with GPU work alone. With computing, exposed "
    "and copying it is their whole step",
}
"""Row of `rank_times` -> what it is."""
_OF_GPU = ("computing", "copying", "idle")


@dataclass(frozen=True)
class _Rank:
    """The times of one rank, ns, summed over the steps that were looked at."""

    rank: Attendance
    steps: int
    times: Mapping[str, int]


class StepTimes:
    """Times of steps over all ranks.

    Args:
        figures: what each collective cost.
    """

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    @cached_property
    def _ranks(self) -> list[_Rank]:
        return [self._of_rank(trace) for trace in range(len(self._figures.meetings.attendances))]

    def _of_rank(self, trace: int) -> _Rank:
        m = self._figures.meetings
        rank = m.attendances[trace]
        own = np.flatnonzero(m.trace == trace)
        start = m.parts.start_ns[own] - m.parts.shift_ns[trace]
        communicating = merge(start, m.parts.end_ns[own] - m.parts.shift_ns[trace])
        waiting = merge(start, start + m.wait_ns[own])  # what was not matched waits for nobody
        spans = _spans(rank)
        computing = rank.gpu.computing
        told = _common(_any(communicating, computing), spans)
        active = _common(_any(communicating, rank.gpu.busy), spans)
        times = {
            "step": length(spans),
            "computing": _common(computing, spans),
            "communication": _common(communicating, spans),
            "exposed": _common(communicating, spans) - _common(_both(communicating, computing), spans),
            "waiting": _common(waiting, spans),
            "exposed_waiting": _common(waiting, spans) - _common(_both(waiting, computing), spans),
            "copying": active - told,
            "idle": length(spans) - active,
        }
        return _Rank(rank, max(len(rank.steps), 1), times)

    def table(self) -> Table:
        """Times of a step, mean over steps and ranks; see `RANK_TIMES`."""
        rows = []
        ranks = [one for one in self._ranks if one.times["step"]]
        if any(one.rank.steps for one in ranks):  # the others have no step to measure
            ranks = [one for one in ranks if one.rank.steps]
        with_gpu = [one for one in ranks if one.rank.has_gpu_work]
        for name, meaning in ROW_MEANING.items() if ranks else ():
            of = with_gpu if name in _OF_GPU else ranks
            if not of:
                rows.append(dict.fromkeys(RANK_TIMES) | {"time": name, "meaning": meaning})
                continue
            ns, steps = sum(one.times[name] for one in of), sum(one.steps for one in of)
            whole = sum(one.times["step"] for one in of)
            most, least = (pick(of, key=lambda one: one.times[name] / one.steps) for pick in (max, min))
            rows.append(
                {
                    "time": name,
                    "mean_ms": ns / steps / 1e6,
                    "percent": 100 * ns / whole,
                    "most_ms": most.times[name] / most.steps / 1e6,
                    "most_trace": most.rank.name,
                    "least_ms": least.times[name] / least.steps / 1e6,
                    "least_trace": least.rank.name,
                    "meaning": meaning,
                }
            )
        return RANK_TIMES.of_records(rows, self._title(bool(with_gpu)))

    def _title(self, on_gpu: bool) -> str:
        m = self._figures.meetings
        number = f"{len(m.attendances):,} rank{'s' * (len(m.attendances) != 1)}"
        if not any(one.steps for one in m.attendances):
            return f"Times of {m.part}, mean of {number}"
        where = "on the device of a rank" if on_gpu else "on the host of a rank"
        return f"Times of a step {where}, mean over all steps of {number}"


def _spans(rank: Attendance) -> Intervals:
    """The time of all steps of a rank; without any, that of its GPU work, else of its collectives."""
    start, end = rank.measured_ns
    return np.array([start]), np.array([end])


def _common(intervals: Intervals, spans: Intervals) -> int:
    """Length of intervals within others."""
    return int((length_before(intervals, spans[1]) - length_before(intervals, spans[0])).sum())


def _any(first: Intervals, second: Intervals) -> Intervals:
    """What either of two sets of disjoint intervals covers."""
    return merge(np.concatenate((first[0], second[0])), np.concatenate((first[1], second[1])))


def _both(first: Intervals, second: Intervals) -> Intervals:
    """The common parts of two sets of disjoint intervals."""
    edges = np.unique(np.concatenate((*first, *second)))
    if len(edges) < 2:
        return edges[:0], edges[:0]
    middle_in = [_covers(one, edges[:-1]) for one in (first, second)]
    here = middle_in[0] & middle_in[1]
    return merge(edges[:-1][here], edges[1:][here])


def _covers(intervals: Intervals, at: np.ndarray) -> np.ndarray:
    """Whether disjoint intervals cover the time right after each of some instants."""
    place = np.searchsorted(intervals[0], at, "right") - 1
    end = np.append(intervals[1], np.iinfo(np.int64).min)  # the last entry stands for "before the first"
    covered: np.ndarray = at < end[place]
    return covered
