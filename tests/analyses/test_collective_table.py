"""The table of collectives: known answers, odd arguments, reference tables, and kernels that must not get lost."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import span
from hypothesis import given
from hypothesis import strategies as st
from made_traces import traces

from corpus import cases, chosen_traces, loaded, needs_goldens, parametrize, reference_tables
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, gpu_classes
from tracelens_graph.analyses.timeline.collectives import COLL_ANALYSIS, coll_analysis
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.csv import write_csv
from tracelens_graph.schema import Kind
from tracelens_graph.tables.table import Table

ARGUMENTS = {
    "Collective name": "allreduce", "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Group size": 2,
    "dtype": "BFloat16", "In msg nelems": 2**19, "Out msg nelems": 2**20, "In split size": "[]", "Out split size": "[]",
}  # fmt: skip


def kernel(ts: float, dur: float, correlation: int = -1, name: str = "ncclDevKernel_X", **args: Any) -> dict[str, Any]:
    event = span("kernel", name, ts, dur, 0, 7, device=0, stream=7, correlation=correlation)
    event["args"] |= args
    return event


def test_known_answer() -> None:
    events = [
        kernel(0, 10, **ARGUMENTS),
        kernel(20, 14, **ARGUMENTS),
        kernel(40, 3, **ARGUMENTS | {"dtype": "Float8_e4m3fn"}),
        kernel(50, 100),
        kernel(200, 5, name="gemm"),
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
    table = coll_analysis(load_core([kernel(0, 1, **{"Collective name": "barrier"}), kernel(2, 1, **ARGUMENTS)]))
    assert table["operation_count"].tolist() == [1, 1]
    (row,) = (row for row in table.records() if row["Collective name"] == "barrier")
    empty = ("Process Group Name", "Process Group Ranks", "Group size", "dtype", "In msg nelems", "In split size")
    assert {row[column] for column in empty} == {None}
    assert math.isnan(row["In msg size (MB)_first"])
    assert not table.notes


def test_arguments_that_cannot_be_read_stay_text() -> None:
    odd = {"Group size": "many", "Process Group Ranks": "[0, 1, ...]", "In split size": "[1.5]", "dtype": "Quaternion",
           "In msg nelems": 10**400, "Out split size": [1, 2]}  # fmt: skip
    table = coll_analysis(load_core([kernel(0, 1, **ARGUMENTS | odd)]))
    (row,) = table.records()
    assert (row["Group size"], row["Process Group Ranks"], row["In split size"]) == ("many", "[0, 1, ...]", "[1.5]")
    assert row["Out split size"] == [1, 2]
    assert math.isnan(row["Out msg size (MB)_first"])
    assert list(table.notes) == ["no size is known for elements of type Quaternion"]


def test_a_kernel_without_arguments_has_those_of_its_op() -> None:
    op = span("cpu_op", "record_param_comms", 0, 10)
    op["args"] |= ARGUMENTS
    launch = span("cuda_runtime", "cudaLaunchKernel", 2, 1, correlation=4)
    table = coll_analysis(load_core([op, launch, kernel(20, 6, 4)]))
    assert (list(table["Collective name"]), table["dur_sum"].tolist()) == (["allreduce"], [6.0])
    assert list(table.notes) == [
        "1 communication kernels carry no arguments of their own: shown with those of their op"
    ]


@pytest.mark.parametrize(
    ("events", "note"),
    [
        ([], "the trace has no communication kernels"),
        ([span("cpu_op", "aten::add", 0, 1)], "the trace has no communication kernels"),
        ([kernel(0, 1, name="gemm")], "the trace has no communication kernels"),
        ([kernel(0, 1)], "1 communication kernels (0.001 ms) carry no arguments: left out"),
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


def check_sums(g: Core | Window) -> None:
    w, table = window_of(g), coll_analysis(g)
    core, kernels = w.core, w.rows_of_kind(Kind.Kernel)
    named = gpu_classes(core, kernels) == COMMUNICATION
    own = np.isin(core.columns.uid[kernels], list(core.collective_args))
    assert sum(table["operation_count"]) + left_out(table) == np.count_nonzero(named | own)
    assert not own.any() or sum(table["dur_sum"]) * 1000 >= core.columns.dur_ns[kernels[own]].sum() - 0.5


@given(traces(), st.integers(0, 60))
def test_every_communication_kernel_is_shown_or_counted(trace: dict[str, Any], cut: int) -> None:
    core = load_core(trace)
    check_sums(core)
    parts = [coll_analysis(core.window(before_ns=cut)), coll_analysis(core.window(after_ns=cut))]
    assert sum(coll_analysis(core)["operation_count"]) == sum(sum(part["operation_count"]) for part in parts)


@parametrize("path", chosen_traces())
def test_every_communication_kernel_is_shown_or_counted_on_real_traces(path: Path) -> None:
    check_sums(loaded(path))


@pytest.mark.parametrize(
    ("golden", "trace"), cases(reference_tables("coll_analysis", "default", "full"), needs=needs_goldens, width=2)
)
def test_equals_the_reference(golden: Path, trace: Path, tmp_path: Path) -> None:
    written = tmp_path / "coll_analysis.csv"
    with written.open("w", newline="") as file:
        write_csv(coll_analysis(loaded(trace)), file)
    with golden.open(newline="") as theirs, written.open(newline="") as ours:
        expected, found = list(csv.DictReader(theirs)), list(csv.DictReader(ours))
    assert [list(row) for row in found] == [list(row) for row in expected]
    texts = {"Process Group Name", "Process Group Ranks", "Collective name", "dtype", "In split size", "Out split size"}
    for row, reference in zip(found, expected, strict=True):
        assert {name: row[name] for name in texts} == {name: reference[name] for name in texts}
        for name in row.keys() - texts:
            assert bool(row[name]) == bool(reference[name])
            if row[name]:
                assert float(row[name]) == pytest.approx(float(reference[name]), abs=0.001)
