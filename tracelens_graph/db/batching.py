"""Rows in batches that are limited by size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def ranges_by_size(first: int, sizes: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of rows, each with as many rows as fit; a row that is too large is a range of its own.

    Args:
        first: number of the first row.
        sizes: one per row.
        most: the sum of sizes that a range may have.

    Yields:
        Number of the first row of a range, and that of the first row behind it.
    """
    ends = np.cumsum(sizes)
    low = 0
    while low < len(ends):
        before = ends[low - 1] if low else 0
        high = max(low + 1, int(np.searchsorted(ends, before + most, "right")))
        yield first + low, first + high
        low = high
