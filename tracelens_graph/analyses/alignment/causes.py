"""Why the GPU work of a place differs, from what the traces show; where they do not show it, that is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from statistics import median
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.alignment.difference import Diff, Place
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.shared.gpu_class import COMMUNICATION, gpu_classes
from tracelens_graph.categories.kernel_names import parse_name
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.intervals import length_before, merge
from tracelens_graph.schema import Kind
from tracelens_graph.short_names import short_name

Kernels = Mapping[str, tuple[int, int]]


class Reason(StrEnum):
    """Why two sides differ at a place."""

    same = "same"
    clock = "clock"
    contention = "contention"
    other_time = "other_time"
    other_kernel = "other_kernel"
    other_types = "other_types"
    other_arguments = "other_arguments"
    other_op = "other_op"
    more_kernels = "more_kernels"
    fewer_kernels = "fewer_kernels"
    recomputation = "recomputation"
    graph_launch = "graph_launch"
    moves = "moves"
    only_one = "only_one"


class Why(NamedTuple):
    """A reason, and its evidence in words."""

    reason: Reason
    text: str


_MOVES = frozenset((
    "aten::copy_", "aten::clone", "aten::contiguous", "aten::_to_copy", "aten::to", "aten::fill_", "aten::zero_",
))  # fmt: skip
"""Ops that compute nothing: they copy, cast or fill."""

_CLOCK_WITHIN = 0.03
"""How far from the ratio of all kernels one may be to be explained by it, and how little that must differ from 1 to be
none."""
_CLOCK_HOLDS = 0.5
"""Share of the time of equal kernels that must lie that close for the ratio to mean anything."""
_CONTENDED = 0.2
"""Part of the time by which the overlap with communication must have grown."""


class Reasons:
    """Reasons for the places of a comparison."""

    def __init__(self, difference: Diff) -> None:
        self._diff = difference

    def of(self, place: Place) -> Why:
        """Why the sides differ at a place."""
        first, second = place.kernels
        if not first or not second:
            return self._of_one_side(place)
        if first.keys() == second.keys() and _counts(first) == _counts(second):
            return self._of_equal_kernels(place)
        if (types := self._arguments(place, 1)) is not None:
            return Why(Reason.other_types, f"other types: {types}")
        if (sizes := self._arguments(place, 0)) is not None:
            return Why(Reason.other_arguments, f"other sizes: {sizes}")
        if place.names[0] != place.names[1]:
            return Why(Reason.other_op, f"{place.names[0]} became {place.names[1]}; {_kernels(first, second)}")
        number = _total(second) - _total(first)
        if number and first.keys() & second.keys() == first.keys():
            return Why(Reason.more_kernels, f"{number:,} more: {_named(second, first)}")
        if number and first.keys() & second.keys() == second.keys():
            return Why(Reason.fewer_kernels, f"{-number:,} fewer: {_named(first, second)}")
        return Why(Reason.other_kernel, _kernels(first, second))

    def _of_one_side(self, place: Place) -> Why:
        side = 0 if place.kernels[0] else 1
        only = f"only in {self._diff.names[side]}"
        alignment = self._diff.alignment
        forest = alignment.sides[side]
        leaves = [leaf for point in place.points for leaf in point.leaves[side]]
        core, nodes = forest.window.core, forest.leaf_parent[leaves]
        rows = forest.row[nodes]
        what = f"{_total(place.kernels[side]):,} {_short(place.kernels[side])}"
        if (rows >= 0).all() and core.recompute[rows].all():
            return Why(Reason.recomputation, f"{only}: recomputation, {what}")
        kinds = core.columns.kind[rows[rows >= 0]]
        if len(kinds) and (kinds == Kind.RuntimeCall).all():
            return Why(Reason.graph_launch, f"{only}: launched as a graph, {what}")
        names = {normal_name(Kind.Op, core.names[code]) for code in core.columns.name[rows[rows >= 0]].tolist()}
        if names and names <= _MOVES:
            return Why(Reason.moves, f"{only}: copies, casts or fills, {what}")
        return Why(Reason.only_one, f"{only}: {what}")

    def _of_equal_kernels(self, place: Place) -> Why:
        if place.ns[0] == place.ns[1]:
            return Why(Reason.same, "the same")
        ratio = place.ns[1] / max(place.ns[0], 1)
        times = f"the same kernels, {_times(ratio)}"
        before, after = (self._overlap(side, place) for side in range(2))
        if (after - before if ratio > 1 else before - after) >= _CONTENDED:
            return Why(
                Reason.contention,
                f"{times}; {100 * after:.0f} % of it beside communication, {100 * before:.0f} % in "
                f"{self._diff.names[0]}",
            )
        if self._clock is not None and abs(ratio / self._clock - 1) <= _CLOCK_WITHIN:
            return Why(Reason.clock, f"{times}, as most equal kernels: clock or bandwidth of the device")
        if (types := self._arguments(place, 1)) is not None:
            return Why(Reason.other_types, f"{times}; other types: {types}")
        if (sizes := self._arguments(place, 0)) is not None:
            return Why(Reason.other_arguments, f"{times}; other sizes: {sizes}")
        return Why(Reason.other_time, times)

    @cached_property
    def _clock(self) -> float | None:
        """By how much most kernels of one name take longer or less; None where they do not agree, or it is nothing."""
        ratios: list[tuple[float, int]] = []
        for place in self._diff.places:
            first, second = place.kernels
            if first and first.keys() == second.keys() and _counts(first) == _counts(second) and place.ns[0]:
                ratios.append((place.ns[1] / place.ns[0], place.ns[0]))
        if not ratios:
            return None
        middle = median(ratio for ratio, _ in ratios)
        close = sum(ns for ratio, ns in ratios if middle and abs(ratio / middle - 1) <= _CLOCK_WITHIN)
        holds = close >= _CLOCK_HOLDS * sum(ns for _, ns in ratios)
        return middle if holds and abs(middle - 1) > _CLOCK_WITHIN else None

    def _overlap(self, side: int, place: Place) -> float:
        """Part of the time of a place's GPU events in which communication runs beside them."""
        forest = self._diff.alignment.sides[side]
        c = forest.window.core.columns
        leaves = [leaf for point in place.points for leaf in point.leaves[side]]
        rows = np.concatenate([forest.events_of(leaf) for leaf in leaves])
        merged = self._communication[side]
        rows = rows[gpu_classes(forest.window.core, rows) != COMMUNICATION]
        total = int(c.dur_ns[rows].sum())
        if not total or not len(merged[0]):
            return 0.0
        beside = length_before(merged, c.end_ns[rows]) - length_before(merged, c.start_ns[rows])
        return float(beside.sum() / total)

    @cached_property
    def _communication(self) -> list[tuple[np.ndarray, np.ndarray]]:
        found = []
        for forest in self._diff.alignment.sides:
            core, rows = forest.window.core, forest.events
            rows = rows[gpu_classes(core, rows) == COMMUNICATION]
            found.append(merge(core.columns.start_ns[rows], core.columns.end_ns[rows]))
        return found

    def _arguments(self, place: Place, part: int) -> str | None:
        """How the sizes (0) or types (1) of the first matched leaves differ; None where they do not."""
        alignment = self._diff.alignment
        for point in place.points:
            for leaf in point.leaves[0]:
                partner = int(alignment.leaves[0][leaf])
                if partner < 0 or alignment.sides[0].op[leaf] != alignment.sides[1].op[partner]:
                    continue
                one, other = (
                    _argument(side, at, part) for side, at in zip(alignment.sides, (leaf, partner), strict=True)
                )
                if one is not None and other is not None and one != other:
                    return f"{one} became {other}"
        return None


def _argument(side: Forest, leaf: int, part: int) -> str | None:
    core, row = side.window.core, int(side.row[side.leaf_parent[leaf]])
    code = int(core.columns.argset[row]) if row >= 0 else -1
    return core.argsets[code][part] if code >= 0 else None


def _counts(kernels: Kernels) -> dict[str, int]:
    return {name: count for name, (count, _) in kernels.items()}


def _total(kernels: Kernels) -> int:
    return sum(count for count, _ in kernels.values())


def _times(ratio: float) -> str:
    return f"{ratio:.2f}x as long" if ratio >= 0.1 else f"{1 / max(ratio, 1e-9):,.0f} times as fast"


def _kernels(first: Kernels, second: Kernels) -> str:
    """What kernels became, with libraries and tiles where their names tell them."""
    return f"{_short(first, second)} became {_short(second, first)}"


def _named(kernels: Kernels, others: Kernels) -> str:
    """Names of what is more than on the other side."""
    more = {name: count for name, (count, _) in kernels.items() if count > others.get(name, (0, 0))[0]}
    return _listed(map(short_name, more))


def _short(kernels: Kernels, others: Kernels | None = None) -> str:
    """The dearest kernels by library and tile, else by short name."""
    theirs = {_called(name, ()) for name in others or ()}
    return _listed(_called(name, theirs) for name in kernels)


def _called(name: str, clash: Iterable[str]) -> str:
    parsed = parse_name(name)
    if parsed is None or parsed.tile is None:
        return short_name(name)
    tile = "x".join(map(str, parsed.tile))
    found = f"{parsed.family} {parsed.operation or ''} {tile}".replace("  ", " ")
    return short_name(name) if found in clash else found


def _listed(names: Iterable[str], most: int = 3) -> str:
    different = list(dict.fromkeys(names))
    more = f" and {len(different) - most} more" if len(different) > most else ""
    return " + ".join(different[:most]) + more
