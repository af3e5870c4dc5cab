"""Calls at other sizes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from recorded_calls import NOTHING, call, calls, listed, scalar, tensor, tensors

from corpus import CORPUS, needs_corpus
from tracelens_graph.errors import AnalysisError
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.calls import Call
from tracelens_graph.replay.choosing import choose
from tracelens_graph.replay.planned import Estimates, Plans
from tracelens_graph.replay.replay_plan import Recorded, TensorValue
from tracelens_graph.replay.signatures import named
from tracelens_graph.replay.sweep import Sweep, _elsewhere, _nested, _places, _resized, swept

GRADIENT = [
    tensor(2, 64, 28, 30), tensor(2, 16, 32, 34), tensor(64, 16, 5, 5), NOTHING, listed("[1, 1]"), listed("[0, 0]"),
    listed("[1, 1]"), scalar("False"), listed("[0, 0]"), scalar("1"), listed("[True, True, False]"),
]  # fmt: skip
"""Arguments of `convolution_backward`."""


def shapes(text: str, op: str = "aten::mm") -> list[list[tuple[int, ...]]]:
    core = load_core(calls())
    plans = Plans(named(core.everything, op))
    found = swept(plans, 0, Sweep.parsed(text), Estimates(core.everything)).plans
    return [[one.value.shape for one in plan.arguments if isinstance(one.value, TensorValue)] for plan in found]


def test_one_size_changes_in_all_arguments_in_the_order_that_was_asked_for() -> None:
    assert shapes("batch=1,8,32") == [[(1, 16), (16, 4)], [(8, 16), (16, 4)], [(32, 16), (16, 4)]]
    assert shapes("16=2") == [[(8, 2), (2, 4)]]


@pytest.mark.parametrize(
    ("op", "given", "place", "tied"),
    [
        ("mm", [tensor(8, 16), tensor(16, 4)], "self.1", ["mat2.0"]),
        ("mm", [tensor(16, 16), tensor(16, 16)], "self.1", ["mat2.0"]),
        ("mm", [tensor(8, 16), tensor(16, 4)], "mat2.1", []),
        ("addmm", [tensor(4), tensor(8, 16), tensor(16, 4), scalar("1"), scalar("1")], "mat2.1", ["self.0"]),
        ("add", [tensor(2, 8, 4), tensor(8, 4), scalar("1")], "other.0", ["self.1"]),
        ("add", [tensor(2, 8, 4), tensor(8, 1), scalar("1")], "self.2", []),
        ("linear", [tensor(2, 8, 16), tensor(4, 16), tensor(4)], "weight.1", ["input.2"]),
        ("convolution_backward", GRADIENT, "weight.0", ["grad_output.1"]),
        ("convolution_backward", GRADIENT, "input.0", ["grad_output.0"]),
        ("cat", [tensors((4, 8), (4, 2)), scalar("-1")], "tensors.0.0", ["tensors.1.0"]),
        ("cat", [tensors((4, 8), (4, 2)), scalar("1")], "tensors.0.1", []),
        (
            "layer_norm",
            [tensor(2, 8, 16), listed("[16]"), tensor(16), tensor(16), scalar("1e-05"), scalar("True")],
            "input.2",
            ["normalized_shape.0", "weight.0", "bias.0"],
        ),
        (
            "native_group_norm_backward",
            [
                tensor(2, 8, 4),
                tensor(2, 8, 4),
                tensor(2, 2),
                tensor(2, 2),
                tensor(8),
                scalar("2"),
                scalar("8"),
                scalar("4"),
                scalar("2"),
                listed("[True, True, True]"),
            ],
            "input.1",
            ["grad_out.1", "weight.0", "C"],
        ),
        (
            "native_batch_norm_backward",
            [
                tensor(2, 8, 4),
                tensor(2, 8, 4),
                tensor(8),
                tensor(8),
                tensor(8),
                tensor(8),
                tensor(8),
                scalar("True"),
                scalar("1e-05"),
                listed("[True, True, True]"),
            ],
            "grad_out.2",
            ["input.2"],
        ),
        (
            "_scaled_dot_product_efficient_attention_backward",
            [
                tensor(2, 4, 64, 16),
                tensor(2, 4, 64, 16),
                tensor(2, 4, 32, 16),
                tensor(2, 4, 32, 16),
                NOTHING,
                tensor(2, 4, 64, 16),
                tensor(2, 4, 64),
                tensor(),
                tensor(),
                scalar("0.0"),
                listed("[True, True, True, False]"),
                scalar("False"),
                NOTHING,
            ],
            "key.2",
            ["value.2"],
        ),
        ("stack", [tensors((4, 8), (4, 8)), scalar("0")], "tensors.1.1", ["tensors.0.1"]),
    ],
)
def test_sizes_that_are_one_change_together(op: str, given: list[Any], place: str, tied: list[str]) -> None:
    made = call(op, *given)
    parameters = choose(made).parameters
    changed = _places(made, parameters, Sweep.parsed(f"{place}=2"))
    if not tied:
        assert _elsewhere(made, parameters, changed) == []
        return
    with pytest.raises(
        AnalysisError, match=f"{', '.join(tied)} (is|are) the same size.*--sweep {place},{','.join(tied)}="
    ):
        _elsewhere(made, parameters, changed)
    together = _places(made, parameters, Sweep.parsed(f"{','.join([place, *tied])}=2"))
    assert _elsewhere(made, parameters, together) == []


def test_of_other_operations_equal_sizes_are_named() -> None:
    made = call("cat", tensors((8, 4), (8, 4)), scalar("0"))
    parameters = choose(made).parameters
    assert _elsewhere(made, parameters, {"tensors.0.0": 8}) == ["tensors.1.0"]


def test_sizes_of_a_gradient_of_a_convolution_follow_from_one_another() -> None:
    made = call("convolution_backward", *GRADIENT)
    parameters = choose(made).parameters
    with pytest.raises(AnalysisError, match="grad_output follow from"):
        _elsewhere(made, parameters, {"input.2": 32})
    assert _elsewhere(made, parameters, {"input.2": 32, "grad_output.2": 28}) == []


@pytest.mark.parametrize("text", ["self.0=2", "0.0=2"], ids=["by name", "by number"])
def test_a_position_changes_alone(text: str) -> None:
    assert shapes(text) == [[(2, 16), (16, 4)]]


def test_several_positions_change_together() -> None:
    assert shapes("0.1,mat2.0=2,16") == [[(8, 2), (2, 4)], [(8, 16), (16, 4)]]


def test_sizes_that_the_trace_does_not_have_count_no_calls_and_say_so() -> None:
    core = load_core(calls())
    plans = Plans(named(core.everything, "aten::mm"))
    found = swept(plans, 0, Sweep.parsed("batch=8,2"), Estimates(core.everything))
    traced, other = found.plans
    assert (dict(found.places), found.doubled) == ({"self.0": 8}, [])
    assert (traced.traced.calls, other.traced.calls) == (2, 0)
    assert other.notes == ("a sweep: self.0 = 2 for 8",)
    assert (traced.work.flops, other.work.flops) == (2 * 8 * 16 * 4, 2 * 2 * 16 * 4)
    assert (other.recorded.dims, other.recorded.strides) == (((2, 16), (16, 4)), ((16, 1), (4, 1)))


@pytest.mark.parametrize(
    ("strides", "now"),
    [((8, 1), (2, 1)), ((1, 4), (1, 4)), ((10, 1), (4, 1)), ((0, 1), (0, 1)), ((1, 6), (1, 6))],
    ids=["dense", "transposed", "with gaps", "expanded", "transposed with gaps"],
)
def test_strides(strides: tuple[int, int], now: tuple[int, int]) -> None:
    dims, kind, steps, value = tensor(4, 8, strides=strides)
    made = Call("aten::relu", Recorded((dims,), (kind,), (steps,), (value,)))
    assert resized(made, 8, 2).strides == (now,)


def resized(made: Call, size: int, value: int) -> Recorded:
    parameters = choose(made).parameters
    return _resized(made, parameters, _places(made, parameters, Sweep((str(size),), (value,))), value)


def test_sizes_among_numbers_and_lists_change_too_and_other_numbers_do_not() -> None:
    assert resized(call("view", tensor(4, 8), listed("[8, 4]")), 8, 2).values == ("", "[2, 4]")
    backward = call(
        "embedding_dense_backward", tensor(4, 8), tensor(4, dtype="long int"), scalar("8"), scalar("8"), scalar("False")
    )
    assert resized(backward, 8, 2).values == ("", "", "2", "8", "False")  # num_weights, not padding_idx
    pooled = call("constant_pad_nd", tensor(2, 2), listed("[1, 2]"), scalar("2"))
    assert resized(pooled, 2, 5).values[2] == "2"
    assert resized(call("cat", tensors((4, 8), (2, 8)), scalar("0")), 8, 3).dims[0] == ((4, 3), (2, 3))
    with pytest.raises(AnalysisError, match=r"a size is part of one of \[32, 2\]"):
        resized(call("view", tensor(8, 4, 2), listed("[32, 2]")), 8, 3)


def places(made: Call, where: str = "batch") -> dict[str, int]:
    return _places(made, choose(made).parameters, Sweep.parsed(f"{where}=2"))


def test_the_batch_is_no_size_of_a_bias_or_a_weight() -> None:
    linear = tensor(768), tensor(788, 768), tensor(768, 768), scalar("1"), scalar("1")
    assert places(call("addmm", *linear)) == {"mat1.0": 788}
    indices = tensor(4, 197, dtype="long int")
    embedded = call("embedding", tensor(50, 8), indices, scalar("-1"), scalar("False"), scalar("False"))
    assert places(embedded) == {"indices.0": 4}


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
    with pytest.raises(AnalysisError, match="not clear; name it.*its sizes are [a-z0-9]+.[0-9.]+="):
        places(made)


def attention(heads: int) -> Call:
    tensors = [tensor(16, 559, heads, 64)] * 3
    numbers = [scalar(one) for one in ("559", "559", "0.", "True", "False", "0.125")]
    absent = ([], "", [], "")
    return call("_flash_attention_forward", *tensors, absent, absent, *numbers, *[absent] * 4)


def test_a_number_of_attention_is_a_size_and_goes_with_the_tensors() -> None:
    tokens = places(attention(12), "559")
    assert tokens == {"query.1": 559, "key.1": 559, "value.1": 559, "max_q": 559, "max_k": 559}
    recorded = _resized(made := attention(12), choose(made).parameters, tokens, 64)
    assert (recorded.dims[0], recorded.values[5:7]) == ((16, 64, 12, 64), ("64", "64"))


def test_as_many_heads_as_sequences_are_not_swept_with_the_batch() -> None:
    assert places(attention(12)) == {"query.0": 16, "key.0": 16, "value.0": 16}
    with pytest.raises(AnalysisError, match=r"not clear; name it, as in query.0,key.0,value.0=1,2: "):
        places(attention(16))
    assert places(attention(16), "query.0,1.0,value.0") == places(attention(12))


@pytest.mark.parametrize(("kind", "text"), [("Scalar", "a"), ("ScalarList", "[1, a]"), ("Device", "cpu"), ("", "")])
def test_what_is_no_number_has_no_position(kind: str, text: str) -> None:
    assert _nested(Recorded(((),), (kind,), ((),), (text,)), 0) == ()


def test_a_number_that_is_no_size_can_be_named() -> None:
    made = call("topk", tensor(4, 8), scalar("8"), scalar("-1"), scalar("True"), scalar("True"))
    assert places(made, "8") == {"self.1": 8}
    assert places(made, "k") == {"k": 8}
    assert resized(made, 8, 2).values[1] == "8"


def test_a_tensor_of_which_several_sizes_change_is_named() -> None:
    core = load_core(calls())
    plans = Plans(named(core.everything, "aten::mm"))
    found = swept(plans, 0, Sweep.parsed("self.0,self.1,mat2.0=2"), Estimates(core.everything))
    assert found.doubled == ["self"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "batch",
        "batch=",
        "batch=0",
        "batch=a",
        "0=1",
        "a..0=1",
        ".0=1",
        "a.0,=1",
        f"batch={','.join(map(str, range(1, 70)))}",
    ],
)
def test_what_is_no_sweep_is_refused(text: str) -> None:
    with pytest.raises(AnalysisError, match="is no sweep"):
        Sweep.parsed(text)


@pytest.mark.parametrize("where", ["77", "mat2.2", "other.0", "5.0"])
def test_a_size_that_is_not_there_is_refused_with_those_that_are(where: str) -> None:
    known = "self.0=8, self.1=16, mat2.0=16, mat2.1=4"
    with pytest.raises(AnalysisError, match=f"has no size {where}; its sizes are {known}"):
        shapes(f"{where}=1")


def test_a_number_that_the_program_does_not_pass_is_refused() -> None:
    """The public operation takes the lengths of sequences from its tensors."""
    recorded, trace = attention(12).recorded, calls()
    names = {"Input Dims": "dims", "Input type": "types", "Input Strides": "strides", "Concrete Inputs": "values"}
    for event in trace["traceEvents"]:
        if event["name"] == "aten::mm":
            event["name"] = "aten::_flash_attention_forward"
            event["args"] |= {name: list(getattr(recorded, part)) for name, part in names.items()}
    core = load_core(trace)
    plans = Plans(named(core.everything, "aten::_flash_attention_forward"))
    with pytest.raises(AnalysisError, match="max_q is no argument of its program"):
        swept(plans, 0, Sweep.parsed("max_q=2"), Estimates(core.everything))
    assert len(swept(plans, 0, Sweep.parsed("query.0,key.0,value.0=2"), Estimates(core.everything)).plans) == 1


@needs_corpus
def test_kernels_of_triton_are_not_swept_and_are_named() -> None:
    w = load_core(str(CORPUS / "tracelens/mi300/torch-compile-triton.json.gz")).everything
    found = Plans(named(w, re.compile("^triton_")))
    with pytest.raises(AnalysisError, match=r"^triton_\w+: only sizes of operations of PyTorch"):
        swept(found, 0, Sweep.parsed("batch=4"), Estimates(w))
