"""GPU work of every kind leads to its op and back, or says why it does not."""

from __future__ import annotations

from typing import Any

import many_launches
import numpy as np
import pytest
from many_launches import BACKWARD, COPY, FILL, GRAPH, STEP

from tracelens_graph.errors import NodeNotFoundError
from tracelens_graph.graph.core import Core
from tracelens_graph.linkage import get_gpu_op_identifier, kernel_to_op_tracing, op_to_kernel_tracing
from tracelens_graph.linkage.tracing import WAYS
from tracelens_graph.linkage.validation import VERDICTS, Validation
from tracelens_graph.loading.one import load_core


@pytest.fixture(scope="module")
def linked() -> Core:
    return load_core(many_launches.kineto(), et=many_launches.execution_trace())


def back(core: Core, name: str) -> dict[str, Any]:
    (node,) = core.find("gpu", name)
    return kernel_to_op_tracing(get_gpu_op_identifier(node), core, core)


@pytest.mark.parametrize(
    ("name", "op", "way"),
    [
        ("Memcpy HtoD", COPY, "launch, and the op that it stands in"),
        ("Memset", FILL, "launch, and the op that it stands in"),
        ("first of graph", GRAPH, "launch, and the op that it stands in"),
        ("second of graph", GRAPH, "launch, and the op that it stands in"),
        ("fill of graph", GRAPH, "launch, and the op that it stands in"),
        ("launched in the range", STEP, "launch, and the range that the program marked around it"),
        ("backward", BACKWARD, "launch, and the op that it stands in"),
        ("known by its External id", FILL, "External id, as the trace has no launch"),
    ],
)
def test_leads_back(linked: Core, name: str, op: int, way: str) -> None:
    found = back(linked, name)
    assert (found["cpu_op_id"], found["way"]) == (op, way)
    assert (found["launch"] is None) == ("External id" in way)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("launched before the trace", "its launch is not in the trace"),
        ("launched by nobody", "launched outside of all ops of the execution trace"),
    ],
)
def test_leads_nowhere(linked: Core, name: str, why: str) -> None:
    with pytest.raises(NodeNotFoundError, match=rf"{name} \(event \d+\) leads to no op: {why}$"):
        back(linked, name)


def test_events_by_category(linked: Core) -> None:
    copy, fill, graph = (op_to_kernel_tracing(op, linked, linked) for op in (COPY, FILL, GRAPH))
    assert [event["bytes"] for event in copy["events"]["gpu_memcpy"]] == [4096]
    assert copy["timing"]["copy_us"] == copy["timing"]["gpu_us"] == 5
    assert [event["name"] for event in fill["events"]["gpu_memset"]] == ["Memset"]
    assert [event["name"] for event in graph["events"]["kernel"]] == ["first of graph", "second of graph"]
    assert [event["name"] for event in graph["events"]["gpu_memset"]] == ["fill of graph"]
    assert [event["name"] for event in graph["events"]["runtime"]] == ["cudaGraphLaunch", "cuGraphLaunch"]
    # the driver's call is part of the runtime's, so it takes no time of its own
    assert graph["timing"]["runtime_us"] == 30
    assert graph["timing"]["kernel_us"] == 20
    assert graph["timing"]["set_us"] == 1
    assert graph["timing"]["elapsed_us"] == 121


def test_a_range_has_the_gpu_work_of_its_thread(linked: Core) -> None:
    found = op_to_kernel_tracing(STEP, linked, linked)["events"]
    assert [event["cpu_op_id"] for event in found["cpu_op"]] == [STEP, COPY, FILL, GRAPH]
    assert [event["name"] for event in found["kernel"]] == [
        "first of graph", "second of graph", "launched in the range",
    ]  # fmt: skip


def test_nodes_without_an_event(linked: Core) -> None:
    with pytest.raises(NodeNotFoundError, match=r"has no event of node 9 \(aten::only_here\): 5 of 6 nodes have one"):
        op_to_kernel_tracing(9, linked, linked)


def test_validation_counts_all_of_it(linked: Core) -> None:
    assert linked.link is not None
    found = Validation(linked, linked.link)
    counts = {row["what"]: (row["count"], row["of"]) for row in found.counts.records()}
    assert counts == {
        "nodes": (6, 6), "linked": (5, 6), "events": (6, 6), "linked_events": (5, 6), "ops_with_gpu_work": (4, 4),
        "round_trip": (4, 4), "gpu_events": (10, 10), "traced_gpu_events": (8, 10),
    }  # fmt: skip
    ways = {
        (row["of"], row["way"]): (row["count"], row["leads"]) for row in found.ways.records() if row["of"] != "join"
    }
    assert ways == {
        ("op", VERDICTS[0]): (4, True),
        ("GPU event", WAYS[0]): (1, False),
        ("GPU event", WAYS[1]): (1, False),
        ("GPU event", WAYS[2]): (6, True),
        ("GPU event", WAYS[4]): (1, True),
        ("GPU event", WAYS[5]): (1, True),
    }
    assert found.by_name.records()[0] == {
        "name": "AddBackward0", "ops": 1, "linked": 1, "round_trip": 1, "gpu_events": 1, "gpu_time_us": 40.0,
        "cpu_op_id": BACKWARD, "uid": 10,
    }  # fmt: skip


def test_work_below_an_op_in_another_of_its_name_counts_once() -> None:
    times = many_launches.kineto()
    (inner,) = (event for event in times["traceEvents"] if event["name"] == "aten::zero_")
    outer = {**inner, "ts": inner["ts"] - 1, "dur": inner["dur"] + 1, "args": {}}
    core = load_core({**times, "traceEvents": [*times["traceEvents"], outer]}, et=many_launches.execution_trace())
    assert core.link is not None
    (row,) = (row for row in Validation(core, core.link).by_name.records() if row["name"] == "aten::zero_")
    assert (row["ops"], row["gpu_events"], row["gpu_time_us"]) == (2, 1, 2)


def test_an_op_without_a_node_does_not_round_trip() -> None:
    trace = many_launches.execution_trace()
    trace["nodes"] = [one for one in trace["nodes"] if one["id"] != FILL]
    core = load_core(many_launches.kineto(), et=trace)
    assert core.link is not None
    found = Validation(core, core.link)
    (row,) = core.find("Op", "aten::zero_")
    assert found.verdict[np.flatnonzero(found.ops == row.row)].tolist() == [1]
    (fill,) = core.find("gpu", "Memset")
    assert kernel_to_op_tracing(get_gpu_op_identifier(fill), core, core)["cpu_op_id"] == STEP


def test_a_kernel_that_leads_elsewhere_is_told() -> None:
    """In the execution trace the copy is not in the op around it."""
    trace, times = many_launches.execution_trace(), many_launches.kineto()
    times["traceEvents"][0] |= {"cat": "cpu_op"}
    nodes = {one["id"]: one for one in trace["nodes"]}
    nodes[STEP]["attrs"][3]["value"] = 0
    nodes[COPY]["ctrl_deps"] = 2
    core = load_core(times, et=trace)
    assert core.link is not None
    found = Validation(core, core.link)
    (step,) = core.find("Op", "step")
    assert VERDICTS[found.verdict[np.flatnonzero(found.ops == step.row)][0]] == VERDICTS[3]
    gpu = core.gpu_rows[(core.gpu_rows > step.row) & (core.gpu_rows <= core.columns.last[step.row])]
    assert (~found.leads_back(step.row, gpu)).sum() == 1


def test_a_shared_identifier_is_told() -> None:
    times = many_launches.kineto()
    times["traceEvents"].append(dict(times["traceEvents"][12], pid=1))
    core = load_core(times, et=many_launches.execution_trace())
    assert core.link is not None
    found = Validation(core, core.link)
    (copy,) = core.find("Op", "aten::copy_")
    assert VERDICTS[found.verdict[np.flatnonzero(found.ops == copy.row)][0]] == VERDICTS[2]
