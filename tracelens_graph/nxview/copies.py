"""Ordinary networkx graphs made of read-only ones."""

from __future__ import annotations

from typing import Any

import networkx as nx

from tracelens_graph.utils.gc_pause import garbage_collection_paused


@garbage_collection_paused()
def to_networkx(graph: Any) -> Any:
    """A mutable copy with dictionaries of its own: a MultiDiGraph, or a DiGraph of the call forest.

    Node and neighbour order are those of the graph. Its dictionaries are filled directly, which takes a third
    of the time of `networkx.MultiDiGraph(graph)`.
    """
    multi = graph.is_multigraph()
    copy = nx.MultiDiGraph() if multi else nx.DiGraph()
    copy.graph.update(graph.graph)
    nodes, successors, predecessors = copy._node, copy._succ, copy._pred
    for node, attributes in graph._node.items():
        nodes[node] = dict(attributes)
        successors[node] = {}
        predecessors[node] = {}
    for node, row in graph._adj.items():
        mine = successors[node]
        for neighbour, data in row.items():
            # Both directions share one dictionary, as in every networkx graph.
            shared = {key: dict(attributes) for key, attributes in data.items()} if multi else dict(data)
            mine[neighbour] = shared
            predecessors[neighbour][node] = shared
    return copy
