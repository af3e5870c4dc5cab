"""Vector work: so many FLOPs, and each of some tensors read or written once. What its models have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.dtypes import element_type
from tracelens_graph.perf.model import CallContext

NUMBER = Tensor((), "Scalar")
"""A plain number among operands; it counts four bytes."""


def traffic(tensors: Iterable[Tensor]) -> int | None:
    """Bytes of all tensors; None if a type is not known."""
    total = 0
    for tensor in tensors:
        if tensor.dtype == NUMBER.dtype:
            total += 4
            continue
        try:
            total += tensor.bytes
        except CannotModel:
            return None
    return total


def precision(tensor: Tensor) -> str:
    """In which precision a device computes on the elements of a tensor; "" if that is not known."""
    try:
        return element_type(tensor.dtype).precision
    except CannotModel:
        return ""


def vector_cost(flops: int, touched: Iterable[Tensor], of: Tensor, params: Mapping[str, Any]) -> Cost:
    """Cost of vector work.

    Args:
        flops: floating-point operations.
        touched: every tensor that is read or written; one that is both stands there twice.
        of: the tensor in whose precision it computes.
        params: the sizes it follows from.
    """
    return Cost(flops, traffic(touched), "vector", precision(of), params)


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

    Raises:
        CannotModel: no kernel names one.
    """
    for kernel in context.kernels:
        size = _SIZE.search(kernel[:4096])
        if size and int(size[1]) in _OPAQUE:
            return _OPAQUE[int(size[1])]
        for name in _ELEMENT.findall(kernel[:4096]):
            try:
                element_type(name)
            except CannotModel:
                continue
            return str(name)
    raise CannotModel("types of tensor lists are not recorded, and no kernel names one")
