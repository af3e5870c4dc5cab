"""Kernels of the compiler: their names taken apart, hand-computed costs, the rows of the reference tables."""

from __future__ import annotations

from functools import partial

import pytest
from growth import assert_growth, calls
from hypothesis import given
from hypothesis import strategies as st
from op_costs import BF16, FP32, Argument, call

from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.triton import FLOPS, fused_operations, triton_model
from tracelens_graph.perf.model import CallContext

B, H = 32, 2048
E = B * H
X, ROW = (BF16, (B, H)), (BF16, (H,))


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("triton_poi_fused_add_0", ["add"]),
        ("triton_poi_fused__unsafe_view_mul_silu_2", ["_unsafe_view", "mul", "silu"]),
        ("triton_red_fused_add_mean_mul_pow_rsqrt_0", ["add", "mean", "mul", "pow", "rsqrt"]),
        ("triton_per_fused__softmax__to_copy_11", ["_softmax", "_to_copy"]),
        (
            "triton_per_fused_native_layer_norm_native_layer_norm_backward_3",
            ["native_layer_norm", "native_layer_norm_backward"],
        ),
        ("triton_poi_fused_copy__mul_1", ["copy_", "mul"]),
        ("triton_poi_fused_add", ["add"]),
        ("triton_poi_fused_add_unheard_of_mul_0", ["add", "mul"]),
        ("triton_poi_fused_0", []),
        ("triton_tem_fused_mm_0", []),
        ("aten::add", []),
        ("triton_poi_fused_" + "add_" * 10_000, []),
    ],
)
def test_names_are_cut_into_operations(name: str, operations: list[str]) -> None:
    found = list(fused_operations(name))
    assert found[:9] == operations[:9] or (len(name) > 4096 and set(found) <= {"add"})
    assert (triton_model(name) is None) == (not found)


def cost_of(name: str, *arguments: Argument) -> Cost:
    model = triton_model(name)
    assert model is not None
    return model.estimate(call(*arguments), CallContext())


KNOWN: list[tuple[str, tuple[Argument, ...], int, int, tuple[int, int], str]] = [
    # A product of two tensors and no third: one of them is changed in place.
    ("triton_poi_fused_mul_silu_2", (X, X, E), 5 * E, 6 * E, (E, 1), "vector_bf16"),
    ("triton_poi_fused_relu_0", (X, E), E, 4 * E, (E, 1), "vector_bf16"),
    ("triton_poi_fused_add_0", (X, ROW, E), E, 4 * E + 2 * H, (E, 1), "vector_bf16"),
    # The last tensor is the result, and nothing else is written.
    ("triton_poi_fused_relu_0", (X, X, E), E, 4 * E, (E, 1), "vector_bf16"),
    ("triton_poi_fused_add_3", (X, ROW, X, E), E, 4 * E + 2 * H, (E, 1), "vector_bf16"),
    ("triton_poi_fused_add_0", (X, X, 3, E), E, 4 * E, (E, 1), "vector_bf16"),
    # The last is the result of a product of matrices, seen as a tensor of three dimensions.
    ("triton_poi_fused__unsafe_view_add_3", ((BF16, (4, 8, H)),) * 2 + (X, E), E, 8 * E, (E, 1), "vector_bf16"),
    ("triton_poi_fused__to_copy_1", ((FP32, (B, H)), X, E), 0, 6 * E, (E, 1), "vector_fp32"),
    ("triton_red_fused_add_mean_mul_pow_rsqrt_0", (X, ROW, X, B, H), 7 * E, 4 * E + 2 * H, (B, H), "vector_bf16"),
    ("triton_per_fused__softmax_0", (X, X, B, H), 5 * E, 4 * E, (B, H), "vector_bf16"),
    # An embedding reads as many elements of its table as it writes.
    ("triton_poi_fused_embedding_0", (("long int", (B,)), (BF16, (9999, H)), X, E), 0, 8 * B + 4 * E, (E, 1),
     "vector_bf16"),
    # Symbolic sizes before the size of the space.
    ("triton_poi_fused_neg_0", (X, X, B, H, E), E, 4 * E, (E, 1), "vector_bf16"),
    ("triton_red_fused_sum_0", (X, (BF16, (B,)), 7, B, H), E, 2 * E + 2 * B, (B, H), "vector_bf16"),
    ("triton_poi_fused_add_0", (X, X, X), E, 6 * E, (E, 1), "vector_bf16"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "flops", "moved", "space", "spec"), KNOWN)
def test_costs_computed_by_hand(
    name: str, arguments: tuple[Argument, ...], flops: int, moved: int, space: tuple[int, int], spec: str
) -> None:
    cost = cost_of(name, *arguments)
    assert (cost.flops, cost.bytes) == (flops, moved)
    assert (cost.params["xnumel"], cost.params["rnumel"]) == space
    assert cost.compute_spec == spec


@given(st.lists(st.sampled_from(sorted(FLOPS)), min_size=1, max_size=8))
def test_every_name_is_covered_by_known_operations(operations: list[str]) -> None:
    found = fused_operations(f"triton_poi_fused_{'_'.join(operations)}_0")
    assert "_".join(found) == "_".join(operations)
    assert len(found) <= len(operations)


@pytest.mark.parametrize(("prefix", "part"), [("poi", "_"), ("red", "1_"), ("per", "a"), ("poi", "add_")])
def test_work_grows_with_the_name_and_ends(prefix: str, part: str) -> None:
    def read(length: int) -> tuple[str, ...]:
        return fused_operations.__wrapped__(f"triton_{prefix}_fused_{(part * length)[:length]}0")

    assert_growth(lambda length: partial(read, length), 1_000)
    assert calls(lambda: read(1_000_000)) <= calls(lambda: read(5_000))


def test_a_kernel_without_tensors_says_why() -> None:
    with pytest.raises(CannotModel, match="no argument is a tensor"):
        cost_of("triton_poi_fused_add_0", 7)
    model = triton_model("triton_poi_fused_add_0")
    assert model is not None
    with pytest.raises(CannotModel):
        model.estimate(Arguments("[[-1]]", '["float"]'), CallContext())
