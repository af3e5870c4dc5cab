"""TraceLens's TraceDiff of one model on two devices, held against ours cell by cell."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from parity.cases import graph
from parity.comparing import EXACT, PER_INTERVAL_US, equal, read_reference, understood

from corpus import GOLDENS, NO_GOLDENS
from tracelens_graph.analyses.alignment.common_ancestors import TraceLensDiff
from tracelens_graph.analyses.alignment.difference import diff
from tracelens_graph.analyses.report.report_tables import ReportOptions, report_tables
from tracelens_graph.compat import TraceDiff, TraceToTree
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import Kind
from tracelens_graph.tables.table import Table

pytestmark = pytest.mark.corpus(missing=NO_GOLDENS)

TRACES = "h100/qwen1.5-0.5b", "mi300/qwen1.5-0.5b"
MODULES = {"nn_module_stack", "nn_module_parent"}
EVENT = ("source", "gpu_op_uid")
ANCESTOR = ("lowest_common_ancestor_id",)
CALL = ("source", "cpu_op_uid", "name")


def golden(name: str) -> Path:
    assert GOLDENS is not None
    return GOLDENS / "tracediff" / "qwen-h100-vs-mi300" / name


@cache
def told() -> TraceLensDiff:
    """As TraceLens told it: its trees had no Python frames, so it knew of no modules."""
    return TraceLensDiff(diff(*map(graph, TRACES)), modules=False)


def compared(table: Table, keys: Sequence[str]) -> list[tuple[Mapping[str, str], Mapping[str, Any]]]:
    """Rows of TraceLens's table and of ours, by some columns that tell all rows apart."""
    theirs = read_reference(golden(f"{table.name}.csv"))
    ours = {tuple(str(row[key]) for key in keys): row for row in table.records()}
    assert len(ours) == len(table) == len(theirs)
    assert set(theirs[0]) <= set(table.columns)
    return [(row, ours[tuple(row[key] for key in keys)]) for row in theirs]


def departing(
    pairs: Iterable[tuple[Mapping[str, str], Mapping[str, Any]]], columns: Iterable[str] = (), tolerance: float = EXACT
) -> set[str]:
    """Columns with a cell that differs."""
    chosen = list(columns)
    return {
        column
        for theirs, ours in pairs
        for column in chosen or theirs
        if not equal(ours[column], understood(theirs[column], ours[column]), tolerance)
    }


def test_gpu_events_have_the_same_ancestors_under_the_same_numbers() -> None:
    pairs = compared(told().diff_stats, EVENT)
    assert len(pairs) == 2252
    assert not departing(pairs)
    theirs = [tuple(row[key] for key in EVENT) for row, _ in pairs]
    assert theirs == [tuple(str(row[key]) for key in EVENT) for row in told().diff_stats.records()]


def test_the_summary_has_the_same_rows() -> None:
    pairs = compared(told().diff_stats_unique_args_summary, CALL)
    assert not departing(pairs)
    # Rows of equal times stand in another order: TraceLens's sort keeps none among them.
    mine = told().diff_stats_unique_args_summary["kernel_time_sum"]
    assert [float(row["kernel_time_sum"]) for row, _ in pairs] == pytest.approx(mine, abs=EXACT)


def test_ancestors_have_the_same_times() -> None:
    pairs = compared(told().perf_summary_by_lca, ANCESTOR)
    assert len(pairs) == 1030
    # Running sums differ among rows of equal times, which TraceLens's sort leaves in no order.
    columns = set(pairs[0][0]) - {"cumulative_pct_trace1 (%)"}
    assert not departing(pairs, columns)
    running = told().perf_summary_by_lca["cumulative_pct_trace1 (%)"]
    assert [float(row["cumulative_pct_trace1 (%)"]) for row, _ in pairs] == pytest.approx(running, abs=EXACT)


def test_ops_have_the_same_kernels() -> None:
    theirs = json.loads(golden("cpu_op_map.json").read_text())
    assert told().cpu_op_map == theirs
    assert list(told().cpu_op_map) == list(theirs)


def test_a_report_has_the_same_columns_of_the_other_trace() -> None:
    first, second = map(graph, TRACES)
    tables = report_tables(first, ReportOptions(linked_only=True, compare_with=second.everything))
    rows = read_reference(golden("unified_perf_summary.csv"))
    ours = {str(row["ex_UID"]): row for row in tables["unified_perf_summary"].records()}
    pairs = [(row, ours[row["ex_UID"]]) for row in rows]
    assert len(pairs) == len(ours) == 35
    columns = [name for name in rows[0] if "trace" in name or name.startswith("lca_")]
    assert len(columns) == 7
    # What TraceLens takes off is a busy time from timestamps in float64; how much they lose goes by their number.
    loss = PER_INTERVAL_US * max(int(row["operation_count"]) for row in rows)
    assert not departing(pairs, set(columns) - {"delta_us (trace2 - trace1)"})
    assert not departing(pairs, {"delta_us (trace2 - trace1)"}, loss)
    for theirs, mine in pairs:
        kernel_us = float(theirs["Kernel Time (µs)_sum"]) - mine["Kernel Time (µs)_sum"]
        assert float(theirs["delta_us (trace2 - trace1)"]) + kernel_us == pytest.approx(
            mine["delta_us (trace2 - trace1)"], abs=EXACT
        )
        # Above 1 in their column of speed-ups is slower; ours is the other way round.
        assert mine["speedup_of_trace2"] * float(theirs["speedup (trace2/trace1)"]) == pytest.approx(1)


def test_modules_are_told_where_traces_have_them() -> None:
    with_modules = TraceLensDiff(diff(*map(graph, TRACES)))
    pairs = compared(with_modules.diff_stats, EVENT)
    assert departing(pairs) == MODULES
    for theirs, ours in pairs:
        core = graph(TRACES[0 if ours["source"] == "trace1" else 1])
        op = core.node(ours["cpu_op_uid"])
        stack = ["root", *(node.name for node in reversed(_above(op)) if node.kind == Kind.Module)]
        assert ours["nn_module_stack"].split(";") == stack
        assert theirs["nn_module_stack"] == "root"


def _above(node: Any) -> list[Any]:
    found = []
    while (node := node.parent) is not None:
        found.append(node)
    return found


def test_ancestors_lie_in_points_and_add_up_to_them() -> None:
    difference = diff(*map(graph, TRACES))
    alignment, ancestors = difference.alignment, told().ancestors
    of_event: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for at, point in enumerate(alignment.points):
        for side in (0, 1):
            for leaf in point.leaves[side]:
                of_event[side].update(dict.fromkeys(alignment.sides[side].events_of(leaf).tolist(), at))
    found: dict[int, list[int]] = {}
    for at, ancestor in enumerate(ancestors):
        points = {of_event[side][row] for side in (0, 1) for row in ancestor.events[side]}
        assert len(points) == 1
        found.setdefault(points.pop(), []).append(at)
    equally = 0
    for at, point in enumerate(alignment.points):
        events = [sum(of == at for of in side.values()) for side in of_event]
        inside = [sum(len(ancestors[one].events[side]) for one in found.get(at, ())) for side in (0, 1)]
        if events != inside:
            assert inside == [0, 0]
            continue
        equally += 1
        assert [sum(ancestors[one].busy_ns[side] for one in found[at]) for side in (0, 1)] == list(point.ns)
    assert equally == len(found) == 1030


def test_only_work_without_a_launch_is_left_out() -> None:
    for side, trace in enumerate(TRACES):
        core: Core = graph(trace)
        c = core.columns
        ns = sum(one.sum_ns[side] for one in told().ancestors)
        lone = core.gpu_rows[c.parent[core.gpu_rows] < 0]
        assert told().tree.dropped[side] == len(lone) == (509, 463)[side]
        assert ns + int(c.dur_ns[lone].sum()) == int(c.dur_ns[core.gpu_rows].sum())


def test_the_class_of_tracelens_gives_its_tables(tmp_path: Path) -> None:
    found = TraceDiff(*(TraceToTree(graph(trace)) for trace in TRACES))
    found.generate_tracediff_report()
    found.print_tracediff_report_files(tmp_path)
    for name in ("diff_stats", "diff_stats_unique_args_summary", "perf_summary_by_lca"):
        theirs, ours = read_reference(golden(f"{name}.csv")), read_reference(tmp_path / f"{name}.csv")
        assert len(theirs) == len(ours)
        assert [column for column in ours[0] if column in theirs[0]] == list(theirs[0])
    exactly = [
        {column: cell for column, cell in row.items() if column not in ("kernel_time", "busy_time")}
        for row in read_reference(tmp_path / "diff_stats.csv")
    ]
    for row, theirs in zip(exactly, read_reference(golden("diff_stats.csv")), strict=True):
        assert row == {column: theirs[column] for column in row}
    assert json.loads((tmp_path / "cpu_op_map.json").read_text()) == json.loads(golden("cpu_op_map.json").read_text())
