"""Why the GPU work of a place differs, from what the traces show; where they do not show it, that is said.

`RULES` are asked in their order, and the first that has evidence answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cached_property
from statistics import median
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.alignment.argument_words import other_sizes, other_strides, other_types
from tracelens_graph.analyses.alignment.difference import Diff, Place
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.kernel_words import (
    is_compiled,
    is_move,
    listed,
    more_of,
    of_any_build,
    other_name,
    words,
)
from tracelens_graph.analyses.shared.gpu_class import COMMUNICATION, COMMUNICATION_NAME, gpu_classes
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.intervals import length_before, merge
from tracelens_graph.schema import Kind
from tracelens_graph.short_names import short_name


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
    Reason.other_time: "the same kernels for another time; the traces do not tell why",
    Reason.other_work: "communication on one side, computation on the other, between the same neighbours",
    Reason.fused: "fewer kernels, which a compiler or one op made of several",
    Reason.unfused: "the other way round",
    Reason.more_kernels: "the same kernels and others",
    Reason.fewer_kernels: "some of the same kernels",
    Reason.other_algorithm: "kernels that do other things, as attention that became a product and a softmax",
    Reason.other_op: "another op does the work",
    Reason.other_library: "kernels of another library for the same operation",
    Reason.other_tile: "kernels of the same library with another tile",
    Reason.other_kernel: "other kernels; `why` names them",
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
        return Why(Reason.other_kernel, other_name(*place.kernels)[1])

    @cached_property
    def clock(self) -> float | None:
        """By how much most equal kernels take longer or less; None where they do not agree, or it is nothing."""
        ratios = [
            (clues.ratio, clues.place.ns[0])
            for clues in self._clues
            if clues.is_of_equal_kernels and not clues.is_communication and clues.place.ns[0] and not clues.arguments
        ]
        if not ratios:
            return None
        middle = median(ratio for ratio, _ in ratios)
        close = sum(ns for ratio, ns in ratios if middle and abs(ratio / middle - 1) <= _CLOCK_WITHIN)
        holds = close >= _CLOCK_HOLDS * sum(ns for _, ns in ratios)
        return middle if holds and abs(middle - 1) > _CLOCK_WITHIN else None

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


class Clues:
    """What the traces show about a place."""

    def __init__(self, difference: Diff, place: Place) -> None:
        self.diff, self.place = difference, place
        self.sides = difference.alignment.sides

    @cached_property
    def only(self) -> int | None:
        """The side that alone has GPU work there; None where both have."""
        first, second = self.place.kernels
        return None if first and second else 0 if first else 1

    @cached_property
    def leaves(self) -> tuple[list[int], list[int]]:
        """Leaves of both sides."""
        first, second = ([leaf for point in self.place.points for leaf in point.leaves[side]] for side in range(2))
        return first, second

    def rows(self, side: int) -> np.ndarray:
        """Rows of the nodes right above the leaves of a side, without roots."""
        forest = self.sides[side]
        rows = np.unique(forest.row[forest.leaf_parent[self.leaves[side]]])
        return rows[rows >= 0]

    def ops(self, side: int) -> set[str]:
        """Names of the ops that launched there, or of what else did."""
        core = self.sides[side].window.core
        pairs = {(int(core.columns.kind[row]), int(core.columns.name[row])) for row in self.rows(side).tolist()}
        return {normal_name(Kind(kind), core.names[code]) for kind, code in pairs}

    def is_graph_launch(self, side: int) -> bool:
        """Whether all of it was launched as graphs."""
        rows = self.rows(side)
        return len(rows) > 0 and bool((self.sides[side].window.core.columns.kind[rows] == Kind.RuntimeCall).all())

    def is_captured(self, side: int) -> bool:
        """Whether none of it ran: it was recorded into a graph."""
        forest = self.sides[side]
        if not forest.captured:
            return False
        events = forest.events_of_all(self.leaves[side])
        return len(events) > 0 and all(row in forest.captured for row in events.tolist())

    @cached_property
    def ratio(self) -> float:
        """Time of the second side over that of the first."""
        return self.place.ns[1] / max(self.place.ns[0], 1)

    @cached_property
    def is_of_equal_kernels(self) -> bool:
        """Whether both sides run the same kernels equally often, whatever build they are of."""
        first, second = self.place.kernels
        return bool(first) and of_any_build(first) == of_any_build(second)

    @cached_property
    def is_communication(self) -> bool:
        """Whether all of it is communication."""
        return all(COMMUNICATION_NAME.search(name) for kernels in self.place.kernels for name in kernels)

    @cached_property
    def arguments(self) -> tuple[Reason, str] | None:
        """How the arguments of matched leaves of one op differ, told by the first that do; None where they do not."""
        first, second = self.sides
        partner = self.diff.alignment.leaves[0]
        seen = set()
        for leaf in self.leaves[0]:
            other = int(partner[leaf])
            if other < 0 or first.op[leaf] != second.op[other] or first.leaf_args[leaf] == second.leaf_args[other]:
                continue
            sets = _argument_set(first, leaf), _argument_set(second, other)
            if sets in seen or None in sets:
                continue
            seen.add(sets)
            for reason, part, told in _ARGUMENTS:
                if text := told(sets[0][part], sets[1][part]):  # type: ignore[index]
                    return reason, text
        return None

    @property
    def took(self) -> str:
        """The ratio in words."""
        kind = "the same kernels" if self.place.kernels[0].keys() == self.place.kernels[1].keys() else (
            "the same kernels of another build"
        )  # fmt: skip
        return f"{kind}, {times(self.ratio)}"

    def count(self, side: int) -> int:
        """Number of GPU events of a side."""
        return sum(count for count, _ in self.place.kernels[side].values())


_ARGUMENTS = (
    (Reason.other_types, 1, other_types),
    (Reason.other_sizes, 0, other_sizes),
    (Reason.other_strides, 2, other_strides),
)
"""Parts of argument sets, and how to tell what differs in them."""


def _argument_set(side: Forest, leaf: int) -> tuple[str, str, str, str] | None:
    core, row = side.window.core, int(side.row[side.leaf_parent[leaf]])
    code = int(core.columns.argset[row]) if row >= 0 else -1
    return core.argsets[code] if code >= 0 else None


def _devices(side: Forest) -> set[str]:
    """Names of the devices that the trace describes."""
    listed = side.window.core.info.metadata.get("deviceProperties")
    described = listed if isinstance(listed, list) else []
    return {str(device.get("name")) for device in described if isinstance(device, dict)}


def times(ratio: float) -> str:
    """A ratio of times in words."""
    return f"{ratio:.2f}x as long" if ratio >= 0.1 else f"{1 / max(ratio, 1e-9):,.0f} times as fast"


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
    communicates = sum(ns for name, (_, ns) in kernels.items() if COMMUNICATION_NAME.search(name))
    if 2 * communicates > clues.place.ns[side] or clues.is_communication:
        return Why(Reason.communication, f"{only}: communication, {what}")
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
    return Why(Reason.graph_launch, f"{text}; {other_name(*clues.place.kernels)[1]}")


def _is_communication(clues: Clues, _: Reasons) -> Why | None:
    if not clues.is_communication or not clues.is_of_equal_kernels:
        return None
    detail = f"; {clues.arguments[1]}" if clues.arguments else ""
    return Why(
        Reason.communication, f"the same communication, {times(clues.ratio)}, waiting for other ranks included{detail}"
    )


def _has_other_arguments(clues: Clues, _: Reasons) -> Why | None:
    if not clues.arguments:
        return None
    reason, text = clues.arguments
    detail = clues.took if clues.is_of_equal_kernels else other_name(*clues.place.kernels)[1]
    return Why(reason, f"{text}; {detail}")


def _is_contended(clues: Clues, reasons: Reasons) -> Why | None:
    if not clues.is_of_equal_kernels:
        return None
    before, after = (reasons.overlap(side, clues.place) for side in range(2))
    if (after - before if clues.ratio > 1 else before - after) < _CONTENDED:
        return None
    return Why(
        Reason.contention,
        f"{clues.took}; {100 * before:.0f} -> {100 * after:.0f} % of the time communication runs beside it",
    )


def _is_of_another_device(clues: Clues, reasons: Reasons) -> Why | None:
    if not clues.is_of_equal_kernels or not reasons.is_other_device:
        return None
    return Why(Reason.other_device, f"{clues.took}, on another device")


def _is_of_the_clock(clues: Clues, reasons: Reasons) -> Why | None:
    clock = reasons.clock
    if not clues.is_of_equal_kernels or clock is None or abs(clues.ratio / clock - 1) > _CLOCK_WITHIN:
        return None
    return Why(Reason.clock, f"{clues.took}, as most equal kernels: clock, power or bandwidth of the device")


def _takes_other_time(clues: Clues, _: Reasons) -> Why | None:
    return Why(Reason.other_time, f"{clues.took}; the traces do not tell why") if clues.is_of_equal_kernels else None


def _is_other_work(clues: Clues, _: Reasons) -> Why | None:
    """Communication on one side only: what stands on the other in its place does not replace it."""
    first, second = clues.place.kernels
    communicates = [any(map(COMMUNICATION_NAME.search, kernels)) for kernels in (first, second)]
    if communicates[0] == communicates[1]:
        return None
    both = zip((first, second), clues.diff.names, strict=True)
    text = " and ".join(f"{words(kernels)} in {name}" for kernels, name in both)
    return Why(Reason.other_work, f"other work between the same neighbours: {text}")


def _is_fused(clues: Clues, _: Reasons) -> Why | None:
    """Kernels that a compiler wrote against those of ops, or one op against several."""
    first, second = clues.place.kernels
    compiled = [any(map(is_compiled, kernels)) for kernels in (first, second)]
    counts = [sum(count for name, (count, _) in kernels.items() if not is_move(name)) for kernels in (first, second)]
    ops = len(clues.ops(0)), len(clues.ops(1))
    if not min(counts):
        return None
    # One op with one kernel in place of several ops.
    by_op = min(ops) == 1 < max(ops) and min(counts) == len(clues.place.points) and counts[0] != counts[1]
    if compiled[0] == compiled[1] and not (by_op and (ops[0] > ops[1]) == (counts[0] > counts[1])):
        return None
    is_fused = compiled[1] if compiled[0] != compiled[1] else counts[1] < counts[0]
    if (counts[1] >= counts[0]) if is_fused else (counts[0] >= counts[1]):
        return None
    per_call = " -> ".join(f"{count / len(clues.place.points):,.3g}" for count in counts)
    how = " by a compiler" if compiled[0] != compiled[1] else ""
    reason = Reason.fused if is_fused else Reason.unfused
    return Why(reason, f"{reason}{how}, {per_call} kernels: {words(first)} became {words(second)}")


def _has_more_kernels(clues: Clues, _: Reasons) -> Why | None:
    first, second = clues.place.kernels
    less, more = more_of(first, second), more_of(second, first)
    if bool(less) == bool(more):
        return None
    names, word = (more, "more") if more else (less, "fewer")
    told = f"{sum(names.values()):,} {word}: {listed(map(short_name, names))}"
    if all(map(is_move, names)):
        return Why(Reason.moves, f"copies, casts or fills, {told}")
    return Why(Reason.more_kernels if more else Reason.fewer_kernels, told)


def _is_another_op(clues: Clues, _: Reasons) -> Why | None:
    first, second = clues.place.names
    if first == second:
        return None
    return Why(Reason.other_op, f"{first} became {second}; {other_name(*clues.place.kernels)[1]}")


def _is_another_algorithm(clues: Clues, _: Reasons) -> Why | None:
    """The kernels with the most time do other things: attention became a product and a softmax."""
    longest = [
        max(leaves, key=lambda leaf: (side.ns[leaf], -leaf))
        for side, leaves in zip(clues.sides, clues.leaves, strict=True)
    ]
    categories = [int(side.category[leaf]) for side, leaf in zip(clues.sides, longest, strict=True)]
    first, second = clues.place.kernels
    if categories[0] == categories[1] or is_move(next(iter(first))) or is_move(next(iter(second))):
        return None
    return Why(Reason.other_algorithm, f"another algorithm: {words(first)} became {words(second)}")


def _has_another_kernel(clues: Clues, _: Reasons) -> Why | None:
    kind, text = other_name(*clues.place.kernels)
    counts = clues.count(0), clues.count(1)
    number = f"; {counts[0]:,} -> {counts[1]:,} GPU events" if counts[0] != counts[1] else ""
    return Why(_OTHER_NAME[kind], text + number)


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
