"""Normalizations: batch, layer, group, instance, RMS."""

from __future__ import annotations

from typing import Any

from tracelens_graph.op_table.entry import Rows, model, ops

_LIBRARIES = ("", "native_", "miopen_", "cudnn_")


def _in_libraries(norm: str) -> list[str]:
    """An op of PyTorch and of the libraries below it."""
    return [f"aten::{library}{norm}" for library in _LIBRARIES]


def _norm(*names: str, reader: str = "normalization.Forward", **parameters: Any) -> Rows:
    spec = model(reader, **parameters)
    return ops(*names, category="NORM_fwd", model=spec, sheet="Normalization", in_tracelens=True)


def _gradient(*names: str, reader: str = "normalization.Backward", **parameters: Any) -> Rows:
    spec = model(reader, **parameters)
    return ops(*names, category="NORM_bwd", model=spec, sheet="Normalization", in_tracelens=True)


def _serving(*names: str, category: str | None = "RMSNorm", in_tracelens: bool = True, **parameters: Any) -> Rows:
    spec = model("normalization.ServingRms", **parameters)
    return ops(*names, category=category, model=spec, sheet="RMSNorm_fwd", in_tracelens=in_tracelens)


_BATCH: dict[str, Any] = {"weight": 1, "bias": 2, "running": (3, 4), "training": 5}

OPS: Rows = [
    # --- Forward -------------------------------------------------------------------------------------------------
    *_norm(*_in_libraries("batch_norm"), *_in_libraries("instance_norm"), **_BATCH),
    *_norm(*_in_libraries("layer_norm"), weight=2, bias=3, shape=1),
    *_norm("aten::group_norm", weight=2, bias=3),
    *_norm("aten::native_group_norm", "aten::miopen_group_norm", "aten::cudnn_group_norm", weight=1, bias=2),
    *_norm("aten::_fused_rms_norm", reader="normalization.rms_norm_call"),
    *_norm("aiter::_groupnorm_run", reader="normalization.aiter_group_norm_call"),
    *_norm("primus::fused_ln_modulate", reader="normalization.modulated_layer_norm", tensors=(0, 1, 2)),
    *ops("aten::_native_batch_norm_legit", model=model("normalization.Forward", **_BATCH), sheet="Normalization"),
    # --- Backward ------------------------------------------------------------------------------------------------
    *_gradient(
        "aten::batch_norm_backward", "aten::native_batch_norm_backward", weight=2, saved=(5, 6), mask=9, running=(3, 4),
        training=7, batch=True,
    ),
    *_gradient(
        "aten::miopen_batch_norm_backward", "aten::cudnn_batch_norm_backward", weight=2, saved=(5, 6), source=0,
        gradient=1, batch=True,
    ),
    *_gradient(*_in_libraries("layer_norm_backward"), weight=5, saved=(3, 4), mask=7, shape=2),
    *_gradient(*_in_libraries("group_norm_backward"), weight=4, saved=(2, 3), mask=9),
    *_gradient(
        *_in_libraries("rms_norm_backward"), "aten::_fused_rms_norm_backward", weight=4, saved=(3,), mask=5, shape=2,
        rms=True,
    ),
    *_gradient(
        "primus::fused_ln_modulate_backward", reader="normalization.modulated_layer_norm", tensors=(0, 4, 4),
        backward=True,
    ),
    # PyTorch has no such op; TraceLens has a category for it.
    *ops(*_in_libraries("instance_norm_backward"), category="NORM_bwd"),
    # --- RMS norms of serving engines ----------------------------------------------------------------------------
    *_serving("aiter::rms_norm", "aiter::rmsnorm2d_fwd_ck"),
    *_serving("aiter::rmsnorm", source=1, weight=2),
    *_serving("aiter::rmsnorm2d_fwd_with_add_ck", "aiter::add_rmsnorm", source=1, weight=4, residual=2),
    *_serving("aiter::rmsnorm2d_fwd_with_dynamicquant_ck", source=1, weight=3, quantised="fp8"),
    *_serving("aiter::rmsnorm_quant", source=1, weight=3, quantised="fp8", group=5),
    *_serving(
        "aiter::fused_add_rmsnorm_pad_", "vllm::rocm_aiter_triton_add_rmsnorm_pad", source=0, weight=1, residual=3,
        multiple=4,
    ),
    *_serving(
        "aiter::_fuse_rmsnorm_fp4_quant", "sglang_profiler::fused_mxfp4_quant_fused_rms_mxfp4_quant", source=0,
        weight=1, residual=6, quantised="fp4", second=3, second_weight=4,
    ),
    *_serving("aiter::_fused_qk_rmsnorm_kernel", category=None, source=0, weight=1, second=3, second_weight=4),
    *_serving("vllm::rocm_aiter_rmsnorm_fp8_group_quant", source=0, weight=1, quantised="fp8", group=3),
    *_serving(
        "vllm::rocm_aiter_rmsnorm_with_add_fp8_group_quant", source=0, weight=2, residual=1, quantised="fp8", group=4,
    ),
    *_serving("_C::rms_norm", "sgl_kernel::rmsnorm", category=None, in_tracelens=False, source=1, weight=2),
    *_serving(
        "_C::fused_add_rms_norm", "sgl_kernel::fused_add_rmsnorm", category=None, in_tracelens=False, source=0,
        weight=2, residual=1,
    ),
]  # fmt: skip
