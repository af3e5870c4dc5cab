"""How far apart the clocks of the ranks of a job are, by the ends of collectives that all ranks leave together.

All-reduce, reduce-scatter, all-gather and barrier end on no rank before every rank has come, and within microseconds on
all. The estimate is robust: a collective without a common end, or one that was matched wrongly, hardly counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.ranks.parts import Parts
from tracelens_graph.utils.arrays import Codes, Ns, Rows, narrow

LEAST_ANCHORS = 5
"""Collectives that a rank must share with the others, so that its clock is known."""
_LEAST_BY_NUMBER = 3
"""So many suffice where recorded numbers, not times, show which of them are one."""
_LEAST_FOR_DRIFT_NS = 1_000_000_000
"""Drift of 50 ppm moves a clock by 50 us a second: below that it is lost in noise."""
_ROUNDS = 10
_NORMAL = 1.4826
"""Median absolute deviation -> standard deviation of a normal distribution."""
_RESOLUTION_NS = 1000.0
"""Least scale of the deviations: older traces are written in whole microseconds."""


@dataclass(frozen=True, eq=False)
class Clocks:
    """The clocks of some ranks against that of the first one that is known.

    Attributes:
        offset_ns: per rank what its clock shows more than that one, at `moment_ns`; whole ns.
        drift: per rank by how much it runs faster, as a ratio; 0 where the recording is too short to show it.
        error_ns: per rank the standard error of the offset; infinite where it is not known, and the offset is 0.
        anchors: per rank the number of collectives that show its clock.
        moment_ns: when the offsets hold, on that clock.
    """

    offset_ns: np.ndarray
    drift: np.ndarray
    error_ns: np.ndarray
    anchors: np.ndarray
    moment_ns: int

    def beyond_doubt(self) -> Clocks:
        """The same, without offsets and drifts that are no larger than twice their error."""
        sure = np.abs(self.offset_ns) > 2 * self.error_ns
        return replace(self, offset_ns=np.where(sure, self.offset_ns, 0), drift=np.where(sure, self.drift, 0.0))

    def only(self, clock: int) -> Clocks:
        """One of them alone."""
        own = slice(clock, clock + 1)
        return Clocks(self.offset_ns[own], self.drift[own], self.error_ns[own], self.anchors[own], self.moment_ns)

    def of(self, times_ns: np.ndarray, clock: np.ndarray) -> np.ndarray:
        """Times, each with the number of the clock that showed it, as the first clock would have shown them."""
        moved = times_ns - self.offset_ns[clock]
        # The drift is a correction of microseconds: as a float it is exact to far less than 1 ns.
        return moved - np.rint(self.drift[clock] * (moved - self.moment_ns)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class RankClock:
    """The clock of one rank: what is sent to where its trace is read.

    Attributes:
        shift_ns: what to add to its times to get those of the set.
        clocks: what corrects these, of it alone; None for nothing.
    """

    shift_ns: int
    clocks: Clocks | None

    def __call__(self, _: int, times_ns: Ns) -> Ns:
        """Times of its trace on the common clock."""
        moved = times_ns + self.shift_ns
        return moved if self.clocks is None else self.clocks.of(moved, np.zeros(len(moved), np.int64))


def clocks_by_ends(parts: Parts, number: np.ndarray, clock_of: np.ndarray, on_host: bool = False) -> Clocks:
    """Clocks by the ends of barriers; of ranks that share a clock, the median counts.

    Args:
        parts: the parts of all ranks.
        number: for each part the number of its collective, -1 for none.
        clock_of: for each rank the number of its clock, from 0 on.
        on_host: barriers on the host count, too, which ranks leave less closely together.
    """
    clocks = int(clock_of.max(initial=-1)) + 1
    rows = np.flatnonzero(parts.is_barrier & (on_host | ~parts.on_host) & (number >= 0))
    least = _LEAST_BY_NUMBER if (parts.sequence[rows] >= 0).all() else LEAST_ANCHORS
    return _clocks(_ends_of(parts, rows, number, clock_of), clocks, least)


def _ends_of(parts: Parts, rows: Rows, number: Codes, clock_of: Codes) -> _Ends:
    """Ends of some parts: of a collective the median of those of one clock."""
    clocks = max(int(clock_of.max(initial=-1)) + 1, 1)
    cell = number[rows].astype(np.int64) * clocks + clock_of[parts.trace[rows]]
    rows = rows[np.lexsort((parts.end_ns[rows], cell))]
    cell.sort()
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    middle = rows[first + (np.diff(first, append=len(cell)) - 1) // 2]
    return _Ends(narrow(cell[first] // clocks), narrow(cell[first] % clocks), parts.end_ns[middle])


class Way(NamedTuple):
    """What transfers from one clock to another show: no receiver ends before its sender has begun.

    Attributes:
        source, target: numbers of the clocks.
        least_ns: the least time from the start on the one to the end on the other, each by its own clock.
        takes_ns: the least time that such a transfer takes.
    """

    source: int
    target: int
    least_ns: int
    takes_ns: int


def with_transfers(clocks: Clocks, ways: Sequence[Way]) -> Clocks:
    """The same, with clocks that are not known by ends but by transfers from and to ones that are.

    As between servers of NTP: what a clock is ahead makes the ways to it longer, and those back shorter, by as much.
    """
    offset, error = clocks.offset_ns.copy(), clocks.error_ns.copy()
    if not np.isfinite(error).any() and len(error):
        error[0] = 0.0
    there = {(one.source, one.target): one for one in ways}
    reached = [int(at) for at in np.flatnonzero(np.isfinite(error))]
    for known in reached:
        for (source, target), way in there.items():
            back = there.get((target, source))
            if source != known or back is None or np.isfinite(error[target]):
                continue
            forth_ns, back_ns = way.least_ns - way.takes_ns, back.least_ns - back.takes_ns
            offset[target] = offset[source] + (forth_ns - back_ns) // 2
            error[target] = error[source] + max((forth_ns + back_ns) / 2, _RESOLUTION_NS)
            reached.append(target)
    return replace(clocks, offset_ns=offset, error_ns=error)


class _Ends(NamedTuple):
    """Ends of collectives, of those alone that took part: a job has thousands of groups, and each rank is in a few.

    Attributes:
        collective, rank: number of the collective and of the rank of each end.
        ns: when it was; from some moment on, as a float, which is exact for 104 days.
    """

    collective: np.ndarray
    rank: np.ndarray
    ns: np.ndarray

    def only(self, which: np.ndarray) -> _Ends:
        """Some of them, with collectives numbered from 0 on."""
        _, collective = np.unique(self.collective[which], return_inverse=True)
        return _Ends(narrow(collective), self.rank[which], self.ns[which])

    def shared(self) -> np.ndarray:
        """Whether the collective of each has another end."""
        return np.bincount(self.collective)[self.collective] > 1


def _clocks(ends: _Ends, ranks: int, least: int) -> Clocks:
    """Clocks of some ranks, or of what shares one.

    The offset of a rank is that of the median over its collectives; with a drift, a line is fitted through its
    deviations from the median over all ranks, with Cauchy weights.
    """
    ends = ends.only(ends.shared())
    anchors = np.bincount(ends.rank, minlength=ranks)
    nothing = Clocks(np.zeros(ranks, np.int64), np.zeros(ranks), np.full(ranks, np.inf), anchors, 0)
    if not len(ends.ns):
        return nothing
    base = int(ends.ns.min())
    ends = ends._replace(ns=(ends.ns - base).astype(float))
    # With few collectives no rank has enough: then one with most is the reference.
    first = int(np.argmax(anchors >= min(least, int(anchors.max()))))
    offset, is_known = _offsets(ends, ranks, first, least)
    ends = ends.only(is_known[ends.rank])
    ends = ends.only(ends.shared())
    if not len(ends.ns):
        return nothing
    drift = np.zeros(ranks)
    is_long = float(ends.ns.max() - ends.ns.min()) >= _LEAST_FOR_DRIFT_NS
    scale = np.full(ranks, np.inf)
    middle = 0.0
    for _ in range(_ROUNDS):
        moved = ends.ns - offset[ends.rank] - drift[ends.rank] * (ends.ns - middle)
        moment = _medians(moved, ends.collective, int(ends.collective.max()) + 1)
        middle = float(np.median(moment)) if is_long else 0.0
        at, residual = (moment - middle)[ends.collective], ends.ns - moment[ends.collective]
        weights, found = _weights(residual - offset[ends.rank] - drift[ends.rank] * at, ends.rank, ranks)
        scale[is_known] = found[is_known]
        slope, start = _lines(at, residual, weights, ends.rank, ranks, is_long)
        drift[is_known], offset[is_known] = slope[is_known], start[is_known]
        # Medians over ranks are the clock of no rank, so all count against the reference.
        drift[is_known] -= drift[first]
        offset[is_known] -= offset[first]
    error = np.where(is_known, scale / np.sqrt(np.maximum(anchors, 1)), np.inf)
    error[first] = 0.0
    return Clocks(np.rint(offset).astype(np.int64), drift, error, anchors, base + round(middle))


def _offsets(ends: _Ends, ranks: int, first: int, least: int) -> tuple[np.ndarray, np.ndarray]:
    """First estimates of all offsets, and whether there are collectives enough for them.

    Ranks that share no group with the first are reached over others: the nearest first.
    """
    offset, is_known = np.zeros(ranks), np.zeros(ranks, bool)
    is_known[first] = True
    collectives = int(ends.collective.max()) + 1
    while True:
        known = is_known[ends.rank]
        reference = _medians((ends.ns - offset[ends.rank])[known], ends.collective[known], collectives)
        apart = ends.ns - reference[ends.collective]
        has = ~np.isnan(apart)
        common = np.bincount(ends.rank[has], minlength=ranks)
        fresh = ~is_known & (common >= least)
        if not fresh.any():
            return offset, is_known
        offset[fresh] = _medians(apart[has], ends.rank[has], ranks)[fresh]
        is_known |= fresh


def _medians(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """The median of the values of each group; NaN where it has none."""
    ordered = np.append(values[np.lexsort((values, group))], np.nan)
    count = np.bincount(group, minlength=groups)
    first = np.cumsum(count) - count
    low, high = (np.where(count > 0, first + (count - 1 + up) // 2, len(values)) for up in (0, 1))
    found: np.ndarray = (ordered[low] + ordered[high]) / 2
    return found


def _weights(deviation: np.ndarray, rank: np.ndarray, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Cauchy weights of the deviations of each rank, and the scale of each rank."""
    apart = np.abs(deviation - _medians(deviation, rank, ranks)[rank])
    scale = np.maximum(_NORMAL * _medians(apart, rank, ranks), _RESOLUTION_NS)
    return 1 / (1 + (deviation / scale[rank]) ** 2), scale


def _lines(
    at: np.ndarray, values: np.ndarray, weights: np.ndarray, rank: np.ndarray, ranks: int, is_long: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Slope, and value at 0, of the line through the values of each rank; without drift a level one."""

    def mean_of(some: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.bincount(rank, weights * some, ranks) / total
        return found

    total = np.maximum(np.bincount(rank, weights, ranks), np.finfo(float).tiny)
    mean = mean_of(values)
    if not is_long:
        return np.zeros(ranks), mean
    middle = mean_of(at)
    spread = mean_of((at - middle[rank]) ** 2)
    covered = mean_of((at - middle[rank]) * (values - mean[rank]))
    slope = np.divide(covered, spread, out=np.zeros(ranks), where=spread > 0)
    return slope, mean - slope * middle
