"""The GPU timeline, steps and collectives: known answers, reference tables, and sums that must hold on every trace."""

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

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, gpu_classes
from tracelens_graph.analyses.timeline.collectives import COLL_ANALYSIS, coll_analysis
from tracelens_graph.analyses.timeline.steps import OUTSIDE, TIMES, step_summary
from tracelens_graph.analyses.timeline.timeline import gpu_timeline, times_by_group
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind
from tracelens_graph.tables.table import Table


def kernel(name: str, start: float, dur: float, stream: int = 7, category: str = "kernel") -> dict[str, object]:
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": stream, "ts": start, "dur": dur, "args": {}}


def times(table: Table) -> dict[str, float]:
    return dict(zip(table["type"], np.asarray(table["time ms"]).tolist(), strict=True))


def test_known_answer() -> None:
    core = load_core(
        [
            kernel("gemm", 0, 10),
            kernel("ncclDevKernel_AllReduce", 5, 15, stream=9),
            kernel("Memcpy HtoD", 18, 10, category="gpu_memcpy"),
            kernel("Memset", 40, 1, category="gpu_memset"),
            kernel("gemm", 43, 7),
        ]
    )
    assert times(gpu_timeline(core)) == pytest.approx(
        {
            "computation_time": 0.018,
            "exposed_comm_time": 0.010,
            "exposed_memcpy_time": 0.008,
            "busy_time": 0.036,
            "idle_time": 0.014,
            "total_time": 0.050,
            "total_comm_time": 0.015,
            "total_memcpy_time": 0.010,
        },
        abs=0,
    )
    split = times(gpu_timeline(core, micro_idle_us=5))
    assert (split["micro_idle_time"], split["macro_idle_time"]) == (0.002, 0.012)
    assert "idle_time" not in split


def test_one_empty_kernel() -> None:
    assert set(times(gpu_timeline(load_core([kernel("k", 5, 0)]))).values()) == {0.0}


KERNELS = st.lists(
    st.tuples(
        st.sampled_from(["gemm", "ncclKernel", "Memcpy DtoH"]),
        st.integers(0, 200),
        st.integers(0, 60),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=25,
)


def check_sums(core: Core, **options: object) -> None:
    found = times(gpu_timeline(core, **options))  # type: ignore[arg-type]
    idle = found.get("idle_time", 0) + found.get("micro_idle_time", 0) + found.get("macro_idle_time", 0)
    busy = found["computation_time"] + found["exposed_comm_time"] + found["exposed_memcpy_time"]
    assert busy == pytest.approx(found["busy_time"], abs=1e-9)
    assert busy + idle == pytest.approx(found["total_time"], abs=1e-9)
    assert found["exposed_comm_time"] <= found["total_comm_time"]
    assert found["exposed_memcpy_time"] <= found["total_memcpy_time"]


@given(KERNELS, st.integers(0, 20))
def test_parts_make_up_the_whole(kernels: list[tuple[str, int, int, int]], threshold: int) -> None:
    core = load_core(
        [
            kernel(name, start, dur, stream, "gpu_memcpy" if "Memcpy" in name else "kernel")
            for name, start, dur, stream in kernels
        ]
    )
    check_sums(core)
    check_sums(core, micro_idle_us=threshold)


@parametrize("path", chosen_traces())
def test_parts_make_up_the_whole_on_real_traces(path: Path) -> None:
    core = loaded(path)
    if len(core.gpu_rows):
        check_sums(core)
        check_sums(core, micro_idle_us=5)


def launched(op: str, ts: float, kernel: str, start: float, dur: float, number: int, **where: Any) -> list[Any]:
    """An op that launches one kernel."""
    return [
        span("cpu_op", op, ts, 3, **where),
        span("cuda_runtime", "cudaLaunchKernel", ts + 1, 1, correlation=number, **where),
        span("kernel", kernel, start, dur, 0, 7, device=0, stream=7, correlation=number),
    ]


def step(number: int, ts: float, dur: float, pid: int = 100) -> dict[str, Any]:
    return span("user_annotation", f"ProfilerStep#{number}", ts, dur, pid)


EVENTS = [
    step(3, 0, 100),
    step(4, 100, 50),
    step(5, 150, 50),
    *launched("aten::mm", 10, "gemm", 20, 30, 1),
    *launched("aten::mm", 20, "gemm", 60, 10, 2, tid=101),
    *launched("c10d::all", 30, "ncclKernel", 40, 40, 3),
    *launched("aten::add", 110, "add", 160, 60, 4),
    *launched("aten::mul", 300, "mul", 310, 5, 5),
    span("kernel", "stray", 0, 7, 0, 8, device=0, stream=8),
]
"""Three steps: two with work (that of the second runs after it), an empty one; work launched after the last."""


def test_known_answer_of_steps() -> None:
    table = step_summary(load_core(EVENTS))
    assert list(table["name"]) == ["ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5", OUTSIDE]
    first, second, empty, outside = table.records()
    expected = {
        "step": 3, "pid": "100", "start_ms": 0.0, "host_step_ms": 0.1, "device_step_ms": 0.14, "gpu_events": 3,
        "gpu_sum_ms": 0.08,
        "computation_time_ms": 0.04, "exposed_comm_time_ms": 0.02, "exposed_memcpy_time_ms": 0.0,
        "busy_time_ms": 0.06, "idle_time_ms": 0.0, "total_time_ms": 0.06, "uid": 0,
    }  # fmt: skip
    assert {name: first[name] for name in expected} == expected
    assert first["busy_percent"] == pytest.approx(100 * 60 / 140)
    assert first["top_ops"] == [
        {"name": "aten::mm", "ms": 0.04, "percent": 50.0},
        {"name": "c10d::all", "ms": 0.04, "percent": 50.0},
    ]
    assert (second["busy_time_ms"], second["total_time_ms"]) == (0.06, 0.06)
    assert (second["host_step_ms"], second["device_step_ms"], second["busy_percent"]) == (0.05, 0.06, 100)
    assert [empty[f"{name}_ms"] for name in TIMES] == [0.0] * 6
    assert (empty["gpu_events"], empty["top_ops"]) == (0, [])
    assert math.isnan(empty["device_step_ms"])
    assert math.isnan(empty["busy_percent"])
    assert (outside["step"], outside["uid"], outside["gpu_events"], outside["gpu_sum_ms"]) == (None, None, 2, 0.012)
    assert math.isnan(outside["host_step_ms"])
    assert math.isnan(outside["busy_percent"])
    assert {op["name"] for op in outside["top_ops"]} == {"aten::mul", "(no launch in trace)"}
    assert list(table.notes) == [
        "step on the host: min 0.050, median 0.050, mean 0.067, max 0.100, std 0.029 ms",
        "step on the device: min 0.060, median 0.100, mean 0.100, max 0.140, std 0.057 ms",
        "busy: min 42.857, median 71.429, mean 71.429, max 100.000, std 40.406 % of the step on the device",
        "slowest on the device: ProfilerStep#3, uid 0, 0.140 ms",
        "steps that launched no GPU event: ProfilerStep#5",
        "1 GPU events (4.6 % of GPU time) have no launch in the trace: included",
    ]


def test_steps_of_a_host_that_runs_ahead_lie_end_to_end_on_the_device() -> None:
    """The host needs 10 us for what takes the device 50; work of the second step overlaps that of the first."""
    core = load_core([
        step(1, 0, 10), step(2, 10, 10), step(3, 20, 10),
        *launched("aten::mm", 1, "gemm", 5, 50, 1), *launched("aten::mm", 11, "gemm", 55, 50, 2),
        *launched("aten::copy_", 15, "copy", 50, 20, 3), *launched("aten::mm", 21, "gemm", 115, 50, 4),
    ])  # fmt: skip
    rows = step_summary(core).records()
    assert [row["host_step_ms"] for row in rows] == [0.01, 0.01, 0.01]
    assert [row["device_step_ms"] for row in rows] == [0.045, 0.065, 0.05]
    assert [row["busy_percent"] for row in rows] == pytest.approx([100, 100 * 55 / 65, 100])


@given(traces())
def test_no_share_is_above_100(trace: dict[str, Any]) -> None:
    for row in step_summary(load_core(trace)).records():
        assert math.isnan(row["busy_percent"]) or 0 <= row["busy_percent"] <= 100
        assert math.isnan(row["device_step_ms"]) or row["device_step_ms"] > 0


def test_number_of_named_ops() -> None:
    assert [len(ops) for ops in step_summary(load_core(EVENTS), top_ops=1)["top_ops"]] == [1, 1, 0, 1]


def test_steps_of_several_processes_stand_one_process_after_the_other() -> None:
    table = step_summary(load_core([step(1, 0, 10, 200), step(1, 5, 10, 100), step(2, 20, 10, 200)]))
    assert list(zip(table["pid"], table["step"], strict=True)) == [("100", 1), ("200", 1), ("200", 2)]


def test_a_step_shows_what_is_in_the_window() -> None:
    core = load_core(EVENTS)
    (row,) = step_summary(core.window(step=4)).records()
    assert (row["name"], row["gpu_events"]) == ("ProfilerStep#4", 1)
    rows = step_summary(core.window(under="aten::mm")).records()
    assert [(row["name"], row["gpu_events"], row["gpu_sum_ms"]) for row in rows] == [("ProfilerStep#3", 2, 0.04)]


def test_without_steps_there_are_no_rows_and_a_note() -> None:
    core = load_core([span("kernel", "k", 0, 1, 0, 7)])
    table = step_summary(core)
    assert len(table) == 0
    assert list(table.notes) == ["the trace has no steps (ProfilerStep#n)"]
    assert list(step_summary(core.window(after_ns=0)).notes) == ["the window has no steps (ProfilerStep#n)"]


def test_steps_without_gpu_events_keep_their_time() -> None:
    table = step_summary(load_core([step(1, 0, 10)]))
    assert table["host_step_ms"].tolist() == [0.01]
    assert list(table.notes)[-2:] == ["steps that launched no GPU event: ProfilerStep#1", "the trace has no GPU events"]


def test_many_empty_steps_are_counted() -> None:
    table = step_summary(load_core([step(i, 10 * i, 10) for i in range(9)]))
    assert any(note.endswith("ProfilerStep#4 and 4 more") for note in table.notes)


def check_steps(g: Core | Window) -> None:
    w, table = window_of(g), step_summary(g)
    if not len(table):
        return
    c, gpu = w.core.columns, w.gpu_rows
    assert sum(table["gpu_events"]) == len(gpu)
    assert round(sum(table["gpu_sum_ms"]) * 1e6) == c.dur_ns[gpu].sum()
    assert len(set(table["name"]) & {OUTSIDE}) == bool(np.any(w.core.step[gpu] < 0))
    computation, comm, memcpy, busy, idle, total = (np.asarray(table[f"{name}_ms"], float) for name in TIMES)
    assert computation + comm + memcpy == pytest.approx(busy, abs=1e-9)
    assert busy + idle == pytest.approx(total, abs=1e-9)


@given(traces(), st.integers(0, 60))
def test_sums_add_up_over_rows_and_windows(trace: dict[str, Any], cut: int) -> None:
    core = load_core(trace)
    check_steps(core)
    parts = [core.window(before_ns=cut), core.window(after_ns=cut)]
    for part in parts:
        check_steps(part)
    whole = {row["uid"]: row["gpu_events"] for row in step_summary(core).records()}
    split: dict[Any, int] = {}
    for row in (row for part in parts for row in step_summary(part).records()):
        split[row["uid"]] = split.get(row["uid"], 0) + row["gpu_events"]
    assert {uid: n for uid, n in split.items() if uid is not None} == {u: n for u, n in whole.items() if u is not None}


@given(traces())
def test_each_group_has_the_timeline_it_has_alone(trace: dict[str, Any]) -> None:
    core = load_core(trace)
    rows = core.gpu_rows
    group = np.arange(len(rows)) % 3
    together = times_by_group(core, rows, group, 4)
    for number in range(4):
        alone = times_by_group(core, rows[group == number], np.zeros(int((group == number).sum()), np.int64), 1)
        assert {name: int(time[number]) for name, time in together.items()} == {n: int(t[0]) for n, t in alone.items()}


@parametrize("path", chosen_traces())
def test_steps_equal_the_timelines_of_their_windows(path: Path) -> None:
    core = loaded(path)
    check_steps(core)
    records = [row for row in step_summary(core).records() if row["uid"] is not None]
    assert len(records) == len(core.steps())
    numbers = [row["step"] for row in records]
    for row in records:
        if row["gpu_events"] and numbers.count(row["step"]) == 1:
            alone = gpu_timeline(core.window(step=row["step"]))
            times = dict(zip(alone["type"], np.asarray(alone["time ms"]).tolist(), strict=True))
            assert {name: row[f"{name}_ms"] for name in TIMES} == {name: times[name] for name in TIMES}


ARGUMENTS = {
    "Collective name": "allreduce", "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Group size": 2,
    "dtype": "BFloat16", "In msg nelems": 2**19, "Out msg nelems": 2**20, "In split size": "[]", "Out split size": "[]",
}  # fmt: skip


def sent(ts: float, dur: float, correlation: int = -1, name: str = "ncclDevKernel_X", **args: Any) -> dict[str, Any]:
    event = span("kernel", name, ts, dur, 0, 7, device=0, stream=7, correlation=correlation)
    event["args"] |= args
    return event


def test_known_answer_of_collective_table() -> None:
    events = [
        sent(0, 10, **ARGUMENTS),
        sent(20, 14, **ARGUMENTS),
        sent(40, 3, **ARGUMENTS | {"dtype": "Float8_e4m3fn"}),
        sent(50, 100),
        sent(200, 5, name="gemm"),
    ]
    table = coll_analysis(load_core({"distributedInfo": {"rank": 5}, "traceEvents": events}))
    assert list(table.columns) == list(COLL_ANALYSIS)
    first, second = table.records()
    assert math.isnan(second.pop("dur_std"))
    assert first == {
        "rank": 5, "Process Group Name": "0", "Process Group Ranks": [0, 1], "Collective name": "allreduce",
        "Group size": 2, "dtype": "BFloat16", "In msg nelems": 2**19, "Out msg nelems": 2**20, "In split size": [],
        "Out split size": [], "stream": 7, "In msg size (MB)_first": 1.0, "Out msg size (MB)_first": 2.0,
        "dur_sum": 24.0, "dur_mean": 12.0, "dur_std": pytest.approx(math.sqrt(8)), "dur_min": 10.0, "dur_max": 14.0,
        "operation_count": 2,
    }  # fmt: skip
    assert (second["In msg size (MB)_first"], second["operation_count"]) == (0.5, 1)
    assert list(table.notes) == ["1 communication kernels (0.100 ms) carry no arguments: left out"]


def test_groups_with_missing_arguments_have_empty_cells() -> None:
    table = coll_analysis(
        load_core(
            [
                sent(0, 1, **{"Collective name": "barrier"}),
                sent(2, 1, **ARGUMENTS),
            ]
        )
    )
    assert table["operation_count"].tolist() == [1, 1]
    (row,) = (row for row in table.records() if row["Collective name"] == "barrier")
    empty = ("Process Group Name", "Process Group Ranks", "Group size", "dtype", "In msg nelems", "In split size")
    assert {row[column] for column in empty} == {None}
    assert math.isnan(row["In msg size (MB)_first"])
    assert not table.notes


def test_arguments_that_cannot_be_read_stay_text() -> None:
    odd = {"Group size": "many", "Process Group Ranks": "[0, 1, ...]", "In split size": "[1.5]", "dtype": "Quaternion",
           "In msg nelems": 10**400, "Out split size": [1, 2]}  # fmt: skip
    table = coll_analysis(load_core([sent(0, 1, **ARGUMENTS | odd)]))
    (row,) = table.records()
    assert (row["Group size"], row["Process Group Ranks"], row["In split size"]) == ("many", "[0, 1, ...]", "[1.5]")
    assert row["Out split size"] == [1, 2]
    assert math.isnan(row["Out msg size (MB)_first"])
    assert list(table.notes) == ["no size is known for elements of type Quaternion"]


def test_a_kernel_without_arguments_has_those_of_its_op() -> None:
    op = span("cpu_op", "record_param_comms", 0, 10)
    op["args"] |= ARGUMENTS
    launch = span("cuda_runtime", "cudaLaunchKernel", 2, 1, correlation=4)
    table = coll_analysis(load_core([op, launch, sent(20, 6, 4)]))
    assert (list(table["Collective name"]), table["dur_sum"].tolist()) == (["allreduce"], [6.0])
    assert list(table.notes) == [
        "1 communication kernels carry no arguments of their own: shown with those of their op"
    ]


@pytest.mark.parametrize(
    ("events", "note"),
    [
        ([], "the trace has no communication kernels"),
        ([span("cpu_op", "aten::add", 0, 1)], "the trace has no communication kernels"),
        ([sent(0, 1, name="gemm")], "the trace has no communication kernels"),
        ([sent(0, 1)], "1 communication kernels (0.001 ms) carry no arguments: left out"),
    ],
    ids=["empty", "cpu-only", "no-communication", "no-arguments"],
)
def test_an_empty_table_says_why(events: list[Any], note: str) -> None:
    table = coll_analysis(load_core(events))
    assert len(table) == 0
    assert list(table.notes) == [note]


def left_out(table: Table) -> int:
    """The number of kernels that the notes say are left out."""
    return sum(int(note.split()[0].replace(",", "")) for note in table.notes if note.endswith("left out"))


def check_collectives(g: Core | Window) -> None:
    w, table = window_of(g), coll_analysis(g)
    core, kernels = w.core, w.rows_of_kind(Kind.Kernel)
    named = gpu_classes(core, kernels) == COMMUNICATION
    own = np.isin(core.columns.uid[kernels], list(core.collective_args))
    assert sum(table["operation_count"]) + left_out(table) == np.count_nonzero(named | own)
    assert not own.any() or sum(table["dur_sum"]) * 1000 >= core.columns.dur_ns[kernels[own]].sum() - 0.5


@given(traces(), st.integers(0, 60))
def test_every_communication_kernel_is_shown_or_counted(trace: dict[str, Any], cut: int) -> None:
    core = load_core(trace)
    check_collectives(core)
    parts = [coll_analysis(core.window(before_ns=cut)), coll_analysis(core.window(after_ns=cut))]
    assert sum(coll_analysis(core)["operation_count"]) == sum(sum(part["operation_count"]) for part in parts)


@parametrize("path", chosen_traces())
def test_every_communication_kernel_is_shown_or_counted_on_real_traces(path: Path) -> None:
    check_collectives(loaded(path))
