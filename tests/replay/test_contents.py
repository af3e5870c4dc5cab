"""What tensors hold so that operations can run on them."""

from __future__ import annotations

from typing import Any

import pytest
from recorded_calls import NOTHING, call, listed, scalar, tensor, tensors

from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.replay_plan import Fill, TensorValue

LONG = {"dtype": "long int"}


def fills(op: str, *arguments: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    plan = plan_of(call(op, *arguments))
    return {
        one.name: (one.value.fill.rule, dict(one.value.fill.options))
        for one in plan.arguments
        if isinstance(one.value, TensorValue)
    }


@pytest.mark.parametrize(
    ("op", "arguments", "name", "rule", "options"),
    [
        ("embedding", [tensor(50, 8), tensor(3, **LONG), scalar("-1"), scalar("False"), scalar("False")], "indices",
         "integers", {"high": 50}),
        ("embedding_dense_backward", [tensor(3, 8), tensor(3, **LONG), scalar("50"), scalar("-1"), scalar("False")],
         "indices", "integers", {"high": 50}),
        ("gather", [tensor(4, 7), scalar("-1"), tensor(4, 2, **LONG), scalar("False")], "index", "integers",
         {"high": 7}),
        ("scatter_add_", [tensor(4, 7), scalar("0"), tensor(2, 7, **LONG), tensor(2, 7)], "index", "integers",
         {"high": 4}),
        ("index_select", [tensor(4, 7), scalar("1"), tensor(9, **LONG)], "index", "integers", {"high": 7}),
        ("take", [tensor(4, 7), tensor(9, **LONG)], "index", "integers", {"high": 28}),
        ("nll_loss_forward", [tensor(4, 7), tensor(4, **LONG), NOTHING, scalar("1"), scalar("-100")], "target",
         "integers", {"high": 7}),
        ("bernoulli", [tensor(4), NOTHING], "self", "uniform", {}),
        ("multinomial", [tensor(4), scalar("2"), scalar("False"), NOTHING], "self", "uniform",
         {"low": 0.1, "high": 1.0}),
        ("linalg_cholesky_ex", [tensor(2, 4, 4), scalar("False"), scalar("False")], "self", "matrices",
         {"size": 4}),
        ("linalg_inv_ex", [tensor(4, 4), scalar("False")], "A", "matrices", {"size": 4}),
        ("linalg_lu_solve", [tensor(4, 4), tensor(4, dtype="int"), tensor(4, 2), scalar("True"), scalar("False")],
         "pivots", "counted", {"row": 4, "start": 1}),
        ("floor_divide", [tensor(4, **LONG), tensor(4, **LONG)], "other", "integers", {"low": 1, "high": 100}),
        ("masked_scatter", [tensor(4, 7), tensor(4, 7, dtype="bool"), tensor(5)], "mask", "first", {"count": 5}),
        ("masked_fill", [tensor(4), tensor(4, dtype="bool"), scalar("0.")], "mask", "mask", {}),
        ("_pack_padded_sequence", [tensor(3, 7, 6), tensor(3, **LONG), scalar("True")], "lengths", "constant",
         {"value": 7}),
        ("_assert_async", [tensor(dtype="bool")], "self", "constant", {"value": 1}),
        ("relu", [tensor(4)], "self", "normal", {}),
        ("neg", [tensor(4, **LONG)], "self", "integers", {"high": 100}),
        ("view", [tensor(4, dtype="c10::Float4_e2m1fn_x2"), listed("[4]")], "self", "raw", {}),
    ],
)  # fmt: skip
def test_arguments_hold_what_the_op_needs(op: str, arguments: list, name: str, rule: str, options: dict) -> None:
    assert fills(op, *arguments)[name] == (rule, options)


def test_lengths_of_sequences_are_cumulated() -> None:
    packed = tensor(20, 4, 8, dtype="c10::Half")
    lengths = tensor(5, dtype="int")
    plan = plan_of(
        call("_flash_attention_forward", packed, packed, packed, lengths, lengths, scalar("5"), scalar("5"),
             scalar("0."), scalar("True"), scalar("False"), scalar("0.5"), *[NOTHING] * 6)
    )  # fmt: skip
    held = {one.name: one.value for one in plan.arguments}
    assert held["cum_seq_q"].fill == held["cum_seq_k"].fill == Fill("rising", {"high": 20})  # type: ignore[union-attr]


def test_batch_sizes_fall_from_the_batch_of_the_hidden_state() -> None:
    weights = tensors((24, 6), (24, 8), (24,), (24,))
    found = fills(
        "gru", tensor(14, 6), tensor(7, **LONG), tensor(1, 3, 8), weights, scalar("True"), scalar("1"), scalar("0."),
        scalar("True"), scalar("False"),
    )  # fmt: skip
    assert found["batch_sizes"] == ("falling", {"total": 14, "most": 3})
