"""What tells tests that work grows with the input can tell."""

from __future__ import annotations

import pytest
from work import assert_linear, work


def visited(times: int) -> None:
    for _ in range(times):
        len(())


def test_calls_are_counted() -> None:
    assert 1000 <= work(lambda: visited(1000)) < 1010


def test_linear_work_passes_and_quadratic_work_does_not() -> None:
    assert_linear(visited, 1000)
    with pytest.raises(AssertionError):
        assert_linear(lambda size: visited(size * size), 100)
