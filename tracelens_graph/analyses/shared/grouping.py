"""Rows with equal keys as groups, statistics of values by group, and the columns that many tables end with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.arrays import distinct, quotients

Cells = np.ndarray | list[Any]


def group_by(*keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number of the group of each row, and the first row of each group; groups are in the order of first rows."""
    if not len(keys[0]):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    code = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        values, part = distinct(key)
        # Codes are made dense after every key, so the next product stays below the square of the number of rows.
        _, code = distinct(code * len(values) + part)
    # What is written last stays, so writing backwards leaves the first row of each.
    first = np.empty(int(code.max()) + 1, np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return place[code], first[order]


def smallest(group: np.ndarray, values: np.ndarray, groups: int) -> np.ndarray:
    """Smallest value of each group; no group is empty."""
    found = np.full(groups, np.iinfo(np.int64).max)
    np.minimum.at(found, group, values)
    return found


def shares(values: np.ndarray) -> dict[str, Cells]:
    """Share of each value in the sum of all, in percent, and the running share."""
    total = values.sum()
    share = 100 * values / total if total else np.full(len(values), np.nan)
    return {"Percentage (%)": share, "Cumulative Percentage (%)": np.cumsum(share)}


def picked(values: Cells, places: np.ndarray) -> Cells:
    """Cells at some places."""
    return values[places] if isinstance(values, np.ndarray) else [values[i] for i in places.tolist()]


def cell_order(most: np.ndarray, *then: Cells) -> np.ndarray:
    """Places of rows by a value, the greatest first; equal ones by further cells, absent ones last."""
    plain = [cells.tolist() if isinstance(cells, np.ndarray) else cells for cells in then]
    keys = ([(cell is None, "" if cell is None else cell) for cell in row] for row in zip(*plain, strict=True))
    value: np.ndarray = np.asarray(most)
    order = sorted(enumerate(keys), key=lambda row: (-value[row[0]], row[1]))
    return np.array([place for place, _ in order], np.int64)


def text_codes(texts: Sequence[Any]) -> np.ndarray:
    """A number for each value, equal for equal values."""
    codes: dict[Any, int] = {}
    return np.array([codes.setdefault(text, len(codes)) for text in texts], np.int64)


@dataclass
class Groups:
    """Values in groups 0 .. count-1. Results have one entry per group; of an empty group they are NaN or 0.

    Attributes:
        group: group of each value.
        values: integers (sums are exact) or floats.
        groups: number of groups.
    """

    group: np.ndarray
    values: np.ndarray
    groups: int

    @cached_property
    def _sorted(self) -> np.ndarray:
        """Values by group, ascending in each."""
        if self.values.dtype.kind == "i" and len(self.values):
            low = int(self.values.min())
            span = int(self.values.max()) - low + 1
            if self.groups * span < 2**62:  # group and value fit into one number, and plain sorting is the fastest
                both = np.sort(self.group.astype(np.int64) * span + (self.values - low))
                return both - np.repeat(np.arange(self.groups) * span - low, self.count)
        return self.values[np.lexsort((self.values, self.group))]

    @cached_property
    def _begin(self) -> np.ndarray:
        return np.concatenate(([0], np.cumsum(self.count)))

    @cached_property
    def count(self) -> np.ndarray:
        """Number of values."""
        return np.bincount(self.group, minlength=self.groups)

    @cached_property
    def sum(self) -> np.ndarray:
        """Sum of the values, exact for integers."""
        return self._sums(self._sorted)

    @cached_property
    def mean(self) -> np.ndarray:
        """Mean of the values."""
        return self._per_value(self.sum)

    @cached_property
    def min(self) -> np.ndarray:
        """Smallest value."""
        return self._pick(self._begin[:-1])

    @cached_property
    def max(self) -> np.ndarray:
        """Greatest value."""
        return self._pick(self._begin[1:] - 1)

    @cached_property
    def median(self) -> np.ndarray:
        """The middle value, or the mean of the two in the middle."""
        middle = self._begin[:-1] + (self._begin[1:] - self._begin[:-1] - 1) // 2
        upper = self._begin[:-1] + (self._begin[1:] - self._begin[:-1]) // 2
        return (self._pick(middle) + self._pick(upper)) / 2

    def quantile(self, q: float) -> np.ndarray:
        """The value below which a share `q` of the values lies, interpolated between neighbours."""
        place = self._begin[:-1] + q * np.maximum(self.count - 1, 0)
        low, high = np.floor(place).astype(np.int64), np.ceil(place).astype(np.int64)
        return self._pick(low) + (place - low) * (self._pick(high) - self._pick(low))

    def std(self, ddof: int = 1) -> np.ndarray:
        """Standard deviation; NaN for groups of `ddof` values or fewer.

        Integers deviate by integers from a whole number next to their mean. The sum of the squares is then exact in
        whichever order it is made, and databases come to the same.
        """
        whole = self.values.dtype.kind == "i"
        middle = self.sum // np.maximum(self.count, 1) if whole else self.mean
        deviation = (self._sorted - np.repeat(middle, self.count)).astype(float)
        squares = self._sums(deviation * deviation)
        if whole:
            # Around a middle m other than the mean, squares add up to count * (mean - m)**2 more.
            squares -= self._per_value((self.sum - self.count * middle).astype(float) ** 2)
        return np.sqrt(self._divided(np.maximum(squares, 0), self.count - ddof))

    def _sums(self, values: np.ndarray) -> np.ndarray:
        # Not by differences of a running sum: small values after large ones would drown, and all after a NaN.
        sums = np.zeros(self.groups, values.dtype)
        some = self.count > 0
        if some.any():
            sums[some] = np.add.reduceat(values, self._begin[:-1][some])
        return sums

    def _per_value(self, sums: np.ndarray) -> np.ndarray:
        return self._divided(sums, self.count)

    def _divided(self, sums: np.ndarray, by: np.ndarray) -> np.ndarray:
        return quotients(sums, by)

    def _pick(self, places: np.ndarray) -> np.ndarray:
        found = np.full(self.groups, np.nan)
        some = self.count > 0
        found[some] = self._sorted[places[some]]
        return found


_Rows = TypeVar("_Rows", np.ndarray, list[Any])


def first_rows(rows: _Rows, top: int) -> tuple[_Rows, list[str]]:
    """The first rows, and, where that is not all, a note that says how many there are.

    Args:
        rows: what there is, in order.
        top: how many of them; 0 for all.

    Raises:
        AnalysisError: `top` is negative.
    """
    if top < 0:
        raise AnalysisError(f"top={top}: expected a number of rows, or 0 for all")
    if not top or len(rows) <= top:
        return rows, []
    return rows[:top], [f"the first {top:,} of {len(rows):,} rows (top 0 shows all)"]
