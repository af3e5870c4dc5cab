"""Elementwise operations: unary, binary, gated activations, padding, fills, joins, random numbers."""

from __future__ import annotations

from functools import partial

from tracelens_graph.op_table.entry import ModelSpec, Rows, model, ops

_UNARY, _BINARY = "UnaryElementwise", "BinaryElementwise"

_unary = partial(ops, category="elementwise", sheet=_UNARY, in_tracelens=True)
_binary = partial(ops, category="elementwise", sheet=_BINARY, in_tracelens=True)
_more_unary = partial(ops, sheet=_UNARY)
_more_binary = partial(ops, sheet=_BINARY)


def _gated(flops: int) -> ModelSpec:
    return model("elementwise.gated", tensors=(0, 1), flops=flops)


def _aten(names: str) -> list[str]:
    return [f"aten::{name}" for name in names.split()]


def _in_place(names: str) -> list[str]:
    return [f"aten::{name}_" for name in names.split()]


_SHARED_FUNCTIONS = "neg rsqrt sigmoid silu"
_FUNCTIONS = """abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh digamma elu erf erfc erfinv exp exp2
    expm1 floor frac gelu hardsigmoid hardswish hardtanh leaky_relu lgamma log log10 log1p log2 logical_not logit mish
    nan_to_num reciprocal relu round sgn sign sin sinc sinh softplus sqrt tan tanh trunc"""
_ARITHMETIC = """atan2 bitwise_and bitwise_or bitwise_xor copysign floor_divide fmax fmin fmod hypot logaddexp
    logical_and logical_or logical_xor maximum minimum remainder rsub sub xlogy"""
_COMPARISONS = "eq ge gt le lt ne"
_GRADIENTS = """gelu_backward hardsigmoid_backward hardswish_backward hardtanh_backward leaky_relu_backward
    logit_backward mish_backward native_dropout_backward silu_backward softplus_backward tanh_backward"""
_RANDOM = "bernoulli cauchy exponential geometric log_normal normal random uniform"

OPS: Rows = [
    # --- Functions of one tensor ---------------------------------------------------------------------------------
    *_unary(*_aten("copy copy_"), model=model("elementwise.copy_call")),
    *_unary(*_aten(_SHARED_FUNCTIONS), model=model("elementwise.unary_call")),
    *_more_unary(*_aten(_FUNCTIONS), model=model("elementwise.unary_call")),
    *_more_unary(*_in_place(f"{_SHARED_FUNCTIONS} {_FUNCTIONS}"), model=model("elementwise.unary_call", in_place=True)),
    *_unary(*_aten("clamp_min clamp_max pow"), model=model("elementwise.unary_call", other="operand")),
    *_unary(*_in_place("clamp_min clamp_max"), model=model("elementwise.unary_call", other="operand", in_place=True)),
    *_more_unary("aten::clamp", model=model("elementwise.unary_call", other="operand")),
    *_more_unary(*_in_place("clamp pow"), model=model("elementwise.unary_call", other="operand", in_place=True)),
    # --- Functions of two tensors --------------------------------------------------------------------------------
    *_binary(*_aten("add mul sigmoid_backward threshold_backward"), model=model("elementwise.binary_call")),
    *_binary(*_in_place("add mul div"), model=model("elementwise.binary_call", in_place=True)),
    *_binary("aten::div", model=model("elementwise.binary_call", divides=True)),
    *_binary("LigerSiLUMulFunction", model=model("elementwise.binary_call")),
    *_more_binary(*_aten(f"{_ARITHMETIC} {_GRADIENTS}"), model=model("elementwise.binary_call")),
    *_more_binary(*_in_place(_ARITHMETIC), model=model("elementwise.binary_call", in_place=True)),
    *_more_binary(*_aten(_COMPARISONS), model=model("elementwise.binary_call", dtype="bool")),
    *_more_binary(*_in_place(_COMPARISONS), model=model("elementwise.binary_call", dtype="bool", in_place=True)),
    # --- Gated activations ---------------------------------------------------------------------------------------
    *_unary("aiter::silu_and_mul", "_C::silu_and_mul", "sgl_kernel::silu_and_mul", model=_gated(5)),
    *_unary("aiter::gelu_and_mul", model=_gated(8)),
    *_unary("aiter::gelu_tanh_and_mul", model=_gated(10)),
    *_more_unary("_C::gelu_and_mul", "sgl_kernel::gelu_and_mul", model=_gated(8)),
    *_more_unary("_C::gelu_tanh_and_mul", "sgl_kernel::gelu_tanh_and_mul", model=_gated(10)),
    # --- Padding, upsampling -------------------------------------------------------------------------------------
    *_unary(*_aten("replication_pad1d replication_pad2d replication_pad3d"), model=model("elementwise.padding_call")),
    *_unary(
        *_aten("upsample_nearest1d upsample_nearest2d upsample_nearest3d"), model=model("elementwise.upsampling_call")
    ),
    *_more_unary(
        *_aten("reflection_pad1d reflection_pad2d reflection_pad3d constant_pad_nd"),
        model=model("elementwise.padding_call"),
    ),
    *_more_unary(
        *_aten("_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d"),
        model=model("elementwise.upsampling_call"),
    ),
    # --- Fills, selections, joins, ranges, random numbers --------------------------------------------------------
    *_more_unary("aten::fill_", "aten::zero_", model=model("elementwise.filled", tensors=(0,))),
    *_more_unary("aten::where", "aten::masked_fill", "aten::masked_fill_", model=model("elementwise.selection_call")),
    *_more_unary("aten::cat", model=model("elementwise.concatenation_call")),
    *_more_unary("aten::arange", model=model("elementwise.range_call")),
    *_more_unary(*_in_place(_RANDOM), model=model("elementwise.random_numbers", tensors=(0,))),
    *ops(
        "aiter::mixed_sample_outer_exponential", category="elementwise",
        model=model("elementwise.sampled_by_noise", tensors=(1, 2)), sheet="elementwise_fwd", in_tracelens=True,
    ),
]  # fmt: skip
