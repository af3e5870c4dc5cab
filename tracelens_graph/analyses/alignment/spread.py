"""How much the work of one side of a comparison varies: from step to step, else among equal work of the part compared.

Events are equal that have one kernel, op and arguments. Those of a step that are equal stand in the same order in each
step, so that each has a **position**, whose durations are compared: a layer that is always slow does not vary. Where no
other step has as many of them, equal events are compared with each other.

Variances are of durations that lie no farther than a few robust deviations from the median of their position, and
moderated: each is averaged with that usual among events of such durations, weighted by degrees of freedom, as of Smyth,
"Linear models and empirical Bayes methods for assessing differential expression" (2004). What the events of a step
have in common is estimated apart, and added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import COMPUTATION, gpu_classes
from tracelens_graph.analyses.timeline.step_breakdown import step_bounds
from tracelens_graph.analyses.timeline.timeline import times_by_group
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.graph.window import Window, whole_window
from tracelens_graph.output.files import TOOL
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows

_CLIP = 5
"""Robust deviations from the median of its position beyond which a duration counts as if it lay there."""
_NEIGHBOURS = 25
"""Groups of events of about equal durations among which a variance is usual."""
_PRIOR = (4.0, 60.0)
"""Degrees of freedom of that, at least and at most."""
_FAR = 2.5
"""Deviations above the median of these beyond which a variance is of work that varies otherwise, as waits do."""
_UNKNOWN = 0.03
"""Relative deviation of events where nothing in a trace repeats."""
_LEAST_NS = 100
"""Deviation of a duration that the clock of a GPU alone may cause."""
_MOST_STEPS = 64
"""Steps of a trace that are looked at: those nearest to the steps compared."""
STEP = "step_time"
"""What the times of steps call how long each takes, host and GPU."""
_LEAST_STEPS = 3
_ODD = 1.15
"""From how many steps on one may be odd, and how many times as long as usual its computation takes then."""
_MAD = 1.4826
"""Deviation of a normal distribution over its median absolute deviation."""


@dataclass(frozen=True)
class Spread:
    """What groups of GPU events take, an entry for each of them, such as the places of one side of a comparison.

    Attributes:
        mean: sum over its positions of their means over steps, ns.
        of_mean: variance of that, ns^2.
        of_one: variance of the time in the part compared, ns^2.
        freedom: degrees of freedom of both.
        steps: most steps that a position of it has durations of.
        of_step: deviation of the time in the part compared that the events of a step have in common, ns; part of
            `of_one`.
    """

    mean: np.ndarray
    of_mean: np.ndarray
    of_one: np.ndarray
    freedom: np.ndarray
    steps: Codes
    of_step: np.ndarray


def _with_other_steps(w: Window, here: Rows) -> tuple[Rows, Codes]:
    """Rows of the GPU events of all steps, ascending, and the step of each; only those given where they lie in none."""
    core = w.core
    step = core.gpu_step[here]
    if w.all_iterations is not None or not len(here) or (step < 0).any():
        return here, np.zeros(len(here), np.int64)
    gpu, steps, of = in_steps(core, core.gpu_rows)
    middle = int(np.median(np.searchsorted(steps, step)))
    is_near = np.abs(of - middle) <= _MOST_STEPS // 2
    if (odd := odd_step(w)) is not None:
        is_near &= steps[of] != odd.row
    is_near |= np.isin(gpu, here)
    return gpu[is_near], of[is_near]


def in_steps(core: Core, events: Rows) -> tuple[Rows, Rows, Codes]:
    """Those of some GPU events that lie in steps, these steps, and the number among them of that of each event."""
    gpu = events[core.gpu_step[events] >= 0]
    steps, of = distinct(core.gpu_step[gpu])
    return gpu, steps, of


class OddStep(NamedTuple):
    """The only step of a trace that takes longer, by far, than the others, which launch as many GPU events.

    Attributes:
        row: the step.
        ratio: its computation over that of the others, in the median.
    """

    row: int
    ratio: float


def odd_step(w: Window) -> OddStep | None:
    """That of the trace of a window; None where no step is, or several are, and of iterations of a server."""
    core = w.core
    gpu, steps, of = in_steps(core, core.gpu_rows)
    if w.all_iterations is not None or len(steps) < _LEAST_STEPS:
        return None
    computes = gpu_classes(core, gpu) == COMPUTATION
    ns = np.bincount(of[computes], core.columns.dur_ns[gpu[computes]], len(steps))
    usual = float(np.median(ns))
    is_odd = ns > _ODD * usual
    counts = np.bincount(of)
    if is_odd.sum() != 1 or len(np.unique(counts)) > 1 or not usual:
        return None
    at = int(is_odd.argmax())
    return OddStep(int(steps[at]), float(ns[at] / usual))


def times_of_steps(w: Window) -> dict[str, Ns]:
    """The rows of the timeline of each step of a trace, ns, devices added up; nothing but where a window is one of
    several steps."""
    core = w.core
    step = core.gpu_step[w.gpu_rows]
    if w.all_iterations is not None or not len(step) or step[0] < 0 or (step != step[0]).any():
        return {}
    gpu, steps, of = in_steps(core, core.gpu_rows)
    if len(steps) < 2 or np.count_nonzero(core.gpu_step[gpu] == step[0]) != len(step):
        return {}
    devices, device = distinct(core.columns.device[gpu])
    times = times_by_group(core, gpu, of * len(devices) + device, len(steps) * len(devices))
    found = {name: ns.reshape(len(steps), -1).sum(axis=1) for name, ns in times.items()}
    return {**found, STEP: _lengths(whole_window(core), steps)}


def step_time(w: Window) -> int:
    """How long the steps of a window take, ns: from where each begins to where it, and the GPU work that it launches,
    has ended; 0 where there are none, of iterations of a server, and in a piece that was cut out of a trace."""
    is_piece = str(w.core.info.metadata.get("generator", "")).startswith(f"{TOOL} ")
    if w.all_iterations is not None or is_piece:
        return 0
    return int(_lengths(w, w.rows_of_kind(Kind.Step)).sum())


def _lengths(w: Window, steps: Rows) -> Ns:
    """How long some steps of a window take, ns."""
    rows, begin, end = step_bounds(w)
    order = np.argsort(rows)
    at = order[np.searchsorted(rows[order], steps)]
    return (end - begin)[at]


class Durations:
    """GPU events of a window beside their equals in other steps, and how much they vary.

    Each event has a position: what stands at the same place in several steps has one. What stands in one step alone
    varies as its equals do.

    Attributes:
        of_step: relative variance that the events of a step have in common, below 0 where it is less than chance.
        freedom_of_step: its degrees of freedom.
    """

    def __init__(self, w: Window, here: Rows) -> None:
        """Look at some rows of GPU events of a window, ascending."""
        core, (rows, step) = w.core, _with_other_steps(w, here)
        is_here, signature = np.isin(rows, here), _signatures(w.core, rows)
        kept, position = _positions(signature, step, is_here)
        ns = core.columns.dur_ns[rows[kept]].astype(float)
        steps = np.bincount(position, minlength=int(position.max(initial=-1)) + 1)
        is_lone = steps[position] == 1
        # What stands alone is compared with its equals, all else with itself in other steps.
        _, group = distinct(2 * signature[kept] + is_lone)
        _, usual = distinct(np.where(is_lone, len(steps) + group, position))
        near = _clipped(ns, usual, group)
        mean = _mean(near, usual)
        off = near - mean[usual]
        groups = int(group.max(initial=-1)) + 1
        of_group = np.zeros(int(usual.max(initial=-1)) + 1, np.int64)
        of_group[usual] = group
        freedom = np.bincount(group, minlength=groups) - np.bincount(of_group, minlength=groups)
        variance, freedom = _moderated(np.bincount(group, off**2, groups), freedom, _mean(near, group))
        others = ~is_lone
        self.of_step, self.freedom_of_step = _of_step(
            off[others], mean[usual][others], variance[group][others], step[kept][others]
        )
        at = np.searchsorted(rows[kept], here)
        self._position, self._variance, self._freedom = position[at], variance[group][at], freedom[group][at]
        self._steps = steps
        self._mean = np.bincount(position, np.where(is_lone, ns, mean[usual]), len(steps)) / steps

    def spread(self, of: Codes, groups: int, in_common: float) -> Spread:
        """How much groups of the events vary.

        Args:
            of: group of each event.
            groups: their number.
            in_common: relative deviation that the events of a step have in common.
        """
        key, group = distinct(of * len(self._steps) + self._position)
        count = np.bincount(group, minlength=len(key))
        first = np.zeros(len(key), np.int64)
        first[group] = np.arange(len(of))
        of_key, at, own = of[first], self._position[first], self._variance[first]
        steps = self._steps[at]

        def total(values: np.ndarray) -> np.ndarray:
            return np.bincount(of_key, values, groups)

        mean = total(count * self._mean[at])
        of_step = in_common * mean
        of_one = total(count * own)
        freedom = total(count * own * self._freedom[first]) / np.maximum(of_one, 1e-9)
        most = np.ones(groups, np.int64)
        np.maximum.at(most, of_key, steps)
        of_mean = total(count**2 * own / steps) + of_step**2 / most
        return Spread(mean, of_mean, of_one + of_step**2, freedom, most, of_step)


def _signatures(core: Core, rows: Rows) -> Codes:
    """A number of the kernel, the op and the arguments of each GPU event."""
    c = core.columns
    op = nearest_above(c, rows, (Kind.Op,))
    called = np.where(op >= 0, c.name[op].astype(np.int64), -1)
    arguments = np.where(op >= 0, c.argset[op].astype(np.int64), -1)
    found = np.zeros(len(rows), np.int64)
    for part in (c.name[rows].astype(np.int64), called, arguments):
        _, found = distinct(found * (int(part.max(initial=0)) + 2) + part + 1)
    return found


def _positions(signature: Codes, step: Codes, is_here: Mask) -> tuple[Rows, Codes]:
    """Which events are looked at, and the position of each: all that are compared, and those of like steps."""
    _, cell = distinct(signature * (int(step.max(initial=0)) + 1) + step)
    order = np.argsort(cell, kind="stable")
    begin = np.searchsorted(cell[order], np.arange(int(cell.max(initial=-1)) + 1))
    rank = np.empty(len(cell), np.int64)
    rank[order] = np.arange(len(cell)) - begin[cell[order]]
    count = np.bincount(cell)
    of_cell = signature[order[begin]]
    # A step is like those compared where it has as many of a signature, all of which are compared there.
    is_whole = np.bincount(cell, is_here) == count
    wanted = np.zeros(int(signature.max(initial=-1)) + 1, np.int64)
    np.maximum.at(wanted, of_cell[is_whole], count[is_whole])
    is_like = (count == wanted[of_cell])[cell]
    base = np.cumsum(wanted) - wanted
    position = np.where(is_like, base[signature] + rank, int(wanted.sum()) + np.arange(len(cell)))
    kept = np.flatnonzero(is_like | is_here)
    _, numbered = distinct(position[kept])
    return kept, numbered


def _mean(values: np.ndarray, group: Codes) -> np.ndarray:
    return np.bincount(group, values) / np.maximum(np.bincount(group), 1)


def _medians(group: Codes, values: np.ndarray) -> np.ndarray:
    """The median of the values of each group; groups are numbered from 0 on, and none is empty."""
    order = np.lexsort((values, group))
    count = np.bincount(group)
    begin = np.cumsum(count) - count
    low, high = (values[order[begin + middle]] for middle in ((count - 1) // 2, count // 2))
    return (low + high) / 2


def _clipped(ns: np.ndarray, usual: Codes, group: Codes) -> np.ndarray:
    """Durations no farther from the median of their equals than some robust deviations of their group."""
    if not len(ns):
        return ns
    middle = _medians(usual, ns)[usual]
    off = np.abs(ns - middle)
    # A median is often one of the values, which then shows nothing of how far they lie from it.
    shows = off > 0
    scale = np.full(int(group.max()) + 1, np.inf)
    if shows.any():
        groups, of = distinct(group[shows])
        scale[groups] = _MAD * _medians(of, off[shows])
    most = _CLIP * np.maximum(scale, _LEAST_NS)[group]
    return np.clip(ns, middle - most, middle + most)


def _moderated(squares: np.ndarray, freedom: Codes, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variances of groups, averaged with those usual among groups of about equal means, and their degrees of freedom.

    Args:
        squares: sum of the squared deviations of each group.
        freedom: degrees of freedom of that.
        mean: mean duration.
    """
    scale = np.maximum(mean, 1) ** 2
    usual, prior = np.full(len(mean), _UNKNOWN**2), np.full(len(mean), _PRIOR[1])
    known = np.flatnonzero(freedom > 0)
    if len(known):
        known = known[np.argsort(mean[known], kind="stable")]
        few = freedom[known]
        relative = squares[known] / few / scale[known]
        # The median of a variance of few degrees of freedom lies below its mean (Wilson and Hilferty).
        shift, off = 1 - 2 / (9 * few), np.sqrt(2 / (9 * few))
        far, width = (shift + _FAR * off) ** 3, min(_NEIGHBOURS, len(known))
        near_ones, counted, far_ones, medians = (
            np.lib.stride_tricks.sliding_window_view(values, width)
            for values in (relative, few, far, relative / shift**3)
        )
        median = np.median(medians, axis=1)
        counted = counted * (near_ones <= far_ones * median[:, None])
        means = (counted * near_ones).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
        near = np.clip(np.searchsorted(mean[known], mean) - width // 2, 0, len(means) - 1)
        usual = means[near]
        prior[:] = _prior(np.log(np.maximum(relative / shift**3, 1e-12) / np.maximum(usual[known], 1e-12)), few)
        prior[known[relative > far * median[near[known]]]] = _PRIOR[0]
    variance = (prior * usual * scale + squares) / (prior + freedom)
    return np.maximum(variance, _LEAST_NS**2), prior + freedom


def _prior(off: np.ndarray, freedom: Codes) -> float:
    """Degrees of freedom that the usual variance counts: the more, the less variances differ beyond chance."""
    half = freedom / 2
    by_chance = float((1 / half + 1 / (2 * half**2) + 1 / (6 * half**3)).mean())
    excess = float((_MAD * np.median(np.abs(off - np.median(off)))) ** 2) - by_chance
    least, most = _PRIOR
    return min(max(2 / excess + 1, least), most) if excess > 0 else most


def _of_step(off: np.ndarray, mean: np.ndarray, variance: np.ndarray, step: Codes) -> tuple[float, int]:
    """Relative variance that the events of a step have in common, less what it may be by chance; and its freedom.

    Args:
        off: how far each event lies from its mean.
        mean: that mean.
        variance: its variance.
        step: its step.
    """
    _, step = distinct(step)
    # Weighted by precision: a collective that waits says little of how fast a step was.
    shift, whole = (np.bincount(step, values) for values in (off * mean / variance, mean**2 / variance))
    freedom = len(whole) - 1
    if freedom < 1:
        return 0.0, 0
    return float(((shift / whole) ** 2).sum() / freedom) - float((1 / whole).mean()), freedom


def in_common(*runs: Durations) -> float:
    """Relative deviation that events of a step have in common in runs of one program; 0 where chance explains it."""
    freedom = sum(run.freedom_of_step for run in runs)
    variance = sum(run.freedom_of_step * run.of_step for run in runs) / max(freedom, 1)
    return float(max(variance, 0.0) ** 0.5)
