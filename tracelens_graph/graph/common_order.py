"""What two sequences have in common in the same order: a longest common subsequence, fast where they are much alike.

Equal beginnings and ends are taken as they are. Long sequences are cut at places whose surroundings occur equally often
on both sides. What lies between is compared with one long integer per row, whose bits stand for a row of the table of
all pairs (Hyyro, "Bit-parallel LCS-length computation revisited", 2004), so that a row of 10,000 takes microseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from math import isqrt

import numpy as np

_BASE = np.uint64(0x9E3779B97F4A7C15)


def in_step(first: np.ndarray, second: np.ndarray, reach: int) -> list[tuple[int, int]]:
    """Places whose surroundings occur equally often on both sides, as many as are in the same order on both.

    Args:
        first, second: a number for each item of both sequences.
        reach: how many neighbours on each side count; with 0 only items that occur once do.
    """
    keys = [surroundings(values, reach) for values in (first, second)]
    sides = [np.unique(key, return_counts=True) for key in keys]
    common, of_a, of_b = np.intersect1d(sides[0][0], sides[1][0], assume_unique=True, return_indices=True)
    count_a, count_b = sides[0][1][of_a], sides[1][1][of_b]
    common = common[(count_a == count_b) & ((reach > 0) | (count_a == 1))]
    places = [np.flatnonzero(np.isin(key, common)) for key in keys]
    # Counts are equal, and stable sorts pair the first of equal surroundings with the first.
    order = [place[np.argsort(key[place], kind="stable")] for key, place in zip(keys, places, strict=True)]
    in_a = np.argsort(order[0], kind="stable")
    at_a, at_b = order[0][in_a].tolist(), order[1][in_a].tolist()
    return [(at_a[k], at_b[k]) for k in _longest_ascending(at_b)]


def surroundings(values: np.ndarray, reach: int) -> np.ndarray:
    """For each item a hash of it and of its neighbours on both sides."""
    values = values.astype(np.uint64)
    padded = np.concatenate((np.zeros(reach, np.uint64), values, np.zeros(reach, np.uint64)))
    found = np.zeros(len(values), np.uint64)
    for place in range(2 * reach + 1):
        found = found * _BASE + padded[place : place + len(values)]
    return found


def _longest_ascending(values: list[int]) -> list[int]:
    """Places of a longest ascending run, by patience sorting."""
    tops: list[int] = []
    piles: list[int] = []
    before = [-1] * len(values)
    for place, value in enumerate(values):
        pile = bisect_left(tops, value)
        tops[pile : pile + 1] = [value]
        piles[pile : pile + 1] = [place]
        before[place] = piles[pile - 1] if pile else -1
    found = []
    at = piles[-1] if piles else -1
    while at >= 0:
        found.append(at)
        at = before[at]
    return found[::-1]


_LARGE = 1 << 28
"""Pairs of items above which a stretch is cut where that is possible."""
_MOST = 1 << 34
"""Pairs of items above which a stretch is cut into equally many pieces, in whatever way."""
_REACHES = (16, 4, 0)

Stretch = tuple[int, int, int, int]
"""From and to an item of the first sequence, from and to one of the second."""


def common_order(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of equal items in the same order on both sides, ascending.

    They are as many as there can be, but for sequences of 100,000 and more items with little in common.

    Args:
        first, second: a number for each item, not negative.

    Returns:
        Places in the first sequence and in the second, of equal length.
    """
    pairs = list(_aligned(first, second, (0, len(first), 0, len(second)), 0))
    if not pairs:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])


def _aligned(
    first: np.ndarray, second: np.ndarray, part: Stretch, tried: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of a stretch, piece by piece; `tried` reaches did not cut it."""
    from_a, to_a, from_b, to_b = part
    ahead = _equal(first[from_a:to_a], second[from_b:to_b])
    behind = _equal(first[from_a + ahead : to_a][::-1], second[from_b + ahead : to_b][::-1])
    if ahead:
        yield np.arange(from_a, from_a + ahead), np.arange(from_b, from_b + ahead)
    from_a, from_b, to_a, to_b = from_a + ahead, from_b + ahead, to_a - behind, to_b - behind
    n, m = to_a - from_a, to_b - from_b
    if n and m and n * m <= _LARGE:
        a, b = _longest(first[from_a:to_a], second[from_b:to_b])
        yield a + from_a, b + from_b
    elif n and m:
        yield from _cut(first, second, (from_a, to_a, from_b, to_b), tried)
    if behind:
        yield np.arange(to_a, to_a + behind), np.arange(to_b, to_b + behind)


def _equal(first: np.ndarray, second: np.ndarray) -> int:
    """How many items are equal from the beginning on."""
    length = min(len(first), len(second))
    different = first[:length] != second[:length]
    return int(different.argmax()) if different.any() else length


def _cut(first: np.ndarray, second: np.ndarray, part: Stretch, tried: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of a long stretch: between places that both sides have, else between equally many pieces."""
    from_a, to_a, from_b, to_b = part
    for place, reach in enumerate(_REACHES[tried:], tried):
        found = in_step(first[from_a:to_a], second[from_b:to_b], reach)
        if found:
            # The end stands last as one more place, so that what follows the last pair is a gap like any other.
            at = np.array([*found, (to_a - from_a, to_b - from_b)], np.int64) + np.array((from_a, from_b))
            # Where only one side has items in between, there is nothing to pair.
            gaps = np.flatnonzero((np.diff(at, axis=0, prepend=[(from_a - 1, from_b - 1)]) > 1).all(axis=1))
            begun = 0
            for gap in gaps.tolist():
                yield at[begun:gap, 0], at[begun:gap, 1]
                low = at[gap - 1] + 1 if gap else np.array((from_a, from_b))
                inside = (int(low[0]), int(at[gap, 0]), int(low[1]), int(at[gap, 1]))
                # Shorter surroundings from here on, so that the recursion is as deep as there are reaches.
                yield from _aligned(first, second, inside, place + 1)
                begun = gap
            yield at[begun:-1, 0], at[begun:-1, 1]
            return
    n, m = to_a - from_a, to_b - from_b
    pieces = -(-n * m // _MOST)
    cuts = np.arange(pieces + 1)
    of_a, of_b = from_a + cuts * n // pieces, from_b + cuts * m // pieces
    for piece in range(pieces):
        low_a, high_a, low_b, high_b = of_a[piece], of_a[piece + 1], of_b[piece], of_b[piece + 1]
        a, b = _longest(first[low_a:high_a], second[low_b:high_b])
        yield a + low_a, b + low_b


def _longest(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of a longest common subsequence.

    Bit j of row i is 0 where one more item of the first i + 1 is paired with the first j + 1 than with the first j.
    Rows are kept at some distance, and those between are made again on the way back: memory does not hold them all.
    """
    n, m = len(first), len(second)
    places: dict[int, int] = {}
    for value in np.unique(second).tolist():
        bits = np.packbits(second == value, bitorder="little").tobytes()
        places[value] = int.from_bytes(bits, "little")
    every = (1 << m) - 1
    items = first.tolist()

    def rows(begin: int, end: int, row: int) -> Iterator[int]:
        for item in items[begin:end]:
            here = row & places.get(item, 0)
            # Where the other side lacks the item, the row stays: that saves two additions of long integers.
            if here:
                row = ((row + here) | (row - here)) & every
            yield row

    distance = isqrt(n) + 1
    kept, row = [every], every
    for begin in range(0, n, distance):
        for made in rows(begin, min(begin + distance, n), row):
            row = made
        kept.append(row)
    found_a: list[int] = []
    found_b: list[int] = []
    column = m
    for block in range((n - 1) // distance, -1, -1):
        begin = block * distance
        between = [kept[block], *rows(begin, min(begin + distance, n), kept[block])]
        for place in range(len(between) - 1, 0, -1):
            if not column:
                break
            # The last column up to here in which the number of pairs rises.
            column = (~between[place] & ((1 << column) - 1)).bit_length()
            if column and between[place - 1] >> (column - 1) & 1:
                column -= 1
                found_a.append(begin + place - 1)
                found_b.append(column)
    return np.array(found_a[::-1], np.int64), np.array(found_b[::-1], np.int64)
