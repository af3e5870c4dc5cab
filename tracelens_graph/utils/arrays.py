"""What arrays hold: names for the four kinds that most functions take and return; numbers for things."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.signedinteger[Any]]
"""Positions of nodes in the columns of a graph; -1 for none where a function says so."""

Ns: TypeAlias = NDArray[np.int64]
"""Moments and durations in nanoseconds."""

Codes: TypeAlias = NDArray[np.integer[Any]]
"""Positions in a table of distinct values: interned texts, kinds, groups."""

Mask: TypeAlias = NDArray[np.bool_]
"""One truth value per entry of something else."""


def narrow(numbers: np.ndarray, least: int = 4) -> np.ndarray:
    """The same in as few bytes as hold them all, each in `least` or more: sums of short numbers may need more."""
    bits = 1 + max(int(numbers.max(initial=0)), -int(numbers.min(initial=0))).bit_length()
    size = next(size for size in (1, 2, 4, 8, 16) if size >= least and bits <= 8 * size)
    return numbers.astype(f"i{size}", copy=False) if size < 8 else numbers


class Numbering(dict[Any, int]):
    """Numbers things in the order in which they are first seen."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number

    def take_over(self, other: Numbering) -> Rows:
        """Number what another one holds; for each of its numbers the number here."""
        return np.fromiter(map(self.__getitem__, other), np.int64, len(other))
