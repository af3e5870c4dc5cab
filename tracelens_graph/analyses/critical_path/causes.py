"""Binding causes: of all that a point had to wait for, what came last.

Between two points every route has the same length, so a longest path says nothing; what counts is which of its
candidates determined a point. The candidate binds that would have allowed the point last, if it took as long as causes
of its kind usually do: in a first pass as long as the fastest in the traces, in a second one as long as the median of
those that bound in the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.critical_path.collective_points import (
    EARLIEST,
    CollectivePoints,
)
from tracelens_graph.analyses.critical_path.points import Edge, Inferred, RankPoints, Role
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.matching_notes import notes_on_matching
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.arrays import Places
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows

LEAST_QUANTILE = 0.005

CEILING_NS = {Edge.call: 20_000, Edge.launch: 10_000, Edge.stream: 5_000, Edge.event: 10_000, Edge.sync: 20_000}
"""What the fastest cause of a kind cannot exceed, ns: where all work waits long, as in a full queue, the fastest
that is seen is not the fastest that there is. Only kinds listed here have a latency of their own."""

NO_CAUSE = 2**40
"""So much sooner than its cause may come what does not wait for it, ns."""

_ROUNDS = 64
"""How many points at one moment can follow from each other."""


@dataclass(frozen=True, eq=False, repr=False)
class Causes:
    """All points of a rank on the common clock, the edges between them, and which edge binds each point.

    Attributes:
        clock: times of the rank on the clock that the points are on.
        time: per point the moment, ns.
        level: per point its place among points of one moment that follow from each other.
        row, role: per point its row, -1 without one, and its `Role`.
        before, after, kind: per edge its points, and its `Edge`.
        binding: per point the edge that binds it, -1 for a point that follows from nothing.
        least_ns, usual_ns: per kind of edge the latency of the fastest, and the median of those that bind.
        most_ns: that of the slowest that bind, where other ranks count; None for these alone.
        is_whole: per point whether it ends a part of a matched collective whose ranks are all in the set.
        collective: number of the collective that each of the last points, those of collectives, belongs to.
    """

    clock: Callable[[int, Ns], Ns]
    time: np.ndarray
    level: np.ndarray
    row: np.ndarray
    role: np.ndarray
    before: np.ndarray
    after: np.ndarray
    kind: np.ndarray
    binding: np.ndarray
    least_ns: np.ndarray
    usual_ns: np.ndarray
    is_whole: np.ndarray
    collective: np.ndarray
    most_ns: Ns | None = None

    def __repr__(self) -> str:
        return f"<Causes of {len(self.time):,} points: {len(self.kind):,} edges>"

    @property
    def shift_ns(self) -> int:
        """The start of the rank's trace on the clock that the points are on."""
        return int(self.clock(0, np.zeros(1, np.int64))[0])

    @cached_property
    def into(self) -> Places:
        """Edges by the point that they lead to."""
        return Places(self.after, len(self.time))

    @cached_property
    def _gpu_ends(self) -> tuple[Ns, Rows]:
        """Moments at which GPU events end, ascending, and these points; before them -1, at no moment."""
        points = np.flatnonzero(self.role == Role.gpu_end)
        points = np.append(-1, points[np.argsort(self.time[points], kind="stable")])
        return np.append(EARLIEST, self.time[points[1:]]), points

    def last_ends(self, moments: Ns) -> Rows:
        """Per moment the last point where a GPU event ends then; -1 for none."""
        time, points = self._gpu_ends
        at = np.searchsorted(time, moments, "right") - 1
        return np.where(time[at] == moments, points[at], -1)


def check_gpu_work(counts: Iterable[int]) -> None:
    """Raise an error where no rank has GPU events.

    Raises:
        AnalysisError: none has.
    """
    if not any(counts):
        raise AnalysisError("there are no GPU events, so there is no path to follow through them")


def unbound(points: RankPoints, clock: Callable[[int, Ns], Ns], meet: Callable[[Ns], CollectivePoints]) -> Causes:
    """Points and edges of a rank on the common clock, before it is known what binds.

    Args:
        points: its points.
        clock: as in `Causes`.
        meet: points of collectives, of the moments of its own.
    """
    own = clock(0, points.time)
    found = meet(own)
    replaced = np.zeros(len(own), bool)
    replaced[found.served] = True
    kept = ~((points.kind == Edge.run) & replaced[points.after])
    before = np.concatenate((points.before[kept], found.before))
    after = np.concatenate((points.after[kept], found.after))
    kind = np.concatenate((points.kind[kept], found.kind))
    time = np.concatenate((own, found.time))
    forward = time[before] <= time[after]
    before, after, kind = before[forward], after[forward], kind[forward]
    is_whole = np.zeros(len(time), bool)
    is_whole[found.whole] = True
    level, ordered = levels(time, before, after)
    none = np.zeros(0, np.int64)
    return Causes(
        clock=clock,
        time=time,
        level=level,
        row=np.concatenate((points.row, np.full(len(found.time), -1))),
        role=np.concatenate((points.role, np.full(len(found.time), Role.complete, np.int8))),
        before=before[ordered],
        after=after[ordered],
        kind=kind[ordered],
        binding=none,
        least_ns=none,
        usual_ns=none,
        is_whole=is_whole,
        collective=found.collective,
    )


def bound_alone(made: Causes) -> Causes:
    """The same points, and what binds each with the latencies that they show themselves."""
    least = least_latency(together([latencies(made)]))
    # What binds depends on latencies, and the usual ones on what binds: the least ones make a start.
    usual = bound_latency(together([bound_latencies(bound_by(made, least, least))]), least, 0.5)
    return bound_by(made, least, usual)


def bound_by(made: Causes, least: Ns, usual: Ns) -> Causes:
    """The same points, and what binds each with these latencies."""
    allowed = made.time[made.before] + usual[made.kind]
    return replace(made, binding=bind(allowed, made.after, len(made.time)), least_ns=least, usual_ns=usual)


def ends_of(rank: RankPoints, kernels: Sequence[Sequence[int]], core: Core) -> tuple[Rows, Rows, Mask]:
    """Points where collectives of a rank start and end, by their kernels, and whether these are of one."""
    end_ns = core.columns.end_ns
    opens = np.array([rows[0] for rows in kernels], np.int64)
    closes = np.array([max(rows, key=lambda row: int(end_ns[row])) for rows in kernels], np.int64)
    start = rank.gpu_start[np.searchsorted(rank.gpu_rows, opens)]
    return start, rank.gpu_end[np.searchsorted(rank.gpu_rows, closes)], opens == closes


def bind(allowed: np.ndarray, after: np.ndarray, points: int) -> np.ndarray:
    """Per point the edge into it that allowed it last; of equal ones the last edge; -1 without any."""
    latest = np.full(points, EARLIEST)
    np.maximum.at(latest, after, allowed)
    binding = np.full(points, -1)
    at = np.flatnonzero(allowed == latest[after])
    # Of equal indices the last assignment stays: that is the last edge.
    binding[after[at]] = at
    return binding


# --- latencies --------------------------------------------------------------------------------------------------------

Latencies = Mapping[Edge, tuple[Ns, Codes]]
"""Kind of edge with a latency of its own -> latencies, ascending and no more than twice the ceiling, and how often."""

Counts = Mapping[Edge, Codes]
"""Kind of edge -> for each such latency how often it is."""


def latencies(made: Causes) -> Latencies:
    """Latencies of all edges, but of calls that the work they wait for outlasted: their time shows nothing of them."""
    time, before, after = made.time, made.before, made.after
    ended = np.full(len(time), EARLIEST)
    syncs = made.kind == Edge.sync
    np.maximum.at(ended, after[syncs], time[before[syncs]])
    return _counted(made, ~((made.kind == Edge.call) & (ended[after] > time[before])))


def bound_latencies(made: Causes) -> Latencies:
    """Latencies of the edges that bind."""
    return _counted(made, made.binding[made.after] == np.arange(len(made.kind)))


def _counted(made: Causes, chosen: Mask) -> Latencies:
    found = {}
    for edge, ceiling in CEILING_NS.items():
        own = np.flatnonzero(chosen & (made.kind == edge))
        taken = np.minimum(made.time[made.after[own]] - made.time[made.before[own]], 2 * ceiling)
        found[edge] = np.unique(taken, return_counts=True)
    return found


def together(known: Iterable[Latencies]) -> Counts:
    """The latencies of some ranks counted together."""
    counts = {edge: np.zeros(2 * ceiling + 1, np.int64) for edge, ceiling in CEILING_NS.items()}
    for one in known:
        for edge, (value, count) in one.items():
            counts[edge][value] += count
    return counts


def _at(counts: Counts, edge: Edge, place: Callable[[int], int]) -> int | None:
    """The latency of a kind at a place in their order; None without any."""
    reached = np.cumsum(counts[edge])
    return int(np.searchsorted(reached, place(int(reached[-1])), "right")) if reached[-1] else None


def least_latency(counts: Counts) -> Ns:
    """Per kind of edge the latency of the fastest, ns; 0 for kinds without a latency of their own."""
    least = np.zeros(len(Edge), np.int64)
    least[Edge.maybe] = -NO_CAUSE
    for edge, ceiling in CEILING_NS.items():
        if (found := _at(counts, edge, lambda count: int(LEAST_QUANTILE * (count - 1)))) is not None:
            least[edge] = min(found, ceiling)
    return least


def bound_latency(counts: Counts, least: Ns, quantile: float) -> Ns:
    """Per kind of edge a quantile of the latencies of those that bind, ns; no less than the latency of the fastest.

    Args:
        counts: how often each latency is.
        least: per kind of edge the latency of the fastest.
        quantile: between 0 and 1.
    """
    usual = least.copy()
    for edge in CEILING_NS:
        if (found := _at(counts, edge, lambda count: int(np.ceil(quantile * (count - 1))))) is not None:
            usual[edge] = max(found, int(least[edge]))
    return usual


def levels(time: np.ndarray, before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per point its place among those of its moment, and which edges lead forward in moment and place.

    Edges that would close a circle within one moment do not: clocks of microseconds make such circles.
    """
    level = np.zeros(len(time), np.int32)
    tied = np.flatnonzero(time[before] == time[after])
    one, other = before[tied], after[tied]
    for _ in range(_ROUNDS):
        low = level[other] <= level[one]
        if not low.any():
            break
        np.maximum.at(level, other[low], level[one[low]] + 1)
    # Circles never settle, so what does not lead upwards by now is left out.
    ordered = np.ones(len(before), bool)
    ordered[tied] = level[one] < level[other]
    return level, ordered


def notes_on(
    traces: TraceSet, matched: MatchedCollectives | None, ranks: Sequence[Inferred], found: CollectivePoints
) -> list[str]:
    """What a reader must know of a path over some ranks."""
    notes = [] if matched is None else notes_on_matching(matched)
    notes += [f"{one.name}: {note}" for one, rank in zip(traces, ranks, strict=False) for note in rank.notes]
    if inferred := sum(rank.inferred for rank in ranks):
        notes.append(
            f"waits between streams are not recorded (no cuda_sync rows); {inferred:,} are inferred from the order of "
            "calls"
        )
    if guessed := sum(rank.guessed for rank in ranks):
        notes.append(
            f"{guessed:,} GPU events start long after all that they are known to follow from, and right after work of "
            "another stream: they are taken to have waited for it"
        )
    if found.lost:
        by = f"by up to {found.worst_ns / 1e3:,.1f} us" if found.worst_ns >= 50 else "by less than 0.1 us"
        notes.append(
            f"{found.lost:,} ends of collectives lie before the last rank had come, {by}: clocks disagree, or "
            "collectives are matched wrongly; the path may run over the wrong rank"
        )
    if found.on_host:
        notes.append(
            f"collectives that ran on the host: {found.on_host:,}; waiting for other ranks in them counts as host time"
        )
    if found.guessed:
        notes.append(f"{found.guessed:,} collectives do not say which rank gives or gets: taken from when each ended")
    return notes
