"""TraceToTree as its users know it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from handmade import small_trace

from corpus import chosen_traces, parametrize
from tracelens_graph import TraceToTree, load
from tracelens_graph.compat.event import TraceEvent
from tracelens_graph.loading.one import load_core

KEYS = [
    "UID",
    "args",
    "cat",
    "children",
    "cpu_op_root",
    "dur",
    "name",
    "parent",
    "ph",
    "pid",
    "t_end",
    "tid",
    "tree",
    "ts",
]


@pytest.fixture(scope="module")
def tree() -> TraceToTree:
    tree = TraceToTree(small_trace()["traceEvents"])
    tree.build_tree(add_python_func=True)
    return tree


def named(tree: TraceToTree, name: str) -> TraceEvent:
    (event,) = [event for event in tree.events if event["name"] == name]
    return event


def test_an_event_has_exactly_these_keys(tree: TraceToTree) -> None:
    assert all(list(event)[: len(KEYS)] == KEYS and len(event) == len(list(event)) for event in tree.events)
    further = {event["name"]: list(event)[len(KEYS) :] for event in tree.events if len(event) > len(KEYS)}
    above_gpu_work = ["train.py(3): step", "aten::linear", "aten::addmm", "cudaLaunchKernel", "cudaMemcpyAsync"]
    assert further == {name: ["gpu_events"] for name in above_gpu_work} | {
        "nn.Module: Linear_0": ["gpu_events", "nn_module_children", "GPU Time", "nn Parent GPU Time"]
    }
    assert named(tree, "aten::addmm")["gpu_events"] == [9, 10]
    assert tree.events[9].get("gpu_events", []) == []
    assert dict(named(tree, "aten::linear")) == {
        "gpu_events": [9, 10],
        "UID": 5,
        "args": {"External id": 1, "Input Dims": [[8, 16], [32, 16]], "Input type": ["float", "float"]},
        "cat": "cpu_op",
        "children": [6],
        "cpu_op_root": True,
        "dur": 400.0,
        "name": "aten::linear",
        "parent": 4,
        "ph": "X",
        "pid": 100,
        "t_end": 1430.0,
        "tid": 100,
        "tree": True,
        "ts": 1030.0,
    }


def test_events_are_read_only(tree: TraceToTree) -> None:
    with pytest.raises(TypeError):
        tree.events[0]["name"] = "other"  # type: ignore[index]
    with pytest.raises(KeyError):
        tree.events[0]["gpu_events"]


def test_outside_of_the_tree(tree: TraceToTree) -> None:
    step, instant, lone = (tree.get_UID2event(uid) for uid in (2, 14, 13))
    for event in (step, instant, lone):
        assert (event["tree"], event["parent"], event["children"], event["cpu_op_root"]) == (False, None, [], False)
    assert (instant["ph"], instant["dur"], instant["t_end"]) == ("i", None, None)


@pytest.mark.parametrize(
    "source",
    [
        lambda path: path,
        lambda path: str(path),
        lambda path: json.loads(path.read_text()),
        lambda path: json.loads(path.read_text())["traceEvents"],
        lambda path: load_core(path),
        lambda path: load(path),
    ],
    ids=["Path", "str", "dict", "list", "Core", "TraceGraph"],
)
def test_sources(source: Any, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(small_trace()))
    linear = TraceToTree(source(path)).get_UID2event(5)
    assert (linear["name"], linear["ts"]) == ("aten::linear", 1030.0)


def test_without_python_frames_calls_hang_under_ops() -> None:
    tree = TraceToTree(small_trace()["traceEvents"])
    tree.build_tree()
    linear, module = tree.get_UID2event(5), tree.get_UID2event(4)
    assert (linear["parent"], linear["children"]) == (None, [6])
    assert (module["tree"], module["parent"], module["children"]) == (False, None, [])
    assert tree.get_UID2event(9)["parent"] == 7
    tree.build_tree(add_python_func=True, link_fwd_bwd=False)
    assert tree.get_UID2event(5)["parent"] == 4


@pytest.mark.parametrize(
    ("ids", "uids"),
    [((2, 100, 100), [6, 7, 8]), ((2, 0, 7), [9]), ((2, 0, 8), [10]), ((1, 100, 100), [5]), ((2, 100, 200), [])],
)
def test_found_by_external_id(tree: TraceToTree, ids: tuple[int, int, int], uids: list[int]) -> None:
    found = tree.get_node_by_ext_id_pid_tid(*ids, all=True)
    assert [event["UID"] for event in found] == uids
    first = tree.get_node_by_ext_id_pid_tid(*ids)
    assert (first and first["UID"]) == (uids[0] if uids else None)


def test_the_op_comes_before_the_annotation_of_its_id(tree: TraceToTree) -> None:
    events = small_trace()["traceEvents"]
    events[2]["args"]["External id"] = 1  # the step starts first
    found = TraceToTree(events).get_node_by_ext_id_pid_tid(1, 100, 100, all=True)
    assert [event["cat"] for event in found] == ["cpu_op", "user_annotation"]


def test_relatives(tree: TraceToTree) -> None:
    addmm = named(tree, "aten::addmm")
    assert tree.get_parent_event(addmm) == named(tree, "aten::linear")
    assert [event["UID"] for event in tree.get_children_events(addmm)] == [7, 8] == addmm["children"]
    assert [event["UID"] for event in tree.get_gpu_events({"UID": 5})] == [9, 10]
    assert tree.get_parent_event(named(tree, "train.py(3): step")) is None
    assert tree.cpu_root_nodes == [12, 5, 11]
    assert list(tree.events_by_uid) == list(range(2, 15))
    assert tree.events_by_uid[6] == addmm
    assert len({addmm, tree.get_UID2event(6)}) == 1


def test_modules(tree: TraceToTree) -> None:
    assert tree.get_nn_module_children(named(tree, "train.py(3): step")) == [4]
    assert tree.get_nn_module_children(named(tree, "nn.Module: Linear_0")) == []
    assert tree.get_nn_module_parent(named(tree, "gemm")) == 4
    assert tree.get_nn_module_parent(named(tree, "nn.Module: Linear_0")) is None


def test_sequence_numbers_and_annotations(tree: TraceToTree) -> None:
    assert tree.get_seq_nums_for_node_subtree(5) == {4}
    assert tree.get_seq_nums_for_node_subtree(12) == set()
    assert tree.apply_annotation(["aten::"]) == {
        5: "ProfilerStep#5",
        6: "ProfilerStep#5",
        11: "ProfilerStep#5",
        12: "NA",  # another thread
    }


def test_print_subtree(tree: TraceToTree, capsys: pytest.CaptureFixture[str]) -> None:
    tree.traverse_and_print(named(tree, "nn.Module: Linear_0"))
    assert capsys.readouterr().out.splitlines() == [
        "└── Category: python_function, Name: nn.Module: Linear_0",
        "    ├── Category: cpu_op, Name: aten::linear",
        "    │   └── Category: cpu_op, Name: aten::addmm",
        "    │       ├── Category: cuda_runtime, Name: cudaLaunchKernel",
        "    │       │   └── Category: kernel, Name: gemm",
        "    │       └── Category: cuda_runtime, Name: cudaMemcpyAsync",
        "    │           └── Category: gpu_memcpy, Name: Memcpy DtoH",
        "    └── Category: cpu_op, Name: aten::empty",
    ]


def test_call_stack(tree: TraceToTree) -> None:
    gemm = named(tree, "gemm")
    whole = ["gemm", "cudaLaunchKernel", "aten::addmm", "aten::linear", "nn.Module: Linear_0", "train.py(3): step"]
    assert tree.traverse_parents_and_get_callstack(gemm) == whole
    assert tree.traverse_parents_and_get_callstack(gemm, filter=("nn.Module", ".py")) == [whole[0], *whole[4:]]


@parametrize("path", chosen_traces())
def test_events_are_those_of_the_file(path: Path) -> None:
    original = json.loads(gzip.decompress(path.read_bytes()), strict=False)["traceEvents"]
    tree = TraceToTree(path)
    for event in tree.events:
        for key in ("name", "cat", "ph", "pid", "tid", "ts", "dur"):
            assert event[key] == original[event["UID"]].get(key)
    for event in tree.events[:: max(len(tree.events) // 50, 1)]:
        assert event["args"] == original[event["UID"]].get("args", {})


@parametrize("path", chosen_traces())
def test_parents_and_children_agree(path: Path) -> None:
    tree = TraceToTree(path)
    for add_python_func in (False, True):
        tree.build_tree(add_python_func)
        pairs = {(child, event["UID"]) for event in tree.events for child in event["children"]}
        assert pairs == {(event["UID"], event["parent"]) for event in tree.events if event["parent"] is not None}
        assert all(tree.get_UID2event(uid)["tree"] for pair in pairs for uid in pair)
