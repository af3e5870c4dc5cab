"""Whether two traces are of programs that have nothing to do with each other."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.alignment.forest import Forest, Vocabulary
from tracelens_graph.schema import Kind

_CLASSES = 4
"""Classes of modules that both sides must have: compiled code has but a few wrappers, whatever its model is."""
_COMMON_CLASSES = 0.25
"""Share of the classes of the side with fewer of them that is common at most: every model has a Linear."""
_COMMON_LEAVES = 0.1
"""Share of leaves that lie in identical subtrees at most."""


def are_strangers(a: Forest, b: Forest, names: Vocabulary) -> bool:
    """Whether two forests are of different models: hardly a module class or an identical subtree in common.

    Only modules tell this. Without any, or where compilation or a graph launch has swallowed those of one side, two
    traces may be of one model though they have no call in common.
    """
    modules = {number for key, number in names.items() if isinstance(key, tuple) and key[0] == Kind.Module.name}
    classes = [modules.intersection(np.unique(forest.called).tolist()) for forest in (a, b)]
    fewer = min(map(len, classes))
    if fewer < _CLASSES or len(classes[0] & classes[1]) > _COMMON_CLASSES * fewer:
        return False
    common = np.intersect1d(a.identity[a.row >= 0], b.identity[b.row >= 0])
    return all(_share_below(forest, common) < _COMMON_LEAVES for forest in (a, b))


def _share_below(forest: Forest, identities: np.ndarray) -> float:
    """Share of the leaves below nodes with one of some identities."""
    nodes = np.flatnonzero(np.isin(forest.identity, identities) & (forest.row >= 0))
    change = np.bincount(forest.low[nodes], minlength=forest.leaves + 1)
    change -= np.bincount(forest.high[nodes], minlength=forest.leaves + 1)
    return float((np.cumsum(change)[:-1] > 0).mean()) if forest.leaves else 0.0
