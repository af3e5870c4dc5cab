"""Convolution in one, two or three dimensions, forward and backward, transposed and grouped.

The products are those that `torch.utils.flop_counter` counts: every number of the result (of the input, if transposed)
meets every number of one filter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.shared import bytes_of, matrix_precision, stored_bytes, total
from tracelens_graph.perf.model import CallContext, looks_at_context
from tracelens_graph.perf.scalar_types import known

_NOTHING_KNOWN: Mapping[str, int | None] = MappingProxyType({})


@dataclass(frozen=True)
class Geometry:
    """Shapes of a convolution and how its filters are laid over the input.

    Attributes:
        x: shape of the input, (batch, channels, *sizes).
        w: shape of the filters, (channels out, channels in / groups, *sizes); transposed, (channels in, channels out /
            groups, *sizes).
        stride, padding, dilation, output_padding: one number per dimension, or one for all; empty for the default.
        transposed: whether it is the transpose of a convolution.
        groups: into how many independent groups the channels fall.
    """

    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: Sequence[int] = ()
    padding: Sequence[int] = ()
    dilation: Sequence[int] = ()
    output_padding: Sequence[int] = ()
    transposed: bool = False
    groups: int = 1

    def per_dimension(self, values: Sequence[int], default: int) -> tuple[int, ...]:
        """A setting, spread over the dimensions."""
        dimensions = len(self.x) - 2
        spread = tuple(values) if len(values) > 1 else (tuple(values) or (default,)) * dimensions
        if len(spread) != dimensions or any(value < default for value in spread):
            raise CannotModel("the settings of the convolution do not fit its dimensions")
        return spread

    @property
    def out(self) -> tuple[int, ...]:
        """Shape of the result."""
        if not 3 <= len(self.x) <= 5 or len(self.w) != len(self.x) or self.groups < 1:
            raise CannotModel(f"no convolution of tensors of {len(self.x)} and {len(self.w)} dimensions is known")
        if self.x[1] != (self.w[0] if self.transposed else self.w[1] * self.groups):
            raise CannotModel("the channels of the input are not those of the filters")
        strides, paddings = self.per_dimension(self.stride, 1), self.per_dimension(self.padding, 0)
        dilations, extras = self.per_dimension(self.dilation, 1), self.per_dimension(self.output_padding, 0)
        sizes = []
        for size, kernel, stride, padding, dilation, extra in zip(
            self.x[2:], self.w[2:], strides, paddings, dilations, extras, strict=True
        ):
            reach = dilation * (kernel - 1)
            if self.transposed:
                sizes.append((size - 1) * stride - 2 * padding + reach + extra + 1)
            else:
                sizes.append((size + 2 * padding - reach - 1) // stride + 1)
        if min(sizes) < 0 or min(self.w) < 1:
            raise CannotModel("the filters do not fit into the input")
        return (self.x[0], self.w[1] * self.groups if self.transposed else self.w[0], *sizes)

    @property
    def multiply_adds(self) -> int:
        """Products of a pass: of the forward one, of the gradient of the input, or of that of the filters."""
        return prod(self.w[1:]) * prod(self.x if self.transposed else self.out)

    def params(self, bias: bool, dtype: str, dtype_w: str) -> dict[str, object]:
        """The sizes, by the names that users of TraceLens know."""
        return {
            "convNd": f"conv{len(self.x) - 2}d", "input_shape": self.x, "filter_shape": self.w,
            "dtype_input_weight": (dtype, dtype_w), "bias": bias, "stride": self.per_dimension(self.stride, 1),
            "padding": self.per_dimension(self.padding, 0), "dilation": self.per_dimension(self.dilation, 1),
            "transposed_conv": self.transposed, "output_padding": self.per_dimension(self.output_padding, 0),
            "groups": self.groups,
        }  # fmt: skip


def convolution(
    geometry: Geometry,
    *,
    bias: bool = False,
    dtype: str = "bf16",
    dtype_w: str = "",
    stored: Mapping[str, int | None] = _NOTHING_KNOWN,
) -> Cost:
    """Cost of a convolution.

    FLOPs = 2 prod(w[1:]) prod(out), transposed prod(x) in place of prod(out), + [bias] prod(out). Bytes = input,
    filters and bias (a number per channel) read once, result written once.

    Args:
        geometry: shapes and settings.
        bias: whether a bias is added.
        dtype, dtype_w: types of the input, which is that of the result too, and of the filters if it is another.
        stored: bytes of `x`, `w`, `out` and `bias` where they are known to differ from those of dense tensors.
    """
    out = geometry.out
    sizes = {**_dense(geometry, dtype, dtype_w or dtype), "bias": bytes_of(out[1], dtype) if bias else 0, **stored}
    return Cost(
        flops=2 * geometry.multiply_adds + (prod(out) if bias else 0), bytes=total(*sizes.values()), unit="matrix",
        precision=known(dtype).precision, params=geometry.params(bias, dtype, dtype_w or dtype),
    )  # fmt: skip


def convolution_backward(
    geometry: Geometry,
    *,
    wanted: tuple[bool, bool, bool] = (True, True, False),
    dtype: str = "bf16",
    dtype_w: str = "",
    stored: Mapping[str, int | None] = _NOTHING_KNOWN,
) -> Cost:
    """Cost of the gradients of a convolution.

    Each of the gradients of input and filters takes the products of the forward pass and moves three tensors: the
    gradient of the result and one of input and filters are read, the gradient of the other is written. The gradient of
    the bias is the sum of that of the result.

    Args:
        geometry: shapes and settings of the forward pass.
        wanted: which gradients are computed: of input, filters and bias.
        dtype, dtype_w: types of the input, which is that of the result too, and of the filters if it is another.
        stored: bytes of `x`, `w` and `out` (the gradient of the result) as they are read, where known.
    """
    of_input, of_filters, of_bias = wanted
    if not any(wanted):
        raise CannotModel("no gradient is asked for")
    out = geometry.out
    written = _dense(geometry, dtype, dtype_w or dtype)
    read = {**written, **stored}
    moved: list[int | None] = []
    if of_input:
        moved += [read["out"], read["w"], written["x"]]
    if of_filters:
        moved += [read["out"], read["x"], written["w"]]
    if of_bias:
        moved += [read["out"], bytes_of(out[1], dtype)]
    return Cost(
        flops=2 * geometry.multiply_adds * (of_input + of_filters) + prod(out) * of_bias, bytes=total(*moved),
        unit="matrix", precision=known(dtype).precision, params=geometry.params(of_bias, dtype, dtype_w or dtype),
    )  # fmt: skip


def _dense(geometry: Geometry, dtype: str, dtype_w: str) -> dict[str, int | None]:
    shapes = {"x": (geometry.x, dtype), "w": (geometry.w, dtype_w), "out": (geometry.out, dtype)}
    return {name: bytes_of(prod(shape), dtype) for name, (shape, dtype) in shapes.items()}


def _recorded(cost: Cost, x: Tensor, w: Tensor, context: CallContext) -> Cost:
    """A cost with what only a recorded call has: strides, and whether float32 is computed as TF32."""
    params = {**cost.params, "input_stride": x.strides, "weight_stride": w.strides}
    return replace(cost, precision=matrix_precision(x.dtype, context), params=params)


def _geometry(arguments: Arguments, x: Tensor, w: Tensor, first: int) -> Geometry:
    """Shapes and settings; the settings stand from a position on, in the order of `aten::convolution`."""
    transposed = arguments.boolean(first + 3)
    if transposed is None:
        raise CannotModel("whether the convolution is transposed is not recorded")
    groups = arguments.integer(first + 5)
    if groups is None:
        raise CannotModel("the number of groups is not recorded")
    return Geometry(
        x.shape,
        w.shape,
        stride=_setting(arguments, first),
        padding=_setting(arguments, first + 1),
        dilation=_setting(arguments, first + 2),
        output_padding=_setting(arguments, first + 4),
        transposed=transposed,
        groups=groups,
    )


def _setting(arguments: Arguments, index: int) -> tuple[int, ...]:
    values = arguments.integers(index)
    if values is None and arguments.text(index):
        raise CannotModel(f"argument {index} is not a list of whole numbers")
    return values or ()


@looks_at_context
def forward_call(arguments: Arguments, context: CallContext) -> Cost:
    """`aten::convolution`: input, filters, bias, then the settings."""
    x, w, bias = arguments.tensor(0), arguments.tensor(1), arguments.optional(2)
    stored = {"x": stored_bytes(x), "w": stored_bytes(w), "bias": stored_bytes(bias) if bias is not None else 0}
    geometry = _geometry(arguments, x, w, 3)
    cost = convolution(geometry, bias=bias is not None, dtype=x.dtype, dtype_w=w.dtype, stored=stored)
    return _recorded(cost, x, w, context)


@looks_at_context
def backward_of_forward_call(arguments: Arguments, context: CallContext) -> Cost:
    """The backward pass of a call of `aten::convolution`: all gradients, for its arguments do not say which."""
    x, w, bias = arguments.tensor(0), arguments.tensor(1), arguments.optional(2)
    return _gradients(_geometry(arguments, x, w, 3), x, w, (True, True, bias is not None), context)


def _gradients(
    geometry: Geometry,
    x: Tensor,
    w: Tensor,
    wanted: tuple[bool, bool, bool],
    context: CallContext,
    grad: Tensor | None = None,
) -> Cost:
    stored = {"x": stored_bytes(x), "w": stored_bytes(w)}
    if grad is not None:
        stored["out"] = stored_bytes(grad)
    cost = convolution_backward(geometry, wanted=wanted, dtype=x.dtype, dtype_w=w.dtype, stored=stored)
    return _recorded(cost, x, w, context)


@looks_at_context
def backward_call(arguments: Arguments, context: CallContext) -> Cost:
    """`aten::convolution_backward`: gradient, input, filters, sizes of the bias, settings, which gradients."""
    grad, x, w = arguments.tensor(0), arguments.tensor(1), arguments.tensor(2)
    geometry = _geometry(arguments, x, w, 4)
    if grad.shape != geometry.out:
        raise CannotModel("the gradient does not have the shape of the result")
    mask = arguments.booleans(10)
    if mask is None or len(mask) != 3:
        raise CannotModel("which gradients are computed is not recorded")
    return _gradients(geometry, x, w, (mask[0], mask[1], mask[2]), context, grad)


def _apex_geometry(arguments: Arguments) -> tuple[Geometry, Tensor, Tensor]:
    """Apex's fused convolutions take input, filters, bias, padding, stride."""
    x, w = arguments.tensor(0), arguments.tensor(1)
    padding, stride = arguments.integer(3), arguments.integer(4)
    if padding is None or stride is None:
        raise CannotModel("padding and stride are not recorded")
    return Geometry(x.shape, w.shape, stride=(stride,), padding=(padding,)), x, w


@looks_at_context
def apex_forward_call(arguments: Arguments, context: CallContext) -> Cost:
    """Apex's fused convolution, bias and activation."""
    geometry, x, w = _apex_geometry(arguments)
    stored = {"x": stored_bytes(x), "w": stored_bytes(w)}
    return _recorded(convolution(geometry, bias=True, dtype=x.dtype, dtype_w=w.dtype, stored=stored), x, w, context)


@looks_at_context
def apex_backward_of_forward_call(arguments: Arguments, context: CallContext) -> Cost:
    """The backward pass of a call of Apex's fused convolution."""
    geometry, x, w = _apex_geometry(arguments)
    return _gradients(geometry, x, w, (True, True, True), context)


@looks_at_context
def apex_backward_call(_: Arguments, context: CallContext) -> Cost:
    """The backward op of a fused convolution has the gradient alone as argument: the sizes are the forward op's."""
    if context.forward is None:
        raise CannotModel("its forward op, which has the sizes, is not in the trace")
    return apex_backward_of_forward_call(context.forward, context)
