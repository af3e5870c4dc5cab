"""Products as benchmarks of BLAS read them: what they compute from the same memory is the product."""

from __future__ import annotations

import re

import numpy as np
import pytest
from recorded_calls import MM, call, calls, scalar, tensor

from tracelens_graph.errors import AnalysisError
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.gemms import BENCHMARKS, Gemm, cublas, gemm, gemm_script, hipblaslt
from tracelens_graph.replay.planned import Plans
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.signatures import charge_all, named, signatures


def read(memory: np.ndarray, rows: int, columns: int, leading: int, transposed: bool) -> np.ndarray:
    """A matrix of rows and columns from memory in which columns lie one behind the other, or its transpose does."""
    if transposed:
        rows, columns = columns, rows
    found = np.lib.stride_tricks.as_strided(memory, (rows, columns), (8, 8 * leading))
    return found.T if transposed else found


@pytest.mark.parametrize("first", [(7, 1), (9, 1), (1, 5), (1, 6)])
@pytest.mark.parametrize("second", [(4, 1), (6, 1), (1, 7), (1, 8)])
def test_the_product_is_that_of_the_same_memory(first: tuple[int, int], second: tuple[int, int]) -> None:
    plan = plan_of(call("mm", tensor(5, 7, strides=first), tensor(7, 4, strides=second)))
    one = gemm(plan)
    assert one is not None
    assert (one.m, one.n, one.k) == (4, 5, 7)
    rng = np.random.default_rng(1)
    memory = [rng.normal(size=200) for _ in range(2)]
    a, b = (
        np.lib.stride_tricks.as_strided(held, shape, [8 * step for step in steps])
        for held, shape, steps in zip(memory, ((5, 7), (7, 4)), (first, second), strict=True)
    )
    blas_a = read(memory[1], one.m, one.k, one.lda, one.transposed_a)
    blas_b = read(memory[0], one.k, one.n, one.ldb, one.transposed_b)
    np.testing.assert_allclose((blas_a @ blas_b).T, a @ b)


def test_what_blas_cannot_read_is_left_out() -> None:
    assert gemm(plan_of(call("mm", tensor(5, 7, strides=(14, 2)), tensor(7, 4)))) is None
    assert gemm(plan_of(call("relu", tensor(5, 7)))) is None


def test_the_line_of_hipblaslt() -> None:
    one = Gemm(4, 5, 7, True, False, 7, 7, "bfloat16", added="vector")
    options = dict(re.findall(r"--?(\w+) ([^-]\S*)", hipblaslt(one)))
    assert {key: options[key] for key in ("m", "n", "k", "transA", "transB", "lda", "ldb", "ldc", "ldd", "beta")} == {
        "m": "4", "n": "5", "k": "7", "transA": "T", "transB": "N", "lda": "7", "ldb": "7", "ldc": "4", "ldd": "4",
        "beta": "0",
    }  # fmt: skip
    assert {options[f"{matrix}_type"] for matrix in "abcd"} | {options["bias_type"]} == {"bf16_r"}
    assert options["compute_type"] == "f32_r"
    assert "--bias_vector" in hipblaslt(one)
    assert hipblaslt(Gemm(4, 5, 7, True, False, 7, 7, "int64")) == ""


def test_several_products_at_once_have_strides_and_no_line_of_cublas() -> None:
    one = gemm(plan_of(call("bmm", tensor(3, 5, 7), tensor(3, 7, 4))))
    assert one is not None
    options = dict(re.findall(r"--?(\w+) ([^-]\S*)", hipblaslt(one)))
    assert [options[key] for key in ("batch_count", "stride_a", "stride_b", "stride_c", "stride_d")] == [
        "3", "28", "35", "20", "20",
    ]  # fmt: skip
    assert cublas(one) == ""


@pytest.mark.parametrize(("shape", "beta", "vector"), [((4,), 0, True), ((5, 4), 1, False)])
def test_what_is_added(shape: tuple[int, ...], beta: int, vector: bool) -> None:
    made = call("addmm", tensor(*shape), tensor(5, 7), tensor(7, 4), scalar("1"), scalar("1"))
    one = gemm(plan_of(made))
    assert one is not None
    assert f"--beta {beta} " in hipblaslt(one)
    assert ("--bias_vector" in hipblaslt(one)) == vector
    assert cublas(one) == f"cublasMatmulBench -P=sss -m=4 -n=5 -k=7 -ta=0 -tb=0 -A=1 -B={beta} -T=100 -p=0"


@pytest.mark.parametrize(("benchmark", "program"), [("hipblaslt", "hipblaslt-bench"), ("cublas", "cublasMatmulBench")])
def test_a_script_of_a_trace(benchmark: str, program: str) -> None:
    assert MM["Input_Dims"] == [[8, 16], [16, 4]]
    lines = list(gemm_script(Plans(signatures(charge_all(load_core(calls()).everything))), benchmark))
    assert lines[0] == "#!/bin/sh"
    assert lines[1].startswith("# aten::mm: 2 calls, median 20.00 us, ")
    assert [line.partition(" ")[0] for line in lines[2::2]] == [program] * len(lines[2::2])


def test_what_a_benchmark_has_no_option_for_is_said() -> None:
    added = {"Input Dims": [[4], [5, 7], [7, 4], [], []], "Input type": ["float"] * 3 + ["Scalar"] * 2,
             "Input Strides": [[1], [7, 1], [4, 1], [], []], "Concrete Inputs": ["", "", "", "1", "1"]}  # fmt: skip
    core = load_core([{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "ts": 0, "dur": 9, "tid": 1, "pid": 1,
                       "args": added}])  # fmt: skip
    plans = Plans(named(core.everything, "aten::addmm"))
    said = {name: next(line for line in gemm_script(plans, name) if "aten::addmm" in line) for name in BENCHMARKS}
    assert [one.endswith("; without its vector") for one in said.values()] == [False, True]


def test_without_a_product_there_is_no_script() -> None:
    plans = Plans(named(load_core(calls()).everything, "aten::copy_"))
    with pytest.raises(AnalysisError, match="no product"):
        list(gemm_script(plans, "cublas"))


def test_the_first_products_are_counted_among_products() -> None:
    plans = Plans(signatures(charge_all(load_core(calls()).everything)))
    assert plans.signatures.names[0] != "aten::mm"
    assert list(gemm_script(plans, "cublas", 1)) == list(gemm_script(plans, "cublas"))[:3]
