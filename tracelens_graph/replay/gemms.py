"""Products of matrices of a trace as command lines of the vendors' benchmarks.

BLAS counts columns first: the product C = A B of PyTorch, rows first, is C' = B' A' there. So m is the number of
columns of B, n that of rows of A, and what BLAS calls A is PyTorch's second matrix.

Options are those of `hipblaslt-bench --help` (ROCm documentation, hipBLASLt clients) and of `cublasMatmulBench` as
published scripts call it: `-P=tst -m=8192 -n=9728 -k=16384 -ta=0 -tb=1 -A=1 -B=0 -T=1000 -p=0`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tracelens_graph.errors import AnalysisError
from tracelens_graph.replay.planned import Plans
from tracelens_graph.replay.replay_plan import ReplayPlan, TensorValue

_OPERANDS = {
    "aten::mm": ("self", "mat2"), "aten::addmm": ("mat1", "mat2"), "aten::bmm": ("self", "mat2"),
    "aten::baddbmm": ("batch1", "batch2"),
}  # fmt: skip
"""Products -> names of their two matrices; of some, `self` is added."""
_HIP_TYPES = {"float32": "f32_r", "float16": "f16_r", "bfloat16": "bf16_r", "float64": "f64_r"}
_CUBLAS_TYPES = {"float32": "sss", "float16": "hsh", "bfloat16": "tst", "float64": "ddd"}
"""Types of PyTorch -> what the benchmarks call them: of each matrix, and of A or B, of computing and of C."""


@dataclass(frozen=True)
class Gemm:
    """A product as BLAS has it.

    Attributes:
        m, n, k: rows and columns of the result, and what is summed over, columns first.
        transposed_a, transposed_b: whether the matrices lie transposed.
        lda, ldb: elements from one column to the next.
        dtype: of all matrices, as PyTorch names it.
        batch: number of products.
        stride_a, stride_b: elements from one matrix to the next.
        added: what is added: nothing, a `vector` along m, or a `matrix`.
    """

    m: int
    n: int
    k: int
    transposed_a: bool
    transposed_b: bool
    lda: int
    ldb: int
    dtype: str
    batch: int = 1
    stride_a: int = 0
    stride_b: int = 0
    added: str = ""


def gemm(plan: ReplayPlan) -> Gemm | None:
    """A planned call as BLAS has it; None for what is not a product, or whose matrices BLAS cannot read in place."""
    values = {one.name: one.value for one in plan.arguments}
    first, second = (values.get(name) for name in _OPERANDS.get(plan.op, ("", "")))
    if not (isinstance(first, TensorValue) and isinstance(second, TensorValue)):
        return None
    a, b = _layout(second), _layout(first)
    if a is None or b is None or first.dtype != second.dtype or len(first.shape) != len(second.shape):
        return None
    bias = values.get("self") if "add" in plan.op else None
    added = "" if not isinstance(bias, TensorValue) else "vector" if len(bias.shape) == 1 else "matrix"
    batched = len(first.shape) == 3
    return Gemm(
        second.shape[-1], first.shape[-2], first.shape[-1], a[0], b[0], a[1], b[1], first.dtype,
        first.shape[0] if batched else 1, a[2], b[2], added,
    )  # fmt: skip


def _layout(tensor: TensorValue) -> tuple[bool, int, int] | None:
    """Whether a matrix lies transposed for BLAS, its leading dimension, and the step to the next one."""
    if len(tensor.shape) not in (2, 3) or 0 in tensor.shape:
        return None
    rows, columns = tensor.shape[-2:]
    strides = tensor.strides or ((rows * columns, columns, 1)[-len(tensor.shape) :])
    step = strides[0] if len(strides) == 3 else 0
    down, across = strides[-2:]
    if across == 1 and down >= columns:
        return False, down, step
    return (True, across, step) if down == 1 and across >= rows else None


def hipblaslt(one: Gemm) -> str:
    """The call of `hipblaslt-bench`; empty for types that it does not take."""
    if not (kind := _HIP_TYPES.get(one.dtype)):
        return ""
    letters = ("NT"[one.transposed_a], "NT"[one.transposed_b])
    types = " ".join(f"--{matrix}_type {kind}" for matrix in "abcd")
    compute = "f64_r" if one.dtype == "float64" else "f32_r"
    text = (
        f"hipblaslt-bench --function matmul -m {one.m} -n {one.n} -k {one.k} --transA {letters[0]} "
        f"--transB {letters[1]} --lda {one.lda} --ldb {one.ldb} --ldc {one.m} --ldd {one.m} {types} "
        f"--compute_type {compute} --alpha 1 --beta {int(one.added == 'matrix')} --cold_iters 10 --iters 100"
    )
    if one.batch > 1:
        strides = f"--stride_a {one.stride_a} --stride_b {one.stride_b}"
        text += f" --batch_count {one.batch} {strides} --stride_c {one.m * one.n} --stride_d {one.m * one.n}"
    return text + f" --bias_vector --bias_type {kind}" * (one.added == "vector")


def cublas(one: Gemm) -> str:
    """The call of `cublasMatmulBench`; empty for several products at once, and for types that it does not take."""
    kind = _CUBLAS_TYPES.get(one.dtype)
    if not kind or one.batch > 1:
        return ""
    return (
        f"cublasMatmulBench -P={kind} -m={one.m} -n={one.n} -k={one.k} -ta={int(one.transposed_a)} "
        f"-tb={int(one.transposed_b)} -A=1 -B={int(one.added == 'matrix')} -T=100 -p=0"
    )


BENCHMARKS: Mapping[str, Callable[[Gemm], str]] = {"hipblaslt": hipblaslt, "cublas": cublas}
"""Name of a benchmark -> what writes its command lines."""


def gemm_script(plans: Plans, benchmark: str, most: int = 0) -> Iterator[str]:
    """Lines of a script that runs the products of some signatures, each below a comment with calls and GPU time.

    Args:
        plans: the signatures.
        benchmark: one of `BENCHMARKS`.
        most: number of argument sets of products that are written, the first ones; 0 for all.

    Raises:
        AnalysisError: there is no product among them.
    """
    found, skipped = plans.signatures, 0
    products = [(place, name) for place, name in enumerate(found.names) if name in _OPERANDS]
    if not products:
        raise AnalysisError(f"there is no product to write: none of the operations is {', '.join(_OPERANDS)}")
    yield "#!/bin/sh"
    for place, name in products[: most or None]:
        plan = plans[place].plan
        one = gemm(plan) if isinstance(plan, ReplayPlan) else None
        text = BENCHMARKS[benchmark](one) if one else ""
        if not text:
            skipped += 1
            continue
        calls, median = int(found.calls[place]), float(found.median_ns[place]) / 1e3
        share = f"{found.percent[place]:.1f} % of the GPU time"
        lacking = "; without its vector" * (benchmark == "cublas" and one is not None and one.added == "vector")
        yield f"# {name}: {calls:,} call{'s' * (calls != 1)}, median {median:,.2f} us, {share}{lacking}"
        yield text
    if skipped:
        yield f"# left out: {skipped:,} argument sets of products that the benchmark has no options for"
