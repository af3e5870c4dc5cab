"""Experts: hand-computed costs of every op, the range that unknown routing leaves, and what must always hold."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_costs import BF16, BYTES, FP4, FP8, FP32, Family, Known, call

from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.moe import Experts, experts_touched, fused_moe, moe_down, moe_up
from tracelens_graph.perf.model import CallContext

FAMILY = Family("moe")

M, K, N, E, TOP = 3, 64, 32, 8, 2
ONE = M * K * N * TOP
FUSED = 2 * ONE * 2 + 2 * ONE + M * K * (2 * TOP - 1)
CHOICES = ("int", (M, TOP))
ROWS = (BF16, (M, TOP, N))


def test_expected_experts_against_chance() -> None:
    chance = random.Random(7)
    touched = [len({expert for _ in range(M) for expert in chance.sample(range(E), TOP)}) for _ in range(20_000)]
    assert sum(touched) / len(touched) == pytest.approx(experts_touched(E, TOP, M), rel=0.01)


def weights(rows: int, packed: int = 1, dtype: str = BF16) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return (dtype, (E, rows, K // packed)), (dtype, (E, K, N // packed))


X = (BF16, (M, K))
TOKENS, INNER = M * K, M * TOP * N
MATRIX = K * N * 4.625


FUSED_1STAGE = "pseudo_op::moe_aiter_fused_1stage"
SCORES = (FP32, (M, TOP))
KNOWN: list[Known] = [
    (FUSED_1STAGE, (X, *weights(2 * N), CHOICES), FUSED, 4 * TOKENS + 6 * MATRIX, "bf16"),
    (FUSED_1STAGE, (X, *weights(N), CHOICES), 4 * ONE + TOKENS * 3, 4 * TOKENS + 4 * MATRIX, "bf16"),
    ("aiter::fmoe_fp8_blockscale_g1u1", (X, (FP8, (M, K)), *weights(2 * N, 1, FP8), None, None, None, None, TOP),
     FUSED, 3 * TOKENS + 3 * MATRIX, "fp8"),
    ("vllm::outplace_fused_experts", (X, *weights(2 * N, 1, FP8), SCORES, CHOICES),
     FUSED, 4 * TOKENS + 3 * MATRIX, "fp8"),
    ("vllm::inplace_fused_experts", (X, *weights(2 * N, 2, BYTES), SCORES, CHOICES),
     FUSED, 4 * TOKENS + 1.5 * MATRIX, "bf16"),
    ("aiter::ck_moe_stage1", (X, *weights(2 * N), None, None, None, ROWS),
     4 * ONE, 2 * TOKENS + 4 * MATRIX + 2 * INNER, "bf16"),
    ("aiter::ck_moe_stage1", ((FP4, (M, K // 2)), *weights(2 * N, 2, FP4), None, None, None, ROWS),
     4 * ONE, TOKENS / 2 + MATRIX + 2 * INNER, "fp4"),
    ("aiter::ck_moe_stage2", (ROWS, *weights(2 * N, 2, BYTES), None, None, None, X),
     2 * ONE, 2 * INNER + MATRIX / 2 + 2 * TOKENS, "bf16"),
    ("aiter::ck_moe_stage2", ((FP4, (M, TOP, N // 2)), *weights(2 * N, 2, FP4), None, None, None, X),
     2 * ONE, INNER / 2 + MATRIX / 2 + 2 * TOKENS, "fp4"),
    ("aiter::moe_cktile2stages_gemm1_ck", (X, weights(2 * N, 2, BYTES)[0], ROWS),
     4 * ONE, 2 * TOKENS + MATRIX + 2 * INNER, "bf16"),
    ("aiter::moe_cktile2stages_gemm2_ck", (ROWS, weights(2 * N, 2, BYTES)[1], X),
     2 * ONE, 2 * INNER + MATRIX / 2 + 2 * TOKENS, "bf16"),
    ("pseudo_op::moe_flydsl_stage1", (X, *weights(2 * N, 2, FP4), CHOICES),
     4 * ONE, 2 * TOKENS + MATRIX + 2 * INNER, "fp4"),
    ("pseudo_op::moe_flydsl_stage2", (X, *weights(2 * N, 2, FP4), CHOICES),
     2 * ONE, 2 * TOKENS + MATRIX / 2 + 2 * INNER, "fp4"),
    ("pseudo_op::moe_gptq_awq_up", (X, *weights(2 * N, 2, BYTES), SCORES, CHOICES),
     4 * ONE, 2 * TOKENS + MATRIX + 2 * INNER, "bf16"),
    ("pseudo_op::moe_gptq_awq_down", (X, *weights(2 * N, 2, BYTES), SCORES, CHOICES),
     2 * ONE, 2 * TOKENS + MATRIX / 2 + 2 * INNER, "bf16"),
    ("sglang_profiler::fused_moe_triton_kernels_invoke_fused_moe_kernel",
     ((FP8, (M, K)), (FP8, (E, 2 * N, K)), None, (BF16, (M * TOP, 2 * N)), *[None] * 4, CHOICES),
     4 * ONE, TOKENS + 2 * MATRIX + 4 * INNER, "fp8"),
]  # fmt: skip
test_known_costs = FAMILY.known([(*one[:4], f"matrix_{one[4]}") for one in KNOWN])
test_hostile_arguments = FAMILY.hostile(KNOWN)


@pytest.mark.parametrize("known", KNOWN)
def test_routing_leaves_a_range_of_bytes(known: Known) -> None:
    cost = FAMILY.cost(*known[:1], *known[1])
    assert cost.params["num_experts"] == E
    assert cost.bytes is not None
    assert cost.bytes_range is not None
    assert cost.bytes_range[0] < cost.bytes < cost.bytes_range[1]


@pytest.mark.parametrize("name", ["MoEDispatch", "MoECombine"])
def test_moving_tokens_is_no_work(name: str) -> None:
    cost = FAMILY.cost(name, X)
    assert (cost.flops, cost.bytes, cost.compute_spec) == (0, 2 * M * K, "")
    estimate = FAMILY.models[name].backward
    assert estimate is not None
    assert estimate(call(X), CallContext()) == cost


test_what_does_not_fit_has_no_cost = FAMILY.reasons(
    [
        (FUSED_1STAGE, (X, (BF16, (E, 2 * N, K))), "not a tensor"),
        (FUSED_1STAGE, (X, (BF16, (E, 2 * N, K)), (BF16, (E + 1, K, N)), CHOICES), "do not fit"),
        (FUSED_1STAGE, (X, (BF16, (E, 2 * N + 1, K)), (BF16, (E, K, N)), CHOICES), "do not fit"),
        (FUSED_1STAGE, (X, *weights(2 * N), ("int", (M, E + 1))), "cannot choose"),
        (FUSED_1STAGE, (X, (BF16, (E, 2 * N, K - 1)), (BF16, (E, K, N)), CHOICES), "widths"),
        (FUSED_1STAGE, (X, (BF16, (E, 2 * N, K // 16)), (BF16, (E, K, N)), CHOICES), "widths"),
        (FUSED_1STAGE, (X, *weights(2 * N), ("int", (M,))), "not recorded"),
        (FUSED_1STAGE, (X, (BF16, (E, 2 * N, 0)), (BF16, (E, K, N)), CHOICES), "no stack"),
        # The result tells the tokens of a fused layer.
        ("aiter::fmoe_g1u1", ((BF16, ()), X, *weights(2 * N), None, None, None, None, TOP), "do not fit"),
        ("aiter::fmoe_g1u1", (X, X, *weights(2 * N), None, None, None, None, "two"), "not recorded"),
    ],
)


layers = st.builds(
    Experts,
    tokens=st.integers(0, 300),
    hidden=st.integers(1, 64),
    inter=st.integers(1, 64),
    experts=st.integers(4, 64),
    topk=st.integers(1, 4),
    gated=st.booleans(),
)


@given(layers)
def test_both_stages_do_the_work_of_the_whole(layer: Experts) -> None:
    sums = layer.tokens * layer.hidden * (2 * layer.topk - 1)
    assert moe_up(layer).flops + moe_down(layer).flops + sums == fused_moe(layer).flops


OGS = "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1"
TRTLLM = "bmm_{}_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_rM_TN_transOut_schedP2x1x2x3_dynBatch{}_sm100f"


def part(name: str, tokens: int, width: int, experts: int, context: CallContext) -> Cost:
    arguments = call((BF16, (tokens, width)), (BF16, (tokens, experts)), None)
    return FAMILY.models[f"pseudo_op::{name}"].estimate(arguments, context)


def test_products_of_gpt_oss_on_an_mi300x() -> None:
    """TraceLens has these figures of a decode step of gpt-oss-20b, 32 tokens, without scales: a byte for 32 weights."""
    scales = experts_touched(32, 4, 32) * 3072 * 3072 / 32 / 2**20
    topk = {"TopK": call((BF16, (32, 32)), 4)}
    up = part("moe_triton_unfused_up", 32, 3072, 32, CallContext((f"{OGS}_swiglu",), inside=topk))
    assert (up.flops, up.bytes and up.bytes / 2**20) == (4_831_838_208, pytest.approx(284.9228269331473 + 2 * scales))
    down = part("moe_triton_unfused_down", 32, 3072, 32, CallContext((OGS,)))
    assert down.flops == 2_415_919_104
    assert down.bytes is not None
    assert down.bytes / 2**20 == pytest.approx(142.93016346657365 + scales)
    # Weights of 4 bits are unpacked, and multiplied in the tokens' type.
    assert (down.compute_spec, down.params["weight_dtype"], down.params["gated"]) == ("matrix_bf16", "FP4", False)
    fewer = part("moe_triton_unfused_down", 32, 3072, 32, CallContext((OGS,), inside={"TopK": call(None, 2)}))
    assert fewer.flops == down.flops // 2
    summed = part("moe_triton_unfused_finalize_matmul_scatter", 32, 3072, 32, CallContext())
    assert (summed.flops, summed.bytes) == (32 * 3072 * 7, 32 * 3072 * 2 * 5)


def test_products_of_gpt_oss_on_a_b200() -> None:
    """One of eight ranks: the grids show 512 of 2,880 columns (360, padded), and 4 of 128 experts a token."""
    first, second = TRTLLM.format("MxE4m3", "_swiGlu"), TRTLLM.format("Bfloat16", "")
    grids = (("quantize", (1, 1, 1)), (first, (8, 342, 1)), (second, (24, 342, 1)))
    up = part("moe_trtllm_up", 888, 3072, 128, CallContext((first,), grids=grids))
    assert up.flops == 2 * 888 * 3072 * 1024 * 4
    assert up.bytes == 888 * 3072 + 888 * 4 * 512 + 128 * 3072 * 1024 * 17 // 32
    down = part("moe_trtllm_down", 888, 3072, 128, CallContext((second,), grids=grids))
    assert down.flops == 2 * 888 * 3072 * 512 * 4
    assert down.bytes == 888 * 4 * 512 + 888 * 3072 * 2 + 128 * 3072 * 512 * 17 // 32
    assert {key: up.params[key] for key in ("inter_dim", "topk", "gated")} == {
        "inter_dim": 512,
        "topk": 4,
        "gated": True,
    }
    assert up.compute_spec == down.compute_spec == "matrix_fp8"
    summed = part("moe_trtllm_finalize", 888, 3072, 128, CallContext(grids=grids))
    assert (summed.flops, summed.bytes) == (888 * 3072 * 7, 888 * 3072 * 2 * 5)
    few = part("moe_trtllm_up", 8, 3072, 128, CallContext((first,), grids=((first, (8, 32, 1)),)))
    assert few.params["topk"] == 4


@pytest.mark.parametrize("grid", [None, (8, 343, 1), (8, 0, 1)])
def test_grids_that_show_no_choice(grid: tuple[int, ...] | None) -> None:
    name = TRTLLM.format("MxE4m3", "_swiGlu")
    with pytest.raises(CannotModel, match="grid"):
        part("moe_trtllm_up", 888, 3072, 128, CallContext((name,), grids=((name, grid),)))
