"""Plans become JSON and back; whatever is no plan is refused in one line that says where."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from replay_plans import converted, mm, plans, scaled

from tracelens_graph.replay.plan_json import NotAPlanError, plan_from_json, plan_json
from tracelens_graph.replay.replay_plan import ReplayPlan


def through_a_file(plan: ReplayPlan) -> Any:
    return json.loads(json.dumps(plan_json(plan), allow_nan=False))


@pytest.mark.parametrize("plan", [mm(), scaled((2,), ()), converted()])
def test_plans_come_back(plan: ReplayPlan) -> None:
    assert plan_from_json(through_a_file(plan)) == plan
    assert plan.json() == plan_json(plan)


@given(plans())
def test_any_plan_comes_back(plan: ReplayPlan) -> None:
    back = plan_from_json(through_a_file(plan))
    assert repr(back) == repr(plan)  # nan is not equal to itself
    assert back.script() == plan.script()


def test_what_json_lacks() -> None:
    told = through_a_file(scaled())
    assert told["positional"][1]["value"] == {"float": "inf"}
    told["positional"][1]["value"] = {"complex": [1, {"float": "nan"}]}
    assert repr(plan_from_json(told).positional[1].value) == "(1+nanj)"


def tensor_of(told: Any) -> Any:
    return told["positional"][1]["value"]["tensor"]


FAULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no object": (lambda told: [], "plan: expected `object`, got `array`"),
    "a key less": (lambda told: told.pop("schema"), "plan: object missing required field `schema`"),
    "a key more": (lambda told: told.update(code=1), "plan: object contains unknown field `code`"),
    "another type": (lambda told: told.update(op=1), "op: expected `str`, got `int`"),
    "no schema": (lambda told: told.update(schema="rm -rf"), "schema: no schema"),
    "the schema of another op": (
        lambda told: told.update(op="aten::bmm"),
        "schema: is of aten::mm, not of 'aten::bmm'",
    ),
    "another overload": (lambda told: told.update(overload="out"), "schema: is of aten::mm"),
    "other arguments": (lambda told: told["positional"].reverse(), "positional: aten::mm takes self, mat2"),
    "an unknown keyword": (
        lambda told: told.update(keyword=[{"name": "x", "type": "int"}]),
        "keyword: aten::mm has no x",
    ),
    "no name": (
        lambda told: told.update(keyword=[{"name": "x y", "type": "int"}]),
        "keyword[0].name: expected `str` matching",
    ),
    "no value": (
        lambda told: told["positional"][0].update(value={"exec": "x"}),
        "positional[0].value: is no argument",
    ),
    "two keys": (
        lambda told: told["positional"][0].update(value={"dtype": "x", "layout": "y"}),
        "positional[0].value: is no argument",
    ),
    "a name that is none": (
        lambda told: told["positional"][0].update(value={"dtype": "a.b"}),
        "positional[0].value: is no argument",
    ),
    "lists too deep": (lambda told: told["positional"][0].update(value=[[[[[[[[[[]]]]]]]]]]), "is no argument"),
    "a negative size": (
        lambda told: tensor_of(told).update(shape=[-1]),
        "positional[1].value.tensor.shape[0]: expected `int` >= 0",
    ),
    "too few strides": (
        lambda told: tensor_of(told).update(strides=[1]),
        "positional[1].value.tensor: has 2 sizes and 1 strides",
    ),
    "no dtype": (lambda told: tensor_of(told).update(dtype="a.b"), "positional[1].value.tensor.dtype: expected"),
    "no rule": (lambda told: tensor_of(told).update(fill="tensor"), "tensor.fill: nothing fills by tensor"),
    "an option of no rule": (
        lambda told: tensor_of(told).update(options={"flat": 1}),
        "tensor.options: normal takes no flat",
    ),
    "a kernel that is no text": (lambda told: told["traced"].update(kernels=[1]), "traced.kernels[0]: expected `str`"),
    "sizes that are none": (lambda told: told["recorded"].update(dims=["x"]), "recorded.dims: is neither"),
}


@pytest.mark.parametrize(("damage", "message"), FAULTS.values(), ids=FAULTS)
def test_faults(damage: Callable[[Any], Any], message: str) -> None:
    told = through_a_file(mm())
    changed = damage(told)
    with pytest.raises(NotAPlanError) as error:
        plan_from_json(changed if changed == [] else told)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("more", ["\n", " ", "."])
def test_names_end_where_they_end(more: str) -> None:
    data = plan_json(mm())
    with pytest.raises(NotAPlanError, match="imports"):
        plan_from_json(data | {"imports": [f"my.ops{more}"]})
    data["positional"][0]["name"] += more
    with pytest.raises(NotAPlanError, match="name"):
        plan_from_json(data)
