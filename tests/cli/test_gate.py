"""Conditions on figures of a report."""

from __future__ import annotations

import math

import numpy as np
import pytest
import typer
from handmade import small_trace
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.analyses.ops.ops import ops_summary, ops_summary_by_category
from tracelens_graph.analyses.timeline.timeline import ROW_MEANING, gpu_timeline
from tracelens_graph.cli.gate import Figure, Reading, of_tables, parse, read
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.table import Table

Tables = dict[str, Table]


@pytest.fixture(scope="module")
def core() -> Core:
    return load_core(small_trace())


@pytest.fixture(scope="module")
def tables(core: Core) -> Tables:
    found = gpu_timeline(core), ops_summary_by_category(core), ops_summary(core)
    return {table.name: table for table in found}


def value(figure: str, tables: Tables) -> float:
    (condition,) = parse([f"{figure} > 0"])
    return read(condition.figure, tables).value


# Kernels run 1001-1031 and 1100-1150.25, a copy until 1160; the first has no launch in the trace.
@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        ("idle_percent", 100 * 69 / 159),
        ("idle_ms", 0.069),
        ("idle_time_ms", 0.069),
        ("busy_ms", 0.09),
        ("total_ms", 0.159),
        ("total_percent", 100),
        ("exposed_memcpy_time_ms", 0.00975),
        ("exposed_comm_ms", 0),
        ("op:aten::addmm:ms", 0.06),
        ("op:aten::addmm:count", 1),
        ("op:aten::addmm:percent", 100 * 60 / 90),
        ("category:GEMM:ms", 0.06),
        ("category:GEMM:count", 1),
        ("category:GEMM:percent", 100 * 60 / 90),
        ("unlinked_percent", 100 * 30 / 90),
    ],
)
def test_figures_of_a_known_trace(tables: Tables, figure: str, expected: float) -> None:
    assert value(figure, tables) == pytest.approx(expected)


def test_every_row_of_the_timeline_is_a_figure(core: Core) -> None:
    tables = {"gpu_timeline": gpu_timeline(core), "split": gpu_timeline(core, micro_idle_us=5)}
    for row in ROW_MEANING:
        part = tables["split" if row.startswith(("micro", "macro")) else "gpu_timeline"]
        times = dict(zip(part["type"], part["time ms"], strict=True))
        assert value(f"{row.removesuffix('_time')}_ms", {"gpu_timeline": part}) == times[row]


def test_split_idle_time_is_put_together(core: Core, tables: Tables) -> None:
    split = {"gpu_timeline": gpu_timeline(core, micro_idle_us=5)}
    assert value("idle_ms", split) == pytest.approx(value("idle_ms", tables))
    assert value("idle_percent", split) == pytest.approx(value("idle_percent", tables))


def test_rows_of_one_name_are_added(core: Core) -> None:
    table = Table(
        "ops_summary",
        {
            "name": ["a", "b", "a"], "parent_module": ["X", "X", "Y"], "Count": np.array([1, 2, 3]),
            "total_direct_kernel_time_ms": np.array([1.0, 2.0, 3.5]),
        },
    )  # fmt: skip
    assert value("op:a:ms", {"ops_summary": table}) == 4.5
    assert value("op:a:count", {"ops_summary": table}) == 4


@pytest.mark.parametrize(
    ("operator", "met"),
    [(">", (0, 0, 1)), (">=", (0, 1, 1)), ("<", (1, 0, 0)), ("<=", (1, 1, 0)), ("==", (0, 1, 0)), ("!=", (1, 0, 1))],
)
def test_operators(operator: str, met: tuple[int, int, int]) -> None:
    (condition,) = parse([f"idle_percent{operator}20"])
    assert tuple(condition.judge(Reading(v)) is not None for v in (19.5, 20.0, 20.5)) == met


def test_line_of_a_value_next_to_the_limit_makes_sense() -> None:
    (condition,) = parse(["idle_ms > 20"])
    assert condition.judge(Reading(20.0000001)) == "idle_ms is 20.0000001, which is > 20"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a condition is a figure, an operator and a number"),
        ("idle_percent", "a condition is a figure, an operator and a number"),
        ("> 20", "a condition is a figure, an operator and a number"),
        ("idl_percent > 20", "there is no figure 'idl_percent'; did you mean idle_percent?"),
        ("Idle_Percent > 20", "did you mean idle_percent?"),
        ("xyz > 20", "there are computation_ms|percent, .*op:NAME:ms|count|percent"),
        ("idle_percent => 20", "there is no operator =>; there are >, >=, <, <=, ==, !="),
        ("idle_percent = 20", "there is no operator ="),
        ("idle_percent > 20%", "'20%' is not a number"),
        ("idle_percent > ", "'' is not a number"),
        ("idle_percent > 1_0", "'1_0' is not a number"),
        ("idle_percent > nan", "'nan' is not a number"),
        ("idle_percent > inf", "'inf' is not a number"),
        ("op:aten::mm > 1", "'op:aten::mm' must end in one of :ms, :count, :percent"),
        ("category:GEMM > 1", "must end in one of"),
        ("op::ms > 1", "must end in one of"),
        ("category:GEMM:us > 1", "must end in one of"),
        ("idle_percent:diff > 1", "there is no figure 'idle_percent:diff'"),
    ],
)
def test_wrong_usage(text: str, why: str) -> None:
    with pytest.raises(typer.BadParameter) as error:
        parse(["busy_ms > 1", text])
    message = str(error.value.message)
    assert message.startswith(f"--fail-if {text!r}: ")
    assert all(part in message for part in why.split(".*"))


def test_names_may_hold_operators_and_colons() -> None:
    (condition,) = parse(["op:at::kernel<int, 4>=:x y:ms >= 1e3"])
    assert condition.figure.rows == ("at::kernel<int, 4>=:x y",)
    assert (condition.operator, condition.number) == (">=", 1000)


@given(st.text(min_size=1), st.sampled_from([">", ">=", "<", "<=", "==", "!="]), st.floats(-1e300, 1e300))
def test_any_name_can_be_asked_for(name: str, operator: str, number: float) -> None:
    (condition,) = parse([f"op:{name}:ms {operator} {number!r}"])
    assert condition.figure.rows == (name,)
    assert (condition.operator, condition.number) == (operator, number)


def test_suffixes() -> None:
    bare, with_suffix, field = parse(
        ["idle_percent > 1", "idle_percent:pct > 1", "op:a:diff:ms:diff > 1"], suffixes=("diff", "pct")
    )
    assert (bare.suffix, bare.name) == ("", "idle_percent")
    assert (with_suffix.suffix, with_suffix.name) == ("pct", "idle_percent:pct")
    assert with_suffix.figure == bare.figure
    assert (field.suffix, field.figure.rows) == ("diff", ("a:diff",))
    assert with_suffix.judge(Reading(2.0)) == "idle_percent:pct is 2, which is > 1"


def test_figures_that_the_report_will_not_have_are_refused() -> None:
    from tracelens_graph.analyses.report.report_tables import ReportOptions

    for text, options, why in [
        ("unlinked_percent > 1", ReportOptions(linked_only=True), "--linked-only leaves out"),
        ("micro_idle_ms > 1", ReportOptions(), "needs --micro-idle"),
        ("busy_ms > 1", ReportOptions(recompute=True), "--recompute splits the timeline"),
    ]:
        with pytest.raises(typer.BadParameter, match=why):
            parse([text], options=options)
    assert parse(["unlinked_percent > 1", "busy_ms > 1"], options=ReportOptions())
    assert parse(["macro_idle_ms > 1", "op:a:ms > 1"], options=ReportOptions(micro_idle_us=5.0))


def test_what_is_not_in_the_trace_counts_as_0_and_is_said(tables: Tables) -> None:
    conditions = parse(["op:aten::adm:ms > 0", "category:gemm:count < 1", "category:xyz:ms < 1"])
    assert of_tables(conditions, tables)[1] == [
        "category:gemm:count is 0 ('gemm' is not in the trace and counts as 0; did you mean GEMM?), which is < 1",
        "category:xyz:ms is 0 ('xyz' is not in the trace and counts as 0), which is < 1",
    ]
    assert of_tables(conditions, tables)[0] == [
        "op:aten::adm:ms: 'aten::adm' is not in the trace and counts as 0; did you mean aten::addmm?"
    ]


def test_all_linked_is_0_percent_without_a_remark(core: Core) -> None:
    conditions = parse(["unlinked_percent > 0"])
    table = ops_summary_by_category(core.window(under="aten::linear"))
    assert of_tables(conditions, {table.name: table})[1] == []
    assert of_tables(conditions, {table.name: table})[0] == []


@pytest.mark.parametrize("operator", [">", ">=", "<", "<=", "==", "!="])
def test_nothing_unknown_passes(operator: str, core: Core) -> None:
    nothing = gpu_timeline(core.window(under="aten::empty"))
    blocks = gpu_timeline(core, by_recompute=True)
    both = Table("gpu_timeline", {name: [*cells, *cells] for name, cells in blocks.columns.items()})
    nan = Table("gpu_timeline", {"type": ["idle_time"], "percent": np.array([math.nan])})
    for tables, why in [
        ({"gpu_timeline": nothing}, "there are no GPU events"),
        ({"gpu_timeline": both}, "the timeline is split by recomputation"),
        ({"gpu_timeline": nan}, "it is not a number"),
        ({}, "there is no table gpu_timeline with 'type' and 'percent'"),
    ]:
        assert of_tables(parse([f"idle_percent {operator} 20"]), tables)[1] == [
            f"idle_percent is not known ({why}), so {operator} 20 cannot be ruled out"
        ]
    assert (
        "the timeline has no such row"
        in of_tables(parse(["micro_idle_ms > 1"]), {"gpu_timeline": gpu_timeline(core)})[1][0]
    )


def test_timeline_without_recomputation_is_not_split(core: Core, tables: Tables) -> None:
    assert value("idle_ms", {"gpu_timeline": gpu_timeline(core, by_recompute=True)}) == value("idle_ms", tables)


def of_kinds(*rates: float | None) -> Tables:
    schema = {"kind": Column("kind", role=Role.key), "rate": Column("rate"), "ms": Column("time", role=Role.sum)}
    columns = {"kind": ["a"] * len(rates), "rate": list(rates), "ms": [1.0] * len(rates)}
    return {"kinds": Table("kinds", columns, schema)}


@pytest.mark.parametrize(("operator", "expected"), [("<", 3), ("<=", 3), (">", 7), (">=", 7), ("==", math.nan)])
def test_rates_of_several_rows_do_not_add_up(operator: str, expected: float) -> None:
    figure = Figure("kind:a:rate", "kinds", "kind", ("a",), "rate")
    found = read(figure, of_kinds(5.0, 3.0, None, 7.0), operator)
    assert found.value == expected or math.isnan(found.value) == math.isnan(expected)
    assert "3 rows" in found.remark or "do not add up" in found.remark
    assert read(figure, of_kinds(5.0), operator) == Reading(5.0)
    assert math.isnan(read(figure, of_kinds(None, None), operator).value)


def test_times_of_several_rows_add_up() -> None:
    figure = Figure("kind:a:ms", "kinds", "kind", ("a",), "ms")
    assert read(figure, of_kinds(5.0, None), "<") == Reading(2.0)
