"""What each rank costs a job against the one in which no rank is slower than its like, by a replay.

Ranks of one stage of a pipeline run the same program: the GPU work of each is compared with the median of the others,
step by step; so are ranks alone in their stages that run kernels of the same names in one order. Ranks of different
stages are compared by kernels of equal names and inputs. The ideal job of `slowdown` moves what is too much for a stage
to the others, which may take as long; here it is gone. Host time between two calls is that of the ideal job, the median
of equal stretches. Transfers take what they took, but on slow links what they take on others: a link is no fault of a
rank, and what hides behind one shows once it is mended.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.critical_path.bridges import ends_elsewhere
from tracelens_graph.analyses.critical_path.job_causes import JobCauses
from tracelens_graph.analyses.critical_path.lanes import Lane
from tracelens_graph.analyses.idle.host_states import PROFILER
from tracelens_graph.analyses.stragglers.even_on_rank import COMPUTATION, HOST, SMALL_SHARE, Even, inputs_on
from tracelens_graph.analyses.stragglers.job_work import work_of_job
from tracelens_graph.analyses.stragglers.reasons import GPU_REASONS, OF_STATE, PART, UNKNOWN
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.utils.arrays import Codes, Mask, Ns

SIGMAS = 4.0
"""GPU work that takes longer than elsewhere by less than so many standard errors does so by chance."""
_MANY = 4
"""Kernels of one name and inputs that show how much they differ in a step."""
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


LaneKey = tuple[int, str, int]


class _Gpu(NamedTuple):
    """GPU work of a rank.

    Attributes:
        step: of each the number of its step.
        key: of each the number of its name and inputs, the same on all ranks.
        takes: how long each takes, ns.
        like: the median of what its like take at the same place, ns; 0 where no other rank has the same there.
    """

    step: Codes
    key: Codes
    takes: Ns
    like: Ns

    def variance(self, keys: int) -> float:
        """Variance of the time of all of it, ns^2: of each around what its like take, times one factor.

        The factor is that of a key in a step, as what strikes one step is no chance; of few in a step that of the key
        times that of all else there.
        """
        key, like = 2 * self.key + (self.like > 0), np.maximum(self.like, 1.0)
        step = np.unique(self.step, return_inverse=True)[1]
        _, of_step, number = np.unique(step * 2 * keys + key, return_inverse=True, return_counts=True)
        is_few, alike = number[of_step] < _MANY, np.where(self.like > 0, 1, 0)
        took, usual = (np.bincount(step, alike * of)[step] - of for of in (self.takes, like))
        like = np.where(is_few & (alike > 0) & (usual > 0), like * took / np.maximum(usual, 1.0), like)
        key = np.unique(np.where(is_few, key, 2 * keys + of_step), return_inverse=True)[1]
        factor = np.bincount(key, self.takes) / np.maximum(np.bincount(key, like), 1)
        spread = np.bincount(key, (self.takes - factor[key] * like) ** 2)
        count = np.bincount(key)
        return float((spread * count / np.maximum(count - 1, 1)).sum())


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

    @classmethod
    def median(cls, ranks: Sequence[_Means]) -> _Means:
        """The same of some ranks, each counting once with its mean; of two the lower one: the other may be slow."""
        number, ns, variance = (np.stack(of) for of in zip(*ranks, strict=True))
        error = variance / np.maximum(number, 1)
        ns[number == 0] = error[number == 0] = np.nan
        count = (number > 0).sum(axis=0)
        found = np.zeros((2, len(count)))
        found[0, count > 0] = np.nanquantile(ns[:, count > 0], 0.5, axis=0, method="lower")
        found[1, count > 0] = _OF_MEDIAN * np.nanmedian(error[:, count > 0], axis=0)
        return cls(count, *found)


class _Usual(NamedTuple):
    """GPU work of a rank against that of its like.

    Attributes:
        excess: by which share it takes longer.
        chance: by which share it does so by chance at most.
        of_step: the same as `excess` of each step; NaN where that is not known.
        usual_ns, pace: per key what a kernel takes there, and per step by which factor more than that, where the like
            run other programs; else each takes what its like at the same place take.
    """

    excess: float
    chance: float
    of_step: np.ndarray
    usual_ns: np.ndarray = np.zeros(0)
    pace: np.ndarray | None = None

    def stands_out(self) -> tuple[bool, float]:
        """Whether it takes longer over all steps, and by how much; else by how much in one of them."""
        always = self.excess >= self.chance
        return always, self.excess if always else float(np.nan_to_num(self.of_step, nan=-1.0).max(initial=-1.0))


class Usual:
    """What work of ranks takes where no rank is slower than its like.

    Args:
        job: the ranks.
        stage: per rank its pipeline stage.
        even: what it would take where work is even.
        link_ns: per part of a collective how much longer that takes as its link is slow.

    Attributes:
        slow: place of a rank whose GPU work takes longer than that of its like, and not by chance -> numbers of the
            steps in which it does; all where it does over all of them.
        even: per rank what its work takes.
    """

    def __init__(self, job: JobCauses, stage: Codes, even: Sequence[Even], link_ns: Ns) -> None:
        first, part = job.meetings.first, job.meetings.part
        self._link_ns = [link_ns[part[slice(*first[at : at + 2].tolist())]] for at in range(len(even))]
        self._did, self._moves_ns = [one.lanes for one in job.did], [one.moves_ns for one in job.did]
        self._there = [bool(one.lanes) for one in even]
        self._stage = stage
        self._keys: dict[tuple[str, str], int] = {}
        inputs = [of for _, of in sorted(job.ask(inputs_on, list(job.given)), key=lambda one: one[0])]
        self._key = [
            {key: self._numbers(self._did[at][key], of) for key, of in lanes.items()} if self._there[at] else {}
            for at, lanes in enumerate(inputs)
        ]
        self._team = self._teams()
        self._like = self._like_of()
        self._gpu = [self._gpu_of(at) for at in range(len(even))]
        found = self._compared()
        excess, chance = (np.array(of) for of in zip(*((one.excess, one.chance) for one in found), strict=True))
        of_step = np.stack([one.of_step for one in found])
        always = excess >= np.maximum(_standing_out(excess), chance)
        # What strikes each rank in turn shows in steps alone.
        by_chance = chance * (~np.isnan(of_step)).sum(axis=1) ** 0.5
        # Ranks beside one that is struck seem faster than their like, which is no measure of how much steps differ.
        least = _standing_out(np.maximum(of_step, -2 * LEAST_EXCESS))
        struck = (of_step >= np.maximum(least, by_chance[:, None])) | always[:, None]
        self.slow = {at: set(self._steps[struck[at]].tolist()) for at in np.flatnonzero(struck.any(axis=1)).tolist()}
        self.even = [self._even(at, one, found[at]) for at, one in enumerate(even)]

    def _numbers(self, lane: Lane, inputs: Sequence[str]) -> Codes:
        both = zip(lane.names, inputs, strict=True)
        return np.array([self._keys.setdefault(one, len(self._keys)) for one in both], np.int64)

    def _teams(self) -> Codes:
        """Per rank a number, the same for ranks of one stage; of those alone in theirs for those that run the same."""
        alone = np.bincount(self._stage)[self._stage] == 1
        numbers: dict[object, int] = {}
        runs = [sorted((key, lane.names) for key, lane in lanes.items() if key[1] == "gpu") for lanes in self._did]
        both = zip(self._stage.tolist(), alone.tolist(), runs, strict=True)
        return np.array([numbers.setdefault(tuple(ran) if one else at, len(numbers)) for at, one, ran in both])

    def _like_of(self) -> list[dict[LaneKey, Ns]]:
        """Per rank and lane what its work takes on the median of the ranks that do the same there; 0 if few do."""
        alike: dict[tuple[int, LaneKey, bytes], list[int]] = defaultdict(list)
        ranks = Counter[tuple[int, LaneKey]]()
        for place, lanes in enumerate(self._key):
            for lane, keys in lanes.items():
                alike[int(self._team[place]), lane, keys.tobytes()].append(place)
                ranks[int(self._team[place]), lane] += 1
        found: list[dict[LaneKey, Ns]] = [{} for _ in self._key]
        for (team, lane, _), places in alike.items():
            takes = np.array([self._did[place][lane].takes for place in places], np.int64)
            low, high = np.sort(takes, axis=0)[[(len(places) - 1) // 2, len(places) // 2]]
            for own, place in zip(takes, places, strict=True):
                # Of two in the middle the other one: half of the ranks may be slow.
                found[place][lane] = np.where(own > low, low, high) * (1 < len(places) > ranks[team, lane] // 2)
        return found

    def _gpu_of(self, place: int) -> _Gpu:
        parts = [np.empty((4, 0), np.int64)]
        for lane, keys in self._key[place].items():
            takes, like = self._did[place][lane].takes.astype(np.int64), self._like[place][lane]
            parts.append(np.stack([np.full(len(takes), lane[0]), keys, takes, like])[:, takes >= 0])
        return _Gpu(*np.concatenate(parts, axis=1))

    def _compared(self) -> list[_Usual]:
        """Per rank its GPU work against that of its like."""
        gpu, keys = self._gpu, len(self._keys)
        steps, at = np.unique(np.concatenate([one.step for one in gpu]), return_inverse=True)
        self._steps = steps
        if not len(steps):  # no rank has GPU work
            return [_none(0)] * len(gpu)
        place = np.repeat(np.arange(len(gpu)), [len(one.takes) for one in gpu])
        takes, key = (np.concatenate(of) for of in zip(*((one.takes, one.key) for one in gpu), strict=True))
        means = [_Means.of(one, keys) for one in gpu]
        mean = np.concatenate([of.ns[one.key] for of, one in zip(means, gpu, strict=True)])
        cell, cells = place * len(steps) + at.ravel(), len(gpu) * len(steps)
        of_step, by_mean = (np.bincount(cell, of, cells).reshape(-1, len(steps)) for of in (takes, mean))
        of_step[of_step == 0] = np.nan  # not recorded
        own_pace = of_step / by_mean
        error = np.array([one.variance(keys) for one in gpu])
        across: dict[int, tuple[_Means, np.ndarray]] = {}
        for stage in np.unique(self._stage).tolist():
            others = np.flatnonzero(self._stage != stage)
            if len(others):
                there = _Means.median([means[one] for one in others.tolist()])
                # By the same times for all: the mean of one that is slow in a step is too much for its other steps.
                usual = np.bincount(cell, there.ns[key], cells).reshape(-1, len(steps))
                pace, paces = np.ones(len(steps)), of_step[others] / usual[others]
                known = ~np.isnan(paces).all(axis=0)
                pace[known] = np.nanquantile(paces[:, known], 0.5, axis=0, method="lower")
                across[stage] = there, pace
        found = []
        for rank, stage in enumerate(self._stage.tolist()):
            same = self._team == self._team[rank]
            same[rank] = False
            both = []
            if same.any() and len(gpu[rank].takes):
                both.append(_beside(of_step[rank], of_step[same], error[rank], error[same]))
            if stage in across:
                both.append(_across(means[rank], own_pace[rank], *across[stage]))
            found.append(max(both, key=_Usual.stands_out, default=_none(len(steps))))
        return found

    def _even(self, place: int, even: Even, found: _Usual) -> Even:
        """What work of a rank takes: on the GPU what it took unless it is slow; transfers as they did."""
        usual: dict[LaneKey, Ns] = {}
        slow = self.slow.get(place, ())
        share = dict(zip(self._steps.tolist(), self._shares(place, found) if slow else (), strict=False))
        for key, lane in even.lanes.items():
            takes = self._did[place][key].takes
            if key[1] == "host":
                usual[key] = lane
            elif key[0] in slow:
                there = np.rint(takes * share[key[0]][self._key[place][key]]).astype(np.int64)
                like = self._like[place][key]
                usual[key] = np.where(takes >= 0, np.where((found.pace is None) & (like > 0), like, there), -1)
            else:
                usual[key] = takes.astype(np.int64)
        takes, link_ns = self._moves_ns[place], self._link_ns[place]
        is_slow = (link_ns > 0) & (takes >= 0)
        moves = np.where(is_slow, np.maximum(takes - link_ns, 0), np.where(even.kind < 0, even.moves_ns, -1))
        return replace(even, lanes=usual, moves_ns=moves, kind=np.where(is_slow, -1, even.kind))

    def _in_steps(self, place: int, of: np.ndarray | None = None) -> np.ndarray:
        """Time of GPU work of a rank, or of something else the sum, in each step by key; all 0 where none is known."""
        gpu, keys, steps = self._gpu[place], len(self._keys), len(self._steps)
        at = np.searchsorted(self._steps, gpu.step) * keys + gpu.key
        return np.bincount(at, gpu.takes if of is None else of, steps * keys).reshape(steps, keys)

    def _shares(self, place: int, found: _Usual) -> np.ndarray:
        """Per step and key the share of its time that a kernel of a rank takes on its like."""
        took = self._in_steps(place)
        if found.pace is not None:
            usual = self._in_steps(place, found.usual_ns[self._gpu[place].key]) * found.pace[:, None]
            if len(self.slow[place]) == len(self._steps):  # by how much it is slow over all of them is known better
                usual *= took.sum() / (1 + found.excess) / usual.sum()
            return np.divide(usual, took, out=np.ones(took.shape), where=took > 0)
        same = self._team == self._team[place]
        same[place] = False
        theirs = np.stack([self._in_steps(at) for at in np.flatnonzero(same).tolist()])
        theirs[~theirs.any(axis=2)] = np.nan  # not recorded
        known = ~np.isnan(theirs).all(axis=(0, 2))
        ratio = np.ones(took.shape)
        usual = np.nanmedian(theirs[:, known], axis=0)
        ratio[known] = np.divide(usual, took[known], out=ratio[known], where=took[known] > 0)
        # What only the others run, such as a kernel for other sizes, is part of what it takes there, too.
        more, left = (took * (1 - ratio)).sum(axis=1), took.sum(axis=1) * (1 - 1 / (1 + found.of_step))
        part = np.divide(left, more, out=np.zeros(len(more)), where=more > 0)
        return 1 - np.clip(part, 0, 1)[:, None] * (1 - ratio)

    def longer_ns(self, place: int) -> dict[int, int]:
        """Number of a step -> how much longer GPU work of a rank takes than that of its like, chance included."""
        gpu = self._gpu[place]
        steps, at = np.unique(gpu.step, return_inverse=True)
        ns = sum_by_group(at, np.maximum(gpu.takes - gpu.like, 0), len(steps))
        return dict(zip(steps.tolist(), ns.tolist(), strict=True))

    def more_ns(self, place: int, kind: int) -> dict[int, int]:
        """Number of a step -> by how much work of a rank takes longer, ns."""
        found: dict[int, int] = {}
        for key, usual in self.even[place].lanes.items():
            if (key[1] == "host") == (kind == HOST):
                more = np.where(usual >= 0, self._did[place][key].takes - usual, 0)
                found[key[0]] = found.get(key[0], 0) + int(more.sum())
        return found


class Sound:
    """A recorded job against the one in which no rank is slower than its like.

    Args:
        job: its ranks.
        link_ns: per part of a collective how much longer that takes as its link is slow.

    Attributes:
        is_mended: whether links are slow, and ranks cost what they would once these are mended.
        is_at_least: whether ranks may cost more, as of some without a file it is not known what they wait for.
    """

    def __init__(self, job: JobCauses, link_ns: Ns) -> None:
        self._steps: frozenset[int] | None = None
        self._lengths_ns: dict[bytes, float] = {}
        self._link_ns, self.is_mended = link_ns, bool(link_ns.any())
        self._numbers, self._lasts_ns = job.steps.number, job.steps.end_ns - job.steps.start_ns
        self.is_at_least = job.matched is not None and bool(ends_elsewhere(job.matched))
        self._work = work_of_job(job, self._instead)

    def within(self, steps: Iterable[int]) -> Sound:
        """The same of some steps: of what a rank costs over all the part that its work takes longer in them."""
        found = copy(self)
        found._steps = frozenset(steps)
        return found

    def _of_steps(self, of_step: Mapping[int, int]) -> int:
        return sum(ns for step, ns in of_step.items() if self._steps is None or step in self._steps)

    def _instead(self, job: JobCauses, stage: Codes, even: list[Even]) -> list[Even]:
        self._usual = Usual(job, stage, even, self._link_ns)
        return self._usual.even

    def _length_ns(self, kept: bool, but: Iterable[tuple[int, int]] = ()) -> float:
        """The length of all steps where work takes what it took, or would, but for types of operations of ranks."""
        which = np.full((len(self._work.workers), len(self._work.kinds)), kept)
        for one in but:
            which[one] = not kept
        if (key := which.tobytes()) not in self._lengths_ns:
            self._lengths_ns[key] = self._work.steps * self._work.length_ns(which)
        return self._lengths_ns[key]

    @property
    def recorded_ns(self) -> float:
        """The length of the steps as recorded."""
        if self._steps is None:
            return self._work.took_ns
        there = np.isin(self._numbers, list(self._steps))
        return self._work.took_ns * float(self._lasts_ns[there].sum()) / max(float(self._lasts_ns.sum()), 1.0)

    @property
    def _part(self) -> float:
        return 1.0 if self._steps is None else len(self._steps) / max(len(self._numbers), 1)

    def _alone_ns(self, place: int, kind: int) -> float:
        """What the recording takes longer for work of a rank where nothing else takes longer than usual."""
        if not self._may_count(self._work.excess_ns[place, kind]):
            return 0.0
        return self._length_ns(False, [(place, kind)]) - self._length_ns(False)

    def cost_ns(self, places: Sequence[int], kind: int) -> int:
        """What the steps take longer for late work of some ranks, once no other rank is late.

        Args:
            places: the ranks.
            kind: the type of operations that count.
        """
        late = {(one.place, kind_of(one.reason)) for one in self._excesses}
        more_ns = self._length_ns(True, late - {(place, kind) for place in places}) - self._length_ns(True, late)
        more = [self._usual.more_ns(place, kind) for place in places]
        share = sum(map(self._of_steps, more)) / max(sum(sum(one.values()) for one in more), 1)
        return round(more_ns * share)

    def longer_ns(self, place: int) -> int:
        """How much longer the work of a rank takes than that of its like, which is what it costs at most."""
        return sum(map(self._of_steps, (self._usual.longer_ns(place), self._usual.more_ns(place, HOST))))

    def counts(self, ns: float) -> bool:
        """Whether what ranks cost is worth a name."""
        return ns >= self._part * self._length_ns(False) * min(LEAST_COST, LEAST_OF_A_STEP / self._work.steps)

    def _may_count(self, ns: float) -> bool:
        """Whether it may be with what other ranks cost for the same reason."""
        return self.counts(_PARTS * ns)

    @property
    def excesses(self) -> list[Excess]:
        """What ranks did longer than their like that costs the job something, step by step."""
        return [one for one in self._excesses if self._steps is None or one.step in self._steps]

    @cached_property
    def _excesses(self) -> list[Excess]:
        found: list[Excess] = []
        for place in range(len(self._work.workers)):
            costs = {kind: self._alone_ns(place, kind) for kind in (COMPUTATION, HOST)}
            for kind, ns in costs.items():
                if self._may_count(ns) and ns >= SMALL_SHARE * max(costs.values()):
                    found += self._of_kind(place, kind)
        return found

    def _of_kind(self, place: int, kind: int) -> list[Excess]:
        reason, what = self._work.explain(place, kind)
        # A little more of everything is chance, and what the profiler takes is gone without it.
        if reason in ("", UNKNOWN, _PROFILER) or what.endswith(PART):
            return []
        of_step = self._usual.more_ns(place, kind)
        least = max(SMALL_SHARE * max(of_step.values(), default=0), 1)
        return [
            Excess(place, step if len(self._numbers) else None, reason, what, ns)
            for step, ns in of_step.items()
            if ns >= least
        ]


def kind_of(reason: str) -> int:
    """The type of operations that a reason is about."""
    return COMPUTATION if reason in GPU_REASONS else HOST


def _standing_out(excess: np.ndarray) -> float:
    """From which excess on ranks, or steps of them, stand out from the lower half of all that is known."""
    known = np.sort(excess[~np.isnan(excess)])
    if not len(low := known[: (len(known) + 1) // 2]):
        return LEAST_EXCESS
    return max(float(low[-1]), 0.0) + max(LEAST_EXCESS, SPREADS * 1.48 * float(np.median(low[-1] - low)))


def _none(steps: int) -> _Usual:
    return _Usual(0.0, 0.0, np.full(steps, np.nan))


def _beside(own: np.ndarray, others: np.ndarray, error: float, of_others: np.ndarray) -> _Usual:
    """GPU work of a rank against that of others with the same program.

    Args:
        own, others: its time in each step and that of the others, ns; NaN where nothing is recorded.
        error, of_others: variance of its time and of theirs.
    """
    known = ~np.isnan(own) & ~np.isnan(others).all(axis=0)
    like = np.full(len(known), np.nan)
    like[known] = np.nanmedian(others[:, known], axis=0)
    total, usual = float(own[known].sum()), float(like[known].sum())
    if not usual or not total:
        return _none(len(known))
    of_median = _OF_MEDIAN * float(np.median(of_others)) / len(of_others)
    return _Usual(total / usual - 1, SIGMAS * (error + of_median) ** 0.5 / usual, own / like - 1)


def _across(own: _Means, own_pace: np.ndarray, others: _Means, pace: np.ndarray) -> _Usual:
    """GPU work of a rank against kernels of equal names and inputs on ranks with other programs, of a known pace."""
    there: Mask = (own.number > 0) & (others.number > 0)
    if not there.any():
        return _none(len(pace))
    ns = np.where(there, others.ns, own.ns)
    of_median = others.variance[there] / others.number[there]
    variance = float((own.number[there] * own.variance[there] + own.number[there] ** 2 * of_median).sum())
    usual = float((own.number * ns).sum())
    excess = float((own.number * own.ns).sum()) / usual - 1
    of_step = own_pace / pace * (1 + excess) - 1
    return _Usual(excess, SIGMAS * variance**0.5 / usual, of_step, ns, pace)
