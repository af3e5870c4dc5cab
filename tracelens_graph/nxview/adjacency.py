"""Neighbours of nodes: edges in compressed rows, and the nested dictionaries that networkx sees of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np

from tracelens_graph.nxview.index import Index
from tracelens_graph.nxview.lazy import FrozenDict, OnDemandDict
from tracelens_graph.utils.arrays import Codes, Rows

TypedEdges = Sequence[tuple[str, Rows, Rows]]
"""Edges by type: name of the type, positions of sources, positions of targets."""

NOTHING = FrozenDict()
"""The attributes of an edge that has none."""

Neighbours = tuple[memoryview, memoryview, memoryview]
"""Where the neighbours of each node begin, and where those of the last one end; positions of neighbours, one node after
the other; and number of the type of each edge."""


class Edges:
    """All edges of a graph, computed when the first one is looked at."""

    def __init__(self, nodes: int, build: Callable[[], TypedEdges]) -> None:
        self._nodes = nodes
        self._build = build

    @cached_property
    def _typed(self) -> TypedEdges:
        return self._build()

    @property
    def types(self) -> list[str]:
        """Names of the types, in the order of their numbers."""
        return [name for name, _, _ in self._typed]

    def __len__(self) -> int:
        return sum(len(source) for _, source, _ in self._typed)

    @cached_property
    def out(self) -> Neighbours:
        """By source; within a node by type, then by target."""
        source, target, code = self._flat()
        return self._rows(source, target, code, np.lexsort((target, code, source)))

    @cached_property
    def into(self) -> Neighbours:
        """By target; within a node by source, the order in which adding edges source by source would leave."""
        source, target, code = self._flat()
        return self._rows(target, source, code, np.lexsort((code, source, target)))

    def _flat(self) -> tuple[Rows, Rows, Codes]:
        sizes = [len(source) for _, source, _ in self._typed]
        none = np.zeros(0, np.int64)
        source = np.concatenate([none, *(source for _, source, _ in self._typed)])
        target = np.concatenate([none, *(target for _, _, target in self._typed)])
        return source, target, np.repeat(np.arange(len(sizes), dtype=np.uint8), sizes)

    def _rows(self, here: Rows, there: Rows, code: Codes, order: Rows) -> Neighbours:
        begin = np.concatenate(([0], np.cumsum(np.bincount(here, minlength=self._nodes))))
        return begin.data, there[order].astype(np.int32).data, code[order].data


def typed(name: str) -> FrozenDict:
    """What joins two nodes of a MultiDiGraph: an edge whose key is its type, without attributes."""
    return FrozenDict({name: NOTHING})


def named(name: str) -> FrozenDict:
    """What joins two nodes of a DiGraph: the attributes of an edge, with its type."""
    return FrozenDict({"type": name})


def adjacency(index: Index, edges: Edges, side: str, joined: Callable[[str], FrozenDict]) -> OnDemandDict:
    """node -> neighbour -> what joins them.

    Args:
        index: the nodes.
        edges: the edges between their positions.
        side: "out" for successors, "into" for predecessors.
        joined: what networkx sees of an edge of a type: `typed` for a MultiDiGraph; `named` for a DiGraph, which
            needs one type per pair.
    """

    @cache
    def arrays() -> tuple[Neighbours, list[FrozenDict]]:
        # Most pairs are joined by one edge: what stands for it is made once per type and shared.
        return getattr(edges, side), [joined(name) for name in edges.types]

    def make(position: int) -> dict[Any, FrozenDict]:
        (begin, neighbour, code), shared = arrays()
        row: dict[Any, FrozenDict] = {}
        for at in range(begin[position], begin[position + 1]):
            other, data = index.key(neighbour[at]), shared[code[at]]
            row[other] = FrozenDict({**row[other], **data}) if other in row else data
        return row

    return OnDemandDict(index, lambda low, high: [make(position) for position in range(low, high)], make)
