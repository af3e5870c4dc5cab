"""TraceLens's categories of the kernels of JAX: rules for the engine that finds those of PyTorch.

The words are those that TraceLens publishes for its JAX reports (`JaxOpKeys`), looked for in the name of the kernel and
in that of the HLO instruction that launched it. As there, a kernel of attention is one whatever launched it, and else
the instruction decides before the kernel's name. What the instruction does counts as well as what it is called: XLA
numbers a convolution `cudnn-conv.1`, but calls the first of a program `cudnn-conv`.

TraceLens once had `FillBuffer` among the words for convolutions. Fills belong to what launched them, so it is not here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tracelens_graph.categories.kernels import KernelRule, KernelRules

JAX_KEYS: Mapping[str, Sequence[str]] = {
    "GEMM": ("Cijk", "gemm", "nvjet", "cublasLt"),
    "FA BWD": ("FmhaBwd", "flash_bprop", "ck_fused_attn::dk_dv_reduce_thd", "fmha_bwd"),
    "FA FWD": ("FmhaFwd", "flash_fprop", "fmha_fwd"),
    "FA V3": ("kernel_func",),
    "Conv": ("conv_", "conv.", "conv-"),
    "TE": ("transformer_engine", "te_fused_attn"),
    "Communication rccl/nccl": ("rccl", "nccl"),
}
"""Category -> words; a name of the category has one of them."""

_DOES: Mapping[str, str] = {"GEMM": r"hlo::dot|\((?:dot|gemm)\)", "Conv": r"hlo::convolution|\(convolution"}
"""Category -> what the instruction does, as the table of ops calls it (`op_table.hlo`)."""

_ATTENTION = ("FA BWD", "FA FWD", "FA V3")

XLA = "Uncategorized Events/XLA"
"""Category of all other kernels: those that XLA wrote itself."""


def _any(words: Iterable[str]) -> str:
    return "|".join(re.escape(word.lower()) for word in words)


def _rules() -> Iterable[KernelRule]:
    for category in _ATTENTION:
        yield KernelRule(category, _any(JAX_KEYS[category]))
    for category, words in JAX_KEYS.items():
        op = _any(words)
        yield KernelRule(category, op=f"{op}|{_DOES[category]}" if category in _DOES else op)
    for category, words in JAX_KEYS.items():
        yield KernelRule(category, _any(words))


JAX_RULES = KernelRules(
    tuple(_rules()),
    {
        "GEMM": "products of matrices",
        "FA BWD": "the backward pass of fused attention",
        "FA FWD": "fused attention",
        "FA V3": "fused attention of AITER, third version",
        "Conv": "convolutions",
        "TE": "what else TransformerEngine launches",
        "Communication rccl/nccl": "collectives of RCCL and NCCL",
        XLA: "everything else",
    },
    XLA,
)
"""The rules; the op of a kernel is the name of its instruction and what that does, with a blank between."""
