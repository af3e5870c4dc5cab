"""Tables of ops: known answers, sums on every trace and window; what runs beside an op, and its kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from call_trees import FORWARD, launch, load, op
from handmade import call, gpu, span
from hypothesis import given
from hypothesis import strategies as st
from made_traces import traces

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.ops.kernel_details import SHORTEST_NS, details_of_groups, overlap, truncated
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH, UNLINKED, launchers
from tracelens_graph.analyses.ops.ops import ops_summary, ops_summary_by_category, ops_unique_args
from tracelens_graph.analyses.shared.grouping import group_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.signatures import named

GPU = {"pid": 0, "tid": 7, "device": 0}


def two_shapes() -> Core:
    """Two `aten::mm` of one shape and one of another, an op around one of them, NCCL, a bare launch, a lone kernel."""

    def launch(name: str, ts: float, number: int) -> dict[str, Any]:
        return span("cuda_runtime", name, ts, 1, tid=1, correlation=number)

    def kernel(name: str, ts: float, dur: float, number: int, stream: int = 7) -> dict[str, Any]:
        return span("kernel", name, ts, dur, **GPU, stream=stream, correlation=number)

    dims = {"Input_Dims": [[8, 16], [16, 4]], "Input_type": ["float", "float"]}
    return load_core(
        [
            {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "args": {"name": "python"}},
            {"ph": "M", "name": "process_labels", "pid": 100, "tid": 0, "args": {"labels": "CPU"}},
            {"ph": "M", "name": "thread_name", "pid": 100, "tid": 1, "args": {"name": "main"}},
            span("cpu_op", "aten::linear", 0, 20, tid=1),
            span("cpu_op", "aten::mm", 1, 10, tid=1, **dims),
            launch("cudaLaunchKernel", 2, 1),
            launch("cudaLaunchKernel", 4, 2),
            kernel("gemm", 100, 10, 1),
            kernel("splitk", 105, 10, 2, stream=8),
            launch("cudaLaunchKernel", 15, 3),
            kernel("bias", 120, 4, 3),
            span("cpu_op", "aten::mm", 30, 10, tid=1, **dims),
            launch("cudaLaunchKernel", 31, 4),
            launch("cudaLaunchKernel", 33, 5),
            kernel("gemm", 130, 20, 4),
            kernel("splitk", 140, 20, 5, stream=8),
            span("cpu_op", "aten::mm", 50, 10, tid=1, Input_Dims=[[2, 2], [2, 2]]),
            launch("cudaLaunchKernel", 51, 6),
            kernel("gemm", 170, 3, 6),
            span("cpu_op", "record_param_comms", 60, 5, tid=1),
            launch("cudaLaunchKernel", 61, 7),
            kernel("ncclDevKernel_AllReduce", 170, 50, 7, stream=9),
            launch("cudaGraphLaunch", 80, 8),
            kernel("replayed", 230, 7, 8),
            kernel("before", 90, 6, 99),
        ]
    )


def test_a_call_in_another_of_its_name_counts_once() -> None:
    """As `aten::div` of PyTorch 1.8, which calls itself with an operand of another type; here both launch."""

    def launched(number: int, ts: float, dur: float) -> list[dict[str, Any]]:
        return [
            span("cuda_runtime", "cudaLaunchKernel", ts, 1, tid=1, correlation=number),
            span("kernel", f"k{number}", 100 * number, dur, **GPU, stream=7, correlation=number),
        ]

    core = load_core([
        span("cpu_op", "aten::div", 0, 20, tid=1), *launched(1, 1, 8), span("cpu_op", "aten::div", 5, 10, tid=1),
        *launched(2, 6, 4), span("cpu_op", "aten::div", 30, 10, tid=1), *launched(3, 31, 2),
    ])  # fmt: skip
    (row,) = ops_summary(core).records()
    assert (row["Count"], row["total_direct_kernel_time_sum"], row["total_subtree_kernel_time_sum"]) == (3, 14, 14)
    assert named(core.everything, "aten::div").charged_ns.tolist() == [14_000]


def by(table: Any, key: str) -> dict[str, dict[str, Any]]:
    return {row[key]: row for row in table.records()}


def test_known_answers_by_name() -> None:
    rows = by(ops_summary(two_shapes()), "name")
    assert list(rows) == ["record_param_comms", "aten::mm", "cudaGraphLaunch", "aten::linear", NO_LAUNCH]
    mm = rows["aten::mm"]
    assert (mm["Count"], mm["Categories"]) == (3, ["GEMM"])
    assert mm["total_direct_kernel_time_sum"] == 15 + 30 + 3
    assert mm["total_direct_kernel_time_ms"] == pytest.approx(0.048)
    linear = rows["aten::linear"]
    assert (linear["total_direct_kernel_time_sum"], linear["total_subtree_kernel_time_sum"]) == (4, 15 + 4)
    assert (rows[NO_LAUNCH]["Count"], rows[NO_LAUNCH]["total_direct_kernel_time_sum"]) == (1, 6)
    assert rows[NO_LAUNCH]["Cumulative Percentage (%)"] == pytest.approx(100)
    assert mm["Percentage (%)"] == pytest.approx(100 * 48 / (50 + 48 + 7 + 4 + 6))


def test_linked_only_leaves_out_communication_and_what_has_no_launch() -> None:
    core = two_shapes()
    assert list(by(ops_summary(core, True), "name")) == ["aten::mm", "cudaGraphLaunch", "aten::linear"]
    assert set(by(ops_summary_by_category(core, True), "op category")) == {"GEMM", "Other"}
    table = ops_summary(core, linked_only=True)
    assert "without communication and GPU events without a launch" in table.title
    assert any("have no launch in the trace: left out" in note for note in table.notes)


def test_known_answers_by_category() -> None:
    rows = by(ops_summary_by_category(two_shapes()), "op category")
    assert list(rows)[-1] == UNLINKED
    assert {name: row["Count"] for name, row in rows.items()} == {
        "Communication": 1, "GEMM": 4, "Other": 1, UNLINKED: 1,
    }  # fmt: skip


def test_known_answers_by_arguments() -> None:
    rows = ops_unique_args(two_shapes(), first_occurrence=True).records()
    mm = next(row for row in rows if row["Input Dims"] == [[8, 16], [16, 4]])
    assert (mm["name"], mm["operation_count"], mm["ex_UID"]) == ("aten::mm", 2, 4)
    assert (mm["process_name"], mm["process_label"], mm["thread_name"]) == ("python", "CPU", "main")
    assert mm["first_occurrence_time"] == 1
    assert [mm[f"total_direct_kernel_time_{which}"] for which in ("mean", "median", "min", "max", "sum")] == [
        22.5, 22.5, 15, 30, 45,
    ]  # fmt: skip
    assert mm["total_direct_kernel_time_std"] == pytest.approx(np.std([15, 30], ddof=1))
    assert [(e["name"], e["stream"], e["count"], e["total_duration_us"]) for e in mm["kernel_details_summary"]] == [
        ("gemm", 7, 2, 30), ("splitk", 8, 2, 30),
    ]  # fmt: skip
    other = next(row for row in rows if row["Input Dims"] == [[2, 2], [2, 2]])
    assert np.isnan(other["total_direct_kernel_time_std"])
    assert rows[-1]["name"] == NO_LAUNCH
    assert rows[-1]["ex_UID"] is None
    assert [e["name"] for e in rows[-1]["kernel_details_summary"]] == ["before"]


def test_calls_with_other_numbers_of_kernels_are_split_or_counted() -> None:
    core = two_shapes()
    plain = ops_unique_args(core)
    assert not any("another number" in note for note in plain.notes)
    split = ops_unique_args(core, by_kernel_count=True)
    assert {row["num_kernels"] for row in split.records()[:-1]} == {1, 2}


def test_names_that_differ_by_spelling_only_are_one_row() -> None:
    """Argument sets are kept as the file spells them; blanks make no difference."""
    text = (
        '{"traceEvents": ['
        '{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":0,"dur":5,"args":{"Input Dims":[[1,2]]}},'
        '{"ph":"X","cat":"cuda_runtime","name":"launch","pid":1,"tid":1,"ts":1,"dur":1,"args":{"correlation":1}},'
        '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":9,"dur":5,"args":{"correlation":1}},'
        '{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":20,"dur":5,"args":{"Input Dims":[[1, 2]]}},'
        '{"ph":"X","cat":"cuda_runtime","name":"launch","pid":1,"tid":1,"ts":21,"dur":1,"args":{"correlation":2}},'
        '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":29,"dur":5,"args":{"correlation":2}}]}'
    )
    import io

    table = ops_unique_args(load_core(io.BytesIO(text.encode())))
    assert [(row["operation_count"], row["Input Dims"]) for row in table.records()] == [(2, [[1, 2]])]


def check_sums(w: Window) -> None:
    """Every GPU event is charged once, and three tables tell the same of it."""
    c = w.core.columns
    found = launchers(w)
    assert np.array_equal(np.sort(np.concatenate((found.gpu, found.unlinked))), w.gpu_rows)
    assert int(c.dur_ns[found.gpu].sum()) + int(c.dur_ns[found.unlinked].sum()) == int(c.dur_ns[w.gpu_rows].sum())
    assert (found.direct_ns <= np.bincount(found.of, c.dur_ns[found.gpu], len(found))).all()
    assert (found.direct_ns <= found.subtree_ns).all()
    for linked_only in (False, True):
        by_name, by_category = ops_summary(w, linked_only), ops_summary_by_category(w, linked_only)
        by_args = ops_unique_args(w, linked_only, recompute=True, by_module=True, by_kernel_count=True)
        total = np.sum(by_name["total_direct_kernel_time_sum"])
        assert np.sum(by_category["total_direct_kernel_time_ms"]) * 1000 == pytest.approx(total, abs=1e-6)
        assert np.sum(by_args["total_direct_kernel_time_sum"]) == pytest.approx(total, abs=1e-6)
        counts = [np.sum(t[column]) for t, column in
                  ((by_name, "Count"), (by_category, "Count"), (by_args, "operation_count"))]  # fmt: skip
        assert len(set(counts)) == 1
        for table in (by_name, by_category, by_args):
            if len(table) and total:
                assert np.sum(table["Percentage (%)"]) == pytest.approx(100)
                assert np.asarray(table["Cumulative Percentage (%)"])[-1] == pytest.approx(100)


@given(traces())
def test_every_event_is_charged_once_on_made_traces(trace: dict[str, object]) -> None:
    core = load_core(trace)
    check_sums(core.everything)
    check_sums(core.window(after_ns=20))


@parametrize("path", chosen_traces())
def test_every_event_is_charged_once_on_real_traces(path: Path) -> None:
    core = loaded(path)
    check_sums(core.everything)
    steps = [int(step.name.rpartition("#")[2]) for step in core.steps()]
    parts = [launchers(core.window(step=number)) for number in dict.fromkeys(steps)]
    for part in parts[:3]:
        check_sums(part.window)
    # Steps partition the launchers, so also their busy times.
    stepped = core.window(step=set(steps)) if steps else None
    if stepped is not None:
        assert sum(int(part.direct_ns.sum()) for part in parts) == int(launchers(stepped).direct_ns.sum())


@parametrize("path", chosen_traces())
def test_a_window_over_everything_is_no_window(path: Path) -> None:
    core = loaded(path)
    everything = core.window(after_ns=-(2**62))
    for table in (ops_summary, ops_summary_by_category, ops_unique_args):
        ours, whole = table(everything), table(core)
        assert {n: str(v) for n, v in ours.columns.items()} == {n: str(v) for n, v in whole.columns.items()}


def trace(kernels: list[tuple[int, int, int, int]]) -> Core:
    """An op per number; kernels as (op, start, duration, stream), all launched before any of them runs."""
    events = []
    for number in sorted({number for number, *_ in kernels}):
        events.append(span("cpu_op", f"op{number}", 100 * number, 90))
    for i, (number, start, dur, stream) in enumerate(kernels):
        events.append(span("cuda_runtime", "cudaLaunchKernel", 100 * number + 1 + i, 0.5, correlation=i + 1))
        events.append(
            span(
                "kernel",
                f"k{number}",
                10_000 + start,
                dur,
                pid=0,
                tid=stream,
                device=0,
                stream=stream,
                correlation=i + 1,
            )
        )
    return load_core(events)


def test_known_answer() -> None:
    core = trace([(0, 0, 10, 1), (1, 5, 10, 2), (1, 30, 10, 1), (0, 9.5, 1, 2)])  # type: ignore[list-item]
    rows = {row["name"]: row for row in ops_unique_args(core, overlapping=True).records()}
    assert rows["op0"]["overlapping_kernel_names"] == ["k1"]
    assert rows["op0"]["overlap_pct_mean"] == pytest.approx(0.48)  # 5 of 10.5 us
    (beside,) = rows["op1"]["overlapping_kernels_details_summary"]
    assert (beside["name"], beside["stream"], beside["count"], beside["total_duration_us"]) == ("k0", 1, 1, 10)
    assert "overlap_pct_mean" not in ops_unique_args(core).columns


def test_calls_with_other_kernels_beside_them_are_rows_of_their_own() -> None:
    """Two kernels of one name beside a call are not one; shares in hundredths make a mean with more digits."""
    events = []
    for n, (start, dur, stream, kernel) in enumerate([
        (0, 90, 1, "a"), (1_000, 90, 1, "a"), (2_000, 90, 1, "a"),
        (0, 30, 2, "b"), (40, 20, 2, "b"), (1_000, 60, 2, "b"), (2_000, 11, 2, "b"),
    ]):  # fmt: skip
        name = "op0" if n < 3 else "op1"
        events += [
            span("cpu_op", name, 10_000 + 20 * n, 10), call(10_001 + 20 * n, n + 1),
            gpu(20_000 + start, dur, n + 1, kernel, stream=stream),
        ]  # fmt: skip
    found = [row for row in ops_unique_args(load_core(events), overlapping=True).records() if row["name"] == "op0"]
    beside = {tuple(row["overlapping_kernel_names"]): row for row in found}
    assert beside.keys() == {("b", "b"), ("b",)}
    assert beside["b", "b"]["overlap_pct_mean"] == pytest.approx(0.56)  # 50 of 90 us
    assert beside["b",]["overlap_pct_mean"] == pytest.approx((0.67 + 0.12) / 2)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 20), st.integers(1, 3)), max_size=12))
def test_pairs_are_those_found_one_by_one(kernels: list[tuple[int, int, int, int]]) -> None:
    found = launchers(trace(kernels).everything)
    c = found.core.columns
    expected = set()
    covered: dict[int, set[int]] = {i: set() for i in range(len(found))}
    for a, of_a in zip(found.gpu.tolist(), found.of.tolist(), strict=True):
        for b, of_b in zip(found.gpu.tolist(), found.of.tolist(), strict=True):
            low, high = max(c.start_ns[a], c.start_ns[b]), min(c.end_ns[a], c.end_ns[b])
            if of_a != of_b and c.stream[a] != c.stream[b] and high - low >= SHORTEST_NS:
                expected.add((of_a, b))
                covered[of_a] |= set(range(int(low) // 1000, int(high) // 1000))
    beside = overlap(found)
    assert {tuple(pair) for pair in beside.beside.tolist()} == expected
    for number in range(len(found)):
        busy = found.direct_ns[number]
        assert beside.share[number] == pytest.approx(1000 * len(covered[number]) / busy if busy else 0)
    assert np.all(beside.share <= 1)


@pytest.mark.parametrize(
    ("total_us", "calls", "mean_us"),
    [(1890.9, 12, 157.58), (16.46, 4, 4.12), (2.325, 1, 2.32), (2.335, 1, 2.34), (1.0, 3, 0.33), (2.0, 3, 0.67)],
)
def test_half_a_hundredth_goes_to_the_even_one(total_us: float, calls: int, mean_us: float) -> None:
    rest = round(1000 * total_us) - 7 * (calls - 1)
    durations = [0.007] * (calls - 1) + [rest / 1000]
    trace = [op("aten::mm", launch()) for _ in durations]
    core = load({FORWARD: trace})
    c = core.columns
    dur = c.dur_ns.copy()
    dur[core.gpu_rows] = [round(1000 * one) for one in durations]
    object.__setattr__(c, "dur_ns", dur)
    found = launchers(core.everything)
    group, first = group_by(c.name[found.rows])
    ((details,), notes) = details_of_groups(found, group, first)
    assert (details[0]["count"], notes) == (calls, [])
    assert truncated(details)[0]["mean_duration_us"] == mean_us
