"""Two windows aligned: which leaves and nodes of their call trees belong together, and where these part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.alignment.containers import Containers
from tracelens_graph.analyses.alignment.divergence_points import Point, points_of, with_replacements, with_whole_runs
from tracelens_graph.analyses.alignment.forest import Forest, Vocabulary, forest
from tracelens_graph.analyses.alignment.fusions import with_fusions
from tracelens_graph.analyses.alignment.leaf_matching import Matching
from tracelens_graph.analyses.alignment.matches import leaf_kinds, node_kinds
from tracelens_graph.graph.arguments import argset_text
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import Kind


@dataclass(frozen=True)
class Alignment:
    """Two forests, which of their leaves and nodes belong together, and the points in which they part.

    Attributes:
        sides: the forests.
        leaves: for each leaf of either side its partner on the other, -1 without one.
        nodes: the same for nodes.
        leaf_kinds, node_kinds: for each of them how it resembles its partner, a `MatchKind`.
        points: where they part; every leaf of either side lies in one.
        are_unrelated: whether the two are of different programs; then nothing of them was aligned.
    """

    sides: tuple[Forest, Forest]
    leaves: tuple[np.ndarray, np.ndarray]
    nodes: tuple[np.ndarray, np.ndarray]
    leaf_kinds: tuple[np.ndarray, np.ndarray]
    node_kinds: tuple[np.ndarray, np.ndarray]
    points: list[Point]
    are_unrelated: bool

    def mirrored(self) -> Alignment:
        """The same with the sides exchanged."""
        return Alignment(
            self.sides[::-1], self.leaves[::-1], self.nodes[::-1], self.leaf_kinds[::-1], self.node_kinds[::-1],
            [point.mirrored() for point in self.points], self.are_unrelated,
        )  # fmt: skip


def align(a: Window, b: Window) -> Alignment:
    """Align two windows. Exchanging them mirrors the result: inside, their order follows from what is in them."""
    is_swapped = Content(b) < Content(a)
    names, arguments = Vocabulary(), Vocabulary()
    first, second = (forest(w, names, arguments) for w in ((b, a) if is_swapped else (a, b)))
    unrelated = are_unrelated(first, second, names)
    matching, containers = _matched(first, second, unrelated)
    if (again := with_forward_matches(first, second, containers, names)) is not None:
        matching, containers = _matched(*again, unrelated)
    both, leaves = (matching.a, matching.b), (matching.of_a, matching.of_b)
    points = with_fusions(points_of(matching, containers), matching, containers)
    points = with_replacements(points, matching, containers)
    points = with_whole_runs(points, both, leaves)
    found = Alignment(
        both, leaves, (containers.of_a, containers.of_b),
        leaf_kinds(matching, containers), node_kinds(matching, containers), points, unrelated,
    )  # fmt: skip
    return found.mirrored() if is_swapped else found


def _matched(a: Forest, b: Forest, unrelated: bool) -> tuple[Matching, Containers]:
    matching = Matching(a, b, unrelated)
    matching.settle_gaps()
    return matching, Containers(matching)


class Content:
    """What is in a window, in an order that does not depend on which side it stands on: amounts first, then names."""

    def __init__(self, w: Window) -> None:
        self._w = w
        ns = w.core.columns.dur_ns[w.gpu_rows]
        self._amounts = len(ns), int(ns.sum()), ns.tobytes()

    def __lt__(self, other: Content) -> bool:
        # Two recordings hardly ever agree in every duration, so that names are seldom compared.
        if self._amounts != other._amounts:
            return self._amounts < other._amounts
        return self._w.core is not other._w.core and self._names < other._names

    @cached_property
    def _names(self) -> list[tuple[int, str, str]]:
        core, c = self._w.core, self._w.core.columns
        calls = zip(c.depth.tolist(), c.name.tolist(), c.argset.tolist(), strict=True)
        return [
            (depth, core.names[name], argset_text(core, argset) if argset >= 0 else "") for depth, name, argset in calls
        ]


def with_forward_matches(
    a: Forest, b: Forest, containers: Containers, names: Vocabulary
) -> tuple[Forest, Forest] | None:
    """The forests with backward ops named by what their forward ops are matched with; None without any.

    Args:
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
    forward, backward = node_of[autograd_of(core).forward], node_of[autograd_of(core).backward]
    # Backwards, as what is written last stays: of several forward ops the first.
    both = np.flatnonzero((forward >= 0) & (backward >= 0))[::-1]
    found[backward[both]] = forward[both]
    return found


def _named(forest: Forest, forward: np.ndarray, match: np.ndarray, names: Vocabulary) -> Forest:
    name = forest.called.copy()
    for node in np.flatnonzero(forward >= 0).tolist():
        name[node] = names["backward of", int(match[forward[node]]), int(name[node])]
    return replace(forest, name=name)


_CLASSES = 4
"""Classes of modules that both sides must have: compiled code has but a few wrappers, whatever its model is."""
_COMMON_CLASSES = 0.25
"""Share of the classes of the side with fewer of them that is common at most: every model has a Linear."""
_COMMON_LEAVES = 0.1
"""Share of leaves that lie in identical subtrees at most."""


def are_unrelated(a: Forest, b: Forest, names: Vocabulary) -> bool:
    """Whether two forests are of different models: hardly a module class or an identical subtree in common.

    Only modules show this. Without any, or where compilation or a graph launch has swallowed those of one side, two
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
    # Such nodes stand in one another, so sizes do not add up: a leaf counts if any of them covers it.
    change = np.bincount(forest.low[nodes], minlength=forest.leaves + 1)
    change -= np.bincount(forest.high[nodes], minlength=forest.leaves + 1)
    return float((np.cumsum(change)[:-1] > 0).mean()) if forest.leaves else 0.0
