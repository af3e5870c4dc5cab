"""One call tree out of two: what both sides have once, with both times, and what one side alone has.

Modules, ops and graph launches are drawn. Calls around shared work that only one side makes, such as wrappers, are
passed over, and so are frames of Python: what is below them stands below the next call above. Neighbours of one
structure are one branch, whose times are sums: 24 equal layers are drawn once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from tracelens_graph.analyses.alignment.align import Alignment
from tracelens_graph.analyses.alignment.contexts import OUTSIDE_OF_OPS, kernels_of
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.schema import Kind

Kernels = dict[str, tuple[int, int]]


@dataclass(eq=False)
class Branch:
    """Calls of a merged tree that stand beside one another and are alike.

    Attributes:
        names: what is called on both sides; empty on a side that does not have it.
        times: how many neighbours it stands for.
        ns: GPU time below it on both sides.
        kernels: on both sides the names of the GPU events right below it, with how many and how long.
        below: the branches below it.
        differs: whether one side has other calls or GPU events in it than the other.
        changed: sum of the absolute changes of all GPU work in it, taken call by call; 0 if all is the same.
    """

    names: tuple[str, str]
    times: int
    ns: tuple[int, int]
    kernels: tuple[Kernels, Kernels]
    below: list[Branch] = field(default_factory=list)
    differs: bool = False
    changed: int = 0

    @property
    def name(self) -> str:
        """What is called."""
        return one_name(self.names)


def one_name(names: tuple[str, str], between: str = " -> ") -> str:
    """What is called on both sides, where one of them may have nothing."""
    first, second = names
    return first if first == second or not second else second if not first else first + between + second


def merged_tree(alignment: Alignment) -> list[Branch]:
    """The merged tree of an alignment: the branches at its top."""
    return _folded(MergedNodes(alignment))


class MergedNodes:
    """Nodes of the merged tree: pairs of nodes, and nodes of one side without a shared leaf below.

    Args:
        is_drawn: which nodes of a side may be drawn; all but frames of Python and threads without it.
    """

    def __init__(self, alignment: Alignment, is_drawn: Callable[[Forest], np.ndarray] | None = None) -> None:
        self._is_drawn = is_drawn or _is_drawn
        self.alignment = alignment
        self.sides = alignment.sides
        self.nodes: list[tuple[int, int]] = []
        self.below: list[list[tuple[tuple[int, int, int], int]]] = [[]]
        """Per node, and first for the top, its children with what they are sorted by."""
        self.own: list[tuple[list[int], list[int]]] = [([], [])]
        """Per node, and first for the top, the leaves of both sides right below it."""
        self._of: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self._names: tuple[dict[int, str], dict[int, str]] = ({}, {})
        self._draw()

    def _draw(self) -> None:
        a, b = self.sides
        partner = self.alignment.nodes
        drawn = [self._is_drawn(side) & ((of >= 0) | _is_alone(side, leaves))
                 for side, of, leaves in zip(self.sides, partner, self.alignment.leaves, strict=True)]  # fmt: skip
        # A pair is drawn if both of its nodes are.
        pairs = np.flatnonzero((partner[0] >= 0) & drawn[0])
        pairs = pairs[drawn[1][partner[0][pairs]]]
        self._is_pair = [np.zeros(len(side.parent), bool) for side in self.sides]
        self._is_pair[0][pairs] = True
        self._is_pair[1][partner[0][pairs]] = True
        self._drawn = [of & (self._is_pair[k] | (partner[k] < 0)) for k, of in enumerate(drawn)]
        places = _places(self.alignment)
        # Roots come first, then what is above before what is below.
        for u in sorted(pairs.tolist(), key=lambda node: (int(a.parent[node]) >= 0, node)):
            v = int(partner[0][u])
            self._add((u, v), self._around(int(a.parent[u]), int(b.parent[v])), (int(places[0][a.low[u]]), 2, u))
        for k, side in enumerate(self.sides):
            alone = np.flatnonzero(self._drawn[k] & (partner[k] < 0))
            for node in sorted(alone.tolist(), key=lambda one: (int(side.parent[one]) >= 0, one)):
                above = self._above(k, int(side.parent[node]))
                place = int(places[k][side.low[node]]), k, node
                self._add((node, -1) if k == 0 else (-1, node), above, place)
        for i, j in enumerate(self.alignment.leaves[0].tolist()):
            if j >= 0:
                own = self.own[self._around(int(a.leaf_parent[i]), int(b.leaf_parent[j]))]
                own[0].append(i)
                own[1].append(j)
        for k, side in enumerate(self.sides):
            for leaf in np.flatnonzero(self.alignment.leaves[k] < 0).tolist():
                self.own[self._above(k, int(side.leaf_parent[leaf]))][k].append(leaf)

    def _add(self, node: tuple[int, int], above: int, place: tuple[int, int, int]) -> None:
        self.nodes.append(node)
        self.own.append(([], []))
        self.below.append([])
        number = len(self.nodes)
        for of, one in zip(self._of, node, strict=True):
            if one >= 0:
                of[one] = number
        self.below[above].append((place, number))

    def _around(self, u: int, v: int) -> int:
        """The lowest pair whose nodes stand above, or are, a node of either side; 0 for none."""
        a, b = self.sides
        while u >= 0:
            if self._is_pair[0][u]:
                partner = int(self.alignment.nodes[0][u])
                if b.low[partner] <= b.low[v] and b.high[v] <= b.high[partner] and _is_above(b, partner, v):
                    return self._of[0][u]
            u = int(a.parent[u])
        return 0

    def children(self) -> list[list[int]]:
        """The nodes right below each, and first below the top, in their order."""
        return [[node for _, node in sorted(children)] for children in self.below]

    def kernels(self, nodes: Sequence[int]) -> tuple[Kernels, Kernels]:
        """The GPU events right below some nodes: on both sides their names, with how many and how long."""
        first, second = (
            kernels_of(side, [leaf for node in nodes for leaf in self.own[node][k]])
            for k, side in enumerate(self.sides)
        )
        return first, second

    def called(self, node: int) -> tuple[str, str]:
        """What is called on both sides; the top has no name."""
        if not node:
            return "", ""
        first, second = (
            _called(side, one, known)
            for side, one, known in zip(self.sides, self.nodes[node - 1], self._names, strict=True)
        )
        return first, second

    def _above(self, k: int, node: int) -> int:
        """The lowest node that is drawn and stands above, or is, a node of one side; 0 for none."""
        while node >= 0 and not self._drawn[k][node]:
            node = int(self.sides[k].parent[node])
        return self._of[k][node] if node >= 0 else 0


def _is_above(forest: Forest, above: int, node: int) -> bool:
    """Whether one of two nodes over the same leaves, or more, stands above the other or is it."""
    return above == node or forest.parent[above] < 0 or (above < node and forest.parent[node] >= 0)


def _is_drawn(forest: Forest) -> np.ndarray:
    """Nodes but for frames of Python and threads."""
    found = (forest.row >= 0) & (forest.window.core.columns.kind[forest.row] != Kind.PythonFunction)
    found[forest.lone_roots] = True
    return found


def _is_alone(forest: Forest, partner: np.ndarray) -> np.ndarray:
    """Nodes without a shared leaf below."""
    shared = np.concatenate(([0], np.cumsum(partner >= 0)))
    return shared[forest.high] == shared[forest.low]


def _places(alignment: Alignment) -> tuple[np.ndarray, np.ndarray]:
    """For each leaf of both sides where it stands among the shared ones, by the order of the first side."""
    of_a, of_b = alignment.leaves
    first: np.ndarray = np.cumsum(of_a >= 0) - (of_a >= 0)
    # Entry 0 is for leaves that no shared one comes before.
    before = np.concatenate(([-1], of_b))[np.maximum.accumulate(np.where(of_b >= 0, np.arange(1, len(of_b) + 1), 0))]
    return first, np.where(of_b >= 0, first[of_b], np.where(before >= 0, first[before] + 1, 0))


def _folded(tree: MergedNodes) -> list[Branch]:
    """The tree with neighbours of one structure as one branch."""
    below = tree.children()
    called = [tree.called(node) for node in range(len(below))]
    numbers: dict[object, int] = {}
    shape = [0] * len(below)
    for node in _children_first(below):
        key = called[node], tuple(shape[child] for child in below[node]), *(bool(own) for own in tree.own[node])
        shape[node] = numbers.setdefault(key, len(numbers))
    top = Branch(("", ""), 1, (0, 0), tree.kernels([0]))
    order: list[tuple[Branch, Branch]] = []
    stack: list[tuple[Branch, list[int]]] = [(top, [0])]
    while stack:
        branch, nodes = stack.pop()
        runs = [[at for at, _ in run] for _, run in groupby(enumerate(below[nodes[0]]), lambda one: shape[one[1]])]
        for run in runs:
            alike = [below[node][at] for node in nodes for at in run]
            one = Branch(called[alike[0]], len(run), (0, 0), tree.kernels(alike))
            branch.below.append(one)
            order.append((branch, one))
            stack.append((one, alike))
    for _, branch in reversed(order):
        _close(branch)
    _close(top)
    if any(top.kernels):
        top.below.append(Branch(("(below no call of both)",) * 2, 1, (0, 0), top.kernels))
        _close(top.below[-1])
    return top.below


def _close(branch: Branch) -> None:
    """Sum up a branch, those below it being summed up."""
    first, second = (sum(ns for _, ns in kernels.values()) for kernels in branch.kernels)
    branch.ns = first + sum(one.ns[0] for one in branch.below), second + sum(one.ns[1] for one in branch.below)
    counts = [{name: count for name, (count, _) in kernels.items()} for kernels in branch.kernels]
    branch.differs = (
        branch.names[0] != branch.names[1] or counts[0] != counts[1] or any(one.differs for one in branch.below)
    )
    branch.changed = abs(second - first) + sum(one.changed for one in branch.below)


def _children_first(below: Sequence[Sequence[int]]) -> Iterator[int]:
    """All nodes, each behind those below it."""
    order = [0]
    for node in order:
        order += below[node]
    return reversed(order)


def _called(forest: Forest, node: int, known: dict[int, str]) -> str:
    """What is called at a node; `known` are names by the number that the forest has for kind and name."""
    if node < 0:
        return ""
    row = int(forest.row[node])
    if row < 0:
        return NO_LAUNCH if node in forest.lone_roots else OUTSIDE_OF_OPS
    number = int(forest.called[node])
    if number not in known:
        core = forest.window.core
        kind = Kind(int(core.columns.kind[row]))
        known[number] = normal_name(kind, core.names[core.columns.name[row]]).removeprefix("nn.Module: ")
    return known[number]
