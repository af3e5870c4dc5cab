"""Elementwise operations: unary, binary with broadcasting, gated activations, padding, fills, joins, random numbers.

Counted as in TraceLens: one FLOP per element of the result whatever the function, copies included; a plain number among
operands is four bytes.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from math import prod
from typing import Any

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.shared import NUMBER, dense, kernel_element, present, traffic, vector_cost
from tracelens_graph.perf.model import CallContext, looks_at_context
from tracelens_graph.perf.scalar_types import known
from tracelens_graph.schema.categories import over_the_link

Shape = tuple[int, ...]


def unary(source: Tensor, result: Tensor | None = None, *, flops: int = 1) -> Cost:
    """A function of each element of a tensor; also a copy.

    FLOPs = flops · E; bytes = source + result.

    Args:
        source: what is read; of a copy the destination, as its sizes are those of the work.
        result: what is written, or the other end of a copy; like the source, without gaps, if not given.
        flops: FLOPs per element.
    """
    return vector_cost(
        flops * source.elements, (source, result or dense(source)), source, _unary_params(source, result)
    )


def _unary_params(source: Tensor, result: Tensor | None) -> dict[str, Any]:
    return {
        "op_shape": source.shape, "dtype_in_out": (source.dtype, result.dtype if result and result.shape else None),
        "stride_input": source.strides, "stride_output": result.strides if result and result.shape else None,
    }  # fmt: skip


def binary(
    first: Tensor, second: Tensor, result: Tensor | None = None, *, dtype: str = "", in_place: bool = False
) -> Cost:
    """A function of each pair of elements of two tensors, broadcast; `NUMBER` stands for a plain number.

    FLOPs = elements of the broadcast shape; bytes = first + second + result.

    Args:
        first, second: operands.
        result: what is written; of the broadcast shape and the promoted type if not given.
        dtype: type of the result where it does not follow from the operands, as of comparisons.
        in_place: whether the result takes the place of the first operand.
    """
    shape = broadcast(first.shape, second.shape)
    written = result or (dense(first) if in_place else Tensor(shape, dtype or promoted(first, second)))
    of = second if first.shape == () != second.shape else first
    params = {
        "shape_in1": first.shape, "shape_in2": second.shape,
        "dtype_in1_in2_out": (first.dtype, second.dtype, result.dtype if result else None),
        "stride_input1": _strides(first), "stride_input2": _strides(second),
        "stride_output": result.strides if result else None,
    }  # fmt: skip
    return vector_cost(prod(shape), (first, second, written), of, params)


def _strides(operand: Tensor) -> Shape | None:
    return () if operand == NUMBER else operand.strides


def broadcast(*shapes: Shape) -> Shape:
    """Shape of the result of an operation on tensors of these shapes, by the rules of numpy and PyTorch."""
    result: list[int] = []
    for sizes in zip_longest(*map(reversed, shapes), fillvalue=1):
        others = {size for size in sizes if size != 1} or {1}
        if len(others) > 1:
            raise CannotModel(f"shapes do not broadcast: {' and '.join(map(str, shapes))}")
        result.append(others.pop())
    return tuple(reversed(result))


def promoted(first: Tensor, second: Tensor) -> str:
    """Type of the result of arithmetic on two operands, by PyTorch's rules of promotion.

    Floating point goes before integers; between equals one with dimensions goes before one without, then the larger.
    """
    ranks = [
        (known(one.dtype).is_floating, one.shape != (), one != NUMBER, known(one.dtype).bits) for one in (first, second)
    ]
    high, low = (first, second) if ranks[0] >= ranks[1] else (second, first)
    # Neither half type holds all values of the other one, so PyTorch goes to float32.
    halves = {high.dtype.lower(), low.dtype.lower()}
    return "float" if halves == {"c10::half", "c10::bfloat16"} and high.shape and low.shape else high.dtype


def gated(result: Tensor, source: Tensor, *, flops: int) -> Cost:
    """An activation of one half of a tensor times the other half: SiLU 5, GELU 8, GELU by tanh 10 FLOPs per result.

    FLOPs = flops · E of the result; bytes = source + result.
    """
    cost = vector_cost(flops * result.elements, (source, result), source, _unary_params(source, result))
    return replace(cost, params={**cost.params, "op_shape": result.shape})


def resized(source: Tensor, shape: Shape) -> Cost:
    """Padding by replication, upsampling to the nearest: each element of the result is one of the source.

    FLOPs = E of the result; bytes = source + result.
    """
    result = Tensor(shape, source.dtype)
    params = {**_unary_params(source, result), "op_shape": shape, "input_shape": source.shape, "output_shape": shape}
    return vector_cost(result.elements, (source, result), source, params)


def unary_call(arguments: Arguments, context: CallContext, *, other: str = "result", in_place: bool = False) -> Cost:
    """Reads the arguments of a unary operation.

    Args:
        other: what a tensor at position 1 is: what is written or the other end of a copy ("result"), or an operand.
        in_place: whether the result takes the place of the source.
    """
    source, second = arguments.optional(0), arguments.optional(1)
    if other == "operand" and second is not None:
        cost = binary(source or NUMBER, second, arguments.optional(2), in_place=in_place)
        return replace(cost, params=_unary_params(source or second, None))
    return unary(arguments.tensor(0), None if in_place else second)


@looks_at_context
def copy_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(destination, source, …)`. Between host and device the destination's bytes cross the link."""
    cost = unary_call(arguments, context)
    if not over_the_link(context.kernels):
        return cost
    return replace(cost, link_bytes=traffic([arguments.tensor(0)]))


def binary_call(
    arguments: Arguments, context: CallContext, *, dtype: str = "", in_place: bool = False, divides: bool = False
) -> Cost:
    """Reads the arguments of a binary operation: operands at 0 and 1, the result anywhere behind.

    Args:
        dtype: type of the result where it does not follow from the operands.
        in_place: whether the result takes the place of the first operand.
        divides: whether integers give floating point.
    """
    first, second = (_operand(arguments, index) for index in (0, 1))
    if first == NUMBER == second:
        raise CannotModel("neither operand is a tensor" if arguments.recorded else "shapes are not recorded")
    result = next(iter(present(*map(arguments.optional, range(2, len(arguments))))), None)
    integers = divides and not (known(first.dtype).is_floating or known(second.dtype).is_floating)
    return binary(first, second, result, dtype="float" if integers else dtype, in_place=in_place)


def _operand(arguments: Arguments, index: int) -> Tensor:
    found = arguments.optional(index)
    return NUMBER if found is None and arguments.type(index) == NUMBER.dtype else found or arguments.tensor(index)


def padding_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(source, padding, …)`: pairs (before, after) from the last dimension backwards."""
    source, padding = arguments.tensor(0), arguments.integers(1)
    if padding is None or len(padding) % 2 or len(padding) > 2 * len(source.shape):
        raise CannotModel("the padding is not recorded")
    shape = list(source.shape)
    for axis, pair in enumerate(zip(padding[::2], padding[1::2], strict=True), start=1):
        shape[-axis] += sum(pair)
    if min(shape, default=0) < 0:
        raise CannotModel("the padding takes away more than there is")
    return resized(source, tuple(shape))


def upsampling_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(source, output_size, …)`, or `(source, None, scale_factors)`: batch and channels stay."""
    source, size = arguments.tensor(0), arguments.integers(1)
    if size is None:
        if max(source.shape[2:], default=0) >= 2**63:
            raise CannotModel("the sizes are not those of tensors")
        factors = _factors(arguments.text(2))
        size = tuple(int(old * factor) for old, factor in zip(source.shape[2:], factors, strict=False))
    if len(size) != len(source.shape) - 2 or min(size, default=0) < 0:
        raise CannotModel("the size of the result is not recorded")
    return resized(source, source.shape[:2] + size)


def _factors(text: str) -> list[float]:
    try:
        factors = [float(word) for word in text.strip().removeprefix("[").removesuffix("]").split(",") if word.strip()]
    except ValueError:
        factors = []
    return factors if all(0 < factor < 1e6 for factor in factors) else []


def filled(target: Tensor) -> Cost:
    """A fill: written, not read."""
    return vector_cost(0, [target], target, _unary_params(target, None))


def selection_call(arguments: Arguments, context: CallContext) -> Cost:
    """Operands that are broadcast to one result, with or without a mask; types as the widest that is no mask."""
    operands = present(*map(arguments.optional, range(3)))
    values = [one for one in operands if one.dtype.lower() != "bool"]
    if not values:
        raise CannotModel("no operand but masks")
    shape = broadcast(*(one.shape for one in operands))
    widest = max(values, key=lambda one: (one.shape != (), known(one.dtype).bits))
    result = Tensor(shape, widest.dtype)
    return vector_cost(result.elements, [*operands, result], widest, _unary_params(result, None))


@looks_at_context
def concatenation_call(arguments: Arguments, context: CallContext) -> Cost:
    """`([tensors], dim)`: each is copied once; the type of the list comes from the kernel."""
    parts = arguments.tensors(0, kernel_element(context))
    if not parts:
        raise CannotModel("sizes in the list of tensors are not recorded")
    result = Tensor((sum(part.elements for part in parts),), parts[0].dtype)
    return vector_cost(0, [*parts, result], result, {"num_tensors": len(parts), "op_shape": result.shape})


def range_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(start, end, step, result)`: the result is recorded before it is resized, so its size follows from the rest."""
    start, end, step = (arguments.number(index) for index in range(3))
    result = arguments.tensor(3)
    if start is None or end is None or not step or not 0 <= (end - start) / step < 1e18:
        raise CannotModel("the range is not recorded")
    result = Tensor((int(-(-(end - start) // step)),), result.dtype)
    return vector_cost(result.elements, [result], result, _unary_params(result, None))


def sampled_by_noise(logits: Tensor, noise: Tensor) -> Cost:
    """The token of the largest logit after division by exponential noise, for each row.

    FLOPs = 2 · T · V: quotient and comparison; bytes = logits + noise + 4 · T.
    """
    if not logits.shape:
        raise CannotModel("the logits have no dimension of tokens")
    rows = prod(logits.shape[:-1])
    params = {"T": rows, "V": logits.shape[-1], "dtype_logits": logits.dtype, "dtype_noise": noise.dtype}
    return vector_cost(2 * logits.elements, (logits, noise, Tensor((rows,), "int")), logits, params)


def random_numbers(result: Tensor) -> Cost:
    """A tensor filled with random numbers; the rounds of the generator are integer work and not counted.

    FLOPs = E; bytes = result.
    """
    return vector_cost(result.elements, [result], result, {"op_shape": result.shape})
