"""The recorded arguments of an operation, read safely: what a trace holds is data, never evaluated."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from tracelens_graph.hlo.facts import Facts
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.scalar_types import ElementType, element_type

_NO_TENSOR = {"", "Scalar", "ScalarList", "GenericList", "TensorList", "None", "OptionalTensorList"}

_NUMBERS = {"Int", "Double", "Bool", "ComplexDouble"}
"""What PyTorch before 1.13 recorded as type of a plain number: the tag of its `c10::IValue`."""


@dataclass(frozen=True)
class Tensor:
    """A tensor argument.

    Attributes:
        shape: sizes.
        dtype: type as the profiler names it.
        strides: strides in elements; None if they were not recorded.
    """

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None

    @property
    def elements(self) -> int:
        """Number of elements, those of an expanded dimension included."""
        return prod(self.shape)

    @property
    def stored(self) -> int:
        """Number of elements in memory: an expanded dimension (stride 0) counts once."""
        if self.strides is None or len(self.strides) != len(self.shape):
            return self.elements
        return prod(1 if stride == 0 and size else size for size, stride in zip(self.shape, self.strides, strict=True))

    @cached_property
    def type(self) -> ElementType:
        """What is known of the type of its elements.

        Raises:
            CannotModel: nothing is.
        """
        return element_type(self.dtype)

    @property
    def bytes(self) -> int:
        """Bytes in memory.

        Raises:
            CannotModel: the type of its elements is not known.
        """
        return -(-self.stored * self.type.bits // 8)


class Arguments:
    """The arguments of one call, by position.

    Args:
        dims, types, strides, concrete: the four parts of an argument set, as JSON text; "" if not recorded.
        instruction: of an instruction of XLA what else is known of it.
    """

    def __init__(
        self, dims: str, types: str, strides: str = "", concrete: str = "", instruction: Facts | None = None
    ) -> None:
        self.instruction = instruction
        self._parts = [recorded_list(text) for text in (dims, types, strides, concrete)]

    def __len__(self) -> int:
        return max(map(len, self._parts))

    @property
    def recorded(self) -> bool:
        """Whether shapes were recorded at all."""
        return bool(self._parts[0])

    @property
    def parts(self) -> tuple[list[Any], ...]:
        """Dims, types, strides and values as recorded, one entry per argument; empty lists where they were not."""
        return tuple(self._parts)

    def _at(self, part: int, index: int) -> Any:
        values = self._parts[part]
        return values[index] if -len(values) <= index < len(values) else None

    def type(self, index: int) -> str:
        """Type of an argument as recorded, "Scalar" for all plain numbers; "" if absent."""
        found = self._at(1, index)
        if isinstance(found, str) and found in _NUMBERS and self._at(0, index) == []:
            return "Scalar"
        return found if isinstance(found, str) else ""

    def optional(self, index: int) -> Tensor | None:
        """The tensor at a position; None if there is none.

        Raises:
            CannotModel: one of its sizes is negative.
        """
        dtype = self.type(index)
        shape = _sizes(self._at(0, index))
        if dtype in _NO_TENSOR or shape is None:
            return None
        if any(size < 0 for size in shape):
            raise CannotModel(f"argument {index} has a negative size")
        strides = _sizes(self._at(2, index))
        return Tensor(shape, dtype, strides if strides is not None and len(strides) == len(shape) else None)

    def tensor(self, index: int) -> Tensor:
        """The tensor at a position.

        Raises:
            CannotModel: there is none.
        """
        found = self.optional(index)
        if found is None:
            raise CannotModel("shapes are not recorded" if not self.recorded else f"argument {index} is not a tensor")
        return found

    def tensors_at(self, *indices: int) -> bool:
        """Whether there is a tensor at each of some positions."""
        return all(self.type(index) not in _NO_TENSOR and _sizes(self._at(0, index)) is not None for index in indices)

    def tensors(self, index: int, dtype: str = "") -> list[Tensor]:
        """The tensors of a list argument; the profiler does not record their types, so one may be given."""
        shapes, strides = self._at(0, index), self._at(2, index)
        if not isinstance(shapes, list):
            return []
        found = []
        for i, shape in enumerate(shapes):
            sizes = _sizes(shape)
            if sizes is not None and all(size >= 0 for size in sizes):
                stride = _sizes(strides[i]) if isinstance(strides, list) and i < len(strides) else None
                found.append(Tensor(sizes, dtype, stride if stride is not None and len(stride) == len(sizes) else None))
        return found

    def text(self, index: int) -> str:
        """Value of an argument that is not a tensor, as recorded, JSON of what is not text; "" if absent."""
        return recorded_text(self._at(3, index))

    def boolean(self, index: int) -> bool | None:
        """A truth value; None if absent or none."""
        return {"true": True, "1": True, "false": False, "0": False}.get(self.text(index).strip().lower())

    def number(self, index: int) -> float | None:
        """A number; None if absent or none."""
        try:
            return float(self.text(index))
        except ValueError:
            return None

    def integer(self, index: int) -> int | None:
        """A whole number; None if absent or none."""
        text = self.text(index).strip()
        return int(text) if text.lstrip("-").isdecimal() and len(text) < 20 else None

    def integers(self, index: int) -> tuple[int, ...] | None:
        """A list of whole numbers, `[2, 2]` or `(2, 2)`; None if absent or none."""
        try:
            return _sizes(json.loads(in_brackets(self.text(index))))
        except (ValueError, RecursionError):
            return None

    def booleans(self, index: int) -> tuple[bool, ...] | None:
        """A list of truth values (`[True, False]`, `(True, False)`); None if absent or none."""
        text = in_brackets(self.text(index))
        if not (text.startswith("[") and text.endswith("]")):
            return None
        words = [word.strip().lower() for word in text[1:-1].split(",") if word.strip()]
        known = {"true": True, "false": False, "1": True, "0": False}
        return tuple(known[word] for word in words) if all(word in known for word in words) else None


def recorded_text(value: Any) -> str:
    """A recorded value as text, JSON of what is none; "" for nothing."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def in_brackets(text: str) -> str:
    """A text with a tuple of Python's, `(2,)`, as a list."""
    text = text.strip()
    return f"[{text[1:-1].strip().removesuffix(',')}]" if text.startswith("(") and text.endswith(")") else text


def recorded_list(text: str) -> list[Any]:
    """The list that a JSON text holds; an empty one where it holds none."""
    try:
        found = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _sizes(value: Any) -> tuple[int, ...] | None:
    """A list of whole numbers as a tuple."""
    if isinstance(value, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        return tuple(value)
    return None
