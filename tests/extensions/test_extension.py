"""Extensions: every kind of addition, TraceLens's hooks, entry points, isolation, errors in code of the user's own."""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from extended import KERNEL_US, NORM_KERNEL, NORM_MODEL, categories, norm_cost, tables_of, trace
from handmade import small_trace

from tracelens_graph.analyses.kernels.kernels import kernel_category_summary, kernel_summary
from tracelens_graph.analyses.ops.ops import ops_summary, ops_summary_by_category
from tracelens_graph.analyses.performance.perf_sheets import perf_sheets
from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.analyses.report.report_tables import ReportOptions, as_table, report_tables
from tracelens_graph.categories.kernels import KernelRule
from tracelens_graph.categories.ops import OP_RULES, OpRules, Rule, call_category, op_category
from tracelens_graph.errors import AnalysisError, ExtensionError
from tracelens_graph.extensions.extension import Extension, combined
from tracelens_graph.extensions.loading import GROUP, load_extension
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.edited import renamed
from tracelens_graph.graph.window import narrow
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.devices import architecture
from tracelens_graph.perf.model import CallContext, OpModel, TimeModel
from tracelens_graph.perf.registry import MODELS
from tracelens_graph.reports.document import table_object
from tracelens_graph.tables.table import Column, Table

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "extensions"


@pytest.fixture
def core() -> Core:
    return load_core(trace())


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes an extension file."""

    def written(text: str, name: str = "my_ext.py") -> Path:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return written


# --- kinds of additions ------------------------------------------------------------------------------------------


def test_rules_of_ops_count_in_every_table(core: Core) -> None:
    tables = tables_of(core, Extension(op_rules=OpRules(names={"my::norm": "my norms"})))
    assert categories(tables) == {"my norms": 2, "GEMM": 1}
    assert dict(zip(tables["ops_summary"]["name"], tables["ops_summary"]["Categories"], strict=True)) == {
        "my::norm": ["my norms"], "aten::mm": ["GEMM"],
    }  # fmt: skip
    for name, column in (("ops_unique_args", "op category"), ("unified_perf_summary", "op category"),
                         ("kernel_summary", "Parent op category")):  # fmt: skip
        assert set(tables[name][column]) == {"my norms", "GEMM"}, name


def test_rules_ask_own_patterns_before_built_in_names() -> None:
    own = OpRules(
        by_name=(Rule(re.compile("aten::m"), "mine"),),
        by_kernel=(Rule(re.compile("special"), "special"),),
        by_call=(Rule(re.compile("cudaLaunch"), "launches"),),
    ).before(OP_RULES)
    assert op_category("aten::mm", "", own) == "mine"
    assert op_category("aten::addmm", "special_kernel", own) == "special"
    assert op_category("aten::addmm", "", own) == op_category("aten::addmm", "") == "GEMM"
    assert op_category("unheard of", "", own) == OP_RULES.other
    assert call_category("cudaLaunchKernel", own) == "launches"
    assert call_category("cudaGraphLaunch", own) == "graph"
    assert call_category("cudaMemcpyAsync", own) == OP_RULES.call
    first = OpRules(names={"aten::mm": "first"})
    assert op_category("aten::mm", "", first.before(own)) == "first"
    assert op_category("aten::max", "", first.before(own)) == "mine"


def test_models_bring_tables_and_columns(core: Core) -> None:
    tables = tables_of(core, Extension(models={"my::norm": NORM_MODEL}))
    assert [name for name in tables if name in ("MyNorm_fwd", "GEMM")] == ["GEMM", "MyNorm_fwd"]
    (row,) = tables["MyNorm_fwd"].records()
    assert (row["name"], row["param: shape"], row["name_count"]) == ("my::norm", (4, 8), 2)
    assert row["GFLOPS_first"] == 7 * 32 / 1e9
    unified = {row["name"]: row for row in tables["unified_perf_summary"].records()}
    assert unified["my::norm"]["has_perf_model"]
    assert unified["my::norm"]["Data Moved (MB)"] == 2 * 64 / 2**20


def test_a_model_takes_the_place_of_a_built_in_one(core: Core) -> None:
    def nothing(arguments: Arguments, context: CallContext) -> Cost:
        raise CannotModel("not here")

    tables = tables_of(core, Extension(models={"aten::mm": OpModel(nothing, "GEMM")}))
    assert "GEMM" not in tables
    assert "GEMM" in report_tables(core)


def test_rules_of_kernels_bring_their_categories(core: Core) -> None:
    rules = (KernelRule("my norm kernels", pattern="norm_kernel", op="my::norm"),)
    table = tables_of(core, Extension(kernel_rules=rules))["kernel_summary"]
    assert dict(zip(table["Kernel name"], table["kernel_category"], strict=True)) == {
        "norm_kernel<0>": "my norm kernels", "norm_kernel<1>": "my norm kernels", "::mm_kernel<2>": "GEMM",
    }  # fmt: skip
    tables = tables_of(core, Extension(kernel_rules=rules))
    assert {"my norm kernels"} < set(tables["kernel_category_summary"]["kernel_category"])
    assert "kernel_category_detail" in list(tables)


def test_tables_of_ones_own_are_made_for_the_window(core: Core) -> None:
    def gpu_us(w: Any) -> Table:
        rows = w.gpu_rows
        return Table("", {"us": w.core.columns.dur_ns[rows] / 1e3}, {"us": Column("duration", "us")}, w.titled("Mine"))

    extension = Extension(tables={"mine": gpu_us})
    assert tables_of(core, extension)["mine"]["us"].tolist() == sorted(KERNEL_US, key=KERNEL_US.index)
    second = tables_of(core.window(step=2), extension)
    assert list(second)[-1] == "mine"
    assert (second["mine"].name, second["mine"].title) == ("mine", "Mine (step 2)")
    assert second["mine"]["us"].tolist() == list(KERNEL_US[1:])


def test_a_table_may_be_a_frame() -> None:
    import pandas as pd

    frame = pd.DataFrame({"key": ["a", "b"], "n": [1.5, None], "cells": [[1], None]}).set_index("key")
    frame.attrs = {"title": "Mine", "units": {"n": "us"}, "definitions": {"n": "a number"}, "notes": ["so"]}
    table = as_table("mine", frame, "here")
    assert table.columns.keys() == {"key", "n", "cells"}
    assert list(table["key"]) == ["a", "b"]
    assert np.isnan(table["n"][1])
    assert list(table["cells"]) == [[1], None]
    assert (table.title, table.about["n"], list(table.notes)) == ("Mine", Column("a number", "us"), ["so"])
    assert Table.from_pandas(table.to_pandas(), "mine").records()[0] == table.records()[0]
    with pytest.raises(ExtensionError, match="two columns of mine have one name"):
        as_table("mine", pd.DataFrame([[1, 2]], columns=["a", "a"]), "here")


# --- changes of the graph ----------------------------------------------------------------------------------------


def test_postprocessing_counts_everywhere_and_once(core: Core) -> None:
    calls = []

    def rename(graph: Core) -> Core:
        calls.append(graph)
        return renamed(graph, {op.uid: "aten::layer_norm" for op in graph.find("Op", "my::norm")})

    extension = Extension(postprocess=rename)
    for g in (core, core.window(step=2), extension.processed(core), extension.of(core)):
        assert "aten::layer_norm" in tables_of(g, extension)["ops_summary"]["name"]
    assert calls == [core]
    assert tables_of(core.window(step=2), extension)["ops_summary"].title.endswith("(step 2)")
    assert "my::norm" in report_tables(core)["ops_summary"]["name"]


def test_other_nodes_need_windows_taken_afterwards(core: Core) -> None:
    fewer = trace()
    fewer["traceEvents"] = fewer["traceEvents"][:-3]
    other = load_core(fewer)
    extension = Extension(postprocess=lambda graph: other)
    assert tables_of(core, extension)["ops_summary"]["name"] == ["my::norm"]
    with pytest.raises(ExtensionError, match="take windows of processed"):
        tables_of(core.window(step=2), extension)
    assert len(tables_of(extension.processed(core).window(step=2), extension)["ops_summary"]) == 1
    with pytest.raises(ExtensionError, match="has to return a graph, not NoneType"):
        tables_of(core, Extension(postprocess=lambda graph: None))  # type: ignore[arg-type,return-value]


# --- isolation ---------------------------------------------------------------------------------------------------


def test_analyses_never_see_each_others_extensions(core: Core) -> None:
    plain = {name: json.dumps(list(table.rows()), default=str) for name, table in report_tables(core).items()}
    built_in = dict(MODELS), dict(OP_RULES.names)
    one = Extension(op_rules=OpRules(names={"my::norm": "one"}), models={"my::norm": NORM_MODEL},
                    kernel_rules=(KernelRule("one", "norm"),))  # fmt: skip
    two = Extension(op_rules=OpRules(names={"my::norm": "two"}))
    of_one, of_two = tables_of(core, one), tables_of(core, two)
    assert categories(of_one) == {"one": 2, "GEMM": 1}
    assert categories(of_two) == {"two": 2, "GEMM": 1}
    assert "MyNorm_fwd" in of_one
    assert "MyNorm_fwd" not in of_two
    assert "kernel_category" not in of_two["kernel_summary"].columns
    again = {name: json.dumps(list(table.rows()), default=str) for name, table in report_tables(core).items()}
    assert again == plain
    assert (dict(MODELS), dict(OP_RULES.names)) == built_in


def test_single_analyses_take_an_extended_window(core: Core) -> None:
    extension = Extension(op_rules=OpRules(names={"my::norm": "mine"}))
    assert "mine" in ops_summary_by_category(extension.of(core.window(step=2)))["op category"]
    assert "mine" in kernel_summary(extension.of(core))["Parent op category"]
    assert "mine" not in ops_summary_by_category(core)["op category"]
    narrower = extension.of(core).narrowed(np.ones(len(core.columns), bool), "all")
    assert narrower.extension is extension
    with pytest.raises(ExtensionError, match="goes by ext one already"):
        Extension().of(Extension(name="ext one").of(core))


# --- several -----------------------------------------------------------------------------------------------------


def test_single_tables_and_the_report_go_by_one_extension(core: Core) -> None:
    rules = (KernelRule("Mine", "norm_kernel"),)
    extension = Extension(
        models={"my::norm": NORM_MODEL}, kernel_rules=rules, op_rules=OpRules({"my::norm": "my norms"})
    )
    w = extension.of(core)
    report = tables_of(core, extension)
    for name, alone in {
        "kernel_summary": kernel_summary(w, kernel_categories=True),
        "kernel_category_summary": kernel_category_summary(w),
        "unified_perf_summary": unified_perf_summary(w),
        "ops_summary": ops_summary(w),
        "GEMM": perf_sheets(w)["GEMM"],
    }.items():
        assert table_object(alone)["rows"] == table_object(report[name])["rows"]
    assert "Mine" in kernel_summary(w, kernel_categories=True)["kernel_category"]
    assert unified_perf_summary(w)["has_perf_model"].count(True) > unified_perf_summary(core)["has_perf_model"].count(
        True
    )
    # A window that goes by an extension needs no options, and narrowing keeps it.
    assert report_tables(w)["kernel_summary"].records() == report["kernel_summary"].records()
    assert "Mine" in kernel_summary(narrow(w, step=1), kernel_categories=True)["kernel_category"]


def test_a_registry_takes_the_place_of_the_built_in_models(core: Core) -> None:
    only = Extension(registry={"my::norm": NORM_MODEL})
    known = dict(zip(*(unified_perf_summary(only.of(core))[key] for key in ("name", "has_perf_model")), strict=True))
    assert known == {"my::norm": True, "aten::mm": False}
    with pytest.raises(ExtensionError, match="only one"):
        combined([only, Extension(registry={}, name="none")])


def test_extensions_add_up(core: Core) -> None:
    one = Extension(
        name="one", op_rules=OpRules(names={"my::norm": "one"}), models={"my::norm": NORM_MODEL},
        tables={"a": lambda w: Table("a", {"x": [1]})}, postprocess=lambda g: renamed(g, {NORM_KERNEL: "first"}),
    )  # fmt: skip
    two = Extension(
        name="two", op_rules=OpRules(names={"my::norm": "two", "aten::mm": "two"}),
        tables={"b": lambda w: Table("b", {"x": [2]})},
        postprocess=lambda g: renamed(g, {NORM_KERNEL: g.node(NORM_KERNEL).name + " then second"}),
    )  # fmt: skip
    tables = tables_of(core, combined([one, two]))
    assert categories(tables) == {"one": 2, "two": 1}
    assert list(tables)[-2:] == ["a", "b"]
    assert "first then second" in tables["kernel_summary"]["Kernel name"]
    assert combined([one]) is one
    with pytest.raises(ExtensionError, match="one and x both have a model of my::norm"):
        combined([one, Extension(models=one.models, name="x")])
    with pytest.raises(ExtensionError, match="one and x both have a table a"):
        combined([one, Extension(tables=one.tables, name="x")])


# --- files -------------------------------------------------------------------------------------------------------


def test_a_file_defines_an_extension(core: Core, write: Callable[..., Path]) -> None:
    path = write(
        """
        from __future__ import annotations
        from dataclasses import dataclass
        from tracelens_graph.categories.ops import OpRules
        from tracelens_graph.extensions.extension import Extension

        @dataclass
        class Names:
            category: str

        extension = Extension(op_rules=OpRules(names={"my::norm": Names("from a file").category}))
        """
    )
    extension = load_extension(path)
    assert extension.name == str(path)
    assert "from a file" in categories(tables_of(core, extension))
    assert "from a file" in categories(tables_of(core, load_extension(str(path))))
    assert [file.name for file in path.parent.iterdir()] == ["my_ext.py"]


def test_the_examples_work(core: Core) -> None:
    both = combined(load_extension(EXAMPLES / name) for name in ("my_ext.py", "hooks.py"))
    tables = tables_of(core, both, arch=architecture("h100-sxm"))
    assert tables["longest_kernels"]["us"].tolist() == sorted(KERNEL_US, reverse=True)
    assert tables["steps"].records() == [{"name": f"ProfilerStep#{n}", "ms": ms} for n, ms in ((1, 0.1), (2, 0.2))]
    (product,) = tables["GEMM"].records()
    assert product["With launch Time (µs)_first"] == pytest.approx(product["Roofline Time (µs)_first"] / 0.8 + 2)


# --- entry points ------------------------------------------------------------------------------------------------


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """A package with extensions, as if it were installed."""
    source = tmp_path / "acme_tracelens.py"
    source.write_text(
        "from tracelens_graph.categories.ops import OpRules\n"
        "from tracelens_graph.extensions.extension import Extension\n"
        "ours = Extension(op_rules=OpRules(names={'my::norm': 'acme'}), tables={'fails': lambda w: 1 / 0})\n"
        "op_category_extension = {'my::norm': 'by hook'}\n"
        "number = 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_tracelens", raising=False)
    points = [
        importlib.metadata.EntryPoint(name, f"acme_tracelens{attribute}", GROUP)
        for name, attribute in (("acme", ":ours"), ("module", ""), ("number", ":number"), ("gone", ":gone"))
    ]
    found = importlib.metadata.EntryPoints(points)
    monkeypatch.setattr("tracelens_graph.extensions.loading.entry_points", lambda **chosen: found.select(**chosen))
    return sys.modules[__name__]


@pytest.mark.usefixtures("installed")
def test_entry_points(core: Core) -> None:
    extension = load_extension("acme")
    assert extension.name == "acme"
    assert "acme" in categories(tables_of(core, extension))
    assert "by hook" in categories(tables_of(core, load_extension("module")))
    with pytest.raises(ExtensionError, match=r"acme_tracelens.py:3: ZeroDivisionError"):
        tables_of(core, extension)["fails"]
    with pytest.raises(ExtensionError, match="number: acme_tracelens:number is neither an Extension nor a module"):
        load_extension("number")
    with pytest.raises(ExtensionError, match="AttributeError"):
        load_extension("gone")
    with pytest.raises(
        ExtensionError, match=r"no extension 'other' is installed .*; there are acme, gone, module, number"
    ):
        load_extension("other")


# --- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = (\n", ":2: SyntaxError: '(' was never closed"),
        ("x = 1\n1 / 0\n", ":2: ZeroDivisionError: division by zero"),
        ("import no_such_package\n", ":1: ModuleNotFoundError: No module named 'no_such_package'"),
        ("import sys\nsys.exit(3)\n", ":2: SystemExit: 3"),
        ("x = 1\n", ": registers nothing: it has neither extension = Extension(...) nor"),
        ("extension = 3\n", ": extension has to be an Extension, not int"),
    ],
)
def test_files_that_fail(write: Callable[..., Path], text: str, message: str) -> None:
    path = write(text)
    with pytest.raises(ExtensionError) as caught:
        load_extension(path)
    assert str(caught.value).startswith(f"{path}{message}")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ExtensionError, match=r"none.py: cannot be read: no such file or directory"):
        load_extension(tmp_path / "none.py")


@pytest.mark.parametrize(
    ("part", "table"),
    [
        ("models={'my::norm': OpModel(fail, 'GEMM')}", "GEMM"),
        ("tables={'mine': fail}", "mine"),
        ("table_sets=(fail,)", "mine"),
        ("postprocess=fail", "ops_summary"),
        ("time_models=(TimeModel('S', fail),)", "GEMM"),
    ],
)
def test_functions_that_fail_name_their_line(core: Core, write: Callable[..., Path], part: str, table: str) -> None:
    path = write(
        f"""
        from tracelens_graph.perf.model import TimeModel
        from tracelens_graph.extensions.extension import Extension
        from tracelens_graph.perf.model import OpModel

        def fail(*given):
            return {{}}["what"]

        extension = Extension({part})
        """
    )
    said = f"{path}:7: KeyError: 'what'"
    with pytest.raises(ExtensionError, match=re.escape(said)) as caught:
        tables_of(core, load_extension(path))[table]
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"op_rules": {"a": "b"}}, "op_rules holds {'a': 'b'}, which is no OpRules"),
        ({"models": {"a": norm_cost}}, "which is no OpModel"),
        ({"kernel_rules": [("GEMM", "x")]}, "which is no KernelRule"),
        ({"tables": {"mine": Table("mine", {})}}, "which is no function"),
        ({"tables": 3}, "tables is of type int"),
        ({"kernel_rules": [KernelRule("GEMM", "(")]}, "'(' is no regular expression"),
        ({"postprocess": 3}, "postprocess holds 3, which is no function"),
        ({"tables": {"ops_summary": print}}, "ops_summary is the name of a built-in table"),
        ({"tables": {"GEMM": print}}, "GEMM is the name of a built-in table"),
    ],
)
def test_what_an_extension_cannot_hold(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ExtensionError, match=re.escape(message)):
        Extension(**given)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (3, "mine has to be a Table or a DataFrame, not int"),
        (Table("mine", {"a": [1], "b": [1, 2]}), "in mine, a has 1 cells and b 2"),
    ],
)
def test_tables_that_are_none(core: Core, made: Any, message: str) -> None:
    with pytest.raises(ExtensionError, match=message):
        tables_of(core, Extension(tables={"mine": lambda w: made}))["mine"]


def test_sets_of_tables(core: Core) -> None:
    one = Table("x", {"a": [1]})
    tables = tables_of(core, Extension(table_sets=(lambda w: {"x": one}, lambda w: {"y": one})))
    assert list(tables)[-2:] == ["x", "y"]
    for sets, message in (
        ((lambda w: {"x": one}, lambda w: {"x": one}), "there are two tables x"),
        ((lambda w: {"gpu_timeline": one},), "gpu_timeline is the name of a built-in table"),
        ((lambda w: [one],), "expected tables by name, not list"),
    ):
        with pytest.raises(ExtensionError, match=message):
            list(tables_of(core, Extension(table_sets=sets)))  # type: ignore[arg-type]


def test_models_return_costs_and_times(core: Core, write: Callable[..., Path]) -> None:
    path = write(
        """
        from tracelens_graph.extensions.extension import Extension
        from tracelens_graph.perf.model import OpModel

        extension = Extension(models={"my::norm": OpModel(lambda *given: 7, "GEMM")})
        """
    )
    with pytest.raises(ExtensionError, match=f"{path}: a Cost is wanted of a model, not 7"):
        tables_of(core, load_extension(path))["GEMM"]
    with pytest.raises(ExtensionError, match="S: expected a time in us, not 'fast'"):
        tables_of(core, Extension(time_models=[TimeModel("S", lambda *given: "fast")]))["GEMM"]


def test_a_toml_file_holds_patterns_of_kernel_names(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[rule]]\ncategory = "MoE"\npattern = "gemm"\n')
    ext = load_extension(file)
    assert [(rule.category, rule.pattern) for rule in ext.kernel_rules] == [("MoE", "gemm")]
    tables = report_tables(load_core(small_trace()), ReportOptions(extension=ext, kernel_categories=True))
    assert "MoE" in tables["kernel_category_summary"]["kernel_category"]
    file.write_text("[[rule]]\n")
    with pytest.raises(AnalysisError, match="mine.toml, rule 1"):
        load_extension(file)


def _fails(*given: Any) -> Any:
    return 1 / 0


def _exits(*given: Any) -> Any:
    sys.exit(3)


@pytest.mark.parametrize("function", [_fails, _exits, lambda *given: int("x"), partial(_fails, 1)])
def test_errors_of_an_extension_in_a_script_say_where(core: Core, function: Callable[..., Any]) -> None:
    asked: dict[str, Callable[[Extension], object]] = {
        "models": lambda one: unified_perf_summary(one.of(core)),
        "tables": lambda one: dict(report_tables(core, ReportOptions(extension=one))),
        "table_sets": lambda one: dict(report_tables(core, ReportOptions(extension=one))),
        "postprocess": lambda one: one.of(core),
    }
    made: dict[str, Any] = {
        "models": {"my::norm": OpModel(function, "NORM")},
        "tables": {"mine": function},
        "table_sets": [function],
        "postprocess": function,
    }
    for what, ask in asked.items():
        extension = Extension(**{what: made[what]})
        for one in (extension, combined([extension, Extension(name="other")])):
            with pytest.raises(
                ExtensionError, match=r"test_extension\.py:\d+: (ZeroDivisionError|SystemExit|ValueError)"
            ) as caught:
                ask(one)
            assert isinstance(caught.value.__cause__, ZeroDivisionError | SystemExit | ValueError)
