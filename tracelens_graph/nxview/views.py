"""Read-only networkx graphs over columns: the call forest, and the graph with its context."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache, cached_property
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from tracelens_graph.analyses.report.knowledge import add_knowledge
from tracelens_graph.execution.link import add_tensors
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.context import Context, build_context
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.edges import edge_rows, forest_edge_rows
from tracelens_graph.graph.node import Node, plain_properties
from tracelens_graph.nxview.lazy import FrozenDict, Index, JoinedIndex, KeyIndex, OnDemandDict, UidIndex, refuse
from tracelens_graph.schema import EVENT_EDGES, FLAG_MEANING, GPU_KINDS, Flag, Kind, OwnerRule
from tracelens_graph.utils.arrays import Codes, Rows
from tracelens_graph.utils.gc_pause import garbage_collection_paused

ALL_EDGES = tuple([edge.name for edge in EVENT_EDGES])
TREE_EDGES = ("CALLS", "LAUNCHES", "RAN_AS")
"""Types of the edges that make the call forest."""


class ReadOnly:
    """Mixin of networkx graphs that read columns: writing raises networkx.NetworkXError."""

    _made_of: ClassVar[type] = Core
    """What one is made of. networkx calls the constructor without, or with a graph's data."""

    _count_edges: Callable[[], int]

    frozen = True  # what networkx.is_frozen asks for

    add_node = add_nodes_from = remove_node = remove_nodes_from = refuse
    add_edge = add_edges_from = add_weighted_edges_from = remove_edge = remove_edges_from = refuse
    update = clear = clear_edges = refuse

    def __new__(cls, *data: Any, **attributes: Any) -> Any:
        """An object to be filled; as networkx makes results, a plain graph."""
        if data and isinstance(data[0], cls._made_of):
            return object.__new__(cls)
        plain = nx.MultiDiGraph if issubclass(cls, nx.MultiDiGraph) else nx.DiGraph
        return plain(*data, **attributes)

    def number_of_edges(self, u: Any = None, v: Any = None) -> int:
        """Number of edges, or of those from `u` to `v`."""
        if u is None:
            return self._count_edges()
        return int(super().number_of_edges(u, v))  # type: ignore[misc]

    def size(self, weight: str | None = None) -> float:
        """Number of edges, or the sum of an attribute of them."""
        return self._count_edges() if weight is None else super().size(weight)  # type: ignore[misc]

    @garbage_collection_paused()
    def to_networkx(self) -> Any:
        """An ordinary, mutable networkx graph with the same nodes, edges and attributes.

        Nodes and neighbours are in the same order. Its dictionaries are filled directly, which takes a third of the
        time of `networkx.MultiDiGraph(graph)`.
        """
        graph: Any = self
        copy: Any = type(graph)()
        multi = graph.is_multigraph()
        copy.graph.update(graph.graph)
        nodes, successors, predecessors = copy._node, copy._succ, copy._pred
        for node, attributes in graph._node.items():
            nodes[node], successors[node], predecessors[node] = dict(attributes), {}, {}
        for node, row in graph._adj.items():
            for neighbour, data in row.items():
                # Both directions share one dictionary, as in every networkx graph.
                shared = {key: dict(attributes) for key, attributes in data.items()} if multi else dict(data)
                successors[node][neighbour] = predecessors[neighbour][node] = shared
        return copy

    def copy(self, as_view: bool = False) -> Any:
        """A mutable copy as `to_networkx()` makes it, or a read-only view: what networkx means by it."""
        return nx.graphviews.generic_graph_view(self) if as_view else self.to_networkx()

    def _put_on(
        self, attributes: dict[str, Any], nodes: OnDemandDict, edges: Edges,
        joined: Callable[[str], FrozenDict] | None = None,
    ) -> None:  # fmt: skip
        """Take nodes and edges.

        Args:
            attributes: those of the graph itself.
            joined: what is seen of an edge of a type; by default its type and nothing else.
        """
        joined = joined or (typed if isinstance(self, nx.MultiDiGraph) else named)
        out, into = (adjacency(nodes.index, edges, side, joined) for side in ("out", "into"))
        self._put_on_rows(attributes, nodes, out, into, edges.__len__)

    def _put_on_rows(
        self, attributes: dict[str, Any], nodes: OnDemandDict, out: OnDemandDict, into: OnDemandDict,
        count: Callable[[], int],
    ) -> None:  # fmt: skip
        """Take what networkx reads: nodes, successors and predecessors."""
        graph: Any = self
        graph.graph, graph._node, graph._adj, graph._pred = attributes, nodes, out, into
        graph.__networkx_cache__ = {}
        self._count_edges = count


def event_nodes(core: Core) -> OnDemandDict:
    """uid -> attributes of every event node."""

    def block(low: int, high: int) -> list[Any]:
        return [FrozenDict(attributes) for attributes in attributes_of(core, low, high)]

    def make(row: int) -> FrozenDict:
        return FrozenDict(Node(core, row).attributes())

    return OnDemandDict(UidIndex(core.columns.uid), block, make)


def attributes_of(core: Core, low: int, high: int) -> list[dict[str, Any]]:
    """What `Node.attributes()` gives of the nodes in rows low..high-1, absent ones left out."""
    c, part = core.columns, slice(low, high)
    kind = c.kind[part]
    kinds, names, threads = [k.name for k in Kind], core.names, core.threads
    found: list[dict[str, Any]] = [
        {"kind": kinds[k], "name": names[n], "pid": threads[t][0], "tid": threads[t][1]}
        for k, n, t in zip(kind.tolist(), c.name[part].tolist(), c.thread[part].tolist(), strict=True)
    ]
    for prop in plain_properties(core):
        values = getattr(c, prop.name)[part]
        if prop.absent is None:
            for attributes, value in zip(found, values.tolist(), strict=True):
                attributes[prop.name] = value
        else:
            present = np.flatnonzero(values != prop.absent)
            for place, value in zip(present.tolist(), values[present].tolist(), strict=True):
                found[place][prop.name] = value
    # Every node gets lists of its own; to unpickle them takes a tenth of the time of parsing the JSON again.
    packed: dict[int, bytes] = {}
    argsets = c.argset[part]
    present = np.flatnonzero(argsets >= 0)
    for place, argset in zip(present.tolist(), argsets[present].tolist(), strict=True):
        if argset not in packed:
            packed[argset] = pickle.dumps(Node(core, low + place).shapes)
        found[place].update(pickle.loads(packed[argset]))
    rules = [rule.name for rule in OwnerRule]
    on_gpu = np.flatnonzero(is_kind(kind, GPU_KINDS))
    for place, rule in zip(on_gpu.tolist(), c.owner_rule[part][on_gpu].tolist(), strict=True):
        found[place]["owner_rule"] = rules[rule]
    flags = c.flags[part]
    for place in np.flatnonzero(flags).tolist():
        found[place]["flags"] = [FLAG_MEANING[flag] for flag in Flag if flags[place] & flag]
    return found


def event_edges(core: Core) -> Edges:
    """All edges between rows."""
    return Edges(len(core.columns), lambda: [(name, *edge_rows(core, name)) for name in ALL_EDGES])


def graph_attributes(core: Core) -> dict[str, Any]:
    """Attributes of the graph itself: plain values that every export can write, the whole of `core.info` as JSON."""
    info = core.info
    found = {"name": info.source, "start_epoch_ns": info.start_epoch_ns, "info": json.dumps(asdict(info))}
    return found if info.rank is None else {**found, "rank": info.rank}


class CallForest(ReadOnly, nx.DiGraph):
    """The call forest of a trace graph: all its nodes, edges CALLS, LAUNCHES and RAN_AS only, as attribute `type`."""

    def __init__(self, core: Core, nodes: OnDemandDict | None = None) -> None:
        """The forest of a core; `nodes` are its event nodes, if there are some already."""
        self._core = core
        self._put_on(
            graph_attributes(core),
            event_nodes(core) if nodes is None else nodes,
            Edges(len(core.columns), lambda: [(name, *forest_edge_rows(core, name)) for name in TREE_EDGES]),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return CallForest, (self._core,)


class FullGraph(ReadOnly, nx.MultiDiGraph):
    """A trace graph with its context and knowledge nodes, whose keys are texts, and the edges to them."""

    def __init__(self, core: Core, nodes: OnDemandDict | None = None) -> None:
        """The graph of a core; `nodes` are its event nodes, if there are some already."""
        self._core = core
        events = event_nodes(core) if nodes is None else nodes
        self.context = context = build_context(core)
        add_tensors(context, core)
        if core.framework.has_times:  # an execution trace alone has no GPU work to know of
            add_knowledge(context, core)
        first = len(core.columns)
        texts = [FrozenDict(attributes) for attributes in context.nodes.values()]
        index = JoinedIndex([events.index, KeyIndex(list(context.nodes))], lambda key: int(isinstance(key, str)))

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

        self._put_on(graph_attributes(core), OnDemandDict(index, block), Edges(len(index), edges), joined)

    def __reduce__(self) -> tuple[Any, ...]:
        return FullGraph, (self._core,)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.context.nodes)


def _with_texts(context: Context, name: str, source: Rows, target: Rows) -> TypedEdges:
    """Edges of a type, or where they have a text those of each text, named after both."""
    if name not in context.of_edges:
        return [(name, source, target)]
    _, codes, texts = context.of_edges[name]
    return [(f"{name} {text}", source[codes == code], target[codes == code]) for code, text in enumerate(texts)]


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
