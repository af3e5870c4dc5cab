"""How kernels and arguments differ, in words."""

from __future__ import annotations

import pytest

from tracelens_graph.analyses.alignment.cause_words import (
    Kernels,
    difference_of,
    extra_of,
    is_compiled,
    is_move,
    of_any_build,
    other_kernels,
    other_sizes,
    other_strides,
    other_types,
    plain_name,
)

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<{}, at::native::{}, {} >(int, at::native::{}, {})"
TENSILE = "Cijk_Alik_Bljk_BBS_BH_UserArgs_MT256x192x64_MI16x16x1_{}"


def elementwise(width: int, functor: str, array: str) -> str:
    return ELEMENTWISE.format(width, functor, array, functor, array)


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        (elementwise(4, "F", "A"), elementwise(8, "F", "A"), "4 -> 8 elements at a time"),
        (elementwise(4, "F", "A"), elementwise(4, "G", "A"), "other template arguments: F became G"),
        (elementwise(4, "F", "A"), elementwise(4, "F", "A").replace("(int", "(long"), ""),
        ("f<1, g<2>>(int)", "f<1, g<2, 3>>(int)", "other template arguments: none became 3"),
        (TENSILE.format("MIWT8_6"), TENSILE.format("MIWT4_6"), "other settings: MIWT8 became MIWT4"),
        (TENSILE.format("A_B"), TENSILE.format("A"), "other parameters"),
        ("same", "same", ""),
    ],
)
def test_what_names_that_are_short_for_the_same_differ_in(one: str, other: str, text: str) -> None:
    assert difference_of(one, other) == text


def test_builds_of_one_kernel() -> None:
    cuda = elementwise(4, "CUDAFunctor_add<c10::BFloat16>", "at::detail::Array<char*, 3>")
    rocm = elementwise(4, "CUDAFunctor_add<c10::BFloat16>", "std::array<char*, 3ul>") + ".kd"
    assert plain_name(cuda) == plain_name(rocm)
    assert of_any_build({cuda: (2, 5), rocm: (1, 5)}) == {plain_name(cuda): 3}
    assert extra_of({cuda: (3, 6)}, {rocm: (1, 5)}) == {cuda: (2, 4)}
    assert plain_name(elementwise(4, "F", "A")) != plain_name(elementwise(8, "F", "A"))


def test_what_names_tell() -> None:
    one = {TENSILE.format("A"): (1, 9)}
    assert other_kernels(one, {TENSILE.format("A").replace("256x192", "64x64"): (1, 9)}).kind == "tile"
    assert other_kernels(one, {TENSILE.format("B"): (1, 9)}) == (
        "kernel", "", "Tensile gemm 256x192x64, other settings: A became B"
    )  # fmt: skip


SGEMM = "ampere_sgemm_128x64_nn"
CUTLASS = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4>(Params)"
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
    "cutlass::half_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 4, cutlass::half_t> >, false>(P)"
)
CUDNN = "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_f16_s16816fprop_optimized_f16_256x64_32x4_nhwc_align8>(P)"
CAT = "void at::native::CatArrayBatchedCopy<{}>(int)"


@pytest.mark.parametrize(
    ("first", "second", "calls", "kind", "text"),
    [
        ({"f": (1, 9)}, {"g": (1, 9), "h": (2, 1)}, 1, "kernel", "f became g + 2 x h"),
        ({"f": (3, 9)}, {"g": (3, 9), "h": (6, 1)}, 3, "kernel", "f became g + 2 x h"),
        ({"f": (3, 9)}, {"g": (3, 9), "h": (1, 1)}, 3, "kernel", "3 x f became 3 x g + 1 x h"),
        ({"same": (1, 90), "f": (1, 9)}, {"same": (1, 50), "g": (1, 9)}, 1, "kernel", "f became g"),
        ({"a": (1, 1), "b": (1, 1)}, {"a": (1, 1), "b": (1, 1), "c": (2, 1)}, 1, "more", "2 more: c"),
        ({"a": (1, 1), "b": (2, 3), "c": (1, 2)}, {"a": (1, 1)}, 1, "fewer", "3 fewer: 2 x b + c"),
        ({"a": (1, 1), "b": (2, 3)}, {"a": (4, 1), "b": (2, 3)}, 1, "more",
         "the same kernels, other counts: 1 -> 4 x a"),
        ({"a": (3, 9), "b": (2, 3)}, {"a": (2, 9), "b": (3, 3)}, 1, "counts",
         "the same kernels, other counts: 3 -> 2 x a + 2 -> 3 x b"),
        ({"a": (1, 1)}, {"a": (1, 2)}, 1, "counts", "the same kernels"),
        ({CAT.format(1): (2, 9), CAT.format(2): (1, 5)}, {CAT.format(3): (2, 9), "Memcpy DtoD": (1, 5)}, 3, "kernel",
         "1 x CatArrayBatchedCopy became 1 x Memcpy DtoD; other variants of 2 x CatArrayBatchedCopy"),
        ({SGEMM: (1, 9)}, {CUTLASS: (1, 9)}, 1, "types",
         "fp32 became tf32, another kernel family: cuBLAS gemm 128x64 became CUTLASS gemm 128x64x16"),
        ({"nvjet_tst_320x128_64x3_1x2_h_bz_coopB_TNT": (1, 9)},
         {"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn": (1, 9)}, 1, "kernel",
         "another kernel family: nvjet gemm 320x128x64 became cuBLAS gemm 128x128x32"),
        ({TENSILE.format("A"): (1, 9)}, {SGEMM: (1, 9)}, 1, "library",
         "another library: Tensile gemm 256x192x64 became cuBLAS gemm 128x64"),
        ({FLASH: (1, 9)}, {"attn_fwd": (1, 9)}, 1, "library",
         "another library: FlashAttention attention forward 128x128 became Triton attention forward"),
        ({CUDNN: (1, 9)}, {CUDNN.replace("256x64", "64x64"): (1, 9)}, 1, "tile",
         "another tile: cuDNN fprop 256x64x32 became cuDNN fprop 64x64x32"),
    ],
)  # fmt: skip
def test_how_sets_of_kernels_differ(first: Kernels, second: Kernels, calls: int, kind: str, text: str) -> None:
    found = other_kernels(first, second, calls)
    assert (found.kind, str(found)) == (kind, text)


@pytest.mark.parametrize("name", ["<" * 100_000, ">" * 100_000, "f<" * 50_000, "_" * 100_000, "1u" * 50_000, ""])
def test_hostile_names_are_described_at_once(name: str) -> None:
    assert other_kernels({name: (1, 1)}, {f"{name}x": (1, 1)}).text
    assert not is_compiled(name)
    assert not is_move(name)


@pytest.mark.parametrize(
    "name", ["Memcpy HtoD (Pinned -> Device)", "Memset (Device)", "f<at::native::FillFunctor<int>>()"]
)
def test_moves(name: str) -> None:
    assert is_move(name)


@pytest.mark.parametrize(
    ("told", "first", "second", "text"),
    [
        (other_sizes, "[[8,16],[]]", "[[4,16],[]]", "other sizes: 8x16 became 4x16"),
        (other_sizes, "[[8, 16]]", "[[8,16]]", ""),
        (other_sizes, "[[[8,16],[4]]]", "[[[8,16]]]", "other sizes: 2 tensors of 132 became 1 tensor of 128"),
        (
            other_sizes,
            "[[640],[768],[8]]",
            "[[630],[13312],[8]]",
            "other sizes: 768 became 13312, 1 more argument differs",
        ),
        (other_sizes, "[[4],[2,8],[3]]", "[[2],[2,4],[4]]", "other sizes: 4 became 2, 2 more arguments differ"),
        (other_sizes, "[[0],[64]]", "[[1],[65]]", "other sizes: 64 became 65, 1 more argument differs"),
        (
            other_sizes,
            "[[9],[[8,2],[2]]]",
            "[[8],[[8,9],[8]]]",
            "other sizes: 2 tensors of 18 became 2 tensors of 80, 1 more argument differs",
        ),
        (other_sizes, "[[8,16]]", "[[]]", ""),
        (other_sizes, "[[8,16]]", "", ""),
        (other_sizes, "[" * 100_000, "[[1]]", ""),
        (other_sizes, f"[{[10**200] * 3}]", "[[8]]", f"other sizes: {'x'.join([str(10**200)] * 3)} became 8"),
        (other_sizes, f"[{[[10**200]] * 2}]", "[[8]]", f"other sizes: 2 tensors of {2**62:,} became 8"),
        (other_sizes, f"[{'[' * 900}4{']' * 900}]", "[[[8]]]", "other sizes: 1 tensor of 4 became 1 tensor of 8"),
        (other_types, f'[{"[" * 900}"c10::Half"{"]" * 900}]', '["float"]', "other types: Half became float"),
        (other_sizes, "{}", "[[1]]", ""),
        (other_strides, "[[16,1]]", "[[1,8]]", "other strides: 16x1 became 1x8"),
        (other_types, '["float","Scalar"]', '["c10::Half","int"]', "other types: float became Half"),
        (other_types, '["int","float"]', '["long","half"]', "other types: int became long"),
        (other_types, '[["float","float"]]', '[["c10::Half"]]', "other types: float became Half"),
    ],
)
def test_arguments(told: object, first: str, second: str, text: str) -> None:
    assert callable(told)
    assert told(first, second) == text
