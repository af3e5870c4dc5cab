"""Routing to experts: hand-computed costs and what must always hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrix_calls import BF16, FP32, Argument, cost_of, hostile, models_of
from vector_calls import check_growth, expanded, scaled

from tracelens_graph.perf.arguments import Tensor
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.families.moe import scored_experts

MODELS = models_of("moe")
M, E, K, D = 30, 64, 8, 128
GATING, BIAS, WEIGHTS, IDS = (BF16, (M, E)), (BF16, (E,)), (FP32, (M, K)), ("int", (M, K))

KNOWN: list[tuple[str, tuple[Argument, ...], int, int, str]] = [
    (
        "aiter::biased_grouped_topk_hip",
        (GATING, BIAS, WEIGHTS, IDS, 8, 4),
        M * E,
        2 * M * E + 2 * E + 8 * M * K,
        "bf16",
    ),
    (
        "aiter::moe_sorting_fwd",
        (IDS, WEIGHTS, ("int", (512,)), (FP32, (512,)), ("int", (9,)), ("int", (2,)), (BF16, (M, D)), 64),
        M * D,
        8 * M * K + 8 * 512 + 4 * 11 + 2 * M * D,
        "bf16",
    ),
    (
        "aiter::topk_softplus",
        (WEIGHTS, IDS, GATING, BIAS, True),
        6 * M * E,
        2 * M * E + 4 * E + 8 * M * K,
        "bf16",
    ),
    (
        "sglang_profiler::fused_moe_triton_kernels_fused_append_shared_experts",
        (IDS, WEIGHTS, 1),
        M * K,
        16 * M * K,
        "fp32",
    ),
    ("_moe_C::topk_softmax", (WEIGHTS, IDS, IDS, GATING), 5 * M * E, 2 * M * E + 4 * E + 8 * M * K, "bf16"),
]


@pytest.mark.parametrize(("name", "arguments", "flops", "moved", "precision"), KNOWN)
def test_costs_computed_by_hand(
    name: str, arguments: tuple[Argument, ...], flops: int, moved: int, precision: str
) -> None:
    cost = cost_of(MODELS, name, *arguments)
    assert (cost.flops, cost.bytes, cost.precision, cost.unit) == (flops, moved, precision, "vector")


def test_formula_without_a_trace() -> None:
    assert scored_experts(Tensor((4, 8), "bf16"), 2).bytes == 64 + 32 + 64


def test_what_cannot_be_modelled_says_why() -> None:
    with pytest.raises(CannotModel, match="no argument is a tensor"):
        cost_of(MODELS, "aiter::moe_sorting_fwd", 1, (FP32, ()))
    with pytest.raises(CannotModel, match="logits are no matrix"):
        cost_of(MODELS, "aiter::topk_softplus", WEIGHTS, IDS, BIAS)


@given(st.sampled_from(KNOWN), st.sampled_from([M, E, K, D]), st.integers(0, 60))
def test_more_work_costs_more(known: tuple[str, tuple[Argument, ...], int, int, str], size: int, more: int) -> None:
    name, arguments, *_ = known
    check_growth(MODELS, name, arguments, scaled(arguments, size, size + more))


def test_an_expanded_dimension_counts_once() -> None:
    dense, thin = (cost_of(MODELS, "aiter::topk_softplus", WEIGHTS, IDS, one) for one in (GATING, expanded(GATING)))
    assert dense.flops == thin.flops
    assert dense.bytes is not None
    assert thin.bytes == dense.bytes - 2 * (M - 1) * E


test_whatever_the_arguments = hostile(MODELS, [(name, arguments) for name, arguments, *_ in KNOWN])
