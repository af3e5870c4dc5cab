"""Matrix multiplication: dense, batched, linear layers, scaled and quantised variants.

One formula, `gemm`; the ops differ in where their operands stand and how these lie, which is data (`Product`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.shared import bytes_of, matrix_precision, stored_bytes, total, transposed
from tracelens_graph.perf.model import CallContext, looks_at_context
from tracelens_graph.perf.scalar_types import SCALAR_TYPES, known

SCALE_BLOCK = 32
"""Numbers that share a scale of one byte in the OCP microscaling formats (MXFP4); NVFP4 has 16."""

_NOTHING_KNOWN: Mapping[str, int | None] = MappingProxyType({})


def gemm(
    m: int,
    n: int,
    k: int,
    *,
    batch: int = 1,
    bias: bool = False,
    dtype: str = "bf16",
    dtype_b: str = "",
    dtype_out: str = "",
    dtype_bias: str = "",
    scale_block: int = SCALE_BLOCK,
    stored: Mapping[str, int | None] = _NOTHING_KNOWN,
) -> Cost:
    """Cost of `batch` products of an (m, k) by a (k, n) matrix.

    FLOPs = batch (2 m n k + [bias] m n), by definition; a complex multiply-add counts as eight, a complex addition as
    two. Bytes = operands and bias read once, result written once. Operands of 4 bits bring a scale of one byte per
    `scale_block` numbers along k; the scales of 8-bit operands are left out (one per 128 numbers or fewer).

    Args:
        m, n, k, batch: sizes.
        bias: whether something is added to the result.
        dtype, dtype_b: types of the operands; the second is that of the first unless given.
        dtype_out: type of the result; by default that of the operands, and bf16 for operands of 8 bits or fewer.
        dtype_bias: type of the bias; that of the result unless given.
        scale_block: numbers per scale of 4-bit operands.
        stored: bytes of `a`, `b`, `out` and `bias` where they are known to differ from those of dense matrices and of a
            bias of n numbers per product; None where they cannot be known.
    """
    dtype_b = dtype_b or dtype
    dtype_out = dtype_out or _result_type(dtype)
    size_a, size_b = batch * m * k, batch * k * n
    dense = {
        "a": bytes_of(size_a, dtype),
        "b": bytes_of(size_b, dtype_b),
        "out": bytes_of(batch * m * n, dtype_out),
        "bias": bytes_of(batch * n, dtype_bias or dtype_out) if bias else 0,
    }
    scales = _scales(batch * m, k, dtype, scale_block) + _scales(batch * n, k, dtype_b, scale_block)
    multiply_add, add = (8, 2) if "complex" in dtype.lower() else (2, 1)
    return Cost(
        flops=batch * m * n * (multiply_add * k + (add if bias else 0)),
        bytes=total(*{**dense, **stored}.values(), scales),
        unit="matrix",
        precision=known(dtype).precision,
        params={"M": m, "N": n, "K": k, "bias": bias, "dtype_A_B": (dtype, dtype_b), "B": batch},
    )


def _result_type(dtype: str) -> str:
    bits, _, values = known(dtype)
    return "c10::BFloat16" if bits and bits // values <= 8 else dtype


def _scales(rows: int, k: int, dtype: str, block: int) -> int:
    return rows * -(-k // block) if known(dtype).values > 1 else 0


@looks_at_context
@dataclass(frozen=True)
class Product:
    """Reads ops with two operand tensors and no transposition flags: where these stand, and how they lie.

    Attributes:
        a, b: positions of the operands.
        weight: whether b is a weight of a linear layer, (N, K); else it is (K, N).
        bias: position of what is added; None if there never is anything.
        beta: position of the factor of what is added: nothing is added where it is 0.
        out: position of the tensor that takes the result; None if there is none.
        out_type: position of the number of the result's type.
        result: type of the result where neither says it; "" for the rule of `gemm`.
        packed: whether a byte of both operands holds two 4-bit numbers though their type does not say so.
        scale: position of a scale of b whose type separates NVFP4 from MXFP4.
        raw: precision of operands that are recorded as bare bytes.
        compute: precision that the matrix units work in, where it is not that of a; "b" for that of b.
        third: what TraceLens shows as third type ("" for none, and then it shows the strides).
    """

    a: int = 0
    b: int = 1
    weight: bool = False
    bias: int | None = None
    beta: int | None = None
    out: int | None = None
    out_type: int | None = None
    result: str = ""
    packed: bool = False
    scale: int | None = None
    raw: str = ""
    compute: str = ""
    third: str = ""

    def __call__(self, arguments: Arguments, context: CallContext) -> Cost:
        """The cost of a call."""
        a, b = arguments.tensor(self.a), arguments.tensor(self.b)
        if not 2 <= len(b.shape) <= 3 or len(a.shape) < 1 or (len(a.shape) != len(b.shape) and not self.weight):
            raise CannotModel(f"no product of tensors of {len(a.shape)} and {len(b.shape)} dimensions is known")
        n, k_b = (b.shape[-2], b.shape[-1]) if self.weight else (b.shape[-1], b.shape[-2])
        batch = b.shape[0] if len(b.shape) == 3 else 1
        rows = a.shape[:-1]
        if len(b.shape) == 3:
            if len(rows) != 2 or batch not in rows:
                raise CannotModel("the batches of the operands differ")
            rows = rows[1:] if rows[0] == batch else rows[:1]
        k, values_b = _inner(self, a, b, k_b)
        return _product(self, arguments, context, (a, b), (prod(rows), n, k, batch), values_b)


def _inner(layout: Product, a: Tensor, b: Tensor, k_b: int) -> tuple[int, int]:
    """Inner size of the product, and how many numbers an element of b holds."""
    values_a, values_b = (2 if layout.packed else known(tensor.dtype).values for tensor in (a, b))
    k = a.shape[-1] * values_a
    if layout.weight and k == 2 * k_b * values_b and known(b.dtype).bits == 8:
        values_b *= 2  # 4-bit weights in bytes under activations of 16 bits
    if k != k_b * values_b:
        raise CannotModel("the inner sizes of the operands differ")
    return k, values_b


def _product(
    layout: Product,
    arguments: Arguments,
    context: CallContext,
    operands: tuple[Tensor, Tensor],
    sizes: tuple[int, int, int, int],
    values_b: int,
) -> Cost:
    """The cost of a product whose operands and sizes (m, n, k, batch) are known."""
    a, b = operands
    m, n, k, batch = sizes
    bias = arguments.optional(layout.bias) if layout.bias is not None else None
    if bias is not None and (not bias.elements or (layout.beta is not None and arguments.number(layout.beta) == 0)):
        bias = None
    out_type = _out_type(layout, arguments, a, batch * m * n)
    fp4 = "float4_e2m1fn_x2"
    cost = gemm(
        m,
        n,
        k,
        batch=batch,
        bias=bias is not None,
        dtype=fp4 if layout.packed else a.dtype,
        dtype_b=fp4 if values_b > 1 else b.dtype,
        dtype_out=out_type,
        scale_block=16 if layout.scale is not None and "e4m3" in arguments.type(layout.scale).lower() else SCALE_BLOCK,
        stored={"a": stored_bytes(a), "b": stored_bytes(b), "bias": stored_bytes(bias) if bias is not None else 0},
    )
    deciding = b.dtype if layout.compute == "b" else a.dtype
    raw = layout.raw if deciding.lower() == "unsigned char" else ""
    compute = layout.compute if layout.compute != "b" else ""
    params = {**cost.params, "dtype_A_B": (a.dtype, b.dtype)}
    if layout.third:
        third = out_type if layout.third == "out" else bias.dtype if bias is not None else ""
        params["dtype_A_B"] = (a.dtype, b.dtype, third)
    else:
        params |= {"stride_A": a.strides, "stride_B": b.strides}
    if (transpose := transposed(context.kernels)) is not None:
        params["transpose"] = transpose
    return replace(cost, precision=compute or raw or matrix_precision(deciding, context), params=params)


def _out_type(layout: Product, arguments: Arguments, a: Tensor, size: int) -> str:
    """Type of the result, from the tensor that takes it, else from the type asked for, else by rule."""
    if layout.out is not None:
        out = arguments.optional(layout.out)
        if out is not None and out.elements == size and known(out.dtype).bits:
            return out.dtype
    if layout.out_type is not None:
        code = arguments.integer(layout.out_type)
        if code in SCALAR_TYPES:
            return SCALAR_TYPES[code]
    return layout.result or _result_type(a.dtype)


@looks_at_context
def scaled_mm_call(arguments: Arguments, context: CallContext) -> Cost:
    """`aten::_scaled_mm`: scales, then bias and type of the result; before PyTorch 2.5 these came first."""
    scales_first = arguments.optional(2) is not None and arguments.optional(3) is not None
    if scales_first:
        return Product(bias=4, out_type=6, scale=2, raw="fp8")(arguments, context)
    return Product(bias=2, out_type=3, raw="fp8")(arguments, context)


@looks_at_context
def te_gemm_call(arguments: Arguments, context: CallContext) -> Cost:
    """`tex_ts::te_gemm_ts` of TransformerEngine 1: column-major, each operand with a flag of transposition."""
    a, b = arguments.tensor(0), arguments.tensor(5)
    trans_a, trans_b = arguments.boolean(4), arguments.boolean(9)
    if trans_a is None or trans_b is None:
        raise CannotModel("the transposition of the operands is not recorded")
    (m, k), (n, k_b) = _matrix(a, not trans_a), _matrix(b, trans_b)
    if k != k_b:
        raise CannotModel("the inner sizes of the operands differ")
    cost = _product(Product(bias=14, out=10, raw="fp8"), arguments, context, (a, b), (m, n, k, 1), 1)
    types = (a.dtype, b.dtype, arguments.type(10), arguments.type(14))
    return replace(cost, params={**cost.params, "dtype_A_B": types})


@looks_at_context
def hipblaslt_call(arguments: Arguments, context: CallContext) -> Cost:
    """`hipblaslt_gemm_fp8` and `_fp4` of Primus-Turbo: operand, its scale, operand, its scale, type, three flags."""
    a, b = arguments.tensor(0), arguments.tensor(2)
    trans_a, trans_b, trans_c = (bool(arguments.boolean(index)) for index in (5, 6, 7))
    (m, k), (n, k_b) = _matrix(a, trans_a), _matrix(b, not trans_b)
    values = known(a.dtype).values
    if (k, values) != (k_b, known(b.dtype).values):
        raise CannotModel("the inner sizes of the operands differ")
    if trans_c:
        m, n = n, m  # the transposed result is the product of the transposed operands, in the other order
    cost = _product(Product(out_type=4, scale=1, raw="fp8"), arguments, context, (a, b), (m, n, k * values, 1), values)
    return replace(cost, params={**cost.params, "dtype_scaleA": arguments.type(1), "dtype_scaleB": arguments.type(3)})


def _matrix(tensor: Tensor, swapped: bool) -> tuple[int, int]:
    """Rows and columns of a matrix; swapped, of its transpose."""
    if len(tensor.shape) != 2:
        raise CannotModel(f"an operand has {len(tensor.shape)} dimensions, not 2")
    rows, columns = tensor.shape
    return (columns, rows) if swapped else (rows, columns)
