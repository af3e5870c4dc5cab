"""Microseconds become the nanoseconds that the file says, whatever their size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.loaders.kineto.times import EXACT_BELOW_US, floats_need_digits, floats_to_ns
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind


@given(st.lists(st.integers(0, int(EXACT_BELOW_US) * 1000 - 1), min_size=1))
def test_floats_with_three_decimals_are_exact(times: list[int]) -> None:
    spelled = [float(f"{ns // 1000}.{ns % 1000:03}") for ns in times]
    assert not floats_need_digits(np.array(spelled))
    assert floats_to_ns(np.array(spelled)).tolist() == times


@pytest.mark.parametrize("sign", [1, -1])
def test_of_a_host_that_was_up_for_two_months(sign: int) -> None:
    """The product of this time and 1000 is rounded twice, to a nanosecond less."""
    assert floats_to_ns(sign * np.array([4458676639291.351])).tolist() == [sign * 4458676639291351]


@pytest.mark.parametrize("shift", [0, 2.0**43], ids=["floats", "digits"])
def test_events_with_times_out_of_range_are_lost(shift: float) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
    events = [event | {"ts": shift + ts, "dur": dur} for ts, dur in ((1e18, 1), (-1e18, 1), (0, 1e18), (5, 1))]
    core = load_core(events)
    assert core.columns.uid.tolist() == [3]
    assert core.info.left_out == {"unreadable": 3}
    assert "entries lost: 3" in core.info.damage


def test_negative_durations_are_shown_as_repairs() -> None:
    event = {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
    core = load_core([event | {"ts": place, "dur": dur} for place, dur in enumerate((-3, 5, -0.5))])
    assert core.columns.dur_ns.tolist() == [0, 5000, 0]
    assert core.info.repairs == {"negative_duration": 2}
    assert core.info.damage == "negative durations counted as zero (2)"


@pytest.mark.parametrize("host", [-9.2e18, 9.2e18, -5.7e14, 3.4e15])
@pytest.mark.parametrize("gpu", [-9.2e18, 0, 9.2e18, -5.7e14, 3.4e15])
def test_traces_whose_clocks_are_as_far_apart_as_can_be(host: float, gpu: float) -> None:
    """Each of half of the events, so that neither is taken for damage."""
    events = []
    for i in range(20):
        at = {"ts": host + 100 * i if i % 2 else 100 * i, "dur": 50}
        common = {"ph": "X", "pid": 1, "tid": 1}
        events += [
            common | at | {"cat": "user_annotation", "name": f"ProfilerStep#{i}", "args": {}},
            common | at | {"cat": "cpu_op", "name": "aten::mm", "args": {}},
            common | at | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": i + 1}},
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": gpu + 100 * i if i % 2 else 100 * i,
             "dur": 50, "args": {"device": 0, "stream": 7, "correlation": i + 1}},
        ]  # fmt: skip
    core = load_core(events)
    lost = 30 * (abs(host) > 1e18) + 10 * (abs(gpu) > 1e18)
    assert core.info.left_out == ({"unreadable": lost} if lost else {})
    c = core.columns
    assert (core.step[c.kind == Kind.Op] >= 0).all()
    assert (c.depth[c.kind == Kind.RuntimeCall] == 1).all()
