"""Which of many equal layers, or calls, are meant, and which of them take another time than the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from math import exp, log
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.alignment.contexts import Contexts
from tracelens_graph.analyses.alignment.divergence_points import Point
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Mask, Rows

_EQUALS = 4
"""Points from which on one may stand out."""
_PART = 0.25
"""Share of calls that may stand out, at most, and ..."""
_OF_MODULES = 0.5
"""... of the modules around them."""
_SAME = 0.03
"""How far from no change those are that did not change."""
_OFF = 0.1
"""Share of the usual ratio by which one that stands out differs from it, and ..."""
_SPREADS = 5
"""... by how many median absolute deviations."""
_EXPLAINS = 0.5
"""Share of a place's change that those that stand out explain where they are its cause."""
_DEEPEST = 128
"""Modules around a leaf, at most, for it to lie in a layer: work for all of them grows with the square of the depth."""


class Among(NamedTuple):
    """Some of many equal modules, or calls; where a ratio is known, they take another time than the others.

    Attributes:
        names: names of the modules, `ViTLayer_7`; empty where no module separates them.
        number: how many.
        of: of how many equal ones.
        are_layers: whether the names of all of them count up, so that their numbers are those of layers.
        ratio: time of their kernels, on the second side over that on the first; None where that is no matter.
        others: that of the others.
    """

    names: Sequence[str]
    number: int
    of: int
    are_layers: bool = False
    ratio: float | None = None
    others: float = 1.0

    def __str__(self) -> str:
        """`1 of 12: layer 7 (ViTLayer_7), 3.00x as long`."""
        where = f"{self.number:,} of {self.of:,}{self._where}"
        if self.ratio is None:
            return where
        is_same = abs(log(self.others)) < log(1 + _SAME)
        usual = ", the others as before" if is_same else f", the others {self.others:.2f}x"
        return f"{where}, {self.ratio:.2f}x as long{usual}"

    @property
    def _where(self) -> str:
        if not self.names:
            return " calls"
        more = ", ..." if len(self.names) > 3 else ""
        if not self.are_layers:
            return f": {', '.join(self.names[:3])}{more}"
        (stem, _), *_ = instances = sorted(map(_instance, self.names))
        word = "layer" if len(instances) == 1 else "layers"
        listed = ", ".join(str(number) for _, number in instances[:3]) + more
        return f": {word} {listed} ({self.names[0] if len(instances) == 1 else stem})"


def _instance(name: str) -> tuple[str, int]:
    """What a module is called, and its number, -1 without one."""
    stem, _, number = name.rpartition("_")
    return (stem, int(number)) if stem and number.isdecimal() else (name, -1)


def count_up(names: Iterable[str]) -> bool:
    """Whether modules are called alike and numbered without gaps, as the layers of a stack are."""
    stems, numbers = zip(*sorted(map(_instance, names)), strict=True)
    return len(set(stems)) == 1 and numbers[0] >= 0 and numbers[-1] - numbers[0] == len(numbers) - 1


class _Level(NamedTuple):
    """Modules at one depth.

    Attributes:
        of: for each leaf the number of the module around it; -1 for none.
        names: name of each module.
        path: number of the classes of each and of all modules around it.
    """

    of: Codes
    names: Sequence[str]
    path: Codes

    def equals(self, module: int) -> Rows:
        """The modules of the same class below the same classes."""
        return np.flatnonzero(self.path == self.path[module])


class Layers:
    """The modules around the leaves of one side.

    Args:
        partner: for each leaf its partner on the other side, -1 without one.
    """

    def __init__(self, contexts: Contexts, partner: Rows) -> None:
        self._contexts, self._partner = contexts, partner

    @cached_property
    def levels(self) -> list[_Level]:
        """Modules by their depth, the outermost first."""
        core, frames = self._contexts.core, self._contexts.frames
        used, frame_of = distinct(self._contexts.module)
        chain = [used]
        while (chain[-1] >= 0).any() and len(chain) <= _DEEPEST:
            chain.append(np.where(chain[-1] >= 0, self._contexts.above[chain[-1]], -1))
        is_deep = chain.pop() >= 0
        above = np.array(chain).reshape(len(chain), len(used))
        depth = np.where(is_deep, 0, (above >= 0).sum(axis=0))
        names = [name.removeprefix("nn.Module: ") for name in core.names]
        name = core.columns.name[frames].astype(np.int64)
        codes, back = distinct(name)
        classes = {text: number for number, text in enumerate(dict.fromkeys(
            normal_name(Kind.Module, core.names[code]) for code in codes.tolist()))}  # fmt: skip
        class_of = np.array([classes[normal_name(Kind.Module, core.names[code])] for code in codes.tolist()], np.int64)
        class_of = class_of[back] if len(codes) else class_of
        path = np.zeros(len(used), np.int64)
        found = []
        for level in range(int(depth.max(initial=0))):
            has = np.flatnonzero(depth > level)
            frame = above[depth[has] - 1 - level, has]
            _, path[has] = distinct(path[has] * len(classes) + class_of[frame])
            key, number = distinct(path[has] * len(names) + name[frame])
            of = np.full(len(used), -1, np.int64)
            of[has] = number
            found.append(_Level(of[frame_of], [names[one % len(names)] for one in key.tolist()], key // len(names)))
        return found

    def around(self, leaves: Rows) -> Among | None:
        """Which layers some leaves stand in; None in none, in most, or in modules that the other side has not."""
        for level in self.levels if len(leaves) else ():
            own = np.unique(level.of[leaves])
            if own[0] < 0 or len(np.unique(level.path[own])) > 1:
                return None
            if not np.isin(own, level.of[self._partner >= 0]).all():
                return None
            equals = level.equals(int(own[0]))
            if len(own) <= _OF_MODULES * len(equals) and count_up(level.names[one] for one in equals.tolist()):
                return Among([level.names[one] for one in own.tolist()], len(own), len(equals), True)
        return None

    def apart(self, odd: Rows, others: Rows) -> Among | None:
        """The outermost modules that separate some leaves from others; None where none do."""
        for level in self.levels:
            own, rest = np.unique(level.of[odd]), np.unique(level.of[others])
            rest = np.setdiff1d(rest, own)
            if own[0] < 0 or not len(rest) or len(own) > _OF_MODULES * (len(own) + len(rest)):
                continue
            equals = level.equals(int(own[0]))
            if not np.isin(own, equals).all() or not np.isin(rest, equals).all():
                equals = np.concatenate((own, rest[rest >= 0]))
            return Among([level.names[one] for one in own.tolist()], len(own), len(equals),
                         count_up(level.names[one] for one in equals.tolist()))  # fmt: skip
        return None

    def innermost(self, leaves: Rows, among: Among) -> tuple[list[str], Codes, Among]:
        """The innermost modules that hold some leaves, one in each of some outer ones.

        Returns:
            Their classes, the outermost first, none where there are no such; for each leaf the number of that around
            it, -1 for none; and which they are among most equal ones, as layers that hold several each.
        """
        found: tuple[list[str], Codes] = [], np.full(len(self._partner), -1, np.int64)
        classes: list[str] = []
        is_below = False
        for level in self.levels:
            own = np.unique(level.of[leaves])
            if own[0] < 0 or len(np.unique(level.path[own])) > 1:
                break
            names = [level.names[one] for one in own.tolist()]
            classes = [*classes, _instance(names[0])[0]]
            is_below |= {*names} == {*among.names}
            if is_below:
                if len(own) != among.number:
                    break
                found = classes, np.where(np.isin(level.of, own), level.of, -1)
                equals = [level.names[one] for one in level.equals(int(own[0])).tolist()]
                if len(equals) > among.of and count_up(equals):
                    among = among._replace(names=names, of=len(equals), are_layers=True)
        return *found, among


class Odd(NamedTuple):
    """Points of a place that stand out among its points.

    Attributes:
        points: their positions.
        among: which they are.
        explain: whether they explain most of the change of the place.
    """

    points: Rows
    among: Among
    explain: bool


def odd_points(points: Sequence[Point], change_ns: int, layers: Layers) -> Odd | None:
    """Which of the equal points of a place take another time than the others; None where none do.

    Args:
        points: the points, which run equal kernels on both sides.
    """
    places = np.array([at for at, point in enumerate(points) if all(point.ns)], np.int64)
    ns = np.array([points[at].ns for at in places.tolist()], float).reshape(len(places), 2)
    first = np.array([points[at].leaves[0][0] for at in places.tolist()], np.int64)
    best = None
    for usual, is_odd in _odd(np.log(ns[:, 1] / ns[:, 0])):
        if not is_odd.any():
            continue
        before, after = ns[is_odd].sum(axis=0).tolist()
        explain = abs(after - exp(usual) * before) >= _EXPLAINS * abs(change_ns)
        among = layers.apart(first[is_odd], first[~is_odd]) if not is_odd.all() else None
        if among is None and is_odd.sum() <= _PART * len(ns):
            among = Among([], int(is_odd.sum()), len(ns))
        if among is not None and (best is None or (explain and not best.explain)):
            best = Odd(places[is_odd], among._replace(ratio=after / before, others=exp(usual)), explain)
    return best


def _odd(ratios: np.ndarray) -> Iterator[tuple[float, Mask]]:
    """The usual ratio, as logarithm, and which are another: that of most; none, where the others did not change."""
    if len(ratios) >= _EQUALS:
        usual = float(np.median(ratios))
        off = np.abs(ratios - usual)
        yield usual, off > max(log(1 + _OFF), _SPREADS * float(np.median(off)))
    off = np.abs(ratios)
    if ((off > log(1 + 2 * _OFF)) | (off < log(1 + _SAME))).all():
        yield 0.0, off > log(1 + _OFF)
