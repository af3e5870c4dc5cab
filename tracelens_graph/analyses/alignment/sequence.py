"""Alignment of two sequences at least cost, in whole numbers.

Needleman-Wunsch by rows: within a row, insertions are a running minimum, so that numpy does a row at a time. Where the
table of all pairs would be large, equal items that occur as often on both sides are taken as given (patience diff takes
those that are unique), and between them a band around the diagonal is searched, which widens while the path touches
its edge. What is too long even for a band is cut into pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from tracelens_graph.graph.common_order import in_step

NEVER = 2**60
"""Cost of a pair that may not be."""

_LARGE = 1 << 22
"""Pairs above which equal items are taken as given."""
_CELLS = 40_000_000
"""Pairs that are all looked at; more are searched in a band."""
_MOST_CELLS = 200_000_000
"""Pairs to which a band may widen: its choices take a byte each."""

Costs = Callable[[int, int, int], np.ndarray]
"""Cost of pairing item i of the first sequence with items j .. k - 1 of the second."""

Pairs = list[tuple[int, int]]
Part = tuple[int, int, int, int]
"""From and to an item of the first sequence, from and to one of the second."""


def aligned(
    lose: np.ndarray,
    gain: np.ndarray,
    costs: Costs,
    equal: tuple[np.ndarray, np.ndarray],
    alike: tuple[np.ndarray, np.ndarray],
) -> Pairs:
    """The pairs of an alignment at least cost, ascending.

    Args:
        lose, gain: cost of leaving an item of the first, of the second sequence alone.
        costs: cost of pairs, below the sum of leaving both alone, or NEVER.
        equal: a number for each item of both; items of the same number cost nothing together.
        alike: coarser numbers, by which long sequences are cut where equal items do not suffice.

    Raises:
        ValueError: `lose` and `gain` together are not below NEVER.
    """
    # Else pairs that may not be would be cheaper than leaving items alone, and paths would leave the table.
    if lose.sum(dtype=float) + gain.sum(dtype=float) >= NEVER:
        raise ValueError("what it costs to leave all items alone is not below NEVER")
    first, second = equal
    begin, end_a, end_b = 0, len(first), len(second)
    limit = min(end_a, end_b)
    # Two traces of one program are mostly equal at both ends, which then need no table of costs.
    different = np.flatnonzero(first[:limit] != second[:limit])
    begin = int(different[0]) if len(different) else limit
    rest = limit - begin
    different = np.flatnonzero(first[::-1][:rest] != second[::-1][:rest])
    tail = int(different[0]) if len(different) else rest
    end_a, end_b = end_a - tail, end_b - tail
    pairs = [(i, i) for i in range(begin)]
    at_a, at_b = begin, begin
    for i, j in [*_anchors(costs, equal, alike, (begin, end_a, begin, end_b)), (end_a, end_b)]:
        pairs += _between(lose, gain, costs, at_a, i, at_b, j)
        if i < end_a:
            pairs.append((i, j))
        at_a, at_b = i + 1, j + 1
    pairs += [(end_a + i, end_b + i) for i in range(tail)]
    return pairs


def _anchors(
    costs: Costs, equal: tuple[np.ndarray, np.ndarray], alike: tuple[np.ndarray, np.ndarray], part: Part
) -> Pairs:
    """Pairs that are taken as given where the table of all pairs would be large, ascending.

    An item with its neighbours up to some reach that occurs as often on one side as on the other is paired, first
    with first and so on: of repeated steps and layers few are unique.
    """
    given: Pairs = []
    parts = [part]
    for values, reach in ((equal, 16), (equal, 4), (equal, 0), (alike, 16), (alike, 4), (alike, 0)):
        smaller: list[Part] = []
        for from_a, to_a, from_b, to_b in parts:
            if (to_a - from_a) * (to_b - from_b) <= _LARGE:
                continue
            found = in_step(values[0][from_a:to_a], values[1][from_b:to_b], reach)
            at_a, at_b = from_a, from_b
            for i, j in found:
                i, j = from_a + i, from_b + j
                # Coarser numbers may agree on a pair that is forbidden; equal items never do.
                if values is alike and costs(i, j, j + 1)[0] >= NEVER:
                    continue
                given.append((i, j))
                smaller.append((at_a, i, at_b, j))
                at_a, at_b = i + 1, j + 1
            smaller.append((at_a, to_a, at_b, to_b))
        parts = smaller
    return sorted(given)


def _between(lose: np.ndarray, gain: np.ndarray, costs: Costs, from_a: int, to_a: int, from_b: int, to_b: int) -> Pairs:
    n, m = to_a - from_a, to_b - from_b
    if not n or not m:
        return []
    band = max(n, m) if n * m <= _CELLS else 500 + abs(n - m) // 2
    if min(2 * band, m) * n > _MOST_CELLS:
        return _piece_by_piece(lose, gain, costs, (from_a, to_a, from_b, to_b))
    while True:
        pairs, touches = _in_band(lose, gain, costs, from_a, to_a, from_b, to_b, band)
        if not touches or band >= max(n, m) or 4 * band * n > _MOST_CELLS:
            return pairs
        band *= 2


def _piece_by_piece(lose: np.ndarray, gain: np.ndarray, costs: Costs, part: Part) -> Pairs:
    """The pairs of two stretches too long even for a band, both cut into equally many pieces."""
    from_a, to_a, from_b, to_b = part
    n, m = to_a - from_a, to_b - from_b
    pieces = -(-n * m // _MOST_CELLS)
    cuts_a, cuts_b = (np.arange(pieces + 1) * size // pieces + start for size, start in ((n, from_a), (m, from_b)))
    return [
        pair
        for a, b in zip(pairwise(cuts_a.tolist()), pairwise(cuts_b.tolist()), strict=True)
        for pair in _between(lose, gain, costs, *a, *b)
    ]


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
        # Inserting items k .. j - 1 costs total[j] - total[k], so the cheapest k of every j is a running minimum.
        here = np.minimum.accumulate(best - total[begin:end]) + total[begin:end]
        choices.append(np.where(here < best, np.uint8(2), np.where(diagonal <= up, np.uint8(0), np.uint8(1))))
        # Cells that the band has left behind must not be read as this row's; a full row overwrites them all.
        row = np.full(m + 1, 2 * NEVER, np.int64) if end - begin <= m else row
        row[begin:end] = here
    pairs: Pairs = []
    touches, i, j = False, n, m
    while i > 0 or j > 0:
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
