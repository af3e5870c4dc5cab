"""Whether all kernels take longer, or less, by one factor: then no kernel is to blame, but the device."""

from __future__ import annotations

from math import exp, log

import numpy as np

from tracelens_graph.utils.arrays import Codes, Ns

CLOCK = "clock, power or bandwidth of the device"
"""What may be why all kernels take longer or less."""

_LEAST_FACTOR = 0.02
"""From which change on a factor of all kernels is one."""
_WIDEST = 0.1
"""How far from the factor a kernel may be, at most; it must be nearer to it than to no change."""
_OF_TIME = 0.8
"""Share of the time of comparable kernels that those have which move by the factor in the median, and ..."""
_MOST = 0.6
"""... share of the different kernels that do, and of the time of their single calls."""
_KERNELS = 3
"""Different kernels that there must be for all of them to show anything."""


def agreed_factor(ratios: np.ndarray, ns: Ns, kernel: Codes) -> float | None:
    """The factor by which all kernels take longer or less; None where they do not agree on one.

    Args:
        ratios: of each call, or of all calls of a kernel together, the time over that of the same elsewhere; above 0.
        ns: their times, as weights.
        kernel: which kernels they are of.
    """
    ratios = np.log(ratios)
    factor = _weighted_median(ratios, ns)
    order = np.argsort(kernel, kind="stable")
    borders = np.flatnonzero(np.diff(kernel[order])) + 1
    by_kernel = np.split(ratios[order], borders)
    if abs(factor) < log(1 + _LEAST_FACTOR) or len(by_kernel) < _KERNELS:
        return None
    width = min(abs(factor) / 2, _WIDEST)
    medians = np.array([np.median(one) for one in by_kernel])
    times = np.array([one.sum() for one in np.split(ns[order], borders)])
    moves = np.abs(medians - factor) <= width
    agrees = times[moves].sum() >= _OF_TIME * ns.sum() and moves.mean() >= _MOST
    # Medians do not see that half of all layers changed. Single calls vary: nearer to the factor than to no change is
    # enough of them.
    off = ratios * np.sign(factor) - abs(factor)
    is_near = (off >= -width) & (off <= _WIDEST)
    return exp(factor) if agrees and ns[is_near].sum() >= _MOST * ns.sum() else None


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values, kind="stable")
    running = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(running, running[-1] / 2)]])
