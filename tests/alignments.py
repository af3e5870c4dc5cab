"""Alignments of hand-made and generated call trees, edits of known effect, and what must hold of every alignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import numpy as np
from call_trees import FORWARD, Call, frame, launch, load, module, op

from tracelens_graph.analyses.alignment.align import Alignment, align
from tracelens_graph.analyses.alignment.captures import captured_launches
from tracelens_graph.analyses.alignment.costs import LeafCosts, LeafTable
from tracelens_graph.analyses.alignment.forest import Forest
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


OPS = ("aten::mm", "aten::add", "aten::mul", "aten::copy_", "aten::native_layer_norm")


@dataclass(eq=False)
class Tree:
    """A call; a tree with a number is an op that launches one kernel, which is called by the number."""

    name: str
    calls: list[Tree] = field(default_factory=list)
    number: int = -1
    size: int = 1
    us: float = 1.0

    def call(self) -> Call:
        """The same as an entry of a trace."""
        if self.number >= 0:
            return op(self.name, launch(f"k{self.number}", self.us), **{"Input Dims": [[self.size, 8]]})
        inner = [tree.call() for tree in self.calls]
        kind = {"nn": module, "fr": frame}.get(self.name[:2], op)
        return kind(self.name[2:] if kind is not op else self.name, *inner)

    def copy(self, numbers: count[int]) -> Tree:
        """The same with kernels of other numbers."""
        number = next(numbers) if self.number >= 0 else -1
        return Tree(self.name, [tree.copy(numbers) for tree in self.calls], number, self.size, self.us)

    def clone(self) -> Tree:
        """The same."""
        return Tree(self.name, [tree.clone() for tree in self.calls], self.number, self.size, self.us)

    def leaves(self) -> list[Tree]:
        """What launches kernels, in order."""
        return [self] if self.number >= 0 else [leaf for tree in self.calls for leaf in tree.leaves()]

    def inner(self) -> list[Tree]:
        """All trees in it that have calls, itself first."""
        return [] if self.number >= 0 else [self, *(node for tree in self.calls for node in tree.inner())]


def made(random: Random, numbers: count[int], depth: int = 3, times: tuple[float, ...] = (1.0,)) -> Tree:
    """A tree of modules, frames and ops."""

    def grown(level: int) -> Tree:
        if level == 0 or random.random() < 0.2:
            return Tree(random.choice(OPS), [], next(numbers), random.choice((1, 2)), random.choice(times))
        name = random.choice(("nnBlock_0", "nnAttention_0", "frm.py(1): step", "aten::linear", "aten::layer_norm"))
        return Tree(name, [grown(level - 1) for _ in range(random.randint(1, 3))])

    return Tree("nnModel_0", [grown(depth) for _ in range(random.randint(1, 4))])


def layered(random: Random, numbers: count[int], layers: int) -> Tree:
    """A model of equal layers."""
    body = [Tree("nnNorm_0", [Tree("aten::native_layer_norm", [], next(numbers))])]
    for block in ("nnAttention_0", "nnMLP_0"):
        ops = [Tree(random.choice(OPS), [], next(numbers), random.choice((1, 2))) for _ in range(random.randint(2, 4))]
        body.append(Tree(block, ops))
    one = Tree("nnLayer_0", body)
    return Tree("nnModel_0", [one.copy(numbers) for _ in range(layers)])


def edited(tree: Tree, random: Random, numbers: count[int], edits: int) -> Tree:
    """A tree after some edits. Kernels that keep their numbers, which stand in the same order, are what was kept."""
    tree = tree.clone()
    for _ in range(edits):
        random.choice(EDITS)(tree, random, numbers)
    return tree


def _place(tree: Tree, random: Random) -> tuple[list[Tree], int]:
    """Some call, as a place in what its caller calls."""
    calls = random.choice([node.calls for node in tree.inner() if node.calls] or [tree.calls])
    return calls, random.randrange(len(calls)) if calls else 0


def delete(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Take a call out."""
    calls, place = _place(tree, random)
    del calls[place : place + 1]


def insert(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Put a call in."""
    calls, place = _place(tree, random)
    calls.insert(place, Tree(random.choice(OPS), [], next(numbers), random.choice((1, 2))))


def rename(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Give a call another name."""
    calls, place = _place(tree, random)
    for one in calls[place : place + 1]:
        one.name = "nnOther_0" if one.name.startswith("nn") else "frother.py(2): f" if one.calls else "aten::other"


def wrap(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Put some calls side by side below a new one."""
    calls, place = _place(tree, random)
    end = place + random.randint(1, 3)
    if calls[place:end]:
        calls[place:end] = [Tree(random.choice(("nnWrapper_0", "frwrapper.py(1): f")), calls[place:end])]


def unwrap(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Put the calls of a call in its place: it was inlined."""
    calls, place = _place(tree, random)
    for one in calls[place : place + 1]:
        if one.calls:
            calls[place : place + 1] = one.calls


def fuse(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Put one kernel in the place of two side by side."""
    calls, place = _place(tree, random)
    if len(calls[place : place + 2]) == 2 and all(one.number >= 0 for one in calls[place : place + 2]):
        del calls[place + 1]


def reorder(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Exchange two calls side by side; one of them counts as new."""
    calls, place = _place(tree, random)
    calls[place : place + 2] = [one.copy(numbers) if k else one for k, one in enumerate(calls[place : place + 2])][::-1]


def repeat(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Do a call twice."""
    calls, place = _place(tree, random)
    calls[place:place] = [one.copy(numbers) for one in calls[place : place + 1]]


EDITS = (delete, insert, rename, wrap, unwrap, fuse, reorder, repeat)


def kept(a: Tree, b: Tree) -> list[tuple[int, int]]:
    """Places of the leaves that the edits kept."""
    at = {leaf.number: place for place, leaf in enumerate(b.leaves())}
    return [(place, at[leaf.number]) for place, leaf in enumerate(a.leaves()) if leaf.number in at]
