"""Routing to experts: hand-computed costs and what must always hold."""

from __future__ import annotations

from op_costs import BF16, FP32, Family, Known

FAMILY = Family("moe")
M, E, K, D = 30, 64, 8, 128
GATING, BIAS, WEIGHTS, IDS = (BF16, (M, E)), (BF16, (E,)), (FP32, (M, K)), ("int", (M, K))

KNOWN: list[Known] = [
    ("aiter::biased_grouped_topk_hip", (GATING, BIAS, WEIGHTS, IDS, 8, 4),
     M * E, 2 * M * E + 2 * E + 8 * M * K, "bf16"),
    ("aiter::moe_sorting_fwd",
     (IDS, WEIGHTS, ("int", (512,)), (FP32, (512,)), ("int", (9,)), ("int", (2,)), (BF16, (M, D)), 64),
     M * D, 8 * M * K + 8 * 512 + 4 * 11 + 2 * M * D, "bf16"),
    ("aiter::topk_softplus", (WEIGHTS, IDS, GATING, BIAS, True), 6 * M * E, 2 * M * E + 4 * E + 8 * M * K, "bf16"),
    ("sglang_profiler::fused_moe_triton_kernels_fused_append_shared_experts", (IDS, WEIGHTS, 1),
     M * K, 16 * M * K, "fp32"),
    ("SortTokens", ((BF16, (M, K)), ("short int", (M, K)), None), M * K, 4 * M * K, "bf16"),
    ("_moe_C::topk_softmax", (WEIGHTS, IDS, IDS, GATING), 5 * M * E, 2 * M * E + 4 * E + 8 * M * K, "bf16"),
]  # fmt: skip


test_costs_computed_by_hand = FAMILY.known(KNOWN)
test_more_work_costs_more = FAMILY.growing(KNOWN, M, E, K, D)
test_whatever_the_arguments = FAMILY.hostile(KNOWN)
test_an_expanded_dimension_counts_once = FAMILY.expanded_once(
    [("aiter::topk_softplus", (WEIGHTS, IDS, GATING), 2, 2 * (M - 1) * E)]
)
test_what_cannot_be_modelled_says_why = FAMILY.reasons(
    [
        ("aiter::moe_sorting_fwd", (1, (FP32, ())), "no argument is a tensor"),
        ("aiter::topk_softplus", (WEIGHTS, IDS, BIAS), "logits are not a matrix"),
    ],
)
