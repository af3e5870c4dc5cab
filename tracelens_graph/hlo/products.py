"""Matrix products and convolutions: their sizes, whatever layouts and algorithms XLA chose, and their operations.

Sizes are what a call in another framework is recognised by, so a product that XLA divided along the dimension that is
summed over counts whole, and dimensions of convolutions stand as PyTorch orders them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from math import gcd
from typing import NamedTuple

from tracelens_graph.hlo.program import DotDims, Instruction, Program
from tracelens_graph.hlo.shapes import LARGEST, Shape, product

_LARGEST_KERNEL = 1 << 16
"""Positions of a kernel in one dimension that are looked at; real ones have a few."""


class Product(NamedTuple):
    """The sizes of a matrix product: `batch` products of an m by k and a k by n matrix."""

    batch: int
    m: int
    n: int
    k: int

    @property
    def flops(self) -> int:
        """Operations; a multiply-add counts as two."""
        return product((2, *self))


_MOST_DIMENSIONS = 1 << 16
"""Numbers of dimensions that a config names are smaller; real ones have a digit."""

_CUBLAS = re.compile(r"__(?:cublas|hipblas|rocblas|onednn)\S*(?:gemm|matmul)", re.IGNORECASE)


def product_of(program: Program, one: Instruction) -> Product | None:
    """The matrix product that a `dot` is, or the call of a library that computes one; None for anything else."""
    dims = dims_of(one)
    operands = [operand.shape for operand in program.operands(one)]
    if dims is None or len(operands) < 2:
        return None
    left, right = operands[:2]
    if not (left.is_array and right.is_array):
        return None
    batch = _sizes(left, dims.lhs_batch)
    k = _sizes(left, dims.lhs_contracting)
    return Product(
        batch,
        _others(left, (*dims.lhs_batch, *dims.lhs_contracting)),
        _others(right, (*dims.rhs_batch, *dims.rhs_contracting)),
        k,
    )


def dims_of(one: Instruction) -> DotDims | None:
    """Which dimensions a product sums over, also of a call of a library for products; None for anything else."""
    if one.opcode == "custom-call" and _CUBLAS.match(one.target):
        return _configured(one.backend_config)
    return one.dot if one.opcode == "dot" else None


def _sizes(shape: Shape, dimensions: Iterable[int]) -> int:
    return product(shape.dims[i] for i in dimensions if 0 <= i < len(shape.dims))


def _others(shape: Shape, dimensions: Iterable[int]) -> int:
    named = frozenset(dimensions)
    return product(size for i, size in enumerate(shape.dims) if i not in named)


def _configured(text: str) -> DotDims | None:
    """The dimension numbers in the backend config of a call of a library for products."""
    try:
        numbers = json.loads(text)["gemm_backend_config"]["dot_dimension_numbers"]
        names = (f"{side}_{what}_dimensions" for what in ("contracting", "batch") for side in ("lhs", "rhs"))
        found = DotDims(*(tuple(int(i) for i in numbers.get(name, ())) for name in names))
    except (ArithmeticError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return found if all(0 <= i < _MOST_DIMENSIONS for part in found for i in part) else None


def convolution_operands(program: Program, one: Instruction) -> tuple[Shape, Shape, Shape] | None:
    """Input, filters and result of the forward pass of a convolution; None for anything else."""
    operands = [operand.shape for operand in program.operands(one)]
    if one.convolution is None or len(operands) < 2:
        return None
    left, right, made = operands[0], operands[1], next(one.shape.arrays(), Shape())
    # Calls of cuDNN keep the dimensions of the forward pass, whatever of it they compute.
    if one.target.endswith("BackwardInput"):
        return made, right, left
    if one.target.endswith("BackwardFilter"):
        return left, made, right
    return left, right, made


def convolution_flops(program: Program, one: Instruction) -> int:
    """Operations of a convolution: products with elements of the input only, none with padding."""
    operands, dims = convolution_operands(program, one), one.convolution
    if operands is None or dims is None:
        return 0
    source, kernel, result = operands
    if max((dims.kernel_out, dims.kernel_in, *dims.kernel_space), default=0) >= len(kernel.dims):
        return 0
    # A dimension is named once, or positions of a kernel could be more than its elements.
    if len({*dims.kernel_space, dims.kernel_in, dims.kernel_out}) < len(dims.kernel_space) + 2:
        return 0
    space = list(zip(dims.input_space, dims.kernel_space, dims.output_space, strict=False))
    if kernel.elements == LARGEST or any(i >= len(source.dims) or o >= len(result.dims) for i, _, o in space):
        return 0
    products = 1
    for (i, k, o), window in zip(space, one.window, strict=False):
        products *= _valid(source.dims[i], kernel.dims[k], result.dims[o], *window[1:])
    features = kernel.dims[dims.kernel_in] * kernel.dims[dims.kernel_out]
    batch = _sizes(source, (dims.input_batch,)) // max(one.batch_groups, 1)
    return product((2, products, features, batch))


@lru_cache(1 << 10)
def _valid(source: int, kernel: int, result: int, stride: int, low: int, high: int, dilation: int, base: int) -> int:
    """Pairs of a position of the kernel and one of the result that meet an element of the input, in one dimension."""
    reach = (source - 1) * base + 1 if source else 0
    # Positions of the result that lie `period` apart fall onto elements of an input that is spread out.
    common = gcd(stride, base)
    period = base // common
    total = 0
    for position in range(min(kernel, _LARGEST_KERNEL)):
        # Place in the spread input at position o of the result: o * stride + offset, to be a multiple of `base`.
        offset = position * dilation - low
        first = max(0, -(offset // stride)) if offset < 0 else 0
        last = min(result - 1, (reach - 1 - offset) // stride)
        if last < first or offset % common:
            continue
        hit = (-offset // common * pow(stride // common, -1, period)) % period
        # Those up to `last` less those before `first`; rounding down is right for negative numbers, too.
        total += (last - hit) // period - (first - 1 - hit) // period
    return total


_PASSED_ON = ("bitcast", "reshape", "copy", "convert", "transpose", "get-tuple-element")


def whole_product(program: Program, one: Instruction, inner: Instruction) -> Product | None:
    """The product that an instruction computes, whole or in parts that are added up afterwards.

    XLA divides a long sum (split-K): a dimension of both operands becomes a batch and a shorter sum that stand side by
    side, and a reduction follows.
    """
    found, dims = product_of(program, inner), inner.dot
    if found is None or dims is None or found.batch < 2:
        return found
    pairs = ((dims.lhs_batch, dims.lhs_contracting), (dims.rhs_batch, dims.rhs_contracting))
    is_divided = all(len(batch) == len(summed) == 1 and batch[0] + 1 == summed[0] for batch, summed in pairs)
    # A batch that stands first in both may be one in the program, too.
    if not is_divided or not any(batch[0] for batch, _ in pairs):
        return found
    if not any(_sums_up(program, user, found.m * found.n) for user in _users(program, one)):
        return found
    return Product(1, found.m, found.n, found.batch * found.k)


def _users(program: Program, one: Instruction) -> list[Instruction]:
    """Who takes the result of an instruction, also behind what only moves it."""
    key = ("users",)
    if key not in program.known:
        users: dict[int, list[Instruction]] = {}
        for user in program.instructions.values():
            for operand in dict.fromkeys(user.operands):
                users.setdefault(operand, []).append(user)
        program.known[key] = users
    every: dict[int, list[Instruction]] = program.known[key]
    found, waiting, seen = [], [one.id], set()
    while waiting:
        for user in every.get(waiting.pop(), ()):
            if user.id in seen:
                continue
            seen.add(user.id)
            found.append(user)
            if user.opcode in _PASSED_ON:
                waiting.append(user.id)
    return found


def _sums_up(program: Program, user: Instruction, elements: int) -> bool:
    has_sum = user.opcode == "reduce" or "reduce" in program.opcodes_inside(user)
    return has_sum and any(shape.elements == elements for shape in user.shape.arrays())


def convolution_sizes(program: Program, one: Instruction) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Sizes of the input (batch, channels, ...) and of the filters (channels out, channels in, ...); None without."""
    operands, dims = convolution_operands(program, one), one.convolution
    if operands is None or dims is None:
        return None
    source, kernel, _ = operands
    of_input = (dims.input_batch, dims.input_feature, *dims.input_space)
    of_kernel = (dims.kernel_out, dims.kernel_in, *dims.kernel_space)
    if len(set(of_input)) < len(of_input) or len(set(of_kernel)) < len(of_kernel):
        return None
    if max(of_input) >= len(source.dims) or max(of_kernel) >= len(kernel.dims) or min(of_input + of_kernel) < 0:
        return None
    return tuple(source.dims[i] for i in of_input), tuple(kernel.dims[i] for i in of_kernel)
