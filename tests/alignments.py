"""Alignments of hand-made and generated call trees, and what must hold of every alignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from call_trees import FORWARD, Call, load

from tracelens_graph.analyses.alignment.align import Alignment, align
from tracelens_graph.analyses.alignment.costs import LeafCosts, LeafTable
from tracelens_graph.analyses.alignment.forest import Forest, captured_launches
from tracelens_graph.analyses.alignment.sequence import NEVER
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of

Calls = Sequence[Call] | dict[tuple[Any, Any], Sequence[Call]]


def graph(calls: Calls) -> Core:
    """The graph of calls, on the usual thread or on those given."""
    return load(calls if isinstance(calls, dict) else {FORWARD: calls})


def aligned(a: Calls | Core, b: Calls | Core) -> Alignment:
    """The alignment of two sides, checked, and the other way round as well."""
    first, second = (window_of(one if isinstance(one, Core) else graph(one)) for one in (a, b))
    return checked(first, second)


def checked(a: Window, b: Window) -> Alignment:
    """The alignment of two windows; fails where it breaks a rule that holds for all."""
    found, swapped = align(a, b), align(b, a)
    assert_whole(found, a, b)
    assert_same(found, swapped.mirrored())
    return found


def assert_whole(found: Alignment, a: Window, b: Window) -> None:
    """Every GPU event or captured launch lies in exactly one point, changes add up, and partners are each other's."""
    for side, window in enumerate((a, b)):
        forest, partners = found.sides[side], found.leaves[side]
        rows = [int(row) for point in found.points for leaf in point.leaves[side] for row in forest.events_of(leaf)]
        assert sorted(rows) == sorted([*window.gpu_rows.tolist(), *captured_launches(window)])
        for mine, other in ((partners, found.leaves[1 - side]), (found.nodes[side], found.nodes[1 - side])):
            paired = np.flatnonzero(mine >= 0)
            assert (other[mine[paired]] == paired).all()
        assert ((found.leaf_kinds[side] > 0) == (partners >= 0)).all()
        assert ((found.node_kinds[side] > 0) == (found.nodes[side] >= 0)).all()
    ns = [int(window.core.columns.dur_ns[window.gpu_rows].sum()) for window in (a, b)]
    assert sum(point.change_ns for point in found.points) == ns[1] - ns[0]
    assert [sum(point.ns[side] for point in found.points) for side in range(2)] == ns
    for point in found.points:
        for i in point.leaves[0]:
            assert found.leaves[0][i] < 0 or found.leaves[0][i] in point.leaves[1]


def assert_same(one: Alignment, other: Alignment) -> None:
    """Two alignments are the same, points in any order."""
    for what in ("leaves", "nodes", "leaf_kinds", "node_kinds"):
        for first, second in zip(getattr(one, what), getattr(other, what), strict=True):
            assert first.tolist() == second.tolist(), what
    assert _points(one) == _points(other)
    assert one.are_unrelated == other.are_unrelated


def _points(found: Alignment) -> Counter[object]:
    return Counter(
        (point.container, tuple(point.leaves[0]), tuple(point.leaves[1]), point.ns) for point in found.points
    )


def kernels(forest: Forest) -> list[str]:
    """The name of each leaf's longest GPU event, the first of equal ones."""
    core, found = forest.window.core, []
    for leaf in range(forest.leaves):
        rows = forest.events_of(leaf)
        row = rows[np.argmax(core.columns.dur_ns[rows])]
        found.append(core.names[core.columns.name[row]])
    return found


def pairs(found: Alignment) -> list[tuple[str, str]]:
    """Kernels of the leaves that are paired, in the order of the first side."""
    first, second = (kernels(side) for side in found.sides)
    return [(first[i], second[j]) for i, j in enumerate(found.leaves[0].tolist()) if j >= 0]


def unmatched(found: Alignment) -> tuple[list[str], list[str]]:
    """Kernels of the leaves that are alone, of both sides."""
    alone = [
        [kernel for kernel, partner in zip(kernels(side), of.tolist(), strict=True) if partner < 0]
        for side, of in zip(found.sides, found.leaves, strict=True)
    ]
    return alone[0], alone[1]


def cost(a: Forest, b: Forest, partners: list[tuple[int, int]]) -> int:
    """What pairs of leaves cost, and what is left over; pairs that may not be count as left over."""
    costs = LeafCosts(a, b)
    table = LeafTable(costs, range(a.leaves), range(b.leaves))
    total = int(costs.weights[0].sum() + costs.weights[1].sum())
    for i, j in partners:
        alone = int(costs.weights[0][i] + costs.weights[1][j])
        beside = int(table.row(i, j, j + 1)[0])
        total += min(beside, alone) - alone if beside < NEVER else 0
    return total


def torn(found: Alignment, name: str) -> int:
    """How many nodes of a name on the first side have leaves that are paired with leaves of several such nodes."""
    layers = [_layers(side, name) for side in found.sides]
    images: dict[int, set[int]] = {}
    for i, j in enumerate(found.leaves[0].tolist()):
        if j >= 0 and layers[0][i] >= 0 and layers[1][j] >= 0:
            images.setdefault(int(layers[0][i]), set()).add(int(layers[1][j]))
    return sum(len(image) > 1 for image in images.values())


def _layers(forest: Forest, name: str) -> np.ndarray:
    core = forest.window.core
    found = np.full(forest.leaves, -1)
    for node in np.flatnonzero(forest.row >= 0).tolist():
        if name in core.names[core.columns.name[forest.row[node]]]:
            found[forest.low[node] : forest.high[node]] = node
    return found
