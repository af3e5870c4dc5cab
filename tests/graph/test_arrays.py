"""Different values and pairs are those that numpy finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.graph.arrays import distinct, distinct_pairs

NUMBERS = st.sampled_from([-3, 0, 1, 2, 5, 2**40])
DTYPES = pytest.mark.parametrize("dtype", [np.int64, np.float64])


@DTYPES
@given(values=st.lists(NUMBERS))
def test_values_are_those_of_numpy(dtype: type, values: list[int]) -> None:
    key = np.array(values, dtype)
    found, place = distinct(key)
    assert found.tolist() == np.unique(key).tolist()
    assert found[place].tolist() == values


@DTYPES
@given(pairs=st.lists(st.tuples(NUMBERS, NUMBERS)))
def test_pairs_are_those_of_numpy(dtype: type, pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs, dtype).reshape(-1, 2).T
    found = np.stack(distinct_pairs(first, second), axis=1)
    assert found.tolist() == [list(pair) for pair in sorted(set(pairs))]
