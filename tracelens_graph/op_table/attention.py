"""Attention of training and of serving engines, rotary embeddings, state space models."""

from __future__ import annotations

from functools import partial
from typing import Any

from tracelens_graph.op_table.entry import Rows, model, ops


def _attention(*names: str, **parameters: Any) -> Rows:
    return ops(
        *names,
        category="SDPA_fwd",
        model=model("attention.Attention", **parameters),
        sheet="SDPA_fwd",
        backward=model("attention.Attention", **parameters, backward=True),
        in_tracelens=True,
    )


def _gradient(*names: str, category: str | None = "SDPA_bwd", query: int = 1, **parameters: Any) -> Rows:
    return ops(
        *names,
        category=category,
        model=model("attention.Attention", query=query, backward=True, **parameters),
        sheet="SDPA_bwd",
        in_tracelens=True,
    )


def _paged(*names: str, **parameters: Any) -> Rows:
    return _serving(*names, model=model("inference_attention.PagedAttention", **parameters))


_FLASH: dict[str, Any] = {"layout": "BNHD", "causal": (5,), "window": 1}
_ATEN_FUSED: dict[str, Any] = {
    "layout": "BHND",
    "causal": (6, 4),
    "dropout": -1,
    "biases": (3,),
    "alignment": "top-left",
    "flash": False,
}
_serving = partial(ops, category="InferenceAttention", sheet="InferenceAttention_fwd", in_tracelens=True)
_rope = partial(ops, category="RoPE_fwd", sheet="RoPE_fwd", in_tracelens=True)
_V4 = "aiter::v4_attention_with_output->"

OPS: Rows = [
    # --- Attention, forward --------------------------------------------------------------------------------------
    *_attention("aten::_scaled_dot_product_flash_attention", layout="BHND", causal=(4,), dropout=-1),
    *_attention(
        "aten::_scaled_dot_product_efficient_attention", "aten::_scaled_dot_product_cudnn_attention", **_ATEN_FUSED
    ),
    *_attention("FlashAttnFunc", "flash_attn::_flash_attn_forward", **_FLASH, strides=True),
    *_attention(
        "flash_attn::_flash_attn_varlen_forward",
        **_FLASH | {"causal": (9,), "packed": (3, 4, 5, 6), "cache": (15, 17), "strides": True},
    ),
    *_attention(
        "flash_attn_3::fwd",
        **_FLASH | {"causal": (24,), "dropout": None, "packed": (7, 8, 12, 13), "cache": (3, 10, 11, 14)},
    ),
    *_attention("aiter::_flash_attn_forward", "aiter::mha_fwd", "aiter::fmha_v3_fwd", **_FLASH),
    *_attention("aiter::wrapper_fmha_v3_fwd", **_FLASH | {"query": 1, "causal": (6,)}),
    *_attention("EvoformerAttention", layout="BSNHD", biases=(3, 4), flash=False),
    *ops("aten::_efficient_attention_forward", category="SDPA_fwd"),
    # --- Attention, backward -------------------------------------------------------------------------------------
    *_gradient("aten::_scaled_dot_product_flash_attention_backward", layout="BHND", causal=(11,), dropout=-1),
    *_gradient(
        "aten::_scaled_dot_product_efficient_attention_backward",
        **_ATEN_FUSED | {"causal": (11,), "dropout": -2, "biases": (4,)},
    ),
    *_gradient("aten::_scaled_dot_product_cudnn_attention_backward", **_ATEN_FUSED | {"causal": (14,), "biases": (8,)}),
    *_gradient("flash_attn::_flash_attn_backward", **_FLASH | {"causal": (11,), "strides": True}),
    *_gradient(
        "flash_attn::_flash_attn_varlen_backward",
        **_FLASH | {"causal": (15,), "packed": (9, 10, 11, 12), "strides": True},
    ),
    *_gradient(
        "flash_attn_3::bwd", category=None,
        **_FLASH | {"causal": (16,), "dropout": None, "packed": (9, 10, 13, 14), "cache": (11, 12)},
    ),
    *_gradient("aiter::_flash_attn_backward", **_FLASH | {"causal": (12, 11)}),
    *_gradient("aiter::mha_bwd", **_FLASH | {"causal": (8,)}),
    *_gradient("aiter::fmha_v3_bwd", category=None, **_FLASH | {"causal": (8,)}),
    *_gradient("aiter::wrapper_fmha_v3_bwd", **_FLASH | {"causal": (9,)}),
    *_gradient(
        "aiter::mha_varlen_bwd", category=None, **_FLASH | {"causal": (13,), "dropout": -3, "packed": (6, 7, 8, 9)}
    ),
    *ops("FlashAttnFuncBackward", "FusedAttnFuncBackward", "aten::_efficient_attention_backward", category="SDPA_bwd"),
    # --- Serving engines -----------------------------------------------------------------------------------------
    *_paged("vllm::unified_attention_with_output", "pseudo_mla_prefill_fwd"),
    *_paged("aiter::mha_batch_prefill", flagged=True),
    *_paged("aiter::mha_varlen_fwd", "aiter::fmha_v3_varlen_fwd", packed=True, flagged=True),
    *_paged("aiter::pa_decode_gluon", key=2, value=-1, key_heads=1, window=19, generation=True),
    *_paged("sglang_profiler::attention_paged_attention_ragged", query=2, key=3, value=4),
    *_paged("pseudo_mla_decode_fwd", generation=True, latent=True),
    *_serving("pseudo_v4_paged_decode_swa", model=model("inference_attention.paged_v4_call", mode="swa")),
    *_serving("pseudo_v4_paged_decode_csa", model=model("inference_attention.paged_v4_call", mode="csa")),
    *_serving("pseudo_v4_paged_decode_hca", model=model("inference_attention.paged_v4_call", mode="hca")),
    *_serving("aiter::pa_sparse_prefill_opus_fwd", model=model("inference_attention.sparse_prefill_call")),
    *_serving(
        "sglang_profiler::tilelang_kernel_tilelang_sparse_fwd", model=model("inference_attention.sparse_latent_call")
    ),
    *_serving(
        "vllm::gdn_attention_core", "aiter::linear_attention_with_output_base",
        model=model("inference_attention.delta_net_call"),
    ),
    *_serving("sglang::store_cache", model=model("inference_attention.store_cache_call")),
    *_serving(
        "_C_cache_ops::reshape_and_cache_flash", "_C_cache_ops::reshape_and_cache",
        model=model("inference_attention.store_cache_call"), in_tracelens=False,
    ),
    *_serving(
        "_C_cache_ops::concat_and_cache_mla", model=model("inference_attention.store_cache_call", caches=(2, 2)),
        in_tracelens=False,
    ),
    *ops(
        *("aiter::get_mla_metadata_v1", "aiter::indexer_score_topk"),
        "hipModuleLaunchKernel->kv_indices_generate_kernel (Synthetic Op)",
        f"{_V4}_update_compressor_states_kernel (Synthetic Op)", f"{_V4}_swa_write_kernel (Synthetic Op)",
        f"{_V4}fused_compress_attn_D512_RD64_R4_OVL_SS8_KB32_rmsbf16_pf_flydsl (Synthetic Op)",
        f"{_V4}fused_compress_attn_D128_RD64_R4_OVL_SS8_KB32_Q_ue8m0_psh_rmsbf16_pf_flydsl (Synthetic Op)",
        f"{_V4}hca_compress_forward_D512_R128_NW4_SL256_S128_flydsl (Synthetic Op)",
        f"{_V4}hca_compress_forward_D512_R128_NW8_SL128_S128_flydsl (Synthetic Op)", category="InferenceAttention",
    ),
    # --- Rotary embeddings: the backward pass is the rotation by the opposite angles -----------------------------
    *_rope("FusedRoPEFunc", model=model("rope.fused_call"), backward=model("rope.fused_call")),
    *ops("FusedRoPEFuncBackward", category="RoPE_bwd"),
    *_rope("aiter::rope_cached_positions_2c_fwd_impl", model=model("rope.two_channels_call")),
    *_rope("sgl_kernel::rotary_embedding", model=model("rope.in_place_call")),
    *ops("_C::rotary_embedding", model=model("rope.in_place_call"), sheet="RoPE_fwd"),
    *_rope("aiter::fused_qk_rope_cat_and_cache_mla", model=model("rope.into_cache_call"), sheet="FusedRoPE_fwd"),
    *_rope(
        "aiter::fused_qk_rope_concat_and_cache_mla", model=model("rope.into_cache_call", out=5), sheet="FusedRoPE_fwd"
    ),
    *ops(
        "aiter::unified_attention_with_output_base->_fused_qk_rope_reshape_and_cache_kernel (Synthetic Op)",
        f"{_V4}_inverse_rope_gptj_kernel (Synthetic Op)", f"{_V4}qk_norm_rope_H32_D512_RD64_flydsl (Synthetic Op)",
        f"{_V4}qk_norm_rope_H64_D512_RD64_flydsl (Synthetic Op)",
        f"{_V4}hca_norm_rope_scatter_D512_RD64_R128_KB1_rmsbf16_flydsl (Synthetic Op)", category="FusedRoPE",
    ),
    # --- State space models --------------------------------------------------------------------------------------
    *ops(
        "DaoAILab::_causal_conv1d_fwd_cpp", category="SSM_fwd", model=model("ssm.causal_conv1d_call"), sheet="SSM_fwd",
        in_tracelens=True,
    ),
    *ops(
        "DaoAILab::_causal_conv1d_bwd_cpp", category="SSM_bwd", model=model("ssm.causal_conv1d_call", backward=True),
        sheet="SSM_bwd", in_tracelens=True,
    ),
    *ops(
        "MambaSplitConv1dScanCombinedFn", category="SSM_fwd", model=model("ssm.mamba2_call"), sheet="SSM_fwd",
        backward=model("ssm.mamba2_call", backward=True), in_tracelens=True,
    ),
    *ops("MambaSplitConv1dScanCombinedFnBackward", category="SSM_bwd"),
]  # fmt: skip
