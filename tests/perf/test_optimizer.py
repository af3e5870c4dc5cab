"""Optimizers: costs per element, types from kernels, and what must always hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
from op_costs import Family

from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.model import CallContext

FAMILY = Family("training", lambda model: model.sheet == "Optimizer_fwd")
LISTS = [[128, 128], [128]]
E = 128 * 128 + 128
MULTI = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::TensorListMetadata<2>, {}>"
ADAM = MULTI.format("at::native::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)0, false>")
BF16_ADD = MULTI.format("at::native::BinaryOpListAlphaFunctor<c10::BFloat16, 2, 2, 0>, std::plus<float>, float")
COPY = MULTI.format("at::native::UnaryOpFunctor<long, 2, 1, 1>, at::native::Copy<long, long> ")


def lists(*given: Any, sizes: list[list[int]] = LISTS) -> Arguments:
    """Arguments as the profiler records tensor lists: "L" stands for one, anything else for a number."""
    dims = [sizes if one == "L" else [] for one in given]
    types = ["TensorList" if one == "L" else "Scalar" for one in given]
    return Arguments(json.dumps(dims), json.dumps(types), "", json.dumps(["" if o == "L" else str(o) for o in given]))


STATE = ("L",) * 6
KNOWN = [
    ("aten::_fused_adam_", (*STATE, 1e-3, 0.9, 0.99, 0.0, 1e-8, False), ADAM, 13 * E, 4 * 7 * E, "fp32"),
    ("aten::_fused_adam_", (*STATE, 1e-3, 0.9, 0.99, 0.01, 1e-8, False), ADAM, 15 * E, 4 * 7 * E, "fp32"),
    ("aten::_fused_adamw_", (*STATE, 1e-3, 0.9, 0.99, 0.01, 1e-8, True), ADAM, 15 * E, 4 * 9 * E, "fp32"),
    ("aten::_fused_sgd_", ("L", "L", "L", 0.1, 0.9, 1e-2, 0.0, True), ADAM, 8 * E, 4 * 5 * E, "fp32"),
    ("aten::_fused_sgd_", ("L", "L", "L", 0.0, 0.0, 1e-2, 0.0, False), ADAM, 2 * E, 4 * 3 * E, "fp32"),
    ("aten::_foreach_add_", ("L", "L", -0.001), BF16_ADD, 2 * E, 2 * 3 * E, "bf16"),
    ("aten::_foreach_mul_", ("L", 0.9), BF16_ADD, E, 2 * 2 * E, "bf16"),
    ("aten::_foreach_addcdiv_", ("L", "L", "L", 1), ADAM, 3 * E, 4 * 4 * E, "fp32"),
    ("aten::_foreach_norm", ("L", 2), ADAM, 2 * E, 4 * E, "fp32"),
    ("aten::_foreach_copy_", ("L", "L", False), COPY, 0, 8 * 2 * E, ""),
]


@pytest.mark.parametrize(("name", "arguments", "kernel", "flops", "moved", "precision"), KNOWN)
def test_costs_computed_by_hand(
    name: str, arguments: tuple[Any, ...], kernel: str, flops: int, moved: int, precision: str
) -> None:
    model = FAMILY.models[name]
    assert model.uses_context
    cost = model.estimate(lists(*arguments), CallContext((kernel,)))
    assert (cost.flops, cost.bytes, cost.precision) == (flops, moved, precision)
    assert cost.params["num_elements"] == E


@pytest.mark.parametrize("name", sorted(FAMILY.models))
def test_lists_whose_sizes_or_types_are_not_recorded(name: str) -> None:
    empty = Arguments("[[], []]", '["TensorList", "TensorList"]')
    with pytest.raises(CannotModel, match="sizes in the list of tensors are not recorded"):
        FAMILY.models[name].estimate(empty, CallContext((ADAM,)))
    with pytest.raises(CannotModel, match="no kernel names one"):
        FAMILY.models[name].estimate(lists(*("L",) * 3), CallContext(("nameless",)))


test_whatever_the_arguments = FAMILY.hostile([(name, (1, 2, 3)) for name in FAMILY.models])
