"""Whether all kernels, or all calls of the host, take longer by one factor: then none of them is to blame."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import exp, log
from typing import TypeVar

import numpy as np

from tracelens_graph.utils.arrays import Codes, Ns

Call = TypeVar("Call", bound=Hashable)

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

_LEAST_OF_HOST, _CALLS = 1.05, 5
"""From which factor on all calls of the host take longer, and different calls that there must be."""
_OF_HOST_TIME = 0.75
"""Share of the host's time that those calls have which are nearer to the factor than to no change: they vary."""
_OF_ONE, _OTHERS, _OF_OTHERS = 0.5, 0.75, 0.65
"""A call with this share of the difference is what differs, unless calls with this share of the time of all others, and
this share of these calls, take longer as well."""


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


def shared_factor(takes: Mapping[Call, float], usual: Mapping[Call, float]) -> float | None:
    """How many times as long calls of the host take as usual, if most of them do and none has most of the difference.

    Args:
        takes: calls -> how long all of them took together.
        usual: the same elsewhere; of calls that are not there nothing is known.

    Returns:
        Their sum over the usual sum; None where calls do not agree on it, or take no longer.
    """
    known = [one for one in takes if takes[one] > 0 and usual.get(one, 0) > 0]
    if len(known) < _CALLS:
        return None
    ns, usual_ns = (np.array([of[one] for one in known], float) for of in (takes, usual))
    factor = float(ns.sum() / usual_ns.sum())
    more = ns - usual_ns
    rest = np.arange(len(known)) != more.argmax()
    longer = ns >= factor**0.5 * usual_ns
    all_longer = ns[rest & longer].sum() >= _OTHERS * ns[rest].sum() and longer[rest].mean() >= _OF_OTHERS
    is_one = more.max() >= _OF_ONE * more.sum() and not all_longer
    if factor < _LEAST_OF_HOST or is_one:
        return None
    agrees = ns[longer].sum() >= _OF_HOST_TIME * sum(takes.values())
    return factor if agrees else None
