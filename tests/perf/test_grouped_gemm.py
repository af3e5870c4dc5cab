"""Grouped products: hand-computed costs, the range that the unknown split of rows leaves, and what must always hold."""

from __future__ import annotations

import json

import pytest
from hypothesis import strategies as st
from op_costs import BF16, FP8, FP32, Family, call

from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.grouped_gemm import (
    grouped_gemm,
)
from tracelens_graph.perf.model import CallContext

FAMILY = Family("grouped_gemm")

M, N, K, G = 100, 30, 20, 4
LENGTHS, OFFSETS = ("long int", (G,)), ("long int", (G + 1,))
FLOPS = 2 * M * N * K


def listed(name: str, a: list[list[int]], b: list[list[int]]) -> Cost:
    """The older form: the operands of every group in a list."""
    return FAMILY.models[name].estimate(Arguments(json.dumps([a, b]), json.dumps([BF16, BF16])), CallContext())


@pytest.mark.parametrize(
    ("matrices", "flag"),
    [((G, K, N), False), ((G, N, K), True), ((G, N, K), None)],
)
def test_rows_by_matrices(matrices: tuple[int, ...], flag: bool | None) -> None:
    cost = FAMILY.cost("primus_turbo::grouped_gemm", (BF16, (M, K)), (BF16, matrices), LENGTHS, OFFSETS, False, flag)
    assert (cost.flops, cost.bytes) == (FLOPS, 2 * (M * K + G * K * N + M * N))
    assert cost.bytes_range == (2 * (M * K + K * N + M * N), cost.bytes)
    assert cost.params == {"M": M, "K": K, "N": N, "G": G, "bpe_in": 2, "bpe_out": 2}
    assert cost.compute_spec == "matrix_bf16"


def test_groups_without_rows_are_not_read() -> None:
    assert grouped_gemm(2, N, K, G).bytes == 2 * (2 * K + 2 * K * N + 2 * N)
    assert (grouped_gemm(0, N, K, G).bytes, grouped_gemm(0, N, K, G).bytes_range) == (0, (0, 0))


def test_both_gradients() -> None:
    estimate = FAMILY.models["primus_turbo::grouped_gemm"].backward
    assert estimate is not None
    cost = estimate(call((BF16, (M, K)), (BF16, (G, K, N)), LENGTHS, OFFSETS, False, False), CallContext())
    assert (cost.flops, cost.bytes) == (2 * FLOPS, 2 * (2 * M * N + 2 * M * K + 2 * G * K * N))


def test_gradient_of_the_matrices_writes_one_per_group() -> None:
    cost = FAMILY.cost("primus_turbo::grouped_gemm_variable_k", (BF16, (M, K)), (BF16, (M, N)), LENGTHS, OFFSETS)
    assert (cost.flops, cost.bytes) == (FLOPS, 2 * (M * K + M * N + G * K * N))
    assert cost.bytes_range is None


def test_listed_groups() -> None:
    cost = listed("primus_turbo::grouped_gemm", [[60, K], [40, K]], [[K, N], [K, N]])
    assert (cost.flops, cost.bytes) == (FLOPS, 2 * (M * K + 2 * K * N + M * N))
    varied = listed("primus_turbo::grouped_gemm_variable_k", [[2, 3], [4, 5]], [[3, 7], [5, 9]])
    assert varied.flops == 2 * (2 * 3 * 7 + 4 * 5 * 9)
    assert varied.bytes == 2 * (6 + 21 + 14 + 20 + 45 + 36)
    with pytest.raises(CannotModel, match="more than their rows"):
        listed("primus_turbo::grouped_gemm", [[60, K], [40, K]], [[K, N], [K, N + 1]])
    with pytest.raises(CannotModel, match="inner sizes"):
        listed("primus_turbo::grouped_gemm_variable_k", [[2, 3]], [[4, 7]])


@pytest.mark.parametrize(
    ("a", "b", "flops", "numbers"),
    [
        ((M, K), (G, K, N), FLOPS, M * K + G * K * N + M * N),
        ((G, N, K), (K, M), FLOPS, M * K + G * K * N + M * N),
        ((K, M), (M, N), FLOPS, K * M + M * N + G * K * N),
        ((G, M, K), (G, K, N), G * FLOPS, G * (M * K + K * N + M * N)),
    ],
)
def test_aten(a: tuple[int, ...], b: tuple[int, ...], flops: int, numbers: int) -> None:
    cost = FAMILY.cost("aten::_grouped_mm", (BF16, a), (BF16, b), ("int", (G,)))
    assert (cost.flops, cost.bytes) == (flops, 2 * numbers)


def test_aten_scaled() -> None:
    scales = [(FP32, (M,)), (FP32, (G, N))]
    arguments = ((FP8, (M, K)), (FP8, (G, K, N)), *scales, ("int", (G,)), None, None)
    assert FAMILY.cost("aten::_scaled_grouped_mm", *arguments).bytes == M * K + G * K * N + 2 * M * N
    cost = FAMILY.cost("aten::_scaled_grouped_mm", *arguments, 6)
    assert (cost.bytes, cost.compute_spec) == (M * K + G * K * N + 4 * M * N, "matrix_fp8")


test_what_does_not_fit_has_no_cost = FAMILY.reasons(
    [
        ("aten::_grouped_mm", ((BF16, a), (BF16, b), ("int", (G,))), why)
        for a, b, why in [
            ((M, K), (G, K + 1, N), "inner sizes"),
            ((G, M, K), (G + 1, K, N), "number of matrices"),
            ((K,), (K, N), "inner sizes"),
        ]
    ],
)


sizes = st.integers(0, 40)


test_hostile_arguments = FAMILY.hostile(
    [
        ("primus_turbo::grouped_gemm", ((BF16, (M, K)), (BF16, (G, K, N)), LENGTHS, OFFSETS, False, False)),
        ("primus_turbo::grouped_gemm_variable_k", ((BF16, (M, K)), (BF16, (M, N)), LENGTHS, OFFSETS)),
        ("aten::_grouped_mm", ((BF16, (M, K)), (BF16, (G, K, N)), ("int", (G,)), None, 15)),
        ("aten::_grouped_mm", ((BF16, (G, M, K)), (BF16, (G, K, N)), ("int", (G,)), None, 15)),
    ],
)
