"""Which leaf of one forest is which of the other.

Nodes cost no GPU time, so an alignment of two call trees is one of their leaves, and the trees are its context. From
the roots down, the items below two nodes are aligned as units first (a layer that was inserted is one unit, whatever is
in it); what units leave over is aligned leaf by leaf. Wrappers, inlined calls and fused ops need no rules for this.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.sequence import NEVER, Pairs, aligned

_OTHER_ARGUMENTS, _SAME_CATEGORY, _WITHOUT_OP, _OTHER_CALLERS = 30, 500, 300, 300
"""What two leaves cost beside each other, in thousandths of leaving both alone: the same op with other arguments,
another op of the same category, events of one category without an op; on top as much as their callers differ."""

_UNLIKE = 2
"""Units whose leaves differ by more than one in this many are no pair."""

_FLAT_PAYS = 0.7
"""What leaf by leaf must leave over, of what units leave over, to be taken instead."""
_FLAT_CELLS = 1 << 21
"""Pairs of leaves up to which both ways are tried."""
_FOLDED = 256
"""Columns into which names and tokens are folded where there are more."""


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
        pairs = aligned(x.size, y.size, UnitCosts(x, y), (x.identity, y.identity))
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


class Units:
    """The items right below a node, as wholes.

    Attributes:
        items: nodes, and leaves as ~leaf.
        size: number of leaves in each.
        identity: equal for equal items, on both sides.
        names: for each the names along its chain of single children: what it may be called.
    """

    def __init__(self, forest: Forest, items: list[int]) -> None:
        self.forest, self.items = forest, items
        found = np.array(items, np.int64)
        leaf, node = ~np.minimum(found, -1), np.maximum(found, 0)
        is_leaf = found < 0
        self.low = np.where(is_leaf, leaf, forest.low[node])
        self.high = np.where(is_leaf, leaf + 1, forest.high[node])
        self.size = self.high - self.low
        own = forest.leaf_identity[np.minimum(leaf, max(forest.leaves - 1, 0))]
        self.identity = np.where(is_leaf, own, forest.identity[node])

    @cached_property
    def names(self) -> list[set[int]]:
        """What each may be called: the names along its chain of single children."""
        return [_chain_names(self.forest, item) for item in self.items]

    def count(self, rows: range) -> int:
        """Number of leaves in some items that stand side by side."""
        return int(self.high[rows.stop - 1] - self.low[rows.start]) if rows else 0

    def leaves(self, rows: range) -> range:
        """The leaves in some items that stand side by side."""
        return range(int(self.low[rows.start]), int(self.high[rows.stop - 1]))


class UnitCosts:
    """What it costs to pair two units: as many leaves as differ by op and category; never those unlike each other."""

    def __init__(self, x: Units, y: Units) -> None:
        self.x, self.y = x, y
        token_x, token_y = (one.forest.token[one.low[0] : one.high[-1]] for one in (x, y))
        tokens = np.unique(np.concatenate((token_x, token_y)))
        self._columns = min(len(tokens), _FOLDED)
        self._bags = [
            _bags(one, np.searchsorted(tokens, of) % _FOLDED, self._columns) for one, of in ((x, token_x), (y, token_y))
        ]
        self._called: dict[int, list[int]] = {}
        for j, names in enumerate(y.names):
            for name in names:
                self._called.setdefault(name, []).append(j)

    def __call__(self, i: int, begin: int, end: int) -> np.ndarray:
        """Cost of pairing one unit of the first side with each of some of the second."""
        differ = np.abs(self._bags[1][begin:end] - self._bags[0][i]).sum(axis=1)
        may = np.zeros(len(self.y.items), bool)
        for name in self.x.names[i]:
            may[self._called.get(name, [])] = True
        allowed = may[begin:end] & (_UNLIKE * differ <= self.x.size[i] + self.y.size[begin:end])
        cost: np.ndarray = np.where(allowed, differ, NEVER)
        return cost


class LeafCosts:
    """What it costs to pair two leaves."""

    def __init__(self, a: Forest, b: Forest) -> None:
        self.a, self.b = a, b
        mean = int(a.ns.sum() + b.ns.sum()) // max(a.leaves + b.leaves, 1) + 1
        self.weights = a.ns + mean, b.ns + mean
        self._callers: tuple[dict[int, frozenset[int]], dict[int, frozenset[int]]] = ({}, {})

    def aligned(self, leaves_a: range, leaves_b: range) -> Pairs:
        """Pairs of leaves of two stretches."""
        slices = slice(leaves_a.start, leaves_a.stop), slice(leaves_b.start, leaves_b.stop)
        a, b = self.a, self.b
        if len(leaves_a) == len(leaves_b) == 1:
            i, j = leaves_a.start, leaves_b.start
            alike = a.category[i] == b.category[j] or (a.op[i] == b.op[j] and a.op[i])
            return [(i, j)] if alike else []
        unlike, of_a, of_b = self._unlike_callers(slices)
        op_b, args_b, category_b = b.op[slices[1]], b.leaf_args[slices[1]], b.category[slices[1]]
        weight_b = self.weights[1][slices[1]]

        def costs(i: int, begin: int, end: int) -> np.ndarray:
            leaf = leaves_a.start + i
            op, there = a.op[leaf], slice(begin, end)
            same_op = (op_b[there] == op) & (op > 0)
            same_category = category_b[there] == a.category[leaf]
            base = np.where(
                same_op,
                np.where(args_b[there] == a.leaf_args[leaf], 0, _OTHER_ARGUMENTS),
                np.where((op_b[there] > 0) & (op > 0), _SAME_CATEGORY, _WITHOUT_OP),
            )
            cost = (weight_b[there] + self.weights[0][leaf]) * (base + unlike[of_a[i], of_b[there]])
            return np.where(same_op | same_category, cost, NEVER)

        equal = a.leaf_identity[slices[0]], b.leaf_identity[slices[1]]
        pairs = aligned(1000 * self.weights[0][slices[0]], 1000 * weight_b, costs, equal)
        return [(leaves_a.start + i, leaves_b.start + j) for i, j in pairs]

    def _unlike_callers(self, slices: tuple[slice, slice]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How much the callers of two leaves differ, by sets of callers, and the set of each leaf."""
        sets: list[dict[frozenset[int], int]] = [{}, {}]
        of: list[np.ndarray] = []
        for side, forest in enumerate((self.a, self.b)):
            numbers = sets[side]
            parents, back = np.unique(forest.leaf_parent[slices[side]], return_inverse=True)
            found = [numbers.setdefault(self._names_above(side, node), len(numbers)) for node in parents.tolist()]
            of.append(np.array(found, np.int64)[back])
        names = {name: k % _FOLDED for k, name in enumerate(sorted(set().union(*sets[0], *sets[1])))}
        holds = []
        for numbers in sets:
            held = np.zeros((len(numbers), min(len(names), _FOLDED)), np.int64)
            for known, number in numbers.items():
                held[number, [names[name] for name in known]] = 1
            holds.append(held)
        size_a, size_b = (held.sum(axis=1) for held in holds)
        common = holds[0] @ holds[1].T
        sum_of_sizes = np.maximum(size_a[:, None] + size_b[None, :], 1)
        return _OTHER_CALLERS - 2 * _OTHER_CALLERS * common // sum_of_sizes, of[0], of[1]

    def _names_above(self, side: int, node: int) -> frozenset[int]:
        """Names of a node and of those above it, but for the root."""
        forest, known = (self.a, self.b)[side], self._callers[side]
        way = []
        while node not in known and forest.parent[node] >= 0:
            way.append(node)
            node = int(forest.parent[node])
        names = known.get(node, frozenset())
        for one in reversed(way):
            names = names | {int(forest.name[one])}
            known[one] = names
        return names


def _bags(units: Units, token: np.ndarray, columns: int) -> np.ndarray:
    """How many leaves of each kind are in each unit."""
    of = np.repeat(np.arange(len(units.items)), units.size)
    return np.bincount(of * columns + token, minlength=len(units.items) * columns).reshape(-1, columns)


def _chain_names(forest: Forest, item: int) -> set[int]:
    if item < 0:
        return {int(forest.op[~item])}
    names = set()
    while True:
        names.add(int(forest.name[item]))
        below = forest.items(item)
        if len(below) != 1 or below[0] < 0:
            return names
        item = below[0]


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
