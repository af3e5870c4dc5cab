"""Why two runs part: known causes, and what the names of kernels say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from layered import ADD, GELU, GEMM, LAYER, NORM, REDUCE, Call, changed, kernels, program, slower

from tracelens_graph.analyses.alignment.argument_words import other_sizes, other_strides, other_types
from tracelens_graph.analyses.alignment.cause_words import (
    Kernels,
    details_of_alike,
    difference_of,
    extra_of,
    of_any_build,
    other_kernels,
    plain_name,
)
from tracelens_graph.analyses.alignment.difference import Diff, diff
from tracelens_graph.analyses.alignment.layers import Among, count_up
from tracelens_graph.analyses.alignment.reasons import Reason
from tracelens_graph.analyses.alignment.rules import Reasons
from tracelens_graph.analyses.alignment.times import time_parts
from tracelens_graph.analyses.idle.idle import Cause
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.tables.names import short_name

CAST = Call("Cast", "aten::_to_copy", ((ADD.replace("CUDAFunctor_add<float>", "bfloat16_copy_kernel_cuda"), 3.0),))
TRITON = Call("Fused", "triton_poi_fused_gelu_1", (("triton_poi_fused_gelu_1", 5.0),))
MATH = Call("Linear", "aten::mm", (("void cunn_SoftMaxForward<4, float, float, float>(float*)", 80.0),))
SILU = GELU.replace("GeluCUDAKernelImpl", "silu_kernel")
MEMSET = ("Memset (Device)", 2.0)


def alike(layer: Sequence[Call], layers: int = 4) -> dict[str, Any]:
    return program([layer] * layers)


def inserted(call: Call, behind: int) -> tuple[Call, ...]:
    return (*LAYER[:behind], call, *LAYER[behind:])


def all_slower(factor: float) -> tuple[Call, ...]:
    return tuple(slower(factor)(call) for call in LAYER)


SORT = [(f"void cub::{name}<int>(int*)", 4.0) for name in ("Histogram", "Onesweep", "Onesweep", "Scan")]
CUTLASS = "void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_nn_align8>(Params)"
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
    "cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false>(P)"
)


PLANTED: dict[str, tuple[dict[str, Any], Reason, str]] = {
    "a tile": (
        alike(changed("aten::mm", kernels((GEMM.replace("128x128", "256x64"), 60.0)))), Reason.other_tile,
        "another tile: cuBLAS gemm 128x128",
    ),
    "a library": (
        alike(changed("aten::mm", kernels(("Cijk_Ailk_Bljk_SB_MT64x64x16_MI32x32x1", 60.0)))), Reason.other_library,
        "another library: ",
    ),
    "a type, by the name": (
        alike(changed("aten::mm", kernels((GEMM.replace("bf16", "fp16"), 60.0)))), Reason.other_types,
        "bf16 became fp16",
    ),
    "a template argument": (
        alike(changed("aten::gelu", kernels((GELU.replace("<4", "<8"), 9.0)))), Reason.other_kernel,
        "vectorized_elementwise_kernel, 4 -> 8 elements at a time",
    ),
    "a build": (
        alike(changed("aten::gelu", kernels((GELU.replace("2ul> >", "2>>"), 9.0)))), Reason.other_time,
        "the same kernels of another build, 1.50x as long; the traces do not show why",
    ),
    "the time of one kernel": (
        alike(changed("aten::gelu", slower(2))), Reason.other_time, "the same kernels, 2.00x as long; the traces do not"
    ),
    "the clock": (alike(all_slower(1.5)), Reason.clock, "the same kernels, 1.50x as long, as all kernels: "),
    "half of all layers": (
        program([LAYER, LAYER, all_slower(1.5), all_slower(1.5)]), Reason.outlier, "2 of 4: layers 2, 3 (Layer), 1.50x"
    ),
    "one layer of many": (
        program([LAYER, LAYER, all_slower(3.0), LAYER]), Reason.outlier,
        "1 of 4: layer 2 (Layer_2), 3.00x as long, the others as before",
    ),
    "two layers of four": (
        program([LAYER, all_slower(3.0), LAYER, all_slower(3.0)]), Reason.outlier, "2 of 4: layers 1, 3 (Layer), 3.00x"
    ),
    "the device": (
        program([all_slower(1.5)] * 4, device="another"), Reason.other_device, "1.50x as long, on another device"
    ),
    "contention": (
        program([all_slower(1.5)] * 4, beside=1.0), Reason.contention, "0 -> 100 % of the time communication runs"
    ),
    "types": (
        alike(changed("aten::mm", lambda call: slower(0.5)(replace(call, types=("c10::BFloat16",) * 2)))),
        Reason.other_types, "other types: float became BFloat16; the same kernels, 0.50x as long",
    ),
    "sizes": (
        alike(changed("aten::mm", lambda call: slower(2)(replace(call, sizes=((128, 64), (64, 64)))))),
        Reason.other_sizes, "other sizes: 64x64 became 128x64; the same kernels, 2.00x as long",
    ),
    "a cast": (alike(inserted(CAST, 2)), Reason.moves, "only in B: casts, 4 x "),
    "a fill in an op": (
        alike(changed("aten::mm", kernels(MEMSET, (GEMM, 40.0)))), Reason.moves, "4 more: Memset (Device)"
    ),
    "another kernel in an op": (
        alike(changed("aten::mm", kernels((GEMM, 40.0), ("splitKreduce_kernel", 5.0)))), Reason.more_kernels,
        "4 more: splitKreduce_kernel",
    ),
    "other counts": (
        alike(changed("aten::mm", kernels((GEMM, 40.0), (GEMM, 40.0)))), Reason.more_kernels,
        "the same kernels, other counts: 4 -> 8 x cuBLAS gemm 128x128",
    ),
    "a few of several kernels": (
        alike(changed("aten::mm", kernels((GEMM, 40.0), ("Memset (Device)", 2.0)))), Reason.moves,
        "copies, casts or fills, 4 more: Memset (Device)",
    ),
    "equal kernels that are slower, and one more": (
        alike(changed("aten::mm", kernels((GEMM, 60.0), MEMSET))), Reason.other_time,
        "the 4 kernels that both run, 1.50x as long (+0.080 of +0.088 ms); the traces do not show why; "
        "4 more: Memset (Device) (+0.008 ms)",
    ),
    "a kernel more, and equal ones that are slower": (
        alike(changed("aten::mm", kernels((GEMM, 42.0), ("splitKreduce_kernel", 5.0)))), Reason.more_kernels,
        "4 more: splitKreduce_kernel (+0.020 of +0.028 ms); the 4 kernels that both run, 1.05x as long (+0.008 ms)",
    ),
    "kernels beside the longest": (
        alike(changed("aten::mm", kernels((GEMM, 40.0), *SORT))), Reason.more_kernels,
        "16 more: 8 x Onesweep + 4 x Histogram + 4 x Scan",
    ),
    "a family of kernels": (
        alike(changed("aten::mm", kernels((CUTLASS, 60.0)))), Reason.other_kernel,
        "another kernel family: cuBLAS gemm 128x128x32 became CUTLASS gemm 64x64x32",
    ),
    "an op": (
        alike(changed("aten::gelu", lambda call: replace(call, op="aten::silu", kernels=((SILU, 9.0),)))),
        Reason.other_op, "aten::gelu became aten::silu",
    ),
    "a compiled op": (
        alike((*LAYER[:2], TRITON, *LAYER[3:])), Reason.other_op,
        "aten::gelu became triton_poi_fused_gelu_1; vectorized_elementwise_kernel became triton_poi_fused_gelu_1",
    ),
    "fusion of three": (
        alike((*LAYER[:1], replace(TRITON, op="triton_poi_fused_mm_gelu_addmm"), *LAYER[4:])), Reason.fused,
        "fused by a compiler, 3 -> 1 kernels",
    ),
    "an algorithm": (alike(changed("aten::mm", lambda _: MATH)), Reason.other_algorithm, "another algorithm: cuBLAS"),
    "a layer": (alike(LAYER, 5), Reason.module, "; a module with all below it, 5 GPU events"),
    "an op of its own": (
        alike(inserted(Call("Dropout", "aten::native_dropout", (("fused_dropout_kernel", 7.0),)), 3)), Reason.module,
        "only in B",
    ),
}  # fmt: skip


def compared(trace: dict[str, Any]) -> Diff:
    return diff(load_core(program()), load_core(trace))


@pytest.mark.parametrize("what", PLANTED)
def test_the_planted_cause_comes_first(what: str) -> None:
    trace, reason, text = PLANTED[what]
    found = compared(trace)
    reasons = Reasons(found)
    first = next(place for place in found.places if "nccl" not in str(place.kernels))
    assert first.ns[0] != first.ns[1]
    why = reasons.of(first)
    assert why.reason == reason, why
    assert text in why.text
    others = {reasons.of(place).reason for place in found.places} - {reason}
    assert others <= {Reason.same, Reason.communication}


def test_every_reason_has_a_rule_that_answers_both_ways_round() -> None:
    mirror = {"more_kernels": "fewer_kernels", "fused": "unfused"}
    for trace, reason, _ in PLANTED.values():
        one, other = load_core(program()), load_core(trace)
        there, back = diff(one, other), diff(other, one)
        assert [(place.ns[::-1], place.names[::-1], place.modules) for place in there.places] == [
            (place.ns, place.names, place.modules) for place in back.places
        ]
        found = [Reasons(back).of(place).reason for place in back.places]
        assert mirror.get(reason, reason) in found


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (REDUCE, "all-reduce"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all-gather"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", "communication"),
    ],
)
@pytest.mark.parametrize("launch", [9, 10_000])
def test_collectives_are_named(kernel: str, said: str, launch: int) -> None:
    def beside(us: float) -> dict[str, Any]:
        trace = program(beside=0.5)
        collective = next(event for event in trace["traceEvents"] if event["name"] == REDUCE)
        collective["name"], collective["dur"] = kernel, us
        collective["args"]["correlation"] = launch
        return trace

    def told(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
        found = diff(load_core(one), load_core(other))
        whys = map(Reasons(found).of, found.places)
        return [why.text for why in whys if why.reason is Reason.communication]

    same, less, more = beside(20.0), program(), beside(40.0)
    assert told(same, more) == [f"the same {said}, 2.00x as long, waiting for other ranks included"]
    (only,) = told(less, more)
    assert only.startswith(f"only in B: {said}, 1 x nccl")


# -- times -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", PLANTED)
def test_parts_add_up_to_the_time_from_first_to_last_gpu_event(what: str) -> None:
    found = compared(PLANTED[what][0])
    parts = [part for part in time_parts(found) if part.part != "around"]
    for side, window in enumerate((found.a, found.b)):
        assert sum(part.ns[side] for part in parts) == window.span_ns()


def test_slower_launches_are_idle_time_by_cause() -> None:
    found = diff(load_core(program(gap_us=5)), load_core(program(gap_us=90)))
    assert {Reasons(found).of(place).reason for place in found.places} == {Reason.same}
    first = max(time_parts(found), key=lambda part: abs(part.change_ns))
    assert (first.part, first.cause) == ("idle", Cause.launches)
    assert "20 launches" in first.why


def test_lost_overlap_is_shown() -> None:
    hidden = program(beside=0.5)
    exposed = program(beside=0.5)
    collective = next(event for event in exposed["traceEvents"] if event["name"].startswith("nccl"))
    collective["ts"] = max(event["ts"] + event["dur"] for event in exposed["traceEvents"] if event["cat"] == "kernel")
    found = diff(load_core(hidden), load_core(exposed))
    parts = {part.part: part for part in time_parts(found)}
    part = parts["exposed_communication"]
    assert part.change_ns == max(one.change_ns for one in parts.values()) > 0
    assert "-> 0 % of that hidden behind other GPU work" in part.why


def test_kernels_that_no_longer_run_side_by_side_are_told() -> None:
    def on_two_streams(late: float) -> dict[str, Any]:
        trace = program()
        kernels = [event for event in trace["traceEvents"] if event["cat"] == "kernel"]
        for one, other in zip(kernels[1::5], kernels[3::5], strict=True):
            other["ts"] = one["ts"] + late
            other["tid"] = other["args"]["stream"] = 8
        return trace

    found = diff(load_core(on_two_streams(0.0)), load_core(on_two_streams(40.0)))
    part = next(part for part in time_parts(found) if part.part == "computation")
    assert part.change_ns > 0
    assert "ms, 35 -> 7 % of that beside others" in part.why


# -- pairs of programs -----------------------------------------------------------------------------------------


def of_calls(*calls: Call) -> dict[str, Any]:
    """A program of one layer of these calls between two others, all below one op."""
    return program([[LAYER[0], *calls, LAYER[3]]])


SUM = ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::sum_functor<float> > >(R)", 5.0)
MUL = (ADD.replace("CUDAFunctor_add<float>", "MulFunctor<float>"), 4.0)
NORMED = Call("Norm", "aten::_fused_rms_norm", ((NORM.replace("layer", "rms"), 6.0),))
PAIRS: dict[str, tuple[list[Call], list[Call], Reason, str]] = {
    "by a name that covers": (
        [Call("", "aten::mul", (MUL,)), Call("", "aten::mean", (SUM,))],
        [Call("", "custom::mul_mean", (("void moe_mean<int>(P)", 5.0),))],
        Reason.fused, "fused by an op, 2 -> 1 kernels: moe_mean in place of reduce_kernel + ",
    ),
    "not by another name": (
        [Call("", "aten::mul", (MUL,)), Call("", "aten::mean", (SUM,))],
        [Call("", "custom::mean", (("void moe_mean<int>(P)", 5.0),))], Reason.other_op, "became custom::mean; ",
    ),
    "by a category that covers": (
        [Call("", "aten::mul", (MUL,)), Call("", "aten::mean", (SUM,))], [NORMED], Reason.fused,
        "in place of reduce_kernel + vectorized_elementwise_kernel",
    ),
    "not by other work": (
        [Call("", "aten::mul", (MUL,)), Call("", "aten::sigmoid", ((GELU, 4.0),))],
        [Call("", "aten::mm", ((GEMM, 9.0),))], Reason.other_op, "became aten::mm; 2 x vectorized_elementwise_kernel",
    ),
    "not by what is missing": (
        [Call("", "aten::mm", ((GEMM, 9.0),)), Call("", "aten::sum", (SUM,))], [Call("", "aten::sum", (SUM,))],
        Reason.module, "only in A: 1 x cuBLAS gemm 128x128",
    ),
    "other ops, other libraries": (
        [Call("", "aten::sum", (SUM,))], [Call("", "aten::mm", ((GEMM, 9.0),))], Reason.other_op,
        "aten::sum became aten::mm; reduce_kernel became cuBLAS gemm 128x128",
    ),
    "attention of another library": (
        [Call("", "aten::_flash_attention_forward", ((FLASH, 9.0),))],
        [Call("", "aten::_flash_attention_forward", (("attn_fwd", 8.0),))], Reason.other_library,
        "another library: FlashAttention attention forward 128x128 became Triton attention forward",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", PAIRS)
def test_one_kernel_against_several_or_another(what: str) -> None:
    one, other, reason, text = PAIRS[what]
    there, back = (diff(load_core(of_calls(*a)), load_core(of_calls(*b))) for a, b in ((one, other), (other, one)))
    why = [Reasons(there).of(place) for place in there.places]
    assert [(why.reason, text in why.text) for why in why if why.reason != Reason.same] == [(reason, True)]
    mirrored = {Reasons(back).of(place).reason for place in back.places} - {Reason.same}
    assert mirrored == {Reason.unfused if reason is Reason.fused else reason}


DROPOUT, SCALE = (Call(name, f"custom::{name}", ((f"{name}_kernel", 7.0),)) for name in ("Dropout", "Scale"))


@pytest.mark.parametrize(
    ("more", "times"), [((DROPOUT,), 4), ((DROPOUT, DROPOUT), 8), ((DROPOUT, SCALE), 4), ((DROPOUT, SCALE, SCALE), 4)]
)
def test_modules_that_only_one_side_has_are_counted(more: Sequence[Call], times: int) -> None:
    """Neighbours are one point, so that points count less."""
    found = diff(load_core(alike(LAYER)), load_core(alike((*LAYER, *more))))
    (only,) = (place for place in found.places if not place.ns[0])
    assert (only.times, only.events(1)) == (times, 4 * len(more))
    assert "; modules with all below them" in Reasons(found).of(only).text


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
        ("void f_kernel<T<64>, 1>(P)", "void f_splitkv_kernel<T<64>, 0>(P)", "f_kernel became f_splitkv_kernel"),
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


SGEMM = "ampere_sgemm_128x64_nn"
CUTLASS_NAME = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4>(Params)"
FLASH_NAME = (
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
        ({SGEMM: (1, 9)}, {CUTLASS_NAME: (1, 9)}, 1, "types",
         "fp32 became tf32, another kernel family: cuBLAS gemm 128x64 became CUTLASS gemm 128x64x16"),
        ({"nvjet_tst_320x128_64x3_1x2_h_bz_coopB_TNT": (1, 9)},
         {"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn": (1, 9)}, 1, "kernel",
         "another kernel family: nvjet gemm 320x128x64 became cuBLAS gemm 128x128x32"),
        ({TENSILE.format("A"): (1, 9)}, {SGEMM: (1, 9)}, 1, "library",
         "another library: Tensile gemm 256x192x64 became cuBLAS gemm 128x64"),
        ({FLASH_NAME: (1, 9)}, {"attn_fwd": (1, 9)}, 1, "library",
         "another library: FlashAttention attention forward 128x128 became Triton attention forward"),
        ({CUDNN: (1, 9)}, {CUDNN.replace("256x64", "64x64"): (1, 9)}, 1, "tile",
         "another tile: cuDNN fprop 256x64x32 became cuDNN fprop 64x64x32"),
    ],
)  # fmt: skip
def test_how_sets_of_kernels_differ(first: Kernels, second: Kernels, calls: int, kind: str, text: str) -> None:
    found = other_kernels(first, second, calls)
    assert (found.kind, str(found)) == (kind, text)


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


# --- kernels that look alike ---------------------------------------------------------------------------------------

FOUR, EIGHT, SIX = (f"void add<{number}, int>(float)" for number in (4, 8, 6))


def test_what_looks_alike_is_described() -> None:
    assert details_of_alike([FOUR], [EIGHT], short_name) == {EIGHT: "other template arguments: 4 became 8"}
    assert details_of_alike([FOUR, "relu"], ["gelu", EIGHT], short_name) == {
        EIGHT: "other template arguments: 4 became 8"
    }


def test_what_both_run_or_looks_different_is_not() -> None:
    assert details_of_alike([FOUR], [FOUR], short_name) == {}
    assert details_of_alike([FOUR, EIGHT], [EIGHT], short_name) == {}
    assert details_of_alike(["relu"], ["gelu"], short_name) == {}


def test_each_of_the_first_stands_for_one() -> None:
    found = details_of_alike([FOUR], [EIGHT, SIX], short_name)
    assert found == {EIGHT: "other template arguments: 4 became 8"}
    assert set(details_of_alike([FOUR, "void add<5, int>(float)"], [EIGHT, SIX], short_name)) == {EIGHT, SIX}


def test_builds_without_other_arguments() -> None:
    assert details_of_alike(["add(float)"], ["add(double)"], lambda _: "add")["add(double)"]


def test_numbers_of_modules_are_layers_only_without_gaps() -> None:
    # The first of three Linears in each attention, and all layers of a stack.
    linears = [f"Linear_{number}" for layer in range(3) for number in range(7 * layer, 7 * layer + 3)]
    assert not count_up(linears)
    assert count_up([f"Layer_{number}" for number in range(3, 7)])
    assert not count_up(["Layer", "Layer_1"])
    assert "layer" not in str(Among(["Linear_0", "Linear_7"], 2, 9, ratio=1.5))
    assert str(Among(["Layer_3"], 1, 4, True, 1.5)).startswith("1 of 4: layer 3 (Layer_3), 1.50x")


def spaced_launches(delay: float) -> Core:
    """Launches of 5 us, 100 us apart, whose kernels of 10 us begin some time after the call returned."""
    events: list[dict[str, Any]] = []
    for k in range(4):
        at, args = 100.0 * k, {"correlation": k + 1}
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at,
                       "dur": 5.0, "args": args})  # fmt: skip
        events.append({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": at + 5 + delay,
                       "dur": 10.0, "args": {**args, "device": 0, "stream": 7}})  # fmt: skip
    return load_core({"traceEvents": events})


def test_work_that_begins_later_after_its_launch_is_said() -> None:
    def why(*delays: float) -> str:
        parts = time_parts(diff(*map(spaced_launches, delays)))
        return next(part.why for part in parts if part.cause is Cause.launches)

    assert "work begun 2.0 -> 14.0 us after its launch returned" in why(2, 14)
    assert "after its launch returned" not in why(14, 14)
