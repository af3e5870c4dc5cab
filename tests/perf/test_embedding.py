"""Look-ups: hand-computed costs, the range of bytes, and what must always hold."""

from __future__ import annotations

from op_costs import BF16, FP32, Family, Known

FAMILY = Family("training")
V, D, B, S = 50, 8, 3, 7
LONG = "long int"
TABLE, INDICES = (BF16, (V, D)), (LONG, (B, S))
N = B * S

KNOWN: list[Known] = [
    ("aten::embedding", (TABLE, INDICES, -1, False, False), 0, 8 * N + 4 * N * D),
    ("aten::embedding", (TABLE, (LONG, (60,))), 0, 8 * 60 + 2 * 60 * D + 2 * V * D),
    ("aten::embedding", (TABLE, (LONG, (0,))), 0, 0),
    ("aten::index_select", (TABLE, 0, (LONG, (N,))), 0, 8 * N + 4 * N * D),
    ("aten::index_select", (TABLE, 1, (LONG, (3,))), 0, 8 * 3 + 4 * 3 * V),
    ("aten::index_select", (TABLE, -2, ("int", (3,))), 0, 4 * 3 + 4 * 3 * D),
    ("aten::gather", (TABLE, 0, (LONG, (4, D)), False), 0, 8 * 4 * D + 4 * 4 * D),
    ("aten::gather", (TABLE, 0, (LONG, (100, D)), False), 0, 8 * 100 * D + 2 * 100 * D + 2 * V * D),
    ("aten::scatter_add_", ((FP32, (V,)), 0, (LONG, (9,)), (FP32, (9,))), 9, 9 * (8 + 12)),
    ("aten::embedding_dense_backward", ((FP32, (N, D)), (LONG, (N,)), 50, -1), N * D, 4 * N * D + 8 * N + 4 * V * D),
]


def test_few_rows_may_be_read_often() -> None:
    for number, least in ((0, 8 * N + 2 * (N + 1) * D), (2, 0)):
        name, arguments, _, most = KNOWN[number]
        assert FAMILY.cost(name, *arguments).bytes_range == (least, most)


test_costs_computed_by_hand = FAMILY.known(KNOWN, "vector")
test_more_work_costs_more = FAMILY.growing(KNOWN, B, S, D, V)
test_whatever_the_arguments = FAMILY.hostile(KNOWN)
test_what_cannot_be_modelled_says_why = FAMILY.reasons(
    [
        ("aten::index_select", (TABLE, None, INDICES), "dimension is not recorded"),
        ("aten::index_select", (TABLE, 2, INDICES), "no dimension 2"),
        ("aten::embedding_dense_backward", (TABLE, INDICES), "size of the table"),
    ],
)
