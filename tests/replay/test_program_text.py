"""Programs as text: nothing that a plan or a heading says leaves its string."""

from __future__ import annotations

import ast
import inspect
import json
from importlib import resources
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_plans import HOSTILE, plan_in

from tracelens_graph.replay import program as modules
from tracelens_graph.replay.replay_plan import RULES
from tracelens_graph.replay.plan_json import KINDS
from tracelens_graph.replay.program_text import ProgramKind, json_text, program, runner

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | HOSTILE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HOSTILE, inner, max_size=4),
)


@given(HOSTILE, VALUES)
def test_a_program_is_its_heading_its_plan_and_the_runner(about: str, plan: Any) -> None:
    assert plan_in(program("op", about, plan)) == plan


@given(VALUES)
def test_json_has_no_quote_behind_a_backslash(value: Any) -> None:
    text = json_text(value)
    assert json.loads(text) == value
    assert '\\"' not in text
    assert '"""' not in text


@pytest.mark.parametrize("kind", get_args(ProgramKind))
def test_a_runner_needs_nothing_of_this_package(kind: ProgramKind) -> None:
    text = runner(kind)
    compile(text, kind, "exec", dont_inherit=True)
    assert "tracelens_graph" not in text
    assert "def main() -> int:" in text


def test_all_rules_and_kinds_of_values_are_in_the_runner() -> None:
    source = (resources.files(modules) / "values.py").read_text()
    functions = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    rules = {name: node for name, node in functions.items() if [*map(ast.unparse, node.decorator_list)] == ["rule"]}
    assert {name: {one.arg for one in node.args.args} - {"flat"} for name, node in rules.items()} == RULES
    assert all(f'"{kind}"' in source for kind in ("tensor", "float", "complex", *KINDS))
    assert inspect.getdoc(modules)
