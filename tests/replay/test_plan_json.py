"""Plans become JSON and back; whatever is no plan is refused in one line that says where."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from replay_plans import mm, plans, scaled

from tracelens_graph.errors import NotAPlanError
from tracelens_graph.replay.plan_json import plan_from_json, plan_json
from tracelens_graph.replay.replay_plan import Argument, ReplayPlan, TensorValue


def through_a_file(plan: ReplayPlan) -> Any:
    return json.loads(json.dumps(plan_json(plan), allow_nan=False))


@given(plans())
def test_any_plan_comes_back(plan: ReplayPlan) -> None:
    back = plan_from_json(through_a_file(plan))
    assert repr(back) == repr(plan)  # nan is not equal to itself
    assert back.script() == plan.script()


def test_what_json_lacks() -> None:
    told = through_a_file(scaled())
    assert told["positional"]["scalar"] == {"float": "inf"}
    told["positional"]["scalar"] = {"complex": [1, {"float": "nan"}]}
    assert repr(plan_from_json(told).positional[1].value) == "(1+nanj)"


def tensor_of(told: Any) -> Any:
    return told["positional"]["mat2"]["tensor"]


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
    "other arguments": (lambda told: told["positional"].pop("self"), "positional: aten::mm takes self, mat2"),
    "an unknown keyword": (lambda told: told.update(keyword={"x": 1}), "keyword: aten::mm has no x"),
    "no name": (lambda told: told.update(keyword={"x y": 1}), "keyword: expected `str` matching"),
    "no value": (lambda told: told["positional"].update(self={"exec": "x"}), "positional.self: is no argument"),
    "two keys": (
        lambda told: told["positional"].update(self={"dtype": "x", "layout": "y"}),
        "positional.self: is no argument",
    ),
    "a name that is none": (
        lambda told: told["positional"].update(self={"dtype": "a.b"}),
        "positional.self: is no argument",
    ),
    "lists too deep": (lambda told: told["positional"].update(self=[[[[[[[[[[]]]]]]]]]]), "is no argument"),
    "a negative size": (
        lambda told: tensor_of(told).update(shape=[-1]),
        "positional.mat2.tensor.shape[0]: expected `int` >= 0",
    ),
    "too few strides": (
        lambda told: tensor_of(told).update(strides=[1]),
        "positional.mat2.tensor: has 2 sizes and 1 strides",
    ),
    "no dtype": (lambda told: tensor_of(told).update(dtype="a.b"), "positional.mat2.tensor.dtype: expected"),
    "no rule": (lambda told: tensor_of(told).update(fill=["tensor", {}]), "tensor.fill: nothing fills by tensor"),
    "an option of no rule": (
        lambda told: tensor_of(told).update(fill=["normal", {"flat": 1}]),
        "tensor.fill: normal takes no flat",
    ),
    "a kernel that is not text": (lambda told: told["traced"].update(kernels=[1]), "traced.kernels[0]: expected `str`"),
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
    with pytest.raises(NotAPlanError, match="positional"):
        plan_from_json(data | {"positional": {f"{name}{more}": one for name, one in data["positional"].items()}})


def test_arguments_at_their_defaults_are_left_out_and_come_back() -> None:
    """Only those behind one that is left out are given by name."""
    schema = "aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"
    values = (Argument("self", "Tensor", TensorValue((4,), "float32")), Argument("dim", "int", 0))
    plan = ReplayPlan("aten::softmax", "int", schema, (*values, Argument("dtype", "ScalarType?", None)))
    told = through_a_file(plan)
    assert (list(told["positional"]), told.get("keyword")) == (["self", "dim"], None)
    assert plan_from_json(told) == plan
    schema = 'aten::f(Tensor self, int dim=-1, float p=2, int[2] size=1, *, str how="a", bool last=False) -> Tensor'
    given = {"dim": (-1, "int"), "p": (2.0, "float"), "size": ((1, 2), "int[2]")}
    more = tuple(Argument(name, kind, value) for name, (value, kind) in given.items())
    by_name = (Argument("how", "str", "a", "it is not recorded"), Argument("last", "bool", True))
    plan = ReplayPlan("aten::f", "", schema, (values[0], *more), by_name)
    told = through_a_file(plan)
    assert (list(told["positional"]), told["keyword"]) == (["self"], {"size": [1, 2], "last": True})
    assert told["assumed"] == {"how": "it is not recorded"}
    assert [(one.name, one.value, one.assumed) for one in plan_from_json(told).arguments] == [
        (one.name, one.value, one.assumed) for one in plan.arguments
    ]
