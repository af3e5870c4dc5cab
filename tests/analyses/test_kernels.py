"""Tables of kernels: by name, by what they do, short ones; known answers, reference tables, sums."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import HOSTILE, small_trace, span
from hypothesis import given
from hypothesis import strategies as st
from made_traces import traces

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.kernels.kernels import (
    KERNEL_CATEGORY_DETAIL,
    KERNEL_CATEGORY_SUMMARY,
    kernel_category_detail,
    kernel_category_summary,
    kernel_summary,
)
from tracelens_graph.analyses.kernels.short_kernels import short_kernel_histogram, short_kernels_summary
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH, UNLINKED
from tracelens_graph.errors import AnalysisError
from tracelens_graph.extensions.loading import load_extension
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind


def test_known_answer() -> None:
    first, second = kernel_summary(load_core(small_trace())).records()
    assert (first["Parent op category"], first["Parent cpu_op"], first["Kernel name"]) == (
        "GEMM",
        "aten::addmm",
        "gemm",
    )
    assert (first["Kernel stream"], first["ex_UID"]) == (7, 9)
    assert [first[f"Kernel duration (µs)_{which}"] for which in ("sum", "count", "mean", "min", "max")] == [
        50.25, 1, 50.25, 50.25, 50.25,
    ]  # fmt: skip
    assert first["Percent of kernels time (%)"] == pytest.approx(100 * 50.25 / 80.25)
    assert first["Percent of total time (%)"] == pytest.approx(100 * 50.25 / (1160 - 1001))
    assert (second["Parent op category"], second["Parent cpu_op"], second["Kernel name"]) == (
        UNLINKED, NO_LAUNCH, HOSTILE,
    )  # fmt: skip


def test_launches_outside_of_ops_have_the_category_of_their_kernels() -> None:
    core = load_core(
        [
            span("cuda_runtime", "cudaLaunchKernel", 0, 1, correlation=1),
            span("cuda_runtime", "cudaGraphLaunch", 2, 1, correlation=2),
            span("kernel", "softmax_kernel", 10, 9, correlation=1),
            span("kernel", "gemm", 20, 1, correlation=2),
            span("kernel", "softmax_kernel", 22, 2, correlation=2),
        ]
    )
    assert [(row["Parent op category"], row["Parent cpu_op"]) for row in kernel_summary(core).records()] == [
        ("Softmax", "cudaLaunchKernel"), ("graph", "cudaGraphLaunch"), ("graph", "cudaGraphLaunch"),
    ]  # fmt: skip


def check_sums(core: Core) -> None:
    c = core.columns
    kernels = core.gpu_rows[c.kind[core.gpu_rows] == Kind.Kernel]
    table = kernel_summary(core)
    assert np.sum(table["Kernel duration (µs)_count"]) == len(kernels)
    assert np.sum(table["Kernel duration (µs)_sum"]) == pytest.approx(int(c.dur_ns[kernels].sum()) / 1000, abs=1e-6)
    if c.dur_ns[kernels].sum():
        assert np.sum(table["Percent of kernels time (%)"]) == pytest.approx(100)


@given(traces())
def test_every_kernel_is_in_one_row_of_made_traces(trace: dict[str, object]) -> None:
    check_sums(load_core(trace))


@parametrize("path", chosen_traces())
def test_every_kernel_is_in_one_row_of_real_traces(path: Path) -> None:
    check_sums(loaded(path))


NVJET = "nvjet_tst_320x128_64x3_1x2_h_bz_coopB_TNT"
SCALE = (
    "void tensorrt_llm::common::scaleMatrix<(tensorrt_llm::common::QuantizeMode)1, __nv_bfloat16, float, "
    "__nv_fp8_e4m3>(__nv_bfloat16*, float const*, __nv_fp8_e4m3 const*, long, long)"
)


def graph_launch(launch: str = "cudaGraphLaunch") -> list[dict[str, object]]:
    """One launch of a graph of six kernels: 0.22, 0.15 and 0.08 ms."""
    kernels = [(NVJET, 120), ("kernel_mha", 50), (SCALE, 30), (NVJET, 100), ("kernel_mha", 100), (SCALE, 50)]
    return [
        span("cuda_runtime", launch, 0, 20, correlation=7),
        *(
            span("kernel", name, 100 + 200 * i, us, 0, 7, correlation=7, stream=7)
            for i, (name, us) in enumerate(kernels)
        ),
    ]


def test_graph_launch() -> None:
    core = load_core(graph_launch())
    assert [tuple(row.values()) for row in kernel_category_detail(core).records()] == [
        ("graph", "GEMM", NVJET, 2, 0.22, 110),
        ("graph", "Flash Attention Forward", "kernel_mha", 2, 0.15, 75),
        ("graph", "Memory Ops", SCALE, 2, 0.08, 40),
    ]
    summary = kernel_category_summary(core)
    assert list(summary.columns) == ["cpu_op", "kernel_category", "count", "total_time_ms", "% of graph time"]
    assert [
        (row["kernel_category"], row["total_time_ms"], f"{row['% of graph time']:.1f} %") for row in summary.records()
    ] == [
        ("GEMM", 0.22, "48.9 %"),
        ("Flash Attention Forward", 0.15, "33.3 %"),
        ("Memory Ops", 0.08, "17.8 %"),
    ]
    assert sum(summary["total_time_ms"]) == pytest.approx(0.45)
    assert set(summary["cpu_op"]) == {"graph"}
    assert summary.about.keys() == summary.columns.keys()
    assert list(summary.notes) == []
    kernels = kernel_summary(core, kernel_categories=True)
    assert set(kernels["Parent op category"]) == {"graph"}
    assert list(kernels["kernel_category"]) == ["GEMM", "Flash Attention Forward", "Memory Ops"]


def test_share_is_of_the_graph_only_if_nothing_else_launches() -> None:
    assert "% of graph time" in kernel_category_summary(load_core(graph_launch("hipGraphLaunch"))).columns
    beside = span("cuda_runtime", "cudaLaunchKernel", 50, 5, correlation=9)
    own = span("kernel", "sgemm", 5000, 60, 0, 7, correlation=9, stream=7)
    rows = kernel_category_summary(load_core([*graph_launch(), beside, own])).records()
    assert [(row["cpu_op"], row["kernel_category"]) for row in rows] == [
        ("graph", "GEMM"),
        ("graph", "Flash Attention Forward"),
        ("graph", "Memory Ops"),
        ("cudaLaunchKernel", "GEMM"),
    ]
    assert [row["% of parent time"] for row in rows] == pytest.approx([100 * 22 / 45, 100 * 15 / 45, 100 * 8 / 45, 100])
    assert "% of parent time" in kernel_category_summary(load_core([*graph_launch(), own | {"args": {}}])).columns
    op_of_that_name = [span("cpu_op", "cudaGraphLaunch", 0, 100), *graph_launch("cudaLaunchKernel")]
    assert "% of parent time" in kernel_category_summary(load_core(op_of_that_name)).columns


def test_ops_and_kernels_without_a_launch() -> None:
    detail = kernel_category_detail(load_core(small_trace()))
    assert list(detail.columns) == list(KERNEL_CATEGORY_DETAIL)
    assert [tuple(row.values()) for row in detail.records()] == [
        ("aten::addmm", "GEMM", "gemm", 1, 0.05025, 50.25),
        (NO_LAUNCH, "Other", HOSTILE, 1, 0.03, 30),
    ]
    assert list(detail.notes) == [
        "1 GPU events (29.9 % of GPU time) have no launch in the trace: included",
        "1 copies and fills (0.020 ms) are not kernels: left out",
        "37.4 % of kernel time is in Other: no rule fits these names",
    ]
    summary = kernel_category_summary(load_core(small_trace()))
    assert [row["% of parent time"] for row in summary.records()] == [100, 100]


def test_kernels_without_a_launch_come_last_however_long() -> None:
    core = load_core(
        [
            span("cuda_runtime", "cudaLaunchKernel", 0, 1, correlation=1),
            span("kernel", "sgemm", 10, 2, correlation=1),
            span("kernel", "softmax", 20, 500),
            span("kernel", "softmax", 600, 0),
        ]
    )
    assert list(kernel_category_summary(core)["cpu_op"]) == ["cudaLaunchKernel", NO_LAUNCH]
    assert list(kernel_category_detail(core)["count"]) == [1, 2]
    assert list(kernel_category_detail(core)["avg_time_us"]) == [2, 250]


def test_the_op_takes_part_in_the_decision() -> None:
    def fill(op: str) -> list[dict[str, object]]:
        return [
            span("cpu_op", op, 0, 10),
            span("cuda_runtime", "hipLaunchKernel", 1, 2, correlation=1),
            span("kernel", "__amd_rocclr_fillBufferAligned", 20, 5, correlation=1),
        ]

    for op, category in (("aten::convolution_backward", "Convolution"), ("aten::zero_", "Memory Ops")):
        core = load_core(fill(op))
        assert list(kernel_category_summary(core)["kernel_category"]) == [category]
        assert list(kernel_summary(core, kernel_categories=True)["kernel_category"]) == [category]


def test_own_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text('[[rule]]\ncategory = "MoE"\npattern = "nvjet"\nop = "graphlaunch"\n')
    core = load_core(graph_launch())
    w = load_extension(file).of(core)
    assert kernel_category_summary(w)["kernel_category"][0] == "MoE"
    assert kernel_category_detail(w)["kernel_category"][0] == "MoE"
    assert kernel_summary(w, True)["kernel_category"][0] == "MoE"
    assert kernel_category_summary(core)["kernel_category"][0] == "GEMM"


def test_window() -> None:
    core = load_core(
        [
            span("cpu_op", "aten::mm", 0, 10),
            span("cuda_runtime", "cudaLaunchKernel", 1, 2, correlation=1),
            span("cpu_op", "aten::softmax", 20, 10),
            span("cuda_runtime", "cudaLaunchKernel", 21, 2, correlation=2),
            span("kernel", "sgemm", 30, 5, correlation=1),
            span("kernel", "softmax", 40, 5, correlation=2),
        ]
    )
    table = kernel_category_summary(core.window(under="aten::softmax"))
    assert list(table["kernel_category"]) == ["Softmax"]
    assert "aten::softmax" in table.title


def check_categories(core: Core) -> None:
    kernels = kernel_summary(core, kernel_categories=True)
    expected, counts = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    for row in kernels.records():
        parent = "graph" if row["Parent op category"] == "graph" else row["Parent cpu_op"]
        key = parent, row["kernel_category"], row["Kernel name"]
        expected[key] += row["Kernel duration (µs)_sum"]
        counts[key] += row["Kernel duration (µs)_count"]

    detail = kernel_category_detail(core).records()
    found = {(row["cpu_op"], row["kernel_category"], row["kernel_name"]): row for row in detail}
    assert len(found) == len(detail)
    assert found.keys() == expected.keys()
    for key, row in found.items():
        assert row["count"] == counts[key]
        assert row["total_time_ms"] * 1e3 == pytest.approx(expected[key], abs=1e-6)
        assert row["avg_time_us"] * row["count"] == pytest.approx(expected[key], abs=1e-6)

    summary = kernel_category_summary(core)
    share = summary.columns.keys() - {"cpu_op", "kernel_category", "count", "total_time_ms"}
    assert share <= KERNEL_CATEGORY_SUMMARY.keys()
    assert len(share) == 1
    wholes, shares = Counter[str](), Counter[str]()
    for row in summary.records():
        mine = [d for d in detail if (d["cpu_op"], d["kernel_category"]) == (row["cpu_op"], row["kernel_category"])]
        assert row["count"] == sum(d["count"] for d in mine)
        assert row["total_time_ms"] == pytest.approx(sum(d["total_time_ms"] for d in mine))
        wholes[row["cpu_op"]] += row["total_time_ms"]
        shares[row["cpu_op"]] += row[min(share)]
    assert all(shares[op] == pytest.approx(100) for op in wholes if wholes[op])

    ops = [row["cpu_op"] for row in summary.records()]
    assert list(dict.fromkeys(ops)) == [op for i, op in enumerate(ops) if i == 0 or ops[i - 1] != op]
    times = [wholes[op] for op in dict.fromkeys(ops) if op != NO_LAUNCH]
    assert np.all(np.diff(times) <= 1e-9)


@given(traces())
def test_sums_agree_with_the_table_of_kernels_on_made_traces(trace: dict[str, object]) -> None:
    check_categories(load_core(trace))


@parametrize("path", chosen_traces())
def test_sums_agree_with_the_table_of_kernels_on_real_traces(path: Path) -> None:
    check_categories(loaded(path))


SUM, COUNT, MEAN, SHARE = (
    "Short Kernel duration (µs) sum", "Short Kernel count", "Short Kernel duration (µs) mean",
    "Short Kernel duration (µs) percent of total time",
)  # fmt: skip


def kernel(ts: float, dur: float, correlation: int = -1, name: str = "k") -> dict[str, Any]:
    return span("kernel", name, ts, dur, 0, 7, device=0, stream=7, correlation=correlation)


def op(name: str, ts: float, correlation: int, **args: Any) -> list[dict[str, Any]]:
    """An op that launches the kernel of a correlation id."""
    return [
        span("cpu_op", name, ts, 3, **args),
        span("cuda_runtime", "cudaLaunchKernel", ts + 1, 1, correlation=correlation),
    ]


EVENTS = [
    *op("aten::add", 0, 1, Input_Dims=[[2, 3], []], Input_type=["float", "int"], Concrete_Inputs=["", "1"]),
    *op("aten::add", 10, 2, Input_Dims=[[2, 3], []], Input_type=["half", "int"], Concrete_Inputs=["", "1"]),
    *op("aten::add", 20, 3, Input_Dims=[[2, 4], []], Concrete_Inputs=["", "1"]),
    span("cuda_runtime", "cudaGraphLaunch", 30, 1, correlation=4),
    kernel(40, 2, 1),
    kernel(50, 4, 2),
    kernel(60, 1, 3),
    kernel(70, 9.999, 4),
    kernel(80, 10, 3),
    kernel(0, 8),
    span("gpu_memcpy", "Memcpy HtoD", 100, 1, 0, 7, device=0, stream=7),
]


def test_histogram_known_answer() -> None:
    table = short_kernel_histogram(load_core(EVENTS), 10, bins=3)
    width = (9.999 - 1) / 3
    assert table["bin_start"].tolist() == pytest.approx([1, 1 + width, 1 + 2 * width])
    assert table["bin_end"].tolist() == pytest.approx([1 + width, 1 + 2 * width, 9.999])
    assert table["count"].tolist() == [2, 1, 2]


def test_histogram_of_equal_lengths() -> None:
    table = short_kernel_histogram(load_core([kernel(0, 3), kernel(5, 3)]), bins=2)
    assert list(table.rows()) == [(2.5, 3.0, 0), (3.0, 3.5, 2)]


def test_summary_known_answer() -> None:
    core = load_core(EVENTS)
    table = short_kernels_summary(core)
    keys = [(row["Parent cpu_op"], row["Input dims"], row["Concrete Inputs"]) for row in table.records()]
    # Types do not separate rows.
    assert keys == [
        ("cudaGraphLaunch", None, None),
        (NO_LAUNCH, None, None),
        ("aten::add", [[2, 3], []], ["", "1"]),
        ("aten::add", [[2, 4], []], ["", "1"]),
    ]
    assert table[SUM].tolist() == [9.999, 8.0, 6.0, 1.0]
    assert table[COUNT].tolist() == [1, 1, 2, 1]
    assert table[MEAN].tolist() == [9.999, 8.0, 3.0, 1.0]
    assert table[SHARE].tolist() == pytest.approx([9.999 / 1.01, 8 / 1.01, 6 / 1.01, 1 / 1.01])
    assert [core.node(uid).dur_ns for uid in table["ex_UID"].tolist()] == [9999, 8000, 2000, 1000]
    assert list(table.notes) == ["1 short kernels (32.0 % of their time) have no launch in the trace: included"]
    linked = short_kernels_summary(core, linked_only=True)
    assert linked[SUM].tolist() == table[SUM].tolist()
    assert linked[SHARE].tolist() == pytest.approx([9.999 * 2, 16, 12, 2])


def test_without_ops_only_names_tell_rows_apart() -> None:
    events = [span("cuda_runtime", "a", 0, 1, correlation=1), span("cuda_runtime", "b", 2, 1, correlation=2)]
    table = short_kernels_summary(load_core([*events, kernel(5, 1, 1), kernel(7, 2, 2), kernel(9, 1, -1, "other")]))
    assert list(table.columns) == ["Kernel name", SUM, COUNT, MEAN, SHARE, "ex_UID"]
    assert [row[:3] for row in table.rows()] == [("k", 3.0, 2), ("other", 1.0, 1)]


@pytest.mark.parametrize(
    ("events", "note"),
    [
        ([], "the trace has no GPU events"),
        ([span("cpu_op", "aten::add", 0, 1)], "the trace has no GPU events"),
        ([kernel(0, 10)], "no kernel is shorter than 10 us"),
        ([span("gpu_memcpy", "Memcpy", 0, 1, 0, 7)], "no kernel is shorter than 10 us"),
    ],
    ids=["empty", "cpu-only", "long", "copies-only"],
)
def test_empty_tables_say_why(events: list[Any], note: str) -> None:
    core = load_core(events)
    for table in (short_kernel_histogram(core), short_kernels_summary(core)):
        assert len(table) == 0
        assert list(table.notes) == [note]


def test_one_kernel_of_no_length() -> None:
    core = load_core([kernel(0, 0)])
    assert short_kernel_histogram(core)["count"].sum() == 1
    assert np.isnan(short_kernels_summary(core)[SHARE]).tolist() == [True]


@pytest.mark.parametrize("threshold", [0, -1, float("nan"), float("inf")])
def test_thresholds_that_make_no_sense(threshold: float) -> None:
    core = load_core([kernel(0, 1)])
    for table in (short_kernel_histogram, short_kernels_summary):
        with pytest.raises(AnalysisError, match="positive number of microseconds"):
            table(core, threshold)


def test_no_bins() -> None:
    with pytest.raises(AnalysisError, match="at least one bin, not 0"):
        short_kernel_histogram(load_core([kernel(0, 1)]), bins=0)


def totals(g: Core | Window, threshold: float) -> tuple[int, int]:
    """Number of short kernels and their time in ns, as the summary has them."""
    table = short_kernels_summary(g, threshold)
    return int(np.sum(table[COUNT])), round(float(np.sum(table[SUM])) * 1000)


def check_short(g: Core | Window, threshold: float) -> None:
    w = window_of(g)
    dur = w.core.columns.dur_ns[w.rows_of_kind(Kind.Kernel)]
    short = dur[dur < threshold * 1000]
    assert totals(g, threshold) == (len(short), short.sum())
    histogram = short_kernel_histogram(g, threshold, bins=7)
    assert histogram["count"].sum() == len(short)
    assert np.all(histogram["bin_start"][1:] == histogram["bin_end"][:-1])


@given(traces(), st.integers(1, 60), st.integers(0, 60))
def test_counts_add_up_over_rows_and_windows(trace: dict[str, Any], threshold_ns: int, cut: int) -> None:
    core, threshold = load_core(trace), threshold_ns / 1000
    before, after = core.window(before_ns=cut), core.window(after_ns=cut)
    for g in (core, before, after):
        check_short(g, threshold)
    assert totals(core, threshold) == tuple(np.add(totals(before, threshold), totals(after, threshold)).tolist())


@parametrize("path", chosen_traces())
def test_counts_add_up_on_real_traces(path: Path) -> None:
    core = loaded(path)
    for threshold in (2.5, 10, 1e6):
        check_short(core, threshold)
