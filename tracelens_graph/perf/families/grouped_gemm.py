"""Grouped matrix multiplication: the experts of a layer, each with rows of its own.

How many rows a group has stands in a tensor, whose values a trace does not record; the total does.
"""

from __future__ import annotations

from math import prod

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.shared import bytes_of, total
from tracelens_graph.perf.model import CallContext
from tracelens_graph.perf.scalar_types import SCALAR_TYPES, known


def grouped_gemm(
    m: int, n: int, k: int, groups: int, *, dtype: str = "bf16", dtype_b: str = "", dtype_out: str = ""
) -> Cost:
    """Cost of products of m rows, split over groups, by the (k, n) matrix of their group.

    FLOPs = 2 m k n, however the rows are split. Bytes = rows read and results written once, and the matrices of groups
    that have rows: all of them, if there are rows enough (the value); between one and `min(groups, m)` of them.

    Args:
        m: rows of all groups.
        n, k: columns and inner size.
        groups: number of groups.
        dtype, dtype_b, dtype_out: types of rows, of matrices and of results; the last two are the first unless given.
    """
    dtype_b, dtype_out = dtype_b or dtype, dtype_out or dtype
    matrix = bytes_of(k * n, dtype_b)
    rows = total(bytes_of(m * k, dtype), bytes_of(m * n, dtype_out))
    return _with_matrices(2 * m * k * n, rows, matrix, m, groups, dtype, _params(m, n, k, groups, dtype, dtype_out))


def grouped_gemm_backward(m: int, n: int, k: int, groups: int, *, dtype: str = "bf16", dtype_out: str = "") -> Cost:
    """Cost of both gradients of `grouped_gemm`.

    FLOPs = 4 m k n. Bytes = the gradient of the results read twice, rows read and their gradient written, matrices read
    and their gradient written (that of a group without rows is zeros, and is written too).

    Args:
        m, n, k, groups, dtype, dtype_out: as for `grouped_gemm`.
    """
    dtype_out = dtype_out or dtype
    matrix, grad = bytes_of(k * n, dtype), bytes_of(m * n, dtype_out)
    rows = bytes_of(m * k, dtype)
    fixed = total(grad, grad, rows, rows, None if matrix is None else groups * matrix)
    return _with_matrices(4 * m * k * n, fixed, matrix, m, groups, dtype, _params(m, n, k, groups, dtype, dtype_out))


def grouped_gemm_variable_k(m: int, n: int, k: int, groups: int, *, dtype: str = "bf16", dtype_out: str = "") -> Cost:
    """Cost of one (k, n) product per group, summed over the group's share of m rows: the gradient of the matrices.

    FLOPs = 2 m k n. Bytes = the (m, k) and the (m, n) operand read once, the products of all groups written once.

    Args:
        m: rows of all groups, over which is summed.
        n, k: columns and rows of each product.
        groups: number of groups.
        dtype, dtype_out: types of the operands and of the results.
    """
    dtype_out = dtype_out or dtype
    return Cost(
        flops=2 * m * k * n, bytes=total(bytes_of(m * k + m * n, dtype), bytes_of(groups * k * n, dtype_out)),
        unit="matrix", precision=known(dtype).precision, params=_params(m, n, k, groups, dtype, dtype_out),
    )  # fmt: skip


def _with_matrices(
    flops: int, fixed: int | None, matrix: int | None, m: int, groups: int, dtype: str, params: dict[str, object]
) -> Cost:
    """A cost whose bytes depend on how many groups have rows."""
    value, spread = None, None
    if fixed is not None and matrix is not None:
        value = fixed + min(groups, m) * matrix
        spread = (fixed + min(groups, m, 1) * matrix, value)
    return Cost(flops, value, "matrix", known(dtype).precision, params, bytes_range=spread)


def _params(m: int, n: int, k: int, groups: int, dtype: str, dtype_out: str) -> dict[str, object]:
    sizes = (bytes_of(1, one) for one in (dtype, dtype_out))
    return dict(zip(("M", "K", "N", "G", "bpe_in", "bpe_out"), (m, k, n, groups, *sizes), strict=True))


def rows_by_matrices_call(arguments: Arguments, _: CallContext) -> Cost:
    """Primus-Turbo: rows (M, K), matrices (G, K, N) or transposed (G, N, K), rows per group, offsets, two flags.

    An older form lists the operands of every group.
    """
    return grouped_gemm(*_rows_by_matrices(arguments), dtype=arguments.type(0))


def rows_by_matrices_backward_call(arguments: Arguments, _: CallContext) -> Cost:
    """Both gradients of a call of Primus-Turbo's product of rows by matrices."""
    return grouped_gemm_backward(*_rows_by_matrices(arguments), dtype=arguments.type(0))


def _rows_by_matrices(arguments: Arguments) -> tuple[int, int, int, int]:
    """Rows of all groups, columns, inner size and number of groups."""
    listed = _listed(arguments)
    if listed is not None:
        a, b = listed
        k, n = b[0]
        if any(one[1] != k for one in a) or any(matrix != (k, n) for matrix in b):
            raise CannotModel("the groups differ in more than their rows")
        return sum(one[0] for one in a), n, k, len(b)
    rows, matrices = arguments.tensor(0), arguments.tensor(1)
    if len(rows.shape) != 2 or len(matrices.shape) != 3:
        raise CannotModel("the operands are not rows and a stack of matrices")
    (m, k), (groups, first, second) = rows.shape, matrices.shape
    flag = arguments.boolean(5)
    swapped = first != k if flag is None else flag
    inner, n = (second, first) if swapped else (first, second)
    if inner != k:
        raise CannotModel("the inner sizes of the operands differ")
    return m, n, k, groups


def sum_over_rows_call(arguments: Arguments, _: CallContext) -> Cost:
    """Primus-Turbo, variable K: operands (M, K) and (M, N), rows per group; an older form lists those of each group."""
    listed = _listed(arguments)
    if listed is not None:
        if any(a[1] != b[0] for a, b in zip(*listed, strict=True)):
            raise CannotModel("the inner sizes of the operands differ")
        parts = [grouped_gemm(m, n, k, 1, dtype=arguments.type(0)) for (m, k), (__, n) in zip(*listed, strict=True)]
        k, n = listed[0][0][1], listed[1][0][1]
        return Cost(
            flops=sum(part.flops for part in parts), bytes=total(*(part.bytes for part in parts)), unit="matrix",
            precision=parts[0].precision,
            params={**parts[0].params, "M": sum(one[0] for one in listed[0]), "K": k, "N": n, "G": len(parts)},
        )  # fmt: skip
    a, b, lengths = arguments.tensor(0), arguments.tensor(1), arguments.tensor(2)
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[0] != b.shape[0] or len(lengths.shape) != 1:
        raise CannotModel("the operands do not share their rows")
    return grouped_gemm_variable_k(a.shape[0], b.shape[1], a.shape[1], lengths.shape[0], dtype=a.dtype)


def _listed(arguments: Arguments) -> tuple[list[tuple[int, int]], list[tuple[int, int]]] | None:
    """Shapes of the operands of every group; None if the operands are tensors."""
    a, b = (
        [(one.shape[0], one.shape[1]) for one in arguments.tensors(index) if len(one.shape) == 2] for index in (0, 1)
    )
    return (a, b) if a and len(a) == len(b) else None


def aten_call(arguments: Arguments, _: CallContext, *, offsets: int, out_type: int) -> Cost:
    """`aten::_grouped_mm` and the scaled one: each operand is a matrix, split by offsets, or a stack of matrices."""
    a, b = arguments.tensor(0), arguments.tensor(1)
    ranks = len(a.shape), len(b.shape)
    if min(ranks) < 2 or max(ranks) > 3 or a.shape[-1] != b.shape[-2]:
        raise CannotModel("the inner sizes of the operands differ")
    code = arguments.integer(out_type)
    dtype_out = SCALAR_TYPES.get(code, "") if code is not None else ""
    if not dtype_out:
        dtype_out = "c10::BFloat16" if known(a.dtype).bits == 8 else a.dtype
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if ranks == (2, 3):
        return grouped_gemm(m, n, k, b.shape[0], dtype=a.dtype, dtype_b=b.dtype, dtype_out=dtype_out)
    if ranks == (3, 2):
        return grouped_gemm(n, m, k, a.shape[0], dtype=b.dtype, dtype_b=a.dtype, dtype_out=dtype_out)
    if ranks == (2, 2):
        groups = prod(arguments.tensor(offsets).shape)
        return grouped_gemm_variable_k(k, n, m, groups, dtype=a.dtype, dtype_out=dtype_out)
    return _stacks(a, b, dtype_out)


def _stacks(a: Tensor, b: Tensor, dtype_out: str) -> Cost:
    """A product per pair of matrices of two stacks."""
    groups, m, k = a.shape
    n = b.shape[-1]
    if b.shape[0] != groups:
        raise CannotModel("the stacks differ in their number of matrices")
    size = total(
        bytes_of(groups * m * k, a.dtype), bytes_of(groups * k * n, b.dtype), bytes_of(groups * m * n, dtype_out)
    )
    params = _params(m, n, k, groups, a.dtype, dtype_out)
    return Cost(2 * groups * m * k * n, size, "matrix", known(a.dtype).precision, params)
