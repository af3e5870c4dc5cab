"""Lists of operations, and the program that runs them."""

from __future__ import annotations

import ast
import json

import pytest
from replay_plans import converted, mm, scaled

from tracelens_graph.replay.assemble import parts
from tracelens_graph.replay.batch import operations, plans_of, runner
from tracelens_graph.replay.plan_json import KINDS, NotAPlanError

PLANS = [mm(), scaled((2,), (3,)), converted()]


def test_a_list_comes_back() -> None:
    entries = json.loads(json.dumps(operations(PLANS)))
    assert [(one["operation"], one["count"], one["restored"]) for one in entries] == [
        ("aten::mm", 12, []), ("aten::_foreach_mul_", 1, ["self"]), ("aten::to", 1, []),
    ]  # fmt: skip
    assert plans_of(entries) == PLANS


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({}, "the list of operations is no list"),
        ([1], "operation 1: is no operation"),
        ([{"operation": "aten::mm"}], "operation 1: is no operation"),
        ([*operations([mm()]), {"plan": {}}], "operation 2: plan: object missing"),
    ],
)
def test_what_is_no_list(entries: object, message: str) -> None:
    with pytest.raises(NotAPlanError) as error:
        plans_of(entries)
    assert str(error.value).startswith(message)


def test_the_program_makes_all_that_json_describes() -> None:
    tree = ast.parse(runner())
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert parts("values").rules.keys() <= names
    (builders,) = (
        node for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "BUILDERS"
    )
    assert isinstance(builders.value, ast.Dict)
    assert {ast.literal_eval(key) for key in builders.value.keys if key} == {"tensor", "float", "complex", *KINDS}


def test_the_program_is_always_the_same() -> None:
    assert runner() == runner()
    assert runner().isascii()
