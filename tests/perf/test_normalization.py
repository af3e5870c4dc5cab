"""Normalizations: hand-computed costs, rows of the reference tables, properties."""

from __future__ import annotations

from op_costs import BF16, FP32, Family, Known

FAMILY = Family("normalization")

B, C, H, W = 8, 16, 10, 12
E = B * C * H * W
X, WEIGHT, RUNNING = (FP32, (B, C, H, W)), (FP32, (C,)), (FP32, (C,))
T, D = 32, 64
TOKENS, SCALE = (BF16, (T, D)), (BF16, (D,))
N = T * D
ACTIVATIONS = 4 * 2 * E
RMS = T * (2 * D + 2) + 2 * N


BATCH = (X, WEIGHT, WEIGHT, RUNNING, RUNNING)
BACK = (X, X, WEIGHT, RUNNING, RUNNING, WEIGHT, WEIGHT)
LAYER_BACK = (TOKENS, TOKENS, "[64]", (FP32, (T, 1)), (FP32, (T, 1)), SCALE, SCALE)
GROUP_BACK = (X, X, (FP32, (B, 4)), (FP32, (B, 4)), WEIGHT, B, C, H * W, 4)
RMS_BACK = (TOKENS, TOKENS, "[64]", (FP32, (T, 1)), SCALE)

KNOWN: list[Known] = [
    ("aten::batch_norm", (*BATCH, True, 0.1, 1e-5, True), 5 * E + 6 * C, ACTIVATIONS + 4 * C * (2 + 4)),
    ("aten::batch_norm", (*BATCH, False, 0.1, 1e-5, True), 2 * E + 6 * C, ACTIVATIONS + 4 * C * (2 + 2)),
    ("aten::native_batch_norm", (X, None, None, RUNNING, RUNNING, True), 5 * E + 6 * C, ACTIVATIONS + 4 * C * 4),
    ("aten::native_batch_norm", (X, None, None, None, None, True), 5 * E + 6 * C, ACTIVATIONS),
    ("aten::cudnn_batch_norm", (X, WEIGHT, None, RUNNING, RUNNING, False), 2 * E + 6 * C, ACTIVATIONS + 4 * C * 3),
    ("aten::instance_norm", (X, WEIGHT, WEIGHT, None, None, True), 5 * E + 6 * C, ACTIVATIONS + 4 * C * 2),
    ("aten::instance_norm", (*BATCH, False), 2 * E + 6 * C, ACTIVATIONS + 4 * C * 4),
    ("aten::group_norm", (X, 4, WEIGHT, WEIGHT, 1e-5, True), 5 * E + 6 * C, ACTIVATIONS + 4 * C * 2),
    ("aten::native_group_norm", (X, WEIGHT, WEIGHT, B, C, H * W, 4), 5 * E + 6 * C, ACTIVATIONS + 4 * C * 2),
    ("aiter::_groupnorm_run", (X, 4, WEIGHT, WEIGHT, 1e-5), 5 * E + 6 * C, ACTIVATIONS + 4 * C * 2),
    ("aiter::_groupnorm_run", (X, (FP32, (9,)), X, 4, WEIGHT, WEIGHT), 5 * E + 6 * C, ACTIVATIONS + 4 * C * 2),
    ("aten::layer_norm", (TOKENS, "[64]", SCALE, SCALE, 1e-5, True), 5 * N + 6 * D, 4 * N + 4 * D),
    ("aten::native_layer_norm", (TOKENS, "[64]", None, None, 1e-5), 5 * N + 6 * D, 4 * N),
    ("aten::native_layer_norm", (TOKENS, "[64]", (FP32, (D,)), None, 1e-5), 5 * N + 6 * D, 4 * N + 4 * D),
    ("aten::native_batch_norm_backward", (*BACK, True, 1e-5, "[True, True, True]"), 9 * E, 12 * E + 4 * C * 5),
    ("aten::native_batch_norm_backward", (*BACK, True, 1e-5, "[True, False, False]"), 9 * E, 12 * E + 4 * C * 3),
    ("aten::native_batch_norm_backward", (*BACK, True, 1e-5, "[False, True, True]"), 4 * E, 8 * E + 4 * C * 5),
    ("aten::native_batch_norm_backward", (*BACK, False, 1e-5, "[True, True, True]"), 6 * E + 3 * C,
     12 * E + 4 * C * 5),
    ("aten::native_batch_norm_backward", (*BACK, False, 1e-5, "[True, False, False]"), 2 * E + 3 * C,
     12 * E + 4 * C * 3),
    ("aten::miopen_batch_norm_backward", (*BACK, 1e-5), 9 * E, 12 * E + 4 * C * 5),
    ("aten::native_layer_norm_backward", (*LAYER_BACK, "[True, True, True]"), 9 * N, 6 * N + 2 * 4 * T + 3 * 2 * D),
    ("aten::native_layer_norm_backward", LAYER_BACK, 9 * N, 6 * N + 2 * 4 * T + 3 * 2 * D),
    ("aten::native_group_norm_backward", (*GROUP_BACK, "[True, True, True]"), 9 * E, 12 * E + 4 * (2 * B * 4 + 3 * C)),
    ("aten::_fused_rms_norm", (TOKENS, "[64]", SCALE, None), RMS, 4 * N + 2 * D),
    ("aten::_fused_rms_norm", (TOKENS, "[64]", None, None), RMS - N, 4 * N),
    ("aten::_fused_rms_norm_backward", (*RMS_BACK, "[True, True]"), 10 * N, 6 * N + 4 * T + 2 * 2 * D),
    ("aten::_fused_rms_norm_backward", (*RMS_BACK, "[True, False]"), 8 * N, 6 * N + 4 * T + 2 * D),
    ("aten::_fused_rms_norm_backward", (*RMS_BACK[:4], None, "[True, False]"), 7 * N, 6 * N + 4 * T),
    ("primus::fused_ln_modulate", ((BF16, (7, 3, D)), (BF16, (3, D)), (BF16, (3, D)), 1e-5), 12 * 21 * D,
     2 * 2 * 21 * D + 2 * 2 * 3 * D + 2 * 4 * 21),
    ("primus::fused_ln_modulate_backward",
     ((BF16, (7, 3, D)), (BF16, (7, 3, D)), (FP32, (21,)), (FP32, (21,)), (BF16, (3, D))), 15 * 21 * D,
     3 * 2 * 21 * D + 3 * 2 * 3 * D + 2 * 4 * 21),
    ("aiter::rms_norm", (TOKENS, SCALE, 1e-5, 0), RMS, 4 * N + 2 * D),
    ("_C::rms_norm", (TOKENS, TOKENS, SCALE, 1e-5), RMS, 4 * N + 2 * D),
    ("aiter::add_rmsnorm", (TOKENS, TOKENS, TOKENS, TOKENS, SCALE, 1e-5), RMS + N, 8 * N + 2 * D),
    ("_C::fused_add_rms_norm", (TOKENS, TOKENS, SCALE, 1e-5), RMS + N, 8 * N + 2 * D),
    ("aiter::rmsnorm2d_fwd_with_dynamicquant_ck",
     (("c10::Float8_e4m3fn", (T, D)), TOKENS, (FP32, (T, 1)), SCALE, 1e-5, 0), RMS + 2 * N, 3 * N + 2 * D + 4 * T),
    ("aiter::rmsnorm_quant", (("c10::Float8_e4m3fn", (T, D)), TOKENS, (FP32, (T, 4)), SCALE, 1e-5, 16, False),
     RMS + 2 * N, 3 * N + 2 * D + 4 * T * 4),
    ("vllm::rocm_aiter_rmsnorm_with_add_fp8_group_quant", (TOKENS, TOKENS, SCALE, 1e-5, 48), RMS + 3 * N,
     7 * N + 2 * D + 4 * T * 2),
    ("vllm::rocm_aiter_triton_add_rmsnorm_pad", (TOKENS, SCALE, 1e-5, TOKENS, 48), RMS + N,
     6 * N + 2 * T * 96 + 2 * D),
    ("aiter::_fuse_rmsnorm_fp4_quant", (TOKENS, SCALE, 1e-5, (BF16, (T, 8)), (BF16, (8,)), 1e-5, TOKENS),
     RMS + 3 * N + T * 18 + 2 * T * 8, 6 * N + N // 2 + N // 32 + 2 * D + 2 * (2 * T * 8 + 8)),
    ("aiter::_fused_qk_rmsnorm_kernel", (TOKENS, SCALE, 1e-5, (BF16, (T, 8)), (BF16, (8,)), 1e-5),
     RMS + T * 18 + 2 * T * 8, 4 * N + 2 * D + 2 * (2 * T * 8 + 8)),
]  # fmt: skip


def test_parameters_say_what_is_there() -> None:
    batch = FAMILY.cost("aten::batch_norm", X, None, None, RUNNING, RUNNING, False).params
    layer = FAMILY.cost("aten::native_layer_norm", TOKENS, "[64]", SCALE, None, 1e-5).params
    for one, is_affine, channels in ((batch, False, C), (layer, True, D)):
        assert (one["has_bias"], one["is_affine"], one["is_training"]) == (False, is_affine, False)
        assert one["num_channels"] == channels


test_costs_computed_by_hand = FAMILY.known(
    [(*one, "vector_fp32" if one[1][0] == X else "vector_bf16") for one in KNOWN]
)
test_the_rows_of_the_reference_tables = FAMILY.reference_rows("RMSNorm_fwd")
test_more_work_costs_more = FAMILY.growing(KNOWN, B, T, H)
test_whatever_the_arguments = FAMILY.hostile(KNOWN)
test_an_expanded_dimension_counts_once = FAMILY.expanded_once(
    [("aten::batch_norm", (*BATCH, True), 0, 4 * (E - E // B))]
)
test_what_cannot_be_modelled_says_why = FAMILY.reasons(
    [
        ("aten::batch_norm", (X, WEIGHT, WEIGHT, RUNNING, RUNNING), "whether it trains is not recorded"),
        ("aten::batch_norm", ((FP32, (8,)), WEIGHT, WEIGHT, None, None, True), "no dimension of channels"),
        ("aten::layer_norm", (TOKENS, None, None, None), "normalized shape is not recorded"),
        ("aten::_fused_rms_norm", (TOKENS, "[7]", None), "7 channels do not divide"),
        ("aten::layer_norm", (None, "[64]"), "argument 0 is not a tensor"),
    ],
)
