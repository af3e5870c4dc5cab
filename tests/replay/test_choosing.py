"""Which schema a call was made by."""

from __future__ import annotations

import pytest
from recorded_calls import NOTHING, call, listed, scalar, tensor, tensors

from tracelens_graph.errors import CannotReplay
from tracelens_graph.replay.calls import Call, number
from tracelens_graph.replay.choosing import choose
from tracelens_graph.replay.replay_plan import Recorded


@pytest.mark.parametrize(
    ("op", "arguments", "overload"),
    [
        ("add", [tensor(2), tensor(2), scalar("1")], "Tensor"),
        ("add", [tensor(2), scalar("1"), scalar("1")], "Scalar"),
        ("add", [tensor(2), tensor(2), scalar("1"), tensor(2)], "out"),
        ("sum", [tensor(2), NOTHING], ""),
        ("sum", [tensor(2), listed("[0]"), scalar("False"), NOTHING], "dim_IntList"),
        ("mean", [tensor(2), listed("[0]"), scalar("True"), NOTHING], "dim"),
        ("to", [tensor(2), scalar("6"), scalar("False"), scalar("False"), NOTHING], "dtype"),
        ("fill_", [tensor(2), scalar("0.")], "Scalar"),
        ("fill_", [tensor(2), tensor()], "Tensor"),
        ("cat", [tensors((2,), (3,)), scalar("0")], ""),
        ("pow", [tensor(2), scalar("2")], "Tensor_Scalar"),
        ("uniform_", [tensor(2), scalar("0."), scalar("1."), NOTHING], ""),
        ("div", [tensor(2), tensor(2), NOTHING], "Tensor_mode"),
        ("linalg_pinv", [tensor(2, 2), NOTHING, NOTHING, scalar("False")], "atol_rtol_tensor"),
        ("max", [tensor(2), scalar("0"), scalar("False")], "dim"),
        (
            "conv2d",
            [tensor(1, 1, 4, 4), tensor(1, 1, 2, 2), NOTHING, listed("[1, 1]"), NOTHING, listed("[1, 1]"), scalar("1")],
            "padding",
        ),
    ],
)
def test_arguments_choose_the_overload(op: str, arguments: list, overload: str) -> None:
    assert choose(call(op, *arguments)).overload == overload


def test_a_version_with_as_many_parameters_is_taken() -> None:
    query = tensor(1, 4, 2, 8, dtype="c10::Half")
    arguments = [query] * 3 + [NOTHING] * 2 + [scalar("4"), scalar("4"), scalar("0."), scalar("True"), scalar("False")]
    schema = choose(call("_flash_attention_forward", *arguments, scalar("0.5"), *[NOTHING] * 4))
    assert len(schema.parameters) == 15
    assert schema.last != "2.15"


def test_an_execution_trace_names_the_overload() -> None:
    made = call("max", tensor(3), tensor(3), schema="aten::max.other(Tensor self, Tensor other) -> Tensor")
    assert choose(made).overload == "other"
    nonsense = call("max", tensor(3), tensor(3), schema="aten::max.no such(")
    assert choose(nonsense).overload in ("other", "unary_out")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (call("no_such", tensor(2)), "not an operator of PyTorch"),
        (call("mm"), "arguments are not recorded"),
        (call("mm", tensor(2, 2)), "no known schema takes 1 arguments"),
        (
            Call("aten::mm", Recorded(((2, 2),), ("float",), ((2, 1),), ("", "", ""))),
            "types and sizes of 2 of its 3 arguments are not recorded",
        ),
        (call("mm", tensor(2, 2), scalar("1")), "no known schema takes these arguments"),
    ],
)
def test_what_cannot_be_resolved_says_so(made: object, reason: str) -> None:
    with pytest.raises(CannotReplay) as raised:
        choose(made)  # type: ignore[arg-type]
    assert raised.value.reason == reason
    assert raised.value.remedy


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-1", -1), ("True", True), ("1.", 1.0), ("-inf", float("-inf")), ("0.10000000000000001", 0.1),
        ("1.-2.5j", 1 - 2.5j), ("1e-05", 1e-05), ("9223372036854775807", 2**63 - 1),
    ],
)  # fmt: skip
def test_numbers_as_the_profiler_writes_them(text: str, value: object) -> None:
    found = number(text)
    assert found == value
    assert type(found) is type(value)
