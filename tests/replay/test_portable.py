"""Calls of one vendor's libraries as operations that run everywhere, and the settings that a trace shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from handmade import span
from msgspec.structs import replace
from recorded_calls import NOTHING, call, listed, scalar, tensor, tensors

from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.plan_json import plan_from_json
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.portable import as_recorded, portable
from tracelens_graph.replay.replay_plan import ReplayPlan, Traced

HALF = "c10::Half"
IMAGE, KERNEL = tensor(2, 8, 16, 16, dtype=HALF, strides=(2048, 1, 128, 8)), tensor(4, 8, 3, 3, dtype=HALF)
ONES, ZEROS = listed("[1, 1]"), listed("[0, 0]")
YES, NO = scalar("True"), scalar("False")
CHANNELS = tensor(8)
XMMA = "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x8_kernel"
HEADS = tensor(2, 16, 4, 8, dtype=HALF)


def converted(op: str, *arguments: Any, kernels: tuple[str, ...] = (), events: Any = ()) -> ReplayPlan:
    """The portable plan of a call in a trace of these events."""
    plan = plan_of(call(op, *arguments))
    return portable(replace(plan, traced=Traced(kernels=kernels)), load_core({"traceEvents": list(events)}))


@pytest.mark.parametrize(
    ("op", "arguments", "told", "given"),
    [
        ("miopen_convolution", (IMAGE, KERNEL, NOTHING, ONES, ONES, ONES, scalar("1"), YES, NO),
         "aten::convolution", {"padding": (1, 1), "transposed": False, "output_padding": (0, 0), "groups": 1}),
        ("cudnn_convolution", (IMAGE, KERNEL, ZEROS, ONES, ONES, scalar("1"), NO, NO, YES),
         "aten::convolution", {"bias": None, "padding": (0, 0), "transposed": False}),
        ("cudnn_convolution_transpose", (IMAGE, KERNEL, ONES, ZEROS, ONES, ONES, scalar("1"), NO, NO, YES),
         "aten::convolution", {"transposed": True, "output_padding": (0, 0), "padding": (1, 1)}),
        ("_conv_depthwise2d", (IMAGE, tensor(8, 1, 3, 3, dtype=HALF), listed("[3, 3]"), NOTHING, ONES, ONES, ONES),
         "aten::convolution", {"groups": 8}),
        ("cudnn_batch_norm", (tensor(2, 8, 4, 4), CHANNELS, CHANNELS, CHANNELS, CHANNELS, YES, scalar("0.1"),
                              scalar("1e-05")),
         "aten::batch_norm", {"training": True, "momentum": 0.1, "eps": 1e-5, "cudnn_enabled": True}),
        ("miopen_batch_norm_backward", (tensor(2, 8, 4, 4), tensor(2, 8, 4, 4), CHANNELS, CHANNELS, CHANNELS, CHANNELS,
                                        CHANNELS, scalar("1e-05")),
         "aten::batch_norm", {"training": True, "eps": 1e-5, "cudnn_enabled": True}),
        ("_scaled_dot_product_efficient_attention", (HEADS, HEADS, HEADS, NOTHING, NO, scalar("0.5"), YES, NOTHING),
         "aten::scaled_dot_product_attention", {"dropout_p": 0.5, "is_causal": True, "enable_gqa": False}),
        ("miopen_rnn", (tensor(5, 2, 3), tensors((16, 3), (16, 4), (16,), (16,)), scalar("4"), tensor(1, 2, 4),
                        tensor(1, 2, 4), scalar("2"), scalar("4"), scalar("1"), NO, scalar("0."), YES, NO, listed("[]"),
                        NOTHING),
         "aten::lstm", {"has_biases": True, "num_layers": 1, "train": True, "batch_first": False}),
    ],
)  # fmt: skip
def test_what_stands_for_calls_of_libraries(op: str, arguments: Any, told: str, given: dict[str, Any]) -> None:
    plan = converted(op, *arguments)
    by_name = {one.name: one.value for one in plan.arguments}
    assert (plan.op, plan.traced.within) == (told, f"aten::{op}")
    assert {name: by_name[name] for name in given} == given
    assert plan.about.startswith(f"aten::{op}:" if plan.gradient else f"{told}:")
    assert (f"call of aten::{op}" in plan.about) != bool(plan.gradient)
    assert plan.gradient or plan.recorded == as_recorded(list(plan.arguments))


FLASH = (scalar("16"), scalar("16"), scalar("0."), YES, tensor(2, dtype="long"), NOTHING)


@pytest.mark.parametrize(
    ("op", "arguments", "called", "given"),
    [
        ("_flash_attention_backward", (HEADS, HEADS, HEADS, HEADS, HEADS, tensor(2, 4, 16), NOTHING, NOTHING, *FLASH,
                                       NOTHING, NOTHING, NOTHING),
         "torch.autograd.grad(results, [query, key, value], [grad_0], retain_graph=True)", [(2, 4, 16, 8)]),
        ("_scaled_dot_product_flash_attention_backward", (HEADS, HEADS, HEADS, HEADS, HEADS, tensor(2, 16, 4), NOTHING,
                                                          NOTHING, *FLASH, NOTHING),
         "torch.autograd.grad(results, [query, key, value], [grad_0], retain_graph=True)", [(2, 16, 4, 8)]),
        ("native_batch_norm_backward", (tensor(2, 8, 4, 4), tensor(2, 8, 4, 4), *[CHANNELS] * 5, YES, scalar("1e-05"),
                                        listed("[True, True, True]")),
         "torch.autograd.grad([results[0]], [input, weight, bias], [grad_0], retain_graph=True)", [(2, 8, 4, 4)]),
        ("miopen_rnn_backward", (tensor(5, 2, 3), tensors((16, 3), (16, 4), (16,), (16,)), scalar("4"), tensor(144),
                                 tensor(1, 2, 4), tensor(1, 2, 4), tensor(5, 2, 4), tensor(5, 2, 4), NOTHING, NOTHING,
                                 scalar("2"), scalar("4"), scalar("1"), NO, scalar("0."), YES, NO, listed("[]"),
                                 NOTHING, tensor(9), listed("[True, True, True, True]")),
         "torch.autograd.grad([results[0]], [input, *hx, *params], [grad_0], retain_graph=True)", [(5, 2, 4)]),
    ],
)  # fmt: skip
def test_gradients_of_libraries_are_those_of_public_operations(
    op: str, arguments: Any, called: str, given: list[tuple[int, ...]]
) -> None:
    plan = converted(op, *arguments)
    assert f"return [], lambda: {called}" in " ".join(plan.script().split())
    assert (plan.name, [one.shape for one in plan.gradient if one]) == (f"aten::{op}", given)
    assert plan_from_json(json.loads(json.dumps(plan.json()))).gradient == plan.gradient
    assert plan.recorded == plan_of(call(op, *arguments)).recorded


def test_the_layout_is_kept_and_flags_are_settings() -> None:
    plan = converted("miopen_convolution", IMAGE, KERNEL, NOTHING, ONES, ONES, ONES, scalar("1"), YES, YES)
    assert plan.positional[0].value.strides == (2048, 1, 128, 8)
    assert plan.recorded.strides[0] == (2048, 1, 128, 8)
    assert plan.recorded.values[3:] == ("[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1")
    assert plan.recorded.types[:2] == (HALF, HALF)
    assert plan.modes == ("cudnn.benchmark=True", "cudnn.deterministic=True")


def test_heads_and_tokens_change_places() -> None:
    flash = (HEADS, tensor(2, 32, 2, 8, dtype=HALF), tensor(2, 32, 2, 8, dtype=HALF))
    values = (scalar("16"), scalar("32"), scalar("0."), YES, NO, scalar("0.25"), NOTHING, NOTHING, NOTHING, NOTHING)
    plan = converted("_flash_attention_forward", *flash, NOTHING, NOTHING, *values)
    query, key = (plan.positional[at].value for at in (0, 1))
    assert (query.shape, query.strides) == ((2, 4, 16, 8), (512, 8, 32, 1))
    assert key.shape == (2, 2, 32, 8)
    assert {one.name: one.value for one in plan.keyword} == {"scale": 0.25, "enable_gqa": True}
    packed = tensor(5, dtype="int")
    assert converted("_flash_attention_forward", *flash, packed, packed, *values).op == "aten::_flash_attention_forward"


@pytest.mark.parametrize(
    ("dtype", "kernel", "modes"),
    [
        ("float", "ampere_sgemm_128x64_nn", ()),
        ("float", XMMA, ("cuda.matmul.allow_tf32=True",)),
        ("float", "Cijk_Ailk_Bljk_S_MX_B_Bias_HAS_SAV_UserArgs_MT64x32x128", ("cuda.matmul.allow_tf32=True",)),
        ("float", "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(Params)",
         ("cuda.matmul.allow_tf32=True",)),
        (HALF, XMMA, ()),
    ],
)  # fmt: skip
def test_a_kernel_shows_that_products_are_rounded(dtype: str, kernel: str, modes: tuple[str, ...]) -> None:
    matrix = tensor(8, 8, dtype=dtype)
    assert converted("mm", matrix, matrix, kernels=(kernel,)).modes == modes


def test_gradients_have_the_flags_of_all_convolutions_of_the_trace() -> None:
    def convolution(benchmark: str) -> dict[str, Any]:
        made = (IMAGE, KERNEL, NOTHING, ONES, ONES, ONES, NO, ZEROS, scalar("1"), scalar(benchmark), NO, YES, NO)
        dims, types, strides, values = zip(*made, strict=True)
        return span(
            "cpu_op", "aten::_convolution", 10, 5, Input_Dims=dims, Input_type=types, Input_Strides=strides,
            Concrete_Inputs=values,
        )  # fmt: skip

    backward = (tensor(2, 4, 16, 16), tensor(2, 8, 16, 16), tensor(4, 8, 3, 3), listed("[0]"), ONES, ONES, ONES, NO,
                ZEROS, scalar("1"), listed("[True, True, False]"))  # fmt: skip
    found = converted("convolution_backward", *backward, events=(convolution("True"),))
    assert found.modes == ("cudnn.benchmark=True", "cudnn.allow_tf32=False")
    assert found.traced.within == ""
    both = (convolution("True"), convolution("False"))
    assert converted("convolution_backward", *backward, events=both).modes == ("cudnn.allow_tf32=False",)
