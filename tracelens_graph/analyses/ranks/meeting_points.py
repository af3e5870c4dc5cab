"""Collectives among the points of ranks: nobody ends before those have come whom it gets data from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tracelens_graph.analyses.ranks.points import Edge, RankPoints
from tracelens_graph.graph.arrays import distinct, positions_by
from tracelens_graph.graph.collectives import Collective
from tracelens_graph.graph.trace_set import TraceSet

EARLIEST = np.iinfo(np.int64).min
"""Before all moments."""


class Meeting(Protocol):
    """What is read of matched collectives; see `tracelens_graph.analyses.ranks.meetings.Meetings`."""

    @property
    def trace(self) -> np.ndarray:
        """Per part the place of its rank in the set."""
        ...

    @property
    def node(self) -> np.ndarray:
        """Per part its place among the collectives of its rank."""
        ...

    @property
    def meeting(self) -> np.ndarray:
        """Per part the collective that it is of; -1 for none."""
        ...

    @property
    def kind(self) -> Sequence[str]:
        """Per collective its kind."""
        ...

    @property
    def is_barrier(self) -> np.ndarray:
        """Per collective whether it is of a kind that nobody leaves before all have come."""
        ...

    def clock_ns(self, ordinal: int, times: np.ndarray, /) -> np.ndarray:
        """Times of a rank on the clock of all."""
        ...


FROM_ONE = frozenset({"broadcast", "scatter", "send", "recv"})
"""Kinds in which one rank gives and the others get."""

TO_ONE = frozenset({"reduce", "gather"})
"""Kinds in which one rank gets and the others give."""


@dataclass
class Met:
    """Points and edges of collectives over ranks.

    Attributes:
        points: number of points before them.
        time, ordinal, meeting: per point the moment when the last has come, who that is, and number of the meeting.
        before, after, kind: edges.
        served: points that end a rank's part of a collective, and follow from a meeting.
        lost: ends that lie before the last has come, so that nothing can follow.
        worst_ns: how far the worst of these lies before it.
        unled: number of collectives with one source or target where it is not known which rank that is.
    """

    points: int
    time: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    ordinal: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    meeting: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    before: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    after: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    kind: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int8))
    served: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    lost: int = 0
    worst_ns: int = 0
    unled: int = 0


def meet(meetings: Meeting, ranks: Sequence[RankPoints], first: np.ndarray, traces: TraceSet, time: np.ndarray) -> Met:
    """One point per collective between the starts and the ends of all who take part; one per receiver, where one
    rank gives.
    """
    parts = np.flatnonzero(meetings.meeting >= 0)
    trace, number = meetings.trace[parts], meetings.meeting[parts]
    several = np.bincount(number, minlength=len(meetings.kind)) > 1 if len(parts) else np.zeros(0, bool)
    parts, trace, number = parts[several[number]], trace[several[number]], number[several[number]]
    nodes = [traces[at].core.collectives.nodes[node]
             for at, node in zip(trace.tolist(), meetings.node[parts].tolist(), strict=True)]  # fmt: skip
    start, end, single = _ends(nodes, trace, ranks, first, traces)
    met = Met(len(time))
    group = np.full(len(parts), -1)
    gives: list[tuple[int, int]] = []
    joint = np.array([kind not in FROM_ONE | TO_ONE for kind in meetings.kind], bool) | meetings.is_barrier
    group[joint[number]] = number[joint[number]]
    for meeting, of in positions_by(np.where(joint[number], -1, number)):
        if meeting < 0:
            continue
        kind = meetings.kind[meeting]
        source = _source(of, nodes, trace, traces) if kind in FROM_ONE else -1
        if source < 0:
            met.unled += 1
        gives += [(source, place) for place in of.tolist() if source >= 0 and place != source]
    _joint_points(met, group, trace, start, end, single, time)
    if gives:
        source, target = np.array(gives).T
        pair = np.arange(len(source))
        _add(met, np.concatenate((pair, pair)), np.concatenate((start[source], start[target])), pair, end[target],
             single[target], number[target], np.concatenate((trace[source], trace[target])), time)  # fmt: skip
    return met


def _ends(
    nodes: Sequence[Collective], trace: np.ndarray, ranks: Sequence[RankPoints], first: np.ndarray, traces: TraceSet
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points where each part of a collective starts and ends, and whether these are of one kernel."""
    start, end = np.zeros((2, len(nodes)), np.int64)
    single = np.ones(len(nodes), bool)
    for ordinal, of in positions_by(trace):
        rank, end_ns = ranks[ordinal], traces[ordinal].core.columns.end_ns
        opens = np.array([nodes[place].rows[0] for place in of.tolist()], np.int64)
        closes = np.array([max(nodes[place].rows, key=lambda row: int(end_ns[row])) for place in of.tolist()], np.int64)
        start[of] = first[ordinal] + rank.gpu_start[np.searchsorted(rank.gpu_rows, opens)]
        end[of] = first[ordinal] + rank.gpu_end[np.searchsorted(rank.gpu_rows, closes)]
        single[of] = opens == closes
    return start, end, single


def _source(of: np.ndarray, nodes: Sequence[Collective], trace: np.ndarray, traces: TraceSet) -> int:
    """Place of the part whose rank gives, by the rank that is recorded as source; -1 where none is."""
    told = {nodes[place].source_rank for place in of.tolist()} - {None}
    sends = [place for place in of.tolist() if nodes[place].kind == "send"]
    if len(sends) == 1:
        return sends[0]
    if len(told) != 1:
        return -1
    source = told.pop()
    return next((place for place in of.tolist() if traces[int(trace[place])].rank == source), -1)


def _joint_points(
    met: Met, group: np.ndarray, trace: np.ndarray, start: np.ndarray, end: np.ndarray, single: np.ndarray,
    time: np.ndarray,
) -> None:  # fmt: skip
    """Meetings at which nobody ends before all have come."""
    of = np.flatnonzero(group >= 0)
    if len(of):
        numbers, place = distinct(group[of])
        _add(met, place, start[of], place, end[of], single[of], numbers[place], trace[of], time, numbers)


def _add(
    met: Met, place: np.ndarray, starts: np.ndarray, end_place: np.ndarray, ends: np.ndarray, single: np.ndarray,
    number: np.ndarray, trace: np.ndarray, time: np.ndarray, numbers: np.ndarray | None = None,
) -> None:  # fmt: skip
    """New meetings.

    Args:
        met: where they go.
        place, starts: per arrival the meeting it is at, and its point.
        end_place, ends, single: per end the meeting that it follows from, its point, and whether of one kernel.
        number: per end the number of the collective.
        trace: per arrival its rank.
        time: times of all points.
        numbers: number of the collective of each meeting, where that is not one per end.
    """
    count = int(place.max()) + 1
    moment = np.full(count, EARLIEST)
    np.maximum.at(moment, place, time[starts])
    last = np.zeros(count, np.int32)
    is_last = np.flatnonzero(time[starts] == moment[place])
    last[place[is_last]] = trace[is_last]
    point = met.points + len(met.time) + np.arange(count)
    late = moment[end_place] - time[ends]
    fine = late <= 0
    if not fine.all():
        met.lost += int((~fine).sum())
        met.worst_ns = max(met.worst_ns, int(late.max()))
    met.time = np.concatenate((met.time, moment))
    met.ordinal = np.concatenate((met.ordinal, last))
    met.meeting = np.concatenate((met.meeting, number if numbers is None else numbers))
    met.before = np.concatenate((met.before, starts, point[end_place[fine]]))
    met.after = np.concatenate((met.after, point[place], ends[fine]))
    met.kind = np.concatenate(
        (met.kind, np.full(len(starts), Edge.arrive, np.int8), np.full(int(fine.sum()), Edge.transfer, np.int8))
    )
    met.served = np.concatenate((met.served, ends[fine & single]))
