"""Backward ops go with their forward ops: which of equal layers they belong to, their own names do not tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracelens_graph.analyses.alignment.containers import Containers
from tracelens_graph.analyses.alignment.forest import Forest, Vocabulary


def with_forward_matches(
    a: Forest, b: Forest, containers: Containers, names: Vocabulary
) -> tuple[Forest, Forest] | None:
    """The forests with backward ops named by what their forward ops are matched with; None without any.

    Args:
        a, b: the forests.
        containers: their nodes, paired by a first alignment.
        names: numbers of names.
    """
    forward_a, forward_b = _forward(a), _forward(b)
    if not (forward_a >= 0).any() or not (forward_b >= 0).any():
        return None
    # A match is called by its node on the first side; what has none is of one side only.
    of_b = np.where(containers.of_b >= 0, containers.of_b, -2 - np.arange(len(b.parent)))
    return _named(a, forward_a, np.arange(len(a.parent)), names), _named(b, forward_b, of_b, names)


def _forward(forest: Forest) -> np.ndarray:
    """For each node the node of its forward op, -1 without one; of several, the first."""
    core = forest.window.core
    found = np.full(len(forest.parent), -1, np.int64)
    node_of = np.full(len(core.columns) + 1, -1, np.int64)
    is_node = forest.row >= 0
    node_of[forest.row[is_node]] = np.flatnonzero(is_node)
    forward, backward = node_of[core.autograd.forward], node_of[core.autograd.backward]
    both = np.flatnonzero((forward >= 0) & (backward >= 0))[::-1]
    found[backward[both]] = forward[both]
    return found


def _named(forest: Forest, forward: np.ndarray, match: np.ndarray, names: Vocabulary) -> Forest:
    name = forest.called.copy()
    for node in np.flatnonzero(forward >= 0).tolist():
        name[node] = names["backward of", int(match[forward[node]]), int(name[node])]
    return replace(forest, name=name)
