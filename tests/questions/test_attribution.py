"""To what GPU time is charged: known answers of a small trace, and queries that say the same as their twins."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import HOSTILE, small_trace, span
from hypothesis import given
from made_traces import traces
from profiles import examples
from same_tables import assert_same, twins

from corpus import loaded, parametrize, traces_named
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.errors import AnalysisError, NodeNotFoundError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate
from tracelens_graph.tables.table import Table

QUERIES = twins(
    "forward_backward gpu_time_under kernel_summary launch_delay modules ops_summary ops_summary_by_category "
    "ops_unique_args programs python_lines runtime_summary unified_perf_summary unlaunched_gpu_time"
)

Ask = Callable[..., tuple[Table, Table]]

LINEAR = {"Input_Dims": [[8, 16], [32, 16]], "Input_type": ["float", "float"]}
ELEMENTWISE = "void at::native::elementwise_kernel<4>(int)"


def nested_trace() -> dict[str, Any]:
    """Two steps. In the first a layer of ops three deep, whose kernels overlap, its backward pass on a thread of its
    own, a graph launched outside of ops, communication, and a kernel that was launched before recording.
    """

    def launch(ts: float, correlation: int, name: str = "cudaLaunchKernel", tid: int = 100) -> dict[str, Any]:
        return span("cuda_runtime", name, ts, 5.0, tid=tid, correlation=correlation)

    def kernel(name: str, ts: float, dur: float, stream: int, **args: Any) -> dict[str, Any]:
        return span("kernel", name, ts, dur, 0, stream, device=0, stream=stream, **args)

    backward = {"Sequence_number": 1, "Fwd_thread_id": 1, "tid": 200}
    return {
        "schemaVersion": 1,
        "traceEvents": [
            span("user_annotation", "ProfilerStep#1", 0.0, 1000.0),
            span("user_annotation", "ProfilerStep#2", 1000.0, 1000.0),
            span("python_function", "train.py(7): step", 0.0, 900.0),
            span("python_function", "nn.Module: Net_0", 10.0, 790.0),
            span("python_function", "model.py(3): forward", 20.0, 680.0),
            span("python_function", "nn.Module: Linear_0", 30.0, 370.0),
            span("python_function", "torch/nn/functional.py(9): linear", 35.0, 355.0),
            span("cpu_op", "aten::linear", 40.0, 340.0, **LINEAR),
            span("cpu_op", "aten::addmm", 50.0, 300.0, Sequence_number=1),
            span("cpu_op", "aten::mm", 60.0, 240.0, Input_Dims=[[8, 16], [16, 32]], Input_type=["float", "float"]),
            launch(70.0, 1),
            launch(80.0, 2),
            launch(310.0, 3),
            span("cpu_op", "aten::relu", 500.0, 50.0, Sequence_number=2),
            launch(510.0, 4),
            span("cpu_op", "nccl:all_reduce", 600.0, 50.0),
            launch(610.0, 6),
            launch(720.0, 5, "cudaGraphLaunch"),
            span("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 810.0, 80.0, **backward),
            span("cpu_op", "AddmmBackward0", 820.0, 60.0, **backward),
            span("cpu_op", "aten::mm", 830.0, 30.0, tid=200),
            launch(840.0, 7, tid=200),
            span("cpu_op", HOSTILE, 1100.0, 50.0),
            launch(1110.0, 8),
            kernel("gemm", 100.0, 50.0, 7, correlation=1),
            kernel("gemm", 140.0, 20.0, 8, correlation=2),
            kernel("bias", 320.0, 10.0, 7, correlation=3),
            kernel(ELEMENTWISE, 520.0, 10.0, 7, correlation=4),
            kernel("ncclDevKernel_AllReduce", 660.0, 30.0, 9, correlation=6),
            kernel("graph_a", 740.0, 10.0, 7, correlation=5),
            kernel(ELEMENTWISE, 745.0, 20.0, 8, correlation=5),
            kernel("gemm", 870.0, 40.0, 7, correlation=7),
            span("gpu_memcpy", "Memcpy DtoH", 1150.0, 5.0, 0, 7, device=0, stream=7, correlation=8, bytes=64),
            kernel(HOSTILE, 1.0, 30.0, 7, correlation=99),
        ],
    }  # fmt: skip


@cache
def nested() -> Core:
    return load_core(nested_trace())


@cache
def simulated(recompute: str) -> Core:
    return load_core(simulate(steps=2, layers=2, seed=5, recompute=recompute, unlaunched=3).ranks[0].trace)


def rows(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    return list(zip(*(list(np.asarray(table[name], object)) for name in columns), strict=True))


def answer(name: str, *columns: str, **parameters: Any) -> list[tuple[Any, ...]]:
    return rows(QUESTIONS[name](nested(), **parameters), *columns)


# --- known answers -----------------------------------------------------------------------------------------------


def test_time_of_an_op_is_the_union_of_its_events_and_nested_ops_share_none() -> None:
    found = answer("ops_summary", "name", "total_direct_kernel_time_ms", "total_subtree_kernel_time_ms", "Count")
    assert found == [
        ("aten::mm", 0.1, 0.1, 2),
        ("nccl:all_reduce", 0.03, 0.03, 1),
        ("cudaGraphLaunch", 0.025, 0.025, 1),
        ("aten::addmm", 0.01, 0.07, 1),
        ("aten::relu", 0.01, 0.01, 1),
        (HOSTILE, 0.005, 0.005, 1),
        ("(no launch in trace)", 0.03, 0.03, 1),
    ]


def test_categories_of_calls() -> None:
    found = answer("ops_summary_by_category", "op category", "Count", "total_direct_kernel_time_ms")
    assert found == [("GEMM", 3, 0.11), ("other", 3, 0.06), ("elementwise", 1, 0.01), ("unlinked", 1, 0.03)]


def test_calls_are_told_apart_by_their_arguments() -> None:
    found = answer("ops_unique_args", "name", "Input Dims", "operation_count", "total_direct_kernel_time_sum")
    assert ("aten::mm", [[8, 16], [16, 32]], 1, 60.0) in found
    assert ("aten::mm", None, 1, 40.0) in found


def test_kernels_by_op() -> None:
    found = answer("kernel_summary", "Parent op category", "Parent cpu_op", "Kernel name", "Kernel duration (µs)_sum")
    assert ("graph", "cudaGraphLaunch", "graph_a", 10.0) in found
    assert ("GEMM", "aten::mm", "gemm", 90.0) in found
    assert ("unlinked", "(no launch in trace)", HOSTILE, 30.0) in found
    assert sum(time for *_, time in found) == 220.0


def test_every_event_is_in_one_row_of_the_unified_table() -> None:
    found = answer("unified_perf_summary", "name", "op category", "Kernel Time (µs)_sum", "GFLOPS", "has_perf_model")
    assert found == [
        ("aten::mm", "GEMM", 60.0, 2 * 8 * 16 * 32 / 1e9, True),
        ("aten::mm", "GEMM", 40.0, None, False),
        (f"cudaGraphLaunch->{ELEMENTWISE} (Synthetic Op)", "elementwise", 20.0, None, False),
        ("aten::relu", "elementwise", 10.0, None, False),
        ("aten::addmm->bias (Synthetic Op)", "GEMM", 10.0, None, False),
        ("cudaGraphLaunch->graph_a (Synthetic Op)", "other", 10.0, None, False),
        (HOSTILE, "other", 5.0, None, False),
        ("(communication)", None, 30.0, None, False),
        ("(no launch in trace)", None, 30.0, None, False),
    ]


def test_runtime_calls() -> None:
    found = answer("runtime_summary", "name", "calls", "gpu_events", "gpu_sum_us", "delay_max_us")
    assert found[0] == ("cudaLaunchKernel", 7, 7, 165.0, 60.0)
    assert found[1] == ("cudaGraphLaunch", 1, 2, 30.0, 20.0)


def test_modules_hold_forward_and_backward_work() -> None:
    columns = ("module_path", "class", "calls", "forward_us", "backward_us", "own_us", "uid")
    assert answer("modules", *columns) == [
        ("Net_0", "Net", 1, 150.0, 40.0, 70.0, 3),
        ("Net_0/Linear_0", "Linear", 1, 80.0, 40.0, 120.0, 5),
        ("Non-nn.Module GPU Ops", "Non-nn.Module GPU Ops", 0, 5.0, 0.0, 5.0, None),
        ("(no launch in trace)", "(no launch in trace)", 0, 30.0, 0.0, 30.0, None),
    ]


def test_one_step_down_from_a_node() -> None:
    columns = ("kind", "name", "nodes", "gpu_events", "gpu_sum_us", "gpu_busy_us", "uid")
    assert answer("gpu_time_under", *columns, under="aten::mm") == [
        ("RuntimeCall", "cudaLaunchKernel", 3, 3, 110.0, 100.0, 10),
    ]
    assert answer("gpu_time_under", *columns, under=8) == [
        ("Op", "aten::mm", 1, 2, 70.0, 60.0, 9),
        ("RuntimeCall", "cudaLaunchKernel", 1, 1, 10.0, 10.0, 12),
    ]
    assert answer("gpu_time_under", "name", under="Net_0") == [("model.py(3): forward",), ("cudaGraphLaunch",)]
    assert answer("gpu_time_under", *columns, under=24) == []
    roots = answer("gpu_time_under", "name", "gpu_sum_us", "percent")
    assert roots[0] == ("train.py(7): step", 150.0, pytest.approx(100 * 150 / 225))
    assert sum(time for _, time, _ in roots) == 225.0


def test_of_calls_of_one_name_inside_each_other_the_outermost_counts() -> None:
    launch = span("cuda_runtime", "cudaLaunchKernel", 30.0, 1.0, correlation=1)
    kernel = span("kernel", "k", 50.0, 10.0, 0, 7, device=0, stream=7, correlation=1)
    calls = [span("cpu_op", "again", 10.0, 80.0), span("cpu_op", "again", 20.0, 60.0)]
    found = QUESTIONS["gpu_time_under"](load_core([*calls, launch, kernel]), under="again")
    assert rows(found, "kind", "name", "gpu_sum_us") == [("Op", "again", 10.0)]


def test_lines_of_python() -> None:
    columns = ("name", "frames", "gpu_events", "gpu_sum_us", "gpu_busy_us", "uid")
    assert answer("python_lines", *columns) == [
        ("torch/nn/functional.py(9): linear", 1, 3, 80.0, 70.0, 6),
        ("(no line of Python)", 0, 2, 45.0, 45.0, None),
        ("model.py(3): forward", 1, 2, 40.0, 40.0, 4),
        ("train.py(7): step", 1, 2, 30.0, 25.0, 2),
        ("(no launch in trace)", 0, 1, 30.0, 30.0, None),
    ]
    assert answer("python_lines", *columns, without="torch/")[0] == ("model.py(3): forward", 1, 5, 120.0, 110.0, 4)


def test_delay_of_launches() -> None:
    columns = ("name", "launches", "delay_mean_us", "delay_max_us", "after_max_us", "longest_uid")
    found = answer("launch_delay", *columns)
    assert ("aten::mm", 3, 40.0, 60.0, 55.0, 11) in found
    assert ("(no op)", 1, 20.0, 20.0, 15.0, 17) in found
    assert {name for name, *_ in answer("launch_delay", *columns, by="call")} == {"cudaLaunchKernel", "cudaGraphLaunch"}


def test_forward_against_backward() -> None:
    columns = ("name", "forward_calls", "forward_us", "backward_calls", "backward_us", "ratio", "uid")
    assert answer("forward_backward", *columns) == [("aten::addmm", 1, 80.0, 1, 40.0, 0.5, 8)]


def test_recomputed_work_is_no_backward_work_of_the_op_that_it_runs_in(ask: Ask) -> None:
    where = {"tid": 200}
    again = [
        span("python_function", "torch/utils/checkpoint.py(1500): recompute_fn", 862.0, 16.0, **where),
        span("cpu_op", "aten::add_", 864.0, 12.0, **where),
        span("cuda_runtime", "cudaLaunchKernel", 866.0, 5.0, **where, correlation=20),
        span("kernel", "counts batches", 920.0, 7.0, 0, 7, device=0, stream=7, correlation=20),
    ]
    g = load_core({"schemaVersion": 1, "traceEvents": nested_trace()["traceEvents"] + again})
    asked, twin = ask(g, "forward_backward")
    assert_same(asked, twin)
    assert rows(twin, "name", "forward_us", "recomputed_us", "backward_us") == [("aten::addmm", 80.0, 0.0, 40.0)]


def test_recomputed_work_is_told_from_the_forward_pass() -> None:
    table = QUESTIONS["forward_backward"](simulated("non_reentrant"))
    again = dict(rows(table, "name", "recomputed_us"))
    assert again["aten::addmm"] > 0
    assert sum(np.asarray(table["percent"])) < 100


def test_work_without_a_launch() -> None:
    columns = ("kind", "name", "gpu_events", "gpu_sum_us", "early_events", "first_start_ms", "uid")
    assert answer("unlaunched_gpu_time", *columns) == [("Kernel", HOSTILE, 1, 30.0, 1, 0.001, 33)]


def test_a_step() -> None:
    assert answer("ops_summary", "name", step=2) == [(HOSTILE,)]
    assert answer("forward_backward", "name", step=2) == []
    with pytest.raises(AnalysisError, match="no step 9"):
        QUESTIONS["modules"](nested(), step=9)


def test_what_cannot_be_answered() -> None:
    with pytest.raises(AnalysisError, match="by='kernel': op or call is wanted"):
        QUESTIONS["launch_delay"](nested(), by="kernel")
    with pytest.raises(NodeNotFoundError):
        QUESTIONS["gpu_time_under"](nested(), under=10_000)
    with pytest.raises(AnalysisError):
        QUESTIONS["unified_perf_summary"](nested(), step=9)


# --- what adds up ------------------------------------------------------------------------------------------------


@given(traces())
def test_every_gpu_event_counts_once(trace: dict[str, Any]) -> None:
    g = load_core(trace)
    total = int(g.columns.dur_ns[g.gpu_rows].sum()) / 1e3
    for name, column in (("modules", "own_us"), ("gpu_time_under", "gpu_sum_us"), ("python_lines", "gpu_sum_us")):
        assert float(np.sum(QUESTIONS[name](g)[column])) == pytest.approx(total)
    events = QUESTIONS["runtime_summary"](g)["gpu_events"]
    assert int(np.sum(events)) == len(g.gpu_rows)
    lone = QUESTIONS["unlaunched_gpu_time"](g)
    assert int(np.sum(lone["gpu_events"])) == int((g.columns.parent[g.gpu_rows] < 0).sum())
    by_op, by_call = (int(np.sum(QUESTIONS["launch_delay"](g, by=by)["launches"])) for by in ("op", "call"))
    assert by_op == by_call
    assert float(np.sum(QUESTIONS["forward_backward"](g)["percent"])) <= 100.000001


# --- queries -----------------------------------------------------------------------------------------------------


def test_each_query_has_a_twin_with_its_columns() -> None:
    for name, question in QUERIES.items():
        assert question.query
        assert set(question.query.columns) <= set(QUESTIONS[name](nested()).columns)


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("step", [None, 1, 2])
def test_query_on_nested_ops(ask: Ask, name: str, step: int | None) -> None:
    assert_same(*ask(nested(), name, step=step))


@pytest.mark.parametrize("name", QUERIES)
def test_query_on_the_small_trace(ask: Ask, name: str) -> None:
    assert_same(*ask(load_core(small_trace()), name))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gpu_time_under", {"under": "aten::mm"}),
        ("gpu_time_under", {"under": "Net_0"}),
        ("gpu_time_under", {"under": 8}),
        ("gpu_time_under", {"under": "nobody"}),
        ("gpu_time_under", {"under": HOSTILE, "step": 2}),
        ("python_lines", {"without": "torch/"}),
        ("python_lines", {"without": "train.py", "step": 1}),
        ("launch_delay", {"by": "call"}),
    ],
)
def test_query_with_parameters(ask: Ask, name: str, parameters: dict[str, Any]) -> None:
    assert_same(*ask(nested(), name, **parameters))


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("recompute", ["none", "non_reentrant", "reentrant"])
def test_query_on_a_simulated_training_run(ask: Ask, name: str, recompute: str) -> None:
    g = simulated(recompute)
    assert_same(*ask(g, name))
    assert_same(*ask(g, name, step=int(g.steps()[-1].name.partition("#")[2])))


@pytest.mark.parametrize("name", QUERIES)
@parametrize(
    "path",
    traces_named(
        "tracelens/h100/bert-small",
        "tracelens/mi210/gpu-only",
        "tracelens/mi300/torch-compile-triton",
        "tracelens/inference/sglang-decode/graph-replay",
        "hta/backward-thread",
    ),
)
def test_query_on_a_real_trace(ask: Ask, name: str, path: Path) -> None:
    assert_same(*ask(loaded(path), name))


@examples(4)
@given(trace=traces())
def test_query_on_any_trace(ask: Ask, trace: dict[str, Any]) -> None:
    g = load_core(trace)
    for name in QUERIES:
        assert_same(*ask(g, name))
