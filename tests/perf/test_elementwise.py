"""Elementwise operations: hand-computed costs, promotion and broadcasting, the rows of the reference tables."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_costs import BF16, FP32, Family, Known

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.families.elementwise import (
    NUMBER,
    broadcast,
    promoted,
)
from tracelens_graph.perf.model import CallContext

FAMILY = Family("elementwise")

FP16, LONG, BOOL, UINT8 = "c10::Half", "long int", "bool", "unsigned char"
B, C, H = 8, 16, 10
E = B * C * H
X, X32 = (BF16, (B, C, H)), (FP32, (B, C, H))
ROW, MASK = (BF16, (C, 1)), (BOOL, (B, C, 1))


KNOWN: list[Known] = [
    ("aten::copy_", (X, X32, False), E, 2 * E + 4 * E, "bf16"),
    ("aten::copy_", (X, (FP32, (C, 1)), False), E, 2 * E + 4 * C, "bf16"),
    ("aten::sigmoid", (X,), E, 4 * E, "bf16"),
    ("aten::sigmoid", (X, X), E, 4 * E, "bf16"),
    ("aten::pow", (X32, 2), E, 8 * E, "fp32"),
    ("aten::pow", (X32, (FP32, (C, 1))), E, 8 * E + 4 * C, "fp32"),
    ("aten::pow", (2, X32), E, 4 + 8 * E, "fp32"),
    ("aten::clamp_min_", (X, 0), E, 4 * E, "bf16"),
    ("aten::replication_pad1d", (X, "[1, 2]"), B * C * (H + 3), 2 * E + 2 * B * C * (H + 3), "bf16"),
    ("aten::replication_pad2d", (X, "[1, 2, 0, -4]"), B * 12 * 13, 2 * E + 2 * B * 12 * 13, "bf16"),
    ("aten::upsample_nearest1d", (X, "[30]", None), B * C * 30, 2 * E + 2 * B * C * 30, "bf16"),
    ("aten::upsample_nearest1d", (X, None, "[2.5]"), B * C * 25, 2 * E + 2 * B * C * 25, "bf16"),
    ("aten::mul", (X, X), E, 6 * E, "bf16"),
    ("aten::mul", (X, ROW), E, 4 * E + 2 * C, "bf16"),
    ("aten::mul", (ROW, X), E, 4 * E + 2 * C, "bf16"),
    ("aten::mul", (X, X32), E, 2 * E + 4 * E + 4 * E, "bf16"),
    ("aten::mul", ((FP32, ()), X), E, 4 + 4 * E, "bf16"),
    ("aten::mul", (X, (FP16, (B, C, H))), E, 2 * E + 2 * E + 4 * E, "bf16"),
    ("aten::mul", ((LONG, (B, C, H)), (FP16, (B, C, H))), E, 8 * E + 2 * E + 2 * E, ""),
    ("aten::add_", (X, X32, 1), E, 2 * E + 4 * E + 2 * E, "bf16"),
    ("aten::add", (X, 3, 1), E, 4 * E + 4, "bf16"),
    ("aten::add", (X, X, 1, X32), E, 8 * E, "bf16"),
    ("aten::div", ((LONG, (B,)), 3), B, 8 * B + 4 + 4 * B, ""),
    ("aten::threshold_backward", (X, X, 0), E, 6 * E, "bf16"),
    ("LigerSiLUMulFunction", (X, X), E, 6 * E, "bf16"),
    ("sgl_kernel::silu_and_mul", (X, (BF16, (B, C, 2 * H))), 5 * E, 6 * E, "bf16"),
    ("aiter::silu_and_mul", (X, (FP32, (B, C, 2 * H))), 5 * E, 2 * E + 8 * E, "fp32"),
    ("aiter::gelu_and_mul", (X, (BF16, (B, C, 2 * H))), 8 * E, 6 * E, "bf16"),
    ("aiter::gelu_tanh_and_mul", (X, (BF16, (B, C, 2 * H))), 10 * E, 6 * E, "bf16"),
    ("aten::gelu", (X, "none"), E, 4 * E, "bf16"),
    ("aten::gelu_backward", (X, X, "none"), E, 6 * E, "bf16"),
    ("aten::native_dropout_backward", (X, (BOOL, (B, C, H)), 1.1), E, 5 * E, "bf16"),
    ("aten::eq", (X, X), E, 4 * E + E, "bf16"),
    ("aten::sub", ((LONG, (B,)), (LONG, ()), 1), B, 16 * B + 8, ""),
    ("aten::fill_", (X, 0.0), 0, 2 * E, "bf16"),
    ("aten::masked_fill_", (X, MASK, 0), E, 4 * E + B * C, "bf16"),
    ("aten::where", (MASK, X, (BF16, ())), E, B * C + 4 * E + 2, "bf16"),
    ("aten::arange", (238, 270, 1, (LONG, (0,))), 32, 8 * 32, ""),
    ("aten::arange", (0, 10, 4, (LONG, (0,))), 3, 8 * 3, ""),
    ("aten::constant_pad_nd", (X, "[0, 6]", 0), B * C * 16, 2 * E + 2 * B * C * 16, "bf16"),
]


def test_a_join_takes_its_type_from_the_kernel() -> None:
    dims, types = "[[[4, 1, 768], [4, 196, 768]], []]", '["TensorList", "Scalar"]'
    arguments = Arguments(dims, types)
    kernel = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::OpaqueType<2u>, unsigned int>"
    cost = FAMILY.models["aten::cat"].estimate(arguments, CallContext((kernel,)))
    assert (cost.flops, cost.bytes) == (0, 2 * 2 * 4 * 197 * 768)
    with pytest.raises(CannotModel, match="no kernel names one"):
        FAMILY.models["aten::cat"].estimate(arguments, CallContext(("kernel",)))


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 1, 2]), st.integers(1, 3)), max_size=4))
def test_broadcasting_is_that_of_numpy(dims: list[tuple[int, int, int]]) -> None:
    shapes = [
        tuple(size if keep != 1 else 1 for size, keep, _ in dims[start:]) for start in range(min(3, len(dims) + 1))
    ]
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(CannotModel):
            broadcast(*shapes)
    else:
        assert broadcast(*shapes) == expected


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        (Tensor((4,), FP16), Tensor((4,), FP32), FP32),
        (Tensor((4,), FP16), Tensor((), FP32), FP16),
        (Tensor((), FP32), Tensor((4,), FP16), FP16),
        (Tensor((4,), LONG), Tensor((4,), FP16), FP16),
        (Tensor((4,), LONG), Tensor((), FP32), FP32),
        (Tensor((4,), "int"), Tensor((4,), LONG), LONG),
        (Tensor((4,), BF16), Tensor((4,), FP16), FP32),
        (Tensor((4,), "int"), NUMBER, "int"),
        (Tensor((4,), UINT8), Tensor((4,), BOOL), UINT8),
    ],
)
def test_promotion(first: Tensor, second: Tensor, result: str) -> None:
    assert promoted(first, second) == result


def test_upsampling_gives_the_types_of_both_ends() -> None:
    params = FAMILY.cost("aten::upsample_nearest1d", X, "[30]", None).params
    assert params["dtype_in_out"] == (BF16, BF16)
    assert params["output_shape"] == (B, C, 30)


test_costs_computed_by_hand = FAMILY.known(KNOWN)
test_the_rows_of_the_reference_tables = FAMILY.reference_rows("UnaryElementwise", departing="bool")
test_more_work_costs_more = FAMILY.growing([one for one in KNOWN if "pad" not in one[0]], B, C, H)
test_whatever_the_arguments = FAMILY.hostile(KNOWN)
test_an_expanded_dimension_counts_once = FAMILY.expanded_once(
    [(name, (X, X), 1, 2 * (E - C * H)) for name in ("aten::mul", "aten::sigmoid", "aten::gelu_backward")]
)
test_what_cannot_be_modelled_says_why = FAMILY.reasons(
    [
        ("aten::mul", (X, (BF16, (7, 1))), "do not broadcast"),
        ("aten::mul", (1, 2), "neither operand is a tensor"),
        ("aten::replication_pad1d", (X, None), "padding is not recorded"),
        ("aten::replication_pad1d", (X, "[-20, 0]"), "takes away more"),
        ("aten::upsample_nearest2d", (X, None, None), "size of the result is not recorded"),
        ("aten::upsample_nearest1d", ((BF16, (1, 1, 10**400)), None, "[2.0]"), "not those of tensors"),
        ("aten::sigmoid", ((BF16, (-1, 2)),), "negative size"),
        ("aten::arange", (0, 10, 0, (LONG, (0,))), "range is not recorded"),
    ],
)


@pytest.mark.parametrize("scalar", ["Int", "Double", "Scalar"])
def test_the_factor_of_a_sum_is_no_result(scalar: str) -> None:
    """PyTorch before 1.13 recorded plain numbers by the tags of their values."""
    arguments = Arguments("[[32, 64], [32, 64], []]", json.dumps(["float", "float", scalar]))
    assert FAMILY.models["aten::add_"].estimate(arguments, CallContext()).bytes == 3 * 4 * 32 * 64
