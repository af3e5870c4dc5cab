"""Rows in ranges that are limited by size."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.db.batching import ranges_by_size


def ranges(first: int, sizes: list[int], most: int) -> list[tuple[int, int]]:
    return list(ranges_by_size(first, np.array(sizes, np.int64), most))


def test_a_range_is_filled_up_to_the_limit() -> None:
    assert ranges(100, [3, 3, 4, 1, 9, 1], 10) == [(100, 103), (103, 105), (105, 106)]


def test_a_row_that_is_too_large_is_a_range_of_its_own() -> None:
    assert ranges(0, [1, 11, 1, 50, 60], 10) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]


def test_no_rows_are_no_ranges() -> None:
    assert ranges(7, [], 10) == []


@given(st.integers(0, 1000), st.lists(st.integers(0, 30), min_size=1), st.integers(1, 40))
def test_every_row_is_in_one_range_and_no_range_could_be_longer(first: int, sizes: list[int], most: int) -> None:
    found = ranges(first, sizes, most)
    assert [row for low, high in found for row in range(low, high)] == list(range(first, first + len(sizes)))
    sums = [sum(sizes[low - first : high - first]) for low, high in found]
    assert all(total <= most or high - low == 1 for total, (low, high) in zip(sums, found, strict=True))
    heads = [sizes[low - first] for low, _ in found]
    assert all(total + head > most for total, (_, head) in zip(sums, pairwise(heads), strict=False))
