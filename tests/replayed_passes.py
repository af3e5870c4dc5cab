"""Kernels of forward passes as serving engines run them, by model and platform, and the roles that these are."""

from __future__ import annotations

from collections.abc import Sequence

Step = tuple[str, str]
"""A kernel, and block and role of its place."""

GEMM = "nvjet_sm100_tst_{}x64_64x16_2x1_v_bz_TNN"
TENSILE = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT{}x16x128_MI16x16x1_SN"
NORM = "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)"
AITER_NORM = "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_PT_"
QUANT = "void per_token_group_quant_8bit_kernel<__nv_bfloat16, __nv_fp8_e4m3, false, false>(void const*)"
SILU = "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &silu>(__nv_bfloat16*)"

LLAMA_TP: Sequence[Step] = [
    ("void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)", "attention / input norm"),
    (GEMM.format(192), "attention / qkv product"),
    ("void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheEnhancedKernel<true>(__nv_bfloat16*)", "attention / rope"),
    ("void (anonymous namespace)::store_kvcache<2048l, 4, true, long>(Params)", "attention / KV-cache write"),
    (
        "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64VarSeqQ8Kv128PersistentSwapsAbForGen",
        "attention / attention",
    ),
    (GEMM.format(128), "attention / out product"),
    (
        "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(sglang::RankData*)",
        "attention / all-reduce after out product",
    ),
    (NORM, "mlp / post-attention norm"),
    (GEMM.format(256), "mlp / gate/up product"),
    (SILU, "mlp / activation"),
    (GEMM.format(64), "mlp / down product"),
    ("void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(void*)", "mlp / down product"),
    (
        "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(sglang::RankData*)",
        "mlp / all-reduce after down product",
    ),
]
"""A dense model in tensor parallelism, SGLang on Blackwell."""

DEEPSEEK_NVIDIA: Sequence[Step] = [
    (
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<kARResidualRMSNorm>()",
        "attention / input norm",
    ),
    ("dsv3_fused_a_gemm_kernel<1, 2112>(void*)", "attention / q/kv down product"),
    ("void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)", "attention / q down norm"),
    ("void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)", "attention / kv down norm"),
    (QUANT, "attention / quantise before q up product"),
    ("void deep_gemm::sm100_fp8_gemm_1d1d_impl<0u, 1536u>()", "attention / q up product"),
    (GEMM.format(32), "attention / k absorb product"),
    ("void flashinfer::RopeQuantizeKernel<__nv_bfloat16>(__nv_bfloat16*)", "attention / rope"),
    ("void set_mla_kv_buffer_kernel(void*)", "attention / KV-cache write"),
    (
        "fmhaSm100fKernel_QkvE4m3OBfloat16HQk576HV512HVPerCta256PagedKvDenseP64VarSeqQ16Kv128StaticSwapsAbForGen",
        "attention / attention",
    ),
    (GEMM.format(16), "attention / v up product"),
    (QUANT, "attention / quantise before out product"),
    ("void deep_gemm::sm100_fp8_gemm_1d1d_impl<0u, 7168u>()", "attention / out product"),
    (
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<kARResidualRMSNorm>()",
        "moe / post-attention norm",
    ),
    ("void dsv3_router_gemm_kernel<__nv_bfloat16, float, 1, 256, 7168>(float*)", "moe / router product"),
    ("void moe::dev::routing::routingDeepSeek::routingMainKernel<KernelParams>(KernelParams)", "moe / top-k"),
    ("void moe::dev::routing::routingIndicesClusterKernel<KernelParams>(KernelParams)", "moe / expert sort"),
    (
        "bmm_Bfloat16_E4m3E4m3_Fp32_t128x8x128_s6_et64x8_m64x8x32_cga1x1x1_rM_BN_transOut_swiGlu_dynB_sm100f",
        "moe / expert up product",
    ),
    (
        "bmm_Bfloat16_E4m3E4m3_Fp32_t128x8x256_s6_et64x8_m64x8x32_cga1x1x1_rM_BN_transOut_dynB_sm100f",
        "moe / expert down product",
    ),
    ("void moe::dev::finalize::finalizeKernel<KernelParams>(KernelParams)", "moe / combine"),
]
"""Latent attention and a mixture of experts, with kernels of TensorRT-LLM."""

DEEPSEEK_AMD: Sequence[Step] = [
    (AITER_NORM, "attention / input norm"),
    ("_gemm_a8w8_blockscale_kernel_GRID_MN_1", "attention / q/kv down product"),
    ("_ZN5aiter19fused_qk_rmsnorm_groupEv", "attention / q down norm"),
    ("_gemm_a8w8_blockscale_kernel_GRID_MN_2", "attention / q up product"),
    (
        "_batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant_kernel_1",
        "attention / k absorb product",
    ),
    ("_fused_qk_rope_cat_and_cache_mla_kernel", "attention / rope"),
    ("_ZN5aiter36mla_a8w8_qh16_qseqlen1_gqaratio16_psE", "attention / attention"),
    (
        "void kn_mla_reduce_v1<MlaReduceKernelV1Traits<512, 16, 1>, float>(MlaReduceKernelV1Params)",
        "attention / attention",
    ),
    ("_batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant_kernel_2", "attention / v up product"),
    ("_gemm_a8w8_blockscale_kernel_GRID_MN_3", "attention / out product"),
    (AITER_NORM, "moe / post-attention norm"),
    (TENSILE.format(16), "moe / router product"),
    ("void aiter::grouped_topk_opt_sort_kernel<c10::BFloat16, float, 8, true>(c10::BFloat16*)", "moe / top-k"),
    ("void ck_tile::kentry<1, ck_tile::MoeSortingKernel<Problem>>(Args)", "moe / expert sort"),
    ("_ZN5aiter49fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_ps_32x256E", "moe / expert products"),
]
"""The same with kernels of aiter: experts are one kernel."""

QWEN_MOE: Sequence[Step] = [
    (NORM, "attention / input norm"),
    (GEMM.format(192), "attention / qkv product"),
    ("void flashinfer::norm::QKRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)", "attention / q norm"),
    ("void flashinfer::norm::QKRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)", "attention / k norm"),
    ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "attention / rope"),
    ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(void*)", "attention / KV-cache write"),
    (
        "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<Traits>>>(Params)",
        "attention / attention",
    ),
    ("void cutlass::device_kernel<flash::FlashAttnFwdCombine<Traits>>(Params)", "attention / attention"),
    (GEMM.format(128), "attention / out product"),
    (NORM, "moe / post-attention norm"),
    (GEMM.format(16), "moe / router product"),
    ("void vllm::moe::topkGatingSoftmax<8, 128, 4, 16>(float const*)", "moe / top-k"),
    ("void vllm::moe::moe_align_block_size_kernel<int>(int const*)", "moe / expert sort"),
    ("fused_moe_kernel", "moe / expert up product"),
    ("void vllm::act_and_mul_kernel<c10::BFloat16, &silu_kernel>(c10::BFloat16*)", "moe / activation"),
    ("fused_moe_kernel", "moe / expert down product"),
    ("void vllm::moe::moe_sum_kernel<c10::BFloat16, 8>(c10::BFloat16*)", "moe / combine"),
]
"""Norms of heads, and Triton's kernel of experts, which runs twice; vLLM on Hopper."""

MODELS = {"llama": LLAMA_TP, "deepseek-nvidia": DEEPSEEK_NVIDIA, "deepseek-amd": DEEPSEEK_AMD, "qwen-moe": QWEN_MOE}


def kernels(model: Sequence[Step], layers: int = 24, head: str = GEMM.format(512)) -> tuple[list[str], list[str]]:
    """The kernels of a pass, and their labels."""
    names = ["void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::BFloat16>(TensorInfo)"]
    labels = ["before the layers / embedding"]
    for layer in range(layers):
        names += [name for name, _ in model]
        labels += [f"layer {layer} / {way}" for _, way in model]
    return [*names, model[0][0], head], [*labels, "after the layers / final norm", "after the layers / head product"]
