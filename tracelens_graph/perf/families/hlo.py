"""Instructions of XLA: what `hlo.work` says of them."""

from __future__ import annotations

from typing import Any

from tracelens_graph.hlo.facts import Facts
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.model import CallContext
from tracelens_graph.perf.scalar_types import known

_SHEETS = {
    "dot": "GEMM", "ragged-dot": "GEMM", "fusion(dot)": "GEMM", "custom-call(gemm)": "GEMM",
    "convolution": "CONV_fwd", "fusion(convolution)": "CONV_fwd", "custom-call(convolution forward)": "CONV_fwd",
    "custom-call(convolution backward)": "CONV_bwd",
    "custom-call(attention forward)": "SDPA_fwd", "custom-call(attention backward)": "SDPA_bwd",
    "fusion(reduce)": "Reduce_fwd", "reduce": "Reduce_fwd", "fusion(elementwise)": "elementwise_fwd",
}  # fmt: skip
"""Kind of instruction -> table by family in which its calls are shown; all others are in `XLA`."""

_MATRIX = frozenset(("GEMM", "CONV_fwd", "CONV_bwd", "SDPA_fwd", "SDPA_bwd"))
_ATTENTION = ("B", "N_Q", "H_Q", "N_KV", "H_KV", "d_h_qk", "d_h_v")
_CONTROL = frozenset(("while", "conditional", "call"))
"""What they cost is the work of instructions that are ops of their own: kernels count for these."""
_UNCOUNTED = ("custom-call(other)", "custom-call(triton)", "custom-call(norm forward)", "custom-call(norm backward)")


def instruction(args: Arguments, context: CallContext) -> Cost:
    """Cost of an instruction: FLOPs with transcendental operations as one each, and least traffic."""
    facts = args.instruction
    if facts is None:
        raise CannotModel("the program of the instruction is not in the profile")
    kind = facts.kind
    if kind in _CONTROL:
        raise CannotModel(f"the work of {kind} is that of the instructions in it")
    if kind in _UNCOUNTED:
        raise CannotModel(f"what {facts.target or 'the custom call'} computes is not known")
    if not facts.bytes:
        raise CannotModel(f"{kind} moves nothing by itself")
    sheet = _SHEETS.get(kind, "XLA")
    flops = max(facts.flops, 0)
    if sheet in _MATRIX and not flops:
        raise CannotModel(f"what {facts.target or kind} computes is not known")
    return Cost(
        flops + max(facts.transcendentals, 0),
        max(facts.bytes, 0),
        "matrix" if sheet in _MATRIX else "vector",
        known(facts.type or facts.result.lstrip("(").partition("[")[0]).precision,
        _params(facts),
        sheet=sheet,
    )


def _params(facts: Facts) -> dict[str, Any]:
    """The sizes, by the names that models of PyTorch's ops have."""
    if facts.product is not None:
        batch, m, n, k = facts.product
        return {"M": m, "N": n, "K": k, "bias": False, "dtype_A_B": (facts.type,) * 2, "B": batch}
    if facts.attention is not None:
        return dict(zip(_ATTENTION, facts.attention, strict=True)) | {"causal": facts.causal}
    return dict(zip(("input_shape", "filter_shape"), facts.convolution or (), strict=False))
