"""Statistics by group against numpy's own, group by group."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.analyses.shared.grouping import Groups, group_by


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-(10**12), 10**12)), max_size=30), st.integers(5, 7))
def test_statistics_equal_numpy_s(pairs: list[tuple[int, int]], groups: int) -> None:
    group, values = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    found = Groups(group, values, groups)
    for number in range(groups):
        mine = values[group == number]
        assert found.count[number] == len(mine)
        assert found.sum[number] == mine.sum()
        if not len(mine):
            assert all(np.isnan(s[number]) for s in (found.mean, found.median, found.min, found.max, found.std()))
            continue
        assert found.min[number] == mine.min()
        assert found.max[number] == mine.max()
        assert np.isclose(found.mean[number], mine.mean(), rtol=1e-12)
        assert np.isclose(found.median[number], np.median(mine), rtol=1e-12)
        assert np.isclose(found.std(0)[number], mine.std(), rtol=1e-9, atol=1e-3)
        assert np.isclose(found.quantile(0.9)[number], np.quantile(mine, 0.9), rtol=1e-9, atol=1e-3)
        if len(mine) > 1:
            assert np.isclose(found.std()[number], mine.std(ddof=1), rtol=1e-9, atol=1e-3)


def test_small_values_after_large_ones_keep_their_digits() -> None:
    values = np.array([10**12, 3 * 10**12, 5, 7, 9])
    assert Groups(np.array([0, 0, 1, 1, 1]), values, 2).std()[1] == 2.0


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=30))
def test_the_deviation_of_integers_has_no_noise(values: list[int]) -> None:
    """Databases add up in an order of their own, and are to say the same to the last digit."""
    count, middle = len(values), sum(values) // len(values)
    squares = sum((value - middle) ** 2 for value in values)
    variance = (squares - (sum(values) - count * middle) ** 2 / count) / (count - 1)
    assert Groups(np.zeros(count, np.int64), np.array(values), 1).std()[0] == math.sqrt(variance)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=20))
def test_groups_are_in_the_order_of_their_first_rows(pairs: list[tuple[int, bool]]) -> None:
    keys = [np.array([pair[i] for pair in pairs]) for i in (0, 1)] if pairs else [np.zeros(0, int)] * 2
    group, first = group_by(*keys)
    seen: dict[tuple[int, bool], int] = {}
    for i, pair in enumerate(pairs):
        assert group[i] == seen.setdefault(pair, len(seen))
    assert [pairs[i] for i in first.tolist()] == list(seen)
