"""Normalizations: hand-computed costs, the rows of the reference tables with what is wrong there, properties."""

from __future__ import annotations

import ast

from op_costs import BF16, FLOPS, FP32, MOVED, Departure, Family, Known, Row

from tracelens_graph.perf.arguments import Tensor
from tracelens_graph.perf.families.normalization import Norm, normalization, rms_norm

FAMILY = Family("normalization")

B, C, H, W = 8, 16, 10, 12
E = B * C * H * W
X, WEIGHT, RUNNING = (FP32, (B, C, H, W)), (FP32, (C,)), (FP32, (C,))
T, D = 32, 64
TOKENS, SCALE = (BF16, (T, D)), (BF16, (D,))
N = T * D
ACTIVATIONS = 4 * 2 * E
RMS = T * (2 * D + 2) + 2 * N


def types(row: Row) -> list[str]:
    return list(ast.literal_eval(row["Input type_first"]))


def weight_is_absent(row: Row) -> bool:
    at = {"layer_norm": 2, "group_norm": 2, "native_group_norm": 1, "native_layer_norm": 2}
    at |= {"_fused_rms_norm": 2, "_fused_rms_norm_backward": 4, "native_group_norm_backward": 4}
    at |= {"native_batch_norm_backward": 2, "miopen_batch_norm_backward": 2, "native_layer_norm_backward": 5}
    return not types(row)[at.get(row["name"].removeprefix("aten::"), 1)]


DEPARTURES: list[Departure] = [
    ("layer and group norms have no training state and no running statistics",
     lambda row: "layer_norm" in row["name"] or "group_norm" in row["name"], {MOVED, "param: is_training"}),
    ("without weight they are not affine; RMS norm then has fewer FLOPs",
     lambda row: weight_is_absent(row) and "layer_norm_backward" not in row["name"],
     {MOVED, FLOPS, "param: is_affine", "param: has_bias"}),
    ("running statistics that are not there are neither read nor written",
     lambda row: row["name"].endswith(("batch_norm", "instance_norm")) and not types(row)[3], {MOVED}),
    ("both statistics are read, in their own types, and the mask of wanted gradients counts",
     lambda row: row["name"].endswith("batch_norm_backward"), {MOVED, "param: output_mask"}),
    ("the libraries' backward pass is that of training",
     lambda row: row["name"] == "aten::miopen_batch_norm_backward", {FLOPS, MOVED, "param: is_training"}),
    ("channels are those of the source, not per group", lambda row: row["name"] == "aten::native_group_norm_backward",
     {"param: num_channels"}),
    ("the inverse deviation is read", lambda row: row["name"] == "aten::_fused_rms_norm_backward", {MOVED}),
]  # fmt: skip


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
    said = FAMILY.cost("aten::batch_norm", X, None, None, RUNNING, RUNNING, False).params
    assert (said["has_bias"], said["is_affine"], said["is_training"], said["num_channels"]) == (False, False, False, C)
    said = FAMILY.cost("aten::native_layer_norm", TOKENS, "[64]", SCALE, None, 1e-5).params
    assert (said["has_bias"], said["is_affine"], said["is_training"], said["num_channels"]) == (False, True, False, D)


def test_formulas_without_a_trace() -> None:
    source, weight = Tensor((4, 8), "bf16"), Tensor((8,), "bf16")
    assert rms_norm(Norm(source, 8, weight)).flops == 4 * 18 + 64
    assert normalization(Norm(source, 8, weight, weight)).bytes == 2 * (32 + 32 + 8 + 8)


test_costs_computed_by_hand = FAMILY.known(
    [(*one, "vector_fp32" if one[1][0] == X else "vector_bf16") for one in KNOWN]
)
test_the_rows_of_the_reference_tables = FAMILY.reference_rows("Normalization", "RMSNorm_fwd", departures=DEPARTURES)
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
        ("aten::layer_norm", (None, "[64]"), "argument 0 is no tensor"),
    ],
)
