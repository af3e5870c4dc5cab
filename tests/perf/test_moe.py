"""Experts: hand-computed costs of every op, the range that unknown routing leaves, and what must always hold."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrix_calls import BF16, BYTES, FP4, FP8, FP32, call, cost_of, hostile, models_of

from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.families.moe import Experts, experts_touched, fused_moe, moe_down, moe_up
from tracelens_graph.perf.model import CallContext

MODELS = models_of("moe")

M, K, N, E, TOP = 3, 64, 32, 8, 2
TOUCHED = 8 * (1 - (6 / 8) ** 3)  # 4.625
ONE = M * K * N * TOP
FUSED = 2 * ONE * 2 + 2 * ONE + M * K * (2 * TOP - 1)
CHOICES = ("int", (M, TOP))
ROWS = (BF16, (M, TOP, N))


def test_expected_experts() -> None:
    assert experts_touched(E, TOP, M) == TOUCHED == 4.625
    assert experts_touched(E, TOP, 0) == 0
    assert experts_touched(E, E, 1) == E


def test_expected_experts_against_chance() -> None:
    chance = random.Random(7)
    touched = [len({expert for _ in range(M) for expert in chance.sample(range(E), TOP)}) for _ in range(20_000)]
    assert sum(touched) / len(touched) == pytest.approx(experts_touched(E, TOP, M), rel=0.01)


def test_formulas_without_a_trace() -> None:
    layer = Experts(M, K, N, E, TOP)
    fused = fused_moe(layer)
    assert (fused.flops, fused.bytes) == (FUSED, 2 * (2 * M * K) + 2 * 3 * K * N * 4.625)
    assert fused.bytes_range == (4 * M * K + 2 * 3 * K * N * 2, 4 * M * K + 2 * 3 * K * N * 6)
    up = moe_up(layer)
    assert (up.flops, up.bytes) == (4 * ONE, 2 * (M * K + M * TOP * N) + 2 * 2 * K * N * 4.625)
    down = moe_down(layer)
    assert (down.flops, down.bytes) == (2 * ONE, 2 * (M * K + M * TOP * N) + 2 * K * N * 4.625)
    assert fused_moe(Experts(M, K, N, E, TOP, gated=False)).flops == 4 * ONE + M * K * 3
    assert fused.flops_range is None
    with pytest.raises(CannotModel, match="not those of tensors"):
        fused_moe(Experts(10**400, K, N, E, TOP))


def weights(rows: int, packed: int = 1, dtype: str = BF16) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return (dtype, (E, rows, K // packed)), (dtype, (E, K, N // packed))


X = (BF16, (M, K))
TOKENS, INNER = M * K, M * TOP * N
MATRIX = K * N * 4.625


KNOWN: list[tuple[str, tuple[object, ...], int, float, str]] = [
    ("pseudo_op::moe_aiter_fused_1stage", (X, *weights(2 * N), CHOICES), FUSED, 4 * TOKENS + 6 * MATRIX, "bf16"),
    (
        "pseudo_op::moe_aiter_fused_1stage",
        (X, *weights(N), CHOICES),
        4 * ONE + TOKENS * 3,
        4 * TOKENS + 4 * MATRIX,
        "bf16",
    ),
    (
        "aiter::fmoe_fp8_blockscale_g1u1",
        (X, (FP8, (M, K)), *weights(2 * N, 1, FP8), None, None, None, None, TOP),
        FUSED,
        3 * TOKENS + 3 * MATRIX,
        "fp8",
    ),
    (
        "vllm::outplace_fused_experts",
        (X, *weights(2 * N, 1, FP8), (FP32, (M, TOP)), CHOICES),
        FUSED,
        4 * TOKENS + 3 * MATRIX,
        "fp8",
    ),
    (
        "vllm::inplace_fused_experts",
        (X, *weights(2 * N, 2, BYTES), (FP32, (M, TOP)), CHOICES),
        FUSED,
        4 * TOKENS + 1.5 * MATRIX,
        "bf16",
    ),
    (
        "aiter::ck_moe_stage1",
        (X, *weights(2 * N), None, None, None, ROWS),
        4 * ONE,
        2 * TOKENS + 4 * MATRIX + 2 * INNER,
        "bf16",
    ),
    (
        "aiter::ck_moe_stage1",
        ((FP4, (M, K // 2)), *weights(2 * N, 2, FP4), None, None, None, ROWS),
        4 * ONE,
        TOKENS / 2 + MATRIX + 2 * INNER,
        "fp4",
    ),
    (
        "aiter::ck_moe_stage2",
        (ROWS, *weights(2 * N, 2, BYTES), None, None, None, X),
        2 * ONE,
        2 * INNER + MATRIX / 2 + 2 * TOKENS,
        "bf16",
    ),
    (
        "aiter::ck_moe_stage2",
        ((FP4, (M, TOP, N // 2)), *weights(2 * N, 2, FP4), None, None, None, X),
        2 * ONE,
        INNER / 2 + MATRIX / 2 + 2 * TOKENS,
        "fp4",
    ),
    (
        "aiter::moe_cktile2stages_gemm1_ck",
        (X, weights(2 * N, 2, BYTES)[0], ROWS),
        4 * ONE,
        2 * TOKENS + MATRIX + 2 * INNER,
        "bf16",
    ),
    (
        "aiter::moe_cktile2stages_gemm2_ck",
        (ROWS, weights(2 * N, 2, BYTES)[1], X),
        2 * ONE,
        2 * INNER + MATRIX / 2 + 2 * TOKENS,
        "bf16",
    ),
    (
        "pseudo_op::moe_flydsl_stage1",
        (X, *weights(2 * N, 2, FP4), CHOICES),
        4 * ONE,
        2 * TOKENS + MATRIX + 2 * INNER,
        "fp4",
    ),
    (
        "pseudo_op::moe_flydsl_stage2",
        (X, *weights(2 * N, 2, FP4), CHOICES),
        2 * ONE,
        2 * TOKENS + MATRIX / 2 + 2 * INNER,
        "fp4",
    ),
    (
        "pseudo_op::moe_gptq_awq_up",
        (X, *weights(2 * N, 2, BYTES), (FP32, (M, TOP)), CHOICES),
        4 * ONE,
        2 * TOKENS + MATRIX + 2 * INNER,
        "bf16",
    ),
    (
        "pseudo_op::moe_gptq_awq_down",
        (X, *weights(2 * N, 2, BYTES), (FP32, (M, TOP)), CHOICES),
        2 * ONE,
        2 * TOKENS + MATRIX / 2 + 2 * INNER,
        "bf16",
    ),
    (
        "sglang_profiler::fused_moe_triton_kernels_invoke_fused_moe_kernel",
        ((FP8, (M, K)), (FP8, (E, 2 * N, K)), None, (BF16, (M * TOP, 2 * N)), *[None] * 4, CHOICES),
        4 * ONE,
        TOKENS + 2 * MATRIX + 4 * INNER,
        "fp8",
    ),
]
"""Op, arguments -> FLOPs, bytes, precision."""


@pytest.mark.parametrize(("name", "arguments", "flops", "size", "spec"), KNOWN)
def test_known_answers(name: str, arguments: tuple[object, ...], flops: int, size: float, spec: str) -> None:
    cost = cost_of(MODELS, name, *arguments)
    assert (cost.flops, cost.compute_spec) == (flops, f"matrix_{spec}")
    assert cost.bytes == pytest.approx(size, abs=1)
    assert cost.params["num_experts"] == E
    assert cost.bytes_range is not None
    assert cost.bytes_range[0] < cost.bytes < cost.bytes_range[1]


@pytest.mark.parametrize("name", ["MoEDispatch", "MoECombine"])
def test_moving_tokens_is_no_work(name: str) -> None:
    cost = cost_of(MODELS, name, X)
    assert (cost.flops, cost.bytes, cost.compute_spec) == (0, 2 * M * K, "")
    estimate = MODELS[name].backward
    assert estimate is not None
    assert estimate(call(X), CallContext()) == cost


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "not recorded"),
        ((X, (BF16, (E, 2 * N, K))), "no tensor"),
        ((X, (BF16, (E, 2 * N, K)), (BF16, (E + 1, K, N)), CHOICES), "do not fit"),
        ((X, (BF16, (E, 2 * N + 1, K)), (BF16, (E, K, N)), CHOICES), "do not fit"),
        ((X, *weights(2 * N), ("int", (M, E + 1))), "cannot choose"),
        ((X, (BF16, (E, 2 * N, K - 1)), (BF16, (E, K, N)), CHOICES), "widths"),
        ((X, (BF16, (E, 2 * N, K // 16)), (BF16, (E, K, N)), CHOICES), "widths"),
        ((X, *weights(2 * N), ("int", (M,))), "not recorded"),
        ((X, (BF16, (E, 2 * N, 0)), (BF16, (E, K, N)), CHOICES), "no stack"),
    ],
)
def test_what_does_not_fit_has_no_cost(arguments: tuple[object, ...], why: str) -> None:
    with pytest.raises(CannotModel, match=why):
        cost_of(MODELS, "pseudo_op::moe_aiter_fused_1stage", *arguments)


def test_the_result_tells_the_tokens_of_a_fused_layer() -> None:
    with pytest.raises(CannotModel, match="do not fit"):
        cost_of(MODELS, "aiter::fmoe_g1u1", (BF16, ()), X, *weights(2 * N), None, None, None, None, TOP)
    with pytest.raises(CannotModel, match="not recorded"):
        cost_of(MODELS, "aiter::fmoe_g1u1", X, X, *weights(2 * N), None, None, None, None, "two")


layers = st.builds(
    Experts,
    tokens=st.integers(0, 300),
    hidden=st.integers(1, 64),
    inter=st.integers(1, 64),
    experts=st.integers(4, 64),
    topk=st.integers(1, 4),
    gated=st.booleans(),
)


@given(layers, st.sampled_from(["tokens", "hidden", "inter", "experts"]))
def test_more_is_never_cheaper(layer: Experts, larger: str) -> None:
    end = Experts(**{**vars(layer), larger: getattr(layer, larger) + 1})
    for formula in (fused_moe, moe_up, moe_down):
        less, more = formula(layer), formula(end)
        assert 0 <= less.flops <= more.flops
        assert less.bytes is not None
        assert more.bytes is not None
        assert 0 <= less.bytes <= more.bytes
        assert less.bytes_range is not None
        assert less.bytes_range[0] <= less.bytes <= less.bytes_range[1]


@given(layers)
def test_both_stages_do_the_work_of_the_whole(layer: Experts) -> None:
    sums = layer.tokens * layer.hidden * (2 * layer.topk - 1)
    assert moe_up(layer).flops + moe_down(layer).flops + sums == fused_moe(layer).flops


test_hostile_arguments = hostile(MODELS, [(name, arguments) for name, arguments, *_ in KNOWN])
