"""What each rank costs a job against the one in which no rank is slower than its like, by a replay.

Ranks of one stage of a pipeline run the same program: the GPU work of each is compared with the median of the others,
step by step. Ranks of different stages are compared by kernels of equal names and inputs. The ideal job of `slowdown`
moves what is too much for a stage to the others, which may take as long; here it is gone. Host time between two calls
is that of the ideal job, the median of equal stretches, and transfers take what they took.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.idle.host_states import PROFILER
from tracelens_graph.analyses.stragglers.job_work import COMPUTATION, HOST, explained
from tracelens_graph.analyses.stragglers.reasons import GPU_REASONS, OF_STATE, PART
from tracelens_graph.analyses.stragglers.work import Work
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.window import step_number
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows

SIGMAS = 4.0
"""GPU work that takes longer than elsewhere by less than so many standard errors does so by chance."""
_OF_MEDIAN = 1.57
"""Variance of the median of many over that of their mean."""
LEAST_EXCESS, SPREADS = 0.02, 3.0
"""Devices differ by this share of their time without a reason worth a name, and by so many standard deviations of the
lower half of the ranks."""
LEAST_COST, LEAST_OF_A_STEP = 0.005, 0.2
"""What ranks must cost: this share of the recording, or this share of one step."""
_PARTS = 2
"""A rank that costs less than one of so many parts of it has no part in it."""
_PROFILER = OF_STATE[PROFILER]
SMALL_SHARE = 0.1
"""A step, or a reason of a rank, with less than this share of the largest is none of its own."""


class Excess(NamedTuple):
    """What a rank did longer than its like in a step.

    Attributes:
        place: place of the rank.
        step: number of the step.
        reason, what: the reason, a word of `REASONS`, and the work with most of it; over all steps.
        ns: how much longer.
    """

    place: int
    step: int | None
    reason: str
    what: str
    ns: int


class _Gpu(NamedTuple):
    """GPU work of a rank.

    Attributes:
        edge: its edges.
        step: of each the number of its step.
        key: of each the number of its name and inputs, the same on all ranks.
        takes: how long each takes, ns.
    """

    edge: Rows
    step: Codes
    key: Codes
    takes: Ns

    def per_step(self, keys: int) -> np.ndarray:
        """Mean time of each key in a step, ns."""
        return np.bincount(self.key, self.takes, keys) / max(len(np.unique(self.step)), 1)


class _Means(NamedTuple):
    """Per key of a rank how many kernels there are, their mean, ns, and the variance of a kernel."""

    number: Codes
    ns: np.ndarray
    variance: np.ndarray

    @classmethod
    def of(cls, gpu: _Gpu, keys: int) -> _Means:
        count = np.bincount(gpu.key, minlength=keys)
        mean = np.bincount(gpu.key, gpu.takes, keys) / np.maximum(count, 1)
        spread = np.bincount(gpu.key, (gpu.takes - mean[gpu.key]) ** 2, keys)
        return cls(count, mean, spread / np.maximum(count - 1, 1))


class _Usual(NamedTuple):
    """GPU work of a rank against that of its like.

    Attributes:
        excess: by which share it takes longer.
        chance: by which share it does so by chance at most.
        ns: per key what a kernel takes there.
    """

    excess: float
    chance: float
    ns: np.ndarray


class Sound:
    """A recorded job against the one in which no rank is slower than its like.

    Args:
        causes: the points of its ranks.
        work: its operations.

    Attributes:
        work: the operations.
    """

    def __init__(self, causes: Causes, work: Work) -> None:
        self._causes, self.work = causes, work

    # --- what takes longer ---

    @cached_property
    def _of(self) -> Mapping[int, Rows]:
        work = self.work
        known = np.flatnonzero(work.kind >= 0)
        return {code: known[at] for code, at in positions_by(work.worker[known] * len(work.kinds) + work.kind[known])}

    def _edges(self, place: int, kind: str) -> Rows:
        return self._of.get(place * len(self.work.kinds) + self.work.kinds.index(kind), np.empty(0, np.int64))

    def _steps(self, place: int, edge: Rows, kind: str) -> Codes:
        """Numbers of the steps of some edges of a rank; -1 without steps."""
        core, rows = self._causes.core(place), self._causes.row[self._causes.after[edge]]
        mark = (core.step if kind == HOST else core.gpu_step)[rows]
        found = np.full(len(mark), -1)
        for one, at in positions_by(mark):
            number = step_number(core.names[core.columns.name[one]]) if one >= 0 else None
            found[at] = -1 if number is None else number
        return found

    @cached_property
    def _gpu(self) -> list[_Gpu]:
        numbers: dict[tuple[str, str], int] = {}
        found = []
        for place in range(len(self.work.workers)):
            core, edge = self._causes.core(place), self._edges(place, COMPUTATION)
            c, rows = core.columns, self._causes.row[self._causes.after[edge]]
            inputs = np.where(c.owner[rows] >= 0, c.argset[c.owner[rows]], -1).astype(np.int64)
            codes, at = np.unique(np.stack([c.name[rows], inputs]), axis=1, return_inverse=True)
            key = [
                numbers.setdefault((core.names[name], core.argsets[one][0] if one >= 0 else ""), len(numbers))
                for name, one in codes.T.tolist()
            ]
            takes = self.work.recorded[edge]
            found.append(_Gpu(edge, self._steps(place, edge, COMPUTATION), np.array(key, np.int64)[at.ravel()], takes))
        return found

    @cached_property
    def _usual(self) -> list[_Usual]:
        """Per rank its GPU work against that of its like."""
        keys = 1 + max((int(one.key.max(initial=-1)) for one in self._gpu), default=-1)
        steps, at = np.unique(np.concatenate([one.step for one in self._gpu]), return_inverse=True)
        place = np.repeat(np.arange(len(self._gpu)), [len(one.edge) for one in self._gpu])
        takes = np.concatenate([one.takes for one in self._gpu])
        of_step = sum_by_group(place * len(steps) + at.ravel(), takes, len(self._gpu) * len(steps)).astype(float)
        of_step = of_step.reshape(len(self._gpu), len(steps))
        of_step[of_step == 0] = np.nan  # not recorded
        means = [_Means.of(one, keys) for one in self._gpu]
        of_key = np.stack([one.per_step(keys) for one in self._gpu])
        error = np.array([float((one.number * one.variance).sum()) for one in means])
        found = []
        for place_of, stage in enumerate(self.work.stage):
            same = self.work.stage == stage
            others = np.flatnonzero(~same)
            same[place_of] = False
            both = []
            if same.any() and len(self._gpu[place_of].edge):
                both.append(_beside(means[place_of], (of_step[place_of], of_step[same]),
                                    (of_key[place_of], of_key[same]), (error[place_of], error[same])))  # fmt: skip
            if len(others):
                both.append(_across(means[place_of], [means[one] for one in others.tolist()]))
            found.append(max(both, key=lambda one: one.excess, default=_none(means[place_of])))
        return found

    @cached_property
    def slow(self) -> list[int]:
        """Places of the ranks whose GPU work takes longer than that of their like, and not by chance."""
        excess = np.array([one.excess for one in self._usual])
        low = np.sort(excess)[: (len(excess) + 1) // 2]
        least = max(float(low[-1]), 0.0) + max(LEAST_EXCESS, SPREADS * 1.48 * float(np.median(low[-1] - low)))
        return np.flatnonzero(excess >= np.maximum(least, [one.chance for one in self._usual])).tolist()

    @cached_property
    def _usual_ns(self) -> Ns:
        """Per edge what it takes where no rank is slower than its like."""
        work = self.work
        usual = work.recorded.copy()
        host = work.kind == work.kinds.index(HOST)
        usual[host] = np.minimum(work.recorded, work.ideal)[host]
        for place in self.slow:
            usual[self._gpu[place].edge] = np.rint(self._usual[place].ns[self._gpu[place].key])
        return usual

    # --- what it costs ---

    @cached_property
    def recorded_ns(self) -> float:
        """The length of all steps as recorded."""
        return self._length_ns(self.work.recorded, [])

    def _length_ns(self, ideal: Ns, kept: Sequence[Rows]) -> float:
        """The length of all steps where some edges take what they took, and others that."""
        mask = np.zeros(len(ideal), bool)
        mask[np.concatenate([*kept, np.empty(0, np.int64)])] = True
        return self.work.steps * replace(self.work, ideal=ideal).length_ns(mask)

    @cached_property
    def _sound_ns(self) -> float:
        return self._length_ns(self._usual_ns, [])

    def _alone_ns(self, place: int, kind: str) -> float:
        """What the recording takes longer for work of a rank where nothing else takes longer than usual."""
        edge = self._edges(place, kind)
        most = int((self.work.recorded - self._usual_ns)[edge].clip(0).sum())
        return self._length_ns(self._usual_ns, [edge]) - self._sound_ns if self._may_count(most) else 0.0

    def cost_ns(self, places: Sequence[int], kind: str) -> int:
        """What the recording takes longer for late work of some ranks, once all other ranks are not late.

        Args:
            places: the ranks.
            kind: the type of operations that count.
        """
        ideal, own = self.work.recorded.copy(), [self._edges(place, kind) for place in places]
        for late in {(one.place, kind_of(one.reason)) for one in self.excesses}:
            ideal[self._edges(*late)] = self._usual_ns[self._edges(*late)]
        return round(self._length_ns(ideal, own) - self._length_ns(ideal, []))

    def counts(self, ns: float) -> bool:
        """Whether what ranks cost is worth a name."""
        return ns >= self._sound_ns * min(LEAST_COST, LEAST_OF_A_STEP / self.work.steps)

    def _may_count(self, ns: float) -> bool:
        """Whether it may be with what other ranks cost for the same reason."""
        return self.counts(_PARTS * ns)

    @cached_property
    def excesses(self) -> list[Excess]:
        """What ranks did longer than their like that costs the job something, step by step."""
        found: list[Excess] = []
        for place in range(len(self.work.workers)):
            costs = {kind: self._alone_ns(place, kind) for kind in (COMPUTATION, HOST)}
            for kind, ns in costs.items():
                if self._may_count(ns) and ns >= SMALL_SHARE * max(costs.values()):
                    found += self._of_kind(place, kind)
        return found

    def _of_kind(self, place: int, kind: str) -> Iterator[Excess]:
        edge = self._edges(place, kind)
        reason, what = explained(self._causes, (self.work.recorded, self._usual_ns), edge, place, kind)
        step = self._steps(place, edge, kind)
        more = (self.work.recorded - self._usual_ns)[edge]
        of_step = {number: int(more[at].sum()) for number, at in positions_by(step)}
        least = SMALL_SHARE * max(of_step.values(), default=0)
        for number, ns in of_step.items():
            # A little more of everything is chance, and what the profiler takes is gone without it.
            if reason not in ("", _PROFILER) and not what.endswith(PART) and ns >= max(least, 1):
                yield Excess(place, None if number < 0 else number, reason, what, ns)


def kind_of(reason: str) -> str:
    """The type of operations that a reason is about."""
    return COMPUTATION if reason in GPU_REASONS else HOST


def _none(own: _Means) -> _Usual:
    return _Usual(0.0, 0.0, own.ns)


def _beside(
    own: _Means,
    of_step: tuple[np.ndarray, np.ndarray],
    of_key: tuple[np.ndarray, np.ndarray],
    error: tuple[float, np.ndarray],
) -> _Usual:
    """GPU work of a rank against that of others with the same program.

    Args:
        own: its kernels.
        of_step: its time in each step and that of the others, ns; NaN where nothing is recorded.
        of_key: its time in a step of each key, and that of the others, ns.
        error: variance of its time and of theirs.
    """
    known = ~np.isnan(of_step[0]) & ~np.isnan(of_step[1]).all(axis=0)
    total = float(of_step[0][known].sum())
    usual = float(np.nanmedian(of_step[1][:, known], axis=0).sum())
    if not usual or not total:
        return _none(own)
    of_median = _OF_MEDIAN * float(np.median(error[1])) / len(error[1])
    ratio = np.divide(np.median(of_key[1], axis=0), of_key[0], out=np.ones(len(own.ns)), where=of_key[0] > 0)
    # What only the others run, such as a kernel for other sizes, is part of what it takes there, too.
    more = float((own.number * own.ns * (1 - ratio)).sum())
    is_left = (own.number * own.ns).sum() * (1 - usual / total)
    share = min(max(is_left / more, 0.0), 1.0) if more > 0 else 0.0
    chance = SIGMAS * (error[0] + of_median) ** 0.5 / usual
    return _Usual(total / usual - 1, chance, own.ns * (1 - share * (1 - ratio)))


def _across(own: _Means, others: Sequence[_Means]) -> _Usual:
    """GPU work of a rank against kernels of equal names and inputs on ranks with other programs."""
    theirs = np.stack([np.where(one.number > 0, one.ns, np.nan) for one in others])
    error = np.stack([np.where(one.number > 0, one.variance / np.maximum(one.number, 1), np.nan) for one in others])
    there: Mask = (own.number > 0) & ~np.isnan(theirs).all(axis=0)
    if not there.any():
        return _none(own)
    ns = own.ns.copy()
    ns[there] = np.nanmedian(theirs[:, there], axis=0)
    of_median = _OF_MEDIAN * np.nanmedian(error[:, there], axis=0) / (~np.isnan(theirs[:, there])).sum(axis=0)
    variance = float((own.number[there] * own.variance[there] + own.number[there] ** 2 * of_median).sum())
    usual = float((own.number * ns).sum())
    return _Usual(float((own.number * own.ns).sum()) / usual - 1, SIGMAS * variance**0.5 / usual, ns)
