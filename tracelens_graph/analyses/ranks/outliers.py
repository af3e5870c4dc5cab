"""Which of some links of equal kind and size are slow: by gaps between them, and by how much durations vary."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tracelens_graph.utils.arrays import Mask

FACTOR, FACTOR_OF_FEW, FACTOR_OF_TWO = 1.25, 1.5, 3.0
"""How many times slower a slow link is: with `ENOUGH` collectives and three links to compare with; else; with less
than three collectives."""
ENOUGH = 5
GAP = 1.15
"""The fastest slow link is this much slower than the slowest of the others."""
_SIGMAS = 4.0
_LEAST_SIGMA = 0.02
"""Durations of equal collectives differ by that share at least, whatever a few of them show."""


def slow_ones(
    values: Sequence[np.ndarray],
    contended: np.ndarray,
    least_ns: float,
    has_one_cause: Callable[[Mask], bool] | None = None,
) -> Mask:
    """Which of some links of equal kind and size are slow.

    Sorted by their medians, those are slow that lie beyond a gap, are slower than the median of the others by a factor
    that neither the spread of collectives of one link nor that between links accounts for, and are the smaller half:
    or, if more, have something in common that none of the others has.

    Args:
        values: durations of the collectives of each link, ns.
        contended: share of the time in which ranks of each do other things: what has more of it may take longer.
        least_ns: difference from which on it counts.
        has_one_cause: whether the links of a mask, and no others, have something in common.
    """
    slow = np.zeros(len(values), bool)
    if len(values) < 2:
        return slow
    medians, counts = np.array([np.median(one) for one in values]), np.array([len(one) for one in values])
    spreads = [np.log(one / np.median(one)) for one in values if len(one) >= 3]
    within = max(_deviation(np.concatenate(spreads)) if spreads else 0.0, _LEAST_SIGMA)
    order = np.argsort(medians, kind="stable")
    ratio = medians[order][1:] / medians[order][:-1]
    for first in (np.flatnonzero(ratio >= GAP) + 1).tolist():
        fast, rest = order[:first], order[first:]
        base, busy = float(np.median(medians[fast])), float(np.median(contended[fast]))
        between = _deviation(np.log(medians[fast])) if len(fast) >= 3 else 0.0
        factor = np.where((counts[rest] >= ENOUGH) & (len(fast) >= 3), FACTOR, FACTOR_OF_FEW)
        factor = np.where(counts[rest] < 3, FACTOR_OF_TWO, factor)
        noise = np.exp(_SIGMAS * np.maximum(1.2533 * within / np.sqrt(counts[rest]), between))
        least = np.maximum(factor, noise) * (1 + np.maximum(contended[rest] - busy, 0))
        if (medians[rest] < base * least).any() or (medians[rest] - base < least_ns).any():
            continue
        slow[rest] = True
        if 2 * len(rest) <= len(values) or (has_one_cause is not None and has_one_cause(slow)):
            return slow
        slow[:] = False
    return slow


def _deviation(values: np.ndarray) -> float:
    """Standard deviation, by the middle of the values."""
    return float(1.4826 * np.median(np.abs(values - np.median(values))))
