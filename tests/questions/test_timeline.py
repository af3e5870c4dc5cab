"""The timeline's questions: known answers, what brute force finds, and the database's answers beside ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from handmade import HOSTILE, small_trace, span
from hypothesis import given
from hypothesis import strategies as st
from same_tables import twins, with_queries

from corpus import traces_named
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import PYTHON_KINDS, Kind
from tracelens_graph.simulate import simulate

QUERIES = with_queries("exposed_communication gpu_timeline idle_gaps step_summary stream_overlap")

exposed_communication = QUESTIONS["exposed_communication"]
gpu_timeline = QUESTIONS["gpu_timeline"]
idle_gaps = QUESTIONS["idle_gaps"]
steps = QUESTIONS["step_summary"]
stream_overlap = QUESTIONS["stream_overlap"]

FILES = traces_named(
    "tracelens/h100/bert-small", "tracelens/mi300/resnet-ddp-checkpointing", "hta/two-of-128-ranks/rank-0"
)

BY_STEP = ("gpu_timeline", "exposed_communication", "stream_overlap")
COLLECTIVE = {"Collective_name": "allreduce", "Process_Group_Name": "0", "Group_size": 2, "dtype": "Float"}


def kernel(name: str, start: float, dur: float, number: int = 0, stream: int = 7, device: int = 0, **more: Any) -> Any:
    link = {"correlation": number} if number else {}
    return span("kernel", name, start, dur, device, stream, device=device, stream=stream, **link, **more)


def call(start: float, dur: float, number: int, **where: Any) -> Any:
    return span("cuda_runtime", "cudaLaunchKernel", start, dur, correlation=number, **where)


def step(number: int, start: float, dur: float, pid: int = 100) -> Any:
    return span("user_annotation", f"ProfilerStep#{number}", start, dur, pid, pid)


@cache
def two_steps() -> Core:
    """A product three ops deep, a collective with half a computation beside it, a wait, and work without a launch."""
    return load_core([
        step(1, 0, 100),
        step(2, 100, 100),
        span("python_function", "train.py(1): main", 1, 198),
        span("python_function", "nn.Module: Net_0", 2, 196.5),
        span("python_function", "loader.py(2): next", 65, 30),
        span("cpu_op", "outer", 10, 30),
        span("cpu_op", "middle", 11, 28),
        span("cpu_op", "aten::mm", 12, 26),
        call(20, 2, 1),
        span("cpu_op", "c10d::allreduce_", 100, 8),
        call(101, 2, 2),
        span("cpu_op", "aten::add", 120, 8),
        call(121, 2, 3),
        span("cuda_runtime", "cudaDeviceSynchronize", 160, 30),
        span("cpu_op", HOSTILE, 191, 6),
        call(192, 2, 4),
        kernel("stray", 0, 5),
        kernel("gemm", 30, 30, 1),
        kernel("ncclDevKernel_AllReduce", 110, 40, 2, stream=20, **COLLECTIVE),
        kernel("add", 130, 10, 3),
        kernel(HOSTILE, 195, 3, 4),
    ])  # fmt: skip


@cache
def two_processes() -> Core:
    """Two processes, each with a step of one number, one of which is recorded twice; on two devices."""
    launches = [(10, 100), (20, 200), (60, 100), (110, 200), (70, 200), (150, 100)]
    numbered = list(enumerate(launches, 1))
    return load_core([
        step(1, 0, 50),
        step(1, 55, 45),
        step(2, 100, 10),
        step(1, 15, 90, pid=200),
        *(call(start, 2, n, pid=pid, tid=pid) for n, (start, pid) in numbered),
        *(kernel(f"k{n}", start + 5, 20, n, device=pid // 100 - 1) for n, (start, pid) in numbered),
        kernel("copy", 5, 3, device=1),
    ])  # fmt: skip


@cache
def many_gaps() -> Core:
    """Forty gaps, of which always four have one length, and events of no length."""
    events, at = [], 0.0
    for n in range(40):
        events.append(kernel("k", at, 2.0 if n % 3 else 0.0))
        at += 2 + n // 4
    return load_core(events)


@cache
def no_gpu() -> Core:
    return load_core([step(1, 0, 50), span("cpu_op", "aten::mm", 10, 30)])


@cache
def simulated() -> Core:
    return load_core(simulate(ranks=2, layers=1, seed=5, unlaunched=3).ranks[0].trace)


MADE: dict[str, Callable[[], Core]] = {
    "two steps": two_steps,
    "two processes": two_processes,
    "many gaps": many_gaps,
    "no GPU work": no_gpu,
    "small": lambda: load_core(small_trace()),
    "simulated": simulated,
}


# --- known answers ----------------------------------------------------------------------------------------------


def test_exposed_is_what_no_computation_covers() -> None:
    (row,) = exposed_communication(two_steps()).records()
    assert row == {
        "collective": "allreduce", "group": "0", "group_description": None, "group_size": 2, "kernels": 1,
        "total_us": 40.0, "exposed_us": 30.0, "exposed_percent": 75.0, "mean_us": 40.0, "max_us": 40.0,
    }  # fmt: skip
    assert len(exposed_communication(two_steps(), step=1)) == 0


def test_computation_on_another_device_hides_nothing() -> None:
    beside = [kernel("ncclKernel", 0, 10), kernel("gemm", 2, 4, device=1), kernel("gemm", 5, 9, stream=8)]
    (row,) = exposed_communication(load_core(beside)).records()
    assert (row["collective"], row["group"], row["group_size"]) == (None, None, None)
    assert (row["total_us"], row["exposed_us"]) == (10.0, 5.0)


def test_the_two_busiest_streams() -> None:
    (row,) = stream_overlap(two_steps()).records()
    assert row == {
        "device": 0, "stream_a": 7, "events_a": 4, "busy_a_us": 48.0, "stream_b": 20, "events_b": 1, "busy_b_us": 40.0,
        "both_us": 10.0, "percent_of_a": 100 * 10 / 48, "percent_of_b": 25.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"stream_a": 20}, [(0, 20, 7)]),
        ({"stream_b": 7}, [(0, 20, 7)]),
        ({"stream_a": 7, "stream_b": 7}, []),
        ({"stream_a": 9}, []),
        ({"device": 1}, []),
        ({"device": 0, "step": 2}, [(0, 20, 7)]),
    ],
)
def test_streams_that_are_asked_for(wanted: dict[str, int], found: list[Any]) -> None:
    table = stream_overlap(two_steps(), **wanted)
    assert [(row["device"], row["stream_a"], row["stream_b"]) for row in table.records()] == found


def test_streams_without_a_number_are_left_out() -> None:
    work: list[Any] = [
        span("kernel", "k", 0, 10, 0, stream, device=0, stream=stream)
        for stream in (7, 8, 2**70, 1.5)
        for _ in range(3)
    ]
    (row,) = stream_overlap(load_core(work)).records()
    assert {row["stream_a"], row["stream_b"]} == {7, 8}


def test_gaps_and_what_the_host_did_in_them() -> None:
    wait, launch, start = idle_gaps(two_steps()).records()
    assert wait | {
        "device": 0, "gap_start_ms": 0.06, "gap_us": 50.0, "next": "ncclDevKernel_AllReduce", "next_uid": 18,
        "launch": "cudaLaunchKernel", "launch_begin_us": 41.0, "launch_end_us": 43.0, "call": "cudaLaunchKernel",
        "call_us": 2.0, "op": "c10d::allreduce_", "op_us": 8.0, "frame": "nn.Module: Net_0", "frame_us": 50.0,
        "cause": "python", "because": "loader.py(2): next", "because_us": 30.0,
    } == wait  # fmt: skip
    assert (launch["gap_us"], launch["call"], launch["call_us"]) == (45.0, "cudaDeviceSynchronize", 30.0)
    assert (launch["op"], launch["op_us"]) == (HOSTILE, 4.0)
    assert (start["gap_us"], start["op"], start["op_us"]) == (25.0, "outer", 20.0)


def test_gaps_that_are_asked_for() -> None:
    assert [row["gap_us"] for row in idle_gaps(two_steps(), min_us=45).records()] == [50.0, 45.0]
    cut = idle_gaps(two_steps(), top=1)
    assert (len(cut), cut.notes) == (1, ["the first 1 of 3 rows (top 0 shows all)"])
    assert (len(idle_gaps(two_steps(), top=0)), idle_gaps(two_steps(), top=0).notes) == (3, [])
    assert len(idle_gaps(two_steps(), device=1)) == 0
    every = [(row["gap_us"], row["gap_start_ms"]) for row in idle_gaps(many_gaps(), top=1000, min_us=0).records()]
    shown = [(row["gap_us"], row["gap_start_ms"]) for row in idle_gaps(many_gaps(), top=6).records()]
    assert len(every) == 37  # the second and the third event are followed at once
    assert shown == sorted(every, key=lambda gap: (-gap[0], gap[1]))[:6]


# --- what must hold ---------------------------------------------------------------------------------------------

SPANS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 1), st.integers(7, 8), st.integers(0, 40), st.integers(0, 20)), max_size=15
)
"""GPU events: whether they communicate, device, stream, start and duration in ns."""


def of_spans(spans: list[tuple[bool, int, int, int, int]]) -> Core:
    names = ("gemm", "ncclKernel")
    return load_core([
        kernel(names[sends], start / 1000, dur / 1000, stream=stream, device=device)
        for sends, device, stream, start, dur in spans
    ])  # fmt: skip


@given(SPANS)
def test_exposed_time_is_counted_by_the_nanosecond(spans: list[tuple[bool, int, int, int, int]]) -> None:
    busy: dict[int, set[int]] = {0: set(), 1: set()}
    for sends, device, _, start, dur in spans:
        if not sends:
            busy[device] |= set(range(start, start + dur))
    sent = [(device, set(range(start, start + dur))) for sends, device, _, start, dur in spans if sends]
    table = exposed_communication(of_spans(spans))
    assert len(table) == bool(sent)
    assert sum(table["exposed_us"]) * 1000 == pytest.approx(sum(len(when - busy[device]) for device, when in sent))
    assert sum(table["total_us"]) * 1000 == pytest.approx(sum(len(when) for _, when in sent))


@given(SPANS)
def test_overlap_is_counted_by_the_nanosecond(spans: list[tuple[bool, int, int, int, int]]) -> None:
    for row in stream_overlap(of_spans(spans)).records():
        a, b = (
            {at for _, device, stream, start, dur in spans if (device, stream) == (row["device"], row[f"stream_{side}"])
             for at in range(start, start + dur)}
            for side in "ab"
        )  # fmt: skip
        assert [row[name] * 1000 for name in ("busy_a_us", "busy_b_us", "both_us")] == pytest.approx(
            [len(a), len(b), len(a & b)]
        )


@given(SPANS)
def test_gaps_are_counted_by_the_nanosecond(spans: list[tuple[bool, int, int, int, int]]) -> None:
    g = of_spans(spans)
    for device in {device for _, device, *_ in spans}:
        of_device = [(start, start + dur) for _, on, _, start, dur in spans if on == device]
        whole = set(range(min(start for start, _ in of_device), max(end for _, end in of_device)))
        # An event of no length ends one gap and begins another, and takes no time.
        idle = whole.difference(*(range(*one) for one in of_device))
        gaps = idle_gaps(g, device=device, min_us=0, top=1000)
        assert sum(gaps["gap_us"]) * 1000 == pytest.approx(len(idle))


def test_no_call_of_the_thread_has_a_longer_part_in_a_gap() -> None:
    g = simulated()
    c = g.columns
    for row in idle_gaps(g).records():
        if row["launch"] is None:
            continue
        launch = c.parent[g.row(row["next_uid"])]
        thread = c.thread[launch]
        begin = round(row["gap_start_ms"] * 1e6) - g.info.lead_ns
        end = begin + round(row["gap_us"] * 1e3)
        for what, kinds in (("call", (Kind.RuntimeCall,)), ("op", (Kind.Op,)), ("frame", PYTHON_KINDS)):
            rows = np.flatnonzero(np.isin(c.kind, kinds) & (c.thread == thread))
            part = np.minimum(c.end_ns[rows], end) - np.maximum(c.start_ns[rows], begin)
            longest = int(part.max(initial=0)) if c.end_ns[launch] > begin else 0  # else the work was queued before
            assert (row[f"{what}_us"] or 0) * 1000 == pytest.approx(longest)
            assert row[what] in ({g.names[code] for code in c.name[rows[part == longest]]} if longest else {None})


# --- the database -----------------------------------------------------------------------------------------------

STEPPED = [("two steps", 2), ("two processes", 1), ("simulated", 4)]
test_the_database_says_the_same, test_the_database_says_the_same_of_real_traces = twins(
    QUERIES,
    MADE,
    also=[
        *((trace, name, {"step": number}) for trace, number in STEPPED for name in BY_STEP),
        ("many gaps", "idle_gaps", {"top": 6, "min_us": 0}),
        ("many gaps", "idle_gaps", {"top": 6, "min_us": 7.5}),
        ("many gaps", "idle_gaps", {"top": 1000}),
        ("many gaps", "idle_gaps", {"top": 0}),
        ("two processes", "idle_gaps", {"device": 1}),
        ("two steps", "stream_overlap", {"stream_a": 20}),
        ("two steps", "stream_overlap", {"stream_b": 7, "device": 0}),
        ("two steps", "stream_overlap", {"stream_a": 7, "stream_b": 7}),
    ],
    files=FILES,
)
