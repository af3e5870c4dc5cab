"""A program of XLA: computations of instructions, each with the shape of its result."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

from tracelens_graph.hlo.shapes import Shape, ShortGroups


class WindowDimension(NamedTuple):
    """One dimension of the window that a convolution or a reduction moves over its input.

    Attributes:
        size, stride: of the window, in elements.
        low, high: padding before and behind the input, which may be negative.
        dilation: distance between neighbours in the window.
        base_dilation: distance between neighbours of the input.
    """

    size: int = 1
    stride: int = 1
    low: int = 0
    high: int = 0
    dilation: int = 1
    base_dilation: int = 1


class ConvolutionDims(NamedTuple):
    """Which dimension of its operands and its result a convolution uses for what."""

    kernel_in: int = 0
    kernel_out: int = 0
    kernel_space: tuple[int, ...] = ()
    input_batch: int = 0
    input_feature: int = 0
    input_space: tuple[int, ...] = ()
    output_batch: int = 0
    output_feature: int = 0
    output_space: tuple[int, ...] = ()


class DotDims(NamedTuple):
    """Dimensions of the operands of a product that are summed over, and those that number products."""

    lhs_contracting: tuple[int, ...] = ()
    rhs_contracting: tuple[int, ...] = ()
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()


@dataclass(frozen=True)
class Instruction:
    """An instruction.

    Attributes:
        id: its number, which is unique in the program.
        name: its name, which is unique in the program, such as `fusion.12`.
        opcode: such as `dot` or `fusion`.
        shape: of its result.
        op_name: where it comes from in the Python program: `jit(f)/mlp/dot_general`; "" if that is not known.
        file, line: place in the Python program; "" and 0 if it is not known.
        operands: ids of the instructions whose results it takes.
        called: ids of computations: the body of a fusion or loop, what a reduction does.
        parameter: of a parameter, its position.
        dimensions: of a reduction, a transposition, a broadcast and the like, the dimensions that it names.
        fusion_kind: of a fusion, such as `kLoop`.
        target: of a custom call, what is called.
        backend_config: what the compiler noted for its code generator, often JSON.
        window, convolution, dot: of convolutions, windowed reductions and products.
        groups: in how many groups of channels a convolution falls.
        batch_groups: in how many groups of its batch.
        channel: of a collective, its channel; 0 for none.
        replica_groups: of a collective, who takes part together; empty for all, and where these are written in short.
        short_groups: as these, written in short; see `graph.hlo.groups`.
        pairs: of a permutation, who sends to whom.
        after: ids of instructions that have to be over before it runs, besides its operands.
        written: its attributes as they are written, as far as they separate programs; see `graph.hlo.fingerprint`.
    """

    id: int
    name: str
    opcode: str
    shape: Shape
    op_name: str = ""
    file: str = ""
    line: int = 0
    operands: tuple[int, ...] = ()
    called: tuple[int, ...] = ()
    parameter: int = 0
    dimensions: tuple[int, ...] = ()
    fusion_kind: str = ""
    target: str = ""
    backend_config: str = ""
    window: tuple[WindowDimension, ...] = ()
    convolution: ConvolutionDims | None = None
    dot: DotDims | None = None
    groups: int = 1
    batch_groups: int = 1
    channel: int = 0
    replica_groups: tuple[tuple[int, ...], ...] = ()
    short_groups: ShortGroups | None = None
    pairs: tuple[tuple[int, int], ...] = ()
    after: tuple[int, ...] = ()
    written: bytes = field(default=b"", repr=False, compare=False)


@dataclass(frozen=True)
class Computation:
    """Instructions in an order in which they can run.

    Attributes:
        id: its number.
        name: its name.
        instructions: its instructions, operands before users.
        root: id of the instruction whose result is the computation's.
        written: as of an instruction.
    """

    id: int
    name: str
    instructions: tuple[Instruction, ...]
    root: int
    written: bytes = field(default=b"", repr=False, compare=False)

    @property
    def result(self) -> Instruction | None:
        """The instruction whose result is the computation's; None in a damaged program."""
        found = (one for one in reversed(self.instructions) if one.id == self.root)
        return next(found, self.instructions[-1] if self.instructions else None)


_DEEPEST = 64
"""Fusions within fusions that are looked into; real programs have two or three."""

_IN_PLACE = ("call", "async-start")
"""Opcodes of instructions that run what they call once."""


@dataclass
class Program:
    """A program.

    Attributes:
        id: number by which events name it.
        name: such as `jit_step`.
        computations: by id.
        entry: id of the computation that the program is.
        devices: global device of each that takes part, in the order by which replica groups name them; empty where
            the program does not say, and they are the first devices.
        replicas, partitions: it runs on replicas x partitions devices.
        compiler_fingerprint: what the compiler noted as the program's fingerprint; "" for nothing.
        written: as of an instruction.
        known: what was found out about its parts, by whoever asked (`graph.hlo.work`).
    """

    id: int
    name: str = ""
    computations: dict[int, Computation] = field(default_factory=dict)
    entry: int = 0
    devices: tuple[int, ...] = ()
    replicas: int = 1
    partitions: int = 1
    compiler_fingerprint: str = ""
    written: bytes = field(default=b"", repr=False, compare=False)
    known: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def instructions(self) -> dict[int, Instruction]:
        """All instructions by id."""
        return {one.id: one for computation in self.computations.values() for one in computation.instructions}

    @cached_property
    def by_name(self) -> dict[str, Instruction]:
        """All instructions by name."""
        return {one.name: one for one in self.instructions.values()}

    @cached_property
    def run_once(self) -> frozenset[int]:
        """Ids of the instructions that each execution runs once: all but those in bodies of loops and in branches."""
        calls = Counter(id for one in self.instructions.values() for id in one.called)
        found: set[int] = set()
        waiting = [self.entry]
        while waiting:
            inside = self.computations.get(waiting.pop())
            for one in inside.instructions if inside else ():
                found.add(one.id)
                waiting += [id for id in one.called if one.opcode in _IN_PLACE and calls[id] == 1 and id != self.entry]
        return frozenset(found)

    @property
    def parameters(self) -> list[Instruction]:
        """The parameters of the program, in their order."""
        entry = self.computations.get(self.entry)
        found = [one for one in entry.instructions if one.opcode == "parameter"] if entry else []
        return sorted(found, key=lambda one: one.parameter)

    @property
    def result(self) -> Instruction | None:
        """The instruction whose result is the program's; None in a damaged program."""
        entry = self.computations.get(self.entry)
        return entry.result if entry else None

    def operands(self, one: Instruction) -> list[Instruction]:
        """The instructions whose results an instruction takes; those that a damaged program lacks are left out."""
        return [self.instructions[id] for id in one.operands if id in self.instructions]

    def body(self, one: Instruction) -> Computation | None:
        """The first computation that an instruction calls; None for none."""
        return next((self.computations[id] for id in one.called if id in self.computations), None)

    def inside(self, one: Instruction) -> list[Instruction]:
        """The instructions in the body of a fusion, and in those of fusions in it, each computation once."""
        body = self.body(one) if one.opcode == "fusion" else None
        if body is None:
            return []
        key = "inside", body.id
        if key not in self.known:
            self.known[key] = self._inside(body)
        return self.known[key]

    def _inside(self, body: Computation) -> list[Instruction]:
        found: list[Instruction] = []
        seen, level = {body.id}, [body]
        for _ in range(_DEEPEST):
            below: list[Computation] = []
            for each in level:
                found += each.instructions
                for fusion in each.instructions:
                    inner = self.body(fusion) if fusion.opcode == "fusion" else None
                    if inner is not None and inner.id not in seen:
                        seen.add(inner.id)
                        below.append(inner)
            level = below
        return found

    def opcodes_inside(self, one: Instruction) -> tuple[str, ...]:
        """The opcodes of these instructions, each once, in the order in which they occur first."""
        body = self.body(one) if one.opcode == "fusion" else None
        if body is None:
            return ()
        key = "opcodes", body.id
        if key not in self.known:
            self.known[key] = tuple(dict.fromkeys(inner.opcode for inner in self.inside(one)))
        return self.known[key]

    def origin(self, one: Instruction) -> str:
        """The `op_name` of an instruction; of a fusion without one, that of its result, else the first in its body."""
        seen: set[int] = set()
        while not one.op_name and (body := self.body(one)) is not None and body.id not in seen:
            if len(seen) == _DEEPEST:
                break
            seen.add(body.id)
            root = body.result
            named = root if root and root.op_name else next((o for o in body.instructions if o.op_name), root)
            if named is None:
                break
            one = named
        return one.op_name


_DIGEST_BYTES = 8

_NUMBER = re.compile(r"(?:\d+\.)+")
"""The number at the end of a name, read backwards: from any other place, a search takes the square of the length."""


def fingerprint(program: Program) -> str:
    """The fingerprint of a program: 16 hexadecimal digits; of a damaged one, of what could be read."""
    parts = [
        _without_number(program.name).encode("utf-8", "surrogatepass"),
        program.written,
        _packed(program.replicas, program.partitions, len(program.computations)),
    ]
    computations: dict[int, int] = {}
    for computation in program.computations.values():
        places: dict[int, int] = {}
        for one in computation.instructions:
            operands, after = _places(one.operands, places), _places(one.after, places)
            called = _places(one.called, computations)
            parts += one.written, _packed(len(operands), len(after), *operands, *after, *called)
            places[one.id] = len(places)
        parts += computation.written, _packed(len(places), places.get(computation.root, -1))
        computations[computation.id] = len(computations)
    lengths = _packed(*map(len, parts))  # so that no two rows of parts are one
    return blake2b(b"".join((*parts, lengths)), digest_size=_DIGEST_BYTES).hexdigest()


def _without_number(name: str) -> str:
    number = _NUMBER.match(name[::-1])
    return name[: len(name) - number.end()] if number else name


def _places(ids: Iterable[int], places: Mapping[int, int]) -> list[int]:
    return [places.get(id, -1) for id in ids]


def _packed(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)
