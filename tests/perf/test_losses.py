"""Losses: hand-computed costs and what must always hold."""

from __future__ import annotations

from op_costs import BF16, FP32, Family, Known

FAMILY = Family("training")
B, S, V = 6, 7, 1000
LONG = "long int"
LOGITS, ROWS, TARGETS = (BF16, (B, 1, V)), (FP32, (B, V)), (LONG, (B,))
E = B * V

KNOWN: list[Known] = [
    ("CrossEntropyFunction", (LOGITS, (LONG, (B, 1)), 0.0), 5 * E, 2 * E + 12 * B),
    ("CrossEntropyFunction", ((BF16, (B, S, V)), (LONG, (B, S))), 5 * S * E, 2 * S * E + 12 * B * S),
    ("aten::nll_loss_forward", (ROWS, TARGETS, None, 1, -100), B, 12 * B + 4),
    ("aten::nll_loss_forward", (ROWS, TARGETS, None, 0, -100), B, 16 * B),
    ("aten::nll_loss_backward", ((FP32, ()), ROWS, TARGETS, None, 1, -100), B, 4 + 8 * B + 4 * E),
    ("aten::mse_loss", (ROWS, ROWS, 1), 3 * E, 8 * E + 4),
    ("aten::mse_loss", (ROWS, ROWS, 0), 2 * E, 12 * E),
    ("aten::mse_loss_backward", ((FP32, ()), ROWS, ROWS, 1), 3 * E, 4 + 12 * E),
]


test_costs_computed_by_hand = FAMILY.known(KNOWN, "vector")
test_more_work_costs_more = FAMILY.growing(KNOWN, B, V)
test_whatever_the_arguments = FAMILY.hostile(KNOWN)
test_an_expanded_dimension_counts_once = FAMILY.expanded_once(
    [("CrossEntropyFunction", (LOGITS, (LONG, (B, 1))), 0, 2 * (E - V))]
)
test_what_cannot_be_modelled_says_why = FAMILY.reasons(
    [
        ("aten::mse_loss", ((FP32, (3,)), (FP32, (2,)), 1), "do not broadcast"),
        ("CrossEntropyFunction", ((FP32, ()), TARGETS), "no dimension of classes"),
    ],
)
