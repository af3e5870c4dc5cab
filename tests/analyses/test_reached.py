"""What calls reach together fits the sums of their row."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.analyses.performance.roofline_points import Reached, below_roof, positive, reached
from tracelens_graph.perf.devices import architecture


def row(**cells: object) -> dict[str, object]:
    known = {"GFLOPS": 2.0, "Data Moved (MB)": 1.0, "Roofline Time (µs)_first": 10.0}
    return {**known, "Kernel Time (µs)_sum": 100.0, "operation_count": 4, **cells}


def test_known_rates() -> None:
    found = reached(row())
    assert found.tflops_s == pytest.approx(4 * 2e9 / 100e-6 / 1e12)
    assert found.tb_s == pytest.approx(4 * 2**20 / 100e-6 / 1e12)
    assert found.percent_of_roof == pytest.approx(40)
    assert found.won_us == pytest.approx(60)


def test_what_is_not_known() -> None:
    assert reached(row(**{"Kernel Time (µs)_sum": 0.0})) == Reached(None, None, None, None)
    found = reached({"Kernel Time (µs)_sum": 5.0, "operation_count": 1, "GFLOPS": 0.0, "Data Moved (MB)": None})
    assert found == Reached(None, None, None, None)
    assert [positive(value) for value in (None, 0, -1, float("nan"), float("inf"), 2)] == [None] * 5 + [2]


def test_faster_than_the_roof_wins_nothing() -> None:
    assert reached(row(**{"Kernel Time (µs)_sum": 20.0})).won_us == 0


@parametrize("path", chosen_traces())
def test_share_and_time_of_a_row_agree(path: Path) -> None:
    ops = unified_perf_summary(loaded(path), arch=architecture("h100-sxm"))
    for found in below_roof(ops).records():
        left = found["time_ms"] - found["could_be_won_ms"]
        assert 100 * left / found["time_ms"] == pytest.approx(found["percent_of_roof"])
        assert 0 < found["percent_of_roof"] < 100
