"""Alignment of two sequences at least cost, in whole numbers.

Needleman-Wunsch by rows: within a row, insertions are a running minimum, so that numpy does a row at a time. Where the
table of all pairs would be large, items that are unique on both sides and equal are taken as given (as patience diff
does), and between them a band around the diagonal is searched, which widens while the path touches its edge.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

NEVER = 2**60
"""Cost of a pair that may not be."""

_LARGE = 1 << 22
"""Pairs above which equal unique items are taken as given."""
_CELLS = 40_000_000
"""Pairs that are all looked at; more are searched in a band."""

Costs = Callable[[int, int, int], np.ndarray]
"""Cost of pairing item i of the first sequence with items j .. k - 1 of the second."""

Pairs = list[tuple[int, int]]


def aligned(lose: np.ndarray, gain: np.ndarray, costs: Costs, equal: tuple[np.ndarray, np.ndarray]) -> Pairs:
    """The pairs of an alignment at least cost, ascending.

    Args:
        lose, gain: cost of leaving an item of the first, of the second sequence alone.
        costs: cost of pairs, below the sum of leaving both alone, or NEVER.
        equal: a number for each item of both; items of the same number cost nothing together.
    """
    first, second = equal
    pairs: Pairs = []
    begin, end_a, end_b = 0, len(first), len(second)
    limit = min(end_a, end_b)
    different = np.flatnonzero(first[:limit] != second[:limit])
    begin = int(different[0]) if len(different) else limit
    pairs += [(i, i) for i in range(begin)]
    rest = limit - begin
    different = np.flatnonzero(first[::-1][:rest] != second[::-1][:rest])
    tail = int(different[0]) if len(different) else rest
    end_a, end_b = end_a - tail, end_b - tail
    at_a, at_b = begin, begin
    given = _anchors(first, second, begin, end_a, end_b) if (end_a - begin) * (end_b - begin) > _LARGE else []
    for i, j in [*given, (end_a, end_b)]:
        pairs += _between(lose, gain, costs, at_a, i, at_b, j)
        if i < end_a:
            pairs.append((i, j))
        at_a, at_b = i + 1, j + 1
    pairs += [(end_a + i, end_b + i) for i in range(tail)]
    return pairs


def _anchors(first: np.ndarray, second: np.ndarray, begin: int, end_a: int, end_b: int) -> Pairs:
    """Items that are equal and unique on both sides, as many as are in the same order on both."""
    sides = []
    for values, end in ((first, end_a), (second, end_b)):
        found, place, count = np.unique(values[begin:end], return_index=True, return_counts=True)
        sides.append((found[count == 1], place[count == 1] + begin))
    common, of_a, of_b = np.intersect1d(sides[0][0], sides[1][0], assume_unique=True, return_indices=True)
    at_a, at_b = sides[0][1][of_a], sides[1][1][of_b]
    order = np.argsort(at_a)
    at_a, at_b = at_a[order].tolist(), at_b[order].tolist()
    # The longest ascending run, by patience sorting.
    tops: list[int] = []
    piles: list[int] = []
    before = [-1] * len(common)
    for i, place in enumerate(at_b):
        pile = bisect_left(tops, place)
        tops[pile : pile + 1] = [place]
        piles[pile : pile + 1] = [i]
        before[i] = piles[pile - 1] if pile else -1
    found_pairs: Pairs = []
    at = piles[-1] if piles else -1
    while at >= 0:
        found_pairs.append((at_a[at], at_b[at]))
        at = before[at]
    return found_pairs[::-1]


def _between(lose: np.ndarray, gain: np.ndarray, costs: Costs, from_a: int, to_a: int, from_b: int, to_b: int) -> Pairs:
    n, m = to_a - from_a, to_b - from_b
    if not n or not m:
        return []
    band = max(n, m) if n * m <= _CELLS else 500 + abs(n - m) // 2
    while True:
        pairs, touches = _in_band(lose, gain, costs, from_a, to_a, from_b, to_b, band)
        if not touches or band >= max(n, m):
            return pairs
        band *= 2


def _in_band(
    lose: np.ndarray, gain: np.ndarray, costs: Costs, from_a: int, to_a: int, from_b: int, to_b: int, band: int
) -> tuple[Pairs, bool]:
    """The pairs, and whether their path touches the edge of the band."""
    n, m = to_a - from_a, to_b - from_b
    # Column j of a row stands for the first j items of the second sequence.
    middle = np.arange(n + 1) * m // n
    low, high = np.maximum(middle - band, 0), np.minimum(middle + band, m) + 1
    total = np.concatenate(([0], np.cumsum(gain[from_b:to_b])))
    row = np.full(m + 1, 2 * NEVER, np.int64)
    row[: high[0]] = total[: high[0]]
    choices = [np.full(high[0], 2, np.uint8)]
    for i in range(1, n + 1):
        begin, end = int(low[i]), int(high[i])
        up = row[begin:end] + lose[from_a + i - 1]
        inner = max(begin, 1)
        diagonal = np.full(end - begin, 2 * NEVER, np.int64)
        diagonal[inner - begin :] = row[inner - 1 : end - 1] + costs(
            from_a + i - 1, from_b + inner - 1, from_b + end - 1
        )
        best = np.minimum(diagonal, up)
        here = np.minimum.accumulate(best - total[begin:end]) + total[begin:end]
        choices.append(np.where(here < best, np.uint8(2), np.where(diagonal <= up, np.uint8(0), np.uint8(1))))
        row = np.full(m + 1, 2 * NEVER, np.int64) if end - begin <= m else row
        row[begin:end] = here
    pairs: Pairs = []
    touches, i, j = False, n, m
    while i or j:
        touches |= (j == low[i] and j > 0) or (j == high[i] - 1 and j < m)
        choice = choices[i][j - low[i]] if i else 2
        if choice == 2:
            j -= 1
        elif choice == 1:
            i -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((from_a + i, from_b + j))
    return pairs[::-1], touches
