"""What an instruction should cost: operations and traffic, by the rules of XLA's own cost analysis.

Rules are those of `HloCostAnalysis` in XLA, which `jax.stages.Compiled.cost_analysis` tells the sums of, but for four
departures that say more of a kernel: a gather within a fusion reads the rows that it takes, not its whole table; a
fusion within a fusion that only passes its parameter on, as products that Triton computes have them, hides none of its
traffic (XLA counts nothing); libraries that custom calls name are counted (XLA counts none of their work); and what
such a call uses as workspace is no traffic. As there, the body of a loop counts once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import ceil, gcd, log2
from typing import NamedTuple

from tracelens_graph.graph.hlo.attention import TARGETS, attention_flops
from tracelens_graph.graph.hlo.program import Computation, DotDims, Instruction, Program
from tracelens_graph.graph.hlo.shapes import LARGEST, Shape, product

TRANSCENDENTAL = frozenset(
    (
        "acos", "acosh", "asin", "asinh", "atan2", "atanh", "cbrt", "cosine", "cosh", "erf", "exponential",
        "exponential-minus-one", "log", "log-plus-one", "logistic", "power", "rsqrt", "sine", "sinh", "sqrt",
        "tan", "tanh", "rng",
    )
)  # fmt: skip
"""Counted apart from FLOPs, one each."""

ELEMENTWISE = frozenset(
    (
        "abs", "add", "and", "bitcast-convert", "ceil", "clamp", "clz", "compare", "complex", "convert",
        "count-leading-zeros", "divide", "floor", "imag", "is-finite", "maximum", "minimum", "multiply",
        "negate", "not", "or", "popcnt", "real", "reduce-precision", "remainder", "round-nearest-afz",
        "round-nearest-even", "select", "shift-left", "shift-right-arithmetic", "shift-right-logical", "sign",
        "stochastic-convert", "subtract", "xor",
    )
)  # fmt: skip
"""One operation for each element of the result."""

FREE = frozenset(
    (
        "parameter", "constant", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id",
        "opt-barrier", "add-dependency", "domain",
    )
)  # fmt: skip
"""Neither work nor traffic."""

COLLECTIVES = frozenset(
    (
        "all-reduce", "all-reduce-start", "reduce-scatter",
    )
)  # fmt: skip
"""What combines values of devices: one operation for each element, as if there were two of them."""

_LARGEST_KERNEL = 1 << 16
"""Positions of a kernel in one dimension that are looked at; real ones have a few."""


class Work(NamedTuple):
    """Work and traffic, `LARGEST` at most.

    Attributes:
        flops: operations but for transcendental ones.
        transcendentals: those.
        bytes: least traffic to and from memory.
    """

    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0

    def times(self, count: int) -> Work:
        """That of so many, without traffic."""
        return _bounded(self.flops * count, self.transcendentals * count)


def _bounded(*numbers: int) -> Work:
    return Work(*(max(min(number, LARGEST), 0) for number in numbers))


def _total(found: Iterable[Work]) -> Work:
    return _bounded(*map(sum, zip(*found, strict=True)))


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


def work(program: Program, one: Instruction) -> Work:
    """What an instruction should cost.

    Args:
        program: its program.
        one: the instruction.
    """
    if one.opcode in FREE:
        return Work()
    if one.opcode == "fusion":
        body = program.body(one)
        done = _sum(program, body)
        return Work(done.flops, done.transcendentals, _fusion_bytes(program, one, body))
    if one.opcode in ("while", "call", "async-start", "conditional"):
        return _called(program, one)
    flops, transcendentals = _operations(program, one)
    return _bounded(flops, transcendentals, _bytes(program, one))


def _sum(program: Program, body: Computation | None) -> Work:
    """The work of all instructions of a computation; of one that calls itself, which only damage makes, once."""
    if body is None:
        return Work()
    if ("work", body.id) not in program.known:
        for computation in _callees_first(program, body, "work", Work()):
            program.known["work", computation.id] = _total(work(program, one) for one in computation.instructions)
    done: Work = program.known["work", body.id]
    return done


def _callees_first(program: Program, top: Computation, what: str, nothing: object) -> Iterator[Computation]:
    """A computation and those below it of which something is not known yet, callees before their callers.

    However deep they are nested: what is found out about a computation needs that of its callees alone. One that is
    met stands for `nothing` until its turn, which ends circles.
    """
    program.known[what, top.id] = nothing
    waiting = [(top, _callees(program, top))]
    while waiting:
        computation, callees = waiting[-1]
        below = next((one for one in callees if (what, one.id) not in program.known), None)
        if below is None:
            waiting.pop()
            yield computation
        else:
            program.known[what, below.id] = nothing
            waiting.append((below, _callees(program, below)))


def _callees(program: Program, computation: Computation) -> Iterator[Computation]:
    ids = (id for one in computation.instructions for id in one.called)
    return (program.computations[id] for id in ids if id in program.computations)


def _called(program: Program, one: Instruction) -> Work:
    found = [_sum(program, program.computations[id]) for id in one.called if id in program.computations]
    if not found:
        return Work()
    if one.opcode == "conditional":
        return max(found)
    return _total(found)


def _operations(program: Program, one: Instruction) -> tuple[int, int]:
    shape = one.shape.parts[0] if one.shape.parts else one.shape
    count = shape.elements
    if one.opcode in ELEMENTWISE:
        return count, 0
    if one.opcode in TRANSCENDENTAL:
        return 0, count
    if one.opcode in COLLECTIVES:
        return one.shape.elements, 0
    operands = program.operands(one)
    first = operands[0].shape.elements if operands else 0
    if multiplied := product_of(program, one):
        return multiplied.flops, 0
    if one.opcode == "convolution":
        return convolution_flops(program, one), 0
    repeats = {
        "reduce": first - count,
        "reduce-window": count * (product(d.size for d in one.window) - 1),
        "select-and-scatter": (operands[1].shape.elements if len(operands) > 1 else 0)
        * (product(d.size for d in one.window) - 1),
        "scatter": operands[-1].shape.elements if operands else 0,
        "map": count,
    }
    if one.opcode in repeats:
        each = _sum(program, program.body(one)).times(max(repeats[one.opcode], 0))
        return each.flops, each.transcendentals
    if one.opcode == "sort":
        return first * ceil(log2(first)) if first > 1 else 0, 0
    if one.opcode == "custom-call":
        return library_flops(program, one), 0
    return 0, 0


# --- traffic -------------------------------------------------------------------------------------------------------


def _bytes(program: Program, one: Instruction) -> int:
    operands = [operand.shape for operand in program.operands(one)]
    result = one.shape.bytes
    if one.opcode == "tuple":
        return result
    if one.opcode == "slice":
        return 2 * result
    if one.opcode == "dynamic-slice":
        return 2 * result + sum(shape.bytes for shape in operands[1:])
    if one.opcode == "dynamic-update-slice" and len(operands) > 1:
        return 2 * operands[1].bytes + sum(shape.bytes for shape in operands[2:])
    if one.opcode == "gather" and len(operands) > 1:
        return 2 * result + operands[1].bytes
    if one.opcode == "scatter" and len(operands) > 2:
        return 3 * operands[-1].bytes + operands[1].bytes
    if one.opcode == "custom-call":
        return sum(shape.all_bytes for shape in operands) + sum(shape.bytes for shape in _results(one))
    return result + sum(shape.bytes for shape in operands)


def _results(one: Instruction) -> list[Shape]:
    """The arrays that a custom call makes, without the workspace of bytes that libraries ask for at the end."""
    found = list(one.shape.arrays())
    if len(found) > 1 and found[-1].name in ("u8", "s8") and len(found[-1].dims) == 1:
        found.pop()
    return found


def _fusion_bytes(program: Program, one: Instruction, body: Computation | None) -> int:
    if body is None:
        return one.shape.all_bytes + sum(operand.shape.all_bytes for operand in program.operands(one))
    return sum(_read_bytes(program, body).values()) + _written(program, body.result)


def _read_bytes(program: Program, body: Computation) -> dict[int, int]:
    """Position of each parameter of a fusion's body -> bytes of it that are read: of one that is sliced, the slices."""
    if ("read", body.id) not in program.known:
        for computation in _callees_first(program, body, "read", {}):
            program.known["read", computation.id] = _read_inside(program, computation)
    found: dict[int, int] = program.known["read", body.id]
    return found


def _read_inside(program: Program, body: Computation) -> dict[int, int]:
    users: dict[int, list[Instruction]] = {}
    for user in body.instructions:
        for operand in dict.fromkeys(user.operands):
            users.setdefault(operand, []).append(user)
    result = body.result
    return {
        one.parameter: _bytes_of_users(program, one, _readers(program, one, users), one is result)
        for one in body.instructions
        if one.opcode == "parameter"
    }


def _readers(
    program: Program, parameter: Instruction, users: dict[int, list[Instruction]]
) -> Iterator[tuple[int, Instruction]]:
    """What reads a parameter, each with the id of the operand that holds it there.

    A fusion whose result is a parameter of its own reads nothing; those do that use the fusion's result.
    """
    waiting, met = [parameter.id], {parameter.id}
    while waiting:
        held = waiting.pop()
        for user in users.get(held, ()):
            if _passed_on(program, user) != held:
                yield held, user
            elif user.id not in met:
                met.add(user.id)
                waiting.append(user.id)


def _passed_on(program: Program, one: Instruction) -> int | None:
    """The id of the operand that a fusion's result is, unchanged; None of anything else."""
    body = program.body(one) if one.opcode == "fusion" else None
    result = body.result if body else None
    if result is None or result.opcode != "parameter" or not 0 <= result.parameter < len(one.operands):
        return None
    return one.operands[result.parameter]


def _bytes_of_users(
    program: Program, parameter: Instruction, users: Iterable[tuple[int, Instruction]], is_result: bool
) -> int:
    total, whole = (parameter.shape.all_bytes, True) if is_result else (0, False)
    for held, user in users:
        is_first = bool(user.operands) and user.operands[0] == held
        if user.opcode == "fusion" and (inner := program.body(user)) is not None:
            read = _read_bytes(program, inner)
            total += sum(read.get(at, 0) for at, operand in enumerate(user.operands) if operand == held)
        elif user.opcode == "slice" or (is_first and user.opcode in ("dynamic-slice", "gather")):
            total += user.shape.bytes
        elif is_first and user.opcode == "dynamic-update-slice":
            continue  # it is changed in place
        elif user.opcode in ("broadcast", "reshape"):
            total += parameter.shape.bytes
        elif not whole:
            whole = True
            total += parameter.shape.all_bytes
    return min(total, LARGEST)


def _written(program: Program, root: Instruction | None) -> int:
    if root is None:
        return 0
    if root.opcode == "tuple":
        return sum(_written(program, part) for part in program.operands(root) if part.opcode != "tuple")
    if root.opcode == "dynamic-update-slice" and len(update := program.operands(root)) > 1:
        return update[1].shape.bytes
    return root.shape.all_bytes


# --- products and convolutions -------------------------------------------------------------------------------------

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
        told = json.loads(text)["gemm_backend_config"]["dot_dimension_numbers"]
        names = (f"{side}_{what}_dimensions" for what in ("contracting", "batch") for side in ("lhs", "rhs"))
        found = DotDims(*(tuple(int(i) for i in told.get(name, ())) for name in names))
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
        total += (last - hit) // period - (first - 1 - hit) // period
    return total


# --- libraries -----------------------------------------------------------------------------------------------------


def library_flops(program: Program, one: Instruction) -> int:
    """Operations of a call of a library that is known; 0 for any other."""
    return next((count(program, one) for pattern, count in _LIBRARIES if pattern.search(one.target)), 0)


_LIBRARIES: tuple[tuple[re.Pattern[str], Callable[[Program, Instruction], int]], ...] = (
    (TARGETS, attention_flops),
    (re.compile(r"^__(?:cudnn|miopen)\$conv"), convolution_flops),
)
"""Targets of custom calls, and what they compute."""
