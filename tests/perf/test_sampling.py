"""Sampling: hand-computed costs and what must always hold."""

from __future__ import annotations

from op_costs import BF16, FP32, Family

FAMILY = Family("elementwise")
T, V = 6, 1000
CALL = (("int", (T,)), (BF16, (T, V)), (FP32, (T, V)), 1.0, 1e-9)


def test_costs_computed_by_hand() -> None:
    cost = FAMILY.cost("aiter::mixed_sample_outer_exponential", *CALL)
    assert (cost.flops, cost.bytes, cost.compute_spec) == (2 * T * V, 6 * T * V + 4 * T, "vector_bf16")
    assert (cost.params["T"], cost.params["V"]) == (T, V)
    cost = FAMILY.cost("aten::normal_", (FP32, (T, V)), 0.0, 1.0, None)
    assert (cost.flops, cost.bytes) == (T * V, 4 * T * V)


EXPONENTIAL = "aiter::mixed_sample_outer_exponential"
test_more_work_costs_more = FAMILY.growing([(EXPONENTIAL, CALL)], T, V)
test_whatever_the_arguments = FAMILY.hostile([(EXPONENTIAL, CALL), ("aten::normal_", CALL)])
