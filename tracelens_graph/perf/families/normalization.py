"""Normalizations: batch, layer, group, instance, RMS; training, serving, backward.

FLOPs of the forward pass are those of PyTorch's CPU kernel for batch norm, which folds weight and statistics into one
multiply-add per element (https://arxiv.org/abs/1502.03167); RMS norm as in https://arxiv.org/abs/1910.07467.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.shared import dense, present, vector_cost
from tracelens_graph.perf.model import CallContext


@dataclass(frozen=True)
class Norm:
    """What a normalization works on.

    Attributes:
        source: input of the forward pass.
        channels: how many values a weight has.
        weight, bias: None if there is none.
        training: whether a batch norm takes the statistics of its input; layer and group norms have no such state.
    """

    source: Tensor
    channels: int
    weight: Tensor | None = None
    bias: Tensor | None = None
    training: bool = False

    @property
    def params(self) -> dict[str, Any]:
        """Its sizes."""
        return {
            "op_shape": self.source.shape, "dtype_in_out": (self.source.dtype, None),
            "stride_input": self.source.strides, "stride_output": None, "num_channels": self.channels,
            "has_bias": self.bias is not None, "is_affine": self.weight is not None, "is_training": self.training,
        }  # fmt: skip


def normalization(norm: Norm, *, own_statistics: bool = True, running: tuple[Tensor, ...] = ()) -> Cost:
    """Forward pass of a batch, layer, group or instance norm.

    FLOPs = 2E + 6C + 3E if the statistics are those of the input; bytes = source + result + weight + bias + running
    statistics, twice if they are brought up to date. What is kept for the backward pass is not counted.

    Args:
        norm: what it works on.
        own_statistics: whether mean and variance are computed from the input; else they are the running ones.
        running: running mean and variance; layer and group norms have none.
    """
    source, elements = norm.source, norm.source.elements
    flops = 2 * elements + 6 * norm.channels + (3 * elements if own_statistics else 0)
    kept = [*running, *(running if own_statistics else ())]
    return vector_cost(flops, [source, dense(source), *present(norm.weight, norm.bias), *kept], source, norm.params)


def normalization_backward(
    norm: Norm, gradient: Tensor, statistics: tuple[Tensor, ...], wanted: tuple[bool, ...], *, own: bool = True
) -> Cost:
    """Backward pass of a batch, layer, group or instance norm.

    FLOPs = 4E for the two sums over the gradient, where they are needed, + dx: 5E with statistics of the input, else
    2E; + 3C for the inverse deviation where it was not kept. Bytes = gradient + source + weight + statistics + what is
    wanted of the gradients of source, weight and bias.

    Args:
        norm: what the forward pass worked on.
        gradient: gradient of its result.
        statistics: mean and inverse deviation as they were kept, or the running mean and variance.
        wanted: whether the gradients of source, weight, bias are asked for.
        own: whether the statistics are those of the input.
    """
    source, elements = norm.source, norm.source.elements
    of_source, of_weight, of_bias = wanted
    flops = 4 * elements if of_weight or of_bias or (of_source and own) else 0
    flops += (5 if own else 2) * elements if of_source else 0
    flops += 0 if own else 3 * norm.channels
    written = _gradients(norm, of_source, of_weight + of_bias)
    touched = [gradient, source, *present(norm.weight), *statistics, *written]
    return vector_cost(flops, touched, source, {**norm.params, "output_mask": list(wanted)})


def _gradients(norm: Norm, of_source: bool, of_parameters: int) -> list[Tensor]:
    parameter = norm.weight or Tensor((norm.channels,), norm.source.dtype)
    return [dense(norm.source)] * of_source + [dense(parameter)] * of_parameters


def rms_norm(norm: Norm, *, adds: bool = False, quantised: tuple[Tensor, ...] = (), padded_to: int = 0) -> Cost:
    """Forward pass of an RMS norm, alone or fused with what surrounds it in serving engines.

    FLOPs = (E/C)(2C + 2) + E, or + 2E with a weight; + E if a residual is added, + 2E if the result is quantised.
    Bytes = source + result + weight, + residual in and out; a quantised result counts as given.

    Args:
        norm: what it works on.
        adds: whether a residual is added first, and the sum written.
        quantised: quantised result and its scales.
        padded_to: size of the last dimension of the result; that of the source if 0.
    """
    source, elements, rows = norm.source, norm.source.elements, _rows(norm)
    flops = rows * (2 * norm.channels + 2) + elements * (2 if norm.weight else 1)
    flops += (elements if adds else 0) + (2 * elements if quantised else 0)
    result = quantised or (Tensor((rows, padded_to or norm.channels), source.dtype),)
    residual = (dense(source), dense(source)) if adds else ()
    return vector_cost(flops, [source, *present(norm.weight), *result, *residual], source, norm.params)


def _rows(norm: Norm) -> int:
    if norm.channels < 1 or norm.source.elements % norm.channels:
        raise CannotModel(f"{norm.channels} channels do not divide shape {norm.source.shape}")
    return norm.source.elements // norm.channels


def rms_norm_backward(norm: Norm, gradient: Tensor, statistics: tuple[Tensor, ...], wanted: tuple[bool, ...]) -> Cost:
    """Backward pass of an RMS norm.

    FLOPs = E for the normalized values [+ E for gradient · weight] + dx: 2E + 4E + dweight: E, + E if there are several
    rows. Bytes = gradient + source + weight + inverse deviation + what is wanted of the gradients of source and weight.
    """
    source, elements = norm.source, norm.source.elements
    of_source, of_weight = wanted[:2]
    flops = (2 if norm.weight else 1) * elements + (6 * elements if of_source else 0)
    flops += (2 if elements > norm.channels else 1) * elements if of_weight else 0
    touched = [gradient, source, *present(norm.weight), *statistics, *_gradients(norm, of_source, of_weight)]
    return vector_cost(flops, touched, source, {**norm.params, "output_mask": list(wanted)})


def modulated_layer_norm(source: Tensor, scale: Tensor, shift: Tensor, *, backward: bool = False) -> Cost:
    """Layer norm fused with scale and shift by sample, of diffusion transformers; source is (T, B, H).

    FLOPs = 12E, backward 15E. Bytes = source + result + scale + shift + mean and inverse deviation of T·B rows as fp32;
    backward: gradient, normalized values and gradient of the source, scale's gradient in and both gradients out.
    """
    if len(source.shape) != 3:
        raise CannotModel("the source does not have three dimensions")
    statistics = Tensor((2, *source.shape[:2]), "float")
    norm = Norm(source, source.shape[2], scale, shift, training=True)
    small = [scale, shift, dense(shift)] if backward else [scale, shift]
    touched = [source, dense(source), *([dense(source)] if backward else []), statistics, *small]
    params = {**norm.params, "output_mask": [True] * 3} if backward else norm.params
    return vector_cost((15 if backward else 12) * source.elements, touched, source, params)


@dataclass(frozen=True)
class Forward:
    """Reads the arguments of a forward pass, by position.

    Attributes:
        weight, bias: absent ones are recorded as nothing.
        running: running mean and variance.
        training: the flag; None if the statistics are always those of the input.
        shape: the sizes over which it normalizes; None: the second dimension is that of the channels.
        source: the input.
    """

    weight: int
    bias: int
    running: tuple[int, ...] = ()
    training: int | None = None
    shape: int | None = None
    source: int = 0

    def __call__(self, arguments: Arguments, context: CallContext) -> Cost:
        """The cost of a call."""
        source, weight = arguments.tensor(self.source), arguments.optional(self.weight)
        training = False if self.training is None else _flag(arguments, self.training)
        channels = _channels(arguments, source, weight, self.shape)
        norm = Norm(source, channels, weight, arguments.optional(self.bias), training)
        running = tuple(present(*map(arguments.optional, self.running)))
        return normalization(norm, own_statistics=self.training is None or training, running=running)


def _flag(arguments: Arguments, index: int) -> bool:
    found = arguments.boolean(index)
    if found is None:
        raise CannotModel("whether it trains is not recorded")
    return found


def _channels(arguments: Arguments, source: Tensor, weight: Tensor | None, shape: int | None) -> int:
    if shape is None:
        if len(source.shape) < 2:
            raise CannotModel("the source has no dimension of channels")
        return source.shape[1]
    sizes = arguments.integers(shape) or (weight.shape if weight else None)
    if not sizes or min(sizes) < 0:
        raise CannotModel("the normalized shape is not recorded")
    return prod(sizes)


@dataclass(frozen=True)
class Backward:
    """Reads the arguments of a backward pass, by position.

    Attributes:
        saved: statistics that the forward pass kept.
        mask: which gradients are wanted; None, or if it is not recorded: all there are.
        batch: whether it is that of a batch norm, which trains if it has no flag.
        rms: whether it is that of an RMS norm.
        others: as of the forward pass.
    """

    weight: int
    saved: tuple[int, ...]
    mask: int | None = None
    running: tuple[int, ...] = ()
    training: int | None = None
    shape: int | None = None
    source: int = 1
    gradient: int = 0
    batch: bool = False
    rms: bool = False

    def __call__(self, arguments: Arguments, context: CallContext) -> Cost:
        """The cost of a call."""
        source, weight = arguments.tensor(self.source), arguments.optional(self.weight)
        training = self.training is None or _flag(arguments, self.training)
        statistics = tuple(present(*map(arguments.optional, self.saved if training else self.running)))
        mask = arguments.booleans(self.mask) if self.mask is not None else None
        wanted = [True, weight is not None, weight is not None and not self.rms]
        wanted = [
            there and asked for there, asked in zip(wanted, [*(mask or wanted), False, False, False], strict=False)
        ]
        # A bias has the gradient of the weight, and no place among the arguments.
        channels = _channels(arguments, source, weight, self.shape)
        bias = weight if wanted[2] else None
        norm = Norm(source, channels, weight, bias, self.batch and training)
        gradient = arguments.tensor(self.gradient)
        if self.rms:
            return rms_norm_backward(norm, gradient, statistics, tuple(wanted[:2]))
        return normalization_backward(norm, gradient, statistics, tuple(wanted), own=training)


def aiter_group_norm_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(source, num_groups, weight, bias, eps)`, or with result and workspace before them."""
    return Forward(4, 5, source=2)(arguments, context) if arguments.optional(1) else Forward(2, 3)(arguments, context)


def rms_norm_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(source, normalized_shape, weight, eps)`."""
    source, weight = arguments.tensor(0), arguments.optional(2)
    return rms_norm(Norm(source, _channels(arguments, source, weight, 1), weight))


@dataclass(frozen=True)
class ServingRms:
    """Reads the arguments of RMS norms of serving engines, by position.

    Attributes:
        source, weight: input and weight.
        residual: what is added first.
        quantised: type of the quantised result, "fp8" or "fp4"; "" if it is not quantised.
        group: how many elements share a scale; None: a row (fp8) or 32 (fp4).
        multiple: of what the last dimension of the result is made a multiple.
        second, second_weight: another input that is normalized by itself.
    """

    source: int = 0
    weight: int = 1
    residual: int | None = None
    quantised: str = ""
    group: int | None = None
    multiple: int | None = None
    second: int | None = None
    second_weight: int | None = None

    def __call__(self, arguments: Arguments, context: CallContext) -> Cost:
        """The cost of a call."""
        norm = self._norm(arguments, self.source, self.weight)
        adds = self.residual is not None and arguments.optional(self.residual) is not None
        quantised = self._quantised(norm, arguments) if self.quantised else ()
        cost = rms_norm(norm, adds=adds, quantised=quantised, padded_to=self._padded(norm, arguments))
        if self.second is None or self.second_weight is None or arguments.optional(self.second) is None:
            return cost
        other = self._norm(arguments, self.second, self.second_weight)
        return _together(cost, rms_norm(other), cost.params if self.quantised else _params_of_two(norm, other))

    @staticmethod
    def _norm(arguments: Arguments, source: int, weight: int) -> Norm:
        scale = arguments.tensor(weight)
        return Norm(arguments.tensor(source), scale.elements, scale)

    def _quantised(self, norm: Norm, arguments: Arguments) -> tuple[Tensor, ...]:
        elements, rows = norm.source.elements, _rows(norm)
        if self.quantised == "fp4":
            return Tensor((-(-elements // 2),), "unsigned char"), Tensor((elements // 32,), "unsigned char")
        group = arguments.integer(self.group) if self.group is not None else None
        scales = -(-norm.channels // group) if group and group > 0 else 1
        return dense(norm.source, "c10::Float8_e4m3fn"), Tensor((rows, scales), "float")

    def _padded(self, norm: Norm, arguments: Arguments) -> int:
        multiple = arguments.integer(self.multiple) if self.multiple is not None else None
        return -(-norm.channels // multiple) * multiple if multiple and multiple > 0 else 0


def _together(first: Cost, second: Cost, params: Mapping[str, Any]) -> Cost:
    known = first.bytes is not None and second.bytes is not None
    moved = (first.bytes or 0) + (second.bytes or 0) if known else None
    return Cost(first.flops + second.flops, moved, "vector", first.precision, params)


def _params_of_two(query: Norm, key: Norm) -> dict[str, Any]:
    return {
        "q_shape": query.source.shape, "q_channels": query.channels, "k_shape": key.source.shape,
        "k_channels": key.channels, "dtype_q": query.source.dtype, "dtype_k": key.source.dtype,
    }  # fmt: skip
