"""Work that stands elsewhere on the other side: equal calls below two nodes that an alignment in order leaves over."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tracelens_graph.analyses.alignment.costs import UnitCosts, Units
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.sequence import Pairs
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Mask, Rows


def moved_units(costs: UnitCosts, pairs: Pairs) -> Pairs:
    """Units that belong together though others that do, too, stand before one and behind the other.

    Units that are equal in all stand above the order: one is never paired with another of other sizes while an equal
    one is left elsewhere. Then come modules, and backward ops of forward ops that are matched, by their names.

    Args:
        costs: of pairing the units below two nodes.
        pairs: those of least cost in order.
    """
    x, y = costs.x, costs.y
    free = _without_equal(costs, pairs)
    equal = np.intersect1d(x.identity[free[0]], y.identity[free[1]])
    if len(equal):
        costs = costs.with_equal_only(equal)
        pairs = costs.aligned()
    left = [_nodes_without(unit, {pair[side] for pair in pairs}) for side, unit in enumerate((x, y))]
    if not all(map(len, left)):
        return []
    found = _in_turn(x.identity, y.identity, _as_often(x, y, left), costs)
    for side in range(2):
        gone = [pair[side] for pair in found]
        left[side] = left[side][_is_known_by_name((x, y)[side])[left[side]] & ~np.isin(left[side], gone)]
    return sorted(found + _in_turn(x.name, y.name, left, costs))


def _in_turn(key_a: np.ndarray, key_b: np.ndarray, left: list[Rows], costs: UnitCosts) -> Pairs:
    """Units of one key, first with first, as far as they may be a pair."""
    places: dict[int, list[int]] = defaultdict(list)
    for j in left[1][::-1].tolist():
        places[int(key_b[j])].append(j)
    return [
        (i, places[key].pop())
        for i in left[0].tolist()
        if places.get(key := int(key_a[i])) and costs.may_be_pair(i, places[key][-1])
    ]


def _as_often(x: Units, y: Units, left: list[Rows]) -> list[Rows]:
    """Units that stand as often on one side as on the other, and modules: a single op may be anyone's."""
    known = [np.unique(unit.identity, return_counts=True) for unit in (x, y)]
    common, first, second = np.intersect1d(known[0][0], known[1][0], return_indices=True)
    equal = common[known[0][1][first] == known[1][1][second]]
    return [
        at[np.isin(unit.identity[at], equal) | _is_known_by_name(unit)[at]]
        for unit, at in zip((x, y), left, strict=True)
    ]


def _without_equal(costs: UnitCosts, pairs: Pairs) -> tuple[Mask, Mask]:
    """For the units of both sides whether they are nodes without a partner, or with one that does other things."""
    x, y = costs.x, costs.y
    free = np.array(x.items) >= 0, np.array(y.items) >= 0
    for i, j in pairs:
        if x.identity[i] == y.identity[j] or not costs.is_of_other_sizes(i, j):
            free[0][i] = free[1][j] = False
    return free


def _nodes_without(units: Units, paired: set[int]) -> Rows:
    return np.array([k for k, item in enumerate(units.items) if item >= 0 and k not in paired], np.int64)


def _is_known_by_name(units: Units) -> Mask:
    """For each unit whether its name alone says which it is: a module, or the backward of a certain match."""
    forest = units.forest
    node = np.maximum(np.array(units.items), 0)
    kind = forest.window.core.columns.kind[forest.row[node]]
    return (kind == Kind.Module) | (forest.name[node] != forest.called[node])


def runs_of(pairs: Pairs) -> list[Pairs]:
    """The pairs, those together that stand side by side on the first side."""
    runs: list[Pairs] = []
    for pair in pairs:
        if runs and runs[-1][-1][0] + 1 == pair[0]:
            runs[-1].append(pair)
        else:
            runs.append([pair])
    return runs


def run_of_leaves(forest: Forest, runs: list[list[int]]) -> Rows:
    """For each leaf of a side the number of the run of nodes that it is below, the outermost of several; -1 for none.

    Args:
        runs: nodes of each, outer runs before those inside them.
    """
    found = np.full(forest.leaves, -1, np.int64)
    for number in range(len(runs) - 1, -1, -1):
        for node in runs[number]:
            found[forest.low[node] : forest.high[node]] = number
    return found
