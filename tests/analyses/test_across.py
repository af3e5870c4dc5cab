"""Several traces: comparisons with known answers, sums and the reference, and an overview with the late rank."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import small_trace
from hypothesis import given
from hypothesis import strategies as st

from corpus import CORPUS, GOLDENS, chosen_traces, loaded, needs_corpus, needs_goldens, parametrize
from tracelens_graph.analyses.across.compare import compare, comparison_of
from tracelens_graph.analyses.across.outer_join import canonical, fold
from tracelens_graph.analyses.across.overview import late_trace, lateness_of, overview, overview_line
from tracelens_graph.analyses.report.report_tables import ReportOptions, report_tables
from tracelens_graph.compat.compare import compare_as_tracelens
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.registry import about_columns, schema_of
from tracelens_graph.simulate import PROBLEMS, simulate
from tracelens_graph.simulate.xla import simulate as simulate_xla
from tracelens_graph.stores.saved_reports import csv_tables
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.lazy import Lazy

MAIN = "total_direct_kernel_time_ms"


def ops(*rows: tuple[str, float, int], notes: tuple[str, ...] = ()) -> Table:
    names, times, counts = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    columns = {
        "name": names, MAIN: np.array(times, float), "Count": np.array(counts, np.int64),
        "Categories": [["other"]] * len(names),
    }  # fmt: skip
    return Table("ops_summary", columns, about_columns("ops_summary", columns), notes=notes)


def timeline(**times: float) -> Table:
    return Table("gpu_timeline", {"type": list(times), "time ms": np.array(list(times.values()), float)})


def of_ops(**runs: Table) -> Table:
    return compare({tag: {"ops_summary": table} for tag, table in runs.items()})["ops_summary"]


def by_name(table: Table, column: str) -> dict[str, Any]:
    return {row["name"]: row[column] for row in table.records()}


def test_known_answer() -> None:
    a = ops(("mm", 10.0, 4), ("add", 3.0, 2), ("gone", 1.5, 1))
    b = ops(("mm", 8.0, 5), ("add", 3.0, 2), ("new", 4.0, 7))
    table = of_ops(a=a, b=b)
    assert table["name"] == ["new", "mm", "gone", "add"]
    assert list(table[f"{MAIN}__b_diff"]) == [4.0, -2.0, -1.5, 0.0]
    np.testing.assert_array_equal(table[f"{MAIN}__b_pct"], [math.nan, -20.0, -100.0, 0.0])
    assert list(table["Count__b_diff"]) == [7, 1, -1, 0]
    assert table["only_in"] == ["b", "", "a", ""]
    np.testing.assert_array_equal(table[f"a::{MAIN}"], [math.nan, 10.0, 1.5, 3.0])
    assert list(table["b::Count"]) == [7, 5, None, 2]
    assert table["Categories"] == [["other"]] * 4
    assert table.title == "Which ops the GPU time is charged to: b against a"
    assert table.notes == ["1 row of a not in b: 1.500 ms, 1 call", "1 row of b not in a: 4.000 ms, 7 calls"]
    assert table.about[f"{MAIN}__b_pct"].unit == "%"
    assert set(table.columns) == set(table.about)


def test_several_runs_each_against_the_first() -> None:
    a, b, c = ops(("x", 1, 1), ("y", 2, 1)), ops(("x", 2, 1)), ops(("y", 9, 1), ("z", 1, 1))
    table = of_ops(a=a, b=b, c=c)
    assert table.title.endswith(": b, c against a")
    assert by_name(table, "only_in") == {"x": "a, b", "y": "a, c", "z": "c"}
    for tag, other in (("b", b), ("c", c)):
        pair = by_name(of_ops(**{"a": a, tag: other}), f"{MAIN}__{tag}_diff")
        alone = by_name(table, f"{MAIN}__{tag}_diff")
        assert {name: alone[name] for name in pair} == pair
        assert all(alone[name] == 0 for name in alone.keys() - pair.keys())


def test_rows_of_one_key_are_summed_and_never_multiply() -> None:
    columns = {
        "name": ["mm", "mm"], "Input type": [["f"], ["f"]], "Input Dims": [[[1, 2]], [[1, 2]]],
        "Input Strides": [None, None], "Concrete Inputs": [[], None], "thread_name": ["1", "2"],
        "op category": ["GEMM", "other"], "operation_count": np.array([1, 3]),
        "total_direct_kernel_time_sum": np.array([5.0, 7.0]), "total_direct_kernel_time_mean": np.array([5.0, 7 / 3]),
        "total_direct_kernel_time_min": np.array([5.0, 1.0]), "total_direct_kernel_time_max": np.array([5.0, 4.0]),
        "total_direct_kernel_time_median": np.array([5.0, 2.0]), "ex_UID": np.array([9, 4]),
    }  # fmt: skip
    run = {"ops_unique_args": Table("ops_unique_args", columns)}
    (row,) = compare({"a": run, "b": run})["ops_unique_args"].records()
    assert row["a::total_direct_kernel_time_sum"] == 12
    assert row["a::total_direct_kernel_time_mean"] == pytest.approx(3)
    assert (row["a::total_direct_kernel_time_min"], row["a::total_direct_kernel_time_max"]) == (1, 5)
    assert (row["a::operation_count"], row["a::ex_UID"]) == (4, 4)
    assert row["op category"] == "GEMM | other"
    assert [row[c] for c in row if c.endswith(("_diff", "_pct"))] == [0] * 6
    (row,) = compare_as_tracelens({"a": run, "b": run})["ops_unique_args_intersect_b"].records()
    assert row["a::total_direct_kernel_time_sum"] == 12
    assert "a::total_direct_kernel_time_median" not in row  # it is not known, so it is in no row


def test_spellings_of_lists_pair() -> None:
    columns = {
        "name": ["mm"], "Input type": [["f", "f"]], "Input Strides": [[[2, 1], []]], "operation_count": np.array([1]),
        "total_direct_kernel_time_sum": np.array([1.0]),
    }  # fmt: skip
    ours = Table("ops_unique_args", {**columns, "Input Dims": [[[8, 16], []]], "Concrete Inputs": [[]]})
    theirs = Table("ops_unique_args", {**columns, "Input Dims": [((8.0, 16), ())], "Concrete Inputs": [""]})
    table = compare({"a": {"ops_unique_args": ours}, "b": {"ops_unique_args": theirs}})["ops_unique_args"]
    assert table["only_in"] == [""]
    assert table["Input Dims"] == [[[8, 16], []]]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ([], None), ("", None), (math.nan, None), (np.float64(3.0), 3), (0.5, 0.5), ([[1, 2.0], ()], ((1, 2), ())),
        ([{"b": [1], "a": ""}], ((("a", None), ("b", (1,))),)), ("1", "1"), (False, False),
    ],
)  # fmt: skip
def test_canonical_cells(cell: object, expected: object) -> None:
    assert canonical(cell) == expected


ROWS = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 10**6), st.integers(1, 9)), max_size=12)


def as_ops(rows: list[tuple[str, int, int]]) -> Table:
    return ops(*((name, float(time), count) for name, time, count in rows))


@given(ROWS, ROWS)
def test_differences_add_up_to_the_difference_of_totals(a: Any, b: Any) -> None:
    table = of_ops(a=as_ops(a), b=as_ops(b))
    assert sum(table[f"{MAIN}__b_diff"]) == sum(row[1] for row in b) - sum(row[1] for row in a)
    assert sum(table["Count__b_diff"]) == sum(row[2] for row in b) - sum(row[2] for row in a)
    assert len(table) == len({row[0] for row in a + b})
    size = np.abs(table[f"{MAIN}__b_diff"])
    assert list(size) == sorted(size, reverse=True)


@given(ROWS, ROWS)
def test_differences_change_sign_when_the_runs_change_places(a: Any, b: Any) -> None:
    there, back = of_ops(a=as_ops(a), b=as_ops(b)), of_ops(b=as_ops(b), a=as_ops(a))
    assert there["name"] == back["name"]
    assert there["only_in"] == back["only_in"]
    for column in (MAIN, "Count"):
        np.testing.assert_array_equal(there[f"{column}__b_diff"], -np.asarray(back[f"{column}__a_diff"]))


@given(ROWS)
def test_a_run_does_not_differ_from_itself(rows: Any) -> None:
    table = of_ops(a=as_ops(rows), b=as_ops(rows[::-1]))
    assert not np.any(table[f"{MAIN}__b_diff"])
    assert not any(table["only_in"])
    assert list(table.notes) == []


@given(ROWS)
def test_folding_keeps_sums(rows: Any) -> None:
    keys, folded = fold(as_ops(rows), ["name"])
    sums: Counter[str] = Counter()
    for name, time, _ in rows:
        sums[name] += time
    assert dict(zip([key for (key,) in keys], np.asarray(folded[MAIN]).tolist(), strict=True)) == dict(sums)


def test_the_timeline_keeps_its_order() -> None:
    runs = {
        "a": {"gpu_timeline": timeline(busy_time=1, idle_time=2)},
        "b": {"gpu_timeline": timeline(busy_time=1.5, idle_time=9)},
    }
    table = compare(runs)["gpu_timeline"]
    assert list(table["type"]) == ["busy_time", "idle_time"]
    assert list(table["time ms__b_pct"]) == [50, 350]


def test_idle_time_is_whole_where_only_some_split_it() -> None:
    split = timeline(busy_time=5, micro_idle_time=1, macro_idle_time=3)
    whole = timeline(busy_time=5, idle_time=7)
    table = compare({"a": {"gpu_timeline": split}, "b": {"gpu_timeline": whole}})["gpu_timeline"]
    assert {row["type"]: row["time ms__b_diff"] for row in table.records()} == {"busy_time": 0, "idle_time": 3}
    both = compare({"a": {"gpu_timeline": split}, "b": {"gpu_timeline": split}})["gpu_timeline"]
    assert "macro_idle_time" in both["type"]


def test_splits_by_recomputation_are_keys_where_all_have_them() -> None:
    def recomputed(table: Table, flags: list[bool]) -> Table:
        return Table(table.name, {**table.columns, "is_recompute": flags})

    split = recomputed(ops(("mm", 1, 1), ("mm", 2, 1)), [False, True])
    table = of_ops(a=split, b=split)
    assert list(zip(table["name"], table["is_recompute"], strict=True)) == [("mm", True), ("mm", False)]
    assert list(of_ops(a=split, b=ops(("mm", 4, 1)))[f"{MAIN}__b_diff"]) == [1]
    runs = {
        "a": {"gpu_timeline": recomputed(timeline(busy_time=1), [False])},
        "b": {"gpu_timeline": timeline(busy_time=1)},
    }
    with pytest.raises(AnalysisError, match="only some of the timelines are split by is_recompute"):
        compare(runs)


def test_kernels_without_a_launch_pair_with_those_of_tracelens() -> None:
    def kernels(parent: str | None) -> dict[str, Table]:
        columns = {
            "Parent cpu_op": [parent], "Kernel name": ["k"], "Kernel duration (µs)_sum": np.array([2.0]),
            "Kernel duration (µs)_count": np.array([1]),
        }  # fmt: skip
        return {"kernel_summary": Table("kernel_summary", columns)}

    table = compare({"a": kernels("(no launch in trace)"), "b": kernels("")})["kernel_summary"]
    assert table["only_in"] == [""]


def test_what_cannot_be_compared_is_said() -> None:
    a, b = (
        {"ops_summary": ops(("x", 1, 1)), "gpu_timeline": timeline(busy_time=1)},
        {"gpu_timeline": timeline(busy_time=2)},
    )
    with pytest.raises(AnalysisError, match="at least two runs"):
        compare({"a": a})
    with pytest.raises(AnalysisError, match="b has no table ops_summary"):
        compare({"a": a, "b": b}, tables=["ops_summary"])
    with pytest.raises(AnalysisError, match="there is no comparison of 'x'"):
        compare({"a": a, "b": b}, tables=["x"])
    with pytest.raises(AnalysisError, match="no table that all runs have"):
        compare({"a": a, "b": {}})
    with pytest.raises(AnalysisError, match="a: table ops_summary has no column 'name'"):
        of_ops(a=Table("ops_summary", {"x": [1]}), b=ops())
    tables = compare({"a": a, "b": b})
    assert list(tables) == ["gpu_timeline"]
    assert tables["gpu_timeline"].notes == ["ops_summary is not compared: b does not have it"]


def test_notes_of_the_runs_stay() -> None:
    table = of_ops(a=ops(("x", 1, 1), notes=("5 GPU events left out",)), b=ops(("x", 1, 1)))
    assert table.notes == ["a: 5 GPU events left out"]


def test_tables_without_rows() -> None:
    assert len(of_ops(a=ops(), b=ops())) == 0
    assert list(of_ops(a=ops(), b=ops(("x", 2, 1)))[f"{MAIN}__b_diff"]) == [2]
    empty = Table("ops_summary", {})  # a file of TraceLens without rows has no header either
    assert by_name(of_ops(a=empty, b=ops(("x", 2, 1))), "only_in") == {"x": "b"}


@parametrize("path", chosen_traces())
def test_differences_add_up_on_real_traces(path: Path) -> None:
    core = loaded(path)
    runs = {"all": report_tables(core), "linked": report_tables(core, ReportOptions(linked_only=True))}
    for name, table in compare(runs).items():
        for column in comparison_of(name).compared:
            if schema_of(name)[column].adds_up and f"all::{column}" in table.columns and name != "gpu_timeline":
                totals = [np.nansum(np.asarray(run[name][column], float)) for run in runs.values()]
                found = np.nansum(np.asarray(table[f"{column}__linked_diff"], float))
                assert found == pytest.approx(totals[1] - totals[0], rel=1e-9, abs=1e-6)
    same = compare({"a": runs["all"], "b": report_tables(core)})
    for table in same.values():
        assert not any(table["only_in"])
        for column, values in table.columns.items():
            assert not column.endswith("_diff") or not np.nansum(np.abs(np.asarray(values, float)))


# --- the layout of TraceLens ---------------------------------------------------------------------------------


def qwen(folder: str) -> dict[str, Lazy[Table]]:
    assert GOLDENS is not None
    return {tag: csv_tables(GOLDENS / folder / tag / "qwen1.5-0.5b") for tag in ("h100", "mi300")}


def reference() -> Lazy[Table]:
    assert GOLDENS is not None
    return csv_tables(GOLDENS / "compare/qwen-h100-vs-mi300")


def row_set(table: Table) -> set[Any]:
    """Rows without regard to order of rows and columns and to the last digits."""

    def cell(value: Any) -> Any:
        return round(value, 6) if isinstance(value, float) and value == value else canonical(value)

    return {tuple(sorted((name, cell(value)) for name, value in row.items())) for row in table.records()}


@needs_goldens
@pytest.mark.parametrize("name", ["gpu_timeline", "ops_summary", "ops_unique_args", "unified_perf_summary", "GEMM",
                                  "SDPA_fwd", "un_eltwise", "bin_eltwise"])  # fmt: skip
def test_from_its_tables_the_layout_equals_the_reference(name: str) -> None:
    found = compare_as_tracelens(qwen("default"))
    expected = [table for table in reference() if table.startswith(name)]
    assert {table for table in found if table.startswith(name)} == set(expected)
    for table in expected:
        assert row_set(found[table]) == row_set(reference()[table])
        if len(reference()[table]):
            assert set(found[table].columns) == set(reference()[table].columns)


@needs_goldens
def test_a_kernel_has_one_row() -> None:
    """The reference pairs every row of a kernel in one run with every row of it in the other; we sum them first."""
    runs = qwen("full")
    ours, theirs = compare_as_tracelens(runs)["kernel_summary"], reference()["kernel_summary"]
    assert set(ours.columns) == set(theirs.columns)
    names = list(ours["Kernel name"])
    assert len(names) == len(set(names)) < len(theirs)
    assert set(names) == set(theirs["Kernel name"])
    for tag, run in runs.items():
        sums: dict[str, float] = defaultdict(float)
        for row in run["kernel_summary"].records():
            sums[row["Kernel name"]] += row["Kernel duration (µs)_sum"]
        for row in ours.records():
            found = row[f"{tag}::Kernel duration (µs)_sum"]
            assert (0 if found != found else found) == pytest.approx(sums[row["Kernel name"]])


def test_one_sided_rows_are_apart() -> None:
    def call(name: str, time: float) -> Mapping[str, Table]:
        columns: dict[str, Any] = {
            key: [[]] for key in ("Input type", "Input Dims", "Input Strides", "Concrete Inputs")
        }
        columns |= {"name": [name], "total_direct_kernel_time_sum": np.array([time]), "operation_count": np.array([1])}
        return {"ops_unique_args": Table("ops_unique_args", columns)}

    found = compare_as_tracelens({"a": call("x", 1), "b": call("x", 3), "c": call("y", 2)})
    assert {name.removeprefix("ops_unique_args_"): len(table) for name, table in found.items()} == {
        "intersect_b": 1, "only_baseline_b": 0, "only_variant_b": 0,
        "intersect_c": 0, "only_baseline_c": 1, "only_variant_c": 1,
    }  # fmt: skip
    (row,) = found["ops_unique_args_intersect_b"].records()
    assert row["total_direct_kernel_time_sum__b_pct"] == 200
    assert not any(column.startswith("c::") for column in row)
    assert "a::operation_count" not in found["ops_unique_args_only_variant_c"].columns


def lines(**settings: Any) -> list[Any]:
    run = simulate(**settings)
    return [overview_line(load_core(rank.trace), f"rank{rank.rank}") for rank in run.ranks]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_late_rank_is_named(seed: int) -> None:
    late = PROBLEMS["late_rank"]["dataloader_rank"]
    found = lines(seed=seed, problem="late_rank")
    assert late_trace(found, lateness_of(found)) == late
    table = overview(found[::-1], lateness_of(found[::-1]))
    assert list(table["rank"]) == [0, 1]
    assert list(table["kind"]) == ["waits for a late rank", "dataloader"]
    assert table.notes[1].startswith(f"comes last: rank {late}, last to ")


def test_a_slow_network_makes_no_rank_late() -> None:
    found = lines(problem="exposed_communication")
    assert late_trace(found, lateness_of(found)) is None
    kinds, late = overview(found, lateness_of(found)).notes
    assert kinds == "kind of run of all: communication that no computation overlaps"
    assert late.startswith("no rank is late: ")


def test_where_ranks_are_missing_those_there_are_judged() -> None:
    run = simulate(ranks=4, dataloader_us=12_000.0, dataloader_rank=1)
    found = [overview_line(load_core(rank.trace), f"rank{rank.rank}") for rank in run.ranks]
    assert late_trace(found, lateness_of(found)) == 1
    assert late_trace(found[:3], lateness_of(found[:3])) == 1
    assert "ranks are missing" in overview(found[:3], lateness_of(found[:3])).notes[-1]


@needs_corpus
def test_the_job_of_eight_ranks() -> None:
    assert CORPUS is not None
    folder = CORPUS / "dlrm-8-ranks" / "kineto"
    found = [overview_line(load_core(folder / f"rank{rank}.json.gz"), f"rank{rank}") for rank in range(8)]
    assert late_trace(found, lateness_of(found)) == 7
    assert "last to 5 of 8 collectives, up to 4.67 ms after" in overview(found, lateness_of(found)).notes[1]
    assert "ranks are missing in 8 of 8 collectives" in overview(found[:7], lateness_of(found[:7])).notes[1]


def test_a_file_cut_short_is_marked() -> None:
    text = json.dumps(small_trace()).encode()
    whole, cut = (overview_line(load_core(data), name) for data, name in ((text, "a"), (text[:-40], "b")))
    table = overview([whole, cut])
    assert list(table["file"]) == ["", "cut short"]
    assert list(table.about) == list(table.columns)
    assert table.notes[-1].startswith("b: GPU events end at 0.160 of 0.900 ms because the file is cut short; ")
    assert "file" not in overview([whole, whole]).columns


def test_one_trace_and_traces_without_gpu_events() -> None:
    nothing = [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 0, "dur": 2}]
    line = overview_line(load_core(nothing), "cpu.json")
    assert (line["total_ms"], line["rank"], line["steps"], line["kind"]) == (None, None, 0, "no_gpu")
    assert late_trace([line], lateness_of([line])) is None
    assert list(overview([line], lateness_of([line])).notes) == []
    assert list(overview([line, line], lateness_of([line, line])).notes) == [
        "kind of run of all: no GPU events were recorded"
    ]


def test_a_late_device_of_a_profile_of_jax_leads_to_its_host() -> None:
    core = load_core(simulate_xla(devices=2, batch=2, tokens=64, width=128, heads=4, vocabulary=512).profile)
    found = [overview_line(core, name) for name in ("a", "b")]
    assert late_trace(found, lateness_of(found)) is None
    assert not any("rank" in note for note in overview(found, lateness_of(found)).notes)  # nothing is known of devices
    ranks = TraceSet.of({"a": core, "b": core}).by_device()
    assert [one.name for one in ranks] == ["a-device0", "a-device1", "b-device0", "b-device1"]
    assert any("no rank is" in note for note in overview(found, lateness_of(found, ranks)).notes)
