"""Convolutions: hand-computed costs of every form, the rows of the reference tables, and what must always hold."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_costs import BF16, FP32, Family, call

from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.families.convolution import Geometry, convolution, forward_call
from tracelens_graph.perf.model import CallContext

FAMILY = Family("convolution")

X, W, OUT = (4, 6, 9, 8), (10, 3, 3, 2), (4, 10, 5, 7)
"""Two groups, stride (2, 1), padding (1, 0): (9 + 2 - 3) // 2 + 1 = 5 by (8 - 2) // 1 + 1 = 7."""
SETTINGS = ("[2, 1]", "[1, 0]", "[1, 1]", "False", "[0, 0]", "2")
MULTIPLY_ADDS = 3 * 3 * 2 * (4 * 10 * 5 * 7)
XS, WS, OUTS = prod(X), prod(W), prod(OUT)


def forward(*arguments: object, dtype: str = BF16):  # type: ignore[no-untyped-def]
    return FAMILY.cost("aten::convolution", (dtype, X), (dtype, W), *arguments)


def backward(mask: str, grad: tuple[object, ...] = (BF16, OUT), bias_sizes: str | None = "[10]"):  # type: ignore[no-untyped-def]
    return FAMILY.cost("aten::convolution_backward", grad, (BF16, X), (BF16, W), bias_sizes, *SETTINGS, mask)


def test_forward() -> None:
    cost = forward(None, *SETTINGS)
    assert (cost.flops, cost.bytes, cost.compute_spec) == (2 * MULTIPLY_ADDS, 2 * (XS + WS + OUTS), "matrix_bf16")
    assert cost.params["groups"] == 2
    assert cost.params["stride"] == (2, 1)


def test_settings_in_other_spellings() -> None:
    """Tuples of Python and plain JSON, as those write who are not PyTorch."""
    sizes = json.dumps([X, W]), json.dumps([BF16, BF16])
    written = forward(None, *SETTINGS)
    for settings in (
        ["(2,1)", "(1, 0)", "(1,1)", "False", "(0, 0)", "2"], [[2, 1], [1, 0], [1, 1], False, [0, 0], 2],
        ["(2, 1,)", "[1,0]", " ( 1 , 1 ) ", "false", "()", "2"],
    ):  # fmt: skip
        arguments = Arguments(*sizes, "", json.dumps([None, "", None, *settings]))
        assert forward_call(arguments, CallContext()) == replace(written, params={**written.params, **NO_STRIDES})


NO_STRIDES = {"input_stride": None, "weight_stride": None}


def test_the_bias_is_the_third_of_nine_arguments() -> None:
    cost = forward((BF16, (10,)), *SETTINGS)
    assert (cost.flops, cost.bytes) == (2 * MULTIPLY_ADDS + OUTS, 2 * (XS + WS + OUTS + 10))
    assert cost.params["bias"] is True
    assert forward(None, *SETTINGS).params["bias"] is False


@pytest.mark.parametrize(
    ("mask", "flops", "numbers"),
    [
        ("[True, True, False]", 4 * MULTIPLY_ADDS, 2 * (XS + WS + OUTS)),
        ("[True, False, False]", 2 * MULTIPLY_ADDS, XS + WS + OUTS),
        ("[False, True, False]", 2 * MULTIPLY_ADDS, XS + WS + OUTS),
        ("[False, False, True]", OUTS, OUTS + 10),
        ("[True, True, True]", 4 * MULTIPLY_ADDS + OUTS, 2 * (XS + WS + OUTS) + OUTS + 10),
    ],
)
def test_backward_counts_the_gradients_that_are_asked_for(mask: str, flops: int, numbers: int) -> None:
    cost = backward(mask)
    assert (cost.flops, cost.bytes) == (flops, 2 * numbers)
    assert cost.params["bias"] == mask.endswith("True]")


def test_an_expanded_gradient_is_read_once() -> None:
    """The gradient of a sum is one number, expanded."""
    cost = backward("[False, True, False]", (BF16, OUT, (0, 0, 0, 0)))
    assert cost.bytes == 2 * (1 + XS + WS)


def test_backward_of_a_forward_call() -> None:
    estimate = FAMILY.models["aten::convolution"].backward
    assert estimate is not None
    without = estimate(call((BF16, X), (BF16, W), None, *SETTINGS), CallContext())
    assert (without.flops, without.bytes) == (4 * MULTIPLY_ADDS, 4 * (XS + WS + OUTS))
    with_bias = estimate(call((BF16, X), (BF16, W), (BF16, (10,)), *SETTINGS), CallContext())
    assert with_bias.flops == without.flops + OUTS


def test_transposed_with_groups() -> None:
    """Filters of a transposed convolution are (channels in, channels out / groups, …)."""
    x, w = (2, 6, 5), (6, 4, 3)
    cost = FAMILY.cost("aten::convolution", (FP32, x), (FP32, w), (FP32, (8,)), "[2]", "[1]", "[1]", "True", "[1]", "2")
    out = (2, 8, (5 - 1) * 2 - 2 + 2 + 1 + 1)
    assert Geometry(x, w, (2,), (1,), (1,), (1,), transposed=True, groups=2).out == out
    assert cost.flops == 2 * prod(x) * 4 * 3 + prod(out)
    assert cost.bytes == 4 * (prod(x) + prod(w) + prod(out) + 8)


def test_three_dimensions_dilated_with_one_setting_for_all() -> None:
    geometry = Geometry((1, 2, 9, 9, 9), (4, 2, 3, 3, 3), stride=(1,), padding=(2,), dilation=(2,))
    assert geometry.out == (1, 4, 9, 9, 9)
    assert convolution(geometry).flops == 2 * (2 * 27) * (4 * 9**3)
    assert convolution(geometry).params["convNd"] == "conv3d"


def test_apex_takes_padding_before_stride() -> None:
    arguments = ((BF16, (1, 3, 8, 8)), (BF16, (4, 3, 3, 3)), (BF16, (1, 4, 1, 1)), 0, 2)
    out = 4 * 3 * 3
    cost = FAMILY.cost("ConvBiasReLU_", *arguments)
    assert (cost.flops, cost.bytes) == (2 * 27 * out + out, 2 * (192 + 108 + out + 4))
    back = FAMILY.models["ConvBiasReLU_Backward"].estimate(
        call((BF16, (1, 4, 3, 3))), CallContext(forward=call(*arguments))
    )
    assert (back.flops, back.bytes) == (4 * 27 * out + out, 2 * (2 * (192 + 108 + out) + out + 4))
    with pytest.raises(CannotModel, match="forward op"):
        FAMILY.models["ConvBiasReLU_Backward"].estimate(call((BF16, (1, 4, 3, 3))), CallContext())


def test_float32_runs_as_tf32_where_the_kernel_says_so() -> None:
    kernel = "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw"
    arguments = ((FP32, X), (FP32, W), None, *SETTINGS)
    assert FAMILY.cost("aten::convolution", *arguments, kernels=(kernel,)).compute_spec == "matrix_tf32"
    assert FAMILY.cost("aten::convolution", *arguments).compute_spec == "matrix_fp32"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (("[2, 1]", "[1, 0]", "[1, 1]", "__import__('os').abort()", "[0, 0]", "2"), "transposed"),
        (("[2, 1]", "[1, 0]", "[1, 1]", "False", "[0, 0]", "many"), "groups"),
        (("[2, 1]", "[1, 0]", "[1, 1]", "False", "[0, 0]", "1"), "channels"),
        (("[0, 1]", "[1, 0]", "[1, 1]", "False", "[0, 0]", "2"), "settings"),
        (("[2, 1, 1]", "[1, 0]", "[1, 1]", "False", "[0, 0]", "2"), "settings"),
        (("same", "[1, 0]", "[1, 1]", "False", "[0, 0]", "2"), "whole numbers"),
        (("[2, 1]", "[1, 0]", "[90, 1]", "False", "[0, 0]", "2"), "do not fit"),
    ],
)
def test_what_does_not_fit_has_no_cost(settings: tuple[str, ...], why: str) -> None:
    with pytest.raises(CannotModel, match=why):
        forward(None, *settings)


sides = st.integers(1, 12)
settings = st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(1, 3))


@given(sides, st.integers(1, 4), settings)
def test_the_result_has_a_number_per_position_of_the_filter(
    size: int, kernel: int, setting: tuple[int, int, int]
) -> None:
    stride, padding, dilation = setting
    geometry = Geometry((1, 1, size), (1, 1, kernel), (stride,), (padding,), (dilation,))
    starts = range(-padding, size + padding, stride)
    positions = sum(start + dilation * (kernel - 1) < size + padding for start in starts)
    if positions:
        assert geometry.out == (1, 1, positions)
        extra = (size + 2 * padding - dilation * (kernel - 1) - 1) % stride
        back = Geometry(
            (1, 1, positions), (1, 1, kernel), (stride,), (padding,), (dilation,), (extra,), transposed=True
        )
        assert back.out == geometry.x
        assert back.multiply_adds == geometry.multiply_adds


test_hostile_arguments = FAMILY.hostile(
    [
        ("aten::convolution", ((BF16, X), (BF16, W), (BF16, (10,)), *SETTINGS)),
        ("aten::convolution_backward", ((BF16, OUT), (BF16, X), (BF16, W), "[10]", *SETTINGS, "[True, True, True]")),
        ("ConvBias_", ((BF16, (1, 3, 8, 8)), (BF16, (4, 3, 3, 3)), (BF16, (4,)), 0, 2)),
        ("ConvBias_Backward", ((BF16, (1, 3, 8, 8)), (BF16, (4, 3, 3, 3)), (BF16, (4,)), 0, 2)),
    ],
)
