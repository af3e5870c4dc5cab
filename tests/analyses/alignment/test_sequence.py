from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.analyses.alignment import sequence
from tracelens_graph.analyses.alignment.sequence import NEVER, Pairs, aligned
from tracelens_graph.graph import common_order as anchors

TOKENS = st.lists(st.integers(0, 4), max_size=14)


def sides(first: list[int], second: list[int]) -> tuple[np.ndarray, np.ndarray]:
    return np.array(first, np.int64), np.array(second, np.int64)


def run(first: list[int], second: list[int]) -> Pairs:
    """Items are equal, near to each other (even and even), or never a pair."""
    a, b = sides(first, second)

    def costs(i: int, begin: int, end: int) -> np.ndarray:
        there = b[begin:end]
        return np.where(there == a[i], 0, np.where((there - a[i]) % 2 == 0, 7, NEVER))

    alone = [np.full(len(one), 5, np.int64) for one in (a, b)]
    return aligned(alone[0], alone[1], costs, (a, b), (a % 2, b % 2))


def price(first: list[int], second: list[int], pairs: Pairs) -> int:
    beside = sum(0 if first[i] == second[j] else 7 for i, j in pairs)
    return beside + 5 * (len(first) + len(second) - 2 * len(pairs))


def least(first: list[int], second: list[int]) -> int:
    """The textbook's table of all beginnings."""
    row = [5 * j for j in range(len(second) + 1)]
    for x in first:
        new = [row[0] + 5]
        for j, y in enumerate(second):
            beside = 0 if x == y else 7 if (x - y) % 2 == 0 else NEVER
            new.append(min(row[j] + beside, row[j + 1] + 5, new[j] + 5))
        row = new
    return row[-1]


@given(TOKENS, TOKENS)
def test_costs_as_little_as_can_be(first: list[int], second: list[int]) -> None:
    pairs = run(first, second)
    assert pairs == sorted(set(pairs))
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))
    assert price(first, second, pairs) == least(first, second)


@pytest.mark.parametrize(("first", "second"), [([], []), ([1], []), ([], [2, 3]), ([1, 2], [2]), ([1], [2])])
def test_empty_and_short(first: list[int], second: list[int]) -> None:
    assert price(first, second, run(first, second)) == least(first, second)


def test_a_narrow_band_widens_until_the_path_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(1)
    first = [random.randrange(100, 200) for _ in range(2000)]
    second = first[1500:] + [1000 + k for k in range(1500)]
    monkeypatch.setattr(sequence, "_LARGE", 1 << 40)
    exact = price(first, second, run(first, second))
    monkeypatch.setattr(sequence, "_CELLS", 1)
    assert price(first, second, run(first, second)) == exact


@pytest.mark.parametrize("layers", [1, 30])
def test_anchors_of_repeated_work_find_what_was_edited(monkeypatch: pytest.MonkeyPatch, layers: int) -> None:
    monkeypatch.setattr(sequence, "_LARGE", 100)
    random = Random(2)
    layer = [random.randrange(50) for _ in range(40)]
    first = [value for k in range(layers) for value in (*layer, 1000 + k)]
    second = list(first)
    for _ in range(5):
        del second[random.randrange(len(second))]
        second.insert(random.randrange(len(second)), 999)
    pairs = run(first, second)
    monkeypatch.setattr(sequence, "_LARGE", 1 << 40)
    assert price(first, second, pairs) == price(first, second, run(first, second))


def test_unique_items_are_paired_at_once_however_many() -> None:
    """All pairs would be 10^10."""
    first = list(range(100_000))
    second = [value for value in first if value % 1000] + [-1]
    assert len(run(first, second)) == 99_900


def test_the_longest_ascending_run() -> None:
    values = [3, 1, 4, 2, 5, 9, 6]
    found = [values[place] for place in anchors._longest_ascending(values)]
    assert found == sorted(found)
    assert len(found) == 4
    assert anchors._longest_ascending([]) == []
