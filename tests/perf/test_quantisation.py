"""Quantisation: hand-computed costs and what must always hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrix_calls import BF16, BYTES, FP8, FP32, Argument, cost_of, hostile, models_of
from vector_calls import check_growth, expanded, scaled

from tracelens_graph.perf.arguments import Tensor
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.families.quantisation import (
    quantised_by_tensor,
    quantised_fp8,
    quantised_mxfp4,
    quantised_mxfp4_both_ways,
)

MODELS = models_of("quantisation")
M, N = 40, 256
E = M * N
X = (BF16, (M, N))

KNOWN: list[tuple[str, tuple[Argument, ...], int, int]] = [
    ("aiter::dynamic_per_token_scaled_quant", ((FP8, (M, N)), X, (FP32, (M, 1))), 83 * E // 32, 3 * E + 4 * M),
    ("_C::per_token_group_fp8_quant", (X, (FP8, (M, N)), (FP32, (M, 2))), 83 * E // 32, 3 * E + 8 * M),
    ("vllm::triton_per_token_group_quant_fp8", (X, 128), 6 * E, 3 * E + 4 * M * 2),
    ("vllm::triton_per_token_group_quant_fp8", (X, None), 6 * E, 3 * E + 4 * M * 2),
    ("vllm::triton_per_token_group_quant_fp8", (X, 100), 6 * E, 3 * E + 4 * M * 3),
    ("sglang_profiler::quant_dynamic_mxfp4_quant", (X,), 2 * E, 2 * E + E // 2 + E // 32),
    (
        "aiter::dynamic_per_group_scaled_quant_fp4",
        ((BYTES, (M, N // 2)), X, (BYTES, (M, 8))),
        2 * E,
        2 * E + E // 2 + E // 32,
    ),
    ("primus_turbo::quantize_fp8_tensorwise", (X, 1.0), E, 3 * E),
    ("primus::quantize_mxfp4_dual", (X,), E, 3 * E + M * 8 + N * 2),
    ("_C::static_scaled_fp8_quant", ((FP8, (M, N)), X, (FP32, ())), 2 * E, 3 * E + 4),
]


@pytest.mark.parametrize(("name", "arguments", "flops", "moved"), KNOWN)
def test_costs_computed_by_hand(name: str, arguments: tuple[Argument, ...], flops: int, moved: int) -> None:
    cost = cost_of(MODELS, name, *arguments)
    assert (cost.flops, cost.bytes, cost.compute_spec) == (flops, moved, "vector_bf16")


def test_formulas_without_a_trace() -> None:
    source = Tensor((4, 64), "bf16")
    assert quantised_fp8(source).bytes == 512 + 256 + 16
    assert quantised_fp8(source, group=32).bytes == 512 + 256 + 32
    assert quantised_mxfp4(source).bytes == 512 + 128 + 8
    assert quantised_mxfp4_both_ways(source).bytes == 512 + 256 + 8 + 64
    assert quantised_by_tensor(source).bytes == 768


def test_what_cannot_be_modelled_says_why() -> None:
    with pytest.raises(CannotModel, match="no matrix"):
        cost_of(MODELS, "primus::quantize_mxfp4_dual", (BF16, (4,)))


@given(st.sampled_from(KNOWN), st.sampled_from([M, N]), st.integers(0, 60))
def test_more_work_costs_more(known: tuple[str, tuple[Argument, ...], int, int], size: int, more: int) -> None:
    name, arguments, _, _ = known
    check_growth(MODELS, name, arguments, scaled(arguments, size, size + more))


def test_an_expanded_dimension_counts_once() -> None:
    dense, thin = (cost_of(MODELS, "primus_turbo::quantize_fp8_tensorwise", one) for one in (X, expanded(X)))
    assert dense.flops == thin.flops
    assert dense.bytes is not None
    assert thin.bytes == dense.bytes - 2 * (E - N)


test_whatever_the_arguments = hostile(MODELS, [(name, arguments) for name, arguments, *_ in KNOWN])
