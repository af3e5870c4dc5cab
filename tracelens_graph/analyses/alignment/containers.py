"""Which node of one call tree is which of the other, by the leaves below them."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.alignment.forest import Forest, mixed
from tracelens_graph.analyses.alignment.leaf_matching import Matching
from tracelens_graph.graph.arrays import expanded
from tracelens_graph.graph.common_order import in_step

_WRAPPERS = 200
"""Nodes above the images of a chain's leaves that are looked at, beyond four times as many as the chain has."""
_MOST_CELLS = 4_000_000
"""Pairs of names above which only those that occur once are looked at."""


class Containers:
    """Nodes of two forests, paired.

    Two chains of nodes over the same leaves belong together where the leaves of one are mostly matched to those of the
    other; in them the longest common sequence of names is paired, and if there is none, their lowest nodes as renamed.
    Most chains have the same names as the one over the images of their leaves, and the other way round: these are
    paired all at once, the others one by one, the outermost first.

    Attributes:
        of_a, of_b: for each node its partner, -1 without one.
        renamed: for each node of the first side whether its partner has another name.
    """

    def __init__(self, matching: Matching) -> None:
        a, b = matching.a, matching.b
        self._a, self._b = a, b
        self.of_a, self.of_b = np.full(len(a.parent), -1, np.int64), np.full(len(b.parent), -1, np.int64)
        for u, v in matching.roots:
            self.of_a[u], self.of_b[v] = v, u
        self._place_equal(matching)
        self._place_others()
        self.renamed = np.zeros(len(a.parent), bool)
        paired = np.flatnonzero(self.of_a >= 0)
        self.renamed[paired] = a.called[paired] != b.called[self.of_a[paired]]

    def _place_equal(self, matching: Matching) -> None:
        """Pair chains of the same names that hold each other's images."""
        a, b = self._a, self._b
        chains = _Chains(a), _Chains(b)
        lowest, self._both = _lowest_around(chains[0], a, b, matching.of_a)
        back, _ = _lowest_around(chains[1], b, a, matching.of_b)
        self._chains, self._lowest = chains, lowest
        of, of_back = chains[1].of[lowest], chains[0].of[back]
        here = np.flatnonzero(of >= 0)
        there = of[here]
        mutual = of_back[there] == here
        same = chains[0].names[here] == chains[1].names[there]
        size = chains[0].leaves[here] + chains[1].leaves[there]
        wanted = mutual & same & (4 * self._both[here] >= size)
        here, there = here[wanted], there[wanted]
        nodes_a, nodes_b = chains[0].nodes(here), chains[1].nodes(there)
        self.of_a[nodes_a], self.of_b[nodes_b] = nodes_b, nodes_a

    def _place_others(self) -> None:
        a, b, chains = self._a, self._b, self._chains[0]
        start, length = chains.start, chains.length
        left = np.flatnonzero((self._lowest >= 0) & (self.of_a[start] < 0))
        known: dict[tuple[tuple[int, ...], tuple[int, ...]], list[tuple[int, int]]] = {}
        for chain in left.tolist():
            size, both = int(chains.leaves[chain]), int(self._both[chain])
            others = []
            node, most = int(self._lowest[chain]), _WRAPPERS + 4 * int(length[chain])
            for _ in range(most):
                if b.parent[node] < 0 or 4 * both < size + b.high[node] - b.low[node]:
                    break
                if self.of_b[node] < 0:
                    others.append(node)
                node = int(b.parent[node])
            if not others:
                continue
            others.reverse()
            first = int(start[chain])
            names = tuple(a.called[first : first + int(length[chain])].tolist()), tuple(b.called[others].tolist())
            if names not in known:
                known[names] = common_places(*names) or [(len(names[0]) - 1, len(others) - 1)]
            for i, j in known[names]:
                self.of_a[first + i], self.of_b[others[j]] = others[j], first + i


class _Chains:
    """Nodes over the same leaves: they stand side by side in pre-order, the outermost first.

    Attributes:
        of: for each node its chain; -1 for roots, and for -1, which is no node.
        start, length: the first node of each, and how many it has.
        leaves: number of leaves below each.
        names: hash of the names in each.
    """

    def __init__(self, forest: Forest) -> None:
        nodes = int((forest.row >= 0).sum())
        parent = forest.parent[:nodes]
        fresh = (parent >= nodes) | (forest.low[:nodes] != forest.low[parent])
        fresh |= forest.high[:nodes] != forest.high[parent]
        self.start = np.flatnonzero(fresh)
        self.length = np.diff(np.append(self.start, nodes))
        self.of = np.full(len(forest.parent) + 1, -1, np.int64)
        self.of[:nodes] = np.cumsum(fresh) - 1
        self.leaves = (forest.high - forest.low)[self.start]
        place = (np.arange(nodes) - self.start[self.of[:nodes]]).astype(np.uint64)
        own = mixed(mixed(forest.called[:nodes].astype(np.uint64)) + place)
        self.names = np.add.reduceat(own, self.start) if nodes else own

    def nodes(self, chains: np.ndarray) -> np.ndarray:
        """The nodes of some chains, one chain after the other."""
        start = self.start[chains]
        return expanded(start, start + self.length[chains])[0]


def _lowest_around(
    chains: _Chains, forest: Forest, other: Forest, partner: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For each chain the lowest node around the images of its leaves, -1 for none or a root; how many have images."""
    running = np.concatenate(([0], np.cumsum(partner >= 0)))
    matched = np.flatnonzero(partner >= 0)
    first, last = running[forest.low[chains.start]], running[forest.high[chains.start]]
    found = np.full(len(chains.start), -1, np.int64)
    has = np.flatnonzero(last > first)
    ends = partner[matched[first[has]]], partner[matched[last[has] - 1]]
    low, high = np.minimum(*ends), np.maximum(*ends)
    node = other.leaf_parent[low]
    while len(climbing := np.flatnonzero((node >= 0) & (other.high[node] <= high))):
        node[climbing] = other.parent[node[climbing]]
    found[has] = np.where((node >= 0) & (other.row[node] >= 0), node, -1)
    return found, last - first


def common_places(first: tuple[int, ...], second: tuple[int, ...]) -> list[tuple[int, int]]:
    """Places of a longest common sequence of two lists of names.

    Where the table of all pairs would be large, of a longest one of the names that occur once on both sides.
    """
    begin = 0
    while begin < min(len(first), len(second)) and first[begin] == second[begin]:
        begin += 1
    pairs = [(i, i) for i in range(begin)]
    common = set(first[begin:]).intersection(second[begin:])
    # What only one side has is in no common sequence.
    places = [[i for i in range(begin, len(names)) if names[i] in common] for names in (first, second)]
    values = [np.array([names[i] for i in at], np.int64) for names, at in zip((first, second), places, strict=True)]
    is_large = len(places[0]) * len(places[1]) > _MOST_CELLS
    found = in_step(values[0], values[1], 0) if is_large else _common(values[0], values[1])
    return pairs + [(places[0][i], places[1][j]) for i, j in found]


def _common(first: np.ndarray, second: np.ndarray) -> list[tuple[int, int]]:
    length = np.zeros((len(first) + 1, len(second) + 1), np.int32)
    for i in range(len(first) - 1, -1, -1):
        # Along a row, from the right: one more where names are equal, else the best so far.
        best = np.where(second == first[i], length[i + 1, 1:] + 1, length[i + 1, :-1])
        length[i, :-1] = np.maximum.accumulate(best[::-1])[::-1]
    pairs = []
    i = j = 0
    while i < len(first) and j < len(second):
        if first[i] == second[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif length[i + 1, j] >= length[i, j + 1]:
            i += 1
        else:
            j += 1
    return pairs
