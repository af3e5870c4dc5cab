"""How much can be replayed: every GPU event in one row, with a reason where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_calls import calls

from corpus import kineto_traces, loaded, parametrize, trace_id
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.frameworks.framework import XLA
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.listing import BY_GRAPH, OUTSIDE, replay_coverage, replay_signatures
from tracelens_graph.replay.planned import COLLECTIVE, CUSTOM
from tracelens_graph.tables.table import Table


@pytest.fixture(scope="module")
def table() -> Table:
    return replay_coverage(load_core(calls()))


def test_every_operation_has_a_plan_or_a_reason(table: Table) -> None:
    shown = ("op", "plan", "signatures", "calls", "gpu_events", "time_us", "uid")
    assert [tuple(row[name] for name in shown) for row in table.records()] == [
        (BY_GRAPH, "no", 0, 0, 2, 100.0, 20),
        ("aten::mm", "yes", 2, 3, 3, 65.0, 4),
        ("c10d::allreduce_", "no", 1, 1, 1, 50.0, 16),
        ("my::fused", "no", 1, 1, 1, 37.0, 10),
        ("aten::copy_", "yes", 1, 1, 1, 5.0, 11),
        (OUTSIDE, "no", 0, 0, 1, 3.0, 23),
        (NO_LAUNCH, "no", 0, 0, 1, 2.0, 24),
    ]
    why = dict(zip(table["op"], table["why"], strict=True))
    assert (why["my::fused"], why["c10d::allreduce_"], why["aten::mm"]) == (CUSTOM, COLLECTIVE, "")
    assert all(row["remedy"] for row in table.records() if row["plan"] == "no")


@parametrize("path", kineto_traces())
def test_covered_and_uncovered_are_all_gpu_time(path: Path) -> None:
    core = loaded(path)
    rows = replay_coverage(core).records()
    gpu = core.gpu_rows
    assert sum(round(row["time_us"] * 1e3) for row in rows) == int(core.columns.dur_ns[gpu].sum())
    assert sum(row["gpu_events"] for row in rows) == len(gpu)
    assert all(bool(row["why"]) == (row["plan"] == "no") for row in rows)


@parametrize("path", [path for path in kineto_traces() if trace_id(path).startswith("tracelens/")])
def test_nearly_all_time_under_operations_of_pytorch_has_a_plan(path: Path) -> None:
    """These traces record arguments."""
    of_pytorch = [row for row in replay_coverage(loaded(path)).records() if row["op"].startswith("aten::")]
    without = sum(row["time_us"] for row in of_pytorch if row["plan"] == "no")
    assert without <= 0.01 * sum(row["time_us"] for row in of_pytorch)


def test_time_and_median_of_a_row_are_of_the_same_work() -> None:
    """`my::fused` launches 37 us itself, and 5 us in a copy, which has a row of its own."""
    rows = {row["op"]: row for row in replay_signatures(load_core(calls())).records() if row["calls"] == 1}
    assert rows["my::fused"]["time_us"] == 37.0
    assert all(row["median_us"] == row["time_us"] for row in rows.values())


def test_work_of_no_instruction_says_that_nothing_helps() -> None:
    assert XLA.uncharged is not None
    assert XLA.uncharged[1].startswith("nothing: ")
