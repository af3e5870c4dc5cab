"""Calls at other sizes."""

from __future__ import annotations

import pytest
from recorded_calls import calls, listed, tensor

from tracelens_graph.errors import AnalysisError
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.planned import Estimates, Plans
from tracelens_graph.replay.replay_plan import Recorded, TensorValue
from tracelens_graph.replay.signatures import named
from tracelens_graph.replay.sweep import Sweep, _resized, swept


def shapes(text: str, op: str = "aten::mm") -> list[list[tuple[int, ...]]]:
    core = load_core(calls())
    plans = Plans(named(core.everything, op))
    found = swept(plans, 0, Sweep.parsed(text), Estimates(core.everything))
    return [[one.value.shape for one in plan.arguments if isinstance(one.value, TensorValue)] for plan in found]


def test_one_size_changes_in_all_arguments_and_the_traced_one_stays_first() -> None:
    assert shapes("batch=1,8,32") == [[(8, 16), (16, 4)], [(1, 16), (16, 4)], [(32, 16), (16, 4)]]
    assert shapes("16=2") == [[(8, 2), (2, 4)]]


def test_sizes_that_the_trace_does_not_have_count_no_calls_and_say_so() -> None:
    core = load_core(calls())
    plans = Plans(named(core.everything, "aten::mm"))
    traced, other = swept(plans, 0, Sweep.parsed("batch=8,2"), Estimates(core.everything))
    assert (traced.traced.calls, other.traced.calls) == (2, 0)
    assert other.notes == ("a sweep: 2 stands where the trace has 8",)
    assert (other.recorded.dims, other.recorded.strides) == (((2, 16), (16, 4)), ((16, 1), (4, 1)))


@pytest.mark.parametrize(
    ("strides", "now"),
    [((8, 1), (2, 1)), ((1, 4), (1, 4)), ((10, 1), (4, 1)), ((0, 1), (0, 1)), ((1, 6), (1, 6))],
    ids=["dense", "transposed", "with gaps", "expanded", "transposed with gaps"],
)
def test_strides(strides: tuple[int, int], now: tuple[int, int]) -> None:
    dims, kind, steps, value = tensor(4, 8, strides=strides)
    assert _resized(Recorded((dims,), (kind,), (steps,), (value,)), 8, 2).strides == (now,)


def test_lists_of_sizes_change_too() -> None:
    parts = zip(tensor(4, 8), listed("[8, 4]"), strict=True)
    assert _resized(Recorded(*parts), 8, 2).values == ("", "[2, 4]")


@pytest.mark.parametrize(
    "text", ["", "batch", "batch=", "batch=0", "batch=a", "0=1", f"batch={','.join(map(str, range(1, 70)))}"]
)
def test_what_is_no_sweep_is_refused(text: str) -> None:
    with pytest.raises(AnalysisError, match="is no sweep"):
        Sweep.parsed(text)


def test_a_size_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(AnalysisError, match="has no size 77; its sizes are 8, 16, 4"):
        shapes("77=1")
