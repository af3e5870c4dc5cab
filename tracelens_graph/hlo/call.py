"""How an instruction is called beside its operands: what `jax.lax` asks for, as compact JSON among its attributes."""

from __future__ import annotations

import json
import re
from typing import Any

from tracelens_graph.hlo.products import dims_of
from tracelens_graph.hlo.program import Instruction, Program

KEY = "call="
"""What the attribute begins with."""

_DIMENSIONS = frozenset({"broadcast", "transpose", "concatenate", "reverse"})
_FORWARD = re.compile(r"__(?:cudnn|miopen)\$convForward")


def call_text(program: Program, one: Instruction) -> str:
    """The attribute; empty for instructions that need nothing but operands, and for those that are not replayed."""
    found = _call(program, one)
    return KEY + json.dumps(found, separators=(",", ":")) if found else ""


def _call(program: Program, one: Instruction) -> dict[str, Any]:
    if (dims := dims_of(one)) is not None:
        return {"dims": [list(numbers) for numbers in dims]}
    if one.opcode == "reduce":
        body = program.body(one)
        root = body.result if body else None
        return {"dims": list(one.dimensions), "by": root.opcode} if root and len(one.operands) == 2 else {}
    if one.opcode in _DIMENSIONS:
        return {"dims": list(one.dimensions)}
    if one.opcode == "convolution" or _FORWARD.match(one.target):
        return _convolution(one)
    return {}


def _convolution(one: Instruction) -> dict[str, Any]:
    dims = one.convolution
    if dims is None:
        return {}
    return {
        "dims": [
            [dims.input_batch, dims.input_feature, *dims.input_space],
            [dims.kernel_out, dims.kernel_in, *dims.kernel_space],
            [dims.output_batch, dims.output_feature, *dims.output_space],
        ],
        "stride": [each.stride for each in one.window],
        "pad": [[each.low, each.high] for each in one.window],
        "dilate": [[each.base_dilation for each in one.window], [each.dilation for each in one.window]],
        "groups": [one.groups, one.batch_groups],
    }  # fmt: skip
