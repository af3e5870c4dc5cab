"""Which threads, and which streams, of two forests belong together."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.sequence import Pairs

_ROOT_PAIRS = 1 << 18
"""Pairs of threads, or of streams, that are all looked at."""


def paired_roots(a: Forest, b: Forest, of_a: np.ndarray, of_b: np.ndarray) -> Pairs:
    """Threads, or streams, by what they do: those with most ops and categories in common first, then by categories.

    Where there are very many, those that do the same are paired in their order, and of the others the largest.
    """
    pairs: Pairs = []
    left = [_by_size(a, of_a), _by_size(b, of_b)]
    for what in ("token", "category", "called"):
        bags = [{root: _counted(side, what, root) for root in roots} for side, roots in zip((a, b), left, strict=True)]
        found = _alike_roots(*bags) if len(left[0]) * len(left[1]) > _ROOT_PAIRS else []
        for side in range(2):
            for pair in found:
                del bags[side][pair[side]]
        found += _with_most_in_common(*(dict(list(one.items())[: int(_ROOT_PAIRS**0.5)]) for one in bags))
        pairs += found
        paired = [{pair[side] for pair in found} for side in range(2)]
        left = [[root for root in roots if root not in gone] for roots, gone in zip(left, paired, strict=True)]
    return pairs


def _by_size(forest: Forest, roots: np.ndarray) -> list[int]:
    size = forest.high[roots] - forest.low[roots]
    return roots[np.argsort(-size, kind="stable")].tolist()


Bag = dict[int, int]
"""Token -> how many leaves, or nodes, have it."""


def _counted(forest: Forest, what: str, root: int) -> Bag:
    """How many leaves below a root have each value of an attribute of leaves, or nodes of `called`."""
    begin, end = int(forest.low[root]), int(forest.high[root])
    if what == "called":  # Nodes stand in the order of their first leaves; roots come after them.
        low = forest.low[: np.count_nonzero(forest.row >= 0)]
        begin, end = np.searchsorted(low, (begin, end)).tolist()
    values: np.ndarray = getattr(forest, what)
    tokens, counts = np.unique(values[begin:end], return_counts=True)
    return dict(zip(tokens.tolist(), counts.tolist(), strict=True))


def _alike_roots(bags_a: dict[int, Bag], bags_b: dict[int, Bag]) -> Pairs:
    """Roots with the same bag, paired in their order."""
    places: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for root, bag in sorted(bags_b.items(), reverse=True):
        places.setdefault(tuple(bag.items()), []).append(root)
    return [(root, at.pop()) for root, bag in sorted(bags_a.items()) if (at := places.get(tuple(bag.items())))]


def _with_most_in_common(bags_a: dict[int, Bag], bags_b: dict[int, Bag]) -> Pairs:
    common = [
        (-shared, i, j)
        for i, bag in bags_a.items()
        for j, other in bags_b.items()
        if (shared := sum(min(count, other.get(token, 0)) for token, count in bag.items()))
    ]
    taken: tuple[set[int], set[int]] = (set(), set())
    pairs: Pairs = []
    for _, i, j in sorted(common):
        if i not in taken[0] and j not in taken[1]:
            taken[0].add(i)
            taken[1].add(j)
            pairs.append((i, j))
    return pairs
