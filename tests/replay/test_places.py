"""Where sequences are taken from: uids and names, and of several nodes the one with the most time."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import small_trace, span

from tracelens_graph.errors import AnalysisError, NodeNotFoundError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.places import place
from tracelens_graph.schema import Kind


def core(*events: dict[str, Any]) -> Core:
    return load_core({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": list(events)})


def launched(ts: float, dur: float, number: int, tid: int = 100) -> list[dict[str, Any]]:
    """An op, its launch and its kernel."""
    return [
        span("cpu_op", f"aten::op{number}", ts, 10, tid=tid),
        span("cuda_runtime", "cudaLaunchKernel", ts + 1, 2, tid=tid, correlation=number),
        span("kernel", f"kernel{number}", ts + 50, dur, 0, 7, device=0, stream=7, correlation=number),
    ]


def ops(g: Core, under: int | str) -> list[str]:
    found = place(g, under)
    return [g.names[g.columns.name[row]] for row in range(len(g.columns)) if found.holds[row] and _is_op(g, row)]


def _is_op(g: Core, row: int) -> bool:
    return bool(g.columns.kind[row] == Kind.Op)


@pytest.fixture
def two_modules() -> Core:
    return core(
        span("python_function", "nn.Module: Block_0", 0, 100), *launched(10, 5, 1),
        span("python_function", "nn.Module: Block_0", 200, 100), *launched(210, 30, 2), *launched(230, 1, 3),
        span("python_function", "nn.Module: Block_0", 400, 100), *launched(410, 20, 4),
    )  # fmt: skip


def test_of_several_modules_the_one_with_the_most_gpu_time_is_taken(two_modules: Core) -> None:
    found = place(two_modules, "Block_0")
    assert (found.name, found.others) == ("nn.Module: Block_0", 2)
    assert ops(two_modules, "nn.Module: Block_0") == ["aten::op2", "aten::op3"]


def test_a_uid_is_one_node(two_modules: Core) -> None:
    assert ops(two_modules, 0) == ["aten::op1"]
    assert place(two_modules, 0).others == 0
    assert ops(two_modules, 1) == ["aten::op1"]


def test_without_gpu_work_the_longest_is_taken() -> None:
    g = core(span("cpu_op", "aten::mm", 0, 10), span("cpu_op", "aten::mm", 20, 30), span("cpu_op", "aten::relu", 25, 5))
    assert place(g, "aten::mm").row == g.row(1)
    assert ops(g, "aten::mm") == ["aten::mm", "aten::relu"]


def test_an_annotation_holds_its_thread_and_a_step_its_process() -> None:
    g = core(
        span("user_annotation", "part", 0, 300), span("user_annotation", "ProfilerStep#1", 0, 300),
        *launched(10, 5, 1), *launched(100, 5, 2, tid=200),
        span("user_annotation", "part", 400, 100), *launched(410, 99, 3),
    )  # fmt: skip
    assert ops(g, "ProfilerStep#1") == ["aten::op1", "aten::op2"]
    assert ops(g, "part") == ["aten::op3"]
    assert ops(g, 0) == ["aten::op1"]


def test_errors_say_what_there_is() -> None:
    g = load_core(small_trace())
    with pytest.raises(AnalysisError, match=r"no module, function, op, annotation or step 'Linear_1'; did you mean Li"):
        place(g, "Linear_1")
    with pytest.raises(NodeNotFoundError):
        place(g, 1000)
    kernel = next(node for node in g.find("Kernel"))
    with pytest.raises(AnalysisError, match="is a Kernel, which nothing is below"):
        place(g, kernel.uid)
