"""Read-only networkx graphs over columns: the call forest, and the graph with its context."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence, Sized
from dataclasses import asdict
from typing import Any

import networkx as nx
import numpy as np

from tracelens_graph.analyses.report.knowledge import add_knowledge
from tracelens_graph.execution.link import add_tensors
from tracelens_graph.graph.context import Context, build_context
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.edges import edge_rows
from tracelens_graph.graph.node import Node
from tracelens_graph.nxview.adjacency import Edges, TypedEdges, adjacency, named, typed
from tracelens_graph.nxview.attributes import attributes_of
from tracelens_graph.nxview.index import FullIndex, UidIndex
from tracelens_graph.nxview.lazy import FrozenDict, OnDemandDict, refuse
from tracelens_graph.schema import EVENT_EDGES

ALL_EDGES = tuple([edge.name for edge in EVENT_EDGES])
TREE_EDGES = ("CALLS", "LAUNCHES")
"""Types of the edges that make the call forest."""


class ReadOnly:
    """Mixin of networkx graphs that read columns: writing raises networkx.NetworkXError."""

    edge_store: Sized

    frozen = True  # what networkx.is_frozen asks for

    add_node = add_nodes_from = remove_node = remove_nodes_from = refuse
    add_edge = add_edges_from = add_weighted_edges_from = remove_edge = remove_edges_from = refuse
    update = clear = clear_edges = refuse

    def number_of_edges(self, u: Any = None, v: Any = None) -> int:
        """Number of edges, or of those from `u` to `v`."""
        if u is None:
            return len(self.edge_store)
        return int(super().number_of_edges(u, v))  # type: ignore[misc]

    def size(self, weight: str | None = None) -> float:
        """Number of edges, or the sum of an attribute of them."""
        return len(self.edge_store) if weight is None else super().size(weight)  # type: ignore[misc]


def event_nodes(core: Core, index: UidIndex) -> OnDemandDict:
    """uid -> attributes of every event node."""

    def make(row: int) -> FrozenDict:
        return FrozenDict(Node(core, row).attributes())

    def block(low: int, high: int) -> list[Any]:
        return [FrozenDict(attributes) for attributes in attributes_of(core, low, high)]

    return OnDemandDict(index, make, block)


def event_edges(core: Core, types: Sequence[str]) -> Edges:
    """The edges of these types between rows."""
    return Edges(len(core.columns), lambda: [(name, *edge_rows(core, name)) for name in types])


def graph_attributes(core: Core) -> dict[str, Any]:
    """Attributes of the graph itself: plain values that every export can write, the whole of `core.info` as JSON."""
    info = core.info
    found = {"name": info.source, "start_epoch_ns": info.start_epoch_ns, "info": json.dumps(asdict(info))}
    return found if info.rank is None else {**found, "rank": info.rank}


def made_of_core(data: tuple[Any, ...]) -> bool:
    """Whether a constructor is called with a core: networkx calls it without, or with a graph's data."""
    return bool(data) and isinstance(data[0], Core)


def put_on_face(
    graph: Any, attributes: dict[str, Any], nodes: OnDemandDict, edges: Edges, index: Any,
    joined: Callable[[str], FrozenDict] | None = None,
) -> None:  # fmt: skip
    """Give an object that inherits from a networkx class its nodes and adjacency.

    Args:
        graph: the object.
        attributes: those of the graph itself.
        nodes: node -> attributes.
        edges: the edges.
        index: the nodes.
        joined: what is seen of an edge of a type; by default its type and nothing else.
    """
    joined = joined or (typed if graph.is_multigraph() else named)
    put_on(graph, attributes, nodes, edges, *(adjacency(index, edges, side, joined) for side in ("out", "into")))


def put_on(
    graph: Any, attributes: dict[str, Any], nodes: OnDemandDict, edges: Sized, out: OnDemandDict, into: OnDemandDict
) -> None:
    """Give an object that inherits from a networkx class what networkx reads: nodes, successors and predecessors."""
    graph.graph = attributes
    graph.edge_store = edges
    graph._node = nodes
    graph._adj = out
    graph._pred = into
    graph.__networkx_cache__ = {}


class FullGraph(ReadOnly, nx.MultiDiGraph):
    """A trace graph with its context and knowledge nodes, whose keys are texts, and the edges to them."""

    def __new__(cls, *data: Any, **attributes: Any) -> Any:
        """An object to be filled; without a core, as networkx makes results, a plain MultiDiGraph."""
        return object.__new__(cls) if made_of_core(data) else nx.MultiDiGraph(*data, **attributes)

    def __init__(self, core: Core, events: OnDemandDict, index: UidIndex) -> None:
        self._core = core
        self.context = context = build_context(core)
        add_tensors(context, core)
        if core.framework.has_times:  # an execution trace alone has no GPU work to know of
            add_knowledge(context, core)
        first = len(core.columns)
        texts = [FrozenDict(attributes) for attributes in context.nodes.values()]

        def make(position: int) -> FrozenDict:
            return block(position, position + 1)[0]

        def block(low: int, high: int) -> list[Any]:
            return [*events.at(low, min(high, first)), *texts[max(low - first, 0) : max(high - first, 0)]]

        def edges() -> TypedEdges:
            found = [(name, *edge_rows(core, name)) for name in ALL_EDGES]
            for name, (source, target) in context.between_events.items():
                found += _with_texts(context, name, source, target)
            for name, (rows, to) in context.from_events.items():
                found += _with_texts(context, name, rows, to + first)
            found += [(name, here + first, rows) for name, (here, rows) in context.to_events.items()]
            return found + [(name, here + first, to + first) for name, (here, to) in context.among.items()]

        def joined(name: str) -> FrozenDict:
            edge_type, _, text = name.partition(" ")
            if not text:
                return typed(edge_type)
            return FrozenDict({edge_type: FrozenDict({context.of_edges[edge_type].name: text})})

        full = FullIndex(index, list(context.nodes))
        store = Edges(len(full), edges)
        put_on_face(self, graph_attributes(core), OnDemandDict(full, make, block), store, full, joined)

    def __reduce__(self) -> tuple[Any, ...]:
        return full_of, (self._core,)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.context.nodes)


def _with_texts(context: Context, name: str, source: np.ndarray, target: np.ndarray) -> TypedEdges:
    """Edges of a type, or where they have a text those of each text, named after both."""
    if name not in context.of_edges:
        return [(name, source, target)]
    _, codes, texts = context.of_edges[name]
    return [(f"{name} {text}", source[codes == code], target[codes == code]) for code, text in enumerate(texts)]


class CallForest(ReadOnly, nx.DiGraph):
    """The call forest of a trace graph: all its nodes, edges CALLS and LAUNCHES only, as attribute `type`."""

    def __new__(cls, *data: Any, **attributes: Any) -> Any:
        """An object to be filled; without a core, as networkx makes results, a plain DiGraph."""
        return object.__new__(cls) if made_of_core(data) else nx.DiGraph(*data, **attributes)

    def __init__(self, core: Core, nodes: OnDemandDict, index: UidIndex) -> None:
        put_on_face(self, graph_attributes(core), nodes, event_edges(core, TREE_EDGES), index)
        self._core = core

    def __reduce__(self) -> tuple[Any, ...]:
        return forest_of, (self._core,)


def full_of(core: Core) -> FullGraph:
    """A graph with its context."""
    index = UidIndex(core.columns.uid)
    return FullGraph(core, event_nodes(core, index), index)


def forest_of(core: Core) -> CallForest:
    """The call forest of a graph."""
    index = UidIndex(core.columns.uid)
    return CallForest(core, event_nodes(core, index), index)
