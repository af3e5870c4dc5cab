"""How the times of equal kernels differ: all by one factor, or only those of one layer, or call, of many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import exp, log
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.alignment.align import Alignment
from tracelens_graph.analyses.alignment.difference import Place
from tracelens_graph.analyses.alignment.divergence_points import Point
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.places.attribution import charged, frames_above, module_calls
from tracelens_graph.analyses.shared.common_factor import agreed_factor
from tracelens_graph.analyses.shared.gpu_work import COMPUTATION, gpu_classes

_COMPARABLE = 0.5
"""Share of the time of all computation that must be comparable."""


def common_factor(alignment: Alignment, places: Iterable[Place]) -> float | None:
    """The factor by which all kernels take longer or less on the second side; None where they do not agree on one.

    Args:
        alignment: both sides.
        places: those whose arguments are the same: only their kernels can be compared.
    """
    a, b = alignment.sides
    leaves = np.array([leaf for place in places for leaf in place.leaves(0)], np.int64)
    leaves = leaves[(alignment.leaves[0][leaves] >= 0) & _computes(a)[leaves] & (a.ns[leaves] > 0)]
    partners = alignment.leaves[0][leaves]
    number = np.diff(a.first_event)[leaves] == np.diff(b.first_event)[partners]
    same = number & (a.kernel[leaves] == b.kernel[partners]) & (b.ns[partners] > 0)
    leaves, partners = leaves[same], partners[same]
    ns = a.ns[leaves]
    if not len(ns) or ns.sum() < _COMPARABLE * a.ns[_computes(a)].sum():
        return None
    return agreed_factor(b.ns[partners] / ns, ns, a.kernel[leaves])


def _computes(side: Forest) -> np.ndarray:
    """Per leaf whether its first event computes: neither communication nor a copy."""
    found: np.ndarray = gpu_classes(side.window.core, side.events[side.first_event[:-1]]) == COMPUTATION
    return found


# -- one of many -----------------------------------------------------------------------------------------------------

_EQUALS = 4
"""Points, or layers, from which on one may stand out."""
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
"""Share of a place's change that those that stand out must explain."""


class Outliers(NamedTuple):
    """Layers, or calls, whose kernels changed their time by another factor than those of their equals.

    Attributes:
        names: names of the modules, `ViTLayer_7`; empty where no module separates them.
        number: how many.
        of: of how many equal ones.
        ratio: time of their kernels, on the second side over that on the first.
        others: the usual ratio.
        are_layers: whether the names of all of them count up, so that their numbers are those of layers.
    """

    names: Sequence[str]
    number: int
    of: int
    ratio: float
    others: float
    are_layers: bool = False

    def __str__(self) -> str:
        """`1 of 12: layer 7 (ViTLayer_7), 3.00x as long`."""
        is_same = abs(log(self.others)) < log(1 + _SAME)
        usual = ", the others as before" if is_same else f", the others {self.others:.2f}x"
        return f"{self.number:,} of {self.of:,}{self._where}, {self.ratio:.2f}x as long{usual}"

    @property
    def _where(self) -> str:
        if not self.names:
            return " calls"
        more = ", ..." if len(self.names) > 3 else ""
        if not self.are_layers:
            return f": {', '.join(self.names[:3])}{more}"
        (stem, _), *_ = instances = [_instance(name) for name in self.names]
        word = "layer" if len(instances) == 1 else "layers"
        listed = ", ".join(str(number) for _, number in instances[:3]) + more
        return f": {word} {listed} ({self.names[0] if len(instances) == 1 else stem})"


def _instance(name: str) -> tuple[str, int]:
    """What a module is called, and its number, -1 without one."""
    stem, _, number = name.rpartition("_")
    return (stem, int(number)) if stem and number.isdecimal() else (name, -1)


def _count_up(names: Iterable[str]) -> bool:
    """Whether modules are called alike and numbered without gaps, as the layers of a stack are."""
    stems, numbers = zip(*sorted(map(_instance, names)), strict=True)
    return len(set(stems)) == 1 and numbers[0] >= 0 and numbers[-1] - numbers[0] == len(numbers) - 1


class ModulesOfLeaves:
    """Names of the module calls around the leaves of one side."""

    def __init__(self, side: Forest) -> None:
        core = side.window.core
        self._core, self._frames = core, module_calls(core)
        self._above = frames_above(core, self._frames)
        self._module, _ = charged(core, self._frames, side.events[side.first_event[:-1]])

    def path(self, leaf: int) -> list[str]:
        """From the outermost to the innermost."""
        found, frame = [], int(self._module[leaf])
        while frame >= 0:
            row = self._frames[frame]
            found.append(self._core.names[self._core.columns.name[row]].removeprefix("nn.Module: "))
            frame = int(self._above[frame])
        return found[::-1]


def outliers(place: Place, modules: ModulesOfLeaves) -> Outliers | None:
    """Which of the equal points of a place stand out, if these explain most of its change; else None.

    Args:
        place: the place, whose points run equal kernels on both sides.
        modules: the modules of its leaves on the first side.
    """
    points = [point for point in place.points if all(point.ns)]
    ratios = np.array([log(point.ns[1] / point.ns[0]) for point in points])
    for usual, is_odd in _odd(ratios):
        odd = [point for point, one in zip(points, is_odd.tolist(), strict=True) if one]
        extra = sum(point.ns[1] - exp(usual) * point.ns[0] for point in odd)
        if not odd or abs(extra) < _EXPLAINS * abs(place.change_ns):
            continue
        ratio = sum(point.ns[1] for point in odd) / sum(point.ns[0] for point in odd)
        if (found := _named(points, is_odd, modules)) is not None:
            names, of = found
            return Outliers(names, len(names), len(of), ratio, exp(usual), _count_up(of))
        if len(odd) <= _PART * len(points):
            return Outliers([], len(odd), len(points), ratio, exp(usual))
    return None


def _odd(ratios: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """The usual ratio, and which are another: that of most; else none, where the others did not change."""
    if len(ratios) >= _EQUALS:
        usual = float(np.median(ratios))
        off = np.abs(ratios - usual)
        yield usual, off > max(log(1 + _OFF), _SPREADS * float(np.median(off)))
    off = np.abs(ratios)
    if ((off > log(1 + 2 * _OFF)) | (off < log(1 + _SAME))).all():
        yield 0.0, off > log(1 + _OFF)


def _named(points: Sequence[Point], is_odd: np.ndarray, modules: ModulesOfLeaves) -> tuple[list[str], set[str]] | None:
    """The outermost modules that separate the odd ones from the others: their names, and those of all."""
    paths = [modules.path(point.leaves[0][0]) for point in points]
    for level in range(max(map(len, paths))):
        names = [path[level] if len(path) > level else "" for path in paths]
        odd = {name: None for name, one in zip(names, is_odd.tolist(), strict=True) if one}
        others = {name for name, one in zip(names, is_odd.tolist(), strict=True) if not one} - odd.keys()
        if others and len(odd) <= _OF_MODULES * (len(odd) + len(others)):
            return list(odd), others | odd.keys()
    return None
