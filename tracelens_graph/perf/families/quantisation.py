"""Quantisation: a tensor is written again in few bits, with scales for groups of elements.

FLOPs per element as in TraceLens: 2.59375 by hardware counters for aiter's kernels, 6 for vLLM's Triton kernel
(maximum, scale, division, bounds), 2 for fp4, 1 for a whole tensor with a given scale.
"""

from __future__ import annotations

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.shared import dense, vector_cost
from tracelens_graph.perf.model import CallContext

_FP8 = "c10::Float8_e4m3fn"
_BLOCK = 32
"""Elements that share a scale in the microscaling formats (OCP Microscaling Formats, MX v1.0)."""


def quantised_fp8(source: Tensor, *, group: int = 0) -> Cost:
    """Quantisation to fp8 with an fp32 scale per group along the last dimension.

    FLOPs = 6E; bytes = source + E + 4 · rows · groups of a row.

    Args:
        source: what is quantised.
        group: elements of a group; 0: a whole row.
    """
    width = source.shape[-1] if source.shape else 1
    rows = source.elements // width if width else 0
    groups = max(1, -(-width // group)) if group > 0 else 1
    params = {
        "M": rows, "N": width, "group_size": group or width, "num_groups": groups, "shape_x": source.shape,
        "dtype_x": source.dtype,
    }  # fmt: skip
    touched = (source, dense(source, _FP8), Tensor((rows, groups), "float"))
    return vector_cost(6 * source.elements, touched, source, params)


def quantised_mxfp4(source: Tensor) -> Cost:
    """Quantisation to fp4 with an 8-bit scale for each 32 elements.

    FLOPs = 2E; bytes = source + E/2 + E/32.
    """
    elements = source.elements
    packed, scales = (Tensor((size,), "unsigned char") for size in (-(-elements // 2), elements // _BLOCK))
    return vector_cost(2 * elements, (source, packed, scales), source, _params(source, source.dtype))


def quantised_mxfp4_both_ways(source: Tensor) -> Cost:
    """Quantisation to fp4 by rows and by columns at once, for the products of a forward and a backward pass.

    FLOPs = E; bytes = source + 2 · E/2 + M · N/32 + N · M/32, rounded up.
    """
    if len(source.shape) != 2:
        raise CannotModel("the source is no matrix")
    rows, columns = source.shape
    packed = Tensor((2, -(-source.elements // 2)), "unsigned char")
    scales = Tensor((rows * -(-columns // _BLOCK) + columns * -(-rows // _BLOCK),), "unsigned char")
    params = _params(source, "c10::Float4_e2m1fn_x2")
    return vector_cost(source.elements, (source, packed, scales), source, params)


def quantised_by_tensor(source: Tensor, dtype: str = "c10::Float8_e4m3fnuz") -> Cost:
    """Quantisation with one scale for all.

    FLOPs = E; bytes = source + result.
    """
    return vector_cost(source.elements, (source, dense(source, dtype)), source, _params(source, dtype))


def _params(source: Tensor, dtype: str) -> dict[str, object]:
    return {
        "op_shape": source.shape,
        "dtype_in_out": (source.dtype, dtype),
        "stride_input": source.strides,
        "stride_output": None,
    }


def scaled(result: Tensor, source: Tensor, scales: Tensor, *, flops: int) -> Cost:
    """Quantisation into a tensor and scales that are given; `flops` in 32nds per element."""
    params = {
        "shape_in1": source.shape, "shape_in2": scales.shape, "shape_out": result.shape,
        "dtype_in1_in2_out": (source.dtype, scales.dtype, result.dtype), "stride_input1": source.strides,
        "stride_input2": scales.strides, "stride_output": result.strides,
    }  # fmt: skip
    return vector_cost(source.elements * flops // 32, (source, scales, result), source, params)


def fp8_by_group_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(source, group size)`; vLLM's default is 128."""
    return quantised_fp8(arguments.tensor(0), group=arguments.integer(1) or 128)
