"""Points of divergence: the lowest places of two call trees in which they do the same with other GPU work.

Every GPU event of either side lies in exactly one point, so the changes of all points add up to the change of the
total, in whole ns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from tracelens_graph.analyses.alignment.containers import Containers, last_matched
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.leaf_matching import Matching
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import climb
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Rows


@dataclass(eq=False)
class Point:
    """One place, and the GPU work in it on both sides.

    Attributes:
        container: the lowest matched nodes of one name around it; -1 where a side has none.
        leaves: leaves of both sides, ascending.
        ns: sum of the durations of their GPU events.
        is_moved: whether the work stands elsewhere on the other side.
        is_replaced: whether other calls do the work on the other side, in another number of steps.
    """

    container: tuple[int, int]
    leaves: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    ns: tuple[int, int] = (0, 0)
    is_moved: bool = False
    is_replaced: bool = False

    def mirrored(self) -> Point:
        """The same with the sides exchanged."""
        return Point(self.container[::-1], self.leaves[::-1], self.ns[::-1], self.is_moved, self.is_replaced)

    @property
    def change_ns(self) -> int:
        """How much more time the second side takes."""
        return self.ns[1] - self.ns[0]


def points_of(matching: Matching, containers: Containers) -> list[Point]:
    """All points, in the order of the first side, then of what only the second has.

    Leaves below a matched op, and those of a stream without launches, are one point. Below frames, modules and roots
    each pair of leaves is one, and so is each gap between pairs, communication in it apart from the rest. So is each
    run of calls that stands elsewhere on the other side.
    """
    a, b = matching.a, matching.b
    only_b = np.flatnonzero(matching.of_b < 0)
    in_order = matching.in_order
    node, gap = _places_of_a(matching, containers)
    around = _around(b, containers.of_b, _renamed_of_b(containers))[only_b]
    partner = containers.of_b[around]
    # A gap begins behind the last matched leaf before it; both sides call it by that of the first.
    before = last_matched(in_order[1], b)[only_b]
    same_gap = np.where(before >= 0, in_order[1][before], -1)
    node_b = np.where(partner >= 0, partner, -2 - around)
    gap_b = _separated(a, partner, _gap(np.where(partner >= 0, same_gap, before), b.is_communication[only_b]))

    run_a, run_b = matching.run_of[0], matching.run_of[1][only_b]
    first_of_run = np.array([int(a.low[run[0][0]]) for run in matching.runs], np.int64)
    moved = run_b >= 0
    node_b[moved], gap_b[moved] = (of[first_of_run[run_b[moved]]] for of in (node, gap))

    # Nodes go down to -1 - len(b.parent) and numbers in them to -1: both parts of a key are made positive.
    key = ((np.concatenate((node, node_b)) + len(b.parent) + 2) << 33) + np.concatenate((gap, gap_b)) + 1
    keys, number = distinct(key)
    first = np.full(len(keys), len(key))
    np.minimum.at(first, number, np.arange(len(key)))
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    number = rank[number]

    of_a = number[: a.leaves]
    of_b = np.empty(b.leaves, np.int64)
    of_b[only_b] = number[a.leaves :]
    paired = np.flatnonzero(matching.of_b >= 0)
    of_b[paired] = of_a[matching.of_b[paired]]
    leaves = [_grouped(of, len(keys)) for of in (of_a, of_b)]
    ns = [sum_by_group(of, side.ns, len(keys)).tolist() for of, side in ((of_a, a), (of_b, b))]
    places = np.concatenate((node, node_b))[first[order]]
    u = np.maximum(places, -1)
    v = np.where(places >= 0, np.append(containers.of_a, -1)[u], -2 - places)
    is_moved = np.concatenate((run_a, run_b))[first[order]] >= 0
    return [Point(*one) for one in zip(
        zip(u.tolist(), v.tolist(), strict=True), zip(*leaves, strict=True), zip(*ns, strict=True), is_moved.tolist(),
        strict=True,
    )]  # fmt: skip


def _places_of_a(matching: Matching, containers: Containers) -> tuple[np.ndarray, np.ndarray]:
    """For each leaf of the first side the node around its point, and which point below that node it is."""
    a, b, partner, run = matching.a, matching.b, matching.of_a.copy(), matching.run_of[0]
    node = _around(a, containers.of_a, containers.renamed)
    is_place = (containers.of_a >= 0) & ~containers.renamed
    moved = np.flatnonzero(run >= 0)
    above, image = (np.array([int(of[run[0][side]]) for run in matching.runs], np.int64)
                    for side, of in enumerate((a.parent, b.low)))  # fmt: skip
    if len(moved):
        node[moved] = climb(a.parent, above[run[moved]], is_place | (a.parent < 0))
        partner[moved] = image[run[moved]]
    while True:
        # A pair that leaves the image of its node belongs further up. Every round climbs, so this ends at the roots.
        image = containers.of_a[node]
        outside = (partner >= 0) & ~((b.low[image] <= partner) & (partner < b.high[image]))
        if not len(outside := np.flatnonzero(outside & (a.parent[node] >= 0))):
            break
        node[outside] = climb(a.parent, a.parent[node[outside]], is_place | (a.parent < 0))
    gap = _gap(last_matched(matching.in_order[0], a), a.is_communication)
    number = _separated(a, node, np.where(partner >= 0, 4 * np.arange(a.leaves) + 1, gap))
    return node, np.where(run >= 0, 4 * run + 3, number)


def _gap(before: np.ndarray, is_communication: np.ndarray) -> np.ndarray:
    """Numbers of gaps, even ones; those of pairs and runs are odd. Communication never takes another work's place."""
    return 4 * (before + 1) + 2 * is_communication


def _separated(a: Forest, node: np.ndarray, number: np.ndarray) -> np.ndarray:
    """What separates points below one node: nothing below ops and in streams, else the number."""
    is_one = np.append(a.is_op, False)  # the last is that of node -1
    is_one[a.lone_roots] = True
    return np.where(is_one[node], -1, number)


def _renamed_of_b(containers: Containers) -> np.ndarray:
    found = np.zeros(len(containers.of_b), bool)
    found[containers.of_a[containers.renamed]] = True
    return found


def _around(forest: Forest, partner: np.ndarray, renamed: np.ndarray) -> np.ndarray:
    """For each leaf the lowest node above it with a partner of its name; its root, without a partner, else."""
    return climb(forest.parent, forest.leaf_parent, ((partner >= 0) & ~renamed) | (forest.parent < 0))


def _grouped(group: np.ndarray, groups: int) -> list[list[int]]:
    """Places of each group."""
    order = np.argsort(group, kind="stable")
    ends = [0, *np.cumsum(np.bincount(group, minlength=groups)).tolist()]
    places = order.tolist()
    return [places[begin:end] for begin, end in pairwise(ends)]


_MOST_REPLACED = 64
"""Leaves of both sides up to which calls between equal neighbours are one replacement."""


def with_replacements(points: list[Point], matching: Matching, containers: Containers) -> list[Point]:
    """The points, in which calls that others replace are one: some have a counterpart of another name, some have none.

    A point of both sides that holds no pair of one name becomes one with what one side alone has right before or behind
    it, or the module whose main work it is. Moved work and communication stay what they are.
    """
    sides, equal = (matching.a, matching.b), _of_one_name(matching)
    stays = np.array([point.is_moved or point.is_replaced for point in points], bool)
    of: list[np.ndarray] = []
    for side, forest in enumerate(sides):
        numbers = [number for number, point in enumerate(points) for _ in point.leaves[side]]
        of.append(np.empty(forest.leaves, np.int64))
        of[side][[leaf for point in points for leaf in point.leaves[side]]] = numbers
        stays[of[side][equal[side] | forest.is_communication]] = True
    module = [climb(forest.parent, forest.leaf_parent, _is_module(forest)) for forest in sides]
    joined: dict[int, set[int]] = {}
    for number, point in enumerate(points):
        if stays[number] or not all(point.leaves):
            continue
        group = {number}
        for side, forest in enumerate(sides):
            group |= {
                int(of[side][leaf])
                for low, high in _extents(forest, point, side, int(module[side][point.leaves[side][0]]))
                for leaf in (low - 1, high)
                if 0 <= leaf < forest.leaves and forest.root[leaf] == forest.root[low]
            }
        group = {one for one in group if one == number or not (stays[one] or all(points[one].leaves))}
        for others in [joined[one] for one in group if one in joined]:
            group |= others
        if len(group) > 1 and _may_replace(sides, [points[one] for one in group]):
            joined |= dict.fromkeys(group, group)
    found = []
    for number, point in enumerate(points):
        group = joined.get(number, {number})
        if number == min(group):
            several = [points[one] for one in sorted(group)]
            found.append(point if len(several) == 1 else _as_one(several, sides, containers))
    return found


def _may_replace(sides: tuple[Forest, Forest], points: list[Point]) -> bool:
    """Whether there is a reason to take some points for one: they are in one module, or an op is not PyTorch's own."""
    if sum(len(leaves) for point in points for leaves in point.leaves) > _MOST_REPLACED:
        return False
    for side, forest in enumerate(sides):
        core = forest.window.core
        rows = {int(forest.row[forest.leaf_parent[leaf]]) for point in points for leaf in point.leaves[side]}
        if any(row >= 0 and core.columns.kind[row] == Kind.Op
               and not core.names[core.columns.name[row]].startswith("aten::") for row in rows):  # fmt: skip
            return True
    around = {point.container[0] for point in points if all(point.leaves)}
    nodes = climb(sides[0].parent, np.array(sorted(around), np.int64), _is_module(sides[0]))
    return len(set(nodes.tolist())) == 1 and int(sides[0].row[nodes[0]]) >= 0


def _extents(forest: Forest, point: Point, side: int, module: int) -> list[tuple[int, int]]:
    """From and to which leaf the work of a point goes on one side, and the module if it is most of that one's work."""
    leaves = point.leaves[side]
    found = [(leaves[0], leaves[-1] + 1)]
    low, high = int(forest.low[module]), int(forest.high[module])
    if 2 * point.ns[side] > forest.ns_before[high] - forest.ns_before[low] and high - low <= _MOST_REPLACED:
        found.append((low, high))
    return found


def _is_module(forest: Forest) -> np.ndarray:
    """For each node whether it is a module, or a root."""
    return (forest.row < 0) | (forest.window.core.columns.kind[forest.row] == Kind.Module)


def _of_one_name(matching: Matching) -> tuple[np.ndarray, np.ndarray]:
    """For each leaf of both sides whether it has a partner that an op of its name launched, or no op."""
    a, b = matching.a, matching.b
    first = np.flatnonzero(matching.of_a >= 0)
    second = matching.of_a[first]
    above = a.leaf_parent[first], b.leaf_parent[second]
    is_one = (a.called[above[0]] == b.called[above[1]]) | ~a.is_op[above[0]] | ~b.is_op[above[1]]
    found = np.zeros(a.leaves, bool), np.zeros(b.leaves, bool)
    found[0][first[is_one]] = found[1][second[is_one]] = True
    return found


def _as_one(points: list[Point], sides: tuple[Forest, Forest], containers: Containers) -> Point:
    """Several points as one, below the lowest call of one name that both sides make around them."""
    first, second = (sorted(leaf for point in points for leaf in point.leaves[side]) for side in range(2))
    start = next(point.container[0] for point in points if all(point.leaves))
    of_a = np.where(containers.renamed, -1, containers.of_a)
    ns = sum(point.ns[0] for point in points), sum(point.ns[1] for point in points)
    return Point(around_both(sides, of_a, start, (first, second)), (first, second), ns, is_replaced=True)


def around_both(
    sides: tuple[Forest, Forest], partner: Rows, start: int, leaves: tuple[list[int], list[int]]
) -> tuple[int, int]:
    """The lowest pair of nodes that holds some leaves of both sides, or the roots above them.

    Args:
        sides: the forests.
        partner: for each node of the first one its partner, -1 without one.
        start: a node of the first one from which to look upwards, -1 for none.
        leaves: of both sides, ascending.
    """
    (a, b), (first, second) = sides, leaves
    u = start
    while u >= 0 and a.parent[u] >= 0:
        v = int(partner[u])
        is_around = v >= 0 and a.low[u] <= first[0] and first[-1] < a.high[u]
        if is_around and b.low[v] <= second[0] and second[-1] < b.high[v]:
            break
        u = int(a.parent[u])
    return (u, int(partner[u])) if u >= 0 else (-1, -1)


def with_whole_runs(
    points: list[Point], sides: tuple[Forest, Forest], leaves: tuple[np.ndarray, np.ndarray]
) -> list[Point]:
    """The points, in which the neighbours of a replayed kernel stand with it where its partner is a run that has them.

    Args:
        points: every leaf lies in one.
        leaves: for each leaf of either side its partner, -1 without one.
    """
    moved: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for side in range(2):
        forest, other, partner = sides[side], sides[1 - side], leaves[side]
        row = forest.row[forest.leaf_parent]
        kind = forest.window.core.columns.kind[np.maximum(row, 0)]
        is_replayed = (row >= 0) & (kind == Kind.RuntimeCall)
        size = np.diff(other.first_event)
        paired = np.flatnonzero(is_replayed & (partner >= 0))
        for leaf in paired[size[partner[paired]] > 1].tolist():
            names = [other.event_name(row) for row in other.events_of(int(partner[leaf])).tolist()]
            own = forest.event_name(int(forest.events_of(leaf)[0]))
            place = names.index(own) if own in names else None
            if place is None:
                continue
            for near, name in enumerate(names, leaf - place):
                is_free = 0 <= near < forest.leaves and is_replayed[near] and partner[near] < 0
                if is_free and forest.event_name(int(forest.events_of(near)[0])) == name:
                    moved[side].setdefault(near, leaf)
    if not any(moved):
        return points
    return _moved(points, sides, moved)


def _moved(
    points: list[Point], sides: tuple[Forest, Forest], moved: tuple[dict[int, int], dict[int, int]]
) -> list[Point]:
    of: tuple[dict[int, Point], dict[int, Point]] = ({}, {})
    for point in points:
        for side in range(2):
            of[side].update(dict.fromkeys(point.leaves[side], point))
    for side in range(2):
        for leaf, to in moved[side].items():
            of[side][leaf].leaves[side].remove(leaf)
            of[side][to].leaves[side].append(leaf)
    for point in points:
        for side in range(2):
            point.leaves[side].sort()
        first, second = (int(forest.ns[point.leaves[side]].sum()) for side, forest in enumerate(sides))
        point.ns = first, second
    return [point for point in points if any(point.leaves)]
