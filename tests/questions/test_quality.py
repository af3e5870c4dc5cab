"""What answers lack: known answers, sums that must hold, and the database's answers beside ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from handmade import HOSTILE, small_trace, span
from hypothesis import given
from made_traces import traces
from placed_traces import placed
from same_tables import Ask, assert_same, twins, with_queries

from corpus import traces_named
from tracelens_graph.analyses.performance.roofline_summary import unmodelled
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.cypher import library
from tracelens_graph.db.database import Database
from tracelens_graph.db.image import Options
from tracelens_graph.errors import DatabaseError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Flag
from tracelens_graph.simulate import simulate

QUERIES = with_queries("incomplete_traces outliving_events unlinked unmodelled")

incomplete_traces = QUESTIONS["incomplete_traces"]
outliving_events = QUESTIONS["outliving_events"]
unlinked = QUESTIONS["unlinked"]
unmodelled_time = QUESTIONS["unmodelled"]

FILES = traces_named(
    "tracelens/b200/eager-serving",
    "tracelens/mi300/qwen1.5-0.5b",
    "tracelens/mi210/gpu-only",
    "tracelens/mi300/resnet-ddp-checkpointing",
)

OF_A_TRACE = [name for name in QUERIES if name != "incomplete_traces"]
BF16 = {"Input_Dims": [[64, 64], [64, 64]], "Input_type": ["c10::BFloat16", "c10::BFloat16"]}


def kernel(name: str, start: float, dur: float, number: int = 0, stream: int = 7) -> Any:
    link = {"correlation": number} if number else {}
    return span("kernel", name, start, dur, 0, stream, device=0, stream=stream, **link)


def call(start: float, number: int) -> Any:
    return span("cuda_runtime", "cudaLaunchKernel", start, 1, correlation=number)


@cache
def work() -> Core:
    """A product three ops deep, work without a model in an op, outside of ops, without a launch; a collective."""
    return load_core([
        span("user_annotation", "ProfilerStep#1", 0, 50),
        span("cpu_op", "aten::linear", 0, 20, **BF16),
        span("cpu_op", "aten::matmul", 1, 18, **BF16),
        span("cpu_op", "aten::mm", 2, 16, **BF16),
        call(3, 1),
        span("cpu_op", HOSTILE, 22, 5),
        call(23, 2),
        call(30, 3),
        span("cpu_op", "c10d::allreduce_", 40, 5),
        call(41, 4),
        kernel("gemm", 10, 10, 1),
        kernel(HOSTILE, 25, 5, 2),
        kernel("outside", 35, 5, 3),
        kernel("ncclDevKernel_AllReduce", 45, 20, 4, stream=20),
        kernel("early", 2, 30),
        kernel("late", 70, 2.5),
        kernel("early", 5, 2.5, stream=20),
    ])  # fmt: skip


@cache
def beside() -> Core:
    """An op without a model that launches work itself, and a product."""
    return load_core([
        span("cpu_op", "own", 0, 30),
        call(1, 1),
        span("cpu_op", "aten::mm", 10, 16, **BF16),
        call(12, 2),
        kernel("mine", 10, 10, 1),
        kernel("gemm", 25, 5, 2),
    ])  # fmt: skip


@cache
def crossing() -> Core:
    """Callees that end 2 us and 3 us after their callers, and events that stand beside the one they began in."""
    return load_core([
        span("cpu_op", "outer", 0, 10),
        span("cpu_op", "inner", 4, 8),
        span("cpu_op", "outer", 20, 10),
        span("cpu_op", "inner", 23, 10),
        span("cpu_op", "outer", 40, 10),
        span("cpu_op", "beside", 48, 30),
        span("python_function", HOSTILE, 100, 10, tid=200),
        span("python_function", "sound", 102, 5, tid=200),
        span("python_function", HOSTILE, 109, 20, tid=200),
        kernel("work", 5, 1),
    ])  # fmt: skip


@cache
def damaged() -> Core:
    """A trace whose file is cut off within its last event."""
    return load_core(json.dumps(small_trace() | {"made for": "damage"}).encode().partition(b'"PyTorch Profiler')[0])


@cache
def simulated() -> Core:
    return load_core(simulate(layers=1, steps=2, seed=6, unlaunched=4).ranks[0].trace)


MADE: dict[str, Callable[[], Core]] = {
    "work": work,
    "beside": beside,
    "crossing": crossing,
    "small": lambda: load_core(small_trace()),
    "no GPU work": lambda: load_core([span("cpu_op", "aten::mm", 10, 30)]),
    "simulated": simulated,
}


# --- known answers ----------------------------------------------------------------------------------------------


def test_unlinked_work_by_stream() -> None:
    compute, send = unlinked(work()).records()
    assert compute == {
        "device": 0, "stream": 7, "gpu_events": 5, "unlinked_events": 2, "gpu_sum_us": 52.5, "unlinked_us": 32.5,
        "percent_of_stream": 100 * 32.5 / 52.5, "percent": 100 * 32.5 / 75, "first_linked_ms": 0.01,
        "last_unlinked_ms": 0.07,
    }  # fmt: skip
    assert (send["stream"], send["unlinked_us"], send["first_linked_ms"]) == (20, 2.5, 0.045)


def test_unmodelled_time_is_that_of_the_report() -> None:
    table = unmodelled_time(work())
    assert {(row["op"], row["reason"], row["gpu_sum_ms"]) for row in table.records()} == {
        ("(no launch in trace)", "its launch is not in the trace", 0.035),
        (HOSTILE, "no model for this operation", 0.005),
        ("cudaLaunchKernel", "launched outside of operations", 0.005),
    }
    assert sum(table["percent"]) == pytest.approx(100 * 45 / 75)
    assert table.records() == unmodelled(work()).records()
    (row,) = unmodelled_time(beside()).records()
    assert (row["op"], row["reason"]) == ("own", "launched by itself, beside operations with a model that it calls")


def test_events_that_outlive_their_callers() -> None:
    inner, apart, frame = sorted(outliving_events(crossing()).records(), key=lambda row: -row["count"])
    assert inner == {
        "kind": "Op", "name": "inner", "count": 2, "callees": 2, "greatest_excess_us": 3.0, "total_excess_us": 5.0,
        "caller": "outer", "uid": 3,
    }  # fmt: skip
    assert [apart[name] for name in ("name", "count", "callees", "caller", "uid")] == ["beside", 1, 0, None, 5]
    assert np.isnan([apart["greatest_excess_us"], apart["total_excess_us"]]).all()
    assert (frame["kind"], frame["name"], frame["uid"]) == ("PythonFunction", HOSTILE, 8)


def test_damaged_traces_are_incomplete() -> None:
    found = [placed(work(), "a", "sound"), placed(damaged(), "b", "cut"), placed(damaged(), "a", "cut")]
    rows = incomplete_traces(found).records()
    assert [(row["run"], row["trace"]) for row in rows] == [("a", "cut"), ("b", "cut")]
    assert rows[0]["damage"] == damaged().info.damage != ""
    assert (rows[0]["state"], rows[0]["lean"], rows[0]["nodes"]) == ("complete", False, len(damaged().columns))
    assert [row["run"] for row in incomplete_traces(found, run="b").records()] == ["b"]


# --- what must hold ---------------------------------------------------------------------------------------------


@given(traces())
def test_nothing_is_lost_and_nothing_counts_twice(trace: dict[str, Any]) -> None:
    g = load_core(trace)
    c, gpu = g.columns, g.gpu_rows
    streams = unlinked(g)
    assert sum(streams["gpu_events"]) == len(gpu)
    assert sum(streams["unlinked_events"]) == np.count_nonzero(c.parent[gpu] < 0)
    assert sum(streams["unlinked_us"]) * 1000 == pytest.approx(c.dur_ns[gpu[c.parent[gpu] < 0]].sum())
    outliving = outliving_events(g)
    assert sum(outliving["count"]) == np.count_nonzero(c.flags & Flag.outlives_parent.value)
    ends = {(above, row): c.end_ns[row] - c.end_ns[above] for row, above in enumerate(c.parent.tolist()) if above >= 0}
    late = [ns for (above, row), ns in ends.items() if ns > 0 and row not in gpu]
    assert sum(outliving["callees"]) == len(late)
    assert np.nansum(outliving["total_excess_us"]) * 1000 == pytest.approx(sum(late))
    for name in OF_A_TRACE:
        assert list(QUESTIONS[name](g).columns) == list(library()[name].columns)


# --- the database -----------------------------------------------------------------------------------------------


test_the_database_says_the_same, test_the_database_says_the_same_of_real_traces = twins(
    QUERIES,
    MADE,
    also=[
        (trace, name, {"step": number})
        for trace, number in [("work", 1), ("simulated", 4)]
        for name in ("unlinked", "unmodelled")
    ],
    files=FILES,
)


def test_the_database_knows_damaged_traces(ask: Ask) -> None:
    query, twin = ask([placed(damaged(), "quality", "cut")], "incomplete_traces", run="quality")
    assert_same(query, twin)
    assert len(twin) == 1


def test_the_database_knows_lean_traces_and_those_that_are_not_done(database: Database) -> None:
    g = load_core([*small_trace()["traceEvents"], span("cpu_op", "aten::none", 1, 2)])
    database.push(g, run="quality lean", name="lean", options=Options(min_gpu_time_ns=1))
    (row,) = database.ask("incomplete_traces", run="quality lean").records()
    assert (row["state"], row["damage"], row["lean"]) == ("complete", None, True)
    assert json.loads(row["options"])["min_gpu_time_ns"] == 1
    assert row["nodes"] < len(g.columns)
    state = "MATCH (t:Trace {id: $id}) SET t.state = $state RETURN t.id AS id"
    database.ask(state, write=True, id=g.trace_id, state="loading")
    (row,) = database.ask("incomplete_traces", run="quality lean").records()
    assert row["state"] == "loading"
    database.drop(g.trace_id)
    with pytest.raises(DatabaseError, match="quality lean is not there"):
        database.ask("incomplete_traces", run="quality lean")
