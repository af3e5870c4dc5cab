"""Tensors as a trace sees them, and how the profiler writes operator arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

ITEM_BYTES = {"c10::BFloat16": 2, "float": 4, "long int": 8, "unsigned char": 1}
COMM_DTYPE = {"c10::BFloat16": "BFloat16", "float": "Float", "long int": "Long", "unsigned char": "Byte"}
SCALAR_TYPE = {"long int": 4, "float": 6, "c10::BFloat16": 15}
"""PyTorch's number of each type, as it appears among concrete inputs."""


LONGEST_LIST = 30
"""The profiler writes no shapes for longer lists of tensors."""


@dataclass(eq=False, slots=True)
class Storage:
    """A block of memory; `address` stays 0 for host memory."""

    bytes: int
    address: int = 0
    live: bool = False
    """Allocated on the device and not yet released."""


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """Shape, strides and type over a storage."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    storage: Storage
    offset: int = 0
    device: str = "cuda:0"

    @property
    def numel(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size of all elements."""
        return self.numel * ITEM_BYTES[self.dtype]

    def view(self, shape: Sequence[int]) -> Tensor:
        """The same elements in another contiguous shape; one dimension may be -1."""
        known = math.prod(n for n in shape if n != -1)
        full = tuple(self.numel // known if n == -1 else n for n in shape)
        if full[:-2] == self.shape[:-1]:  # the last dimension splits, whatever the strides of the others
            return replace(
                self, shape=full, strides=(*self.strides[:-1], full[-1] * self.strides[-1], self.strides[-1])
            )
        return replace(self, shape=full, strides=contiguous(full))

    def transpose(self, a: int, b: int) -> Tensor:
        """Two dimensions swapped, without a copy."""
        shape, strides = list(self.shape), list(self.strides)
        shape[a], shape[b] = shape[b], shape[a]
        strides[a], strides[b] = strides[b], strides[a]
        return replace(self, shape=tuple(shape), strides=tuple(strides))

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """A slice along one dimension, without a copy."""
        shape = (*self.shape[:dim], length, *self.shape[dim + 1 :])
        return replace(self, shape=shape, offset=self.offset + start * self.strides[dim])


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous tensor of that shape."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def host_tensor(shape: Sequence[int], dtype: str) -> Tensor:
    """A contiguous tensor in host memory."""
    shape = tuple(shape)
    return Tensor(shape, contiguous(shape), dtype, Storage(math.prod(shape) * ITEM_BYTES[dtype]), device="cpu")


def _number(value: float) -> str:
    """A float as the profiler prints it: a whole one ends in a point."""
    text = f"{value:.17g}"
    return text if "e" in text or "." in text else text + "."


def argument_columns(inputs: Sequence[Any]) -> dict[str, list[Any]]:
    """`Input Dims`, `Input type`, `Input Strides` and `Concrete Inputs` of one operator."""
    columns: tuple[list[Any], ...] = ([], [], [], [])
    for value in inputs:
        row: tuple[Any, str, Any, str]
        if isinstance(value, Tensor):
            row = (list(value.shape), value.dtype, list(value.strides), "")
        elif value is None or isinstance(value, (str, tuple)):
            row = ([], "", [], "")
        elif isinstance(value, list) and value and isinstance(value[0], Tensor):
            short = value if len(value) <= LONGEST_LIST else ()
            row = ([list(t.shape) for t in short], "TensorList", [list(t.strides) for t in short], "")
        elif isinstance(value, list):
            row = ([], "ScalarList", [], str(list(value)))
        else:
            row = ([], "Scalar", [], _number(value) if isinstance(value, float) else str(value))
        for column, cell in zip(columns, row, strict=True):
            column.append(cell)
    dims, types, strides, concrete = columns
    return {"Concrete Inputs": concrete, "Input type": types, "Input Strides": strides, "Input Dims": dims}
