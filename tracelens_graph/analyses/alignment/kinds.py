"""How nodes and leaves that belong together resemble each other."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from tracelens_graph.analyses.alignment.containers import Containers
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.leaves import Matching


class MatchKind(IntEnum):
    """How a node or leaf resembles its partner; of several, the last one listed holds."""

    unmatched = 0
    changed = 1
    """Same name and arguments; what is below differs."""
    fused = 2
    """One op or one run of GPU events with n of them on one side and m on the other."""
    same_structure = 3
    """The calls below are the same, with other arguments."""
    identical = 4
    """Names, arguments, calls below and what the GPU events do are the same."""
    wrapped = 5
    """Below callers that are no partners: there is a call between on one side, or other ones on both."""
    other_arguments = 6
    renamed = 7


def node_kinds(matching: Matching, containers: Containers) -> tuple[np.ndarray, np.ndarray]:
    """For each node of both forests how it resembles its partner (a MatchKind)."""
    a, b, partner = matching.a, matching.b, containers.of_a
    u = np.flatnonzero(partner >= 0)
    v = partner[u]
    events = _events(a)[u] == _events(b)[v]
    is_op = a.is_op[u] & b.is_op[v]
    parent = a.parent[u]
    apart = (parent >= 0) & (b.parent[v] >= 0) & (partner[parent] != b.parent[v])
    found = _strongest(
        len(u),
        (MatchKind.fused, is_op & ~events),
        (MatchKind.same_structure, (a.structure[u] == b.structure[v]) & (events | ~is_op)),
        (MatchKind.identical, (a.identity[u] == b.identity[v]) & events),
        (MatchKind.wrapped, apart),
        (MatchKind.other_arguments, a.args[u] != b.args[v]),
        (MatchKind.renamed, containers.renamed[u]),
    )
    return _on_both_sides(found, (u, v), (len(a.parent), len(b.parent)))


def leaf_kinds(matching: Matching, containers: Containers) -> tuple[np.ndarray, np.ndarray]:
    """For each leaf of both forests how it resembles its partner (a MatchKind)."""
    a, b = matching.a, matching.b
    i = np.flatnonzero(matching.of_a >= 0)
    j = matching.of_a[i]
    found = _strongest(
        len(i),
        (MatchKind.fused, np.diff(a.first_event)[i] != np.diff(b.first_event)[j]),
        (MatchKind.identical, (a.leaf_identity[i] == b.leaf_identity[j]) & (_count(a, i) == _count(b, j))),
        (MatchKind.wrapped, containers.of_a[a.leaf_parent[i]] != b.leaf_parent[j]),
        (MatchKind.other_arguments, a.leaf_args[i] != b.leaf_args[j]),
        (MatchKind.renamed, a.op[i] != b.op[j]),
    )
    return _on_both_sides(found, (i, j), (a.leaves, b.leaves))


def _strongest(pairs: int, *kinds: tuple[MatchKind, np.ndarray]) -> np.ndarray:
    found = np.full(pairs, MatchKind.changed, np.uint8)
    for kind, holds in kinds:
        found[holds] = kind
    return found


def _on_both_sides(
    kinds: np.ndarray, places: tuple[np.ndarray, np.ndarray], sizes: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    first, second = (np.full(size, MatchKind.unmatched, np.uint8) for size in sizes)
    first[places[0]], second[places[1]] = kinds, kinds
    return first, second


def _events(forest: Forest) -> np.ndarray:
    """Number of GPU events below each node."""
    below: np.ndarray = forest.first_event[forest.high] - forest.first_event[forest.low]
    return below


def _count(forest: Forest, leaves: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.diff(forest.first_event)[leaves]
    return found
