"""Calls that no machine can make, or whose records are no records, have no plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recorded_calls import NOTHING, call, listed, scalar, tensor, tensors

from tracelens_graph.replay.replay_plan import Argument, TensorValue
from tracelens_graph.replay.feasible import NOT_GIVEN, TOO_LARGE, TOO_MANY_BITS, UNREADABLE, bytes_of, bytes_together
from tracelens_graph.replay.plan_json import plan_from_json, plan_json
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.replay_plan import CannotReplay

BIG = 1 << 62
FLOAT = tensor(4, 4)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (((None, "float", (4, 1), ""), FLOAT), "sizes of a tensor cannot be read"),
        ((("x", "float", (4, 1), ""), FLOAT), UNREADABLE),
        ((((1.5, 2), "float", (4, 1), ""), FLOAT), UNREADABLE),
        ((((True, 2), "float", (4, 1), ""), FLOAT), UNREADABLE),
        (((((4,) * 2, "a"), "float", (4, 1), ""), FLOAT), UNREADABLE),
        ((tensor(10**30, 1), FLOAT), UNREADABLE),
        ((tensor(4, 4, strides=(10**30, 1)), FLOAT), UNREADABLE),
        ((tensor(4, 4, strides=(4,)), FLOAT), UNREADABLE),
        ((tensor(4, 4, strides=(4, 1, 1)), FLOAT), UNREADABLE),
        ((tensor(4, 4, strides=(-4, 1)), FLOAT), UNREADABLE),
        ((((4, 4), "float", 7, ""), FLOAT), UNREADABLE),
        ((((4, 4), "float", ("a", "b"), ""), FLOAT), UNREADABLE),
        ((tensor(BIG, BIG, strides=(1, 1)), FLOAT), TOO_LARGE),
        ((tensor(4, 4, strides=(BIG, 1)), FLOAT), TOO_LARGE),
        ((tensor(*[1] * 65), FLOAT), TOO_LARGE),
        ((NOTHING, FLOAT), NOT_GIVEN),
        ((((4, 4), "", (4, 1), ""), FLOAT), NOT_GIVEN),
        ((FLOAT, ((4, 4), "", (4, 1), "")), NOT_GIVEN),
        ((NOTHING, NOTHING), NOT_GIVEN),
    ],
)
def test_products_that_cannot_be(arguments: tuple[Any, Any], reason: str) -> None:
    with pytest.raises(CannotReplay) as error:
        plan_of(call("mm", *arguments))
    assert error.value.reason == reason


def test_undefined_tensors_behind_the_first_are_passed_as_such() -> None:
    made = plan_of(call("mm", FLOAT, NOTHING))
    assert [one.value for one in made.arguments][1] is None


@pytest.mark.parametrize("part", ["dims", "strides"])
@pytest.mark.parametrize("entries", [((4, 4),), ((4, 4),) * 3])
def test_as_many_sizes_and_strides_as_arguments(part: str, entries: tuple[Any, ...]) -> None:
    made = call("mm", FLOAT, FLOAT)
    with pytest.raises(CannotReplay, match=UNREADABLE):
        plan_of(replace(made, recorded=replace(made.recorded, **{part: entries})))


def test_lists_of_tensors_with_other_strides() -> None:
    dims, kind, _, value = tensors((4, 4), (2, 2))
    with pytest.raises(CannotReplay, match=UNREADABLE):
        plan_of(call("cat", (dims, kind, ((4, 1), (1,)), value), scalar("0")))


def test_numbers_of_more_than_64_bits() -> None:
    for text, fits in ((str(2**63), True), (str(2**64), False), (str(-(2**63) - 1), False)):
        made = call("full", listed("[2]"), scalar(text), NOTHING, NOTHING, NOTHING, NOTHING)
        if fits:
            assert plan_of(made)
        else:
            with pytest.raises(CannotReplay, match=TOO_MANY_BITS):
                plan_of(made)


@pytest.mark.parametrize(
    "arguments",
    [(FLOAT, FLOAT), (tensor(0, 4), tensor(4, 0)), (tensor(4, 4, strides=(0, 0)), FLOAT), (tensor(BIG >> 4, 1), FLOAT),
     (((4, 4), "float", (), ""), FLOAT), (((4, 4), "float", "", ""), FLOAT)],
)  # fmt: skip
def test_what_can_be_is_read_again(arguments: tuple[Any, Any]) -> None:
    made = plan_of(call("mm", *arguments))
    assert plan_from_json(plan_json(made)) == made


def test_bytes_of_a_tensor() -> None:
    assert bytes_of(TensorValue((4, 4), "float32")) == 64
    assert bytes_of(TensorValue((4, 4), "float32", (1, 8))) == 4 * (3 + 24 + 1)
    assert bytes_of(TensorValue((4, 0), "float32", (1, 8))) == 0
    assert bytes_of(TensorValue((4,), "bfloat16", offset=2, reach=3)) == 12
    assert bytes_of(TensorValue((4,), "bfloat16", reach=30)) == 60


def test_bytes_of_tensors_that_share_memory() -> None:
    shapes = [((8,), 0), ((4,), 0), ((2,), 1), ((16,), None), ((16,), None)]
    values = tuple(TensorValue(shape, "float32", storage=storage) for shape, storage in shapes)
    assert bytes_together([Argument("a", "Tensor[]", values), Argument("b", "int", 3)]) == 4 * (8 + 2 + 32)
