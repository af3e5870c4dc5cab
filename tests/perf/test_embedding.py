"""Look-ups: hand-computed costs, the range of bytes, and what must always hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrix_calls import BF16, FP32, Argument, cost_of, hostile, models_of
from vector_calls import check_growth, scaled

from tracelens_graph.perf.arguments import Tensor
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.families.training import elements_by_index, rows_by_index, rows_put_back

MODELS = models_of("training")
V, D, B, S = 50, 8, 3, 7
LONG = "long int"
TABLE, INDICES = (BF16, (V, D)), (LONG, (B, S))
N = B * S

KNOWN: list[tuple[str, tuple[Argument, ...], int, int, int | None]] = [
    ("aten::embedding", (TABLE, INDICES, -1, False, False), 0, 8 * N + 4 * N * D, 8 * N + 2 * (N + 1) * D),
    ("aten::embedding", (TABLE, (LONG, (60,))), 0, 8 * 60 + 2 * 60 * D + 2 * V * D, None),
    ("aten::embedding", (TABLE, (LONG, (0,))), 0, 0, 0),
    ("aten::index_select", (TABLE, 0, (LONG, (N,))), 0, 8 * N + 4 * N * D, None),
    ("aten::index_select", (TABLE, 1, (LONG, (3,))), 0, 8 * 3 + 4 * 3 * V, None),
    ("aten::index_select", (TABLE, -2, ("int", (3,))), 0, 4 * 3 + 4 * 3 * D, None),
    ("aten::gather", (TABLE, 0, (LONG, (4, D)), False), 0, 8 * 4 * D + 4 * 4 * D, None),
    ("aten::gather", (TABLE, 0, (LONG, (100, D)), False), 0, 8 * 100 * D + 2 * 100 * D + 2 * V * D, None),
    ("aten::scatter_add_", ((FP32, (V,)), 0, (LONG, (9,)), (FP32, (9,))), 9, 9 * (8 + 12), None),
    (
        "aten::embedding_dense_backward",
        ((FP32, (N, D)), (LONG, (N,)), 50, -1),
        N * D,
        4 * N * D + 8 * N + 4 * V * D,
        None,
    ),
]


@pytest.mark.parametrize(("name", "arguments", "flops", "moved", "least"), KNOWN)
def test_costs_computed_by_hand(
    name: str, arguments: tuple[Argument, ...], flops: int, moved: int, least: int | None
) -> None:
    cost = cost_of(MODELS, name, *arguments)
    assert (cost.flops, cost.bytes) == (flops, moved)
    if least is not None:
        assert cost.bytes_range == (least, moved)


def test_formulas_without_a_trace() -> None:
    table, indices = Tensor((100, 8), "bf16"), Tensor((4,), "int64")
    assert rows_by_index(table, indices).bytes == 32 + 64 + 64
    assert elements_by_index(table, indices).bytes == 32 + 8 + 8
    assert rows_put_back(Tensor((4, 8), "bf16"), indices, 100).flops == 32
    assert rows_by_index(Tensor((4, 8), "mystery"), indices).bytes is None


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("aten::index_select", (TABLE, None, INDICES), "dimension is not recorded"),
        ("aten::index_select", (TABLE, 2, INDICES), "no dimension 2"),
        ("aten::embedding_dense_backward", (TABLE, INDICES, None), "size of the table"),
    ],
)
def test_what_cannot_be_modelled_says_why(name: str, arguments: tuple[Argument, ...], why: str) -> None:
    with pytest.raises(CannotModel, match=why):
        cost_of(MODELS, name, *arguments)


@given(st.sampled_from(KNOWN), st.sampled_from([B, S, D, V]), st.integers(0, 60))
def test_more_work_costs_more(known: tuple[object, ...], size: int, more: int) -> None:
    name, arguments = known[:2]
    assert isinstance(name, str)
    assert isinstance(arguments, tuple)
    check_growth(MODELS, name, arguments, scaled(arguments, size, size + more))


test_whatever_the_arguments = hostile(MODELS, [(name, arguments) for name, arguments, *_ in KNOWN])
