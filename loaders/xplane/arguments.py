"""Argument sets of HLO instructions, in the form that PyTorch's profiler gives those of its ops, and their facts."""

from __future__ import annotations

import json
from itertools import islice
from typing import NamedTuple

import msgspec

from tracelens_graph.hlo.attributes import facts
from tracelens_graph.hlo.program import Instruction, Program

_MOST_ARRAYS = 1 << 12
"""Arrays that are listed of an instruction: many instructions may take one tuple of many."""


class InstructionArguments(NamedTuple):
    """What is recorded of an instruction, as JSON.

    Attributes:
        argset: dims, types, strides and values of its operands.
        facts: what else is known of it (`hlo.facts.Facts`).
    """

    argset: tuple[str, str, str, str]
    facts: str


def instruction_arguments(program: Program, one: Instruction) -> InstructionArguments:
    """The operands of an instruction, of a tuple its parts, and what else is known of it.

    Raises:
        OverflowError: sizes are beyond all measure.
    """
    operands = program.operands(one)
    shapes = list(islice((shape for operand in operands for shape in operand.shape.arrays()), _MOST_ARRAYS))
    unlisted = sum(operand.shape.count for operand in operands) - len(shapes)
    argset = (
        _text([list(shape.dims) for shape in shapes]),
        _text([shape.name for shape in shapes]),
        _text([list(shape.strides) for shape in shapes]),
        _text([""] * len(shapes)),
    )
    return InstructionArguments(argset, msgspec.json.encode(facts(program, one, max(unlisted, 0))).decode())


def _text(value: list[object]) -> str:
    return json.dumps(value, separators=(",", ":"))
