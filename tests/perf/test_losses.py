"""Losses: hand-computed costs and what must always hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrix_calls import BF16, FP32, Argument, cost_of, hostile, models_of
from vector_calls import check_growth, expanded, scaled

from tracelens_graph.perf.arguments import Tensor
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.families.training import cross_entropy, difference_loss, negative_log_likelihood

MODELS = models_of("training")
B, S, V = 6, 7, 1000
LONG = "long int"
LOGITS, ROWS, TARGETS = (BF16, (B, 1, V)), (FP32, (B, V)), (LONG, (B,))
E = B * V

KNOWN: list[tuple[str, tuple[Argument, ...], int, int]] = [
    ("CrossEntropyFunction", (LOGITS, (LONG, (B, 1)), 0.0), 5 * E, 2 * E + 12 * B),
    ("CrossEntropyFunction", ((BF16, (B, S, V)), (LONG, (B, S))), 5 * S * E, 2 * S * E + 12 * B * S),
    ("aten::nll_loss_forward", (ROWS, TARGETS, None, 1, -100), B, 12 * B + 4),
    ("aten::nll_loss_forward", (ROWS, TARGETS, None, 0, -100), B, 16 * B),
    ("aten::nll_loss_backward", ((FP32, ()), ROWS, TARGETS, None, 1, -100), B, 4 + 8 * B + 4 * E),
    ("aten::mse_loss", (ROWS, ROWS, 1), 3 * E, 8 * E + 4),
    ("aten::mse_loss", (ROWS, ROWS, 0), 2 * E, 12 * E),
    ("aten::mse_loss_backward", ((FP32, ()), ROWS, ROWS, 1), 3 * E, 4 + 12 * E),
]


@pytest.mark.parametrize(("name", "arguments", "flops", "moved"), KNOWN)
def test_costs_computed_by_hand(name: str, arguments: tuple[Argument, ...], flops: int, moved: int) -> None:
    cost = cost_of(MODELS, name, *arguments)
    assert (cost.flops, cost.bytes, cost.unit) == (flops, moved, "vector")


def test_formulas_without_a_trace() -> None:
    logits, targets = Tensor((4, 8), "bf16"), Tensor((4,), "int64")
    assert (cross_entropy(logits, targets).flops, cross_entropy(logits, targets).bytes) == (160, 64 + 32 + 16)
    assert cross_entropy(logits, targets).params["vocab_size"] == 8
    assert negative_log_likelihood(logits, targets).flops == 4
    assert difference_loss(logits, logits).flops == 96


def test_what_cannot_be_modelled_says_why() -> None:
    with pytest.raises(CannotModel, match="do not broadcast"):
        cost_of(MODELS, "aten::mse_loss", (FP32, (3,)), (FP32, (2,)), 1)
    with pytest.raises(CannotModel, match="no dimension of classes"):
        cost_of(MODELS, "CrossEntropyFunction", (FP32, ()), TARGETS)


@given(st.sampled_from(KNOWN), st.sampled_from([B, V]), st.integers(0, 60))
def test_more_work_costs_more(known: tuple[str, tuple[Argument, ...], int, int], size: int, more: int) -> None:
    name, arguments, _, _ = known
    check_growth(MODELS, name, arguments, scaled(arguments, size, size + more))


def test_an_expanded_dimension_counts_once() -> None:
    dense, thin = (cost_of(MODELS, "CrossEntropyFunction", one, (LONG, (B, 1))) for one in (LOGITS, expanded(LOGITS)))
    assert dense.flops == thin.flops
    assert dense.bytes is not None
    assert thin.bytes == dense.bytes - 2 * (E - V)


test_whatever_the_arguments = hostile(MODELS, [(name, arguments) for name, arguments, *_ in KNOWN])
