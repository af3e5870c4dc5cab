"""A program of XLA in the making, and the settings of a simulated one."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from tracelens_graph.simulate.options import check


def varint(value: int) -> bytes:
    """A whole number of 64 bits; a negative one as its complement."""
    value &= 2**64 - 1
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def number(field: int, value: int) -> bytes:
    """A field of a whole number; zero is not written."""
    return varint(field << 3) + varint(value) if value else b""


def double(field: int, value: float) -> bytes:
    """A field of a floating-point number."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def block(field: int, content: bytes | str) -> bytes:
    """A field of a message, of bytes or of a text; written also if it is empty."""
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def packed(field: int, values: Iterable[int]) -> bytes:
    """A field of whole numbers; nothing for none."""
    content = b"".join(map(varint, values))
    return block(field, content) if content else b""


CommandBuffers = Literal["none", "instructions", "launch", "unnamed", "whole"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of one profile. Raises ValueError for a value that makes no sense."""

    devices: int = 1
    steps: int = 2
    layers: int = 2
    seed: int = 0

    batch: int = 8
    tokens: int = 512
    width: int = 1024
    heads: int = 16
    vocabulary: int = 16384

    command_buffers: CommandBuffers = "none"
    """Whether passes of layers run as command buffers (CUDA graphs), and what the kernels of these name: their own
    instructions, what the launch names, or nothing; or whether one event stands for all of them."""
    python_stacks: bool = True
    """Write frames of Python."""

    def __post_init__(self) -> None:
        check(self, ("devices", "steps", "layers", "batch", "tokens", "width", "heads", "vocabulary"))


TYPES = {"pred": (1, 1), "s32": (4, 4), "u8": (6, 1), "f32": (11, 4), "bf16": (16, 2)}
"""Name of an element type -> its number, and bytes of an element."""

_TUPLE = 13

Pass = Literal["forward", "backward"]


@dataclass(frozen=True)
class Shape:
    """An array: its element type and its dimensions."""

    type: str
    dims: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size of all elements."""
        return math.prod(self.dims) * TYPES[self.type][1]

    def __str__(self) -> str:
        order = ",".join(map(str, reversed(range(len(self.dims)))))
        return f"{self.type}[{','.join(map(str, self.dims))}]" + (f"{{{order}}}" if order else "")


@dataclass(frozen=True)
class Work:
    """A piece of GPU work: a kernel, or a fill of some bytes."""

    name: str
    duration: int
    filled: int = 0


@dataclass(eq=False)
class Instruction:
    """An instruction, and the GPU work that it runs.

    `shapes` are the parts of its result: more than one are a tuple. `more` are further fields of its message.
    """

    id: int
    name: str
    opcode: str
    shapes: tuple[Shape, ...]
    region: Region
    operands: tuple[Instruction, ...] = ()
    op_name: str = ""
    line: int = 0
    called: tuple[Region, ...] = ()
    more: bytes = b""
    scopes: tuple[str, ...] = ()
    part: Pass = "forward"
    works: tuple[Work, ...] = ()
    flops: int = 0
    is_collective: bool = False

    @property
    def shape(self) -> Shape:
        """The array that it gives; of a tuple the first one."""
        return self.shapes[0]


@dataclass(eq=False)
class Region:
    """A computation; `is_buffer` says that one launch runs all of it."""

    id: int
    name: str
    instructions: list[Instruction] = field(default_factory=list)
    is_buffer: bool = False
    taken: dict[Instruction, Instruction] = field(default_factory=dict)
    """Values of elsewhere -> what stands for them here."""


class Builder:
    """A program that is being written; instructions follow one another as they are added."""

    def __init__(self, name: str, file: str) -> None:
        self.name, self.file = name, file
        self.entry = Region(1, "main")
        self.regions: list[Region] = [self.entry]
        self._region = self.entry
        self._counts: Counter[str] = Counter()
        self._ids = 0

    def add(
        self, base: str, opcode: str, shapes: Sequence[Shape] | Shape, operands: Sequence[Instruction] = (),
        *, region: Region | None = None, **more: Any,
    ) -> Instruction:  # fmt: skip
        """Add an instruction named `base` and a number; `more` are further fields of `Instruction`."""
        region = region or self._region
        here = tuple(self._here(operand, region) for operand in operands)  # which may add parameters
        self._counts[base] += 1
        self._ids += 1
        shapes = (shapes,) if isinstance(shapes, Shape) else tuple(shapes)
        made = Instruction(self._ids, f"{base}.{self._counts[base]}", opcode, shapes, region, here)
        for key, value in more.items():
            setattr(made, key, value)
        region.instructions.append(made)
        return made

    def fused(self, opcode: str, shape: Shape, operands: Sequence[Instruction], more: bytes = b"") -> Region:
        """The body of a fusion: parameters, and one instruction over them."""
        body = self._new_region(f"fused_{opcode}")
        inside = [self._parameter(body, operand) for operand in operands]
        self.add(opcode, opcode, shape, inside, region=body, more=more)
        return body

    @contextmanager
    def command_buffer(self, wanted: bool, scopes: tuple[str, ...], part: Pass) -> Iterator[None]:
        """Put what is added into a command buffer, which the program calls; without `wanted` change nothing.

        `scopes` and `part` are those of all that is added.
        """
        if not wanted:
            yield
            return
        body = self._region = self._new_region("command_buffer")
        body.is_buffer = True
        yield
        self._region = self.entry
        results = [one for one in body.instructions if one.opcode != "parameter"]
        self.add("tuple", "tuple", [one.shape for one in results], results, region=body)
        shared: dict[str, Any] = {"called": (body,), "scopes": scopes, "part": part}
        call = self.add("call", "call", [one.shape for one in results], list(body.taken), **shared)
        for place, one in enumerate(results):
            self.entry.taken[one] = self.part(call, one.shape, place)

    def part(self, of: Instruction, shape: Shape, place: int) -> Instruction:
        """One of the arrays that an instruction gives as a tuple."""
        return self.add("get-tuple-element", "get-tuple-element", shape, [of], more=number(13, place))

    def _new_region(self, name: str) -> Region:
        self.regions.append(Region(len(self.regions) + 1, f"{name}.{len(self.regions)}"))
        return self.regions[-1]

    def _here(self, value: Instruction, region: Region) -> Instruction:
        if value.region is region:
            return value
        if region is self.entry:
            return region.taken[value]
        outer = value if value.region is self.entry else self.entry.taken[value]
        return region.taken.get(outer) or self._parameter(region, outer)

    def _parameter(self, region: Region, value: Instruction) -> Instruction:
        place = number(9, sum(one.opcode == "parameter" for one in region.instructions))
        made = self.add("param", "parameter", value.shapes, region=region, more=place)
        region.taken[value] = made
        return made

    def proto(self) -> bytes:
        """The `HloProto`."""
        computations = b"".join(block(3, _computation(region, self.file)) for region in self.regions)
        return block(1, block(1, self.name) + block(2, self.entry.name) + computations + number(6, self.entry.id))


def _computation(region: Region, file: str) -> bytes:
    inside = b"".join(block(2, _instruction(one, file)) for one in region.instructions)
    return block(1, region.name) + inside + number(5, region.id) + number(6, region.instructions[-1].id)


def _instruction(one: Instruction, file: str) -> bytes:
    origin = block(2, one.op_name) + block(3, file) + number(4, one.line) if one.op_name else b""
    return (
        block(1, one.name) + block(2, one.opcode) + block(3, _shape(one.shapes)) + block(7, origin) + one.more
        + number(35, one.id) + packed(36, [operand.id for operand in one.operands])
        + packed(38, [region.id for region in one.called])
    )  # fmt: skip


def _shape(shapes: Sequence[Shape]) -> bytes:
    if len(shapes) == 1:
        (one,) = shapes
        order = block(5, packed(1, reversed(range(len(one.dims)))))
        return number(2, TYPES[one.type][0]) + packed(3, one.dims) + order
    return number(2, _TUPLE) + b"".join(block(4, _shape([one])) for one in shapes)
