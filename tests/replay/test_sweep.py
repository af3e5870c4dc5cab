"""Calls at other sizes."""

from __future__ import annotations

import pytest
from recorded_calls import call, calls, listed, scalar, tensor, tensors

from tracelens_graph.errors import AnalysisError
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.calls import Call
from tracelens_graph.replay.choosing import choose
from tracelens_graph.replay.planned import Estimates, Plans
from tracelens_graph.replay.replay_plan import Recorded, TensorValue
from tracelens_graph.replay.signatures import named
from tracelens_graph.replay.sweep import Sweep, _resized, _size, swept


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
    made = Call("aten::relu", Recorded((dims,), (kind,), (steps,), (value,)))
    assert _resized(made, choose(made).parameters, 8, 2).strides == (now,)


def resized(made: Call, size: int, value: int) -> Recorded:
    return _resized(made, choose(made).parameters, size, value)


def test_sizes_among_numbers_and_lists_change_too_and_other_numbers_do_not() -> None:
    assert resized(call("view", tensor(4, 8), listed("[8, 4]")), 8, 2).values == ("", "[2, 4]")
    backward = call(
        "embedding_dense_backward", tensor(4, 8), tensor(4, dtype="long int"), scalar("8"), scalar("8"), scalar("False")
    )
    assert resized(backward, 8, 2).values == ("", "", "2", "8", "False")  # num_weights, not padding_idx
    pooled = call("constant_pad_nd", tensor(2, 2), listed("[1, 2]"), scalar("2"))
    assert resized(pooled, 2, 5).values[2] == "2"
    assert resized(call("cat", tensors((4, 8), (2, 8)), scalar("0")), 8, 3).dims[0] == ((4, 3), (2, 3))
    with pytest.raises(AnalysisError, match=r"8 is part of a size of \[32, 2\]"):
        resized(call("view", tensor(8, 4, 2), listed("[32, 2]")), 8, 3)


def size(made: Call) -> int:
    return _size(made, choose(made).parameters, Sweep.parsed("batch=2"))


def test_the_batch_is_no_size_of_a_bias_or_a_weight() -> None:
    linear = tensor(768), tensor(788, 768), tensor(768, 768), scalar("1"), scalar("1")
    assert size(call("addmm", *linear)) == 788
    indices = tensor(4, 197, dtype="long int")
    embedded = call("embedding", tensor(50, 8), indices, scalar("-1"), scalar("False"), scalar("False"))
    assert size(embedded) == 4


@pytest.mark.parametrize(
    "made",
    [
        call("mm", tensor(768, 788, strides=(1, 768)), tensor(788, 64)),
        call("mm", tensor(64, 64), tensor(64, 8)),
        call("addmm", tensor(8), tensor(8, 16), tensor(16, 8), scalar("1"), scalar("1")),
        call("cat", tensors((4, 8), (2, 8)), scalar("0")),
    ],
    ids=["the gradient of a weight", "equal to the features", "equal to a bias", "lists alone"],
)
def test_a_batch_that_is_not_clear_is_to_be_named(made: Call) -> None:
    with pytest.raises(AnalysisError, match=r"not clear; name the number, as in \d+=64; its sizes are \d"):
        size(made)


@pytest.mark.parametrize(
    "text", ["", "batch", "batch=", "batch=0", "batch=a", "0=1", f"batch={','.join(map(str, range(1, 70)))}"]
)
def test_what_is_no_sweep_is_refused(text: str) -> None:
    with pytest.raises(AnalysisError, match="is no sweep"):
        Sweep.parsed(text)


def test_a_size_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(AnalysisError, match="has no size 77; its sizes are 8, 16, 4"):
        shapes("77=1")
