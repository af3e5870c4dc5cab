"""Microseconds become the nanoseconds that the file says, whatever their size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.loaders.kineto.times import EXACT_BELOW_US, floats_need_digits, floats_to_ns
from tracelens_graph.loading.one import load_core


@given(st.lists(st.integers(0, int(EXACT_BELOW_US) * 1000 - 1), min_size=1))
def test_floats_with_three_decimals_are_exact(times: list[int]) -> None:
    spelled = [float(f"{ns // 1000}.{ns % 1000:03}") for ns in times]
    assert not floats_need_digits(np.array(spelled))
    assert floats_to_ns(np.array(spelled)).tolist() == times


@pytest.mark.parametrize("sign", [1, -1])
def test_of_a_host_that_was_up_for_two_months(sign: int) -> None:
    """The product of this time and 1000 is rounded twice, to a nanosecond less."""
    assert floats_to_ns(sign * np.array([4458676639291.351])).tolist() == [sign * 4458676639291351]


def test_what_is_out_of_range_is_counted() -> None:
    event = {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
    core = load_core([event | {"ts": 1e18, "dur": 1}, event | {"ts": 0, "dur": 1e18}, event | {"ts": 5, "dur": 1}])
    assert core.info.repairs == {"out_of_range": 2}
    assert "times and durations out of range cut to the range (2)" in core.info.damage
