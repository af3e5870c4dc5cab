"""Pseudo ops: parts of fused work that no op's name describes, each made an op of its own, with a model.

An op such as `vllm::moe_forward` launches both products of a layer of experts beside routing and sorting. What each
part costs can be stated, what the whole costs cannot. A rule says by which kernels, Python function or op a part is
known, and whose arguments it has. The graph gets an op for it (`loading.pseudo_ops`); its model stands in the table of
ops.

Names and rules are TraceLens's (`Trace2Tree/extensions`), but for those of TensorRT-LLM's kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tracelens_graph.utils.patterns import LazyPattern

_Which = Literal["all", "first", "later", "only"]


@dataclass(frozen=True, slots=True)
class PseudoOp:
    """A part of fused work.

    Attributes:
        name: of the op that is made.
        donors: ops whose arguments it has: one above the part, or the first one in it.
        part: pattern of what it stands above: GPU events by their names, or calls.
        of_kernels: whether the pattern is of GPU events; there is an op for each of them.
        which: of the GPU events below a donor that the pattern fits, by start: all, the first, those after it, or the
            one, if there is no other.
        beside: pattern of the names of all GPU events below the donor, each behind a line break; None for any.
        in_tracelens: whether TraceLens makes it, too.
    """

    name: str
    donors: tuple[str, ...]
    part: LazyPattern
    of_kernels: bool = True
    which: _Which = "all"
    beside: LazyPattern | None = None
    in_tracelens: bool = True


def _kernels(name: str, donors: tuple[str, ...], part: str, which: _Which, *, in_tracelens: bool = True) -> PseudoOp:
    return PseudoOp(name, donors, LazyPattern(part), which=which, in_tracelens=in_tracelens)


def _calls(name: str, donor: str, part: str, beside: str | None = None) -> PseudoOp:
    return PseudoOp(name, (donor,), LazyPattern(part), of_kernels=False, beside=LazyPattern(beside) if beside else None)


_MOE = ("vllm::moe_forward", "vllm::moe_forward_shared")
_EXPERTS = ("vllm::outplace_fused_experts", "vllm::inplace_fused_experts")
_TRTLLM = r"^bmm_\w+?_Mx?E\w+_Fp32_t\d+x\d+x\d+"
_FLYDSL = r": {0}$|^sglang_profiler::\w*{0}(?:_\d+)?$"

_V4 = ("aiter::v4_attention_with_output", r"paged_decode\.py\(\d+\): sparse_attn_v4_paged_decode$")
_HCA, _CSA = r"\nhca_", r"\n(?:fused_compress_attn|_update_compressor_states_kernel)"
"""Kernels that compress the cache 128 to 1, and 4 to 1."""

PSEUDO_OPS = (
    _kernels(
        "pseudo_op::moe_aiter_fused_1stage", ("vllm::rocm_aiter_fused_moe",),
        r"(?i)^(?!.*(?:sort|quant)).*aiter::.*fmoe", "only",
    ),
    _kernels("pseudo_op::moe_triton_unfused_up", _MOE, r"(?i)matmul_ogs", "first"),
    _kernels("pseudo_op::moe_triton_unfused_down", _MOE, r"(?i)matmul_ogs", "later"),
    _kernels("pseudo_op::moe_triton_unfused_finalize_matmul_scatter", _MOE, r"(?i)matmul_scatter", "only"),
    _kernels("pseudo_op::moe_trtllm_up", _MOE, _TRTLLM, "first", in_tracelens=False),
    _kernels("pseudo_op::moe_trtllm_down", _MOE, _TRTLLM, "later", in_tracelens=False),
    _kernels("pseudo_op::moe_trtllm_finalize", _MOE, "moe::dev::finalize::", "only", in_tracelens=False),
    _kernels("pseudo_op::moe_gptq_awq_up", _EXPERTS, "fused_moe_kernel_gptq_awq", "first"),
    _kernels("pseudo_op::moe_gptq_awq_down", _EXPERTS, "fused_moe_kernel_gptq_awq", "later"),
    _calls("pseudo_op::moe_flydsl_stage1", "aiter::fused_moe_", _FLYDSL.format("flydsl_moe_stage1")),
    _calls("pseudo_op::moe_flydsl_stage2", "aiter::fused_moe_", _FLYDSL.format("flydsl_moe_stage2")),
    _calls(
        "pseudo_mla_decode_fwd", "aiter::mla_decode_stage1_asm_fwd",
        r"aiter/mla\.py\(\d+\): mla_decode_fwd$|^aiter::mla_decode_stage1_asm_fwd$",
    ),
    _calls(
        "pseudo_mla_prefill_fwd", "aiter::mla_prefill_ps_asm_fwd",
        r": mla_fp8_prefill_attn$|^aiter::mla_prefill_ps_asm_fwd$",
    ),
    _calls("pseudo_v4_paged_decode_hca", *_V4, _HCA),
    _calls("pseudo_v4_paged_decode_csa", *_V4, rf"(?s)^(?!.*{_HCA}).*{_CSA}"),
    _calls("pseudo_v4_paged_decode_swa", *_V4, rf"(?s)^(?!.*{_HCA})(?!.*{_CSA})"),
)  # fmt: skip

PARTS = frozenset(rule.name for rule in PSEUDO_OPS)
"""Names of all pseudo ops."""
PARTS_OF_TRACELENS = frozenset(rule.name for rule in PSEUDO_OPS if rule.in_tracelens)
"""Names of those that TraceLens makes, too."""
