"""What the models of matrix work share: sizes in bytes, and what the name of a kernel tells of a product."""

from __future__ import annotations

import re

from tracelens_graph.perf.arguments import Tensor
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.dtypes import ElementType, element_type
from tracelens_graph.perf.model import CallContext


def known(dtype: str) -> ElementType:
    """What is known of a type; no bits if nothing is."""
    try:
        return element_type(dtype)
    except CannotModel:
        return ElementType(0, "")


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


def matrix_precision(dtype: str, context: CallContext) -> str:
    """Precision that the matrix units work in: TF32 where the operands are float32 and a kernel's name says so."""
    precision = known(dtype).precision
    if precision == "fp32" and any("tf32" in kernel.lower() for kernel in context.kernels):
        return "tf32"
    return precision


_TENSILE = re.compile(r"C[a-z]{3}_A(ilk|lik)_B(ljk|jlk)(?![a-z])")
_NVJET = re.compile(r"_([NT])([NT])[NT](?:_|$)")


def transposed(kernels: tuple[str, ...]) -> tuple[bool, bool] | None:
    """Whether a kernel transposes its two operands, by the first name that tells; None if none does.

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
