"""The programs of a profile: read when an event names one, and separated by what they compute."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import msgspec

from tracelens_graph.graph.programs import CompiledProgram
from tracelens_graph.hlo.attributes import facts
from tracelens_graph.hlo.program import Instruction, Program, fingerprint
from tracelens_graph.hlo.shapes import LARGEST, Shape
from tracelens_graph.hlo.work import XLA, Work, entry_work
from tracelens_graph.loaders.xplane.hlo import read_program
from tracelens_graph.loaders.xplane.space import Span
from tracelens_graph.loaders.xplane.wire import Buffer
from tracelens_graph.utils.texts import cut_end

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


_LONGEST = 2000
"""Characters of what is known of parameters, and of results; a program can have thousands."""


class Programs:
    """Programs that events name, each read when the first of them is looked up.

    Args:
        data: the file.
        spans: number by which events name a program -> where it stands.
    """

    def __init__(self, data: Buffer, spans: Mapping[int, Span]) -> None:
        self._data, self._spans = data, spans
        self._read: dict[int, Program | None] = {}
        self._codes: dict[int, int] = {}
        self._described: dict[str, CompiledProgram] = {}
        self._numbers: dict[str, list[int]] = {}
        self._odd: dict[tuple[int, str], str] = {}

    def get(self, number: int) -> Program | None:
        """A program; None if the file does not hold it."""
        if number not in self._read:
            span = self._spans.get(number)
            self._read[number] = None if span is None else read_program(self._data, *span, number)
        return self._read[number]

    def find(self, number: int, name: str) -> tuple[Program, Instruction] | None:
        """An instruction with its program; None if the file does not hold it."""
        program = self.get(number)
        one = None if program is None else program.by_name.get(name)
        return None if program is None or one is None else (program, one)

    @contextmanager
    def damage_counted(self, number: int, name: str) -> Iterator[None]:
        """Let no instruction end the reading of a profile: one that is damaged is skipped and counted.

        Args:
            number, name: of the program and the instruction that the block asks for.
        """
        try:
            yield
        except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError):
            program = self.get(number)
            self._odd[number, name] = f"{name} of {program.name if program else ''}({number})"

    @property
    def odd(self) -> list[str]:
        """Names of the instructions that are damaged, each with its program, in the order in which they were met."""
        return list(self._odd.values())

    def code(self, program: Program, one: Instruction) -> int:
        """The code of an instruction's program, as in `CompiledPrograms`; the first one adds the program."""
        if program.id not in self._codes:
            key = fingerprint(program)
            if key not in self._described:
                self._described[key] = _described(program, key)
                self._codes[program.id] = len(self._described)
            else:
                self._codes[program.id] = self._codes[self._numbers[key][0]]
            self._numbers.setdefault(key, []).append(program.id)
        return 2 * self._codes[program.id] + (one.id in program.run_once)

    @property
    def compiled(self) -> tuple[CompiledProgram, ...]:
        """The programs whose code was asked for, in the order of their codes."""
        return tuple(replace(one, numbers=tuple(self._numbers[key])) for key, one in self._described.items())


def _described(program: Program, key: str) -> CompiledProgram:
    result = program.result
    shapes = f"{_listed(one.shape for one in program.parameters)} -> {_listed([result.shape] if result else ())}"
    costs = _costs(program)
    return CompiledProgram(
        program.name, key, len(program.instructions), program.replicas, program.partitions, shapes.strip(),
        program.compiler_fingerprint, (), *(costs or (None, None, None)),
    )  # fmt: skip


def _costs(program: Program) -> Work | None:
    """What an execution costs by XLA's rules; None where the program is damaged."""
    try:
        found = entry_work(program, XLA)
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError):
        return None
    return found if max(found) < LARGEST else None


def _listed(shapes: Iterable[Shape]) -> str:
    """Types and dims of arrays in their order, equal ones once with their number."""
    times = Counter(str(replace(one, order=())) for shape in shapes for one in shape.arrays())
    return cut_end(", ".join(f"{count} x {text}" if count > 1 else text for text, count in times.items()), _LONGEST)
