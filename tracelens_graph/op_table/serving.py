"""What serving engines bring along: mixtures of experts, quantisation, collectives, hyper-connections."""

from __future__ import annotations

from functools import partial
from typing import Any

from tracelens_graph.op_table.entry import Rows, model, ops


def _fused(*names: str, **positions: Any) -> Rows:
    spec = model("moe.Stage", stage="fused", **positions)
    return ops(*names, category="MoE_fused", model=spec, sheet="MoE_fused_fwd", in_tracelens=True)


def _stage(stage: str, *names: str, **positions: Any) -> Rows:
    return _unfused(*names, model=model("moe.Stage", stage=stage, **positions))


_unfused = partial(ops, category="MoE_unfused", sheet="MoE_unfused_fwd", in_tracelens=True)
_part = partial(ops, category="MoE_unfused", sheet="MoE_unfused_fwd", is_part=True)
_aux = partial(ops, category="MoE_aux", sheet="MoE_aux_fwd", in_tracelens=True)

_by_group = partial(ops, category="GroupQuant", sheet="GroupQuant_fwd", in_tracelens=True)
_whole = partial(ops, category="elementwise", sheet="UnaryElementwise", in_tracelens=True)

_collective = partial(ops, category="CustomCollective", sheet="CustomCollective_fwd", in_tracelens=True)
_hyper_connection = partial(ops, category="mHC", sheet="mHC_fwd", in_tracelens=True)

_INFERRED = (
    "qkv", "q", "k", "v", "kv", "q/kv down", "q down", "kv down", "q up", "k absorb", "v up", "out", "gate/up", "down",
    "router", "shared gate/up", "shared down", "head",
)  # fmt: skip
"""What products are called that replayed kernels were identified as."""

OPS: Rows = [
    # --- Layers --------------------------------------------------------------------------------------------------
    *_fused("pseudo_op::moe_aiter_fused_1stage"),
    *_fused("aiter::fmoe_fp8_blockscale_g1u1", "aiter::fmoe_g1u1", x=1, w1=2, w2=3, topk=8, out=0),
    # TraceLens models only what these call, and that for weights of 4 bits alone.
    *ops(
        "vllm::outplace_fused_experts", "vllm::inplace_fused_experts",
        model=model("moe.Stage", stage="fused", choices=4, weights=True), sheet="MoE_fused_fwd",
    ),
    *_stage("up", "aiter::ck_moe_stage1", choices=6, out=6),
    *_stage("down", "aiter::ck_moe_stage2", by_rows=True, out=6),
    *_stage("up", "aiter::moe_cktile2stages_gemm1_ck", by_rows=True, w2=1, choices=2, out=2),
    *_stage("down", "aiter::moe_cktile2stages_gemm2_ck", by_rows=True, w2=1, out=2),
    *_stage("up", "pseudo_op::moe_flydsl_stage1", weights=True),
    *_stage("down", "pseudo_op::moe_flydsl_stage2", weights=True),
    *_stage("up", "pseudo_op::moe_gptq_awq_up", choices=4),
    *_stage("down", "pseudo_op::moe_gptq_awq_down", choices=4),
    *_unfused("sglang_profiler::fused_moe_triton_kernels_invoke_fused_moe_kernel", model=model("moe.triton_call")),
    *_unfused("pseudo_op::moe_triton_unfused_up", model=model("moe.ogs_call", stage="up")),
    *_unfused("pseudo_op::moe_triton_unfused_down", model=model("moe.ogs_call", stage="down")),
    *_part(
        "pseudo_op::moe_triton_unfused_finalize_matmul_scatter", category=None, model=model("moe.summed_call")
    ),
    *_part("pseudo_op::moe_trtllm_finalize", model=model("moe.summed_call")),
    *_part("pseudo_op::moe_trtllm_up", model=model("moe.trtllm_call", stage="up")),
    *_part("pseudo_op::moe_trtllm_down", model=model("moe.trtllm_call", stage="down")),
    # --- What replayed kernels are identified as (analyses.identification); few have arguments --------------
    *ops(
        *[f"inferred::{product} product" for product in _INFERRED], category="GEMM",
        model=model("gemm.Product"), sheet="GEMM",
    ),
    *ops("inferred::expert up product", "inferred::expert down product", category="MoE_unfused"),
    *ops("inferred::expert products", category="MoE_fused"),
    *ops("inferred::top-k", "inferred::expert sort", "inferred::combine", category="MoE_aux"),
    *ops("inferred::attention", category="InferenceAttention"),
    *ops("inferred::rope", category="RoPE_fwd"),
    *ops(
        *[
            f"inferred::{norm} norm"
            for norm in ("input", "post-attention", "q", "k", "q down", "kv down", "attention output", "final")
        ],
        category="NORM_fwd",
    ),
    *ops("inferred::activation", "inferred::shared activation", category="elementwise"),
    # --- Routing -------------------------------------------------------------------------------------------------
    *_aux(
        "aiter::biased_grouped_topk_hip", "aiter::moe_sorting_fwd", "aiter::mxfp4_moe_sort_hip",
        model=model("moe.operands_call"),
    ),
    # Of triton_kernels, which name their autograd functions so.
    *ops("TopK", "SortTokens", model=model("moe.operands_call"), sheet="MoE_aux_fwd"),
    *_aux("aiter::topk_softplus", model=model("moe.chosen_call", gating=2, flops=6)),
    *_aux("aiter::topk_softmax", model=model("moe.chosen_call", gating=3, flops=5), in_tracelens=False),
    *ops("_moe_C::topk_softmax", model=model("moe.chosen_call", gating=3, flops=5), sheet="MoE_aux_fwd"),
    *ops("sgl_kernel::topk_softmax", model=model("moe.chosen_call", gating=2, flops=5), sheet="MoE_aux_fwd"),
    *_aux(
        "sglang_profiler::fused_moe_triton_kernels_fused_append_shared_experts",
        model=model("moe.with_shared_experts", tensors=(0, 1)),
    ),
    *ops(
        *("aiter::moe_sorting_opus_fwd", "aiter::moe_align_block_size", "_moe_C::moe_align_block_size"),
        *("aiter::moe_sum", "aiter::moe_fused_gate", "aiter::topk_softmax_asm", "aiter::topk_sigmoid"),
        "aiter::grouped_topk", "aiter::fused_moe_->_fused_dynamic_mxfp4_quant_moe_sort_kernel (Synthetic Op)",
        category="MoE_aux",
    ),
    # --- Sending tokens ------------------------------------------------------------------------------------------
    *ops(
        "MoEDispatch", "MoECombine", category="MoE_comm_fwd", model=model("moe.moved_tokens_call"),
        sheet="MoE_comm_fwd", backward=model("moe.moved_tokens_call"), in_tracelens=True,
    ),
    *ops("TokenPermuteMaskMap", "_OperationFuserAutogradFunction", category="MoE_comm_fwd"),
    *ops(
        *("MoEDispatchBackward", "MoECombineBackward"),
        *("TokenPermuteMaskMapBackward", "_OperationFuserAutogradFunctionBackward"), category="MoE_comm_bwd",
    ),
    # --- A scale for each group of elements ----------------------------------------------------------------------
    *_by_group(
        "aiter::dynamic_per_token_scaled_quant", "aiter::dynamic_per_group_scaled_quant",
        "aiter::dynamic_per_tensor_quant", model=model("quantisation.scaled", tensors=(0, 1, 2), flops=83),
    ),
    *_by_group(
        "_C::per_token_group_fp8_quant", category=None, model=model("quantisation.scaled", tensors=(1, 0, 2), flops=83),
    ),
    *_by_group("vllm::triton_per_token_group_quant_fp8", model=model("quantisation.fp8_by_group_call")),
    *_by_group(
        "sglang_profiler::fused_mxfp4_quant_fused_flatten_mxfp4_quant", "sglang_profiler::quant_dynamic_mxfp4_quant",
        model=model("quantisation.quantised_mxfp4", tensors=(0,)),
    ),
    *_by_group("aiter::dynamic_per_group_scaled_quant_fp4", model=model("quantisation.quantised_mxfp4", tensors=(1,))),
    *_by_group("aiter::fused_dynamic_mx_quant_moe_sort_hip", model=model("quantisation.quantised_mxfp4", tensors=(2,))),
    *_by_group(
        "aiter::fused_dynamic_mxfp4_quant_moe_sort_hip", category="MoE_aux",
        model=model("quantisation.quantised_mxfp4", tensors=(2,)),
    ),
    *ops(
        "_C::static_scaled_fp8_quant", "_C::dynamic_scaled_fp8_quant", "_C::dynamic_per_token_scaled_fp8_quant",
        model=model("quantisation.scaled", tensors=(0, 1, 2), flops=64), sheet="GroupQuant_fwd",
    ),
    # --- Whole tensors -------------------------------------------------------------------------------------------
    *_whole(
        "primus_turbo::quantize_fp8_tensorwise", "primus_turbo_cpp_extension::quantize_fp8_tensorwise",
        model=model("quantisation.quantised_by_tensor", tensors=(0,)),
    ),
    *_whole(
        "primus_turbo::quantize_mxfp4_dual", "primus_turbo_cpp_extension::quantize_mxfp4_dual",
        "primus::quantize_mxfp4_dual", model=model("quantisation.quantised_mxfp4_both_ways", tensors=(0,)),
    ),
    # --- Collectives ---------------------------------------------------------------------------------------------
    *_collective(
        "_C_custom_ar::all_reduce", "_C_custom_ar::qr_all_reduce", "sgl_kernel::all_reduce_reg",
        "sgl_kernel::qr_all_reduce", model=model("collective_ops.collective", tensors=(1,)),
    ),
    *_collective(
        "aiter::reduce_scatter", "aiter::all_gather_reg", model=model("collective_ops.collective", tensors=(1, 2))
    ),
    *_collective("sglang::reg_all_gather_into_tensor", model=model("collective_ops.collective", tensors=(1, 0))),
    *_collective("aiter::fused_allreduce_rmsnorm", model=model("collective_ops.all_reduce_rms_norm", tensors=(2, 6))),
    *_collective("aiter::fused_allreduce_rmsnorm_", model=model("collective_ops.all_reduce_rms_norm", tensors=(0, 2))),
    *_collective(
        "vllm::rocm_aiter_fused_allreduce_rmsnorm", category=None,
        model=model("collective_ops.all_reduce_rms_norm", tensors=(0, 2)),
    ),
    *ops(
        "symm_mem::multimem_all_reduce_", "symm_mem::one_shot_all_reduce", "symm_mem::two_shot_all_reduce_",
        model=model("collective_ops.collective", tensors=(0,)), sheet="CustomCollective_fwd",
    ),
    *ops(
        *(
            f"aiter::allgather_lastdim<std::bfloat16_t, {ranks}>(aiter::RankData*, aiter::RankSignals, aiter::Signal*, "
            "std::bfloat16_t*, int, int, int) (Synthetic Op)"
            for ranks in (2, 4)
        ),
        category="CustomCollective",
    ),
    # --- Hyper-connections ---------------------------------------------------------------------------------------
    *_hyper_connection(
        "aiter::mhc_post",
        model=model("collective_ops.hyper_connection_call", streams=2, touched=(0, 1, 2, 3, 4), mixes=True),
    ),
    *_hyper_connection(
        "aiter::mhc_pre_gemm_sqrsum",
        model=model("collective_ops.hyper_connection_call", streams=2, touched=(0, 1, 2, 3), projection=3),
    ),
    *_hyper_connection(
        "aiter::mhc_pre_big_fuse_rmsnorm",
        model=model("collective_ops.hyper_connection_call", streams=7, touched=(0, 1, 2, 3, 7, 8), folds=True),
    ),
    *_hyper_connection(
        "aiter::mhc_fused_post_pre_gemm_sqrsum",
        model=model(
            "collective_ops.hyper_connection_call", streams=4, touched=(0, 1, 2, 2, 3, 4, 5, 6, 7), projection=7,
            mixes=True,
        ),
    ),
]  # fmt: skip
