"""What operations should cost: FLOPs and bytes from their arguments, and time at the roof of a device.

Formulas need no trace: `tracelens_graph.perf.gemm(m, n, k, dtype="bf16")`. The other names are what models of one's own
are made of, and devices. Formulas raise CannotModel where sizes do not fit together or a type is not known.
"""

from __future__ import annotations

from tracelens_graph._lazy import on_first_use as _on_first_use

_NAMES = {
    "perf.arguments": "Arguments",
    "perf.cost": "CannotModel Cost",
    "perf.devices": "Architecture architecture detect",
    "perf.families.attention": "attention",
    "perf.families.convolution": "convolution convolution_backward",
    "perf.families.elementwise": "binary unary",
    "perf.families.gemm": "gemm",
    "perf.families.grouped_gemm": "grouped_gemm",
    "perf.families.moe": "fused_moe",
    "perf.families.normalization": "normalization rms_norm",
    "perf.families.reduction": "reduction softmax",
    "perf.families.rope": "rope",
    "perf.families.ssm": "causal_conv1d mamba2",
    "perf.families.training": "cross_entropy rows_by_index",
    "perf.model": "CallContext OpModel TimeModel Work",
    "perf.registry": "MODELS model_named",
    "perf.roofs": "Roof roofline",
}
"""Module -> the public names that are imported from it; `__init__.pyi` is made of it."""

__getattr__, __dir__, __all__ = _on_first_use(__name__, _NAMES)
