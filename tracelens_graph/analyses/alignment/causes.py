"""Why the GPU work of a place differs, from what the traces show; where they do not show it, that is said.

`RULES` are asked in their order, and the first that has evidence answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cached_property
from math import exp, log
from statistics import median
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.alignment.clues import Clues, times
from tracelens_graph.analyses.alignment.difference import Diff, Place
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.kernel_words import counted, is_move, listed, words
from tracelens_graph.analyses.shared.gpu_class import COMMUNICATION, communicates, gpu_classes
from tracelens_graph.graph.intervals import length_before, merge


class Reason(StrEnum):
    """Why two sides differ at a place."""

    same = "same"
    captured = "captured"
    recomputation = "recomputation"
    graph_launch = "graph_launch"
    moves = "moves"
    communication = "communication"
    module = "module"
    only_one = "only_one"
    other_types = "other_types"
    other_sizes = "other_sizes"
    other_strides = "other_strides"
    contention = "contention"
    other_device = "other_device"
    clock = "clock"
    other_time = "other_time"
    other_work = "other_work"
    fused = "fused"
    unfused = "unfused"
    more_kernels = "more_kernels"
    fewer_kernels = "fewer_kernels"
    other_algorithm = "other_algorithm"
    other_op = "other_op"
    other_library = "other_library"
    other_tile = "other_tile"
    other_kernel = "other_kernel"


REASON_MEANING = {
    Reason.same: "nothing differs",
    Reason.captured: "recorded into a graph on one side, so that it did not run there",
    Reason.recomputation: "only one side recomputes these activations in the backward pass",
    Reason.graph_launch: "launched as a graph on one side",
    Reason.moves: "copies, casts or fills that the other side does not have",
    Reason.communication: "collectives: only on one side, or the same ones for another time, waiting included",
    Reason.module: "a module with all below it that only one side has",
    Reason.only_one: "work that only one side has, and none of the above",
    Reason.other_types: "arguments or kernels of other dtypes",
    Reason.other_sizes: "arguments of other sizes",
    Reason.other_strides: "arguments of the same sizes in another layout",
    Reason.contention: "the same kernels; how long communication runs beside them differs",
    Reason.other_device: "the same kernels on another device",
    Reason.clock: "the same kernels, as much slower or faster as most others: clock, power or bandwidth",
    Reason.other_time: "all or most of the change is the time of the same kernels; the traces do not tell why",
    Reason.other_work: "communication on one side, computation on the other, between the same neighbours",
    Reason.fused: "fewer kernels do the work of several: a compiler wrote them, or one op does what several did",
    Reason.unfused: "the other way round",
    Reason.more_kernels: "the same kernels more often, or others beside them",
    Reason.fewer_kernels: "the same kernels less often, or only some of them",
    Reason.other_algorithm: "kernels that do other things, as attention that became a product and a softmax",
    Reason.other_op: "another op does the work",
    Reason.other_library: "kernels of another library for the same operation",
    Reason.other_tile: "kernels of the same family with another tile",
    Reason.other_kernel: "other kernels of the same library, or kernels of which no name tells more; `why` names them",
}
"""What each of them means."""


class Why(NamedTuple):
    """A reason, and its evidence in words."""

    reason: Reason
    text: str


_MOVES = {
    "aten::_to_copy": "casts", "aten::to": "casts", "aten::copy_": "copies", "aten::clone": "copies",
    "aten::contiguous": "copies", "aten::fill_": "fills", "aten::zero_": "fills",
}  # fmt: skip
"""Ops that compute nothing, and what they do."""

_CLOCK_WITHIN = 0.03
"""How far from the ratio of all kernels one may be to be explained by it, and how little that must differ from 1 to be
none."""
_CLOCK_HOLDS = 0.5
"""Share of the time of equal kernels that must lie that close for the ratio to mean anything."""
_CONTENDED = 0.2
"""Part of the time by which the overlap with communication must have grown."""

_OTHER_NAME = {
    "library": Reason.other_library,
    "types": Reason.other_types,
    "tile": Reason.other_tile,
    "kernel": Reason.other_kernel,
}


_OTHER_NUMBER = {
    "more": Reason.more_kernels,
    "fewer": Reason.fewer_kernels,
    "counts": Reason.other_kernel,
}
_OTHER_ARGUMENT = {
    "types": Reason.other_types,
    "sizes": Reason.other_sizes,
    "strides": Reason.other_strides,
}


class Reasons:
    """Reasons for the places of a comparison."""

    def __init__(self, difference: Diff) -> None:
        self._diff = difference
        self._clues = [Clues(difference, place) for place in difference.places]
        self._of = dict(zip(map(id, difference.places), self._clues, strict=True))
        devices = [_devices(side) for side in difference.alignment.sides]
        self.is_other_device = devices[0] != devices[1]

    def of(self, place: Place) -> Why:
        """Why the sides differ at a place."""
        clues = self._of.get(id(place)) or Clues(self._diff, place)
        for rule in RULES:
            if (why := rule(clues, self)) is not None:
                return why
        return Why(Reason.other_kernel, str(clues.other))

    @cached_property
    def clock(self) -> float | None:
        """By how much most equal kernels take longer or less; None where they do not agree, or it is nothing."""
        ratios = [
            (clues.ratio, sum(clues.place.ns))
            for clues in self._clues
            if clues.is_of_equal_kernels and not clues.is_communication and all(clues.place.ns) and not clues.arguments
        ]
        if not ratios:
            return None
        middle = exp(median(log(ratio) for ratio, _ in ratios))
        close = sum(ns for ratio, ns in ratios if _are_close(ratio, middle))
        holds = close >= _CLOCK_HOLDS * sum(ns for _, ns in ratios)
        return middle if holds and not _are_close(middle, 1) else None

    def overlap(self, side: int, place: Place) -> float:
        """Part of the time of a place's GPU events in which communication runs beside them."""
        forest = self._diff.alignment.sides[side]
        core, c = forest.window.core, forest.window.core.columns
        merged = self._communication[side]
        if not len(merged[0]):
            return 0.0
        rows = forest.events_of_all([leaf for point in place.points for leaf in point.leaves[side]])
        rows = rows[gpu_classes(core, rows) != COMMUNICATION]
        total = int(c.dur_ns[rows].sum())
        if not total:
            return 0.0
        beside = length_before(merged, c.end_ns[rows]) - length_before(merged, c.start_ns[rows])
        return float(beside.sum() / total)

    @cached_property
    def _communication(self) -> list[tuple[np.ndarray, np.ndarray]]:
        found = []
        for forest in self._diff.alignment.sides:
            core, rows = forest.window.core, forest.window.gpu_rows
            rows = rows[gpu_classes(core, rows) == COMMUNICATION]
            found.append(merge(core.columns.start_ns[rows], core.columns.end_ns[rows]))
        return found


def _devices(side: Forest) -> set[str]:
    """Names of the devices that the trace describes."""
    listed = side.window.core.info.metadata.get("deviceProperties")
    described = listed if isinstance(listed, list) else []
    return {str(device.get("name")) for device in described if isinstance(device, dict)}


def _are_close(one: float, other: float) -> bool:
    """Whether two ratios hardly differ; the same the other way round."""
    return max(one, other) <= (1 + _CLOCK_WITHIN) * min(one, other)


# -- rules ----------------------------------------------------------------------------------------------------

Rule = Callable[[Clues, Reasons], Why | None]


def _is_the_same(clues: Clues, _: Reasons) -> Why | None:
    place = clues.place
    equal = place.ns[0] == place.ns[1] and clues.is_of_equal_kernels
    return Why(Reason.same, "the same") if equal and not clues.arguments else None


def _is_captured(clues: Clues, _: Reasons) -> Why | None:
    captured = [side for side in range(2) if clues.is_captured(side)]
    if not captured:
        return None
    where = " and ".join(clues.diff.names[side] for side in captured)
    text = f"recorded into a graph in {where}, so it did not run there"
    if len(captured) == 1 and clues.only is None:
        other = 1 - captured[0]
        how = "replayed from a graph" if clues.is_graph_launch(other) else "run"
        text += f"; in {clues.diff.names[other]} {how}: {words(clues.place.kernels[other])}"
    return Why(Reason.captured, text)


def _is_of_one_side(clues: Clues, _: Reasons) -> Why | None:
    side = clues.only
    if side is None:
        return None
    only, kernels = f"only in {clues.diff.names[side]}", clues.place.kernels[side]
    what = f"{clues.count(side):,} x {words(kernels)}" if len(kernels) == 1 else words(kernels)
    core, rows, ops = clues.sides[side].window.core, clues.rows(side), clues.ops(side)
    if len(rows) and core.recompute[rows].all():
        return Why(Reason.recomputation, f"{only}: recomputation of activations, {what}")
    communication_ns = sum(ns for name, (_, ns) in kernels.items() if communicates(name))
    if 2 * communication_ns > clues.place.ns[side] or clues.is_communication:
        return Why(Reason.communication, f"{only}: {clues.collectives(side)}, {what}")
    if ops <= _MOVES.keys() if ops else all(map(is_move, kernels)):
        return Why(Reason.moves, f"{only}: {_moved(ops, kernels)}, {what}")
    if clues.is_graph_launch(side):
        return Why(Reason.graph_launch, f"{only}: launched as a graph, {what}")
    if clues.place.is_module:
        return Why(Reason.module, f"{only}: a module with all below it, {clues.count(side):,} GPU events, {what}")
    return Why(Reason.only_one, f"{only}: {what}")


def _moved(ops: set[str], kernels: dict[str, tuple[int, int]]) -> str:
    found = {_MOVES[op] for op in ops if op in _MOVES}
    found |= {"fills" if name.startswith("Memset") else "copies" for name in kernels if name.startswith("Mem")}
    return " and ".join(sorted(found)) or "copies, casts or fills"


def _is_launched_otherwise(clues: Clues, _: Reasons) -> Why | None:
    """The same work, of which one side launches a graph and the other op by op."""
    graphs = [side for side in range(2) if clues.is_graph_launch(side)]
    if len(graphs) != 1:
        return None
    names = clues.diff.names
    text = f"launched as a graph in {names[graphs[0]]}, one by one in {names[1 - graphs[0]]}"
    if clues.is_of_equal_kernels:
        return Why(Reason.graph_launch, f"{text}; {clues.took}")
    return Why(Reason.graph_launch, f"{text}; {clues.other}")


def _is_communication(clues: Clues, _: Reasons) -> Why | None:
    if not clues.is_communication or not clues.is_of_equal_kernels:
        return None
    detail = f"; {clues.arguments[1]}" if clues.arguments else ""
    what = f"the same {clues.collectives(0)}, {times(clues.ratio)}"
    return Why(Reason.communication, f"{what}, waiting for other ranks included{detail}")


def _has_other_arguments(clues: Clues, _: Reasons) -> Why | None:
    if not clues.arguments:
        return None
    what, text = clues.arguments
    return Why(_OTHER_ARGUMENT[what], f"{text}; {clues.took if clues.is_of_equal_kernels else clues.other}")


def _is_contended(clues: Clues, reasons: Reasons) -> Why | None:
    if not clues.is_of_time:
        return None
    before, after = (reasons.overlap(side, clues.place) for side in range(2))
    if (after - before if clues.ratio > 1 else before - after) < _CONTENDED:
        return None
    return Why(
        Reason.contention,
        f"{clues.took}; {100 * before:.0f} -> {100 * after:.0f} % of the time communication runs beside it"
        f"{clues.beside}",
    )


def _is_of_another_device(clues: Clues, reasons: Reasons) -> Why | None:
    if not clues.is_of_time or not reasons.is_other_device:
        return None
    return Why(Reason.other_device, f"{clues.took}, on another device{clues.beside}")


def _is_of_the_clock(clues: Clues, reasons: Reasons) -> Why | None:
    clock = reasons.clock
    if not clues.is_of_time or clock is None or not _are_close(clues.ratio, clock):
        return None
    text = f"{clues.took}, as most equal kernels: clock, power or bandwidth of the device{clues.beside}"
    return Why(Reason.clock, text)


def _takes_other_time(clues: Clues, _: Reasons) -> Why | None:
    if not clues.is_of_time:
        return None
    return Why(Reason.other_time, f"{clues.took}; the traces do not tell why{clues.beside}")


def _is_other_work(clues: Clues, _: Reasons) -> Why | None:
    """Communication on one side only: what stands on the other in its place does not replace it."""
    first, second = clues.place.kernels
    has_communication = [any(map(communicates, kernels)) for kernels in (first, second)]
    if has_communication[0] == has_communication[1]:
        return None
    told = [words(kernels) for kernels in (first, second)]
    side = int(has_communication[1])
    told[side] = f"{clues.collectives(side)} ({told[side]})"
    text = " and ".join(f"{one} in {name}" for one, name in zip(told, clues.diff.names, strict=True))
    return Why(Reason.other_work, f"other work between the same neighbours: {text}")


def _is_fused(clues: Clues, _: Reasons) -> Why | None:
    """One kernel that does the work of several, since a compiler or an op put them together."""
    if clues.fused_side is None:
        return None
    side, by = clues.fused_side
    number = len(clues.place.points)
    per_call = " -> ".join(f"{count / number:,.3g}" for count in clues.extra_counts)
    reason = Reason.fused if side else Reason.unfused
    first, second = (counted(kernels, number) for kernels in clues.extra)
    how = f"{reason} by {by}" if side else f"{reason}, {by} had fused them"
    return Why(reason, clues.with_shares(f"{how}, {per_call} kernels: {first} became {second}"))


def _has_more_kernels(clues: Clues, _: Reasons) -> Why | None:
    if clues.other.kind not in _OTHER_NUMBER:
        return None
    less, more = clues.extra
    told = str(clues.other)
    if all(map(is_move, {**less, **more})):
        return Why(Reason.moves, clues.with_shares(f"copies, casts or fills, {told}"))
    return Why(_OTHER_NUMBER[clues.other.kind], clues.with_shares(told))


def _is_another_op(clues: Clues, _: Reasons) -> Why | None:
    first, second = clues.place.names
    if first == second:
        return None
    return Why(Reason.other_op, f"{first} became {second}; {_without_library(clues)}")


def _without_library(clues: Clues) -> str:
    """How the kernels differ; other ops run other kernels, so that another library is no news."""
    return clues.other.text if clues.other.kind == "library" else str(clues.other)


def _is_another_algorithm(clues: Clues, _: Reasons) -> Why | None:
    """The kernels with the most time do other things: attention became a product and a softmax."""
    if not all(clues.extra_leaves):
        return None
    longest = [
        max(leaves, key=lambda leaf: (side.ns[leaf], -leaf))
        for side, leaves in zip(clues.sides, clues.extra_leaves, strict=True)
    ]
    categories = [int(side.category[leaf]) for side, leaf in zip(clues.sides, longest, strict=True)]
    if categories[0] == categories[1] or any(is_move(next(iter(kernels))) for kernels in clues.extra):
        return None
    if clues.is_replaced_by_ops and len(clues.extra_ops(0)) == len(clues.extra_ops(1)) == 1:
        return _by_other_ops(clues)
    return Why(Reason.other_algorithm, clues.with_shares(f"another algorithm: {clues.other.text}"))


def _by_other_ops(clues: Clues) -> Why:
    """Below one call, other ops launch other kernels."""
    first, second = (listed(sorted(clues.extra_ops(side))) for side in range(2))
    return Why(Reason.other_op, clues.with_shares(f"{first} became {second}; {_without_library(clues)}"))


def _has_another_kernel(clues: Clues, _: Reasons) -> Why | None:
    if clues.other.kind == "kernel" and clues.is_replaced_by_ops:
        return _by_other_ops(clues)
    counts = clues.count(0), clues.count(1)
    number = f"; {counts[0]:,} -> {counts[1]:,} GPU events" if counts[0] != counts[1] else ""
    return Why(_OTHER_NAME[clues.other.kind], clues.with_shares(str(clues.other)) + number)


RULES: Sequence[Rule] = (
    _is_the_same,
    _is_captured,
    _is_of_one_side,
    _is_launched_otherwise,
    _is_communication,
    _has_other_arguments,
    _is_contended,
    _is_of_another_device,
    _is_of_the_clock,
    _takes_other_time,
    _is_other_work,
    _is_fused,
    _has_more_kernels,
    _is_another_op,
    _is_another_algorithm,
    _has_another_kernel,
)
"""What may explain a place, in the order in which it is asked; the last always answers."""
