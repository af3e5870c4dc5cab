"""Argument sets of HLO instructions, in the form that PyTorch's profiler gives those of its ops."""

from __future__ import annotations

import json
from itertools import islice

from tracelens_graph.hlo.attributes import attributes
from tracelens_graph.hlo.program import Instruction, Program

ArgumentSet = tuple[str, str, str, str]

_MOST_ARRAYS = 1 << 12
"""Arrays that are listed of an instruction: many instructions may take one tuple of many."""


def argument_set(program: Program, one: Instruction) -> ArgumentSet:
    """Dims, types, strides and values of an instruction: its operands, then what else is known of it as texts.

    An operand that is a tuple is listed by its parts; of many thousands, how many are not listed is told.

    Raises:
        OverflowError: sizes are beyond all measure.
    """
    operands = program.operands(one)
    shapes = list(islice((shape for operand in operands for shape in operand.shape.arrays()), _MOST_ARRAYS))
    told = attributes(program, one)
    if (more := sum(operand.shape.count for operand in operands) - len(shapes)) > 0:
        told.append(f"unlisted={more}")
    none: list[list[int]] = [[] for _ in told]
    return (
        _text([*(list(shape.dims) for shape in shapes), *none]),
        _text([*(shape.name for shape in shapes), *("" for _ in told)]),
        _text([*(list(shape.strides) for shape in shapes), *none]),
        _text([*("" for _ in shapes), *told]),
    )


def _text(value: list[object]) -> str:
    return json.dumps(value, separators=(",", ":"))
