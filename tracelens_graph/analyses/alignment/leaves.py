"""Which leaf of one forest is which of the other.

Nodes cost no GPU time, so an alignment of two call trees is one of their leaves, and the trees are its context. From
the roots down, the items below two nodes are aligned as units first (a layer that was inserted is one unit, whatever is
in it); what units leave over is aligned leaf by leaf. Wrappers, inlined calls and fused ops need no rules for this.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tracelens_graph.analyses.alignment.costs import LeafCosts, UnitCosts, Units
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.sequence import Pairs

_FLAT_PAYS = 0.7
"""What leaf by leaf must leave over, of what units leave over, to be taken instead."""
_FLAT_CELLS = 1 << 21
"""Pairs of leaves up to which both ways are tried."""


class Matching:
    """The leaves of two forests, paired.

    Attributes:
        a, b: the forests.
        of_a, of_b: for each leaf its partner on the other side, -1 without one.
    """

    def __init__(self, a: Forest, b: Forest) -> None:
        self.a, self.b = a, b
        self.of_a, self.of_b = np.full(a.leaves, -1, np.int64), np.full(b.leaves, -1, np.int64)
        self.roots: Pairs = []
        for roots in ("linked_roots", "lone_roots"):
            self.roots += _paired_roots(a, b, getattr(a, roots), getattr(b, roots))
        for pair in self.roots:
            self._descend(pair)

    def _pair(self, i: int, j: int) -> None:
        self.of_a[i], self.of_b[j] = j, i

    @cached_property
    def _costs(self) -> LeafCosts:
        return LeafCosts(self.a, self.b)

    def _descend(self, roots: tuple[int, int]) -> None:
        a, b = self.a, self.b
        stack = [roots]
        while stack:
            u, v = stack.pop()
            if a.identity[u] == b.identity[v] and a.high[u] - a.low[u] == b.high[v] - b.low[v]:
                self._zip(range(int(a.low[u]), int(a.high[u])), int(b.low[v]))
                continue
            below_u, below_v = a.items(u), b.items(v)
            if not _same_names(a, b, below_u, below_v):
                below_u, below_v = _below_chain(a, below_u), _below_chain(b, below_v)
            if _same_names(a, b, below_u, below_v):
                for x, y in zip(below_u, below_v, strict=True):
                    if x < 0:
                        self._pair(~x, ~y)
                    else:
                        stack.append((x, y))
                continue
            stack += self._by_units(below_u, below_v)

    def _zip(self, leaves: range, first: int) -> None:
        self.of_a[leaves.start : leaves.stop] = np.arange(first, first + len(leaves))
        self.of_b[first : first + len(leaves)] = np.arange(leaves.start, leaves.stop)

    def _by_units(self, below_u: list[int], below_v: list[int]) -> Pairs:
        """Pair what can be paired right below two nodes; pairs of nodes in which to go on."""
        x, y = Units(self.a, below_u), Units(self.b, below_v)
        if max(below_u) < 0 and max(below_v) < 0:
            self._take(self._leaf_by_leaf(x, y, range(len(below_u)), range(len(below_v))))
            return []
        pairs = UnitCosts(x, y).aligned()
        go_on: Pairs = []
        between: Pairs = []
        from_a = from_b = 0
        for i, j in [*pairs, (len(below_u), len(below_v))]:
            is_end = i == len(below_u)
            if is_end or x.identity[i] == y.identity[j]:
                go_on += self._stretch(x, y, range(from_a, i), range(from_b, j), between)
                go_on += [] if is_end else self._unit(x, y, i, j)
                from_a, from_b, between = i + 1, j + 1, []
            else:
                between.append((i, j))
        return go_on

    def _unit(self, x: Units, y: Units, i: int, j: int) -> Pairs:
        """Pair two units, or give them back as nodes in which to go on."""
        u, v = x.items[i], y.items[j]
        if u >= 0 and v >= 0:
            return [(u, v)]
        self._take(self._leaf_by_leaf(x, y, range(i, i + 1), range(j, j + 1)))
        return []

    def _stretch(self, x: Units, y: Units, rows: range, columns: range, pairs: Pairs) -> Pairs:
        """Pair what stands between equal units, as units or leaf by leaf, whichever leaves less over."""
        if not rows or not columns:
            return []
        loose: Pairs = []
        over = x.count(rows) + y.count(columns)
        from_a, from_b = rows.start, columns.start
        for i, j in [*pairs, (rows.stop, columns.stop)]:
            loose += self._leaf_by_leaf(x, y, range(from_a, i), range(from_b, j))
            from_a, from_b = i + 1, j + 1
        over -= 2 * len(loose) + sum(int(x.size[i] + y.size[j]) for i, j in pairs)
        if over and pairs and x.count(rows) * y.count(columns) <= _FLAT_CELLS:
            flat = self._leaf_by_leaf(x, y, rows, columns)
            if x.count(rows) + y.count(columns) - 2 * len(flat) < _FLAT_PAYS * over:
                self._take(flat)
                return []
        self._take(loose)
        return [node for i, j in pairs for node in self._unit(x, y, i, j)]

    def _leaf_by_leaf(self, x: Units, y: Units, rows: range, columns: range) -> Pairs:
        if not rows or not columns:
            return []
        return self._costs.aligned(x.leaves(rows), y.leaves(columns))

    def _take(self, pairs: Pairs) -> None:
        for i, j in pairs:
            self._pair(i, j)


def _below_chain(forest: Forest, items: list[int]) -> list[int]:
    """What branches first below a chain of single children."""
    while len(items) == 1 and items[0] >= 0:
        items = forest.items(items[0])
    return items


def _same_names(a: Forest, b: Forest, x: list[int], y: list[int]) -> bool:
    """Whether items are called alike one by one; leaves also do alike."""
    if len(x) != len(y):
        return False
    for u, v in zip(x, y, strict=True):
        if (u < 0) != (v < 0):
            return False
        if u >= 0 and a.name[u] != b.name[v]:
            return False
        if u < 0 and (a.op[~u] != b.op[~v] or (not a.op[~u] and a.category[~u] != b.category[~v])):
            return False
    return True


def _paired_roots(a: Forest, b: Forest, of_a: np.ndarray, of_b: np.ndarray) -> Pairs:
    """Threads, or streams, by what they do: those with most in common first.

    What has no op in common is paired by categories, so that a graph's replay finds the ops that were captured.
    """
    pairs: Pairs = []
    taken: tuple[set[int], set[int]] = (set(), set())
    for what in ("token", "category"):
        bags = [
            [_counted(forest, getattr(forest, what), root) for root in roots.tolist()]
            for forest, roots in ((a, of_a), (b, of_b))
        ]
        common = []
        for i, bag in enumerate(bags[0]):
            for j, other in enumerate(bags[1]):
                shared = sum(min(count, other.get(token, 0)) for token, count in bag.items())
                if shared:
                    common.append((-shared, i, j))
        for _, i, j in sorted(common):
            if i not in taken[0] and j not in taken[1]:
                taken[0].add(i)
                taken[1].add(j)
                pairs.append((int(of_a[i]), int(of_b[j])))
    return pairs


def _counted(forest: Forest, kinds: np.ndarray, root: int) -> dict[int, int]:
    found, counts = np.unique(kinds[forest.low[root] : forest.high[root]], return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))
