"""Matrix products and convolutions: dense, batched, scaled, quantised, grouped."""

from __future__ import annotations

from functools import partial
from typing import Any

from tracelens_graph.op_table.entry import Rows, model, ops


def _gemm(*names: str, reader: str = "gemm.Product", **parameters: Any) -> Rows:
    """No backward formula: each backward product is an op of its own."""
    return ops(*names, category="GEMM", model=model(reader, **parameters), sheet="GEMM", in_tracelens=True)


_BF16 = "c10::BFloat16"
_A16W16: dict[str, Any] = {"weight": True, "out": 3, "third": "out"}
_A8W8: dict[str, Any] = {"weight": True, "out": 4, "result": _BF16, "raw": "fp8", "third": "out"}
_A4W4: dict[str, Any] = {"weight": True, "out": 4, "out_type": 5, "packed": True, "result": _BF16, "compute": "fp4"}
_BATCHED_A8W8 = "batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant"

_grouped = partial(ops, category="GroupedGEMM_fwd", sheet="GroupedGEMM_fwd", in_tracelens=True)

_forward = partial(ops, category="CONV_fwd", sheet="CONV_fwd", in_tracelens=True)
_backward = partial(ops, category="CONV_bwd", sheet="CONV_bwd", in_tracelens=True)

OPS: Rows = [
    # --- PyTorch, TransformerEngine, bitsandbytes, TensorRT-LLM --------------------------------------------------
    *_gemm("aten::mm", "aten::bmm", out=2, out_type=2),
    *_gemm("aten::addmm", "aten::baddbmm", a=1, b=2, bias=0, beta=3, out=5),
    *_gemm("aten::_scaled_mm", reader="gemm.scaled_mm_call"),
    *ops("aten::_addmm_activation", model=model("gemm.Product", a=1, b=2, bias=0, beta=3, out=6), sheet="GEMM"),
    *ops("aten::_int_mm", model=model("gemm.Product", out=2, result="int"), sheet="GEMM"),
    *_gemm(
        "_Linear_yfwd_mm", "_LinearBackward_xgrad_mm", "_LinearBackward_wgrad_mm", "_LayerNormLinear_yfwd_mm",
        "_LayerNormLinearBackward_xgrad_mm", "_LayerNormLinearBackward_wgrad_mm", result=_BF16, raw="fp8",
    ),
    *_gemm("tex_ts::te_gemm_ts", reader="gemm.te_gemm_call"),
    *_gemm("bitsandbytes::int8_linear_matmul", weight=True, out=2, result="int"),
    *_gemm("trtllm::cublas_scaled_mm", bias=4, out_type=5, raw="fp8"),
    # --- vLLM, aiter, SGLang -------------------------------------------------------------------------------------
    *_gemm("vllm::gemm_with_dynamic_quant", weight=True),
    *_gemm("vllm::rocm_unquantized_gemm", weight=True, bias=2, third="bias"),
    *_gemm("aiter::gemm_a16w16", weight=True, bias=2, out_type=3, third="out"),
    *_gemm("aiter::gemm_a16w16_atomic_", "sglang_profiler::gemm_kernels_flydsl_hgemm", **_A16W16),
    *_gemm("aiter::_gemm_a16w16_asm", **_A16W16 | {"out": 2}),
    *_gemm(
        "aiter::gemm_a8w8_blockscale_ck", "aiter::gemm_a8w8_blockscale_cktile",
        "aiter::gemm_a8w8_blockscale_bpreshuffle_ck", "aiter::gemm_a8w8_blockscale_bpreshuffle_cktile",
        "aiter::flatmm_a8w8_blockscale_asm", "aiter::gfx950_a8w8_blockscale_asm", "aiter::gemm_a8w8_bpreshuffle_ck",
        "vllm::_rocm_aiter_preshuffled_per_token_w8a8_gemm", "sglang_profiler::fp8_utils_gemm_a8w8_blockscale",
        "sglang_profiler::gemm_a8w8_blockscale_gemm_a8w8_blockscale", **_A8W8,
    ),
    *_gemm("aiter::gemm_a8w8_ck", bias=5, **_A8W8),
    *_gemm("aiter::gemm_a8w8_bpreshuffle", **_A8W8 | {"out": None, "bias": 4, "out_type": 5}),
    *_gemm("aiter::_gemm_a8w8_blockscale_bpreshuffle_asm", **_A8W8 | {"out": 2, "bias": 5}),
    *_gemm("vllm::rocm_aiter_triton_gemm_a8w8_blockscale", **_A8W8 | {"out": None, "out_type": 4}),
    *_gemm(f"sglang_profiler::{_BATCHED_A8W8}_{_BATCHED_A8W8}", **_A8W8 | {"out": None, "compute": "b"}),
    *_gemm("aiter::gemm_a4w4", **_A4W4),
    *_gemm("aiter::_gemm_a4w4_asm", **_A4W4 | {"out_type": None}),
    *_gemm("aiter::gemm_afp4wfp4_", **_A4W4 | {"out": 5, "out_type": 4, "third": "out"}),
    *_gemm("aiter::batched_gemm_a16wfp4_", weight=True, result=_BF16, compute="fp4", third="out"),
    # --- Primus-Turbo --------------------------------------------------------------------------------------------
    *_gemm(
        "primus_turbo::hipblaslt_gemm_fp8", "primus_turbo::hipblaslt_gemm_fp4",
        "primus_turbo_cpp_extension::hipblaslt_gemm_fp8", "primus_turbo_cpp_extension::hipblaslt_gemm_fp4",
        reader="gemm.hipblaslt_call",
    ),
    *_grouped(
        "primus_turbo::grouped_gemm", "primus_turbo::grouped_gemm_impl", "primus_turbo_cpp_extension::grouped_gemm",
        "primus_turbo_cpp_extension::ck_grouped_gemm", model=model("grouped_gemm.rows_by_matrices_call"),
        backward=model("grouped_gemm.rows_by_matrices_backward_call"),
    ),
    *_grouped(
        "primus_turbo::grouped_gemm_variable_k", "primus_turbo::grouped_gemm_variable_k_impl",
        "primus_turbo_cpp_extension::grouped_gemm_variable_k", "primus_turbo_cpp_extension::ck_grouped_gemm_variable_k",
        model=model("grouped_gemm.sum_over_rows_call"),
    ),
    *ops("aten::_grouped_mm", model=model("grouped_gemm.aten_call", offsets=2, out_type=4), sheet="GroupedGEMM_fwd"),
    *ops(
        "aten::_scaled_grouped_mm", model=model("grouped_gemm.aten_call", offsets=4, out_type=7),
        sheet="GroupedGEMM_fwd",
    ),
    *_forward(
        "aten::convolution", model=model("convolution.forward_call"),
        backward=model("convolution.backward_of_forward_call"),
    ),
    *_backward("aten::convolution_backward", model=model("convolution.backward_call")),
    # What `aten::convolution` calls; it has the cost.
    *ops("aten::miopen_convolution", "aten::cudnn_convolution", category="CONV_fwd"),
    # Apex.
    *_forward(
        "ConvBias_", "ConvBiasReLU_", model=model("convolution.apex_forward_call"),
        backward=model("convolution.apex_backward_of_forward_call"),
    ),
    *_backward("ConvBias_Backward", "ConvBiasReLU_Backward", model=model("convolution.apex_backward_call")),
]  # fmt: skip
