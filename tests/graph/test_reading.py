"""Finding nodes and reading what is around them; steps, annotations and edges."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus import kineto_traces, loaded, parametrize
from tracelens_graph.errors import AnalysisError, NodeNotFoundError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.edges import edge_rows
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import EVENT_EDGES, Kind

MAIN, WORKER, STREAM = (1, 1), (1, 2), (0, 7)


def event(cat: str, name: str, ts: float, dur: float, place: tuple[int, int] = MAIN, **args: Any) -> dict[str, Any]:
    return {
        "ph": "X", "cat": cat, "name": name, "pid": place[0], "tid": place[1], "ts": ts, "dur": dur, "args": args,
    }  # fmt: skip


EVENTS = [
    event("user_annotation", "ProfilerStep#1", 0, 100, **{"External id": 1}),  # 0
    event("user_annotation", "forward", 10, 50, **{"External id": 2}),  # 1
    event("python_function", "nn.Module: Net_0", 11, 45),  # 2
    event("python_function", "nn.Module: Linear_0", 12, 40),  # 3
    event("cpu_op", "aten::linear", 13, 30, **{"External id": 3}),  # 4
    event("cpu_op", "aten::addmm", 14, 20, **{"External id": 4}),  # 5
    event("cuda_runtime", "cudaLaunchKernel", 15, 5, correlation=21, **{"External id": 4}),  # 6
    event("kernel", "gemm", 30, 20, STREAM, correlation=21, device=0, stream=7, **{"External id": 4}),  # 7
    event("kernel", "epilogue", 45, 10, (0, 9), correlation=21, device=0, stream=9),  # 8
    event("cpu_op", "backward", 70, 20, WORKER, **{"External id": 5}),  # 9
    event("cuda_runtime", "cudaLaunchKernel", 71, 2, WORKER, correlation=22),  # 10
    event("kernel", "gemm", 110, 5, STREAM, correlation=22, device=0, stream=7),  # 11
    event("kernel", "early", 20, 5, STREAM, correlation=99, device=0, stream=7),  # 12
    event("gpu_user_annotation", "ProfilerStep#1", 15, 101, STREAM, **{"External id": 1}),  # 13
    event("gpu_user_annotation", "forward", 18, 40, STREAM, **{"External id": 2}),  # 14
    event("cuda_runtime", "cudaStreamSynchronize", 95, 20, correlation=23),  # 15
    event("cuda_sync", "Stream Synchronize", 96, 20, STREAM, correlation=23, device=0, stream=7),  # 16
    event("user_annotation", "ProfilerStep#2", 120, 10),  # 17
    event("cpu_op", "idle", 121, 1),  # 18
    event("cuda_runtime", "cudaGraphLaunch", 126, 1, correlation=24),  # 19
    event("kernel", "replayed", 128, 1, STREAM, correlation=24, device=0, stream=7),  # 20
    event("kernel", "replayed", 129, 1, STREAM, correlation=24, device=0, stream=7),  # 21
]


@pytest.fixture(scope="module")
def core() -> Core:
    return load_core(EVENTS)


def uids(nodes: Any) -> list[int]:
    return [node.uid for node in nodes]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ({"kind": "op"}, [4, 5, 18, 9]),
        ({"kind": Kind.Kernel, "name": "gemm"}, [7, 11]),
        ({"kind": ["memcpy", "SyncEvent"]}, [16]),
        ({"kind": "gpu"}, [7, 8, 20, 21, 11, 12]),
        ({"name": re.compile("^aten::")}, [4, 5]),
        ({"pattern": "Linear|Net"}, [2, 3]),
        ({"name": "/Linear|Net/"}, [2, 3]),
        ({"kind": "op", "name": "/linear$/"}, [4]),
        ({"external_id": 4}, [5, 6, 7]),
        ({"external_id": 4, "pid": 1, "tid": 1}, [5, 6]),
        ({"external_id": 4, "pid": 0, "tid": 7}, [7]),
        ({"kind": "gpu", "tid": 9}, [8]),
        ({"kind": "op", "tid": "2"}, [9]),
        ({"kind": "op", "after_ns": 75_000}, [18, 9]),
        ({"kind": "op", "before_ns": 14_000}, [4]),
        ({"kind": "op", "after_ns": 40_000, "before_ns": 50_000}, [4]),
        ({"name": "no such thing"}, []),
        ({"name": "aten::linear", "pattern": "^aten::"}, [4]),
        ({"name": "aten::linear", "pattern": "addmm"}, []),
    ],
)
def test_finding(core: Core, question: dict[str, Any], answer: list[int]) -> None:
    assert uids(core.find(**question)) == answer


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ({"kind": "op", "name": "aten::lineer"}, "did you mean aten::linear"),
        ({"name": "LINEAR"}, "did you mean"),
        ({"name": "no such thing"}, "Kernel"),
        ({"name": "/no such thing/"}, "/no such thing/"),
        ({"kind": "MemoryEvent"}, "Kernel"),
        ({"name": "gemm", "tid": 999}, "2 do not"),
    ],
)
def test_finding_nothing_has_a_reason(core: Core, question: dict[str, Any], why: str) -> None:
    found = core.find(**question)
    assert found == []
    assert why in found.why
    assert found.why in repr(found)


def test_expressions_that_are_none_are_refused(core: Core) -> None:
    for question in ({"name": "/(/"}, {"pattern": "("}):
        with pytest.raises(AnalysisError, match="no regular expression"):
            core.find(**question)


def test_unknown_kinds_and_uids_are_said(core: Core) -> None:
    with pytest.raises(NodeNotFoundError, match=r"did you mean find\(None, '/mm/'\)"):
        core.find("/mm/")
    with pytest.raises(NodeNotFoundError, match="no kind of node is called 'kernle'; did you mean kernel"):
        core.find("kernle")
    with pytest.raises(NodeNotFoundError, match="no node has uid 999"):
        core.node(999)
    with pytest.raises(KeyError):
        core.node(-1)


def test_around_a_kernel(core: Core) -> None:
    kernel = core.node(7)
    assert kernel.parent == core.node(6)
    assert uids(kernel.ancestors) == [6, 5, 4, 3, 2]
    assert uids(core.node(6).children) == [7, 8]
    assert uids(core.node(5).children) == [6]
    assert uids(core.node(3).subtree) == [3, 4, 5, 6, 7, 8]
    assert uids(core.node(2).kernels) == [7, 8]
    assert kernel.launcher == kernel.owner == core.node(5)
    assert core.node(4).launcher is None
    assert kernel.module_path == "Net_0/Linear_0"
    assert uids(kernel.modules) == [2, 3]
    assert kernel.depth == 5
    assert core.node(2).gpu_time == (30_000, 25_000)
    assert core.node(7).gpu_time == (20_000, 20_000)
    assert core.node(18).gpu_time == (0, 0)


def test_a_graph_launch_without_an_op_has_many_kernels(core: Core) -> None:
    assert uids(core.node(19).children) == [20, 21]
    assert core.node(20).owner is None
    assert core.node(20).launcher == core.node(19)
    assert core.node(20).attributes()["owner_rule"] == "no_op"


def test_steps_reach_every_thread_and_the_device(core: Core) -> None:
    steps = {uid: (node.step.uid if (node := core.node(uid)).step else None) for uid in range(22)}
    assert steps == {
        **dict.fromkeys(range(17), 0), 17: 17, 18: 17, 19: 17, 20: 17, 21: 17, 13: None, 14: None, 16: None,
    }  # fmt: skip
    assert uids(core.steps()) == [0, 17]


def test_annotations_are_innermost_and_of_the_own_thread(core: Core) -> None:
    found = {uid: (node.annotation.uid if (node := core.node(uid)).annotation else None) for uid in range(22)}
    assert [found[uid] for uid in (4, 7, 8)] == [1, 1, 1]
    assert found[12] == 1, "by the device annotation over it, for want of a launch"
    assert found[9] is None, "another thread"
    assert found[1] == 0, "the annotation around it"
    assert found[0] is None
    assert found[18] == 17


def test_nodes_show_themselves(core: Core) -> None:
    node = core.node(7)
    assert repr(node) == "<Kernel 7: 'gemm' at 30.000 us for 20.000 us>"
    assert "gemm" in node._repr_html_()
    assert node.attributes() == {
        "kind": "Kernel", "name": "gemm", "pid": 0, "tid": 7, "uid": 7, "start_ns": 30_000, "dur_ns": 20_000,
        "external_id": 4, "correlation": 21, "device": 0, "stream": 7, "depth": 5, "owner_rule": "nearest_op",
    }  # fmt: skip
    assert node.event == EVENTS[7]
    assert len({core.node(7), core.node(7), core.node(8)}) == 2
    hostile = load_core([event("cpu_op", "<script>alert(1)</script>", 0, 1)]).node(0)
    assert "<script>" not in hostile._repr_html_()


def test_modules_of_old_traces_come_from_the_module_hierarchy() -> None:
    core = load_core(
        [
            event("cpu_op", "aten::conv2d", 0, 9, **{"Module Hierarchy": "Net.conv1"}),
            event("cuda_runtime", "cudaLaunchKernel", 1, 1, correlation=1),
            event("kernel", "conv", 5, 1, STREAM, correlation=1),
        ]
    )
    assert core.node(2).module_path == core.node(0).module_path == "Net.conv1"


def edges(core: Core, name: str) -> set[tuple[int, int]]:
    source, target = edge_rows(core, name)
    return set(zip(core.columns.uid[source].tolist(), core.columns.uid[target].tolist(), strict=True))


def test_edges(core: Core) -> None:
    assert edges(core, "CALLS") == {(2, 3), (3, 4), (4, 5), (5, 6), (9, 10)}
    assert edges(core, "LAUNCHES") == {(6, 7), (6, 8), (10, 11), (19, 20), (19, 21)}
    assert edges(core, "CHARGED_TO") == {(7, 5), (8, 5), (11, 9)}
    assert edges(core, "NEXT_ON_STREAM") == {(12, 7), (7, 11), (11, 20), (20, 21)}
    assert edges(core, "SYNCS") == {(15, 16)}
    assert {(7, 1), (1, 0), (18, 17)} <= edges(core, "DURING")
    with pytest.raises(KeyError):
        edge_rows(core, "LIKES")


@parametrize("path", kineto_traces())
def test_edges_of_real_traces_are_unique_and_of_the_declared_kinds(path: Path) -> None:
    core = loaded(path)
    names = [kind.name for kind in Kind]
    for edge in EVENT_EDGES:
        source, target = edge_rows(core, edge.name)
        assert len(np.unique(source * len(core.columns) + target)) == len(source)
        for rows, kinds in ((source, edge.source), (target, edge.target)):
            found = {names[kind] for kind in np.unique(core.columns.kind[rows]).tolist()}
            assert kinds == "event" or found <= set(kinds.split("|")), edge.name


@parametrize("path", kineto_traces())
def test_busy_time_of_subtrees_equals_a_union_made_one_by_one(path: Path) -> None:
    core = loaded(path)
    c = core.columns
    rows = np.random.default_rng(0).choice(len(c), min(40, len(c)), replace=False)
    for row, busy in zip(rows.tolist(), core.gpu_busy_ns(rows).tolist(), strict=True):
        events = sorted((node.start_ns, node.end_ns) for node in core.nodes_at([row])[0].kernels)
        reach = length = 0
        for start, end in events:
            length += max(0, end - max(start, reach))
            reach = max(reach, end)
        assert busy == length
