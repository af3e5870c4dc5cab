"""A column is declared in one place, and everything that handles tables goes by what is declared there."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
from handmade import small_trace

from tracelens_graph.analyses.across.compare import Comparison, compare, comparison_of
from tracelens_graph.analyses.across.outer_join import fold
from tracelens_graph.analyses.ops import ops
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.analyses.report.report_tables import ReportOptions, report_tables
from tracelens_graph.cli import gate
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.devices import architecture
from tracelens_graph.registry import HOMES, REPORT, schema_of, schemas
from tracelens_graph.reports.comparison import brief
from tracelens_graph.reports.csv import write_csv
from tracelens_graph.reports.document import table_object
from tracelens_graph.reports.views import column_named, view
from tracelens_graph.reports.xlsx import workbook
from tracelens_graph.stores.saved_reports import read_table
from tracelens_graph.tables import schema
from tracelens_graph.tables.column import Column, Role, headings, instance_column, keys, main_column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

NEW = "registers_sum"
DECLARED = Column("registers of all kernels", "", Role.sum, "regs", compared="diff", figure="regs")


@pytest.fixture
def with_column(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A column more in `ops_summary`: declared, and filled by the analysis."""
    old = schema_of("ops_summary")
    monkeypatch.setitem(schema.DECLARED, "ops_summary", old)
    new = replace(old, columns={**old.columns, NEW: DECLARED})
    comparison_of.cache_clear()
    compute = ops.ops_summary

    def filled(*given: Any, **options: Any) -> Table:
        table = compute(*given, **options)
        return new.table({**table.columns, NEW: np.arange(len(table)) * 100.0 + 7}, table.title, table.notes)

    monkeypatch.setattr(ops, "ops_summary", filled)
    yield
    comparison_of.cache_clear()


@pytest.fixture
def core() -> Core:
    return load_core(small_trace())


@pytest.mark.usefixtures("with_column")
def test_one_declaration_serves_them_all(core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = report_tables(core)
    table = tables["ops_summary"]

    written = io.StringIO(newline="")
    write_csv(table, written)
    (tmp_path / "ops_summary.csv").write_text(written.getvalue())
    assert written.getvalue().splitlines()[0].endswith(NEW)
    assert read_table(tmp_path / "ops_summary.csv").about[NEW] is DECLARED

    sheets = openpyxl.load_workbook(io.BytesIO(workbook({"ops_summary": table})))
    assert NEW in [cell.value for cell in sheets["ops_summary"][1]]
    assert [NEW, None, DECLARED.definition] in [[cell.value for cell in row[1:]] for row in sheets["about"].iter_rows()]

    assert table_object(table)["rows"][0][NEW] == 7
    assert json.loads(json.dumps(table_object(table)))["rows"][0][NEW] == 7

    shown = view(table, core)
    assert "regs" in shown.text().splitlines()[1]
    assert column_named(table, "regs") == NEW

    merged = Table("ops_summary", {**table.columns, "name": ["same"] * len(table)}, table.about)
    _, folded = fold(merged, ["name"])
    assert folded[NEW].tolist() == [float(np.sum(np.asarray(table[NEW])))]
    joined = compare({"a": tables, "b": tables}, tables=["ops_summary"])["ops_summary"]
    assert {f"a::{NEW}", f"b::{NEW}", f"{NEW}__b_diff", f"{NEW}__b_pct"} <= set(joined.columns)
    assert not np.asarray(joined[f"{NEW}__b_diff"]).any()
    assert brief(joined, ["a", "b"]).name == "ops_summary"

    (condition,) = gate.parse(["op:aten::addmm:regs > 5"])
    assert condition.figure.column == NEW
    assert gate.of_tables([condition], tables)[1] == ["op:aten::addmm:regs is 7, which is > 5"]

    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "docs")
    import make_reference

    assert f"* `{NEW}`: {DECLARED.definition}\n" in make_reference.tables()


EVERYTHING = ReportOptions(
    micro_idle_us=5, short_kernels_us=100, overlap=True, first_occurrence=True, call_stack=True, recompute=True,
    by_kernel_count=True, by_module=True, kernel_categories=True, arch=architecture("h100-sxm"),
)  # fmt: skip


def test_every_column_that_is_filled_is_declared(core: Core) -> None:
    several = TraceSet.of([core, core])
    tables = dict(report_tables(core))
    tables |= {f"{name} with all options": table for name, table in report_tables(core, EVERYTHING).items()}
    for name, question in QUESTIONS.items():
        tables[name] = question.function(several if question.several else core.everything)
    undeclared = {name: [column for column in one.columns if column not in one.about] for name, one in tables.items()}
    assert {name: columns for name, columns in undeclared.items() if columns} == {}


def test_a_cell_of_no_declared_column_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "DECLARED", {})
    made = TableSchema("made", "What is it.", {"a": Column("it")})
    assert made.of_records([{"a": 1}, {"a": 2}]).columns == {"a": [1, 2]}
    assert made.empty().columns == {"a": []}
    with pytest.raises(ValueError, match="made: columns that are not declared: b, c"):
        made.of_records([{"a": 1, "c": 2}, {"b": 1, "a": 1}])
    with pytest.raises(ValueError, match="made: columns that are not declared: b"):
        made.table({"a": [1], "b": [2]})


@pytest.mark.parametrize("name", HOMES)
def test_declarations_are_sound(name: str) -> None:
    about = schema_of(name)
    assert schema_of(name).answers.endswith(".")
    assert all(column.definition for column in about.values())
    assert sum(column.compared == "main" for column in about.values()) <= 1
    assert sum(column.role is Role.instance for column in about.values()) <= 1
    if main_column(about):
        assert keys(about)
    told = [heading for heading in headings(about).values() if heading]
    assert len(set(told)) == len(told), "two columns with one heading"
    if schema_of(name).figure:
        assert {column.figure for column in about.values() if column.figure}


def test_shares_of_different_wholes_have_headings_of_their_own() -> None:
    """People see these side by side in a report."""
    wholes: dict[str, set[str]] = {}
    for name in REPORT:
        for column in schema_of(name).columns.values():
            if column.unit == "%" and column.heading:
                wholes.setdefault(column.heading, set()).add(column.definition)
    assert all(len(definitions) == 1 for definitions in wholes.values()), wholes
    assert "%" not in wholes


def test_names_that_only_we_have_are_snake_case() -> None:
    """Names with capitals, blanks or signs are TraceLens's; everything else has its unit as suffix."""
    theirs = {"gpu_timeline", "ops_summary_by_category", "ops_summary", "ops_unique_args", "unified_perf_summary",
              "kernel_summary", "kernel_category_detail", "kernel_category_summary", "coll_analysis",
              "short_kernels_summary", "short_kernels", "comparison", "diff_stats", "diff_stats_unique_args_summary",
              "perf_summary_by_lca", "perf_sheet",
              *(name for name, home in HOMES.items() if home.module.startswith("compat."))}  # fmt: skip
    suffixes = {"ms": "_ms", "us": "_us", "%": "percent"}
    for name, table in schemas().items():
        if name in theirs:
            continue
        for column, about in table.columns.items():
            assert column == column.lower(), (name, column)
            assert column.isidentifier(), (name, column)
            if about.unit in suffixes and name != "short_kernel_histogram":
                assert suffixes[about.unit] in column, (name, column)


def test_roles_fold() -> None:
    about = {
        "k": Column("", role=Role.key), "n": Column("", role=Role.count), "s": Column("", role=Role.sum),
        "m": Column("", role=Role.mean), "lo": Column("", role=Role.min), "hi": Column("", role=Role.max),
        "t": Column("", role=Role.text), "d": Column("", role=Role.spread), "u": Column("", role=Role.uid),
        "f": Column("", role=Role.flag), "v": Column("", role=Role.value),
    }  # fmt: skip
    columns = {
        "k": ["a", "a", "b"], "n": np.array([1, 3, 2]), "s": np.array([1.0, 2.0, 4.0]), "m": np.array([8.0, 4.0, 1.0]),
        "lo": np.array([2.0, 1.0, 5.0]), "hi": np.array([2.0, 1.0, 5.0]), "t": ["x", "y", "z"],
        "d": np.array([1.0, 1.0, 3.0]), "u": np.array([9, 4, 7]), "f": [True, False, True], "v": [5, 5, 6],
    }  # fmt: skip
    _, folded = fold(Table("t", columns, about), ["k"])
    assert folded.records() == [
        {
            "k": "a",
            "n": 4,
            "s": 3.0,
            "m": 5.0,
            "lo": 1.0,
            "hi": 2.0,
            "t": "x | y",
            "d": None,
            "u": 4,
            "f": None,
            "v": 5,
        },
        {"k": "b", "n": 2, "s": 4.0, "m": 1.0, "lo": 5.0, "hi": 5.0, "t": "z", "d": 3.0, "u": 7, "f": True, "v": 6},
    ]  # fmt: skip


def test_what_a_schema_says(monkeypatch: pytest.MonkeyPatch) -> None:
    about = {
        "name": Column("", role=Role.key, heading="op"),
        "time": Column("", "ms", Role.sum, compared="main"),
        "uid": Column("", role=Role.instance),
    }
    monkeypatch.setattr(schema, "DECLARED", {})
    how = Comparison.of(TableSchema("made", "Times.", about, counts="kernel"))
    assert (how.keys, how.main, how.unit, how.label, how.counted) == (("name",), "time", "ms", ("name",), "kernel")
    assert headings(about) == {"name": "op"}
    assert instance_column(about) == "uid"
    assert [about[name].order_of_leaving for name in about] == [0, 0, 3]
    assert replace(about["time"], drop_priority=1).order_of_leaving == 1
