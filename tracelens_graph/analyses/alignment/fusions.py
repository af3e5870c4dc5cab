"""Calls of a module that one call of the other side stands for, whatever stands between them: three products that
became one, an activation and a product that became one op."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracelens_graph.analyses.alignment.argument_words import elements
from tracelens_graph.analyses.alignment.containers import Containers
from tracelens_graph.analyses.alignment.divergence_points import Point, around_both
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.leaf_matching import Matching
from tracelens_graph.graph.traversals import climb
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Rows

_SHORTEST = 3
"""Letters of the name of an op that show it to be part of another's."""


def with_fusions(points: list[Point], matching: Matching, containers: Containers) -> list[Point]:
    """The points, in which calls of a module that one call of the other side does are one with that.

    An op does the work of others if its name holds theirs, as `silu_and_mul`, or if it is of their name and the sizes
    of its arguments are the sums of theirs.
    """
    sides = matching.a, matching.b
    point_of = [np.zeros(side.leaves, np.int64) for side in sides]
    for number, point in enumerate(points):
        for side in range(2):
            point_of[side][point.leaves[side]] = number
    parts: dict[int, tuple[list[int], list[int]]] = {}
    partners = (matching.of_a, containers.of_a), (matching.of_b, containers.of_b)
    for side, (partner, of) in enumerate(partners):
        for leaf, others in _fused(sides[side], sides[1 - side], partner, of >= 0).items():
            number = int(point_of[side][leaf])
            if not points[number].is_moved:
                parts.setdefault(number, ([], []))[side].extend(others)
    gone = [{leaf for both in parts.values() for leaf in both[side]} for side in range(2)]
    if not any(gone):
        return points
    of_a = np.where(containers.renamed, -1, containers.of_a)
    found = []
    for number, point in enumerate(points):
        more = parts.get(number, ([], []))
        first, second = (sorted({*point.leaves[side]} - gone[side] | {*more[side]}) for side in range(2))
        if not first and not second:
            continue
        if (first, second) == point.leaves:
            found.append(point)
            continue
        ns = int(sides[0].ns[first].sum()), int(sides[1].ns[second].sum())
        is_joined = number in parts
        around = around_both(sides, of_a, point.container[0], (first, second)) if is_joined else point.container
        found.append(Point(around, (first, second), ns, point.is_moved, is_joined or point.is_replaced))
    return found


def _fused(forest: Forest, other: Forest, partner: Rows, is_matched: np.ndarray) -> dict[int, list[int]]:
    """Leaves of one side -> leaves without a partner whose work is done by the partner of the first, too."""
    is_op = forest.is_op[forest.leaf_parent]
    loose = np.flatnonzero((partner < 0) & is_op & ~forest.is_communication)
    paired = np.flatnonzero((partner >= 0) & is_op & ~forest.is_communication)
    paired = paired[other.is_op[other.leaf_parent[partner[paired]]]]
    to = partner[paired]
    paired = paired[(forest.op[paired] != other.op[to]) | (forest.leaf_dims[paired] != other.leaf_dims[to])]
    if not len(loose) or not len(paired):
        return {}
    is_root = forest.parent < 0
    is_module = is_root | (is_matched & (forest.window.core.columns.kind[forest.row] == Kind.Module))
    left: dict[int, list[int]] = {}
    around = climb(forest.parent, forest.leaf_parent[loose], is_module)
    for leaf, module in zip(loose.tolist(), around.tolist(), strict=True):
        if not is_root[module]:
            left.setdefault(module, []).append(leaf)
    inner = climb(forest.parent, forest.leaf_parent[paired], is_module)
    outer = np.where(is_root[inner], inner, climb(forest.parent, forest.parent[inner], is_module))
    found: dict[int, list[int]] = {}
    for leaf, *modules in zip(paired.tolist(), inner.tolist(), outer.tolist(), strict=True):
        for module in dict.fromkeys(modules):
            if candidates := left.get(module):
                parts = _parts(forest, other, leaf, int(partner[leaf]), candidates)
                if parts:
                    found[leaf] = parts
                    left[module] = [one for one in candidates if one not in parts]
                    break
    return found


def _parts(forest: Forest, other: Forest, leaf: int, whole: int, candidates: Sequence[int]) -> list[int]:
    """Those of some leaves whose work is done, with that of a leaf, by its partner."""
    name, called = _name(forest, leaf), _name(other, whole)
    if name != called:
        if name not in called:
            return []
        return [one for one in candidates if len(part := _name(forest, one)) >= _SHORTEST and part in called]
    same = [one for one in candidates if _name(forest, one) == name]
    sizes = [_sizes(forest, one) for one in (leaf, *same)]
    return same if same and _add_up(sizes, _sizes(other, whole)) else []


def _name(forest: Forest, leaf: int) -> str:
    """The name of the op that launched a leaf, without its namespace, and without what spelling differs in."""
    core, row = forest.window.core, int(forest.row[forest.leaf_parent[leaf]])
    return core.names[core.columns.name[row]].rpartition("::")[2].replace("_", "").lower()


def _sizes(forest: Forest, leaf: int) -> tuple[int, ...]:
    """Numbers of elements of its arguments."""
    core, row = forest.window.core, int(forest.row[forest.leaf_parent[leaf]])
    code = int(core.columns.argset[row])
    return elements(core.argsets[code][0]) if code >= 0 else ()


def _add_up(parts: Sequence[tuple[int, ...]], whole: tuple[int, ...]) -> bool:
    """Whether each argument of a call is that of all of several calls, or as large as all of theirs together, and not
    all are the former."""
    if any(len(one) != len(whole) for one in parts):
        return False
    columns = [*zip(*parts, strict=True)]
    is_shared = [{*column} == {size} for column, size in zip(columns, whole, strict=True)]
    is_sum = [min(column) > 0 and sum(column) == size for column, size in zip(columns, whole, strict=True)]
    return any(is_sum) and all(map(any, zip(is_shared, is_sum, strict=True)))
