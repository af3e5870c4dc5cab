"""Argument sets of ops: what their parts are called, what separates two, and what is known of instructions of XLA."""

from __future__ import annotations

from collections.abc import Mapping

from tracelens_graph.graph.core import Core
from tracelens_graph.hlo.facts import Facts, facts_of

ARGSET_PARTS: Mapping[str, str] = {
    "input_dims": "Input Dims",
    "input_types": "Input type",
    "input_strides": "Input Strides",
    "concrete_inputs": "Concrete Inputs",
}
"""The parts of an argument set: as columns of tables and properties of signatures -> in traces."""

ARGUMENTS = tuple(ARGSET_PARTS.values())

INSTRUCTION = "Instruction"
"""What ops of JAX have beside these: facts of their instruction, as an object."""


def argset_text(core: Core, code: int) -> str:
    """An argument set as one text, the same however its JSON was spaced; of an instruction with its facts."""
    texts = [*core.argsets[code], *core.instructions[code : code + 1]]
    return "\n".join("".join(text.split()) for text in texts)


def instructions_of(core: Core) -> Mapping[int, Facts]:
    """Code of an argument set -> what is known of the instruction that has it; read once per graph."""
    return core.once(_instructions)


def _instructions(core: Core) -> Mapping[int, Facts]:
    return {code: facts for code, text in enumerate(core.instructions) if (facts := facts_of(text)) is not None}
