"""Columns of whole numbers as few bytes: byte planes, one behind the other, compressed together.

A column's lowest bytes come first, then all second bytes, and so on, as many as its greatest value needs. Bytes of one
plane are alike, so that they compress far better than numbers side by side.
"""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

LEVEL = 6
"""Of zlib: higher ones take several times as long and save a few percent."""


@dataclass(frozen=True)
class Packed:
    """A column to be packed.

    Attributes:
        values: whole numbers.
        is_delta: whether differences of neighbours are stored, for what mostly grows.
    """

    values: np.ndarray
    is_delta: bool = False


def zigzag(values: np.ndarray) -> np.ndarray:
    """Whole numbers as such that are not negative, small ones as small ones: 0, -1, 1, -2, ... as 0, 1, 2, 3, ..."""
    found: np.ndarray = (values << 1) ^ (values >> 63)
    return found


def packed(columns: Mapping[str, Packed]) -> tuple[list[dict[str, Any]], str]:
    """Columns as text.

    Args:
        columns: name -> column; numbers that are not differences may not be negative.

    Returns:
        For each column its name, length `n`, number of `planes` and whether it holds differences (`delta`: of an even
        number the half is the difference, of an odd one the negative half of one more); and the compressed planes in
        base64.
    """
    described = []
    pieces = []
    for name, column in columns.items():
        values = column.values.astype(np.int64)
        if column.is_delta:
            values = zigzag(np.diff(values, prepend=0))
        plain = values.view(np.uint64)
        planes = (int(plain.max(initial=0)).bit_length() + 7) // 8
        shifts = np.arange(planes, dtype=np.uint64) * np.uint64(8)
        pieces += [(plain >> shift).astype(np.uint8).tobytes() for shift in shifts]
        described.append({"name": name, "n": len(values), "planes": planes, "delta": column.is_delta})
    return described, base64(b"".join(pieces))


def base64(content: bytes) -> str:
    """Bytes, compressed, as text."""
    return b64encode(zlib.compress(content, LEVEL)).decode()
