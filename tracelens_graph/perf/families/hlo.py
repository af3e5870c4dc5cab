"""Instructions of XLA: what `graph.hlo.work` says of them, read from the attributes among their arguments."""

from __future__ import annotations

import re
from typing import Any

from tracelens_graph.hlo.told import PREFIX
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
_SIZES = re.compile(r"\d{1,18}(?:x\d{1,18}){1,6}", re.ASCII)
_CONTROL = frozenset(("while", "conditional", "call"))
"""What they cost is the work of instructions that are ops of their own: kernels count for these."""
_UNCOUNTED = ("custom-call(other)", "custom-call(triton)", "custom-call(norm forward)", "custom-call(norm backward)")


def instruction(args: Arguments, context: CallContext) -> Cost:
    """Cost of an instruction: FLOPs with transcendental operations as one each, and least traffic.

    Raises:
        CannotModel: it is no instruction, it runs others, or it is a call of a library whose work is not known.
    """
    texts = _attributes(args)
    if not texts:
        raise CannotModel("the program of the instruction is not in the profile")
    kind = texts[0].removeprefix(PREFIX)
    told = dict(text.split("=", 1) for text in texts[1:] if "=" in text)
    if kind in _CONTROL:
        raise CannotModel(f"the work of {kind} is that of the instructions in it")
    if kind in _UNCOUNTED:
        raise CannotModel(f"what {told.get('target', 'the custom call')} computes is not known")
    if "bytes" not in told:
        raise CannotModel(f"{kind} moves nothing by itself")
    sheet = _SHEETS.get(kind, "XLA")
    flops = _number(told, "flops")
    if sheet in _MATRIX and not flops:
        raise CannotModel(f"what {told.get('target', kind)} computes is not known")
    return Cost(
        flops + _number(told, "transcendentals"),
        _number(told, "bytes"),
        "matrix" if sheet in _MATRIX else "vector",
        known(told.get("type") or _result_type(texts[1])).precision,
        _params(told),
        sheet=sheet,
    )


def _attributes(args: Arguments) -> list[str]:
    """The attributes among recorded arguments."""
    texts = [value for value in args.parts[3] if isinstance(value, str) and value]
    return texts if texts and texts[0].startswith(PREFIX) else []


def _number(told: dict[str, str], key: str) -> int:
    text = told.get(key, "0")
    return int(text) if text.isdecimal() and len(text) < 20 else 0


def _result_type(shape: str) -> str:
    return shape.lstrip("(").partition("[")[0]


def _params(told: dict[str, str]) -> dict[str, Any]:
    """The sizes, by the names that models of PyTorch's ops have."""
    sizes = told.get("product", "").split("x")
    if len(sizes) == 4 and all(size.isdecimal() for size in sizes):
        batch, m, n, k = map(int, sizes)
        return {"M": m, "N": n, "K": k, "bias": False, "dtype_A_B": (told.get("type", ""),) * 2, "B": batch}
    if len(sizes := told.get("attention", "").split("x")) == len(_ATTENTION) and all(
        size.isdecimal() for size in sizes
    ):
        return dict(zip(_ATTENTION, map(int, sizes), strict=True)) | {"causal": told.get("causal") == "1"}
    shapes = [tuple(map(int, one.split("x"))) for one in told.get("convolution", "").split() if _SIZES.fullmatch(one)]
    return dict(zip(("input_shape", "filter_shape"), shapes, strict=True)) if len(shapes) == 2 else {}
