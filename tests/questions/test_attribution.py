"""To what GPU time is charged: known answers of a small trace, and queries that say the same as their twins."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from handmade import HOSTILE, small_trace, span
from hypothesis import given
from made_traces import traces
from profiles import examples
from same_tables import Ask, assert_same, twins, with_queries

from corpus import traces_named
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.errors import AnalysisError, NodeNotFoundError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate
from tracelens_graph.tables.table import Table

QUERIES = with_queries(
    "forward_backward gpu_time_under kernel_sequences kernel_summary launch_delay modules modules_of_signature "
    "ops_summary ops_summary_by_category ops_unique_args programs python_lines queue_length queues runtime_summary "
    "unified_perf_summary unlaunched_gpu_time"
)

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


def beside_trace() -> list[dict[str, Any]]:
    """A module whose op calls itself, both launching; the engine launches beside the backward op that it runs."""

    def launched(number: int, ts: float, dur: float, tid: int = 100) -> list[dict[str, Any]]:
        kernel = span("kernel", f"k{number}", 100.0 * number, dur, 0, 7, device=0, stream=7, correlation=number)
        return [span("cuda_runtime", "cudaLaunchKernel", ts, 1.0, tid=tid, correlation=number), kernel]

    backward = {"Sequence_number": 1, "Fwd_thread_id": 1, "tid": 200}
    return [
        span("python_function", "nn.Module: Linear_0", 0.0, 50.0),
        span("cpu_op", "aten::div", 10.0, 30.0, Sequence_number=1, **LINEAR), *launched(1, 11.0, 8.0),
        span("cpu_op", "aten::div", 15.0, 20.0, Sequence_number=1, **LINEAR), *launched(2, 16.0, 4.0),
        span("cpu_op", "autograd::engine::evaluate_function: DivBackward0", 60.0, 30.0, **backward),
        span("cpu_op", "DivBackward0", 61.0, 10.0, **backward), *launched(3, 62.0, 2.0, 200),
        span("cpu_op", "aten::sum", 75.0, 10.0, tid=200), *launched(4, 76.0, 1.0, 200),
    ]  # fmt: skip


@cache
def simulated(recompute: str) -> Core:
    return load_core(simulate(steps=2, layers=2, seed=5, recompute=recompute, unlaunched=3).ranks[0].trace)


def rows(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    return list(zip(*(list(np.asarray(table[name], object)) for name in columns), strict=True))


def answer(name: str, *columns: str, **parameters: Any) -> list[tuple[Any, ...]]:
    return rows(QUESTIONS[name](nested(), **parameters), *columns)


# --- known answers -----------------------------------------------------------------------------------------------


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
        ("model.py(3): forward", 1, 6, 160.0, 150.0, 4),
        ("train.py(7): step", 1, 2, 30.0, 25.0, 2),
        ("(no launch in trace)", 0, 1, 30.0, 30.0, None),
        ("(no line of Python)", 0, 1, 5.0, 5.0, None),
    ]
    assert answer("python_lines", *columns, without="model")[0][0] == "train.py(7): step"
    assert rows(QUESTIONS["python_lines"](nested().everything.with_all_frames()), *columns)[0] == (
        "torch/nn/functional.py(9): linear", 1, 4, 120.0, 110.0, 6,
    )  # fmt: skip


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


def test_work_beside_a_backward_op_is_work_of_its_forward_op() -> None:
    core = load_core(beside_trace())
    (row,) = QUESTIONS["forward_backward"](core).records()
    assert (row["name"], row["forward_us"], row["backward_calls"], row["backward_us"]) == ("aten::div", 4.0, 1, 3.0)
    (row,) = QUESTIONS["modules"](core).records()
    assert (row["module"], row["forward_us"], row["backward_us"]) == ("Linear_0", 12.0, 3.0)
    (row,) = QUESTIONS["modules_of_signature"](core, op="aten::sum").records()
    assert (row["module"], row["backward"], row["gpu_time_us"]) == ("nn.Module: Linear_0", True, 1.0)


def test_work_without_a_launch() -> None:
    columns = ("kind", "name", "gpu_events", "gpu_sum_us", "early_events", "first_start_ms", "uid")
    assert answer("unlaunched_gpu_time", *columns) == [("Kernel", HOSTILE, 1, 30.0, 1, 0.001, 33)]


def test_a_step() -> None:
    assert answer("ops_summary", "name", step=2) == [(HOSTILE,)]
    assert answer("forward_backward", "name", step=2) == []


def test_what_cannot_be_answered() -> None:
    with pytest.raises(AnalysisError, match="by='kernel': op or call is wanted"):
        QUESTIONS["launch_delay"](nested(), by="kernel")
    with pytest.raises(NodeNotFoundError):
        QUESTIONS["gpu_time_under"](nested(), under=10_000)


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


test_the_database_says_the_same, test_the_database_says_the_same_of_real_traces = twins(
    QUERIES,
    {
        "nested": nested,
        "hostile": lambda: load_core(small_trace()),
        "beside": lambda: load_core(beside_trace()),
        **{recompute: partial(simulated, recompute) for recompute in ("none", "non_reentrant", "reentrant")},
    },
    also=[
        *(("nested", name, {"step": step}) for name in QUERIES for step in (1, 2)),
        *((trace, name, {"step": 4}) for name in QUERIES for trace in ("none", "non_reentrant", "reentrant")),
        ("nested", "gpu_time_under", {"under": "aten::mm"}),
        ("nested", "gpu_time_under", {"under": "Net_0"}),
        ("nested", "gpu_time_under", {"under": 8}),
        ("nested", "gpu_time_under", {"under": "nobody"}),
        ("nested", "gpu_time_under", {"under": HOSTILE, "step": 2}),
        ("nested", "python_lines", {"without": "model"}),
        ("nested", "python_lines", {"without": "train.py", "step": 1}),
        ("nested", "launch_delay", {"by": "call"}),
        ("nested", "kernel_sequences", {"contains": "Linear", "min_kernels": 1}),
        ("none", "kernel_sequences", {"contains": "autograd", "min_kernels": 1, "step": 4}),
        ("nested", "queues", {"capacity": 1}),
        ("none", "queue_length", {"points": 3}),
    ],
    files=traces_named(
        "tracelens/h100/bert-small", "tracelens/mi210/gpu-only", "tracelens/mi300/torch-compile-triton",
        "tracelens/inference/sglang-decode/graph-replay", "hta/backward-thread",
    ),
)  # fmt: skip


@examples(4)
@given(trace=traces())
def test_query_on_any_trace(ask: Ask, trace: dict[str, Any]) -> None:
    g = load_core(trace)
    for name in QUERIES:
        assert_same(*ask(g, name))
