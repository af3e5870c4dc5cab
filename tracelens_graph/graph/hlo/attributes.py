"""What is told of an instruction beside its operands: texts that stand among its arguments.

The first of them is the name by which the table of ops knows it (`op_table.hlo`): `hlo::dot`, `hlo::fusion(reduce)`,
`hlo::custom-call(__cublas$gemm)`. Then come its result and, by XLA's rules, what it should cost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from tracelens_graph.graph.hlo.program import Instruction, Program

PREFIX = "hlo::"
"""How names of instructions in the table of ops begin."""

_LONGEST = 400
"""Characters of an attribute; shapes of a tuple can be many."""


def attributes(program: Program, one: Instruction) -> list[str]:
    """The attributes of an instruction, the name of its kind first."""
    told = [table_name(program, one), f"result={one.shape}"[:_LONGEST]]
    return told


def table_name(program: Program, one: Instruction) -> str:
    """The name by which the table of ops knows an instruction."""
    return f"{PREFIX}{one.opcode}"


def told_in(concrete: str) -> list[str]:
    """The attributes in the values of an argument set; empty for one of no instruction."""
    if f'"{PREFIX}' not in concrete:
        return []
    try:
        values = json.loads(concrete)
    except (ValueError, RecursionError):
        return []
    if not isinstance(values, list):
        return []
    texts = [value for value in values if isinstance(value, str) and value]
    return texts if texts and texts[0].startswith(PREFIX) else []
