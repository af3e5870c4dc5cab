"""What a collective of XLA moves, and between whom, in the words in which PyTorch records its own.

Sizes follow from the operands of the instruction, because what starts a collective without waiting for it gives a tuple
of operands and results. Those who take part are named by their place in the program's device assignment.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tracelens_graph.hlo.program import Instruction, Program
from tracelens_graph.hlo.shapes import Groups, Shape

KINDS = {
    "all-reduce": "allreduce", "all-reduce-start": "allreduce", "all-gather": "all_gather",
    "all-gather-start": "all_gather", "reduce-scatter": "reduce_scatter", "all-to-all": "all_to_all",
    "ragged-all-to-all": "all_to_allv", "collective-permute": "send_recv", "collective-permute-start": "send_recv",
    "collective-broadcast": "broadcast", "send": "send", "recv": "recv",
}  # fmt: skip
"""Opcode -> kind. What ends a collective (`all-reduce-done`) runs nothing."""

_TYPES = {
    "pred": "bool", "s8": "int8", "u8": "uint8", "s16": "int16", "u16": "uint16", "s32": "int32", "u32": "uint32",
    "s64": "int64", "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "c64": "complex64", "c128": "complex128", "f8e5m2": "float8_e5m2", "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e8m0fnu": "float8_e8m0fnu",
}  # fmt: skip
"""Element type of XLA -> what PyTorch calls it. Others have no partner, and count in bytes."""

_SAME_OUT = frozenset(("allreduce", "all_to_all", "send_recv", "broadcast", "send", "recv"))
"""Kinds in which as much comes out of a rank as goes in."""


class Collective(NamedTuple):
    """A collective.

    Attributes:
        kind: PyTorch's name of it.
        dtype: PyTorch's name of the element type; `uint8` for several types, or one that it does not have.
        in_elements, out_elements: number of elements that each puts in and gets out; None where the program does not
            say: how much of its buffers a ragged exchange fills is known to nobody but the devices.
        groups: who takes part together; empty for all.
    """

    kind: str
    dtype: str | None
    in_elements: int | None
    out_elements: int | None
    groups: Groups


def collective_of(program: Program, one: Instruction, ranks: int) -> Collective | None:
    """The collective that an instruction is, starts, or has in its body; None for any other instruction.

    Args:
        ranks: how many take part where no groups are given; 0 for nobody knows.
    """
    found = next((inner for inner in _candidates(program, one) if inner.opcode in KINDS), None)
    if found is None:
        return None
    kind = KINDS[found.opcode]
    groups = _connected(found.pairs) if found.pairs else tuple(group for group in found.replica_groups if group)
    if found.short_groups and not groups:
        key = "groups", found.short_groups
        groups = program.known[key] = program.known.get(key) or found.short_groups.groups()
    size = len(groups[0]) if groups else ranks
    shapes = [shape for operand in program.operands(found) for shape in operand.shape.arrays()]
    if kind == "recv":
        shapes = [shape for shape in found.shape.arrays() if shape.dims][:1]
    if not shapes or kind == "all_to_allv":
        return Collective(kind, None, None, None, groups)
    dtype, taken = _counted(shapes)
    return Collective(kind, dtype, taken, _given(kind, taken, size), groups)


def _given(kind: str, taken: int, size: int) -> int | None:
    """Elements that each gets out; None where that depends on how many take part, and their number is not known."""
    if kind in _SAME_OUT:
        return taken
    if size < 1:
        return None
    return taken * size if kind == "all_gather" else taken // size


def _candidates(program: Program, one: Instruction) -> Iterable[Instruction]:
    """The instruction, and those in what it calls where that is a fusion, or runs on its own."""
    yield one
    if one.opcode == "async-start":
        body = program.body(one)
        yield from body.instructions if body else ()
    yield from program.inside(one)


def _counted(shapes: list[Shape]) -> tuple[str, int]:
    """Element type and number of elements of some arrays; of several types, bytes."""
    names = {_TYPES.get(shape.name) for shape in shapes}
    name = names.pop() if len(names) == 1 else None
    if name is None:
        return "uint8", sum(shape.bytes for shape in shapes)
    return name, sum(shape.elements for shape in shapes)


def _connected(pairs: Iterable[tuple[int, int]]) -> Groups:
    """Who is joined by transfers, directly or through others."""
    above: dict[int, int] = {}

    def top(one: int) -> int:
        above.setdefault(one, one)
        while above[one] != one:
            above[one] = one = above[above[one]]
        return one

    for source, target in pairs:
        above[top(source)] = top(target)
    groups: dict[int, list[int]] = {}
    for one in sorted(above):
        groups.setdefault(top(one), []).append(one)
    return tuple(sorted(map(tuple, groups.values())))
