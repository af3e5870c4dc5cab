"""Categories of operations that are known by their full name, in the vocabulary of TraceLens.

Grouped by category and, within one, by what the operations do. `(Synthetic Op)` is the mark of kernels that stand
for themselves in a summary because no operation with a formula covers them.
"""

from __future__ import annotations

from collections.abc import Mapping

_ATTENTION_V4 = "aiter::v4_attention_with_output->"


def _norms(*kinds: str, suffix: str = "") -> list[str]:
    return [f"aten::{library}{kind}_norm{suffix}" for kind in kinds for library in ("", "native_", "miopen_", "cudnn_")]


def _in_place(*names: str) -> list[str]:
    return [f"aten::{name}{suffix}" for name in names for suffix in ("", "_")]


BY_CATEGORY: Mapping[str, list[str]] = {
    "GEMM": [
        *("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_mm"),
        *("trtllm::cublas_scaled_mm", "bitsandbytes::int8_linear_matmul", "tex_ts::te_gemm_ts"),
        *("_Linear_yfwd_mm", "_LinearBackward_xgrad_mm", "_LinearBackward_wgrad_mm"),
        *("_LayerNormLinear_yfwd_mm", "_LayerNormLinearBackward_xgrad_mm", "_LayerNormLinearBackward_wgrad_mm"),
        *("vllm::gemm_with_dynamic_quant", "vllm::rocm_unquantized_gemm"),
        *("aiter::gemm_a16w16", "aiter::gemm_a16w16_atomic_", "aiter::_gemm_a16w16_asm"),
        "sglang_profiler::gemm_kernels_flydsl_hgemm",
        *("aiter::gemm_a8w8_blockscale_ck", "aiter::gemm_a8w8_blockscale_cktile"),
        *("aiter::gemm_a8w8_blockscale_bpreshuffle_ck", "aiter::gemm_a8w8_blockscale_bpreshuffle_cktile"),
        *("aiter::_gemm_a8w8_blockscale_bpreshuffle_asm", "aiter::flatmm_a8w8_blockscale_asm"),
        *("aiter::gfx950_a8w8_blockscale_asm", "aiter::gemm_a8w8_ck"),
        *("aiter::gemm_a8w8_bpreshuffle", "aiter::gemm_a8w8_bpreshuffle_ck"),
        "vllm::rocm_aiter_triton_gemm_a8w8_blockscale",
        "vllm::_rocm_aiter_preshuffled_per_token_w8a8_gemm",
        "sglang_profiler::fp8_utils_gemm_a8w8_blockscale",
        "sglang_profiler::gemm_a8w8_blockscale_gemm_a8w8_blockscale",
        "sglang_profiler::" + "_".join(["batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant"] * 2),
        *("aiter::gemm_a4w4", "aiter::_gemm_a4w4_asm", "aiter::gemm_afp4wfp4_", "aiter::batched_gemm_a16wfp4_"),
        *("primus_turbo::hipblaslt_gemm_fp8", "primus_turbo_cpp_extension::hipblaslt_gemm_fp8"),
        *("primus_turbo::hipblaslt_gemm_fp4", "primus_turbo_cpp_extension::hipblaslt_gemm_fp4"),
    ],
    "CONV_fwd": [
        *("aten::convolution", "aten::miopen_convolution", "aten::cudnn_convolution"),
        *("ConvBias_", "ConvBiasReLU_"),
    ],
    "CONV_bwd": ["aten::convolution_backward", "ConvBias_Backward", "ConvBiasReLU_Backward"],
    "SDPA_fwd": [
        *("FlashAttnFunc", "flash_attn_3::fwd", "EvoformerAttention"),
        *("flash_attn::_flash_attn_forward", "flash_attn::_flash_attn_varlen_forward"),
        *("aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_efficient_attention"),
        *("aten::_scaled_dot_product_cudnn_attention", "aten::_efficient_attention_forward"),
        *("aiter::_flash_attn_forward", "aiter::wrapper_fmha_v3_fwd", "aiter::fmha_v3_fwd", "aiter::mha_fwd"),
    ],
    "SDPA_bwd": [
        *("FlashAttnFuncBackward", "FusedAttnFuncBackward"),
        *("flash_attn::_flash_attn_backward", "flash_attn::_flash_attn_varlen_backward"),
        *("aten::_scaled_dot_product_flash_attention_backward", "aten::_scaled_dot_product_cudnn_attention_backward"),
        *("aten::_scaled_dot_product_efficient_attention_backward", "aten::_efficient_attention_backward"),
        *("aiter::_flash_attn_backward", "aiter::wrapper_fmha_v3_bwd", "aiter::mha_bwd"),
    ],
    "InferenceAttention": [
        *("vllm::unified_attention_with_output", "aiter::mha_varlen_fwd", "aiter::fmha_v3_varlen_fwd"),
        *("aiter::mha_batch_prefill", "aiter::pa_decode_gluon", "aiter::pa_sparse_prefill_opus_fwd"),
        *("sglang_profiler::attention_paged_attention_ragged", "sglang_profiler::tilelang_kernel_tilelang_sparse_fwd"),
        *("pseudo_mla_decode_fwd", "pseudo_mla_prefill_fwd"),
        *("pseudo_v4_paged_decode_swa", "pseudo_v4_paged_decode_csa", "pseudo_v4_paged_decode_hca"),
        *("vllm::gdn_attention_core", "aiter::linear_attention_with_output_base"),
        *("aiter::get_mla_metadata_v1", "aiter::indexer_score_topk"),
        *("sglang::store_cache", "_C_cache_ops::reshape_and_cache_flash", "_C_cache_ops::concat_and_cache_mla"),
        "hipModuleLaunchKernel->kv_indices_generate_kernel (Synthetic Op)",
        _ATTENTION_V4 + "_update_compressor_states_kernel (Synthetic Op)",
        _ATTENTION_V4 + "_swa_write_kernel (Synthetic Op)",
        _ATTENTION_V4 + "fused_compress_attn_D512_RD64_R4_OVL_SS8_KB32_rmsbf16_pf_flydsl (Synthetic Op)",
        _ATTENTION_V4 + "fused_compress_attn_D128_RD64_R4_OVL_SS8_KB32_Q_ue8m0_psh_rmsbf16_pf_flydsl (Synthetic Op)",
        _ATTENTION_V4 + "hca_compress_forward_D512_R128_NW4_SL256_S128_flydsl (Synthetic Op)",
        _ATTENTION_V4 + "hca_compress_forward_D512_R128_NW8_SL128_S128_flydsl (Synthetic Op)",
    ],
    "NORM_fwd": [
        *_norms("batch", "layer", "group", "instance"),
        *("aten::_fused_rms_norm", "aiter::_groupnorm_run", "primus::fused_ln_modulate"),
    ],
    "NORM_bwd": [
        *_norms("batch", "layer", "group", "instance", "rms", suffix="_backward"),
        *("aten::_fused_rms_norm_backward", "primus::fused_ln_modulate_backward"),
    ],
    "RMSNorm": [
        *("aiter::rms_norm", "aiter::rmsnorm", "aiter::rmsnorm2d_fwd_ck"),
        *("aiter::add_rmsnorm", "aiter::rmsnorm2d_fwd_with_add_ck", "aiter::fused_add_rmsnorm_pad_"),
        *("aiter::rmsnorm_quant", "aiter::rmsnorm2d_fwd_with_dynamicquant_ck", "aiter::_fuse_rmsnorm_fp4_quant"),
        *("vllm::rocm_aiter_triton_add_rmsnorm_pad", "vllm::rocm_aiter_rmsnorm_fp8_group_quant"),
        "vllm::rocm_aiter_rmsnorm_with_add_fp8_group_quant",
        "sglang_profiler::fused_mxfp4_quant_fused_rms_mxfp4_quant",
    ],
    "elementwise": [
        *_in_place("copy", "clamp_min", "clamp_max", "add", "mul", "div"),
        *("aten::sigmoid", "aten::rsqrt", "aten::silu", "aten::neg", "aten::pow"),
        *("aten::sigmoid_backward", "aten::threshold_backward", "LigerSiLUMulFunction"),
        *(f"aten::replication_pad{d}d" for d in (1, 2, 3)),
        *(f"aten::upsample_nearest{d}d" for d in (1, 2, 3)),
        *("aiter::silu_and_mul", "_C::silu_and_mul", "sgl_kernel::silu_and_mul"),
        *("aiter::gelu_and_mul", "aiter::gelu_tanh_and_mul", "aiter::mixed_sample_outer_exponential"),
        *("primus_turbo::quantize_fp8_tensorwise", "primus_turbo_cpp_extension::quantize_fp8_tensorwise"),
        *("primus_turbo::quantize_mxfp4_dual", "primus_turbo_cpp_extension::quantize_mxfp4_dual"),
        "primus::quantize_mxfp4_dual",
    ],
    "GroupQuant": [
        *("aiter::dynamic_per_tensor_quant", "aiter::dynamic_per_token_scaled_quant"),
        *("aiter::dynamic_per_group_scaled_quant", "aiter::dynamic_per_group_scaled_quant_fp4"),
        *("aiter::fused_dynamic_mx_quant_moe_sort_hip", "vllm::triton_per_token_group_quant_fp8"),
        "sglang_profiler::fused_mxfp4_quant_fused_flatten_mxfp4_quant",
        "sglang_profiler::quant_dynamic_mxfp4_quant",
    ],
    "reduce": [
        *("aten::sum", "aten::mean", "aten::max", "aten::min", "aten::amax", "aten::amin"),
        *("aten::norm", "aten::linalg_norm", "aten::std", "aten::var", "aten::logsumexp"),
        *("aten::cumsum", "aten::cumprod"),
    ],
    "RoPE_fwd": [
        *("FusedRoPEFunc", "aiter::rope_cached_positions_2c_fwd_impl", "sgl_kernel::rotary_embedding"),
        *("aiter::fused_qk_rope_cat_and_cache_mla", "aiter::fused_qk_rope_concat_and_cache_mla"),
    ],
    "RoPE_bwd": ["FusedRoPEFuncBackward"],
    "FusedRoPE": [
        "aiter::unified_attention_with_output_base->_fused_qk_rope_reshape_and_cache_kernel (Synthetic Op)",
        _ATTENTION_V4 + "_inverse_rope_gptj_kernel (Synthetic Op)",
        _ATTENTION_V4 + "qk_norm_rope_H32_D512_RD64_flydsl (Synthetic Op)",
        _ATTENTION_V4 + "qk_norm_rope_H64_D512_RD64_flydsl (Synthetic Op)",
        _ATTENTION_V4 + "hca_norm_rope_scatter_D512_RD64_R128_KB1_rmsbf16_flydsl (Synthetic Op)",
    ],
    "CrossEntropy_fwd": ["CrossEntropyFunction"],
    "CrossEntropy_bwd": ["CrossEntropyFunctionBackward"],
    "SSM_fwd": ["DaoAILab::_causal_conv1d_fwd_cpp", "MambaSplitConv1dScanCombinedFn"],
    "SSM_bwd": ["DaoAILab::_causal_conv1d_bwd_cpp", "MambaSplitConv1dScanCombinedFnBackward"],
    "GroupedGEMM_fwd": [
        *("primus_turbo::grouped_gemm", "primus_turbo::grouped_gemm_impl"),
        *("primus_turbo_cpp_extension::grouped_gemm", "primus_turbo_cpp_extension::ck_grouped_gemm"),
        *("primus_turbo::grouped_gemm_variable_k", "primus_turbo::grouped_gemm_variable_k_impl"),
        "primus_turbo_cpp_extension::grouped_gemm_variable_k",
        "primus_turbo_cpp_extension::ck_grouped_gemm_variable_k",
    ],
    "MoE_fused": ["pseudo_op::moe_aiter_fused_1stage", "aiter::fmoe_fp8_blockscale_g1u1", "aiter::fmoe_g1u1"],
    "MoE_unfused": [
        *("aiter::ck_moe_stage1", "aiter::ck_moe_stage2"),
        *("aiter::moe_cktile2stages_gemm1_ck", "aiter::moe_cktile2stages_gemm2_ck"),
        *("pseudo_op::moe_triton_unfused_up", "pseudo_op::moe_triton_unfused_down"),
        *("pseudo_op::moe_gptq_awq_up", "pseudo_op::moe_gptq_awq_down"),
        *("pseudo_op::moe_flydsl_stage1", "pseudo_op::moe_flydsl_stage2"),
        "sglang_profiler::fused_moe_triton_kernels_invoke_fused_moe_kernel",
    ],
    "MoE_aux": [
        *("aiter::moe_sorting_fwd", "aiter::moe_sorting_opus_fwd", "aiter::mxfp4_moe_sort_hip"),
        *("aiter::moe_align_block_size", "_moe_C::moe_align_block_size", "aiter::moe_sum", "aiter::moe_fused_gate"),
        *("aiter::topk_softmax", "aiter::topk_softmax_asm", "aiter::topk_sigmoid", "aiter::topk_softplus"),
        *("aiter::grouped_topk", "aiter::biased_grouped_topk_hip", "aiter::fused_dynamic_mxfp4_quant_moe_sort_hip"),
        "sglang_profiler::fused_moe_triton_kernels_fused_append_shared_experts",
        "aiter::fused_moe_->_fused_dynamic_mxfp4_quant_moe_sort_kernel (Synthetic Op)",
    ],
    "MoE_comm_fwd": ["MoEDispatch", "MoECombine", "TokenPermuteMaskMap", "_OperationFuserAutogradFunction"],
    "MoE_comm_bwd": [
        *("MoEDispatchBackward", "MoECombineBackward", "TokenPermuteMaskMapBackward"),
        "_OperationFuserAutogradFunctionBackward",
    ],
    "CustomCollective": [
        *("_C_custom_ar::all_reduce", "_C_custom_ar::qr_all_reduce"),
        *("sgl_kernel::all_reduce_reg", "sgl_kernel::qr_all_reduce", "sglang::reg_all_gather_into_tensor"),
        *("aiter::reduce_scatter", "aiter::all_gather_reg"),
        *("aiter::fused_allreduce_rmsnorm", "aiter::fused_allreduce_rmsnorm_"),
        *(
            f"aiter::allgather_lastdim<std::bfloat16_t, {ranks}>(aiter::RankData*, aiter::RankSignals, aiter::Signal*, "
            "std::bfloat16_t*, int, int, int) (Synthetic Op)"
            for ranks in (2, 4)
        ),
    ],
    "mHC": [
        *("aiter::mhc_post", "aiter::mhc_pre_gemm_sqrsum", "aiter::mhc_pre_big_fuse_rmsnorm"),
        "aiter::mhc_fused_post_pre_gemm_sqrsum",
    ],
}
"""Category -> operations."""

OP_NAMES: Mapping[str, str] = {name: category for category, names in BY_CATEGORY.items() for name in names}
"""Operation -> category."""
