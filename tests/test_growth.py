"""What tells tests how cost grows can tell."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from growth import Metered, assert_growth, calls, cost, elements

pytestmark = pytest.mark.proof

LETTER = re.compile(rb"x")
HERE = sys.modules[__name__]


def counted(times: int) -> None:
    total = 0
    while total < times:
        total += 1


def found_from_the_start(times: int) -> None:
    for end in range(0, times, 16):
        LETTER.search(b"y" * end)


def held(size: int) -> None:
    bytes(size)


def metered_array(size: int) -> np.ndarray:
    return np.arange(size).view(Metered)


def test_what_is_counted() -> None:
    assert calls(lambda: [len(()) for _ in range(1000)]) in range(1000, 1010)
    assert 2000 <= cost(partial(counted, 1000)).steps < 2010
    assert cost(lambda: LETTER.search(b"yyyx", 1), [HERE]).scanned == 3
    assert 1 << 20 <= cost(partial(held, 1 << 20)).peak < 1.01 * 2**20


def test_elements_are_those_read_and_those_made() -> None:
    assert elements(lambda: np.arange(1000)) == 1000
    assert 2000 <= elements(lambda: np.zeros(1000, int).sum()) < 2010
    numbers = metered_array(1000)
    assert 1000 <= elements(lambda: numbers.max()) < 1010
    assert elements(lambda: [numbers[i] for i in range(1000)]) == 0
    assert elements(lambda: np.add.at(numbers, [3, 4], [1, 1])) < 10
    assert elements(lambda: [np.flatnonzero(numbers == i) for i in range(10)]) >= 10_000


@pytest.mark.parametrize(
    ("one", "size"), [(counted, 64), (found_from_the_start, 64), (held, 1024)], ids=["steps", "scanned", "peak"]
)
def test_linear_cost_passes_and_quadratic_cost_does_not(one: Callable[[int], object], size: int) -> None:
    if one is not found_from_the_start:
        assert_growth(lambda n: partial(one, n), size * 100)
        with pytest.raises(AssertionError, match=r"n, 2n, 4n"):
            assert_growth(lambda n: partial(one, n * n), size)
    else:
        with pytest.raises(AssertionError, match="scanned"):
            assert_growth(lambda n: partial(one, n), size * 100, modules=[HERE])
