"""Argument sets of HLO instructions, in the form that PyTorch's profiler gives those of its ops."""

from __future__ import annotations

import json

from tracelens_graph.graph.hlo.attributes import attributes
from tracelens_graph.graph.hlo.program import Instruction, Program

ArgumentSet = tuple[str, str, str, str]


def argument_set(program: Program, one: Instruction) -> ArgumentSet:
    """Dims, types, strides and values of an instruction: its operands, then what else is known of it as texts.

    An operand that is a tuple is listed by its parts.
    """
    shapes = [shape for operand in program.operands(one) for shape in operand.shape.arrays()]
    told = attributes(program, one)
    none: list[list[int]] = [[] for _ in told]
    return (
        _text([*(list(shape.dims) for shape in shapes), *none]),
        _text([*(shape.name for shape in shapes), *("" for _ in told)]),
        _text([*(list(shape.strides) for shape in shapes), *none]),
        _text([*("" for _ in shapes), *told]),
    )


def _text(value: list[object]) -> str:
    return json.dumps(value, separators=(",", ":"))
