"""TraceLens's form of operations, written and read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from replay_plans import converted, mm

from tracelens_graph.compat.replay_form import plan_from_tracelens, plans_of, tracelens_form
from tracelens_graph.replay.replay_plan import TensorValue
from tracelens_graph.replay.plan_json import NotAPlanError

MM = {
    "op_name": "aten::mm",
    "replay_ir": {
        "list_pos_args": [
            {
                "arg_name": "self",
                "arg_type": "Tensor",
                "value": {"shape": [64, 32], "dtype": "c10::BFloat16", "strides": [32, 1], "init": "normal"},
            },
            {
                "arg_name": "mat2",
                "arg_type": "Tensor",
                "value": {"shape": [32, 16], "dtype": "c10::BFloat16", "strides": [1, 32], "init": "normal"},
            },
        ],
        "list_kwargs": [],
    },
}


def argument(name: str, kind: str, value: Any) -> dict[str, Any]:
    return {"arg_name": name, "arg_type": kind, "value": value}


def operation(name: str, *arguments: dict[str, Any], keyword: Any = ()) -> dict[str, Any]:
    return {"op_name": name, "replay_ir": {"list_pos_args": list(arguments), "list_kwargs": list(keyword)}}


def tensor(*shape: int, dtype: str = "long int") -> dict[str, Any]:
    strides = [1] if shape else []
    return {"shape": list(shape), "dtype": dtype, "strides": strides, "init": "zeros"}


def test_written() -> None:
    assert tracelens_form(mm()) == MM


def test_names_are_numbers() -> None:
    form = tracelens_form(converted())["replay_ir"]
    assert form["list_pos_args"][0]["value"] == {
        "shape": [8, 0], "dtype": "long int", "strides": [1, 1], "init": "zeros",
    }  # fmt: skip
    assert [one["value"] for one in form["list_kwargs"]] == [5, 0, None, 2]


def test_read() -> None:
    plan = plan_from_tracelens(json.loads(json.dumps(MM | {"count": 7})))
    assert plan.schema == "aten::mm(Tensor self, Tensor mat2) -> Tensor"
    assert plan.recorded == mm().recorded
    assert plan.traced.calls == 7
    assert tracelens_form(plan) == MM


def test_values_of_all_kinds_are_read() -> None:
    plan = plan_from_tracelens(
        operation(
            "aten::add",
            argument("self", "Tensor", tensor(4)),
            argument("other", "Tensor", tensor(4)),
            keyword=[argument("alpha", "Scalar", 2.0)],
        )
    )
    assert (plan.overload, plan.keyword[0].value) == ("Tensor", 2)
    plan = plan_from_tracelens(
        operation(
            "aten::sum",
            argument("self", "Tensor", tensor(4)),
            argument("dim", "int[1]?", [0]),
            argument("keepdim", "bool", True),
            keyword=[argument("dtype", "ScalarType?", None)],
        )
    )
    assert [one.value for one in plan.arguments][1:] == [(0,), True, None]
    plan = plan_from_tracelens(
        operation(
            "aten::cat",
            argument("tensors", "Tensor[]", [tensor(4, dtype="float"), tensor(2, dtype="float")]),
            argument("dim", "int", 0),
        )
    )
    (first, second) = plan.positional[0].value  # type: ignore[misc]
    assert isinstance(first, TensorValue)
    assert (first.shape, second.shape) == ((4,), (2,))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ([], "operation: expected `object`, got `array`"),
        ({"op_name": "aten::mm"}, "operation: object missing required field `replay_ir`"),
        ({"op_name": "aten::mm", "replay_ir": {"list_pos_args": [1]}}, "replay_ir.list_pos_args[0]: expected `object`"),
        (operation("my::op", argument("x", "Tensor", tensor(4))), "my::op: "),
        (operation("aten::mm"), "aten::mm: "),
        (operation("aten::relu", argument("x", "Tensor", tensor(4))), "aten::relu: takes self"),
        (operation("aten::relu", argument("self", "Tensor", {"shape": "x"})), "sizes of a tensor are"),
        (
            operation("aten::relu", argument("self", "Tensor", {"shape": [{}], "dtype": "float"})),
            "sizes of a tensor are",
        ),
    ],
)
def test_what_is_not_in_the_form(entry: Any, message: str) -> None:
    with pytest.raises(NotAPlanError) as error:
        plan_from_tracelens(entry)
    assert str(error.value).startswith(message)
    with pytest.raises(NotAPlanError, match="^operation 2: "):
        plans_of([MM, entry])
