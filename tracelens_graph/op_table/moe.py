"""Mixtures of experts: the layers, routing, sending tokens to their experts."""

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
_aux = partial(ops, category="MoE_aux", sheet="MoE_aux_fwd", in_tracelens=True)

OPS: Rows = [
    # --- Layers --------------------------------------------------------------------------------------------------
    *_fused("pseudo_op::moe_aiter_fused_1stage"),
    *_fused("aiter::fmoe_fp8_blockscale_g1u1", "aiter::fmoe_g1u1", x=1, w1=2, w2=3, topk=8, out=0),
    # TraceLens models only what these call, and that for weights of 4 bits alone.
    *ops(
        "vllm::outplace_fused_experts",
        "vllm::inplace_fused_experts",
        model=model("moe.Stage", stage="fused", choices=4, weights=True),
        sheet="MoE_fused_fwd",
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
    *ops("pseudo_op::moe_triton_unfused_up", "pseudo_op::moe_triton_unfused_down", category="MoE_unfused"),
    # --- Routing -------------------------------------------------------------------------------------------------
    *_aux(
        "aiter::biased_grouped_topk_hip",
        "aiter::moe_sorting_fwd",
        "aiter::mxfp4_moe_sort_hip",
        model=model("moe.operands_call"),
    ),
    *_aux("aiter::topk_softplus", model=model("moe.Chosen", gating=2, flops=6)),
    *_aux("aiter::topk_softmax", model=model("moe.Chosen", gating=3, flops=5), in_tracelens=False),
    *ops("_moe_C::topk_softmax", model=model("moe.Chosen", gating=3, flops=5), sheet="MoE_aux_fwd"),
    *ops("sgl_kernel::topk_softmax", model=model("moe.Chosen", gating=2, flops=5), sheet="MoE_aux_fwd"),
    *_aux(
        "sglang_profiler::fused_moe_triton_kernels_fused_append_shared_experts",
        model=model("moe.with_shared_experts", tensors=(0, 1)),
    ),
    *ops(
        *("aiter::moe_sorting_opus_fwd", "aiter::moe_align_block_size", "_moe_C::moe_align_block_size"),
        *("aiter::moe_sum", "aiter::moe_fused_gate", "aiter::topk_softmax_asm", "aiter::topk_sigmoid"),
        "aiter::grouped_topk",
        "aiter::fused_moe_->_fused_dynamic_mxfp4_quant_moe_sort_kernel (Synthetic Op)",
        category="MoE_aux",
    ),
    # --- Sending tokens ------------------------------------------------------------------------------------------
    *ops(
        "MoEDispatch",
        "MoECombine",
        category="MoE_comm_fwd",
        model=model("moe.moved_tokens_call"),
        sheet="MoE_comm_fwd",
        backward=model("moe.moved_tokens_call"),
        in_tracelens=True,
    ),
    *ops("TokenPermuteMaskMap", "_OperationFuserAutogradFunction", category="MoE_comm_fwd"),
    *ops(
        *("MoEDispatchBackward", "MoECombineBackward"),
        *("TokenPermuteMaskMapBackward", "_OperationFuserAutogradFunctionBackward"),
        category="MoE_comm_bwd",
    ),
]
