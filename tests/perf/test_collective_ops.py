"""Collectives of engines and hyper-connections: hand-computed costs and what must always hold."""

from __future__ import annotations

from op_costs import BF16, FP32, Family, Known

FAMILY = Family("collective_ops")
M, D = 32, 512
X, WEIGHT = (BF16, (M, D)), (BF16, (D,))
E = M * D
RMS = M * (2 * D + 2) + 2 * E
N, C = 4, 96
STREAMS, LAYER = (BF16, (M, N, C)), (BF16, (M, C))
POST, MIX, ROWS, SPLIT = (FP32, (M, N, 1)), (FP32, (M, N, N)), N * N + 2 * N, 2
OUT, SUMS, FN = (FP32, (SPLIT, M, ROWS)), (FP32, (SPLIT, M)), (FP32, (ROWS, N * C))
S = M * N * C

KNOWN: list[Known] = [
    ("_C_custom_ar::all_reduce", (7, X, X, 0, 0), 0, 4 * E, ""),
    ("sgl_kernel::qr_all_reduce", (7, X, X, 3, True), 0, 4 * E, ""),
    ("aiter::reduce_scatter", (7, X, (BF16, (8, D))), 0, 2 * E + 2 * 8 * D, ""),
    ("aiter::all_gather_reg", (7, (BF16, (8, D)), X), 0, 2 * E + 2 * 8 * D, ""),
    ("sglang::reg_all_gather_into_tensor", (X, (BF16, (8, D)), 7), 0, 2 * E + 2 * 8 * D, ""),
    ("symm_mem::multimem_all_reduce_", (X, "sum", "0"), 0, 4 * E, ""),
    ("aiter::fused_allreduce_rmsnorm", (7, 7, X, X, X, X, WEIGHT, 1e-5), E + RMS, 8 * E + 2 * D, "vector_bf16"),
    ("aiter::fused_allreduce_rmsnorm_", (X, X, WEIGHT, 1e-5), E + RMS, 8 * E + 2 * D, "vector_bf16"),
    ("aiter::mhc_post", (STREAMS, LAYER, STREAMS, POST, MIX, 0), 2 * S * (N + 1),
     4 * S + 2 * M * C + 4 * M * N * (N + 1), "vector_bf16"),
    ("aiter::mhc_pre_gemm_sqrsum", (OUT, SUMS, STREAMS, FN, 64), 2 * M * ROWS * N * C,
     2 * S + 4 * ROWS * N * C + 4 * SPLIT * M * (ROWS + 1), "matrix_bf16"),
    ("aiter::mhc_pre_big_fuse_rmsnorm",
     (POST, MIX, LAYER, OUT, SUMS, (FP32, (3,)), (FP32, (ROWS,)), STREAMS, (BF16, (C,)), 1e-5), 2 * S + 5 * M * C,
     2 * S + 4 * SPLIT * M * ROWS + 2 * C + 2 * M * C + 4 * M * N * (N + 1), "vector_bf16"),
    ("aiter::mhc_fused_post_pre_gemm_sqrsum", (OUT, SUMS, STREAMS, LAYER, STREAMS, POST, MIX, FN, 64),
     2 * S * (N + 1) + 2 * M * ROWS * N * C,
     2 * M * C + 3 * 2 * S + 4 * M * N * (N + 1) + 4 * ROWS * N * C + 4 * SPLIT * M * (ROWS + 1), "matrix_bf16"),
]  # fmt: skip


test_costs_computed_by_hand = FAMILY.known(KNOWN)
test_more_work_costs_more = FAMILY.growing(KNOWN, M, C)
test_whatever_the_arguments = FAMILY.hostile(KNOWN)
test_what_cannot_be_modelled_says_why = FAMILY.reasons(
    [
        ("aiter::mhc_post", (X, X, X, X, X), "residual is not"),
        ("aiter::fused_allreduce_rmsnorm_", (X, X, (BF16, (7,))), "do not divide"),
    ],
)
