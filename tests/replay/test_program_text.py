"""Programs as text: nothing that a plan or a heading says leaves its string."""

from __future__ import annotations

import ast
import inspect
import json
import re
from importlib import resources
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_plans import HOSTILE, mm, plan_in, plans

from tracelens_graph.replay import program as modules
from tracelens_graph.replay.plan_json import KINDS
from tracelens_graph.replay.program_text import (
    ProgramKind,
    identifier,
    program,
    runner,
)
from tracelens_graph.replay.replay_plan import RULES, Argument, ReplayPlan, TensorValue

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | HOSTILE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HOSTILE, inner, max_size=4),
)


@given(HOSTILE, VALUES)
def test_a_program_is_its_heading_its_plan_and_the_runner(about: str, plan: Any) -> None:
    assert plan_in(program("full", about, plan)) == plan


@pytest.mark.parametrize("kind", [one for one in get_args(ProgramKind) if one != "op"])
def test_a_runner_needs_nothing_of_this_package(kind: ProgramKind) -> None:
    text = runner(kind)
    compile(text, kind, "exec", dont_inherit=True)
    assert "tracelens_graph" not in text
    assert "def main() -> int:" in text


def test_all_rules_and_kinds_of_values_are_in_the_runner() -> None:
    source = (resources.files(modules) / "values.py").read_text()
    (table,) = (ast.unparse(one.value) for one in ast.parse(source).body if isinstance(one, ast.AnnAssign)
                and ast.unparse(one.target) == "FILLS")  # fmt: skip
    given = {"shape", "elements", "dtype", "device"}
    rules = {name: {*inspect.signature(made).parameters} for name, made in eval(table).items()}
    assert {name: names - given for name, names in rules.items()} == RULES
    assert all(names >= given for names in rules.values())
    assert all(f'"{kind}"' in source for kind in ("tensor", "float", "complex", *KINDS))
    assert inspect.getdoc(modules)


# --- Headings of programs, names of their files, and that hostile text stays text


def test_heading() -> None:
    assert ast.get_docstring(ast.parse(mm(notes=("grad mode is not recorded",)).script(full=True))) == (
        "aten::mm: one operation of a trace, called again by itself.\n"
        "\n"
        "arguments  self bfloat16[64, 32], mat2 bfloat16[32, 16] with strides [1, 32]\n"
        "traced     12 calls, 1,250.4 us of GPU time in all, median 104.00 us a call, on\n"
        "           NVIDIA H100\n"
        "kernel     gemm_kernel\n"
        "note       grad mode is not recorded\n"
        "\n"
        "python FILE runs it, python FILE --json RESULTS keeps what it measured, too, and\n"
        "python FILE --help lists all options.\n"
        "\n"
        "Written by tracelens_graph 0.1.0; needs PyTorch and nothing else."
    )


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)", {"self"}),
        ("aten::zero_(Tensor(a!) self) -> Tensor(a!)", set()),
        ("aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)", set()),
        ("aten::t_(Tensor(a!) self) -> Tensor(a!)", {"self"}),
    ],
)
def test_only_what_is_read_and_written_is_restored(schema: str, written: set[str]) -> None:
    op, _, overload = schema.partition("(")[0].partition(".")
    assert set(ReplayPlan(op, overload, schema, ()).restored) == written


@pytest.mark.parametrize(("shape", "written"), [((0,), {"out"}), ((4,), set())])
def test_an_output_that_grows_is_empty_again_before_the_next_call(shape: tuple[int, ...], written: set[str]) -> None:
    schema = "aten::abs.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"
    out = Argument("out", "Tensor(a!)", TensorValue(shape, "float32"))
    plan = ReplayPlan("aten::abs", "out", schema, (Argument("self", "Tensor", TensorValue((4,), "float32")),), (out,))
    assert set(plan.restored) == set(plan_in(plan.script(full=True))[0].get("restored", [])) == written


def keys(source: str, *functions: str) -> set[str]:
    """Keys of the dictionaries that functions return, and of those named in them."""
    found = [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.FunctionDef) and one.name in functions]
    returned = [one.value for of in found for one in ast.walk(of) if isinstance(one, ast.Return)]
    listed = [key for one in returned if isinstance(one, ast.Dict) for key in one.keys]
    return {key.value for key in listed if isinstance(key, ast.Constant)}


def test_results_of_all_programs_have_the_keys_of_the_short_ones() -> None:
    short = re.findall(r"(?<![-\w])(\w+)=", mm().script().partition("result = dict(")[2].partition("signature=")[0])
    assert {"tbytes_per_s", "settings", "percent", "spread_us"} < set(short)
    assert set(short) - {"op"} <= keys(runner("full"), "measure_call")
    assert set(short) <= keys(runner("instruction"), "measured", "known_of")


@given(plans())
def test_hostile_text_stays_text(plan: ReplayPlan) -> None:
    assert plan_in(plan.script(full=True)) == json.loads(json.dumps([plan.json()]))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("aten::mm", "aten_mm"),
        ("aten::add_", "aten_add"),
        ("3d", "op_3d"),
        ("", "op"),
        ("é\0", "op"),
        ("class", "class_"),
    ],
)
def test_identifiers(text: str, name: str) -> None:
    assert identifier(text) == name
