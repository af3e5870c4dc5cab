"""py2neo's objects over what was pushed into a real server; what works, and what does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from handmade import small_trace

from tracelens_graph.db.connection import Connection
from tracelens_graph.db.database import Database
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import CONTEXT_KINDS, Kind

py2neo = pytest.importorskip("py2neo", reason="needs the extra py2neo")


@pytest.fixture(scope="module")
def core(neo4j: Connection) -> Core:
    found = load_core(json.dumps(small_trace() | {"trace_id": "ogm"}).encode())
    with Database(neo4j) as database:
        database.push(found, run="ogm", name="small")
    return found


@pytest.fixture(scope="module")
def graph(neo4j: Connection, core: Core) -> Iterator[Any]:
    auth = (neo4j.user, neo4j.password) if neo4j.password else None
    found = py2neo.Graph(neo4j.uri, auth=auth)
    yield found
    found.service.connector.close()


def test_there_is_a_class_for_every_label() -> None:
    from tracelens_graph import ogm

    for label in ("Event", *Kind.__members__, *CONTEXT_KINDS):
        assert getattr(ogm, label).__primarylabel__ == label
        assert label in ogm.__all__


def test_a_trace_and_what_it_is_of(graph: Any, core: Core) -> None:
    from tracelens_graph import ogm

    trace = ogm.Trace.match(graph).where(path="ogm/small").first()
    assert (trace.id, trace.state, trace.nodes) == (core.trace_id, "complete", len(core.columns))
    assert [run.name for run in trace.of_run] == ["ogm"]
    assert ogm.Op.match(graph).where(trace=trace.id).count() == len(core.find("Op"))


def test_from_a_kernel_to_its_op_and_callers(graph: Any, core: Core) -> None:
    from tracelens_graph import ogm

    kernels = core.find("Kernel")
    for node in kernels:
        kernel = ogm.Kernel.match(graph).where(trace=core.trace_id, uid=node.uid).first()
        assert (kernel.name, kernel.dur_ns, kernel.gpu_event) == (node.name, node.dur_ns, True)
        assert [op.uid for op in kernel.charged_to] == ([node.owner.uid] if node.owner else [])
        assert [call.uid for call in kernel.launches_of] == ([node.parent.uid] if node.parent else [])
        assert [name.name for name in kernel.named] == [node.name]
    longest = ogm.Kernel.match(graph).where(trace=core.trace_id).order_by("_.dur_ns DESC").first()
    assert longest.dur_ns == max(node.dur_ns for node in kernels)
    assert longest.hot


def test_a_subtree_as_a_subgraph(graph: Any, core: Core) -> None:
    from tracelens_graph import ogm

    root = max(core.roots(), key=lambda node: len(node.subtree))
    found = ogm.to_subgraph(graph, core.trace_id, root.uid)
    assert {node["uid"] for node in found.nodes} == {node.uid for node in root.subtree}
    below = {type(edge).__name__ for edge in found.relationships}
    assert {"CALLS", "LAUNCHES"} <= below
    calls = {(e.start_node["uid"], e.end_node["uid"]) for e in found.relationships if type(e).__name__ == "CALLS"}
    hosts = [
        node for node in root.subtree if node.kind in (Kind.Module, Kind.PythonFunction, Kind.Op, Kind.RuntimeCall)
    ]
    assert calls == {(node.parent.uid, node.uid) for node in hosts if node is not root and node.parent}


def test_an_object_can_be_changed(graph: Any, core: Core) -> None:
    from tracelens_graph import ogm

    process = ogm.Process.match(graph).where(trace=core.trace_id).first()
    before, process.labels = process.labels, "changed"
    graph.push(process)
    assert ogm.Process.match(graph).where(trace=core.trace_id, labels="changed").count() == 1
    process.labels = before
    graph.push(process)


def test_tables_come_as_frames(graph: Any, core: Core) -> None:
    query = "MATCH (k:GpuEvent {trace: $t}) RETURN k.uid AS uid, k.dur_ns AS dur_ns ORDER BY uid"
    frame = graph.run(query, t=core.trace_id).to_data_frame()
    c = core.columns
    assert dict(zip(frame["uid"], frame["dur_ns"], strict=True)) == {
        int(c.uid[row]): int(c.dur_ns[row]) for row in core.gpu_rows
    }


def test_what_py2neo_cannot_do(graph: Any) -> None:
    """The reasons why the official driver does the work; a surprise here is news for the documentation."""
    with pytest.raises(Exception, match="(?i)syntax|procedure|db.indexes"):
        graph.schema.get_indexes("Op")
    with pytest.raises(Exception, match="(?i)syntax|invalid"):
        graph.schema.create_uniqueness_constraint("OgmTest", "key")
