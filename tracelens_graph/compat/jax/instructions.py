"""What TraceLens shows of an HLO instruction beside its kernels, from the argument set of its op."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from tracelens_graph.hlo.facts import Facts
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel

NOT_KNOWN = "NA"
"""What TraceLens writes for what it does not know of an instruction."""

_MOST_BYTES = 1 << 62

_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")


@dataclass(frozen=True)
class Instruction:
    """An instruction as its kernels are told of it.

    Attributes:
        name: such as `cudnn-conv.1`; "" for kernels of none.
        argset: its argument set; empty texts for kernels of none.
        facts: what else is known of it; None for kernels of none.
        op_name: where it comes from in the Python program; "" if that is not known.
    """

    name: str = ""
    argset: tuple[str, str, str, str] = ("", "", "", "")
    facts: Facts | None = None
    op_name: str = ""

    @cached_property
    def arguments(self) -> Arguments:
        """Its argument set, as models read it."""
        return Arguments(*self.argset, self.facts)

    @property
    def does(self) -> str:
        """The name by which the table of ops knows it."""
        return self.facts.table_name if self.facts else ""

    @property
    def target(self) -> str:
        """What a custom call calls; "" for anything else."""
        return self.facts.target if self.facts else ""

    @cached_property
    def _operands(self) -> list[tuple[str, list[int], list[int]]]:
        """Type, sizes and strides of its operands."""
        dims, types, strides, _ = self.arguments.parts
        both = zip(types, dims, strides, strict=False)
        return [
            (str(one), sizes, steps)
            for one, sizes, steps in both
            if one and isinstance(sizes, list) and isinstance(steps, list) and len(sizes) == len(steps)
        ]

    @property
    def types(self) -> list[str]:
        """Types of the operands."""
        return [one for one, _, _ in self._operands]

    @property
    def dims(self) -> list[list[int]]:
        """Sizes of the operands."""
        return [sizes for _, sizes, _ in self._operands]

    @property
    def strides(self) -> list[list[int]]:
        """Strides of the operands, in elements."""
        return [steps for _, _, steps in self._operands]

    @cached_property
    def operands(self) -> list[str]:
        """The operands as HLO writes them: `bf16[32,128]{1,0}`."""
        return [written(*one) for one in self._operands]

    @property
    def result(self) -> str:
        """Its result as HLO writes it; of a tuple all parts."""
        return self.facts.result if self.facts else ""

    @cached_property
    def results(self) -> list[tuple[str, list[int]]]:
        """Type and sizes of the parts of its result."""
        return arrays(self.result)

    @cached_property
    def input_bytes(self) -> int | None:
        """Bytes of all operands; None where the size of a type is not known, or the program is damaged."""
        try:
            tensors = [self.arguments.optional(at) for at in range(len(self.arguments))]
            found = sum(-(-prod(one.shape) * one.type.bits // 8) for one in tensors if one is not None)
        except CannotModel:
            return None
        return found if found < _MOST_BYTES else None

    def details(self) -> dict[str, Any]:
        """What stands in the details of its kernels, as TraceLens spells it."""
        return {
            "custom_call_target": f'custom_call_target="{self.target}"' if self.target else NOT_KNOWN,
            "operands": self.operands if self.facts else NOT_KNOWN,
            "outputs": self.result or NOT_KNOWN,
            "metadata": self.op_name or NOT_KNOWN,
        }


def written(type_: str, dims: Sequence[int], strides: Sequence[int]) -> str:
    """An array as HLO writes it. Where dimensions of one element leave their order open, it is row by row."""
    order = sorted(range(len(dims)), key=lambda at: (strides[at], dims[at] != 1, -at))
    layout = f"{{{','.join(map(str, order))}}}" if order else ""
    return f"{type_}[{','.join(map(str, dims))}]{layout}"


def arrays(text: str) -> list[tuple[str, list[int]]]:
    """Type and sizes of the arrays in a text of HLO."""
    return [(one, [int(size) for size in sizes.split(",") if size]) for one, sizes in _ARRAY.findall(text)]


def key_of(one: Instruction) -> str:
    """A text that is equal for instructions with the same operands."""
    return json.dumps([one.types, one.dims, one.strides])
