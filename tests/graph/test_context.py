"""Context and knowledge nodes: who they are, what they hold, and that equal knowledge is one node."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from handmade import small_trace
from hypothesis import given
from made_traces import traces

from tracelens_graph.graph.classes import class_rows
from tracelens_graph.graph.context import Context, build_context
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import CONTEXT_EDGES, CONTEXT_KINDS, GPU_KINDS, Kind

KNOWLEDGE = ("Signature", "KernelName", "SubtreeClass")


@pytest.fixture(scope="module")
def core() -> Core:
    return load_core(small_trace())


@pytest.fixture(scope="module")
def context(core: Core) -> Context:
    return build_context(core)


def targets(core: Core, context: Context, edge_type: str) -> dict[int, str]:
    """uid -> key of the context node that an edge of the type leads to."""
    keys = list(context.nodes)
    rows, numbers = context.from_events[edge_type]
    return {uid: keys[number] for uid, number in zip(core.columns.uid[rows].tolist(), numbers.tolist(), strict=True)}


def joined(context: Context, edge_type: str) -> set[tuple[str, str]]:
    keys = list(context.nodes)
    sources, ends = context.among[edge_type]
    return {(keys[a], keys[b]) for a, b in zip(sources.tolist(), ends.tolist(), strict=True)}


def test_places(core: Core, context: Context) -> None:
    trace = f"trace:{core.trace_id}"
    assert context.nodes["process:100"] == {"kind": "Process", "pid": 100, "name": "python"}
    assert context.nodes["thread:100:100"] == {"kind": "Thread", "pid": 100, "tid": 100, "number": 2, "name": "main"}
    assert context.nodes["stream:0:7"] == {"kind": "Stream", "device": 0, "stream": 7}
    assert context.nodes["device:0"] == {
        "kind": "Device", "device": 0, "name": "GPU of tests", "totalGlobalMem": 2**34, "numSms": 80,
    }  # fmt: skip
    assert context.nodes[trace]["rank"] == 3
    assert joined(context, "IN_PROCESS") == {
        ("thread:100:100", "process:100"),
        ("thread:100:200", "process:100"),
    }
    assert joined(context, "OF_DEVICE") == {("stream:0:7", "device:0"), ("stream:0:8", "device:0")}
    assert joined(context, "IN_TRACE") == {("process:100", trace), ("device:0", trace)}
    assert joined(context, "OF_RUN") == {(trace, f"run:{core.trace_id}")}
    assert targets(core, context, "ON_STREAM") == {9: "stream:0:7", 10: "stream:0:8", 13: "stream:0:7"}
    assert set(targets(core, context, "ON_THREAD").values()) == {"thread:100:100", "thread:100:200"}


def test_signature_holds_the_argument_set(core: Core, context: Context) -> None:
    key = targets(core, context, "HAS_SIGNATURE")[5]
    assert context.nodes[key] == {
        "kind": "Signature",
        "name": "aten::linear",
        "input_dims": "[[8,16],[32,16]]",
        "input_types": '["float","float"]',
    }


def test_class_tells_its_root(core: Core, context: Context) -> None:
    key = targets(core, context, "INSTANCE_OF")[4]
    node = context.nodes[key]
    assert (node["name"], node["root"]) == ("nn.Module: Linear", "Module")
    assert key.removeprefix("class:") == next(
        row["class"] for row in core.classes().records() if row["name"] == "nn.Module: Linear"
    )
    assert node["without_shapes"] in core.classes(shapes=False)["class"]


def test_knowledge_is_shared_by_traces(core: Core, context: Context) -> None:
    trace = small_trace()
    trace["traceEvents"].insert(3, trace["traceEvents"].pop(11))
    for event in trace["traceEvents"]:
        event["ts"] = event.get("ts", 0) + 5
    other = build_context(load_core(trace))
    for kind in KNOWLEDGE:
        ours = {key: node for key, node in context.nodes.items() if node["kind"] == kind}
        assert ours == {key: node for key, node in other.nodes.items() if node["kind"] == kind}
        assert ours


def allreduce(ts: float, correlation: int, **args: Any) -> dict[str, Any]:
    recorded = {
        "Collective name": "allreduce", "Process Group Name": "0", "Process Group Description": "default_pg",
        "Process Group Ranks": "[0, 1]", "Group size": 2, "dtype": "Float", "In msg nelems": 8, "Out msg nelems": 8,
    }  # fmt: skip
    at = {"pid": 0, "tid": 7, "ts": ts, "dur": 2, "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"}
    return {"ph": "X", "cat": "kernel", **at, "args": {**recorded, "correlation": correlation, **args}}


def test_collectives_and_their_group() -> None:
    core = load_core({"traceEvents": [allreduce(1, 5, Seq=3), allreduce(5, 6, Seq=4)]})
    context = build_context(core)
    members = targets(core, context, "MEMBER_OF")
    assert len(set(members.values())) == 2
    node = context.nodes[members[0]]
    assert (node["kind"], node["name"], node["sequence"], node["in_bytes"]) == ("Collective", "allreduce", 3, 32)
    ((_, group),) = {(None, pg) for _, pg in joined(context, "IN_GROUP")}
    assert context.nodes[group] == {
        "kind": "ProcessGroup", "name": "0", "description": "default_pg", "size": 2, "ranks": "[0, 1]",
    }  # fmt: skip


@given(trace=traces())
def test_edges_join_what_the_schema_says(trace: dict[str, Any]) -> None:
    core = load_core(trace)
    context = build_context(core)
    kinds = [node["kind"] for node in context.nodes.values()]
    assert set(kinds) <= set(CONTEXT_KINDS)
    ends = {edge.name: edge for edge in CONTEXT_EDGES}
    for name, (rows, numbers) in context.from_events.items():
        assert {kinds[number] for number in numbers.tolist()} <= {ends[name].target}
        if ends[name].source != "event":
            assert {Kind(kind).name for kind in core.columns.kind[rows].tolist()} <= set(ends[name].source.split("|"))
    for name, (sources, targets) in context.among.items():
        assert {kinds[number] for number in sources.tolist()} <= set(ends[name].source.split("|"))
        assert {kinds[number] for number in targets.tolist()} <= {ends[name].target}


@given(trace=traces())
def test_everyone_has_their_one_edge(trace: dict[str, Any]) -> None:
    core = load_core(trace)
    context, kind = build_context(core), core.columns.kind
    has = {name: Counter(rows.tolist()) for name, (rows, _) in context.from_events.items()}
    assert all(count == 1 for counter in has.values() for count in counter.values())
    assert set(has["HAS_SIGNATURE"]) == set(np.flatnonzero(kind == Kind.Op).tolist())
    assert set(has["NAMED"]) == set(np.flatnonzero(np.isin(kind, GPU_KINDS)).tolist())
    assert set(has["INSTANCE_OF"]) == set(class_rows(core).tolist())
    assert set(has["ON_THREAD"]).isdisjoint(has["ON_STREAM"])
    assert set(has["ON_THREAD"]) >= set(np.flatnonzero(kind <= Kind.RuntimeCall).tolist())
    # Every node but the trace's run and the trace itself is there because something leads to it.
    led_to = {int(n) for _, numbers in context.from_events.values() for n in numbers}
    led_to |= {int(n) for _, numbers in context.among.values() for n in numbers}
    alone = [node["kind"] for number, node in enumerate(context.nodes.values()) if number not in led_to]
    assert alone == [] or alone == ["Trace"]
