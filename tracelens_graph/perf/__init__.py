"""What operations should cost: FLOPs and bytes from their arguments, and time at the roof of a device.

Formulas need no trace: `tracelens_graph.perf.gemm(m, n, k, dtype="bf16")`. They are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

FORMULAS = {
    "attention": "attention",
    "binary": "elementwise",
    "causal_conv1d": "ssm",
    "convolution": "convolution",
    "convolution_backward": "convolution",
    "cross_entropy": "losses",
    "fused_moe": "moe",
    "gemm": "gemm",
    "grouped_gemm": "grouped_gemm",
    "mamba2": "ssm",
    "normalization": "normalization",
    "reduction": "reduction",
    "rms_norm": "normalization",
    "rope": "rope",
    "rows_by_index": "embedding",
    "softmax": "reduction",
    "unary": "elementwise",
}
"""Formula -> family that it is in."""


def __getattr__(name: str) -> Any:
    if name not in FORMULAS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.families.{FORMULAS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *FORMULAS})
