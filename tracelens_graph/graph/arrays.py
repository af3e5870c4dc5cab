"""What numpy has, only faster for the numbers that graphs are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from tracelens_graph.utils.arrays import Codes, Mask, Rows, narrow

_SPREAD = 16
"""How many times its number of entries the range of a key may be for a table of it to pay."""


def is_kind(kind: Codes, kinds: Iterable[int]) -> Mask:
    """For each entry of a column of kinds whether it is one of some kinds."""
    wanted = np.zeros(256, bool)
    wanted[list(kinds)] = True
    return wanted[kind]


def distinct(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different values, ascending, and the position of each entry's value among them, as `numpy.unique` gives them.

    Whole numbers that lie close together, as codes and rows do, are looked up instead of sorted. (Without one of its
    options `numpy.unique` also imports `numpy.ma`, which takes longer than most tables.)
    """
    if key.dtype.kind in "iu" and len(key):
        low, high = int(key.min()), int(key.max())
        if high - low <= _SPREAD * len(key) + 256:
            shifted = key.astype(np.int64) - low
            there = np.zeros(high - low + 1, bool)
            there[shifted] = True
            return np.flatnonzero(there) + low, (np.cumsum(there) - 1)[shifted]
    return np.unique(key, return_inverse=True)


def positions_by(key: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each different value of a key, ascending, and the positions that have it, ascending."""
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order])) + 1
    for positions in np.split(order, edges) if len(order) else ():
        yield int(key[positions[0]]), positions


def lower_medians(group: Codes, values: np.ndarray) -> np.ndarray:
    """For each group, numbered from 0 on, the median of its values, the lower of two."""
    order = np.lexsort((values, group))
    first = np.searchsorted(group[order], np.arange(int(group.max(initial=-1)) + 2))
    return values[order[first[:-1] + (np.diff(first) - 1) // 2]]


def expanded(low: Rows, high: Rows) -> tuple[Rows, Codes]:
    """All positions `low .. high - 1` of several ranges, one range after the other, and which range each is of."""
    size = np.maximum(high - low, 0)
    of = np.repeat(np.arange(len(size)), size)
    return np.arange(len(of)) + (low - np.cumsum(size) + size)[of], of


class Places:
    """Where each number is among some: looking up takes time for what is found, not for all.

    Args:
        numbers: the numbers, from 0 on.
        count: how many different ones there can be.
    """

    def __init__(self, numbers: Codes, count: int) -> None:
        self._order = narrow(np.argsort(numbers, kind="stable"))
        self._first = narrow(np.searchsorted(numbers[self._order], np.arange(count + 1)))

    def of(self, numbers: Codes) -> Rows:
        """The positions of some numbers, ascending."""
        wanted = np.unique(numbers)
        return np.sort(self._order[expanded(self._first[wanted], self._first[wanted + 1])[0]])


def fitting(names: Sequence[str], codes: Codes, fits: Callable[[str], object]) -> Mask:
    """For each code of a name whether the name fits; each name is asked once."""
    found, at = distinct(codes)
    return np.array([bool(fits(names[code])) for code in found.tolist()], bool)[at]


def distinct_pairs(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different pairs of entries at one position, ascending by the first, then by the second."""
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    new = np.ones(len(order), bool)
    new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    return first[new], second[new]


def quotients(parts: np.ndarray | float, wholes: np.ndarray) -> np.ndarray:
    """Each part by its whole; NaN where that is not above 0."""
    return np.divide(parts, wholes, out=np.full(np.shape(wholes), np.nan), where=wholes > 0)
