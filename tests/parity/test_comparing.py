"""The comparison itself: what it understands, what it lets pass, and that it notices everything else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from parity.comparing import CUMULATIVE, ORDER, ROW, Comparison, compare, equal, parsed
from parity.departures import Account, Departure, account

from tracelens_graph.tables.table import Table

TIME = "total_direct_kernel_time_sum"
THEIRS = [
    {"name": "aten::mm", TIME: "30.0", "Count": "3", "Categories": "['GEMM']", CUMULATIVE: "50.0"},
    {"name": "aten::add", TIME: "20.0", "Count": "2", "Categories": "['elementwise', 'other']", CUMULATIVE: "83.3"},
    {"name": "aten::mul", TIME: "10.0", "Count": "2", "Categories": "['elementwise']", CUMULATIVE: "100.0"},
]


def ours(**changes: Any) -> Table:
    columns: dict[str, Any] = {
        "name": ["aten::mm", "aten::add", "aten::mul"],
        TIME: np.array([30.0, 20.0, 10.0]),
        "Count": np.array([3, 2, 2]),
        "Categories": [["GEMM"], ["elementwise", "other"], ["elementwise"]],
        CUMULATIVE: np.array([50.0, 83.3, 100.0]),
        "more": [1, 2, 3],
    }
    return Table("ops_summary", columns | changes)


def against(table: Table, slack: float = 0.0) -> Comparison:
    return compare("ops_summary", THEIRS, table, lambda column, row: slack if column == TIME else 0.0)


def columns(comparison: Comparison) -> list[str]:
    return [difference.column for difference in comparison.differences]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("((2, 3), (), (4,))", [[2, 3], [], [4]]),
        ("['a', 'b\\'c']", ["a", "b'c"]),
        ("[{'name': 'k<np.float64(1)>', 'stream': 7, 'mean': np.float64(1.5), 'x': -2}]",
         [{"name": "k<np.float64(1)>", "stream": 7, "mean": 1.5, "x": -2}]),
        ("(None, True)", [None, True]),
        ("[]", []),
    ],
)  # fmt: skip
def test_cells_in_the_spelling_of_python(text: str, value: object) -> None:
    assert parsed(text) == value


@pytest.mark.parametrize(
    "text", ["__import__('os')", "[f(1)]", "a", "[*b]", "np.load('x', 'y')", "{**a}", "1 +", "a.b"]
)
def test_nothing_else_is_understood(text: str) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        parsed(text)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 2), (1.0, 1.1), ("a", "b"), ([1], [1, 2]), ([1, 2], [2, 1]), ({"a": 1}, {"b": 1}), ({"a": 1}, {"a": 2}),
        (None, 0), (True, 1), ("1", 1), ([], None), ([[]], []),
    ],
)  # fmt: skip
def test_what_is_not_equal(a: object, b: object) -> None:
    assert not equal(a, b)
    assert not equal(b, a)


def test_numbers_may_differ_by_the_tolerance_and_no_more() -> None:
    near = ours(**{TIME: np.array([30.0, 20.0, 10.5])})
    assert against(near, 0.5).differences == []
    assert columns(against(near, 0.4)) == [TIME]


@pytest.mark.parametrize(
    ("change", "column"),
    [
        ({"Count": np.array([3, 2, 3])}, "Count"),
        ({"Categories": [["GEMM"], ["other", "elementwise"], ["elementwise"]]}, "Categories"),
        ({"Categories": [["GEMM"], None, ["elementwise"]]}, "Categories"),
        ({TIME: np.array([30.0, np.nan, 10.0])}, TIME),
        ({CUMULATIVE: np.array([50.0, 83.4, 100.0])}, CUMULATIVE),
    ],
)
def test_a_changed_cell_is_noticed(change: dict[str, Any], column: str) -> None:
    assert columns(against(ours(**change))) == [column]


def test_rows_that_one_side_has_are_noticed() -> None:
    found = against(ours(name=["aten::mm", "aten::add", "aten::sub"]))
    assert columns(found) == [ROW, ROW]
    assert [found.pairs[difference.pair] != ({}, {}) for difference in found.differences] == [True, True]
    lost = against(ours().take(np.array([0, 2])))
    assert columns(lost).count(ROW) == 1


def test_a_column_that_is_not_there_is_noticed() -> None:
    table = ours()
    kept = {name: values for name, values in table.columns.items() if name != "Count"}
    assert columns(against(Table("ops_summary", kept))) == ["Count"] * 3


def test_rows_change_places_only_if_their_times_are_equal() -> None:
    swapped = ours().take(np.array([1, 0, 2]))
    assert ORDER in columns(against(swapped))
    assert ORDER in columns(against(swapped, 4.9))
    cumulative = ours()[CUMULATIVE]
    assert against(replace_column(swapped, CUMULATIVE, cumulative), 5.1).differences == []


def replace_column(table: Table, name: str, values: Any) -> Table:
    return replace(table, columns={**table.columns, name: values})


def kernels(*totals: float, names: str = "abc") -> list[dict[str, Any]]:
    values = ("total_duration_us", "median_duration_us", "min_duration_us", "max_duration_us")
    return [{"name": name, **dict.fromkeys(values, total)} for name, total in zip(names, totals, strict=False)]


def test_kernels_that_take_equally_long_may_change_places() -> None:
    row = {"name": "aten::mm", TIME: "5.0", "trunc_kernel_details": "['a', 'b', 'c']"}

    def differing(theirs: list[dict[str, Any]], mine: list[dict[str, Any]], short: list[str]) -> list[str]:
        table = Table(
            "ops_unique_args",
            {"name": ["aten::mm"], TIME: [5.0], "kernel_details_summary": [mine], "trunc_kernel_details": [short]},
        )
        rows = [{**row, "kernel_details_summary": repr(theirs)}]
        return columns(compare("ops_unique_args", rows, table, lambda column, row: 1e-6))

    tied = kernels(1.0, 2.0, 2.0)
    assert differing(tied, [tied[0], tied[2], tied[1]], ["a", "c", "b"]) == []
    assert differing(tied, [tied[0], tied[2], tied[1]], ["a", "b", "c"]) == ["trunc_kernel_details"]
    assert differing(tied, [tied[1], tied[0], tied[2]], ["b", "a", "c"]) != []


COUNT = Departure("ops_summary", ["Count"], "why", "test", ["t"], where={"name": "aten::mul"})


def test_departures_explain_differences() -> None:
    compared = [("t", against(ours(Count=np.array([3, 2, 9]))))]
    found = account([COUNT], compared)
    assert (found.unexplained, found.wide, found.covered) == ([], [], [1])
    assert (found.cells, found.departed) == ({"ops_summary": 15}, {"ops_summary": 1})


@pytest.mark.parametrize(
    "other",
    [
        replace(COUNT, table="kernel_summary"),
        replace(COUNT, columns=["Categories"]),
        replace(COUNT, traces=["u"]),
        replace(COUNT, where={"name": "aten::add"}),
    ],
)
def test_other_departures_do_not(other: Departure) -> None:
    found = account([other], [("t", against(ours(Count=np.array([3, 2, 9]))))])
    assert len(found.unexplained) == 1
    assert found.covered == [0]


def test_what_is_computed_from_a_departure_may_differ_and_need_not() -> None:
    theirs = [
        {"name": "aten::mm", "GFLOPS_first": "4.0", "TFLOPS/s_min": "2.0", "TFLOPS/s_max": "2.0", "TB/s_min": "1.0"}
    ]
    mine = {"name": ["aten::mm"], "GFLOPS_first": [2.0], "TFLOPS/s_min": [1.0], "TFLOPS/s_max": [2.0]}

    def found(moved: float) -> Account:
        known = Departure("GEMM", ["GFLOPS"], "why", "test", ["t"])
        table = Table("GEMM", {**mine, "TB/s_min": [moved], "Kernel Time (µs)_sum": [1.0]})
        rows = [{**row, "Kernel Time (µs)_sum": "1.0"} for row in theirs]
        return account([known], [("t", compare("GEMM", rows, table, lambda column, row: 0.0))])

    assert (found(1.0).unexplained, found(1.0).wide, found(1.0).covered) == ([], [], [2])
    assert len(found(0.5).unexplained) == 1


def test_departures_of_ops_that_are_modelled_here_alone() -> None:
    here_alone = replace(COUNT, where={}, modelled_here_alone=True)
    for name, covered in (("aten::embedding", True), ("aten::mul", False), ("aten::no_such_op", False)):
        row = {"name": name}
        assert [here_alone.covers(row, row), here_alone.covers(row, {}), here_alone.covers({}, row)] == [covered] * 3
    assert len(account([here_alone], [("t", against(ours(Count=np.array([3, 2, 9]))))]).unexplained) == 1


def test_departures_that_cover_equal_cells_are_too_wide() -> None:
    compared = [("t", against(ours(Count=np.array([3, 2, 9]))))]
    assert len(account([replace(COUNT, where={})], compared).wide) == 2
    assert len(account([replace(COUNT, columns=["Count", "Categories"])], compared).wide) == 1
    assert len(account([replace(COUNT, columns=[ROW])], compared).wide) == 1
    assert len(account([replace(COUNT, columns=[ORDER], where={})], compared).wide) == 1


def test_departures_of_rows() -> None:
    compared = [("t", against(ours(name=["aten::mm", "aten::add", "aten::sub"])))]
    both = [replace(COUNT, columns=[ROW]), replace(COUNT, columns=[ROW], where={"name": "aten::sub"})]
    found = account(both, compared)
    assert (found.unexplained, found.wide, found.covered) == ([], [], [1, 1])
    assert len(account(both[:1], compared).unexplained) == 1
