"""Which nodes of two forests belong together, from what leaves are matched below them."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.leaf_matching import Matching
from tracelens_graph.graph.arrays import expanded
from tracelens_graph.graph.classes import mixed
from tracelens_graph.graph.common_order import in_step
from tracelens_graph.utils.arrays import Rows

_WRAPPERS = 200
"""Nodes above the images of a chain's leaves that are looked at, beyond four times as many as the chain has."""
_MOST_CELLS = 4_000_000
"""Pairs of names above which only those that occur once are looked at."""


class Containers:
    """Nodes of two forests, paired.

    Two chains of nodes over the same leaves belong together where the leaves of one are mostly matched to those of the
    other; in them the longest common sequence of names is paired, and if there is none, their lowest nodes as renamed.
    Most chains have the same names as the one over the images of their leaves, and the other way round: these are
    paired all at once, the others one by one, the outermost first. Calls of one name whose leaves are matched to
    nothing (one runs a fused kernel, the other its parts) belong together where their callers do and the same leaf is
    matched last before them.

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
        for side in range(2):
            self._place_others(side)
        self._place_unmatched(matching)
        self.renamed = np.zeros(len(a.parent), bool)
        paired = np.flatnonzero(self.of_a >= 0)
        self.renamed[paired] = a.called[paired] != b.called[self.of_a[paired]]

    def _place_equal(self, matching: Matching) -> None:
        """Pair chains of the same names that hold each other's images."""
        a, b = self._a, self._b
        chains = _Chains(a), _Chains(b)
        in_order = matching.in_order
        lowest, both = _lowest_around(chains[0], a, b, (in_order[0], matching.of_a))
        back, both_back = _lowest_around(chains[1], b, a, (in_order[1], matching.of_b))
        self._chains, self._lowest, self._both = chains, (lowest, back), (both, both_back)
        of, of_back = chains[1].of[lowest], chains[0].of[back]
        here = np.flatnonzero(of >= 0)
        there = of[here]
        mutual = of_back[there] == here
        same = chains[0].names[here] == chains[1].names[there]
        size = chains[0].leaves[here] + chains[1].leaves[there]
        # A matched leaf counts on both sides, so this asks for half of the leaves of both chains.
        wanted = mutual & same & (4 * both[here] >= size)
        here, there = here[wanted], there[wanted]
        nodes_a, nodes_b = chains[0].nodes(here), chains[1].nodes(there)
        self.of_a[nodes_a], self.of_b[nodes_b] = nodes_b, nodes_a

    def _place_others(self, side: int) -> None:
        """Pair chains of one side that are left with what holds the images of their leaves on the other."""
        a, b = (self._a, self._b)[:: 1 - 2 * side]
        of_a, of_b = (self.of_a, self.of_b)[:: 1 - 2 * side]
        chains, lowest, matched = self._chains[side], self._lowest[side], self._both[side]
        start, length = chains.start, chains.length
        left = np.flatnonzero((lowest >= 0) & (of_a[start] < 0))
        known: dict[tuple[tuple[int, ...], tuple[int, ...]], list[tuple[int, int]]] = {}
        for chain in left.tolist():
            size, both = int(chains.leaves[chain]), int(matched[chain])
            others = []
            node, most = int(lowest[chain]), _WRAPPERS + 4 * int(length[chain])
            for _ in range(most):
                if b.parent[node] < 0 or 4 * both < size + b.high[node] - b.low[node]:
                    break
                if of_b[node] < 0:
                    others.append(node)
                node = int(b.parent[node])
            if not others:
                continue
            others.reverse()
            first = int(start[chain])
            own = [one for one in range(first, first + int(length[chain])) if of_a[one] < 0]
            names = tuple(a.called[own].tolist()), tuple(b.called[others].tolist())
            if names not in known:
                known[names] = common_places(*names) or [(len(names[0]) - 1, len(others) - 1)]
            for i, j in known[names]:
                of_a[own[i]], of_b[others[j]] = others[j], own[i]

    def _place_unmatched(self, matching: Matching) -> None:
        """Pair nodes without a matched leaf below, where both sides have as many of a name in one place."""
        a, b = self._a, self._b
        in_order = matching.in_order
        before = last_matched(in_order[1], b)
        there = _by_place(b, _without_matches(b, matching.of_b, self.of_b), np.append(matching.of_b, -1)[before])
        alone = _without_matches(a, matching.of_a, self.of_a) if there else np.zeros(0, np.int64)
        here = _by_place(a, alone, last_matched(in_order[0], a))
        # Callers come before what they call, so that what is paired here leads further down.
        for (parent, last, called), nodes in here.items():
            others = there.get((int(self.of_a[parent]), last, called), [])
            if len(others) == len(nodes):
                self.of_a[nodes], self.of_b[others] = others, nodes


def last_matched(partner: np.ndarray, forest: Forest) -> np.ndarray:
    """For each leaf the last matched one before it below the same root, -1 without one."""
    found = np.maximum.accumulate(np.where(partner >= 0, np.arange(len(partner)), -1))
    # The running maximum goes on across roots; what lies before the own root's first leaf is another's.
    return np.where(found >= forest.low[forest.root], found, -1)


def _by_place(forest: Forest, nodes: Rows, before: Rows) -> dict[tuple[int, int, int], list[int]]:
    """Nodes by their caller, the leaf of the first side that is matched last before them, and their name."""
    found: dict[tuple[int, int, int], list[int]] = {}
    places = zip(
        forest.parent[nodes].tolist(), before[forest.low[nodes]].tolist(), forest.called[nodes].tolist(), strict=True
    )
    for node, place in zip(nodes.tolist(), places, strict=True):
        found.setdefault(place, []).append(node)
    return found


def _without_matches(forest: Forest, partner_of_leaf: np.ndarray, partner: np.ndarray) -> np.ndarray:
    """Nodes without a partner and without a matched leaf below, callers before what they call."""
    running = np.concatenate(([0], np.cumsum(partner_of_leaf >= 0)))
    alone = (forest.row >= 0) & (partner < 0) & (running[forest.low] == running[forest.high])
    return np.flatnonzero(alone & (forest.high > forest.low))


class _Chains:
    """Nodes over the same leaves: they stand side by side in pre-order, the outermost first.

    Attributes:
        of: for each node its chain; -1 for roots, and for -1, which is not a node.
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


def _lowest_around(chains: _Chains, forest: Forest, other: Forest, partners: tuple[Rows, Rows]) -> tuple[Rows, Rows]:
    """For each chain the lowest node around the images of its leaves, -1 for none or a root; how many have images.

    Args:
        chains: of a side.
        forest, other: that side and the other.
        partners: for each leaf of it the partner: of those in their order, by which the images are bounded, and of all.
    """
    found = np.full(len(chains.start), -1, np.int64)
    for partner in partners:
        running = np.concatenate(([0], np.cumsum(partner >= 0)))
        matched = np.flatnonzero(partner >= 0)
        first, last = running[forest.low[chains.start]], running[forest.high[chains.start]]
        has = np.flatnonzero((last > first) & (found < 0))
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
    # Filled from the end, so that the walk below goes forwards and pairs equal names as early as they come.
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
