"""How kernels and arguments differ, in words."""

from __future__ import annotations

import pytest

from tracelens_graph.analyses.alignment.argument_words import other_sizes, other_strides, other_types
from tracelens_graph.analyses.alignment.kernel_words import (
    difference_of,
    extra_of,
    is_compiled,
    is_move,
    of_any_build,
    other_kernels,
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
        (other_sizes, "{}", "[[1]]", ""),
        (other_strides, "[[16,1]]", "[[1,8]]", "other strides: 16x1 became 1x8"),
        (other_types, '["float","Scalar"]', '["c10::Half","int"]', "other types: float became Half"),
        (other_types, '["int","float"]', '["long","half"]', "other types: int became long, 1 more argument differs"),
        (other_types, '[["float","float"]]', '[["c10::Half"]]', "other types: float became Half"),
    ],
)
def test_arguments(told: object, first: str, second: str, text: str) -> None:
    assert callable(told)
    assert told(first, second) == text
