"""What operations should cost: FLOPs and bytes from their arguments, and time at the roof of a device.

Formulas need no trace: `tracelens_graph.perf.gemm(m, n, k, dtype="bf16")`. The other names are what models of one's own
are made of, and devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracelens_graph._lazy import on_first_use as _on_first_use

if TYPE_CHECKING:
    from tracelens_graph.perf.arguments import Arguments as Arguments
    from tracelens_graph.perf.cost import CannotModel as CannotModel
    from tracelens_graph.perf.cost import Cost as Cost
    from tracelens_graph.perf.devices import Architecture as Architecture
    from tracelens_graph.perf.devices import architecture as architecture
    from tracelens_graph.perf.devices import detect as detect
    from tracelens_graph.perf.families.attention import attention as attention
    from tracelens_graph.perf.families.convolution import convolution as convolution
    from tracelens_graph.perf.families.convolution import convolution_backward as convolution_backward
    from tracelens_graph.perf.families.elementwise import binary as binary
    from tracelens_graph.perf.families.elementwise import unary as unary
    from tracelens_graph.perf.families.embedding import rows_by_index as rows_by_index
    from tracelens_graph.perf.families.gemm import gemm as gemm
    from tracelens_graph.perf.families.grouped_gemm import grouped_gemm as grouped_gemm
    from tracelens_graph.perf.families.losses import cross_entropy as cross_entropy
    from tracelens_graph.perf.families.moe import fused_moe as fused_moe
    from tracelens_graph.perf.families.normalization import normalization as normalization
    from tracelens_graph.perf.families.normalization import rms_norm as rms_norm
    from tracelens_graph.perf.families.reduction import reduction as reduction
    from tracelens_graph.perf.families.reduction import softmax as softmax
    from tracelens_graph.perf.families.rope import rope as rope
    from tracelens_graph.perf.families.ssm import causal_conv1d as causal_conv1d
    from tracelens_graph.perf.families.ssm import mamba2 as mamba2
    from tracelens_graph.perf.model import CallContext as CallContext
    from tracelens_graph.perf.model import OpModel as OpModel
    from tracelens_graph.perf.registry import MODELS as MODELS
    from tracelens_graph.perf.registry import model_named as model_named
    from tracelens_graph.perf.roofs import Roof as Roof
    from tracelens_graph.perf.roofs import roofline as roofline
    from tracelens_graph.perf.time_model import TimeModel as TimeModel
    from tracelens_graph.perf.time_model import Work as Work

_HOME = {
    "Architecture": "perf.devices",
    "Arguments": "perf.arguments",
    "CallContext": "perf.model",
    "CannotModel": "perf.cost",
    "Cost": "perf.cost",
    "MODELS": "perf.registry",
    "OpModel": "perf.model",
    "Roof": "perf.roofs",
    "TimeModel": "perf.time_model",
    "Work": "perf.time_model",
    "architecture": "perf.devices",
    "attention": "perf.families.attention",
    "binary": "perf.families.elementwise",
    "causal_conv1d": "perf.families.ssm",
    "convolution": "perf.families.convolution",
    "convolution_backward": "perf.families.convolution",
    "cross_entropy": "perf.families.losses",
    "detect": "perf.devices",
    "fused_moe": "perf.families.moe",
    "gemm": "perf.families.gemm",
    "grouped_gemm": "perf.families.grouped_gemm",
    "mamba2": "perf.families.ssm",
    "model_named": "perf.registry",
    "normalization": "perf.families.normalization",
    "reduction": "perf.families.reduction",
    "rms_norm": "perf.families.normalization",
    "roofline": "perf.roofs",
    "rope": "perf.families.rope",
    "rows_by_index": "perf.families.embedding",
    "softmax": "perf.families.reduction",
    "unary": "perf.families.elementwise",
}

__all__ = [
    "MODELS",
    "Architecture",
    "Arguments",
    "CallContext",
    "CannotModel",
    "Cost",
    "OpModel",
    "Roof",
    "TimeModel",
    "Work",
    "architecture",
    "attention",
    "binary",
    "causal_conv1d",
    "convolution",
    "convolution_backward",
    "cross_entropy",
    "detect",
    "fused_moe",
    "gemm",
    "grouped_gemm",
    "mamba2",
    "model_named",
    "normalization",
    "reduction",
    "rms_norm",
    "roofline",
    "rope",
    "rows_by_index",
    "softmax",
    "unary",
]

__getattr__, __dir__ = _on_first_use(__name__, _HOME)

FORMULAS = (
    "attention",
    "binary",
    "causal_conv1d",
    "convolution",
    "convolution_backward",
    "cross_entropy",
    "fused_moe",
    "gemm",
    "grouped_gemm",
    "mamba2",
    "normalization",
    "reduction",
    "rms_norm",
    "rope",
    "rows_by_index",
    "softmax",
    "unary",
)
"""The formulas among these names."""
