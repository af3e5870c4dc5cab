"""What people are shown of tables."""

from __future__ import annotations

import numpy as np
import pytest
from handmade import small_trace

from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.loading.one import load_core
from tracelens_graph.registry import about_columns
from tracelens_graph.reports.views import column_named, sort, top, view
from tracelens_graph.tables.table import Table


def test_an_instance_is_shown_with_what_perfetto_finds_it_by() -> None:
    core = load_core(small_trace())
    (row, lone) = view(report_tables(core)["ops_unique_args"], core).records()
    places = (row["op"], row["uid"], row["ext id"], row["pid/tid"], row["start ms"])
    assert places == ("aten::addmm", 6, 2, "100/100", 0.04)
    assert (lone["op"], lone["uid"], lone["pid/tid"], lone["start ms"]) == ("(no launch in trace)", None, "", None)


def test_a_family_of_operations_is_shown_by_its_parameters() -> None:
    columns = {
        "name": ["aten::mm"], "param: M": [4], "param: bias": [False], "GFLOPS_first": [1.0], "TB/s_mean": [2.0],
        "TB/s_std": [0.1], "Kernel Time (µs)_sum": [5.0], "name_count": [3], "UID_first": [6],
    }  # fmt: skip
    sheet = Table("GEMM", columns, about_columns("GEMM", columns))
    (row,) = view(sheet, load_core(small_trace())).records()
    shown = {name: value for name, value in row.items() if name not in ("ext id", "pid/tid", "start ms")}
    assert shown == {
        "op": "aten::mm", "M": 4, "bias": False, "calls": 3, "sum us": 5.0, "GFLOP": 1.0, "TB/s": 2.0, "uid": 6,
    }  # fmt: skip
    assert column_named(sheet, "sum us") == "Kernel Time (µs)_sum"


def test_shapes_are_short() -> None:
    columns = {"name": ["a"], "Input Dims": [[[8, 16], [], [4]]], "ex_UID": [None]}
    table = Table("ops_unique_args", columns, about_columns("ops_unique_args", columns))
    (row,) = view(table, load_core(small_trace())).records()
    assert row["shapes"] == "[8,16] [4]"


def test_rows_that_look_alike_are_told_apart() -> None:
    core = load_core(small_trace())

    def shown(strides: list[str | None], values: list[str], ops: str = "aaa") -> list[str]:
        columns = {"op": list(ops), "input_dims": ["[[4],[]]"] * 3, "input_types": ['["float",""]'] * 3,
                   "input_strides": strides, "concrete_inputs": values, "calls": np.arange(3)}  # fmt: skip
        found = view(Table("calls_by_arguments", columns, about_columns("calls_by_arguments", columns)), core)
        assert list(found.columns)[:3] == ["op", "sizes", "types"]
        assert [row["sizes"] for row in found.records()] == ["[4]"] * 3
        return list(found.columns.get("differs by", []))

    same, one = ["[[1],[]]"] * 3, ['["","1"]'] * 3
    assert shown(same, one) == []
    assert shown(same, ['["","1"]', '["",""]', '["","True"]']) == ["1", "-", "True"]
    assert shown(same, ['["","1"]', '["","2"]', '["","2"]'], "aab") == ["1", "2", ""]
    assert shown(["[[1],[]]", "[[2],[]]", None], one) == ["[[1], []]", "[[2], []]", "-"]
    assert shown(["[[1],[]]", "[[2],[]]", "[[2],[]]"], ['["","1"]', '["","1"]', '["x","1"]']) == [
        "[1]; -", "[2]; -", "[2]; x",
    ]  # fmt: skip


def test_the_top_rows_and_those_in_brackets() -> None:
    table = Table("t", {"name": ["a", "b", "c", "(no op)"], "n": np.arange(4)}, notes=["a note"])
    cut = top(table, 2)
    assert [row["name"] for row in cut.records()] == ["a", "b", "(no op)"]
    assert list(cut.notes) == ["a note", "1 more row (--top 0 shows all)"]
    assert top(table, 0) is table
    assert top(table, 4) is table


@pytest.mark.parametrize(("column", "order"), [("n", [2, 0, 1]), ("name", [1, 2, 0]), ("maybe", [1, 0, 2])])
def test_sorting(column: str, order: list[int]) -> None:
    table = Table("t", {"name": ["c", "a", "b"], "n": np.array([2.0, np.nan, 3.0]), "maybe": [1, 5, None]})
    assert [row["name"] for row in sort(table, column).records()] == [["c", "a", "b"][i] for i in order]


def test_columns_are_found_by_name_and_by_heading() -> None:
    table = Table("ops_summary", {"name": [], "Count": []}, about_columns("ops_summary", ("name", "Count")))
    assert column_named(table, "Count") == "Count"
    assert column_named(table, "calls") == "Count"
    assert column_named(table, "GPU ms") is None
    assert column_named(table, "nothing") is None
