"""Runtime calls: known answers, sums on every trace and over windows; calls of JAX that wait."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import span
from hypothesis import given
from hypothesis import strategies as st
from made_traces import traces

from corpus import chosen_traces, loaded, parametrize, xplane_files
from tracelens_graph.analyses.alignment.times import _Side
from tracelens_graph.analyses.launches.runtime import runtime_summary
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind


def call(name: str, ts: float, dur: float, correlation: int, category: str = "cuda_runtime") -> dict[str, Any]:
    return span(category, name, ts, dur, correlation=correlation)


def kernel(ts: float, dur: float, correlation: int) -> dict[str, Any]:
    return span("kernel", "k", ts, dur, 0, 7, device=0, stream=7, correlation=correlation)


def by_name(g: Core | Window) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in runtime_summary(g).records()}


EVENTS = [
    call("cudaLaunchKernel", 0, 10, 1),
    call("cudaLaunchKernel", 20, 4, 2),
    call("cudaLaunchKernel", 30, 6, 3),
    call("cuLaunchKernel", 2, 5, -1, "cuda_driver"),
    call("cudaGraphLaunch", 50, 20, 4),
    call("cudaStreamSynchronize", 80, 100, -1),
    kernel(15, 8, 1),
    kernel(55, 2, 2),
    kernel(60, 3, 4),
    kernel(70, 4, 4),
    kernel(1, 7, 99),
]
"""Three launches, one of which makes a driver call and one launches nothing; a graph of two kernels; a stray one."""


def test_known_answer() -> None:
    rows = by_name(load_core(EVENTS))
    assert list(rows) == ["cudaStreamSynchronize", "cudaLaunchKernel", "cudaGraphLaunch", "cuLaunchKernel", NO_LAUNCH]
    launch = rows["cudaLaunchKernel"]
    expected = {
        "calls": 3, "host_sum_us": 20.0, "host_median_us": 6.0, "host_max_us": 10.0, "host_self_us": 15.0,
        "gpu_events": 2, "gpu_sum_us": 10.0, "calls_without_gpu": 1,
        "delay_min_us": 15.0, "delay_median_us": 25.0, "delay_p90_us": 33.0, "delay_max_us": 35.0, "longest_uid": 0,
    }  # fmt: skip
    assert {key: launch[key] for key in expected} == expected
    assert launch["host_mean_us"] == pytest.approx(20 / 3)
    assert rows["cuLaunchKernel"]["host_self_us"] == 5.0
    graph = rows["cudaGraphLaunch"]
    assert (graph["gpu_events"], graph["gpu_sum_us"], graph["delay_max_us"]) == (2, 7.0, 10.0)
    wait = rows["cudaStreamSynchronize"]
    assert (wait["gpu_events"], wait["calls_without_gpu"]) == (0, 1)
    assert math.isnan(wait["delay_median_us"])
    stray = rows[NO_LAUNCH]
    assert (stray["calls"], stray["gpu_events"], stray["gpu_sum_us"], stray["longest_uid"]) == (0, 1, 7.0, None)


def test_gpu_events_launched_before_the_window_count_under_their_launch() -> None:
    window = load_core(EVENTS).window(after_ns=40_000)
    row = by_name(window)["cudaLaunchKernel"]
    assert (row["calls"], row["host_sum_us"], row["gpu_events"], row["longest_uid"]) == (0, 0.0, 1, None)
    assert "1 GPU events were launched by calls outside of the window" in runtime_summary(window).notes


def test_negative_delays_are_counted() -> None:
    table = runtime_summary(load_core([call("cudaLaunchKernel", 10, 5, 1), kernel(8, 1, 1)]))
    assert table["delay_min_us"].tolist() == [-2.0]
    assert list(table.notes) == ["1 of 1 delays are negative: the clocks of host and device differ"]


@pytest.mark.parametrize(
    ("events", "rows", "notes"),
    [
        ([], 0, ["the trace has no runtime or driver calls"]),
        ([span("cpu_op", "aten::add", 0, 1)], 0, ["the trace has no runtime or driver calls"]),
        ([call("cudaLaunchKernel", 0, 1, 1)], 1, ["the trace has no GPU events"]),
        (
            [kernel(0, 1, 1)],
            1,
            [
                "the trace has no runtime or driver calls",
                "1 GPU events (100.0 % of GPU time) have no launch in the trace: included",
            ],
        ),
    ],
    ids=["empty", "ops-only", "no-gpu", "gpu-only"],
)
def test_what_is_missing_is_said(events: list[Any], rows: int, notes: list[str]) -> None:
    table = runtime_summary(load_core(events))
    assert len(table) == rows
    assert list(table.notes) == notes


def totals(g: Core | Window) -> dict[str, int]:
    """Sums over the rows, back in whole nanoseconds and counts."""
    table = runtime_summary(g)
    sums = {name: np.asarray(table[name], float).sum() for name in ("host_sum_us", "host_self_us", "gpu_sum_us")}
    counts = {name: np.asarray(table[name]).sum() for name in ("calls", "gpu_events", "calls_without_gpu")}
    return {name: round(us * 1000) for name, us in sums.items()} | {name: int(n) for name, n in counts.items()}


def check_sums(g: Core | Window) -> None:
    w, found = window_of(g), totals(g)
    c, calls = w.core.columns, w.rows_of_kind(Kind.RuntimeCall)
    assert found["calls"] == len(calls)
    assert found["host_sum_us"] == c.dur_ns[calls].sum()
    assert 0 <= found["host_self_us"] <= found["host_sum_us"]
    assert found["gpu_events"] == len(w.gpu_rows)
    assert found["gpu_sum_us"] == c.dur_ns[w.gpu_rows].sum()
    assert found["calls_without_gpu"] == len(set(calls.tolist()) - set(c.parent[w.gpu_rows].tolist()))


@given(traces(), st.integers(0, 60))
def test_sums_add_up_over_rows_and_windows(trace: dict[str, Any], cut: int) -> None:
    core = load_core(trace)
    check_sums(core)
    before, after = core.window(before_ns=cut), core.window(after_ns=cut)
    check_sums(before)
    check_sums(after)
    whole, parts = totals(core), [totals(before), totals(after)]
    for name in ("host_sum_us", "host_self_us", "gpu_sum_us", "calls", "gpu_events"):
        assert whole[name] == sum(part[name] for part in parts)


@parametrize("path", chosen_traces())
def test_sums_add_up_on_real_traces(path: Path) -> None:
    core = loaded(path)
    check_sums(core)
    table = runtime_summary(core)
    shown = np.asarray(table["delay_min_us"], float)
    assert np.all(
        np.isfinite(shown) == ((np.asarray(table["gpu_events"]) > 0) & (np.asarray(table["name"]) != NO_LAUNCH))
    )


def test_a_call_of_a_compiled_function_is_marked_twice_and_counts_once() -> None:
    rows = by_name(
        load_core(
            [
                call("PjitFunction(f)", 0, 100, -1), call("PjitFunction(f)", 10, 80, -1),
                call("PjitFunction(g)", 20, 30, -1), call("PjitFunction(f)", 200, 50, -1),
                call("cudaEventQuery", 300, 10, -1), call("cudaEventQuery", 301, 4, -1), kernel(400, 1, 99),
            ]
        )
    )  # fmt: skip
    found = rows["PjitFunction(f)"]
    expected = {"calls": 2, "host_sum_us": 150.0, "host_max_us": 100.0, "calls_without_gpu": 2, "longest_uid": 0}
    assert {name: found[name] for name in expected} == expected
    assert found["host_self_us"] == 120.0  # without the other function
    assert rows["PjitFunction(g)"]["calls"] == 1
    assert (rows["cudaEventQuery"]["calls"], rows["cudaEventQuery"]["host_sum_us"]) == (2, 14.0)


@parametrize("path", [path for path in xplane_files() if path.name.startswith("conv-")])
def test_functions_of_python_that_wait_count_once(path: Path) -> None:
    """Ten calls of `block_until_ready`, each of which calls `try_to_block`."""
    core = loaded(path)
    assert _Side(core.everything).waits() == 10
    (first, *_) = np.flatnonzero([name.endswith("): block_until_ready") for name in core.names])
    begun = np.sort(core.columns.start_ns[core.columns.name == first])
    assert _Side(core.window(before_ns=int(begun[4]))).waits() == 4
