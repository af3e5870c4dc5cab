"""A trace graph is a networkx graph: the same call on it and on its dict-backed copy gives the same."""

from __future__ import annotations

import copy
import json
import pickle
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from networkx.algorithms import isomorphism as iso

from corpus import CORPUS, needs_corpus
from tracelens_graph.api import load
from tracelens_graph.nxview.trace_graph import TraceGraph
from tracelens_graph.schema import EVENT_EDGES

Graph = Any


def span(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    pid = 0 if cat in ("kernel", "gpu_memcpy", "gpu_user_annotation", "cuda_sync") else 1
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def every_edge() -> dict[str, Any]:
    """A step on two threads and two streams in which every type of edge occurs."""
    on = {"device": 0, "stream": 7}
    events = [
        span("user_annotation", "ProfilerStep#3", 0, 100),
        span("user_annotation", "forward", 1, 40),
        span("python_function", "nn.Module: Net_0", 2, 38, **{"Python id": 1}),
        span("cpu_op", "aten::linear", 4, 20, **{"Sequence number": 5, "External id": 11, "Input Dims": [[2, 3]]}),
        span("cpu_op", "aten::addmm", 5, 15, **{"External id": 12, "Input Dims": [[2, 3]], "Input type": ["float"]}),
        span("cuda_runtime", "cudaLaunchKernel", 6, 2, correlation=1, **{"External id": 12}),
        span("cuda_runtime", "cudaLaunchKernel", 9, 2, correlation=2),
        span("cuda_runtime", "cudaMemcpyAsync", 26, 2, correlation=3),
        span("cpu_op", "AddmmBackward0", 50, 20, 2, **{"Sequence number": 5, "Fwd thread id": 1}),
        span("cpu_op", "aten::mm", 51, 10, 2),
        span("cuda_runtime", "cudaLaunchKernel", 52, 2, 2, correlation=4),
        span("cuda_runtime", "cudaDeviceSynchronize", 75, 20, correlation=5),
        span("kernel", "gemm", 10, 5, 7, correlation=1, **on),
        span("kernel", "bias", 16, 2, 7, correlation=2, **on),
        span("gpu_memcpy", "Memcpy DtoH", 30, 3, 9, correlation=3, bytes=24, device=0, stream=9),
        span("kernel", "gemm", 60, 5, 7, correlation=4, **on),
        span("kernel", "stray", 80, 1, 7, correlation=99, **on),
        span("gpu_user_annotation", "forward", 10, 23, 7, **on),
        span("cuda_sync", "Context Sync", 76, 18, 7, correlation=5, **on),
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 8, "s": "t",
         "args": {"Bytes": 512, "Device Id": 0, "Device Type": 1}},
    ]  # fmt: skip
    for phase, pid, tid, ts in (("s", 0, 7, 15), ("f", 0, 9, 30)):
        flow = {"ph": phase, "id": 2**40 + 1, "cat": "ac2g", "name": "ac2g", "bp": "e"}
        events.append({**flow, "pid": pid, "tid": tid, "ts": ts})
    for phase, tid, ts in (("s", 1, 4), ("f", 2, 50)):
        flow = {"ph": phase, "id": 8, "cat": "fwdbwd", "name": "fwdbwd", "bp": "e"}
        events.append({**flow, "pid": 1, "tid": tid, "ts": ts})
    return {"schemaVersion": 1, "distributedInfo": {"rank": 3}, "traceEvents": events}


@cache
def graph_of(trace: str) -> TraceGraph:
    if trace == "made":
        return load(every_edge())
    assert CORPUS is not None
    return load(CORPUS / "hta/critical-path/event-sync-multi-stream.json.gz")


@cache
def pair(trace: str, face: str) -> tuple[Graph, Graph]:
    """A read-only graph and its copy, made by networkx itself."""
    graph = graph_of(trace)
    shown = graph if face == "graph" else getattr(graph, face)
    plain = nx.DiGraph(shown) if face == "tree" else nx.MultiDiGraph(shown)
    return shown, plain


def top(graph: Graph) -> Any:
    """The node with the most descendants."""
    return max(graph, key=lambda node: len(nx.descendants(graph, node)))


def leaf(graph: Graph) -> Any:
    """Its furthest descendant."""
    return list(nx.bfs_tree(graph, top(graph)))[-1]


def some(graph: Graph) -> list[Any]:
    return list(graph)[2:9]


def scalars(graph: Graph) -> Graph:
    """The graph with names and kinds only: file formats write no lists."""
    slim = nx.create_empty_copy(graph, with_data=False)
    slim.add_nodes_from((node, {"name": data["name"], "kind": data["kind"]}) for node, data in graph.nodes.items())
    slim.add_edges_from(graph.edges)
    return slim


CALLS: dict[str, Callable[[Graph], Any]] = {
    # reading
    "len": len,
    "iter": list,
    "nodes": lambda g: list(g.nodes),
    "nodes data": lambda g: list(g.nodes(data=True)),
    "edges": lambda g: list(g.edges),
    "edges data": lambda g: list(g.edges(data=True)),
    "in_edges": lambda g: list(g.in_edges),
    "adj": lambda g: g.adj,
    "getitem": lambda g: g[top(g)],
    "successors": lambda g: list(g.successors(top(g))),
    "neighbors of a stranger": lambda g: list(g.neighbors(-5)),
    "contains": lambda g: [n in g for n in (0, 3, 3.0, 3.5, True, np.int64(2), -1, 10**30, "x", None, (1,), [1], {})],
    "has_node": lambda g: [g.has_node(n) for n in (0, 999, "x", [1])],
    "has_edge": lambda g: [g.has_edge(top(g), n) for n in g],
    "get_edge_data": lambda g: [g.get_edge_data(top(g), n) for n in g],
    "nbunch_iter": lambda g: list(g.nbunch_iter([*some(g), "x", -1])),
    "nbunch_iter of a stranger": lambda g: list(g.nbunch_iter("x")),
    "degree": lambda g: dict(g.degree),
    "out_degree": lambda g: g.out_degree(top(g)),
    "degree weighted": lambda g: dict(g.degree(weight="weight")),
    "size": lambda g: (g.size(), g.size("weight"), g.order()),
    "number_of_edges": lambda g: (g.number_of_edges(), g.number_of_edges(top(g), leaf(g))),
    "adjacency": lambda g: [(n, dict(row)) for n, row in g.adjacency()],
    "mapping methods": lambda g: (
        g._adj.get("x", 7), len(g._adj), list(g._adj.keys()), list(reversed(g._node)), list(g._node.values()),
        g._node | {"x": 1}, {"x": 1} | g._node, dict(g._node), {**g._adj}, g._node == dict(g._node), g._adj != {},
        bool(g._adj), copy.copy(g._node), g._adj.copy(), 0 in g._adj, (0, 1) in g._node.items(),
    ),
    # copies and views
    "copy": lambda g: g.copy(),
    "copy as view": lambda g: g.copy(as_view=True),
    "MultiDiGraph": nx.MultiDiGraph,
    "to_undirected": lambda g: g.to_undirected(),
    "to_undirected view": lambda g: g.to_undirected(as_view=True),
    "reverse": lambda g: g.reverse(),
    "subgraph": lambda g: g.subgraph(some(g)),
    "edge_subgraph": lambda g: g.edge_subgraph(list(g.edges)[::3]),
    "subgraph_view": lambda g: nx.subgraph_view(g, filter_node=lambda n: g.nodes[n]["kind"] == "Op"),
    "deepcopy": lambda g: copy.deepcopy(g),
    "pickle": lambda g: pickle.loads(pickle.dumps(g)),
    "graphs_equal": lambda g: nx.utils.graphs_equal(g, g.copy()),
    # traversal
    "bfs_edges": lambda g: list(nx.bfs_edges(g, top(g))),
    "dfs_edges": lambda g: list(nx.dfs_edges(g)),
    "edge_bfs": lambda g: list(nx.edge_bfs(g, top(g))),
    "ancestors": lambda g: nx.ancestors(g, leaf(g)),
    # paths
    "shortest_path": lambda g: nx.shortest_path(g, top(g), leaf(g)),
    "no path": lambda g: nx.shortest_path(g, leaf(g), top(g)),
    "dijkstra_path": lambda g: nx.dijkstra_path(g, top(g), leaf(g)),
    # order and DAGs
    "is_directed_acyclic_graph": nx.is_directed_acyclic_graph,
    "topological_sort": lambda g: list(nx.topological_sort(g)),
    "find_cycle": nx.find_cycle,
    "dag_longest_path": nx.dag_longest_path,
    "transitive_reduction": nx.transitive_reduction,
    # components and structure
    "weakly_connected_components": lambda g: list(nx.weakly_connected_components(g)),
    "strongly_connected_components": lambda g: list(nx.strongly_connected_components(g)),
    "condensation": nx.condensation,
    "connected_components undirected": lambda g: list(nx.connected_components(g.to_undirected(as_view=True))),
    "is_forest": nx.is_forest,
    "is_weighted": nx.is_weighted,
    "ego_graph": lambda g: nx.ego_graph(g, top(g), radius=2),
    # centrality, small graphs
    "degree_centrality": nx.degree_centrality,
    "betweenness_centrality": nx.betweenness_centrality,
    # combinations
    "relabel_nodes": lambda g: nx.relabel_nodes(g, {top(g): "top"}),
    "union": lambda g: nx.union(g, g, rename=("a", "b")),
    "compose": lambda g: nx.compose(g, g),
    "contracted_nodes": lambda g: nx.contracted_nodes(g, top(g), leaf(g)),
    # isomorphism
    "is_isomorphic": lambda g: nx.is_isomorphic(g, g.copy(), node_match=iso.categorical_node_match("kind", None)),
    # export
    "node_link_data": lambda g: json.dumps(nx.node_link_data(g, edges="edges")),
    "tree_data": lambda g: nx.tree_data(nx.dfs_tree(g, top(g)), top(g)),
    "generate_graphml": lambda g: "\n".join(nx.generate_graphml(scalars(g))),
    "generate_graphml of lists": lambda g: "\n".join(nx.generate_graphml(g)),
    "generate_gexf": lambda g: "\n".join(nx.generate_gexf(nx.DiGraph(scalars(g)))).split("<graph ")[1],
    "generate_edgelist": lambda g: list(nx.generate_edgelist(g)),
    "to_dict_of_dicts": nx.to_dict_of_dicts,
    "to_numpy_array": lambda g: nx.to_numpy_array(g).tolist(),
    "to_pandas_edgelist": lambda g: nx.to_pandas_edgelist(g).to_dict("records"),
}  # fmt: skip


def told(value: Any) -> Any:
    """A value in terms that compare by content and order, whatever class carries it."""
    if isinstance(value, nx.Graph):
        edges = value.edges(keys=True, data=True) if value.is_multigraph() else value.edges(data=True)
        kind = (value.is_multigraph(), value.is_directed())
        return kind, value.graph, [(node, told(data)) for node, data in value.nodes(data=True)], list(edges)
    if isinstance(value, Mapping):
        return {key: told(one) for key, one in value.items()}
    if isinstance(value, list | tuple | deque):
        return [told(one) for one in value]
    return value


def outcome(call: Callable[[Graph], Any], graph: Graph) -> Any:
    try:
        return told(call(graph))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("trace", ["made", pytest.param("real", marks=needs_corpus)])
@pytest.mark.parametrize("face", ["graph", "tree", "full"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_same_as_dict_backed(call: Callable[[Graph], Any], face: str, trace: str) -> None:
    shown, plain = pair(trace, face)
    assert outcome(call, shown) == outcome(call, plain)


def test_what_fails_fails_for_a_reason() -> None:
    """No two results are equal only because both are errors."""
    graph = graph_of("made")
    results = {name: (outcome(call, graph), outcome(call, graph.tree)) for name, call in CALLS.items()}
    failed = {name for name, both in results.items() if all(type(one) is tuple and is_error(one) for one in both)}
    assert failed == {
        "neighbors of a stranger", "no path",
        "generate_graphml of lists",
    }  # fmt: skip


def is_error(result: tuple[Any, ...]) -> bool:
    return isinstance(result[0], type) and issubclass(result[0], Exception)


def test_every_edge_type_is_there() -> None:
    graph = graph_of("made")
    # Replays of captured graphs, of which this trace has none, are in tests/captures.
    assert {key for _, _, key in graph.edges(keys=True)} == {edge.name for edge in EVENT_EDGES} - {"RAN_AS"}


@pytest.mark.parametrize("face", ["graph", "tree", "full"])
def test_our_copy_is_that_of_networkx(face: str) -> None:
    shown, plain = pair("made", face)
    ours = shown.to_networkx()
    assert type(ours) is type(plain)
    assert told(ours) == told(plain)
    assert [list(row) for row in ours._pred.values()] == [list(row) for row in plain._pred.values()]
    # Both directions share the dictionary of an edge: a change shows from either end.
    source, target = next(iter(ours.edges()))
    ours.add_edge(source, target, new=1)
    assert ours.pred[target][source] == ours.adj[source][target]
    assert told(shown) == told(plain)


def test_a_subclass_object_is_made_of_a_core_only() -> None:
    graph = graph_of("made")
    for face in (graph, graph.tree, graph.full):
        empty = face.__class__()
        assert type(empty) in (nx.DiGraph, nx.MultiDiGraph)
        assert len(empty) == 0
        filled = face.__class__([(1, 2)], name="x")
        assert type(filled) is type(empty)
        assert (list(filled.edges()), filled.name) == ([(1, 2)], "x")


MUTATORS: dict[str, Callable[[Graph], Any]] = {
    "add_node": lambda g: g.add_node(77),
    "add_nodes_from": lambda g: g.add_nodes_from([77]),
    "remove_node": lambda g: g.remove_node(0),
    "remove_nodes_from": lambda g: g.remove_nodes_from([0]),
    "add_edge": lambda g: g.add_edge(0, 1),
    "add_edges_from": lambda g: g.add_edges_from([(0, 1)]),
    "add_weighted_edges_from": lambda g: g.add_weighted_edges_from([(0, 1, 2.0)]),
    "remove_edge": lambda g: g.remove_edge(*next(iter(g.edges()))),
    "remove_edges_from": lambda g: g.remove_edges_from(list(g.edges())),
    "update": lambda g: g.update(nodes=[77]),
    "clear": lambda g: g.clear(),
    "clear_edges": lambda g: g.clear_edges(),
    "node attribute": lambda g: g.nodes[0].__setitem__("colour", "red"),
    "node attribute, deleted": lambda g: g.nodes[0].pop("name"),
    "edge attribute": lambda g: next(iter(g.edges(data=True)))[-1].__setitem__("colour", "red"),
    "set_node_attributes": lambda g: nx.set_node_attributes(g, "red", "colour"),
    "set_edge_attributes": lambda g: nx.set_edge_attributes(g, 1, "weight"),
    "relabel in place": lambda g: nx.relabel_nodes(g, {0: "x"}, copy=False),
    "contract in place": lambda g: nx.contracted_nodes(g, 0, 1, copy=False),
    "add_path": lambda g: nx.add_path(g, [0, 1, 2]),
    "nodes mapping": lambda g: g._node.update({77: {}}),
    "adjacency mapping": lambda g: g._adj.clear(),
}


@pytest.mark.parametrize("face", ["graph", "tree", "full"])
@pytest.mark.parametrize("change", MUTATORS.values(), ids=MUTATORS)
def test_writing_is_refused(change: Callable[[Graph], Any], face: str) -> None:
    shown, plain = pair("made", face)
    with pytest.raises(nx.NetworkXError, match=r"read-only.*to_networkx"):
        change(shown)
    assert told(shown) == told(plain)


def methods(graph_class: type) -> Iterator[str]:
    return (name for name in dir(graph_class) if not name.startswith("_"))


def test_every_writing_method_of_networkx_is_refused() -> None:
    """Methods of a networkx that is newer than this test count too: those that nx.freeze replaces."""
    frozen = nx.freeze(nx.MultiDiGraph())
    writers = {name for name in methods(nx.MultiDiGraph) if getattr(getattr(frozen, name), "__name__", "") == "frozen"}
    assert writers <= set(MUTATORS)
    assert nx.is_frozen(graph_of("made"))


@pytest.mark.parametrize("trace", ["made", pytest.param("real", marks=needs_corpus)])
def test_tree_is_the_call_forest(trace: str) -> None:
    graph = graph_of(trace)
    assert nx.is_branching(graph.tree)
    for uid in graph:
        assert nx.descendants(graph.tree, uid) == graph.subtree(uid)
        assert [node.uid for node in graph.node(uid).children] == list(graph.tree[uid])


def test_rows_are_forgotten_but_stay_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracelens_graph.nxview.lazy._KEPT", 3)
    graph, plain = load(every_edge()), pair("made", "graph")[1]
    for _ in range(2):
        assert {uid: graph[uid] for uid in graph} == {uid: plain[uid] for uid in plain}
        assert {uid: graph.nodes[uid] for uid in graph} == dict(plain.nodes)
    assert dict.__len__(graph._adj) <= 3


def test_attributes_are_those_of_the_node(corpus: Path) -> None:
    for name in ("hta/amd/mi250-minitoy", "hta/critical-path/simple-add", "dlrm-8-ranks/kineto/rank0"):
        graph = load(corpus / f"{name}.json.gz")
        assert dict(graph.nodes(data=True)) == {uid: graph.node(uid).attributes() for uid in graph}
