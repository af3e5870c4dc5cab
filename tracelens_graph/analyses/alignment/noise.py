"""What of a change is more than noise: intervals of places, of families of them, and of totals.

Intervals of one comparison hold all together, but for one comparison in five hundred (Bonferroni):

* of a **place** the change of what it takes in the mean over steps, far durations moved in, plus and minus a quantile
  of Student's distribution;
* of a **family**, the places of one op or of one category of kernels, the ratio of both sides: the mean of the
  logarithms of the places' ratios, weighted by their precision, so that small changes that agree are proof together.
  Where the ratios differ beyond chance, their own variance counts (DerSimonian and Laird), so that one of several that
  moved is no change of all;
* of **totals** the change of the mean over steps; of the GPU time that of its places. Where that is within noise, as
  waits of collectives make it, what its places prove by themselves still counts.

Two runs of one program may differ by more than their steps do. If the ratios of places do so beyond chance, that is
added to their variances, up to a limit beyond which work is not taken for equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.alignment.cause_words import Word, of_any_build
from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.places import Place
from tracelens_graph.analyses.alignment.spread import Durations, in_common, times_of_steps
from tracelens_graph.categories.kernels import kernel_categories
from tracelens_graph.utils.arrays import Codes, Mask, Rows


class Proof(Word):
    """What shows a change to be no noise."""

    structure = "structure", "other kernels, calls or arguments: never noise"
    interval = "interval", "the interval of its change leaves out 0"
    step = "step", "what is compared differs by more than its noise, though all steps together do not"
    family = "family", "only together with the other places of its op, or of its category of kernels"
    places = "places", "of a total: proven places and families add up to a change, though not to all of it"
    noise = "noise", "nothing: it changed by less than its noise"


_FALSE_ALARMS = 0.002
"""Share of comparisons of equal programs in which an interval leaves out the truth, at most."""
_SHARES = {"place": 0.5, "category": 0.25, "op": 0.25}
"""What kinds of intervals take of that."""
_OF_TOTALS = 0.001
"""The same share for each total."""
_BETWEEN_RUNS = 0.01
"""Relative deviation of equal work between runs, at most."""
_BEYOND_CHANCE = 3.0
"""Standard deviations of the sum of squares (chi squared) by which ratios of one family differ beyond chance."""
_OF_RATIO = 0.5
"""Share of the ratio of a family, as logarithm, by which its calls move in the median where most of them do."""
ALL = "all places with the same kernels"


@dataclass(frozen=True)
class Family:
    """Places of one op, or of one category of kernels, with the same kernels on both sides.

    Attributes:
        name: the op or the category.
        places: their positions in `Diff.places`.
        ratio: the time of all of them on the second side over that on the first.
        low, high: bounds of the ratio of a place of them.
    """

    name: str
    places: Rows
    low: float
    ratio: float
    high: float

    @property
    def is_proven(self) -> bool:
        """Whether the bounds leave out 1, on the side to which all of them together changed."""
        return (self.low > 1 and self.ratio > 1) or (self.high < 1 and self.ratio < 1)


class Interval(NamedTuple):
    """Bounds of a change, ns, and what shows that it is not noise."""

    low_ns: float
    high_ns: float
    proof: Proof


class Noise:
    """Intervals of a comparison.

    Attributes:
        is_of_time: of each place whether both sides run the same calls and kernels, so that only its time may differ.
        change: of each place the change of its mean over steps, ns.
        margin: how far that may be from the truth, ns.
    """

    def __init__(self, difference: Diff, other_arguments: Mask) -> None:
        self._windows, self._places = (difference.a, difference.b), difference.places
        self.is_of_time = np.array([_is_of_time(place) for place in self._places], bool) & ~other_arguments
        ran = [_events_run(side) for side in difference.alignment.sides]
        durations = [Durations(window, events) for window, (events, _) in zip(self._windows, ran, strict=True)]
        of = [_place_of_leaf(self._places, k, side.leaves) for k, side in enumerate(difference.alignment.sides)]
        common = in_common(*durations)
        a, b = self._sides = [
            one.spread(place[leaf], len(self._places), common)
            for one, place, (_, leaf) in zip(durations, of, ran, strict=True)
        ]
        self.change = b.mean - a.mean
        # Work that only one side has varies as that side shows.
        few, many = np.minimum(a.freedom, b.freedom), np.maximum(a.freedom, b.freedom)
        self._freedom = np.maximum(np.where(few > 0, few, many), 1)
        means = [np.maximum(side.mean, 1) for side in self._sides]
        self._ratio = np.log(means[1] / means[0])
        self._in_common = [
            side.of_step / mean / np.sqrt(side.steps) for side, mean in zip(self._sides, means, strict=True)
        ]
        self._relative = self._relative_variance(*means)
        self._level = _quantiles("place", max(int(self.is_of_time.sum()), 1), self._freedom)
        self.margin = self._level * np.sqrt(self._variance())

    def _relative_variance(self, *means: np.ndarray) -> np.ndarray:
        """Variance of the logarithm of each place's ratio; meaningless where a side has no time."""
        a, b = self._sides
        first, second = (side.of_mean / mean**2 for side, mean in zip(self._sides, means, strict=True))
        # Without steps equal work is compared, in which one may be slow on one side: it is not noise on the other.
        found = np.where((a.steps < 2) & (b.steps < 2) & self.is_of_time, 2 * np.minimum(first, second), first + second)
        return found + _between_runs(self._ratio[self.is_of_time], found[self.is_of_time])

    def _variance(self) -> np.ndarray:
        a, b = self._sides
        return np.where(self.is_of_time, self._relative * a.mean * b.mean, a.of_mean + b.of_mean)

    @cached_property
    def families(self) -> list[Family]:
        """Ops and categories of kernels with several places, those that are farthest from equal first."""
        found = []
        for kind, named in (("category", self._by_category()), ("op", self._by_op())):
            groups = {name: rows for name, rows in named if len(rows) > 1}
            for name, rows in groups.items():
                single = np.ones(len(self._places))
                single[rows] = _with_differences(self._ratio[rows], np.maximum(self._relative[rows], 1e-12))
                weight = np.zeros(len(self._places))
                weight[rows] = 1 / single[rows] / (1 / single[rows]).sum()
                ratio = float((weight * self._ratio).sum())
                in_common = [weight * common for common in self._in_common]
                variance, freedom = self._of_several(rows, weight**2 * single, in_common)
                margin = float(_quantiles(kind, len(groups), np.array([freedom]))[0]) * sqrt(variance)
                a, b = (float(side.mean[rows].sum()) for side in self._sides)
                found.append(Family(name, rows, exp(ratio - margin), b / max(a, 1.0), exp(ratio + margin)))
        return sorted(found, key=lambda one: -max(one.low, 1 / one.high))

    @cached_property
    def _categories(self) -> list[str]:
        """The category of the kernels of each place that may differ by time alone; "" of others."""
        names = [next(iter(place.kernels[0]), "") for place in self._places]
        found = kernel_categories([(name, place.names[0]) for name, place in zip(names, self._places, strict=True)])
        return [category if name else "" for category, name in zip(found, names, strict=True)]

    @cached_property
    def _waits(self) -> Mask:
        """Of each place whether its time is that of collectives, which wait for other ranks."""
        return np.array([category == "Communication" for category in self._categories], bool)

    @cached_property
    def _of_families(self) -> Rows:
        """Places that are tested together. Waits are of no family: how long a collective waits is up to other ranks."""
        return np.flatnonzero(self.is_of_time & ~self._waits)

    def _by_category(self) -> Iterator[tuple[str, Rows]]:
        rows = self._of_families
        yield ALL, rows
        yield from _grouped(rows, [self._categories[row] for row in rows.tolist()])

    def _by_op(self) -> Iterator[tuple[str, Rows]]:
        rows = self._of_families
        yield from _grouped(rows, [self._places[row].names[0] for row in rows.tolist()])

    @cached_property
    def proofs(self) -> list[Proof]:
        """Of each place what shows its change to be no noise."""
        shown = np.array([place.change_ns for place in self._places], float)
        a, b = self._sides
        of_one = self._level * np.sqrt(a.of_one + b.of_one)
        with_family = np.zeros(len(shown), bool)
        for family in self.families:
            if family.is_proven:
                rows = family.places
                with_family[rows] |= (np.sign(self._ratio[rows]) == np.sign(family.ratio - 1)) & (shown[rows] != 0)
        checks = (
            (~self.is_of_time, Proof.structure),
            (np.abs(self.change) > self.margin, Proof.interval),
            (((a.steps > 1) | (b.steps > 1)) & (np.abs(shown) > of_one), Proof.step),
            (with_family, Proof.family),
        )
        found = [Proof.noise] * len(shown)
        for is_so, proof in reversed(checks):
            for row in np.flatnonzero(is_so).tolist():
                found[row] = proof
        return found

    def of_places(self) -> list[Interval]:
        """The interval of each place."""
        return list(
            map(Interval, (self.change - self.margin).tolist(), (self.change + self.margin).tolist(), self.proofs)
        )

    def of_total(self, name: str) -> Interval | None:
        """The interval of a row of the totals; None where there is but one step."""
        if name == "gpu_time":
            every = np.arange(len(self._places))
            in_common = [side.of_step / np.sqrt(side.steps) for side in self._sides]
            found = _interval(float(self.change.sum()), *self._of_several(every, self._variance(), in_common))
            is_at_places = found.proof is Proof.noise and self.proven_ns
            return found._replace(proof=Proof.places) if is_at_places else found
        if not all(name in times for times in self._steps):
            return None
        sides = [times[name] for times in self._steps]
        counts = [len(times) for times in sides]
        squares = sum(float(((times - times.mean()) ** 2).sum()) for times in sides)
        variance = squares / (sum(counts) - 2) * sum(1 / count for count in counts)
        return _interval(float(sides[1].mean() - sides[0].mean()), variance, sum(counts) - 2)

    def _of_several(self, rows: Rows, variance: np.ndarray, common: Sequence[np.ndarray]) -> tuple[float, float]:
        """Variance of the change of several places together, and its degrees of freedom (Welch and Satterthwaite).

        What the events of a step have in common moves all places alike, so that their variances do not add up.

        Args:
            rows: the places.
            variance: variance of the change of each place of all.
            common: of both sides the deviation of each that its events of a step have in common.
        """
        own = [deviation[rows] for deviation in common]
        shared = sum(float(one.sum() ** 2 - (one**2).sum()) for one in own)
        steps = sum(int(side.steps.max(initial=1)) - 1 for side in self._sides)
        parts = [(float(variance[rows].sum()), max(float(self._freedom[rows].sum()), 1.0)), (shared, max(steps, 1))]
        total, squares = sum(part for part, _ in parts), sum(part**2 / freedom for part, freedom in parts)
        return total, total**2 / squares if squares else 1.0

    @cached_property
    def proven_ns(self) -> int:
        """What places add up to whose changes structure, an interval or their family proves; 0 where that is within
        their noise. Of a family all count, for or against."""
        of_families = [
            family.places
            for family in self.families
            if family.is_proven and (family.name != ALL or self._is_of_most(family))
        ]
        shown = (row for row, proof in enumerate(self.proofs) if proof in (Proof.structure, Proof.interval))
        rows: Rows = np.array(sorted({*shown, *(row for rows in of_families for row in rows.tolist())}), np.int64)
        if not len(rows):
            return 0
        change = sum(self._places[row].change_ns for row in rows.tolist())
        a, b = self._sides
        of_all = self._of_several(rows, a.of_one + b.of_one, (a.of_step, b.of_step))
        return change if _interval(change, *of_all).proof is Proof.interval else 0

    @cached_property
    def _steps(self) -> list[dict[str, np.ndarray]]:
        return [times_of_steps(window) for window in self._windows]

    def notes(self) -> list[str]:
        """Families that are proven only together, and how much is noise."""
        notes, seen = [], set[int]()
        for family in self.families:
            rows = [row for row in family.places.tolist() if self.proofs[row] is Proof.family]
            if family.is_proven and not seen.issuperset(rows) and self._is_of_most(family):
                notes.append(f"{family.name}: {len(family.places):,} places take {family.ratio:.3f}x as long together")
                seen.update(rows)
        return notes

    def _is_of_most(self, family: Family) -> bool:
        """Whether most calls of a family move by about its ratio; else few layers or steps make it."""
        points = [point.ns for row in family.places.tolist() for point in self._places[row].points if all(point.ns)]
        usual = float(np.median(np.log([b / a for a, b in points]))) if points else 0.0
        return usual / log(family.ratio) > _OF_RATIO


def _interval(change: float, variance: float, freedom: float) -> Interval:
    """The interval of a total."""
    margin = float(student(1 - _OF_TOTALS / 2, np.array([freedom]))[0]) * sqrt(variance)
    is_proven = abs(change) > margin
    return Interval(change - margin, change + margin, Proof.interval if is_proven else Proof.noise)


def _is_of_time(place: Place) -> bool:
    first, second = place.kernels
    if place.names[0] != place.names[1] or not first or place.points[0].is_moved:
        return False
    return len(first) == len(second) and of_any_build(first) == of_any_build(second)


def _events_run(side: Forest) -> tuple[Rows, Codes]:
    """The GPU events of a side, without those that a launch into a graph only records, and the leaf of each."""
    ran = ~np.isin(side.events, [*side.captured])
    return side.events[ran], np.repeat(np.arange(side.leaves), np.diff(side.first_event))[ran]


def _place_of_leaf(places: list[Place], side: int, leaves: int) -> Codes:
    found = np.zeros(leaves, np.int64)
    for number, place in enumerate(places):
        found[place.leaves(side)] = number
    return found


def _grouped(rows: Rows, names: list[str]) -> Iterator[tuple[str, Rows]]:
    of = np.array(names, object)
    for name in dict.fromkeys(names):
        yield name, rows[of == name]


def _between_runs(ratio: np.ndarray, variance: np.ndarray) -> float:
    """Variance of the logarithms of ratios beyond what chance explains."""
    if len(ratio) < 3:
        return 0.0
    off = np.abs(ratio - np.median(ratio)) / np.sqrt(np.maximum(variance, 1e-12))
    excess = float((1.4826 * np.median(off)) ** 2) - 1 - 5 / sqrt(len(ratio))
    return min(max(excess, 0.0) * float(np.median(variance)), _BETWEEN_RUNS**2)


def _with_differences(ratio: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Variances of logarithms of ratios, with that between them where they differ by far more than chance explains."""
    weight = 1 / variance
    off = ratio - (weight * ratio).sum() / weight.sum()
    excess = float((weight * off**2).sum()) - (len(ratio) - 1)
    if excess <= _BEYOND_CHANCE * sqrt(2 * (len(ratio) - 1)):
        return variance
    return np.asarray(variance + excess / float(weight.sum() - (weight**2).sum() / weight.sum()))


def _quantiles(kind: str, count: int, freedom: np.ndarray) -> np.ndarray:
    """How many standard errors an interval reaches to either side, for as many of a kind."""
    return student(1 - _SHARES[kind] * _FALSE_ALARMS / count / 2, freedom)


def student(share: float, freedom: np.ndarray) -> np.ndarray:
    """Quantiles of Student's distribution (Abramowitz and Stegun, 26.7.5)."""
    z, v = NormalDist().inv_cdf(share), freedom
    return (
        z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )  # fmt: skip
