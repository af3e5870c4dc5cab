"""Reductions along dimensions, scans, softmax, selections of the largest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.elementwise import binary
from tracelens_graph.perf.families.shared import dense, vector_cost
from tracelens_graph.perf.model import CallContext
from tracelens_graph.perf.scalar_types import SCALAR_TYPES, known


def reduction(
    source: Tensor, dims: tuple[int, ...] | None, *, kind: str = "sum", dtype: str = "", scan: bool = False
) -> Cost:
    """A reduction along dimensions: sum, mean, largest, norm, variance, ….

    FLOPs = E, one per element of the source; bytes = source + result. The backward pass reads what this one writes and
    writes what it reads: it costs the same.

    Args:
        source: what is reduced.
        dims: dimensions that go, negative from the end; None or none at all: all of them.
        kind: name of the reduction, for the tables.
        dtype: type of the result; that of the source if not given.
        scan: whether the result keeps the shape (cumulative sums).
    """
    result = Tensor(source.shape if scan else remaining(source.shape, dims), dtype or source.dtype)
    return _reduced(source, [result], kind)


def _reduced(source: Tensor, results: list[Tensor], kind: str) -> Cost:
    params = {
        "num_input_elems": source.elements,
        "num_output_elems": results[0].elements,
        "dtype_in_out": (source.dtype, None),
        "reduce_type": kind,
    }
    return vector_cost(source.elements, [source, *results], source, params)


def remaining(shape: tuple[int, ...], dims: tuple[int, ...] | None) -> tuple[int, ...]:
    """Sizes that a reduction leaves."""
    if not dims:
        return ()
    rank = max(len(shape), 1)
    if any(not -rank <= dim < rank for dim in dims):
        raise CannotModel(f"no dimension {' or '.join(map(str, dims))} in shape {shape}")
    gone = {dim % rank for dim in dims}
    return tuple(size for index, size in enumerate(shape) if index not in gone)


def softmax(source: Tensor, *, dtype: str = "") -> Cost:
    """Softmax or its logarithm along a dimension: maximum, difference, exponential, sum, quotient.

    FLOPs = 5E; bytes = source + result.
    """
    result = dense(source, dtype)
    return vector_cost(5 * source.elements, (source, result), source, {"op_shape": source.shape})


@dataclass(frozen=True)
class Reduction:
    """Reads the arguments of a reduction.

    Attributes:
        kind: name of the reduction for the tables.
        dims: position of the dimensions.
        single: whether one dimension may be given as a number; else they are a list.
        dtype: position of the type of the result, behind the dimensions; None if there is no such argument.
        widens: whether integers are summed as 64 bit.
        result: type of the result if it is not that of the source.
        indices: whether positions of the values are written too, once a dimension is given.
        pairs: whether a second tensor makes it an elementwise operation.
        backward: whether it is the backward pass, for which there is no formula if a second tensor is given.
    """

    kind: str = "sum"
    dims: int = 1
    single: bool = False
    dtype: int | None = None
    widens: bool = False
    result: str = ""
    indices: bool = False
    pairs: bool = False
    backward: bool = False

    def __call__(self, arguments: Arguments, context: CallContext) -> Cost:
        """The cost of a call."""
        if self.backward:
            _check_no_pair(arguments)
        source = arguments.tensor(0)
        second = arguments.optional(1) if self.pairs else None
        if second is not None:
            return replace(binary(source, second, arguments.optional(2)), sheet="BinaryElementwise")
        dims = None if self._without_dims(arguments) else _dims(arguments, self.dims, self.single)
        result = Tensor(remaining(source.shape, dims), self._result_type(arguments, source))
        positions = [Tensor(result.shape, "long")] if self.indices and dims else []
        return _reduced(source, [result, *positions], self.kind)

    def _without_dims(self, arguments: Arguments) -> bool:
        """Whether these are the arguments `(source, dtype)`."""
        return self.dtype is not None and len(arguments) <= self.dims + 1

    def _result_type(self, arguments: Arguments, source: Tensor) -> str:
        result = self.result or (_widened(source.dtype) if self.widens else source.dtype)
        if self.dtype is None:
            return result
        number = arguments.integer(self.dims if self._without_dims(arguments) else self.dtype)
        return result if number is None else SCALAR_TYPES.get(number, result)


def _check_no_pair(arguments: Arguments) -> None:
    if arguments.optional(1) is not None:
        raise CannotModel("no formula for the backward pass of an elementwise maximum")


def _widened(dtype: str) -> str:
    """Type of a sum: whole numbers are summed as 64 bits."""
    kind = known(dtype)
    return "long" if kind.bits and not kind.is_floating else dtype


def _dims(arguments: Arguments, index: int, single: bool) -> tuple[int, ...] | None:
    """Dimensions of a reduction: a list, a number, or none, which means all of them."""
    listed, one = arguments.integers(index), arguments.integer(index)
    if listed is not None:
        return listed
    if single and one is not None:
        return (one,)
    if arguments.type(index) in (("ScalarList", "Scalar") if single else ("ScalarList",)):
        raise CannotModel("the reduced dimensions are not recorded")
    return None


def scan_call(arguments: Arguments, context: CallContext, *, backward: bool = False) -> Cost:
    """Reads the arguments `(source, dim, dtype)` of a cumulative sum or product.

    Args:
        backward: as of `Reduction`.
    """
    if backward:
        _check_no_pair(arguments)
    source = arguments.tensor(0)
    number = arguments.integer(2)
    widened = _widened(source.dtype)
    dtype = widened if number is None else SCALAR_TYPES.get(number, widened)
    return reduction(source, None, dtype=dtype, scan=True)


def softmax_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(source, dim, half_to_float)`."""
    return softmax(arguments.tensor(0), dtype="float" if arguments.boolean(2) else "")


def softmax_backward_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(gradient, output, dim, type)`: product, sum, difference, product: 4E."""
    gradient, output = arguments.tensor(0), arguments.tensor(1)
    written = dense(output, SCALAR_TYPES.get(arguments.integer(3) or -1, output.dtype))
    return vector_cost(4 * output.elements, (gradient, output, written), gradient, {"op_shape": output.shape})


def top_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(source, k, dim, …)`: each element is compared at least once; k values and their positions are written."""
    source, k, dim = arguments.tensor(0), arguments.integer(1), arguments.integer(2)
    if k is None or k < 0:
        raise CannotModel("how many are taken is not recorded")
    taken = k * prod(remaining(source.shape, (-1 if dim is None else dim,)))
    return _reduced(source, [Tensor((taken,), source.dtype), Tensor((taken,), "long")], "topk")


def sort_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(source, dim, descending)`, or with `stable` before: n·log₂ n comparisons along the dimension."""
    source = arguments.tensor(0)
    dim = arguments.integer(1 if arguments.integer(1) is not None else 2)
    length = source.elements // max(prod(remaining(source.shape, (-1 if dim is None else dim,))), 1)
    steps = max(length - 1, 1).bit_length()
    results = (dense(source), dense(source, "long"))
    return vector_cost(source.elements * steps, (source, *results), source, {"op_shape": source.shape})


def pooling(source: Tensor, window: tuple[int, ...], result: tuple[int, ...], *, indices: bool = False) -> Cost:
    """Largest or mean of windows: one FLOP per element of each window; positions of the largest are written if asked.

    FLOPs = E of the result · elements of a window; bytes = source + result [+ 8 per index].
    """
    written = [Tensor(result, source.dtype), *([Tensor(result, "long")] if indices else [])]
    params = {"input_shape": source.shape, "output_shape": result, "kernel_size": window}
    return vector_cost(prod(result) * prod(window), (source, *written), source, params)


def pooling_call(arguments: Arguments, context: CallContext, *, dilation: int | None, ceil: int, indices: bool) -> Cost:
    """Reads `(source, kernel, stride, padding, …)`; dilation and ceil_mode stand at the positions given."""
    source, window = arguments.tensor(0), arguments.integers(1)
    rank = len(window or ())
    if not window or rank >= len(source.shape) or min(window) < 1:
        raise CannotModel("the window is not recorded")
    stride = _of_rank(arguments.integers(2) or window, rank)
    padding = _of_rank(arguments.integers(3) or (0,), rank)
    gaps = _of_rank((arguments.integers(dilation) if dilation else None) or (1,), rank)
    if min(stride) < 1 or min(padding) < 0 or min(gaps) < 1:
        raise CannotModel("stride, padding or dilation cannot be")
    up = bool(arguments.boolean(ceil))
    result = tuple(
        _windows(size, pad, gap * (width - 1) + 1, step, up)
        for size, width, step, pad, gap in zip(source.shape[-rank:], window, stride, padding, gaps, strict=True)
    )
    return pooling(source, window, source.shape[:-rank] + result, indices=indices)


def _windows(size: int, padding: int, extent: int, step: int, up: bool) -> int:
    """How many windows fit; none begins behind the source, even if rounded up."""
    room = size + 2 * padding - extent
    if room < 0:
        raise CannotModel("the window is larger than the source")
    count = (-(-room // step) if up else room // step) + 1
    return count - 1 if up and (count - 1) * step >= size + padding else count


def _of_rank(values: tuple[int, ...], rank: int) -> tuple[int, ...]:
    if len(values) not in (1, rank):
        raise CannotModel("stride, padding or dilation do not fit the window")
    return values if len(values) == rank else values * rank


def max_pool_backward(gradient: Tensor, source: Tensor, indices: Tensor) -> Cost:
    """Gradient of the largest of windows: one addition per gradient."""
    params = {"input_shape": source.shape, "output_shape": gradient.shape}
    return vector_cost(gradient.elements, (gradient, indices, dense(source, gradient.dtype)), gradient, params)
