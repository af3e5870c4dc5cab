"""Matrix products: hand-computed costs of every layout, the rows of the reference tables, and what must always hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_costs import BF16, BYTES, FP4, FP8, FP32, INT8, Family, Known, check_no_less

from tracelens_graph.perf.families.gemm import gemm
from tracelens_graph.perf.families.shared import transposed

FAMILY = Family("gemm")

M, N, K, B = 64, 96, 128, 5
MNK = M * N * K


A, W, WEIGHT = (BF16, (M, K)), (BF16, (K, N)), (BF16, (N, K))
DENSE = 2 * (M * K + K * N + M * N)
E8M0 = "c10::Float8_e8m0fnu"

KNOWN: list[Known] = [
    ("aten::mm", (A, W), 2 * MNK, DENSE, "bf16"),
    ("aten::mm", (A, W, (FP32, (M, N))), 2 * MNK, DENSE + 2 * M * N, "bf16"),
    ("aten::mm", (A, W, 6), 2 * MNK, DENSE + 2 * M * N, "bf16"),
    ("aten::addmm", ((BF16, (N,)), A, W, 1, 1), 2 * MNK + M * N, DENSE + 2 * N, "bf16"),
    ("aten::addmm", ((BF16, (M, N)), A, W, 1, 1), 2 * MNK + M * N, DENSE + 2 * M * N, "bf16"),
    ("aten::addmm", ((BF16, (M, N)), A, W, 0, 1), 2 * MNK, DENSE, "bf16"),
    ("aten::bmm", ((FP32, (B, M, K)), (FP32, (B, K, N))), 2 * B * MNK, 2 * B * DENSE, "fp32"),
    ("aten::baddbmm", ((BF16, (B, M, N)), (BF16, (B, M, K)), (BF16, (B, K, N)), 1, 1),
     B * (2 * MNK + M * N), B * (DENSE + 2 * M * N), "bf16"),
    ("aten::_int_mm", ((INT8, (M, K)), (INT8, (K, N))), 2 * MNK, M * K + K * N + 4 * M * N, "int8"),
    ("bitsandbytes::int8_linear_matmul", ((INT8, (4, M // 4, K)), (INT8, (N, K))),
     2 * MNK, M * K + K * N + 4 * M * N, "int8"),
    ("vllm::rocm_unquantized_gemm", (A, WEIGHT, (BF16, (N,))), 2 * MNK + M * N, DENSE + 2 * N, "bf16"),
    ("vllm::rocm_unquantized_gemm", (A, WEIGHT, None), 2 * MNK, DENSE, "bf16"),
    ("aiter::gemm_a16w16", (A, WEIGHT, None, 6), 2 * MNK, DENSE + 2 * M * N, "bf16"),
    ("aiter::_gemm_a16w16_asm", (A, WEIGHT, (FP32, (M, N))), 2 * MNK, DENSE + 2 * M * N, "bf16"),
    ("vllm::gemm_with_dynamic_quant", (A, (BYTES, (N, K // 2))), 2 * MNK, 2 * M * (K + N) + N * K // 2 + N * 4, "bf16"),
    ("_Linear_yfwd_mm", ((FP8, (M, K)), (FP8, (K, N))), 2 * MNK, M * K + K * N + 2 * M * N, "fp8"),
    ("aiter::gemm_a8w8_blockscale_ck", ((FP8, (M, K)), (FP8, (N, K)), (FP32, (M, 1)), (FP32, (1, 1)), (FP32, (M, N))),
     2 * MNK, M * K + N * K + 4 * M * N, "fp8"),
    ("aiter::gemm_a8w8_bpreshuffle", ((INT8, (M, K)), (INT8, (N, K))), 2 * MNK, M * K + N * K + 2 * M * N, "int8"),
    ("vllm::rocm_aiter_triton_gemm_a8w8_blockscale",
     ((BYTES, (M, K)), (BYTES, (N, K)), (FP32, (M, 1)), (FP32, (1, 1)), 15), 2 * MNK, M * K + N * K + 2 * M * N, "fp8"),
    ("aiter::gemm_a4w4", ((FP4, (M, K // 2)), (FP4, (N, K // 2)), (E8M0, (M, 4)), (E8M0, (N, 4))),
     2 * MNK, (M + N) * K // 2 + (M + N) * 4 + 2 * M * N, "fp4"),
    ("aiter::gemm_afp4wfp4_", ((BYTES, (M, K // 2)), (BYTES, (N, K // 2)), (BYTES, (M, 4)), (BYTES, (N, 4))),
     2 * MNK, (M + N) * K // 2 + (M + N) * 4 + 2 * M * N, "fp4"),
    ("aiter::batched_gemm_a16wfp4_", ((BF16, (B, M, K)), (BYTES, (B, N, K // 2)), (BYTES, (B, N, 4))),
     2 * B * MNK, B * (2 * M * K + N * K // 2 + N * 4 + 2 * M * N), "fp4"),
]  # fmt: skip
test_known_costs = FAMILY.known([(*one[:4], f"matrix_{one[4]}") for one in KNOWN])
test_the_rows_of_the_reference_tables = FAMILY.reference_rows("GEMM")
test_hostile_arguments = FAMILY.hostile(KNOWN)


def test_operands_of_different_types_count_each_with_its_own() -> None:
    cost = FAMILY.cost("aten::mm", (BF16, (M, K)), (FP32, (K, N)), (FP32, (M, N)))
    assert cost.bytes == 2 * M * K + 4 * K * N + 4 * M * N
    assert cost.params["dtype_A_B"] == (BF16, FP32)


@pytest.mark.parametrize(
    ("arguments", "bias"),
    [
        (((FP32, (1,)), (FP32, (1,)), (BF16, (N,)), None, 15, False), True),
        (((FP32, (1,)), (FP32, (1,)), None, None, 15, False), False),
        (((BF16, (N,)), 15, (FP32, (1,)), (FP32, (1,)), None, False), True),
        ((None, 15, (FP32, (1,)), (FP32, (1,)), None, False), False),
    ],
)
def test_scaled_mm_has_a_bias_where_its_schema_says(arguments: tuple[object, ...], bias: bool) -> None:
    """PyTorch 2.5 moved the scales in front of the bias."""
    cost = FAMILY.cost("aten::_scaled_mm", (FP8, (M, K)), (FP8, (K, N)), *arguments)
    assert (cost.flops, cost.params["bias"]) == (2 * MNK + bias * M * N, bias)
    assert cost.bytes == M * K + K * N + 2 * M * N + 2 * bias * N


def test_scaled_mm_of_packed_numbers() -> None:
    scales = [("c10::Float8_e4m3fn", (8,))] * 2
    nvfp4 = FAMILY.cost("aten::_scaled_mm", (FP4, (M, K // 2)), (FP4, (K // 2, N)), *scales, None, None, 15)
    assert (nvfp4.flops, nvfp4.bytes) == (2 * MNK, (M + N) * K // 2 + (M + N) * K // 16 + 2 * M * N)


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_transformer_engine_multiplies_column_major(trans_a: bool, trans_b: bool) -> None:
    a, b = (M, K) if trans_a else (K, M), (K, N) if trans_b else (N, K)
    scale = (FP32, (1,))
    arguments = [(BYTES, a), scale, 0, 7, int(trans_a), (BYTES, b), scale, 0, 7, int(trans_b), (BF16, (N, M))]
    arguments += [scale, 4, scale]
    with_bias = FAMILY.cost("tex_ts::te_gemm_ts", *arguments, (BF16, (N,)), 4)
    without = FAMILY.cost("tex_ts::te_gemm_ts", *arguments, (BF16, (0,)), 4)
    assert (with_bias.flops, without.flops) == (2 * MNK + M * N, 2 * MNK)
    assert without.bytes == M * K + K * N + 2 * M * N
    assert with_bias.bytes == M * K + K * N + 2 * M * N + 2 * N
    assert without.compute_spec == "matrix_fp8"


@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("trans_c", [False, True])
def test_hipblaslt_flags(trans: tuple[bool, bool], trans_c: bool) -> None:
    a, b = (K, M) if trans[0] else (M, K), (N, K) if trans[1] else (K, N)
    cost = FAMILY.cost(
        "primus_turbo::hipblaslt_gemm_fp8", (FP8, a), (FP32, ()), (FP8, b), (FP32, ()), 15, *trans, trans_c, ""
    )
    assert (cost.flops, cost.bytes) == (2 * MNK, M * K + K * N + 2 * M * N)
    assert (cost.params["M"], cost.params["N"]) == ((N, M) if trans_c else (M, N))


def test_hipblaslt_fp4_is_packed_along_the_inner_size() -> None:
    scales = (E8M0, (9, 9))
    arguments = ((FP4, (M, K // 2)), scales, (FP4, (N, K // 2)), scales, 15, False, True, False, "")
    cost = FAMILY.cost("primus_turbo_cpp_extension::hipblaslt_gemm_fp4", *arguments)
    assert (cost.params["K"], cost.flops, cost.compute_spec) == (K, 2 * MNK, "matrix_fp4")
    assert cost.bytes == (M + N) * K // 2 + (M + N) * 4 + 2 * M * N


def test_a_batch_may_stand_second() -> None:
    name = next(name for name in FAMILY.models if "batched_gemm_a8w8" in name)
    cost = FAMILY.cost(name, (BF16, (M, B, K)), (FP8, (B, N, K)))
    assert (cost.flops, cost.bytes) == (2 * B * MNK, B * (2 * M * K + N * K + 2 * M * N))
    assert cost.compute_spec == "matrix_fp8"


@pytest.mark.parametrize(
    ("kernel", "dtype", "spec"),
    [
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32", FP32, "matrix_tf32"),
        ("ampere_sgemm_128x64_nn", FP32, "matrix_fp32"),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32", BF16, "matrix_bf16"),
        ("cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4", FP32, "matrix_tf32"),
        ("cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x5_nn_align8", BF16, "matrix_bf16"),
        ("cutlass_80_simt_sgemm_128x128_8x5_nn_align1", FP32, "matrix_fp32"),
    ],
)
def test_float32_is_computed_as_tf32_where_the_kernel_says_so(kernel: str, dtype: str, spec: str) -> None:
    cost = FAMILY.cost("aten::mm", (dtype, (M, K)), (dtype, (K, N)), kernels=("memset", kernel))
    assert cost.compute_spec == spec


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        (("Cijk_Ailk_Bljk_BBS_BH_MT16x16x256",), (False, False)),
        (("Cijk_Alik_Bljk_BBS",), (True, False)),
        (("Custom_Cijk_Ailk_Bjlk_S_B",), (False, True)),
        (("Memset", "Cijk_Alik_Bjlk_HHS"), (True, True)),
        (("nvjet_tst_64x16_64x16_2x4_2cta_h_bz_bias_TNT",), (True, False)),
        (("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTN_splitK",), (False, True)),
        (("nvjet_tst_64x16",), None),
        (("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>",), None),
        ((), None),
    ],
)
def test_transposition_is_read_from_kernel_names(kernels: tuple[str, ...], expected: tuple[bool, bool] | None) -> None:
    assert transposed(kernels) == expected
    params = FAMILY.cost("aten::mm", A, W, kernels=kernels).params
    assert params.get("transpose") == expected
    assert ("transpose" in params) == (expected is not None)


test_what_does_not_fit_has_no_cost = FAMILY.reasons(
    [
        ("aten::mm", (), "not recorded"),
        ("aten::mm", (A, (BF16, (K + 1, N))), "inner sizes"),
        ("aten::mm", ((BF16, (B, M, K)), W), "dimensions"),
        ("aten::bmm", ((BF16, (B, M, K)), (BF16, (B + 1, K, N))), "batches"),
        ("aten::mm", (A, 3), "not a tensor"),
        ("primus_turbo::hipblaslt_gemm_fp8", ((BF16, (B, M, K)), None, W), "dimensions"),
        ("tex_ts::te_gemm_ts", (A, None, 0, 0, None, W, None, 0, 0, None), "transposition"),
    ],
)


def test_an_expanded_dimension_is_read_once() -> None:
    one = FAMILY.cost("aten::bmm", (BF16, (B, M, K)), (BF16, (B, K, N), (0, N, 1)))
    assert one.bytes == 2 * (B * M * K + K * N + B * M * N)


sizes = st.integers(0, 64)


@given(st.tuples(sizes, sizes, sizes, sizes), st.integers(0, 3), st.booleans())
def test_more_is_never_cheaper(start: tuple[int, int, int, int], larger: int, bias: bool) -> None:
    end = tuple(size + (index == larger) for index, size in enumerate(start))
    check_no_less(*(gemm(m, n, k, batch=batch, bias=bias, dtype="fp4") for m, n, k, batch in (start, end)))


def test_all_ops_are_of_the_gemm_sheet_and_have_no_backward_formula() -> None:
    assert {(model.sheet, model.backward) for model in FAMILY.models.values()} == {("GEMM", None)}
