"""Quantisation."""

from __future__ import annotations

from functools import partial

from tracelens_graph.op_table.entry import Rows, model, ops

_by_group = partial(ops, category="GroupQuant", sheet="GroupQuant_fwd", in_tracelens=True)
_whole = partial(ops, category="elementwise", sheet="UnaryElementwise", in_tracelens=True)

OPS: Rows = [
    # --- A scale for each group of elements ----------------------------------------------------------------------
    *_by_group(
        "aiter::dynamic_per_token_scaled_quant",
        "aiter::dynamic_per_group_scaled_quant",
        "aiter::dynamic_per_tensor_quant",
        model=model("quantisation.scaled", tensors=(0, 1, 2), flops=83),
    ),
    *_by_group(
        "_C::per_token_group_fp8_quant",
        category=None,
        model=model("quantisation.scaled", tensors=(1, 0, 2), flops=83),
    ),
    *_by_group("vllm::triton_per_token_group_quant_fp8", model=model("quantisation.fp8_by_group_call")),
    *_by_group(
        "sglang_profiler::fused_mxfp4_quant_fused_flatten_mxfp4_quant",
        "sglang_profiler::quant_dynamic_mxfp4_quant",
        model=model("quantisation.quantised_mxfp4", tensors=(0,)),
    ),
    *_by_group("aiter::dynamic_per_group_scaled_quant_fp4", model=model("quantisation.quantised_mxfp4", tensors=(1,))),
    *_by_group("aiter::fused_dynamic_mx_quant_moe_sort_hip", model=model("quantisation.quantised_mxfp4", tensors=(2,))),
    *_by_group(
        "aiter::fused_dynamic_mxfp4_quant_moe_sort_hip",
        category="MoE_aux",
        model=model("quantisation.quantised_mxfp4", tensors=(2,)),
    ),
    *ops(
        "_C::static_scaled_fp8_quant",
        "_C::dynamic_scaled_fp8_quant",
        "_C::dynamic_per_token_scaled_fp8_quant",
        model=model("quantisation.scaled", tensors=(0, 1, 2), flops=64),
        sheet="GroupQuant_fwd",
    ),
    # --- Whole tensors -------------------------------------------------------------------------------------------
    *_whole(
        "primus_turbo::quantize_fp8_tensorwise",
        "primus_turbo_cpp_extension::quantize_fp8_tensorwise",
        model=model("quantisation.quantised_by_tensor", tensors=(0,)),
    ),
    *_whole(
        "primus_turbo::quantize_mxfp4_dual",
        "primus_turbo_cpp_extension::quantize_mxfp4_dual",
        "primus::quantize_mxfp4_dual",
        model=model("quantisation.quantised_mxfp4_both_ways", tensors=(0,)),
    ),
]
