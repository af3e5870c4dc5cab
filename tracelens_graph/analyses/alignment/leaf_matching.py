"""Which leaf of one forest is which of the other.

Nodes cost no GPU time, so an alignment of two call trees is one of their leaves, and the trees are its context. From
the roots down, the items below two nodes are aligned as units first (a layer that was inserted is one unit, whatever is
in it); what units leave over is aligned leaf by leaf. Wrappers, inlined calls and fused ops need no rules for this.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.alignment.costs import LeafCosts, UnitCosts, Units
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.moves import moved_units, run_of_leaves, runs_of
from tracelens_graph.analyses.alignment.root_pairs import paired_roots
from tracelens_graph.analyses.alignment.sequence import Pairs
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Rows

_FLAT_PAYS = 0.7
"""What leaf by leaf must leave over, of what units leave over, to be taken instead."""
_FLAT_CELLS = 1 << 21
"""Pairs of leaves up to which both ways are tried."""
_CELLS_OF_LEAF = 1 << 12
"""Such pairs for each leaf, over all attempts: calls may nest as deep as there are leaves."""
_UNITS_OF_LEAF = 64
"""Units that each leaf is looked at in, on average; what is deeper is aligned leaf by leaf."""


_COMPILED_BACKWARD, _SUM = "CompiledFunctionBackward", "torch::autograd::AccumulateGrad"
"""How the calls end that run a compiled backward pass, and that add up a gradient."""


Parts = tuple[list[int], list[int]]
"""Items of both sides."""


class Matching:
    """The leaves of two forests, paired.

    Attributes:
        a, b: the forests.
        of_a, of_b: for each leaf its partner on the other side, -1 without one.
        roots: pairs of roots.
        runs: pairs of nodes that stand elsewhere on the other side, those together that stand side by side.
        sums: nodes of both sides that add up gradients, in another order to the rest on one of them.
    """

    def __init__(self, a: Forest, b: Forest, are_unrelated: bool = False) -> None:
        self.a, self.b = a, b
        self.of_a, self.of_b = np.full(a.leaves, -1, np.int64), np.full(b.leaves, -1, np.int64)
        self.roots: Pairs = []
        self.runs: list[Pairs] = []
        self.sums: Parts = ([], [])
        self._cells_left, self._leaves_left = (
            most * (a.leaves + b.leaves) for most in (_CELLS_OF_LEAF, _UNITS_OF_LEAF)
        )
        if are_unrelated:
            return
        for roots in ("linked_roots", "lone_roots"):
            self.roots += paired_roots(a, b, getattr(a, roots), getattr(b, roots))
        for pair in self.roots:
            self._descend(pair)
        self._take_left_over()

    def settle_gaps(self) -> None:
        """Move gaps to where they begin and end highest in the call tree."""
        settle_gaps(self.a, self.of_a, self.of_b, self.run_of[0])
        settle_gaps(self.b, self.of_b, self.of_a, self.run_of[1])

    @cached_property
    def run_of(self) -> tuple[Rows, Rows]:
        """For each leaf of both sides the number of the run that it is in, -1 for those in their order."""
        first, second = (
            run_of_leaves(forest, [[pair[side] for pair in run] for run in self.runs])
            for side, forest in enumerate((self.a, self.b))
        )
        return first, second

    @property
    def in_order(self) -> tuple[Rows, Rows]:
        """The partner of each leaf of both sides, -1 for those without one, in a run or in a sum of gradients."""
        first, second = (
            np.where((run < 0) & (run_of_leaves(forest, [sums]) < 0), of, -1)
            for forest, sums, run, of in zip(
                (self.a, self.b), self.sums, self.run_of, (self.of_a, self.of_b), strict=True
            )
        )
        return first, second

    def _take_left_over(self) -> None:
        """Pair what threads without a partner launched with what is left of a graph's replay.

        A graph may hold what several threads launch one by one: the backward pass has a thread of its own.
        """
        sides = (self.a, self.of_a), (self.b, self.of_b)
        paired = [{pair[side] for pair in self.roots} for side in range(2)]
        for one in range(2):
            other = 1 - one
            replay = _leaves_of_replays(*sides[other])
            for root in sides[one][0].linked_roots.tolist():
                if root in paired[one] or not len(replay):
                    continue
                here = np.arange(sides[one][0].low[root], sides[one][0].high[root])
                left = (here, replay[sides[other][1][replay] < 0])
                if len(left[1]):
                    for i, j in self._costs.aligned(*(left if one == 0 else left[::-1])):
                        self._pair(i, j)

    def _pair(self, i: int, j: int) -> None:
        self.of_a[i], self.of_b[j] = j, i

    @cached_property
    def _costs(self) -> LeafCosts:
        return LeafCosts(self.a, self.b)

    def _descend(self, roots: tuple[int, int]) -> None:
        a, b = self.a, self.b
        # Calls may nest deeper than Python recurses.
        stack = [roots]
        while stack:
            u, v = stack.pop()
            # Different subtrees may share a hash; equal numbers of leaves keep the zipped ranges in bounds.
            if a.identity[u] == b.identity[v] and a.high[u] - a.low[u] == b.high[v] - b.low[v]:
                self._zip(range(int(a.low[u]), int(a.high[u])), int(b.low[v]))
                continue
            below_u, below_v = a.items(u), b.items(v)
            if not _same_names(a, b, below_u, below_v):
                below_u, below_v = _below_chains(a, b, below_u, below_v)
            if _same_names(a, b, below_u, below_v):
                for x, y in zip(below_u, below_v, strict=True):
                    if x < 0:
                        self._pair(~x, ~y)
                    else:
                        stack.append((x, y))
                continue
            sums, rest = _without_sums(a, b, below_u, below_v)
            for side in range(2):
                self.sums[side].extend(sums[side])
            if all(sums):
                runs = len(self.runs)
                stack += self._by_units(*sums)
                del self.runs[runs:]  # sums may come in any order
            stack += self._by_units(*rest) if all(rest) else []

    def _zip(self, leaves: range, first: int) -> None:
        self.of_a[leaves.start : leaves.stop] = np.arange(first, first + len(leaves))
        self.of_b[first : first + len(leaves)] = np.arange(leaves.start, leaves.stop)

    def _by_units(self, below_u: list[int], below_v: list[int], is_in_order: bool = False) -> Pairs:
        """Pair what can be paired right below two nodes; pairs of nodes in which to go on.

        Args:
            below_u, below_v: what stands there.
            is_in_order: whether what stands elsewhere on the other side was taken out.
        """
        x, y = Units(self.a, below_u), Units(self.b, below_v)
        rows, columns = range(len(below_u)), range(len(below_v))
        self._leaves_left -= x.count(rows) + y.count(columns)
        if (max(below_u) < 0 and max(below_v) < 0) or self._leaves_left < 0:
            return self._take(self._leaf_by_leaf(x, y, rows, columns))
        costs = UnitCosts(x, y)
        pairs = costs.aligned()
        if not is_in_order and (moved := moved_units(costs, pairs)):
            return self._by_moved_units(x, y, moved)
        whole = Found()
        between: Pairs = []
        from_a = from_b = 0
        for i, j in [*pairs, (len(rows), len(columns))]:
            is_end = i == len(rows)
            if is_end or x.identity[i] == y.identity[j]:
                whole += self._stretch(x, y, range(from_a, i), range(from_b, j), between, costs)
                whole += Found() if is_end else self._unit(x, y, i, j, costs)
                from_a, from_b, between = i + 1, j + 1, []
            else:
                between.append((i, j))
        return self._take(self._better(x, y, rows, columns, whole))

    def _by_moved_units(self, x: Units, y: Units, moved: Pairs) -> Pairs:
        """Pair units whatever their order, and what is left below the two nodes in its order."""
        runs = [[(x.items[i], y.items[j]) for i, j in run] for run in runs_of(moved)]
        self.runs += runs
        rest = [
            [item for k, item in enumerate(one.items) if k not in gone]
            for one, gone in ((x, {i for i, _ in moved}), (y, {j for _, j in moved}))
        ]
        return [pair for run in runs for pair in run] + (
            self._by_units(rest[0], rest[1], is_in_order=True) if all(rest) else []
        )

    def _unit(self, x: Units, y: Units, i: int, j: int, costs: UnitCosts) -> Found:
        u, v = x.items[i], y.items[j]
        if u >= 0 and v >= 0:
            return Found(nodes=[(u, v)], alike=int(x.size[i] + y.size[j]) - costs.differ(i, j))
        return self._leaf_by_leaf(x, y, range(i, i + 1), range(j, j + 1))

    def _stretch(self, x: Units, y: Units, rows: range, columns: range, pairs: Pairs, costs: UnitCosts) -> Found:
        """Pair what stands between equal units."""
        found = Found()
        if not rows or not columns:
            return found
        from_a, from_b = rows.start, columns.start
        for i, j in [*pairs, (rows.stop, columns.stop)]:
            found += self._leaf_by_leaf(x, y, range(from_a, i), range(from_b, j))
            from_a, from_b = i + 1, j + 1
        for i, j in pairs:
            found += self._unit(x, y, i, j, costs)
        return self._better(x, y, rows, columns, found) if pairs else found

    def _better(self, x: Units, y: Units, rows: range, columns: range, found: Found) -> Found:
        """What was found by units, or leaf by leaf instead where that leaves much less over."""
        sizes = x.count(rows), y.count(columns)
        over = sum(sizes) - found.alike
        # The difference of both numbers is left over whatever is paired: where that is most of it, leaves do no better.
        cells = sizes[0] * sizes[1]
        if abs(sizes[0] - sizes[1]) >= _FLAT_PAYS * over or cells > min(_FLAT_CELLS, self._cells_left):
            return found
        self._cells_left -= cells
        flat = self._leaf_by_leaf(x, y, rows, columns)
        return flat if sum(sizes) - flat.alike < _FLAT_PAYS * over else found

    def _leaf_by_leaf(self, x: Units, y: Units, rows: range, columns: range) -> Found:
        if not rows or not columns:
            return Found()
        pairs = self._costs.aligned(x.leaves(rows), y.leaves(columns))
        token_a, token_b = self.a.token, self.b.token
        return Found(pairs, alike=2 * sum(bool(token_a[i] == token_b[j]) for i, j in pairs))

    def _take(self, found: Found) -> Pairs:
        """Keep pairs of leaves; pairs of nodes are left."""
        for i, j in found.leaves:
            self._pair(i, j)
        return found.nodes


@dataclass
class Found:
    """Pairs of leaves, and pairs of nodes in which to go on.

    Attributes:
        alike: leaves of both sides in these that have one of their op and category beside them, at most.
    """

    leaves: Pairs = field(default_factory=list)
    nodes: Pairs = field(default_factory=list)
    alike: int = 0

    def __iadd__(self, other: Found) -> Found:
        self.leaves += other.leaves
        self.nodes += other.nodes
        self.alike += other.alike
        return self


def _below_chains(a: Forest, b: Forest, below_u: list[int], below_v: list[int]) -> tuple[list[int], list[int]]:
    """What branches first below chains of single children; not below one that is among the branches of the other."""
    end_u, end_v = _below_chain(a, below_u), _below_chain(b, below_v)
    return _below_chain(a, below_u, b, end_v), _below_chain(b, below_v, a, end_u)


def _below_chain(
    forest: Forest, items: list[int], other: Forest | None = None, branches: list[int] | None = None
) -> list[int]:
    sizes: dict[int, list[int]] = {}
    for item in branches or ():
        if other is not None and item >= 0:
            sizes.setdefault(int(other.name[item]), []).append(int(other.high[item] - other.low[item]))
    while len(items) == 1 and items[0] >= 0:
        size = int(forest.high[items[0]] - forest.low[items[0]])
        if any(2 * abs(size - one) <= size + one for one in sizes.get(int(forest.name[items[0]]), ())):
            return items
        items = forest.items(items[0])
    return items


def _without_sums(a: Forest, b: Forest, x: list[int], y: list[int]) -> tuple[Parts, Parts]:
    """Of what stands below two nodes the sums of gradients, where they stand elsewhere on one side, and the rest.

    The engine adds up a gradient as soon as it is there. A compiled backward pass returns all of them at once, so that
    their sums stand behind all of its work, and those of eager ops between it.
    """
    called = _engine_ops(a, x), _engine_ops(b, y)
    compiled = [any(name.endswith(_COMPILED_BACKWARD) for name in names) for names in called]
    if compiled[0] == compiled[1]:
        return ([], []), (x, y)
    sums, rest = (
        [[item for item, name in zip(items, names, strict=True) if name.endswith(_SUM) == is_sum]
         for items, names in zip((x, y), called, strict=True)]
        for is_sum in (True, False)
    )  # fmt: skip
    return (sums[0], sums[1]), (rest[0], rest[1])


def _engine_ops(forest: Forest, items: list[int]) -> list[str]:
    """The name of each item that is a call, else nothing."""
    core = forest.window.core
    row = forest.row[np.maximum(items, 0)]
    return [
        core.names[core.columns.name[at]] if item >= 0 and at >= 0 else ""
        for item, at in zip(items, row.tolist(), strict=True)
    ]


def _same_names(a: Forest, b: Forest, x: list[int], y: list[int]) -> bool:
    """Whether items are called alike one by one; of several of one name, each also does like its counterpart."""
    if len(x) != len(y):
        return False
    seen: dict[int, bool] = {}
    for u, v in zip(x, y, strict=True):
        if (u < 0) != (v < 0):
            return False
        if u >= 0:
            name, does_like = int(a.name[u]), bool(a.bag[u] == b.bag[v])
            if name != b.name[v] or (name in seen and not (seen[name] and does_like)):
                return False
            seen[name] = does_like
        if u < 0 and (a.op[~u] != b.op[~v] or (not a.op[~u] and a.category[~u] != b.category[~v])):
            return False
    return True


def _leaves_of_replays(forest: Forest, partner: np.ndarray) -> np.ndarray:
    """Leaves right below a graph launch that have no partner, ascending."""
    row = forest.row[forest.leaf_parent]
    kind = forest.window.core.columns.kind[np.maximum(row, 0)]
    return np.flatnonzero((row >= 0) & (kind == Kind.RuntimeCall) & (partner < 0))


def settle_gaps(forest: Forest, of: np.ndarray, of_other: np.ndarray, run: Rows) -> None:
    """Move the gaps of one side, in place.

    A gap moves past a leaf that equals the one at its other end, callers included: the pair goes from one to the other.

    Args:
        forest: the side.
        of: for each of its leaves the partner, -1 without one.
        of_other: the same for the other side.
        run: for each of its leaves -1; else it stands elsewhere on the other side, and no gap moves past it.
    """
    loose = np.flatnonzero(of < 0)
    if not len(loose):
        return
    root = forest.root
    # What stands elsewhere equals nothing.
    place = np.where(run < 0, forest.leaf_place, np.arange(forest.leaves).astype(np.uint64))
    starts = loose[np.flatnonzero(np.diff(loose, prepend=-2) != 1)].tolist()
    for start in starts:
        end = start
        while end < forest.leaves and of[end] < 0 and root[end] == root[start]:
            end += 1
        length = end - start
        down = 0
        while _may_move(place, root, of, start + down, end + down):
            down += 1
        up = 0
        while start - up > 0 and _may_move(place, root, of, end - up - 1, start - up - 1):
            up += 1
        if not (up or down):
            continue
        moves = sorted(range(-up, down + 1), key=lambda move: (_cut(forest, start + move, length), abs(move), move))
        _move(of, of_other, start, end, moves[0])


def _may_move(place: np.ndarray, root: np.ndarray, of: np.ndarray, loose: int, paired: int) -> bool:
    """Whether a leaf in a gap may take the partner of the one behind or before it."""
    inside = paired < len(of) and of[paired] >= 0
    return bool(inside and place[loose] == place[paired] and root[loose] == root[paired])


def _move(of: np.ndarray, of_other: np.ndarray, start: int, end: int, move: int) -> None:
    length = end - start
    from_leaves = range(end, end + move) if move > 0 else range(start - 1, start - 1 + move, -1)
    for leaf in from_leaves:
        to = leaf - length if move > 0 else leaf + length
        of[to], of[leaf] = of[leaf], -1
        of_other[of[to]] = to


def _cut(forest: Forest, start: int, length: int) -> int:
    """How deep in the tree a gap begins or ends, whichever is deeper: depth of the lowest node around that place."""
    return max(_depth_between(forest, start), _depth_between(forest, start + length))


def _depth_between(forest: Forest, leaf: int) -> int:
    """Depth of the lowest node around a leaf and the one before it, 0 for roots and ends."""
    if leaf <= 0 or leaf >= forest.leaves:
        return 0
    node = int(forest.leaf_parent[leaf])
    while node >= 0 and forest.low[node] > leaf - 1:
        node = int(forest.parent[node])
    row = int(forest.row[node]) if node >= 0 else -1
    return int(forest.window.core.columns.depth[row]) + 1 if row >= 0 else 0
