"""Tensors and storages as nodes of a linked graph, and graphs without any."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np

from corpus import CHECKOUT
from tracelens_graph import load
from tracelens_graph.schema import CONTEXT_EDGES, Kind

STEM = CHECKOUT / "examples/traces/tiny-transformer-cpu"
TENSOR_EDGES = {"CONSUMES", "WRITES", "PRODUCES", "VIEW_OF", "STORED_IN"}


@cache
def linked() -> Any:
    return load(f"{STEM}.json.gz", et=f"{STEM}.execution-trace.json.gz")


def nodes(graph: Any, kind: str) -> dict[str, dict[str, Any]]:
    return {key: data for key, data in graph.full.nodes(data=True) if data["kind"] == kind}


def test_nodes_and_edges_of_tensors() -> None:
    graph = linked()
    tensors, storages = nodes(graph, "Tensor"), nodes(graph, "Storage")
    told = graph.tensors.lineage
    assert (len(tensors), len(storages)) == (len(told.tensors), len(told.storages))
    ends = {edge.name: edge for edge in CONTEXT_EDGES}
    count: Counter[str] = Counter()
    for source, target, kind in graph.full.edges(keys=True):
        if kind in TENSOR_EDGES:
            count[kind] += 1
            assert graph.full.nodes[source]["kind"] in ends[kind].source.split("|")
            assert graph.full.nodes[target]["kind"] == ends[kind].target
    assert count.keys() == TENSOR_EDGES
    assert count["PRODUCES"] == (told.tensors.producer >= 0).sum()
    assert count["VIEW_OF"] == (told.tensors.view_of >= 0).sum()


def test_what_a_tensor_says() -> None:
    (key,) = (key for key, data in nodes(linked(), "Tensor").items() if data["name"] == "t7: int64[2,17]")
    full = linked().full
    data = full.nodes[key]
    assert (data["tensor_id"], data["version"], data["shape"], data["strides"]) == (7, 1, "[2, 17]", "[17, 1]")
    assert (data["bytes"], data["elements"], data["on"], data["dtype"]) == (272, 34, "cpu", "long int")
    makers = [source for source, _, kind in full.in_edges(key, keys=True) if kind == "PRODUCES"]
    assert [full.nodes[one]["name"] for one in makers] == ["aten::empty"]
    (storage,) = (target for _, target, kind in full.out_edges(key, keys=True) if kind == "STORED_IN")
    assert full.nodes[storage]["bytes"] == 272
    assert full.nodes[storage]["made_by"] == makers[0]
    assert data["start_ns"] == linked().node(makers[0]).start_ns


def test_views_lie_on_the_storage_of_what_they_view() -> None:
    full = linked().full
    storage = {a: b for a, b, kind in full.edges(keys=True) if kind == "STORED_IN"}
    views = [(a, b) for a, b, kind in full.edges(keys=True) if kind == "VIEW_OF"]
    assert views
    assert all(storage[a] == storage[b] for a, b in views)


def test_an_execution_trace_alone_has_tensors_without_times() -> None:
    graph = load(f"{STEM}.execution-trace.json.gz")
    tensors = nodes(graph, "Tensor")
    assert len(tensors) == len(linked().tensors.lineage.tensors)
    assert not any("start_ns" in data for data in tensors.values())


def test_every_op_with_tensors_is_joined_to_them() -> None:
    tensors, c = linked().tensors, linked().columns
    rows = np.unique(np.concatenate([rows for rows, _ in tensors.edges.values()]))
    assert set(np.unique(c.kind[rows]).tolist()) <= {Kind.Op, Kind.Annotation}
    for row in rows[::97].tolist():
        inputs, outputs = tensors.uses_at(row)
        assert inputs or outputs
        assert tensors.line(row)
