"""Sizes of products and convolutions in one form, whatever layouts and algorithms XLA chose.

They are what a call in another framework is recognised by, so a product that XLA divided along the dimension that is
summed over counts whole, and dimensions of convolutions stand as PyTorch orders them.
"""

from __future__ import annotations

from tracelens_graph.hlo.products import Product, convolution_operands, product_of
from tracelens_graph.hlo.program import Instruction, Program

_PASSED_ON = ("bitcast", "reshape", "copy", "convert", "transpose", "get-tuple-element")


def whole_product(program: Program, one: Instruction, inner: Instruction) -> Product | None:
    """The product that an instruction computes, or of which it computes the parts that are added up afterwards.

    XLA divides a long sum (split-K): a dimension of both operands becomes a batch and a shorter sum that stand side by
    side, and a reduction follows.

    Args:
        program: the program.
        one: the instruction that is run.
        inner: the product in it, or itself.
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
