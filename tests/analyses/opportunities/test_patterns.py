"""Rules over several ops: each has traces in which it finds its opportunity, and ones in which it must not."""

from __future__ import annotations

import math
from typing import Any

import pytest
from op_patterns import (
    ADD,
    ATTENTION,
    CAST,
    CHANNELS_LAST,
    COLLECTIVE,
    CONTIGUOUS,
    CONV,
    CONVOLUTION,
    DROPOUT,
    FUSED,
    GELU,
    GEMM,
    KT,
    LAYER_NORM,
    MASK,
    MM,
    OTHER,
    PATTERNS,
    PROBABILITIES,
    PRODUCT_1,
    PRODUCT_2,
    READER,
    SCALE,
    SCORES,
    SOFTMAX,
    Op,
    Q,
    trace,
)

from tracelens_graph.analyses.opportunities.opportunities import found_in, opportunities
from tracelens_graph.analyses.opportunities.opportunity import Opportunity
from tracelens_graph.analyses.opportunities.traffic import Sizes, Traffic, chains_in
from tracelens_graph.graph.window import window_of
from tracelens_graph.loading.one import load_core

MUL = ADD._replace(name="aten::mul")


def found(rule: str, *ops: Op, **how: Any) -> list[Opportunity]:
    return [one for one in found_in(window_of(load_core(trace(*ops, **how)))) if one.rule == rule]


@pytest.mark.parametrize("ops", [(ADD, GELU, LAYER_NORM), ATTENTION], ids=["chain", "attention"])
def test_a_row_has_the_users_line_and_the_class_of_the_module(ops: tuple[Op, ...]) -> None:
    rows = [row for row in opportunities(load_core(trace(MM, *ops, MM))).records() if "@Block" in row["id"]]
    assert rows
    assert {(row["line"], row["module"]) for row in rows} == {("model.py(10): forward", "Block")}


def test_a_chain_is_what_one_kernel_could_do() -> None:
    (one,) = found("fusible-chain", MM, ADD, GELU, LAYER_NORM)
    assert one.calls == 4
    assert one.ns == 4 * 300_000
    tensor, weights = 2 * 64 * 512 * 1024, 2 * 2 * 1024
    moved, needed = 7 * tensor + weights, 3 * tensor + weights
    assert one.won_ns == pytest.approx(one.ns * (1 - needed / moved), abs=2)
    assert one.id == "fusible-chain@Block:add..native_layer_normx3-98e1ef5b"


def test_a_result_that_is_given_is_not_read() -> None:
    x, weights = [64, 512, 1024], [1024]
    plain, out = (ADD._replace(name="aten::clamp_min", dims=dims) for dims in ([x, []], [x, [], x]))
    with_out, without = (found("fusible-chain", MM, ADD, one, LAYER_NORM)[0] for one in (out, plain))
    assert with_out.won_ns == without.won_ns
    alpha = ADD._replace(dims=[x, weights, []]), ADD._replace(dims=[x, weights, [], x])
    assert len({found("fusible-chain", MM, GELU, one, LAYER_NORM)[0].won_ns for one in alpha}) == 1


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param((ADD, MM, GELU, MM, LAYER_NORM), id="products between"),
        pytest.param((MM, ADD, GELU), id="two ops"),
        pytest.param(
            [one._replace(dims=[[n, 512, 1024]] * len(one.dims)) for n, one in enumerate((ADD, GELU, DROPOUT), 3)],
            id="other sizes",
        ),
        pytest.param(
            [MM, *[one._replace(kernel="triton_poi_fused_add_gelu_0") for one in (ADD, GELU, DROPOUT)]], id="compiled"
        ),
        pytest.param((MM, ADD, ADD._replace(name="mylib::add"), GELU), id="another library"),
        pytest.param((LAYER_NORM, LAYER_NORM, LAYER_NORM), id="normalisations"),
        pytest.param([MUL, MUL, MUL, MUL, MM], id="a loop of one op"),
        pytest.param([one._replace(us=0.3) for one in (ADD, GELU, DROPOUT)] + [MM], id="little time"),
    ],
)
def test_no_chain(ops: list[Op]) -> None:
    assert not found("fusible-chain", *ops)


def in_ranges(cat: str, *names: str) -> list[Opportunity]:
    """Chains in a trace in which each of so many ops lies in a range of its own."""
    events = trace(MM, ADD, MUL, GELU, DROPOUT)
    ops = [one for one in events if one.get("cat") == "cpu_op" and one["name"] not in ("aten::mm", "aten::matmul")]
    ranges = [one | {"cat": cat, "name": names[n % len(names)], "args": {}} for n, one in enumerate(ops)]
    for one in ranges:
        one["ts"], one["dur"] = one["ts"] - 0.2, one["dur"] + 0.4
    return [one for one in found_in(window_of(load_core([*events, *ranges]))) if one.rule == "fusible-chain"]


@pytest.mark.parametrize(("cat", "name"), [("user_annotation", "part"), ("cpu_op", "Torch-Compiled Region: 0/0")])
def test_a_chain_ends_with_its_annotation_and_is_none_in_what_is_compiled(cat: str, name: str) -> None:
    assert not in_ranges(cat, name)
    assert in_ranges("cpu_op", "mine")


def test_parameters_of_an_optimizer_are_no_chain() -> None:
    step = [
        ADD._replace(name="aten::add_", dims=[size, size, []]) for size in ([512, 512], [512, 512], [64, 64]) * 3
    ]  # fmt: skip
    assert len(chains_in([traffic(one) for one in step])) > 0
    assert not [one for one in chains_in([traffic(one) for one in step], True) if len(one.places) > 2]


def traffic(op: Op) -> Traffic:
    reads = tuple(Sizes(math.prod(one), 32, tuple(one)) for one in op.dims if one)
    return Traffic(reads, reads[0], name=op.name)


def test_ids_of_chains_of_other_ops_differ() -> None:
    ids = [found("fusible-chain", MM, ADD, one, GELU, DROPOUT)[0].id for one in (MUL, ADD._replace(name="aten::sub"))]
    assert ids[0] != ids[1]


def test_chains_of_queries_and_of_keys_are_two() -> None:
    rotate = (
        Op("aten::mul", [Q, [1, 512, 64]]), Op("aten::neg", [[128, 512, 32]]),
        Op("aten::cat", [[[128, 512, 32], [128, 512, 32]], []], types=["TensorList", "Scalar"]),
        Op("aten::mul", [Q, [1, 512, 64]]), Op("aten::add", [Q, Q, []]),
    )  # fmt: skip
    (one,) = found("fusible-chain", MM, *rotate, *rotate)
    assert one.calls == 8
    assert len(one.evidence["ops"].split(", ")) == 5


def test_eager_attention() -> None:
    (one,) = found("eager-attention", MM, *ATTENTION, MM)
    assert one.id == "eager-attention@Block"
    assert one.calls == 4
    assert one.ns == 4 * 500_000
    # All that the scaling and the softmax move are scores, and of the masking all but the mask.
    assert one.won_ns == pytest.approx(4 * 100_000 * (2 + 256 / 257), rel=1e-6)
    assert one.advice == ("flash_attention",)
    assert one.evidence["score_bytes"] == 2 * 128 * 512 * 512


@pytest.mark.parametrize(
    "between",
    [
        pytest.param((PROBABILITIES._replace(module="Softmax"), DROPOUT._replace(module="Dropout")), id="modules"),
        pytest.param((Op("aten::index", [[225, 16], [4096]], "index_elementwise_kernel"), PROBABILITIES), id="bias"),
        pytest.param((Op("aten::where", [[512, 512], SCORES, []]), PROBABILITIES), id="mask"),
        pytest.param((Op("aten::_softmax", [], SOFTMAX),), id="sizes not recorded"),
    ],
)
def test_eager_attention_with_other_ops_between(between: tuple[Op, ...]) -> None:
    assert len(found("eager-attention", MM, PRODUCT_1, *between, PRODUCT_2)) == 1


def test_copies_for_the_products_of_attention_are_saved_with_it() -> None:
    copy = Op("aten::copy_", [Q, Q, []])
    events = trace(MM, copy, copy, PRODUCT_1, SCALE, PROBABILITIES, copy, PRODUCT_2, copy, MM)
    (one,) = (one for one in found_in(window_of(load_core(events))) if one.rule in PATTERNS)
    assert one.rule == "eager-attention"
    assert (one.ns, one.won_ns) == (4 * 800_000, 4 * 600_000)


def test_attention_again_and_again_is_counted_once() -> None:
    (one,) = found("eager-attention", *ATTENTION, *ATTENTION)
    assert (one.calls, one.ns) == (8, 8 * 500_000)


def test_the_math_backend_of_attention_is_named() -> None:
    events = trace(MM, *ATTENTION)
    for one in [one for one in events if one["name"] == "aten::div"]:
        events.append(one | {"name": "aten::_scaled_dot_product_attention_math", "dur": 38, "args": {}})
        events[-1]["ts"] -= 0.2
    (one,) = (one for one in found_in(window_of(load_core(events))) if one.rule == "eager-attention")
    assert one.advice == ("attention_backend",)


def test_eager_attention_is_no_chain_and_no_copy_beside() -> None:
    upcast = Op("aten::copy_", [SCORES, SCORES, []], types=["float", "c10::BFloat16", "Scalar"])
    ops = (PRODUCT_1, SCALE, MASK, upcast, PROBABILITIES, CONTIGUOUS._replace(dims=[SCORES, SCORES, []]), PRODUCT_2)
    rules = {one.rule for one in found_in(window_of(load_core(trace(*ops))))}
    assert "eager-attention" in rules
    assert not rules & {"fusible-chain", "copies-around"}


def test_the_gradient_of_attention_counts_with_it() -> None:
    of_product = {"backward_of": "aten::bmm", "node": "BmmBackward0"}
    of_softmax = {"backward_of": "aten::_softmax", "node": "SoftmaxBackward0"}
    of_scale = {"backward_of": "aten::div", "node": "DivBackward0"}
    gradient = (
        Op("aten::bmm", [KT, Q], GEMM, **of_product), Op("aten::bmm", [Q, KT], GEMM, **of_product),
        Op("aten::_softmax_backward_data", [SCORES, SCORES, [], []], SOFTMAX.replace("forward", "backward"),
           **of_softmax),
        SCALE._replace(**of_scale), PRODUCT_2._replace(**of_product),
        Op("aten::bmm", [KT, SCORES], GEMM, **of_product),
    )  # fmt: skip
    (one,) = found("eager-attention", MM, *ATTENTION, MM, *gradient, MM)
    assert one.module == "Block"
    assert (one.evidence["forward"], one.evidence["backward"]) == (4, 4)
    assert one.ns == 4 * 1_100_000


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param((FUSED,), id="fused"),
        pytest.param((MM, PROBABILITIES, MM), id="products of matrices, such as a router"),
        pytest.param((PRODUCT_1, PROBABILITIES._replace(name="aten::_log_softmax"), PRODUCT_2), id="a loss"),
        pytest.param((PRODUCT_1, PROBABILITIES, MM, PRODUCT_2), id="another product between"),
        pytest.param((PRODUCT_1, PRODUCT_1, SCALE, PROBABILITIES, PRODUCT_2), id="scores of two products"),
        pytest.param((PRODUCT_1, PROBABILITIES._replace(dims=[[128, 100, 10], [], []]), PRODUCT_2), id="other sizes"),
    ],
)
def test_no_eager_attention(ops: tuple[Op, ...]) -> None:
    assert not found("eager-attention", *ops)


@pytest.mark.parametrize(
    ("ops", "name", "advice"),
    [
        pytest.param((CAST, MM), "mm.cast", "keep_dtype", id="weights cast in each call"),
        pytest.param((CONTIGUOUS, CONTIGUOUS, FUSED), "_flash_attention_forward.layout", "keep_layout", id="layout"),
        pytest.param(
            (CONTIGUOUS._replace(strides=[[524288, 32768, 64, 1], [131072, 0, 64, 1], []]), FUSED),
            "_flash_attention_forward.repeat", "grouped_queries", id="repeated keys",
        ),
        pytest.param((FUSED, CONTIGUOUS), "_flash_attention_forward.layout", "keep_layout", id="behind it"),
        pytest.param((CONV,), "convolution.transpose", "channels_last", id="convolution"),
    ],
)  # fmt: skip
def test_copies_around_an_op(ops: tuple[Op, ...], name: str, advice: str) -> None:
    (one,) = found("copies-around", *ops)
    assert one.id == f"copies-around@Block:{name}"
    assert one.advice == (advice,)
    assert one.ns == one.won_ns == 4 * 100_000 * max(1, len(ops) - 1)


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param((CAST, GELU, MM), id="not right before"),
        pytest.param((CAST._replace(dims=[[10, 10], [10, 10], []]), MM), id="other sizes"),
        pytest.param((CAST._replace(module="Other"), ADD, MM), id="for another op"),
        pytest.param((CONV._replace(strides=CHANNELS_LAST),), id="channels_last already"),
        pytest.param((CONV._replace(kernel=CONVOLUTION),), id="no change of layout"),
    ],
)
def test_no_copies_around_an_op(ops: tuple[Op, ...]) -> None:
    assert not found("copies-around", *ops)


def test_a_collective_holds_up_work_that_does_not_read_its_result() -> None:
    (one,) = found("overlappable-collective", COLLECTIVE._replace(us=250), OTHER, OTHER, READER)
    assert one.id == "overlappable-collective@Block:all_reduce"
    assert one.won_ns == 4 * 200_000  # the work behind it, which is shorter than the collective
    assert one.advice == ("async_collective",)


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param((COLLECTIVE, READER, OTHER), id="read at once"),
        pytest.param((COLLECTIVE, OTHER, OTHER), id="nobody is seen to read it"),
        pytest.param((COLLECTIVE, OTHER._replace(dims=[[1024, 1024], [1024, 300]]), READER), id="may read a part"),
        pytest.param((COLLECTIVE, OTHER._replace(dims=[]), READER), id="sizes not recorded"),
        pytest.param((COLLECTIVE, OTHER._replace(dims=[[[10, 10], [10, 10]]]), READER), id="reads lists"),
    ],
)
def test_a_collective_that_cannot_overlap(ops: tuple[Op, ...]) -> None:
    assert not found("overlappable-collective", *ops)


def test_the_state_of_an_optimizer_is_written() -> None:
    """Adagrad: 12 times the parameter are moved, 7 have to be: the sum, the gradient and the parameter, two written."""
    one = Sizes(1000, 32)
    run = [Traffic((one,) * 3, one, name="aten::addcmul_"), Traffic((one,), one, name="aten::sqrt"),
           Traffic((one,), one, name="aten::add_"), Traffic((one,) * 3, one, name="aten::addcdiv_")]  # fmt: skip
    (chain,) = chains_in(run, is_optimizer=True)
    assert (chain.moved, chain.needed) == (12 * one.bytes, 7 * one.bytes)
