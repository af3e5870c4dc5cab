"""How far apart the clocks of the ranks of a job are, by the ends of collectives that all ranks leave together.

All-reduce, reduce-scatter, all-gather and barrier end on no rank before every rank has come, and within microseconds on
all. The estimate is robust: a collective without a common end, or one that was matched wrongly, hardly counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracelens_graph.analyses.ranks.parts import Parts

LEAST_ANCHORS = 5
"""Collectives that a rank must share with the others, so that its clock is known."""
_LEAST_FOR_DRIFT_NS = 1_000_000_000
"""Drift of 50 ppm moves a clock by 50 us a second: below that it is lost in noise."""
_MOST_ENDS = 20_000_000
"""Ends that clocks are estimated from: more collectives than that are thinned out."""
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
        drift: per rank by how much it runs faster, as a ratio; 0 where the recording is too short to tell.
        error_ns: per rank the standard error of the offset; infinite where it is not known, and the offset is 0.
        anchors: per rank the number of collectives that tell.
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

    def of(self, times_ns: np.ndarray, clock: np.ndarray) -> np.ndarray:
        """Times, each with the number of the clock that showed it, as the first clock would have shown them."""
        moved = times_ns - self.offset_ns[clock]
        # The drift is a correction of microseconds: as a float it is exact to far less than 1 ns.
        return moved - np.rint(self.drift[clock] * (moved - self.moment_ns)).astype(np.int64)


def clocks_by_ends(parts: Parts, number: np.ndarray, clock_of: np.ndarray) -> Clocks:
    """Clocks by the ends of barriers; of ranks that share a clock, the median counts.

    Args:
        parts: the parts of all ranks.
        number: for each part the number of its collective, -1 for none.
        clock_of: for each rank the number of its clock, from 0 on.
    """
    clocks = int(clock_of.max(initial=-1)) + 1
    rows = np.flatnonzero(parts.ends_together & (number >= 0))
    cell = number[rows] * clocks + clock_of[parts.trace[rows]]
    order = np.lexsort((parts.end_ns[rows], cell))
    cells, first, count = np.unique(cell[order], return_index=True, return_counts=True)
    middle = parts.end_ns[rows][order][first + (count - 1) // 2]
    _, place = np.unique(cells // max(clocks, 1), return_inverse=True)
    shared = np.flatnonzero(np.bincount(place) > 1)
    shared = shared[:: max(1, -(-len(shared) * clocks // _MOST_ENDS))]
    row = np.full(int(place.max(initial=-1)) + 1, -1, np.int64)
    row[shared] = np.arange(len(shared))
    kept = row[place] >= 0
    ends = np.zeros((len(shared), clocks), np.int64)
    known = np.zeros(ends.shape, bool)
    at = (row[place[kept]], cells[kept] % max(clocks, 1))
    ends[at], known[at] = middle[kept], True
    return clocks_of(ends, known)


def clocks_of(ends_ns: np.ndarray, known: np.ndarray) -> Clocks:
    """Clocks by the ends of collectives.

    Args:
        ends_ns: whole numbers, a row per collective and a column per rank.
        known: whether a rank took part in a collective.

    The offset of a rank is that of the median over its collectives; with a drift, a line is fitted through its
    deviations from the median over all ranks, with Cauchy weights.
    """
    ranks = ends_ns.shape[1]
    shared = known & (known.sum(axis=1) > 1)[:, None]
    anchors = shared.sum(axis=0)
    nothing = Clocks(np.zeros(ranks, np.int64), np.zeros(ranks), np.full(ranks, np.inf), anchors, 0)
    if not shared.any():
        return nothing
    base = int(ends_ns[shared].min())
    # Times from the first end on are exact as floats for 104 days.
    ends = np.where(shared, ends_ns - base, np.nan).astype(float)
    # With few collectives no rank has enough: then one with most is the reference.
    first = int(np.argmax(anchors >= min(LEAST_ANCHORS, int(anchors.max()))))
    offset, is_known = _offsets(ends, shared, first)
    rows = (shared & is_known).sum(axis=1) > 1
    if not rows.any():
        return nothing
    ends = ends[rows]
    drift = np.zeros(ranks)
    is_long = float(np.nanmax(ends) - np.nanmin(ends)) >= _LEAST_FOR_DRIFT_NS
    scale = np.full(ranks, np.inf)
    middle = 0.0
    for _ in range(_ROUNDS):
        moment = _medians((ends - offset - drift * (ends - middle))[:, is_known].T)
        middle = float(np.median(moment)) if is_long else 0.0
        at, residual = (moment - middle)[:, None], (ends - moment[:, None])[:, is_known]
        weights, scale[is_known] = _weights(residual - offset[is_known] - drift[is_known] * at)
        slope, start = _lines(at, np.nan_to_num(residual), weights, is_long)
        drift[is_known], offset[is_known] = slope, start
        # Medians over ranks are the clock of no rank, so all count against the reference.
        drift[is_known] -= drift[first]
        offset[is_known] -= offset[first]
    error = np.where(is_known, scale / np.sqrt(np.maximum(anchors, 1)), np.inf)
    error[first] = 0.0
    return Clocks(np.rint(offset).astype(np.int64), drift, error, anchors, base + round(middle))


def _offsets(ends: np.ndarray, shared: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """First estimates of all offsets, and whether there are collectives enough for them.

    Ranks that share no group with the first are reached over others: the nearest first.
    """
    ranks = ends.shape[1]
    offset, is_known = np.zeros(ranks), np.zeros(ranks, bool)
    is_known[first] = True
    while True:
        reference = _medians(np.where(is_known, ends - offset, np.nan).T)
        has = ~np.isnan(reference)
        common = (shared & has[:, None]).sum(axis=0)
        fresh = np.flatnonzero(~is_known & (common >= LEAST_ANCHORS))
        if not len(fresh):
            return offset, is_known
        offset[fresh] = _medians((ends - reference[:, None])[np.ix_(has, fresh)])
        is_known[fresh] = True


def _medians(values: np.ndarray) -> np.ndarray:
    """The median of each column without its NaN; NaN where there is nothing else."""
    ordered = np.sort(values, axis=0)  # NaN comes last
    count = np.maximum((~np.isnan(values)).sum(axis=0), 1)
    at = np.arange(values.shape[1])
    return (ordered[(count - 1) // 2, at] + ordered[count // 2, at]) / 2


def _weights(deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cauchy weights of the deviations in each column, 0 for NaN, and the scale of each column."""
    scale = np.maximum(_NORMAL * _medians(np.abs(deviation - _medians(deviation))), _RESOLUTION_NS)
    return np.nan_to_num(1 / (1 + (deviation / scale) ** 2)), scale


def _lines(at: np.ndarray, values: np.ndarray, weights: np.ndarray, is_long: bool) -> tuple[np.ndarray, np.ndarray]:
    """Slope, and value at 0, of the line through each column of values; without drift a level one."""
    total = weights.sum(axis=0)
    mean = (weights * values).sum(axis=0) / total
    if not is_long:
        return np.zeros(len(mean)), mean
    middle = (weights * at).sum(axis=0) / total
    spread = (weights * (at - middle) ** 2).sum(axis=0)
    covered = (weights * (at - middle) * (values - mean)).sum(axis=0)
    slope = np.divide(covered, spread, out=np.zeros(len(mean)), where=spread > 0)
    return slope, mean - slope * middle
