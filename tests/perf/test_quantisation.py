"""Quantisation: hand-computed costs and what must always hold."""

from __future__ import annotations

from op_costs import BF16, BYTES, FP8, FP32, Family, Known

FAMILY = Family("quantisation")
M, N = 40, 256
E = M * N
X = (BF16, (M, N))

KNOWN: list[Known] = [
    ("aiter::dynamic_per_token_scaled_quant", ((FP8, (M, N)), X, (FP32, (M, 1))), 83 * E // 32, 3 * E + 4 * M),
    ("_C::per_token_group_fp8_quant", (X, (FP8, (M, N)), (FP32, (M, 2))), 83 * E // 32, 3 * E + 8 * M),
    ("vllm::triton_per_token_group_quant_fp8", (X, 128), 6 * E, 3 * E + 4 * M * 2),
    ("vllm::triton_per_token_group_quant_fp8", (X, None), 6 * E, 3 * E + 4 * M * 2),
    ("vllm::triton_per_token_group_quant_fp8", (X, 100), 6 * E, 3 * E + 4 * M * 3),
    ("sglang_profiler::quant_dynamic_mxfp4_quant", (X,), 2 * E, 2 * E + E // 2 + E // 32),
    ("aiter::dynamic_per_group_scaled_quant_fp4", ((BYTES, (M, N // 2)), X, (BYTES, (M, 8))), 2 * E,
     2 * E + E // 2 + E // 32),
    ("primus_turbo::quantize_fp8_tensorwise", (X, 1.0), E, 3 * E),
    ("primus::quantize_mxfp4_dual", (X,), E, 3 * E + M * 8 + N * 2),
    ("_C::static_scaled_fp8_quant", ((FP8, (M, N)), X, (FP32, ())), 2 * E, 3 * E + 4),
]  # fmt: skip


test_costs_computed_by_hand = FAMILY.known(KNOWN, "vector_bf16")
test_more_work_costs_more = FAMILY.growing(KNOWN, M, N)
test_whatever_the_arguments = FAMILY.hostile(KNOWN)
test_an_expanded_dimension_counts_once = FAMILY.expanded_once(
    [("primus_turbo::quantize_fp8_tensorwise", (X,), 0, 2 * (E - N))]
)
test_what_cannot_be_modelled_says_why = FAMILY.reasons([("primus::quantize_mxfp4_dual", ((BF16, (4,)),), "no matrix")])
