"""Neighbours of nodes: edges in compressed rows, and the nested dictionaries that networkx sees of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tracelens_graph.nxview.index import Index
from tracelens_graph.nxview.lazy import FrozenDict, OnDemandDict

TypedEdges = Sequence[tuple[str, np.ndarray, np.ndarray]]
"""Edges by type: name of the type, positions of sources, positions of targets."""

NOTHING = FrozenDict()
"""The attributes of an edge that has none."""


class Rows:
    """For each node its neighbours and the types of the edges to them, one node after the other.

    Attributes:
        begin: where the neighbours of each node begin, and where those of the last one end.
        neighbour: positions of neighbours.
        code: number of the type of each edge.
    """

    def __init__(self, nodes: int, here: np.ndarray, there: np.ndarray, code: np.ndarray, order: np.ndarray) -> None:
        self.begin = np.concatenate(([0], np.cumsum(np.bincount(here, minlength=nodes)))).data
        self.neighbour = there[order].astype(np.int32).data
        self.code = code[order].data


class Edges:
    """All edges of a graph, computed when the first one is looked at."""

    def __init__(self, nodes: int, build: Callable[[], TypedEdges]) -> None:
        self.nodes = nodes
        self._build = build

    @cached_property
    def types(self) -> list[str]:
        """Names of the types, in the order of their numbers."""
        return [name for name, _, _ in self._typed]

    @cached_property
    def _typed(self) -> TypedEdges:
        return self._build()

    def __len__(self) -> int:
        return sum(len(source) for _, source, _ in self._typed)

    def _flat(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sizes = [len(source) for _, source, _ in self._typed]
        none = np.zeros(0, np.int64)
        source = np.concatenate([none, *(source for _, source, _ in self._typed)])
        target = np.concatenate([none, *(target for _, _, target in self._typed)])
        return source, target, np.repeat(np.arange(len(sizes), dtype=np.uint8), sizes)

    @cached_property
    def out(self) -> Rows:
        """By source; within a node by type, then by target."""
        source, target, code = self._flat()
        return Rows(self.nodes, source, target, code, np.lexsort((target, code, source)))

    @cached_property
    def into(self) -> Rows:
        """By target; within a node by source, the order in which adding edges source by source would leave."""
        source, target, code = self._flat()
        return Rows(self.nodes, target, source, code, np.lexsort((code, source, target)))


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
    maker = _RowMaker(index, edges, side, joined)
    return OnDemandDict(index, maker.row, maker.rows)


class _RowMaker:
    """Makes the dictionary of a node's neighbours, or those of many nodes in a row."""

    def __init__(self, index: Index, edges: Edges, side: str, single: Callable[[str], FrozenDict]) -> None:
        self._key, self._edges, self._side, self._single = index.key, edges, side, single

    @cached_property
    def _arrays(self) -> tuple[memoryview, memoryview, memoryview, list[FrozenDict]]:
        rows: Rows = getattr(self._edges, self._side)
        # Most pairs are joined by one edge: what stands for it is made once per type and shared.
        return rows.begin, rows.neighbour, rows.code, [self._single(name) for name in self._edges.types]

    def row(self, position: int) -> dict[Any, FrozenDict]:
        begin, neighbour, code, shared = self._arrays
        key = self._key
        row: dict[Any, FrozenDict] = {}
        for at in range(begin[position], begin[position + 1]):
            other, data = key(neighbour[at]), shared[code[at]]
            row[other] = FrozenDict({**row[other], **data}) if other in row else data
        return row

    def rows(self, low: int, high: int) -> list[dict[Any, FrozenDict]]:
        return [self.row(position) for position in range(low, high)]
