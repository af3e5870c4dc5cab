"""What models share: sizes in bytes, precisions, vector work, and what the name of a kernel shows of a call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.model import CallContext
from tracelens_graph.perf.scalar_types import known


def bytes_of(numbers: int, dtype: str) -> int | None:
    """Bytes of so many dense numbers, packed where the type is; None if its size is not known."""
    bits, _, values = known(dtype)
    return -(-numbers * bits // (8 * values)) if bits else None


def stored_bytes(tensor: Tensor) -> int | None:
    """Bytes of a tensor in memory; None if the size of its elements is not known."""
    return tensor.bytes if known(tensor.dtype).bits else None


def total(*parts: int | None) -> int | None:
    """Sum of sizes; None if one of them is not known."""
    return None if None in parts else sum(part for part in parts if part is not None)


_TF32 = re.compile(r"tf32|tensorop_s1688(?:gemm|fprop|dgrad|wgrad)", re.IGNORECASE)
"""CUTLASS names the instruction alone where it rounds float32 to TF32."""


def matrix_precision(dtype: str, context: CallContext) -> str:
    """Precision that the matrix units work in: TF32 where the operands are float32 and a kernel's name says so."""
    precision = known(dtype).precision
    return "tf32" if precision == "fp32" and any(map(_TF32.search, context.kernels)) else precision


_TENSILE = re.compile(r"C[a-z]{3}_A(ilk|lik)_B(ljk|jlk)(?![a-z])")
_NVJET = re.compile(r"_([NT])([NT])[NT](?:_|$)")


def transposed(kernels: tuple[str, ...]) -> tuple[bool, bool] | None:
    """Whether a kernel transposes its two operands, by the first name that shows it; None if none does.

    In the column-major terms of BLAS: the kernel's first operand is the second one of PyTorch's row-major product.
    Names of Tensile (`Cijk_Alik_Bljk…`, index order of the operands) and of cuBLAS (`nvjet…_TNT`, both operands and the
    result).
    """
    for name in kernels:
        if tensile := _TENSILE.search(name):
            return tensile[1] == "lik", tensile[2] == "jlk"
        if name.startswith("nvjet") and (nvjet := _NVJET.search(name)):
            return nvjet[1] == "T", nvjet[2] == "T"
    return None


NUMBER = Tensor((), "Scalar")
"""A plain number among operands; it counts four bytes."""


def traffic(tensors: Iterable[Tensor]) -> int | None:
    """Bytes of all tensors; None if a type is not known."""
    return total(*(4 if tensor.dtype == NUMBER.dtype else stored_bytes(tensor) for tensor in tensors))


def vector_cost(flops: int, touched: Iterable[Tensor], of: Tensor, params: Mapping[str, Any]) -> Cost:
    """Cost of vector work.

    Args:
        flops: floating-point operations.
        touched: every tensor that is read or written; one that is both stands there twice.
        of: the tensor in whose precision it computes.
        params: the sizes it follows from.
    """
    return Cost(flops, traffic(touched), "vector", known(of.dtype).precision, params)


def dense(tensor: Tensor, dtype: str = "") -> Tensor:
    """A new tensor of the same shape, in the same type if none is given."""
    return Tensor(tensor.shape, dtype or tensor.dtype)


def present(*tensors: Tensor | None) -> list[Tensor]:
    """The tensors that are there."""
    return [tensor for tensor in tensors if tensor is not None]


def given(arguments: Arguments) -> list[Tensor]:
    """Every tensor argument, in order; those in lists are not among them."""
    return present(*(arguments.optional(index) for index in range(len(arguments))))


_OPAQUE = {1: "unsigned char", 2: "short", 4: "int", 8: "long", 16: "complex<double>"}
_SIZE = re.compile(r"OpaqueType<(\d{1,3})")
_ELEMENT = re.compile(r"\b\w*(?:Functor|Copy)\w*<\s*([\w:]+(?:<\w+>)?)")


def kernel_element(context: CallContext) -> str:
    """Type of the elements of tensor lists, from the template arguments of PyTorch's kernels.

    The profiler records no types of lists, but their kernels name them: `BinaryOpListAlphaFunctor<float, 2, 2, 0>`. Of
    `OpaqueType<2>` only the size is known; an integer type of that size stands for it.
    """
    for kernel in context.kernels:
        size = _SIZE.search(kernel[:4096])
        if size and int(size[1]) in _OPAQUE:
            return _OPAQUE[int(size[1])]
        for name in _ELEMENT.findall(kernel[:4096]):
            if known(name).bits:
                return str(name)
    raise CannotModel("types of tensor lists are not recorded, and no kernel names one")
