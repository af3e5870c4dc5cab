"""Points of divergence: the lowest places of two call trees in which they do the same with other GPU work.

Every GPU event of either side lies in exactly one point, so the changes of all points add up to the change of the
total, in whole ns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tracelens_graph.analyses.alignment.containers import Containers
from tracelens_graph.analyses.alignment.leaves import Matching


@dataclass(eq=False)
class Point:
    """One place, and the GPU work in it on both sides.

    Attributes:
        container: the lowest matched nodes of one name around it; -1 where a side has none.
        leaves: leaves of both sides, ascending.
        ns: sum of the durations of their GPU events.
    """

    container: tuple[int, int]
    leaves: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    ns: tuple[int, int] = (0, 0)

    def mirrored(self) -> Point:
        """The same with the sides exchanged."""
        return Point(self.container[::-1], self.leaves[::-1], self.ns[::-1])

    @property
    def change_ns(self) -> int:
        """How much more time the second side takes."""
        return self.ns[1] - self.ns[0]


def points_of(matching: Matching, containers: Containers) -> list[Point]:
    """All points, in the order of the first side, then of what only the second has."""
    a, b = matching.a, matching.b
    inside_a = _around(a.parent, a.leaf_parent, containers.of_a, containers.renamed)
    renamed_b = np.zeros(len(b.parent), bool)
    renamed_b[containers.of_a[containers.renamed]] = True
    inside_b = _around(b.parent, b.leaf_parent, containers.of_b, renamed_b)
    is_one = a.is_op.copy()
    is_one[a.lone_roots] = True
    found: dict[tuple[int, ...], Point] = {}

    def point(key: tuple[int, ...], u: int, v: int) -> Point:
        if key not in found:
            found[key] = Point((u, v))
        return found[key]

    before = _before(matching.of_a)
    before_b = _before(matching.of_b)
    for i, (u, j) in enumerate(zip(inside_a.tolist(), matching.of_a.tolist(), strict=True)):
        if j >= 0:
            while u >= 0 and not (_is_place(containers, u) and b.low[v := int(containers.of_a[u])] <= j < b.high[v]):
                u = int(a.parent[u])
        v = int(containers.of_a[u]) if u >= 0 else -1
        if u >= 0 and is_one[u]:
            one = point((u,), u, v)
        elif j >= 0:
            one = point((u, i, 1), u, v)
        else:
            one = point((u, int(before[i]), 0), u, v)
        one.leaves[0].append(i)
        if j >= 0:
            one.leaves[1].append(j)
    for j, (v, i) in enumerate(zip(inside_b.tolist(), matching.of_b.tolist(), strict=True)):
        if i >= 0:
            continue
        u = int(containers.of_b[v]) if v >= 0 else -1
        place = int(before_b[j])
        # A gap begins behind the last matched leaf before it; both sides call it by that of the first.
        same_gap = int(matching.of_b[place]) if place >= 0 else -1
        key = (u,) if u >= 0 and is_one[u] else (u, same_gap, 0) if u >= 0 else (-2 - v, place, 0)
        point(key, u, v).leaves[1].append(j)
    for one in found.values():
        one.leaves[1].sort()
        one.ns = int(a.ns[one.leaves[0]].sum()), int(b.ns[one.leaves[1]].sum())
    return list(found.values())


def _is_place(containers: Containers, u: int) -> bool:
    return bool(containers.of_a[u] >= 0 and not containers.renamed[u])


def _around(parent: np.ndarray, leaf_parent: np.ndarray, partner: np.ndarray, renamed: np.ndarray) -> np.ndarray:
    """For each leaf the lowest node above it with a partner of its name; its root, without a partner, else."""
    found = leaf_parent.copy()
    is_place = (partner >= 0) & ~renamed
    while True:
        climbing = np.flatnonzero((found >= 0) & ~is_place[found])
        climbing = climbing[parent[found[climbing]] >= 0] if len(climbing) else climbing
        if not len(climbing):
            return found
        found[climbing] = parent[found[climbing]]


def _before(partner: np.ndarray) -> np.ndarray:
    """For each leaf the last matched one before it, -1 without one."""
    found: np.ndarray = np.maximum.accumulate(np.where(partner >= 0, np.arange(len(partner)), -1))
    return found
