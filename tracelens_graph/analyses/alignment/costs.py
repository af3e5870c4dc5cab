"""What it costs to pair what two call trees hold: whole units, and leaves."""

from __future__ import annotations

from copy import copy
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.sequence import NEVER, Pairs, aligned
from tracelens_graph.graph.arrays import distinct, expanded
from tracelens_graph.graph.classes import mixed
from tracelens_graph.utils.arrays import Mask, Rows

_OTHER_ARGUMENTS, _OTHER_DIMS, _OTHER_KERNEL, _SAME_CATEGORY, _WITHOUT_OP, _OTHER_CALLERS = 30, 200, 50, 500, 300, 300
"""What two leaves cost beside each other, in thousandths of leaving both alone: the same op with other arguments of the
same dims, with other dims, and then with another kernel on top, another op of the same category, events of a category,
one without an op; on top as much as their callers differ."""

_UNLIKE = 2
"""Units whose leaves differ by more than one in this many are no pair."""

_FOLDED, _FEW = 256, 64
"""Columns into which names and tokens are folded where there are more, and where the table of all pairs is large."""
_LEAF = 1 << 20
"""What a leaf counts in the cost of units; all time together counts less."""
_LARGE = 1 << 22
"""Entries of a large table."""
_MOST_NS = 2**48
"""GPU time of both sides, 3 days, above which weights are no whole nanoseconds."""
_NEAREST = 64
"""Callers of a leaf that are looked at, at most."""


class Units:
    """The items right below a node, as wholes.

    Attributes:
        items: nodes, and leaves as ~leaf.
        size: number of leaves in each.
        ns: sum of the durations of their events.
        identity: equal for equal items, on both sides.
        name: the name of each, or of the op that launched it.
        names: for each the names along its chain of single children: what it may be called.
    """

    def __init__(self, forest: Forest, items: list[int]) -> None:
        self.forest, self.items = forest, items
        found = np.array(items, np.int64)
        # np.where evaluates both sides for every item, so each gets a harmless 0 for what it is not.
        leaf, node = ~np.minimum(found, -1), np.maximum(found, 0)
        is_leaf = found < 0
        self.low = np.where(is_leaf, leaf, forest.low[node])
        self.high = np.where(is_leaf, leaf + 1, forest.high[node])
        self.size = self.high - self.low
        self._before = np.concatenate(([0], np.cumsum(self.size)))
        self.ns = forest.ns_before[self.high] - forest.ns_before[self.low]
        leaf = np.minimum(leaf, max(forest.leaves - 1, 0))
        self.identity = np.where(is_leaf, forest.leaf_identity[leaf], forest.identity[node])
        self.name = np.where(is_leaf, forest.op[leaf], forest.name[node])

    @cached_property
    def names(self) -> list[set[int]]:
        """What each may be called: the names along its chain of single children."""
        return [_chain_names(self.forest, item) for item in self.items]

    def count(self, rows: range) -> int:
        """Number of leaves in some items that stand side by side."""
        return int(self._before[rows.stop] - self._before[rows.start]) if rows else 0

    def leaves(self, rows: range) -> range | Rows:
        """The leaves in some items that stand side by side; a range unless items between them were taken out."""
        low, high = int(self.low[rows.start]), int(self.high[rows.stop - 1])
        if high - low == self.count(rows):
            return range(low, high)
        return expanded(self.low[rows.start : rows.stop], self.high[rows.start : rows.stop])[0]


class UnitCosts:
    """What it costs to pair two units: as many leaves as differ by op and category, and a part of what differs by dims.

    Units that differ by more than a half in op and category are never paired.
    """

    def __init__(self, x: Units, y: Units) -> None:
        self.x, self.y = x, y
        self._equal_only: list[Mask] | None = None
        called = [set().union(*one.names) for one in (x, y)]
        common = called[0] & called[1]
        # A unit that nothing on the other side may be called like stays alone: it need not be looked at.
        self._rows = [
            np.array([k for k, names in enumerate(one.names) if not names.isdisjoint(common)], np.int64)
            for one in (x, y)
        ]
        is_large = len(self._rows[0]) * len(self._rows[1]) > _LARGE
        self._bags = self._bags_of("token", _FEW if is_large else _FOLDED)
        self._sized_bags, self._kernel_bags = self._bags_of("sized_token", _FEW), self._bags_of("kernel_token", _FEW)
        places: dict[int, list[int]] = {}
        for k, j in enumerate(self._rows[1].tolist()):
            for name in y.names[j] & common:
                places.setdefault(name, []).append(k)
        self._called = {name: np.array(found, np.int64) for name, found in places.items()}

    def _bags_of(self, what: str, most: int) -> list[np.ndarray]:
        """How many leaves of each kind the units of both sides hold; kinds share columns where there are many."""
        values = [getattr(one.forest, what)[_there(one.leaves(range(len(one.items))))] for one in (self.x, self.y)]
        # Sharing columns can hide a difference of two bags, but never makes one: no good pair is ruled out.
        known = np.unique(np.concatenate(values))
        return [
            _bags(one, np.searchsorted(known, of) % most, min(len(known), most))[rows]
            for one, of, rows in zip((self.x, self.y), values, self._rows, strict=True)
        ]

    def aligned(self) -> Pairs:
        """The pairs of units that cost least."""
        rows, columns = self._rows
        x, y = self.x, self.y
        # Among pairings that leave as many leaves over, the one that leaves less time over.
        share = int(x.ns.sum() + y.ns.sum()) + 1
        lose, gain = (
            # Time multiplied by _LEAF may be beyond int64, hence whole numbers of Python.
            one.size[of] * _LEAF + one.ns[of].astype(object) * (_LEAF - 1) // share
            for one, of in ((x, rows), (y, columns))
        )
        pairs = aligned(
            lose.astype(np.int64), gain.astype(np.int64), self._row, (x.identity[rows], y.identity[columns]),
            (x.name[rows], y.name[columns]),
        )  # fmt: skip
        return [(int(rows[i]), int(columns[j])) for i, j in pairs]

    def with_equal_only(self, identities: np.ndarray) -> UnitCosts:
        """The same, but units of some identities are paired with equal ones alone."""
        found = copy(self)
        found._equal_only = [
            np.isin(one.identity[rows], identities) for one, rows in zip((self.x, self.y), self._rows, strict=True)
        ]
        return found

    def may_be_pair(self, i: int, j: int) -> bool:
        """Whether two units may be paired."""
        row, column = (int(np.searchsorted(of, unit)) for of, unit in zip(self._rows, (i, j), strict=True))
        is_known = all(
            at < len(of) and of[at] == unit for at, of, unit in zip((row, column), self._rows, (i, j), strict=True)
        )
        return is_known and bool(self._row(row, column, column + 1)[0] < NEVER)

    def is_of_other_sizes(self, i: int, j: int) -> bool:
        """Whether most of what two units do is of other sizes, or is other work."""
        row, column = np.searchsorted(self._rows[0], i), np.searchsorted(self._rows[1], j)
        differ = np.abs(self._sized_bags[1][column] - self._sized_bags[0][row]).sum()
        return bool(_UNLIKE * differ > self.x.size[i] + self.y.size[j])

    def differ(self, i: int, j: int) -> int:
        """How many leaves of two paired units differ by op and category."""
        row, column = np.searchsorted(self._rows[0], i), np.searchsorted(self._rows[1], j)
        return int(np.abs(self._bags[1][column] - self._bags[0][row]).sum())

    def _row(self, i: int, begin: int, end: int) -> np.ndarray:
        """Cost of pairing one unit of the first side with each of some of the second."""
        rows, columns = self._rows
        cost = np.full(end - begin, NEVER, np.int64)
        places = [
            found[np.searchsorted(found, begin) : np.searchsorted(found, end)]
            for name in self.x.names[rows[i]]
            if (found := self._called.get(name)) is not None
        ]
        may = places[0] if len(places) == 1 else np.unique(np.concatenate(places))
        differ = np.abs(self._bags[1][may] - self._bags[0][i]).sum(axis=1)
        alike = _UNLIKE * differ <= self.x.size[rows[i]] + self.y.size[columns[may]]
        may, differ = may[alike], differ[alike].astype(np.int64)
        if self._equal_only is not None:
            is_bound = self._equal_only[1][may] | self._equal_only[0][i]
            keep = ~is_bound | (self.y.identity[columns[may]] == self.x.identity[rows[i]])
            may, differ = may[keep], differ[keep]
        thousandths = 1000 * differ
        for each, bags in ((_OTHER_DIMS, self._sized_bags), (_OTHER_KERNEL, self._kernel_bags)):
            # What differs by op differs by dims and kernel as well, and is charged already.
            more = np.abs(bags[1][may] - bags[0][i]).sum(axis=1) - differ
            thousandths += each * np.maximum(more, 0)
        cost[may - begin] = thousandths * (_LEAF // 1000)
        return cost


class LeafCosts:
    """What it costs to pair two leaves.

    Attributes:
        weights: for both sides what it costs to leave a leaf alone: its time and the mean time of all.
    """

    def __init__(self, a: Forest, b: Forest) -> None:
        self.a, self.b = a, b
        # In coarser units where durations are absurd: a thousand times the weights of all must stay below NEVER.
        unit = 1 + int((a.ns.sum(dtype=float) + b.ns.sum(dtype=float)) // _MOST_NS)
        ns_a, ns_b = a.ns // unit, b.ns // unit
        mean = int(ns_a.sum() + ns_b.sum()) // max(a.leaves + b.leaves, 1) + 1
        self.weights = 1000 * (ns_a + mean), 1000 * (ns_b + mean)

    def aligned(self, leaves_a: range | np.ndarray, leaves_b: range | np.ndarray) -> Pairs:
        """Pairs of leaves of two stretches, or of any leaves in ascending order."""
        a, b = self.a, self.b
        if len(leaves_a) == len(leaves_b) == 1:
            i, j = int(leaves_a[0]), int(leaves_b[0])
            alike = a.category[i] == b.category[j] or (a.op[i] == b.op[j] and a.op[i])
            return [(i, j)] if alike else []
        table = LeafTable(self, leaves_a, leaves_b)
        x, y = _there(leaves_a), _there(leaves_b)
        pairs = aligned(
            self.weights[0][x], self.weights[1][y], table.row,
            (a.leaf_place[x], b.leaf_place[y]), (a.leaf_identity[x], b.leaf_identity[y]),
        )  # fmt: skip
        return [(int(leaves_a[i]), int(leaves_b[j])) for i, j in pairs]


def _there(leaves: range | np.ndarray) -> slice | np.ndarray:
    return slice(leaves.start, leaves.stop) if isinstance(leaves, range) else leaves


class LeafTable:
    """Costs of pairing the leaves of two stretches, a row at a time.

    Leaves of one op, category, kernel, arguments and callers have one signature; rows are worked out once for each.
    """

    def __init__(self, costs: LeafCosts, leaves_a: range | np.ndarray, leaves_b: range | np.ndarray) -> None:
        a, b = costs.a, costs.b
        sides = ((a, _there(leaves_a)), (b, _there(leaves_b)))
        self._weight_a = costs.weights[0][sides[0][1]] // 1000
        self._weight_b = costs.weights[1][sides[1][1]] // 1000
        self._callers = _Callers(sides)
        self._of: list[np.ndarray] = []
        self._known: list[tuple[np.ndarray, ...]] = []
        for (forest, there), callers in zip(sides, self._callers.of, strict=True):
            # Both hashes are of small numbers in one way, so that a sum or XOR of them would be equal too often.
            alike = mixed(forest.leaf_identity[there] + mixed(forest.kernel_token[there]))
            key = alike * np.uint64(0x9E3779B97F4A7C15) + callers.astype(np.uint64)
            _, one, of = np.unique(key, return_index=True, return_inverse=True)
            self._of.append(of)
            values = (forest.op, forest.category, forest.leaf_args, forest.leaf_dims, forest.kernel)
            self._known.append((*(of_leaf[there][one] for of_leaf in values), callers[one]))
        self._rows: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        # Of few signatures each row is worked out once; of many, each only as far as it is asked for.
        self._is_large = len(self._known[0][0]) * len(self._known[1][0]) > _LARGE

    def row(self, i: int, begin: int, end: int) -> np.ndarray:
        """Cost of pairing one leaf of the first stretch with some of the second."""
        signature, others = int(self._of[0][i]), self._of[1][begin:end]
        if self._is_large:
            factor, never = self._factors(signature, others)
        else:
            if signature not in self._rows:
                self._rows[signature] = self._factors(signature, np.arange(len(self._known[1][0])))
            factor, never = (values[others] for values in self._rows[signature])
        return (self._weight_b[begin:end] + self._weight_a[i]) * factor + never

    def _factors(self, signature: int, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For one signature and some of the second stretch: thousandths of both weights, and NEVER or 0."""
        op, category, args, dims, kernel, callers = (values[signature] for values in self._known[0])
        op_b, category_b, args_b, dims_b, kernel_b, callers_b = (values[others] for values in self._known[1])
        same_op = op_b == op
        other_dims = np.where(kernel_b == kernel, _OTHER_DIMS, _OTHER_DIMS + _OTHER_KERNEL)
        other_arguments = np.where(dims_b == dims, _OTHER_ARGUMENTS, other_dims)
        base = np.where(
            same_op,
            np.where(args_b == args, 0, other_arguments),
            np.where((op_b > 0) & (op > 0), _SAME_CATEGORY, _WITHOUT_OP),
        )
        may = (category_b == category) | (same_op & (op > 0))
        factor = np.where(may, base + self._callers.unlike(int(callers), callers_b), 0)
        return factor, np.where(may, 0, NEVER)


class _Callers:
    """How much the callers of leaves differ: their names up to what all leaves of a stretch are below.

    Attributes:
        of: for the leaves of both stretches the number of their set of callers.
    """

    def __init__(self, sides: tuple[tuple[Forest, slice | np.ndarray], tuple[Forest, slice | np.ndarray]]) -> None:
        sets: list[dict[frozenset[int], int]] = [{}, {}]
        self.of: list[np.ndarray] = []
        for (forest, there), numbers in zip(sides, sets, strict=True):
            parents, back = distinct(forest.leaf_parent[there])
            found = [numbers.setdefault(names, len(numbers)) for names in _names_above(forest, parents.tolist(), there)]
            self.of.append(np.array(found, np.int64)[back])
        common = sorted(set().union(*sets[0]) & set().union(*sets[1]))
        most = _FEW if len(sets[0]) * len(sets[1]) > _LARGE else _FOLDED
        column = {name: k % most for k, name in enumerate(common)}
        self._holds = []
        for numbers in sets:
            # Floats, as numpy multiplies whole numbers without BLAS; counts this small are exact in them.
            held = np.zeros((len(numbers), min(len(common), most)), np.float32)
            for known, number in numbers.items():
                held[number, [column[name] for name in known if name in column]] = 1
            self._holds.append(held)
        self._sizes = [np.array([len(known) for known in numbers], np.int64) for numbers in sets]

    def unlike(self, callers: int, others: np.ndarray) -> np.ndarray:
        """What callers of the first side add to the cost beside some sets of callers of the second."""
        # What is fewer is multiplied: all sets, or those that are asked for.
        is_few = len(others) < len(self._sizes[1])
        holds = self._holds[1][others] if is_few else self._holds[1]
        common = (holds @ self._holds[0][callers]).astype(np.int64)
        common = common if is_few else common[others]
        sizes = self._sizes[0][callers] + self._sizes[1][others]
        return _OTHER_CALLERS * (sizes - 2 * common) // np.maximum(sizes, 1)


def _names_above(forest: Forest, nodes: list[int], leaves: slice | np.ndarray) -> list[frozenset[int]]:
    """For each node the names of it and of those above, the nearest, up to the first that holds all of some leaves."""
    first, end = (leaves.start, leaves.stop) if isinstance(leaves, slice) else (int(leaves[0]), int(leaves[-1]) + 1)
    known: dict[int, tuple[frozenset[int], int]] = {}  # names, and how many nodes bear them

    def climbed(node: int) -> tuple[list[int], int]:
        """Nodes from one up to the first that is known or holds all leaves, and that one."""
        way: list[int] = []
        while len(way) < _NEAREST and forest.parent[node] >= 0 and node not in known:
            if forest.low[node] <= first < end <= forest.high[node]:
                break
            way.append(node)
            node = int(forest.parent[node])
        return way, node

    found = []
    for start in nodes:
        way, node = climbed(start)
        names, above = known.get(node, (frozenset[int](), 0))
        if above + len(way) > _NEAREST:
            while len(way) < _NEAREST:
                way.append(node)
                node = int(forest.parent[node])
            names, above = frozenset(), 0
        known[start] = names.union(forest.name[way].tolist()), above + len(way)
        found.append(known[start][0])
    return found


def _bags(units: Units, token: np.ndarray, columns: int) -> np.ndarray:
    """How many leaves of each kind are in each unit."""
    of = np.repeat(np.arange(len(units.items)), units.size)
    found = np.bincount(of * columns + token, minlength=len(units.items) * columns)
    return found.reshape(-1, columns).astype(np.int32)


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
