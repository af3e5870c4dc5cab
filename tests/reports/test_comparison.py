"""A comparison in a few lines."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.across.compare import compare
from tracelens_graph.reports.comparison import brief, verdict
from tracelens_graph.tables.table import Table


def run(times: dict[str, float], total: float | None = None) -> dict[str, Table]:
    ops = {
        "name": list(times),
        "total_direct_kernel_time_ms": np.array(list(times.values()), float),
        "Count": np.ones(len(times), np.int64),
    }
    timeline = {"type": [], "time ms": []} if total is None else {"type": ["total_time"], "time ms": np.array([total])}
    return {"ops_summary": Table("ops_summary", ops), "gpu_timeline": Table("gpu_timeline", timeline)}


def lines(**runs: dict[str, Table]) -> list[str]:
    return list(verdict(compare(runs), list(runs)))


def test_the_largest_changes_come_first() -> None:
    a = run({"small": 1, "large": 20, "same": 5}, 30)
    assert lines(a=a, b=run({"small": 1.5, "large": 10, "same": 5}, 21.5)) == [
        "b against a",
        "  total  30.000  ->  21.500  ms  -8.500  -28.3 %",
        "largest changes by op:",
        "  large  20.000  ->  10.000  ms  -10.000  -50.0 %",
        "  small   1.000  ->   1.500  ms   +0.500  +50.0 %",
    ]


def test_ops_without_a_name() -> None:
    assert lines(a=run({"": 1}, 1), b=run({"": 3}, 3))[-1] == "  (no name)  1.000  ->  3.000  ms  +2.000  +200.0 %"
    assert lines(a=run({"x": 1}, 1), b=run({"x": 1, "": 2}, 3))[-1] == "only in b: 1 op, 2.000 ms: (no name) (2.000)"


def test_many_ops_of_one_run_are_counted() -> None:
    lone = {f"op{i}": float(i) for i in range(1, 7)}
    found = lines(a=run({"x": 1}, 1), b=run({"x": 1, **lone}, 22))
    assert found[-1] == "only in b: 6 ops, 21.000 ms: op6 (6.000), op5 (5.000), op4 (4.000) and 3 more"


def test_a_change_from_nothing_has_no_percentage() -> None:
    found = lines(a=run({"x": 0}, 1), b=run({"x": 2}, 1))
    assert found[-1] == "  x  0.000  ->  2.000  ms  +2.000"


def test_runs_without_gpu_work() -> None:
    assert lines(a=run({}), b=run({})) == ["b against a", "  no GPU time", "no op takes longer or shorter"]


def test_people_see_what_differs() -> None:
    runs = {"a": run({"x": 1, "y": 2}), "b": run({"x": 1, "y": 3}), "c": run({"x": 1, "y": 2, "z": 1})}
    table = brief(compare(runs)["ops_summary"], list(runs))
    assert list(table.columns) == [
        "name", "a ms", "b ms", "b diff", "b %", "c ms", "c diff", "c %", "a calls", "b calls", "c calls", "only in",
    ]  # fmt: skip
    assert table["name"] == ["y", "z"]
    assert table["only in"] == ["", "c"]
    assert table.notes[-1] == "1 row without a difference"
