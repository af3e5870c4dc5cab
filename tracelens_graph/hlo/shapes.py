"""Shapes of XLA as HLO texts write them (`bf16[32,128]{1,0}`), and groups of devices that are written like them.

XLA writes groups of many devices as rows of the numbers from 0 on, in a shape whose dimensions change places. A few
bytes stand for any number of devices then, so groups are made when they are asked for, and no more of them than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

TYPES = {
    1: ("pred", 8), 2: ("s8", 8), 3: ("s16", 16), 4: ("s32", 32), 5: ("s64", 64), 6: ("u8", 8), 7: ("u16", 16),
    8: ("u32", 32), 9: ("u64", 64), 10: ("f16", 16), 11: ("f32", 32), 12: ("f64", 64), 15: ("c64", 64),
    16: ("bf16", 16), 18: ("c128", 128), 19: ("f8e5m2", 8), 20: ("f8e4m3fn", 8), 21: ("s4", 4), 22: ("u4", 4),
    23: ("f8e4m3b11fnuz", 8), 24: ("f8e5m2fnuz", 8), 25: ("f8e4m3fnuz", 8), 26: ("s2", 2), 27: ("u2", 2),
    28: ("f8e4m3", 8), 29: ("f8e3m4", 8), 30: ("s1", 1), 31: ("u1", 1), 32: ("f4e2m1fn", 4), 33: ("f8e8m0fnu", 8),
}  # fmt: skip
"""Number in XLA's `PrimitiveType` -> name, and bits of an element."""

TUPLE, OPAQUE, TOKEN = 13, 14, 17

_FARTHEST = 1 << 62
"""Largest stride; sizes in a damaged program can be anything."""

_POINTER = 8
"""Bytes that a part of a tuple takes in the tuple itself."""

LARGEST = (1 << 63) - 1
"""What stands for this number and all beyond it, which only damaged programs have."""


def product(sizes: Iterable[int]) -> int:
    """The product of sizes, `LARGEST` at most.

    >>> product([3, 5]), product([1 << 62] * 1000) == LARGEST, product([1 << 62] * 1000 + [0])
    (15, True, 0)
    """
    found, listed = 1, list(sizes)
    if 0 in listed:
        return 0
    for size in listed:
        found *= size
        if found > LARGEST:
            return LARGEST
    return found


@dataclass(frozen=True)
class Shape:
    """The shape of a value.

    Attributes:
        type: its number in XLA's `PrimitiveType`.
        dims: sizes; of an array.
        order: dimensions from the one whose elements are neighbours in memory outwards; empty if no layout is given.
        parts: of a tuple, the shapes in it.
    """

    type: int = 0
    dims: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    parts: tuple[Shape, ...] = ()

    @property
    def is_array(self) -> bool:
        """Whether it is an array of a type that is known."""
        return self.type in TYPES

    @property
    def name(self) -> str:
        """Name of the element type."""
        if self.is_array:
            return TYPES[self.type][0]
        return {TUPLE: "tuple", OPAQUE: "opaque", TOKEN: "token"}.get(self.type, f"type {self.type}")

    @cached_property
    def elements(self) -> int:
        """Number of elements of an array; of a tuple, of its parts."""
        found = product(self.dims) if self.is_array else sum(part.elements for part in self.parts)
        return min(found, LARGEST)

    @property
    def bytes(self) -> int:
        """Bytes in memory; of a tuple, of the pointers to its parts."""
        if self.type == TUPLE:
            return _POINTER * len(self.parts)
        return min(-(-self.elements * TYPES[self.type][1] // 8), LARGEST) if self.is_array else 0

    @cached_property
    def all_bytes(self) -> int:
        """Bytes in memory; of a tuple, those of the arrays in it."""
        return min(sum(one.bytes for one in self.arrays()), LARGEST)

    @cached_property
    def count(self) -> int:
        """Number of arrays in it."""
        return sum(1 for _ in self.arrays())

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance of neighbours in each dimension, in elements; row by row if no layout is given."""
        order = self.order if sorted(self.order) == list(range(len(self.dims))) else range(len(self.dims))[::-1]
        found, distance = [0] * len(self.dims), 1
        for dimension in order:
            found[dimension] = distance
            distance = min(distance * self.dims[dimension], _FARTHEST)
        return tuple(found)

    def arrays(self) -> Iterator[Shape]:
        """The array, or those in a tuple of tuples, in order."""
        if self.is_array:
            yield self
        for part in self.parts:
            yield from part.arrays()

    def __str__(self) -> str:
        if self.type == TUPLE:
            return f"({', '.join(map(str, self.parts))})"
        layout = f"{{{','.join(map(str, self.order))}}}" if self.order else ""
        return f"{self.name}[{','.join(map(str, self.dims))}]{layout}" if self.is_array else f"{self.name}[]"


Groups = tuple[tuple[int, ...], ...]

_MOST_DEVICES = 1 << 17
"""Devices of a job that are listed; what names more is damaged."""


class ShortGroups(NamedTuple):
    """Groups that are written in short.

    Attributes:
        rows, width: number of groups, and of the members of each.
        shape: sizes of the dimensions that the numbers from 0 on are put into, row by row.
        order: these dimensions in the order in which they are read, row by row; empty for their own.
    """

    rows: int
    width: int
    shape: tuple[int, ...]
    order: tuple[int, ...] = ()

    def groups(self, most: int = _MOST_DEVICES) -> Groups:
        """The groups, so many at most, with as many members at most; none of what is damaged."""
        order = self.order or tuple(range(len(self.shape)))
        if min(self.rows, self.width, *self.shape) <= 0 or self.rows * self.width > _MOST_DEVICES:
            return ()
        if product(self.shape) != self.rows * self.width or sorted(order) != list(range(len(self.shape))):
            return ()
        # Dimensions of one move nothing, and numpy has no room for many.
        kept = [at for at, size in enumerate(self.shape) if size > 1]
        place = {at: i for i, at in enumerate(kept)}
        numbers = np.arange(self.rows * self.width).reshape([self.shape[at] for at in kept])
        moved = numbers.transpose([place[at] for at in order if at in place]).reshape(self.rows, self.width)
        return tuple(map(tuple, moved[:most, :most].tolist()))
