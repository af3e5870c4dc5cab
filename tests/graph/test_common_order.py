"""What two sequences have in common in the same order is as long as a table of all pairs finds."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.graph import common_order as module
from tracelens_graph.graph.common_order import common_order

ITEMS = st.lists(st.integers(0, 4), max_size=40)


def check(first: list[int], second: list[int]) -> int:
    """The places are ascending and hold equal items; their number."""
    a, b = np.array(first, np.int64), np.array(second, np.int64)
    at, other = common_order(a, b)
    assert len(at) == len(other)
    assert (a[at] == b[other]).all()
    assert (np.diff(at) > 0).all()
    assert (np.diff(other) > 0).all()
    return len(at)


def longest(first: list[int], second: list[int]) -> int:
    """By the table of all pairs."""
    row = [0] * (len(second) + 1)
    for item in first:
        above, row = row, [0]
        for place, other in enumerate(second):
            row.append(above[place] + 1 if item == other else max(above[place + 1], row[place]))
    return row[-1]


@given(ITEMS, ITEMS)
def test_as_many_as_there_can_be(first: list[int], second: list[int]) -> None:
    assert check(first, second) == longest(first, second)


@given(ITEMS, st.sets(st.integers(0, 39)))
def test_a_part_is_found_whole(whole: list[int], lost: set[int]) -> None:
    part = [item for place, item in enumerate(whole) if place not in lost]
    assert check(whole, part) == len(part)
    assert check(part, whole) == len(part)


@given(ITEMS, ITEMS, st.integers(0, 60), st.integers(1, 400))
def test_long_stretches_are_cut_without_harm(first: list[int], second: list[int], large: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LARGE", large)
        patch.setattr(module, "_MOST", most)
        check(first, second)
        assert check(first, first) == len(first)


def test_cut_at_what_both_have() -> None:
    rng = np.random.default_rng(5)
    whole = rng.integers(0, 10_000, 4000).tolist()
    changed = [item for place, item in enumerate(whole) if place % 400]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LARGE", 1000)
        assert check(whole, changed) == len(changed)


def test_time_grows_with_length_not_with_its_square() -> None:
    """100,000 items of which a few are lost, and as many that have nothing in common."""
    rng = np.random.default_rng(7)
    whole = np.tile(rng.integers(0, 300, 1000), 100)
    lost = np.ones(len(whole), bool)
    lost[rng.integers(0, len(whole), 50)] = False
    begin = perf_counter()
    assert len(common_order(whole, whole[lost])[0]) >= lost.sum() - 50
    assert len(common_order(whole, whole + 1000)[0]) == 0
    assert perf_counter() - begin < 20
