"""Short kernels: known answers, reference tables, and counts that must add up."""

from __future__ import annotations

import ast
import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import span
from hypothesis import given
from hypothesis import strategies as st
from made_traces import traces

from corpus import cases, chosen_traces, loaded, needs_goldens, parametrize, reference_tables
from tracelens_graph.analyses.kernels.short_kernels import ARGUMENTS, short_kernel_histogram, short_kernels_summary
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind

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
    # Types do not tell rows apart.
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


def check_sums(g: Core | Window, threshold: float) -> None:
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
        check_sums(g, threshold)
    assert totals(core, threshold) == tuple(np.add(totals(before, threshold), totals(after, threshold)).tolist())


@parametrize("path", chosen_traces())
def test_counts_add_up_on_real_traces(path: Path) -> None:
    core = loaded(path)
    for threshold in (2.5, 10, 1e6):
        check_sums(core, threshold)


def of_reference(table: str) -> list[object]:
    return cases(reference_tables(table, "full"), needs=needs_goldens, width=2)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("golden", "trace"), of_reference("short_kernel_histogram"))
def test_histograms_equal_the_reference(golden: Path, trace: Path) -> None:
    expected, found = read(golden), short_kernel_histogram(loaded(trace))
    assert list(found.columns) == list(expected[0])
    assert found["count"].tolist() == [int(row["count"]) for row in expected]
    for edge in ("bin_start", "bin_end"):
        assert found[edge].tolist() == pytest.approx([float(row[edge]) for row in expected], abs=1e-9)


def parsed(cell: Any) -> Any:
    """A cell of the reference with lists instead of tuples."""
    if isinstance(cell, tuple | list):
        return [parsed(part) for part in cell]
    return parsed(ast.literal_eval(cell)) if isinstance(cell, str) and cell.startswith("(") else cell


@pytest.mark.parametrize(("golden", "trace"), of_reference("short_kernels_summary"))
def test_summaries_equal_the_reference(golden: Path, trace: Path) -> None:
    expected, table = read(golden), short_kernels_summary(loaded(trace), linked_only=True)
    assert list(table.columns) == [*expected[0], "ex_UID"]
    arguments = [name for name in ARGUMENTS if name in expected[0]]
    keys = [name for name in expected[0] if name in ("Parent cpu_op", "Kernel name", *arguments)]
    # The reference drops kernels without an op above them: where the op's arguments are missing.
    ours = [row for row in table.records() if all(row[name] is not None for name in arguments)]
    assert [row[SUM] for row in ours] == pytest.approx([float(row[SUM]) for row in expected], abs=0.001)
    theirs = {str([parsed(row[name]) for name in keys]): row for row in expected}
    assert len(theirs) == len(ours)
    for row in ours:
        reference = theirs[str([row[name] for name in keys])]
        assert row[COUNT] == int(reference[COUNT])
        for name in (SUM, MEAN, SHARE):
            assert row[name] == pytest.approx(float(reference[name]), abs=0.001)
