"""Which node of one call tree is which of the other, by the leaves below them."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.leaves import Matching


class Containers:
    """Nodes of two forests, paired.

    Two chains of nodes over the same leaves belong together where the leaves of one are mostly matched to those of the
    other; in them the longest common sequence of names is paired, and if there is none, their lowest nodes as renamed.

    Attributes:
        of_a, of_b: for each node its partner, -1 without one.
        renamed: for each node of the first side whether its partner has another name.
    """

    def __init__(self, matching: Matching) -> None:
        self._matching = matching
        a, b = matching.a, matching.b
        self.of_a, self.of_b = np.full(len(a.parent), -1, np.int64), np.full(len(b.parent), -1, np.int64)
        self.renamed = np.zeros(len(a.parent), bool)
        for u, v in matching.roots:
            self._pair(u, v)
        matched = np.concatenate(([0], np.cumsum(matching.of_a >= 0)))
        self._matched = matched
        self._of_matched = np.flatnonzero(matching.of_a >= 0)
        for chain in _chains(a):
            self._place(chain)

    def _pair(self, u: int, v: int) -> None:
        self.of_a[u], self.of_b[v] = v, u
        self.renamed[u] = self._matching.a.called[u] != self._matching.b.called[v]

    def _place(self, chain: list[int]) -> None:
        """Pair the nodes of a chain, the outermost first, with some over the images of its leaves."""
        a, b = self._matching.a, self._matching.b
        low, high = int(a.low[chain[0]]), int(a.high[chain[0]])
        first, last = self._matched[low], self._matched[high]
        if first == last:
            return
        images = self._matching.of_a[self._of_matched[[first, last - 1]]]
        begin, end = int(images.min()), int(images.max())
        node = int(b.leaf_parent[begin])
        while node >= 0 and not b.low[node] <= begin <= end < b.high[node]:
            node = int(b.parent[node])
        others = []
        size, both = high - low, int(last - first)
        while node >= 0 and b.parent[node] >= 0 and 4 * both >= size + b.high[node] - b.low[node]:
            others.append(node)
            node = int(b.parent[node])
        others = [node for node in reversed(others) if self.of_b[node] < 0]
        pairs = _common(a.called[chain].tolist(), b.called[others].tolist())
        for i, j in pairs:
            self._pair(chain[i], others[j])
        if not pairs and others:
            self._pair(chain[-1], others[-1])


def _chains(forest: Forest) -> list[list[int]]:
    """Nodes over the same leaves, the outermost first; chains in pre-order."""
    chains: list[list[int]] = []
    of: dict[int, list[int]] = {}
    parent, low, high = forest.parent.tolist(), forest.low.tolist(), forest.high.tolist()
    for node, above in enumerate(parent):
        if above < 0:
            continue
        if above in of and low[above] == low[node] and high[above] == high[node]:
            of[above].append(node)
            of[node] = of[above]
        else:
            of[node] = [node]
            chains.append(of[node])
    return chains


def _common(first: list[int], second: list[int]) -> list[tuple[int, int]]:
    """Places of a longest common sequence of two lists of names."""
    if first == second:
        return [(i, i) for i in range(len(first))]
    length = np.zeros((len(first) + 1, len(second) + 1), np.int64)
    for i in range(len(first) - 1, -1, -1):
        for j in range(len(second) - 1, -1, -1):
            same = first[i] == second[j]
            length[i, j] = length[i + 1, j + 1] + 1 if same else max(length[i + 1, j], length[i, j + 1])
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
