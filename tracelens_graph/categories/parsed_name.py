"""What names of kernels say, in words of one kind for all libraries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ParsedName:
    """What a kernel's name says. Absent values are None.

    Attributes:
        family: whose naming it is.
        operation: what is computed: `gemm`, `fprop`, `attention forward`, `pointwise`, ...
        dtype: type of the elements of the first operand.
        dtype_b: of the second, where it is another.
        out_dtype: of the result.
        compute_dtype: of the accumulator.
        tile: elements of the result that a thread block makes, M and N, and where given the depth K of a step.
        stages: buffers of the pipeline over K.
        transposes: for A and B, `T` where it is transposed and `N` where not, in BLAS's column-major sense.
        layout: order of the dimensions of a tensor, such as `nhwc`.
        instruction: M, N and K of the matrix instruction.
        cluster: thread blocks of a cluster, along M and N.
        split_k: whether several thread blocks share a sum over K; a number where the name tells how many.
        arch: architecture that the kernel was compiled for, such as `sm90` or `gfx942`.
        epilogue: what is fused behind the product, such as `relu` or `bias`.
        head_dim: size of an attention head.
        causal: whether attention is masked causally.
        fused: names of the operations that a compiler fused, joined by `_`.
        functor: the function that a generic kernel applies.
    """

    family: str
    operation: str | None = None
    dtype: str | None = None
    dtype_b: str | None = None
    out_dtype: str | None = None
    compute_dtype: str | None = None
    tile: tuple[int, ...] | None = None
    stages: int | None = None
    transposes: str | None = None
    layout: str | None = None
    instruction: tuple[int, ...] | None = None
    cluster: tuple[int, ...] | None = None
    split_k: bool | int | None = None
    arch: str | None = None
    epilogue: str | None = None
    head_dim: int | None = None
    causal: bool | None = None
    fused: str | None = None
    functor: str | None = None


DTYPES = {
    "bf16": "bf16", "tf32": "tf32", "f16": "fp16", "f32": "fp32", "f64": "fp64", "e4m3": "fp8_e4m3",
    "e5m2": "fp8_e5m2", "i8": "int8", "s8": "int8", "i32": "int32", "s32": "int32", "fp32": "fp32", "fp16": "fp16",
    "fp8e4": "fp8_e4m3", "fp8e5": "fp8_e5m2", "mxfp4": "mxfp4_e2m1", "e2m1": "fp4_e2m1", "fp8": "fp8",
    "bfloat16": "bf16", "float16": "fp16", "mxe4m3": "mxfp8_e4m3", "mxe2m1": "mxfp4_e2m1",
    "half_t": "fp16", "bfloat16_t": "bf16", "float_e4m3_t": "fp8_e4m3", "float_e5m2_t": "fp8_e5m2",
}  # fmt: skip
"""How names spell types -> how they are called here."""


def sizes(text: str | None) -> tuple[int, ...] | None:
    """`128x256x64` as numbers."""
    return tuple(int(part) for part in text.split("x")) if text else None


def number(text: str | None) -> int | None:
    """Digits as a number."""
    return int(text) if text else None


def second(first: str | None, second: str | None) -> str | None:
    """The second operand's type where it is another than the first's."""
    return second if second != first else None
