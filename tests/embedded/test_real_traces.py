"""Answers about real traces in Cypher without a server, held against the same questions in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from same_tables import assert_same

from corpus import loaded
from tracelens_graph import Table, TraceGraph
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.cypher import library
from tracelens_graph.schema import GPU_KINDS

pytest.importorskip("ladybug")

TRACES = (
    "tracelens/mi300/resnet-ddp-checkpointing.json.gz",
    "tracelens/b200/eager-serving.json.gz",
    "hta/queue-length-cuda-graph.json.gz",
    "hta/nanosecond-resolution.json.gz",
    "tracelens/mi210/gpu-only.json.gz",
)
OF_LIBRARY = ("category_shares", "kernels_by_tile", "unlinked")
"""Statements of the library that the engine reads as they are."""


@pytest.fixture(scope="module", params=TRACES)
def graph(request: pytest.FixtureRequest, corpus: Path) -> TraceGraph:
    return TraceGraph(loaded(corpus / request.param))


def by_name(table: Table, *columns: str) -> dict[str, tuple[float, ...]]:
    found = {str(row[columns[0]]): tuple(row[name] or 0 for name in columns[1:]) for row in table.records()}
    return {name: tuple(round(value, 6) for value in values) for name, values in found.items() if name[0] != "("}


@pytest.mark.parametrize("name", OF_LIBRARY)
def test_statements_of_the_library(graph: TraceGraph, name: str) -> None:
    assert_same(graph.cypher(library()[name].text), QUESTIONS[name](graph))


def test_calls_of_the_runtime(graph: TraceGraph) -> None:
    found = graph.cypher(
        "MATCH (r:RuntimeCall) RETURN r.name AS name, count(*) AS calls, sum(r.dur_ns) / 1e3 AS host_us, "
        "sum(coalesce(r.gpu_events, 0)) AS gpu_events, sum(coalesce(r.gpu_sum_ns, 0)) / 1e3 AS gpu_us"
    )
    asked = by_name(graph.runtime_summary(), "name", "calls", "host_sum_us", "gpu_events", "gpu_sum_us")
    assert asked.items() <= by_name(found, "name", "calls", "host_us", "gpu_events", "gpu_us").items()


def test_gpu_time_charged_to_ops(graph: TraceGraph) -> None:
    found = graph.cypher("MATCH (k:GpuEvent)-[:CHARGED_TO]->(o:Op) RETURN o.name AS name, sum(k.dur_ns) / 1e3 AS us")
    asked = by_name(graph.attribution(level="op"), "name", "exclusive_sum_us")
    assert by_name(found, "name", "us") == {name: us for name, us in asked.items() if us != (0,)}


def test_copies(graph: TraceGraph) -> None:
    found = graph.cypher(
        "MATCH (m:Memcpy|Memset) RETURN count(*) AS n, sum(m.bytes) AS bytes, sum(m.dur_ns) / 1e3 AS us"
    ).records()[0]
    asked = graph.copies()
    assert found["n"] == sum(asked["count"])
    assert found["us"] == pytest.approx(sum(asked["gpu_time_us"]))


def test_paths_from_modules_and_functions(graph: TraceGraph) -> None:
    longest = sorted(graph.find("Op"), key=lambda op: (-op.gpu_time.sum, op.uid))[:20]
    found = graph.cypher(
        "MATCH (o:Op)-[:CALLS*0..]->(c)-[:LAUNCHES]->(k:GpuEvent) WHERE o.uid IN $uids "
        "RETURN o.uid AS name, count(k) AS n, sum(k.dur_ns) AS ns",
        uids=[op.uid for op in longest],
    )
    for row in found.records():
        below = [graph.node(uid) for uid in graph.subtree(row["name"])]
        kernels = [node for node in below if node.kind in GPU_KINDS]
        assert (row["n"], row["ns"]) == (len(kernels), sum(node.dur_ns for node in kernels))
