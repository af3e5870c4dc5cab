"""Reductions: hand-computed costs, results of the right size, the rows of the reference tables, properties."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_costs import BF16, FP32, Argument, Family, Known, call

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.families.reduction import reduction, remaining
from tracelens_graph.perf.model import CallContext

FAMILY = Family("reduction")

B, C, H = 8, 16, 10
E = B * C * H
X = (FP32, (B, C, H))
IMAGE = (BF16, (3, 4, 12, 20))
LONG = "long int"


def listed(source: Argument, *rest: Argument) -> Arguments:
    """A call with a list of dimensions at 1, whose type the profiler calls `ScalarList`."""
    arguments = call(source, *rest)
    arguments._parts[1][1] = "ScalarList"
    return arguments


KNOWN: list[Known] = [
    ("aten::sum", (X, None), E, 4 * E + 4),
    ("aten::sum", (X, "[1]", False, None), E, 4 * E + 4 * B * H),
    ("aten::sum", (X, "[1]", True, None), E, 4 * E + 4 * B * H),
    ("aten::sum", (X, "[-1, 0]", False, None), E, 4 * E + 4 * C),
    ("aten::sum", (X, "[]", False, None), E, 4 * E + 4),
    ("aten::sum", (X, "[2]", False, 7), E, 4 * E + 8 * B * C),
    ("aten::sum", (X, 7), E, 4 * E + 8),
    ("aten::sum", (("int", (B, C)), "[0]", False, None), B * C, 4 * B * C + 8 * C),
    ("aten::mean", ((BF16, (B, C, H)), "[-1, -2]", True, None), E, 2 * E + 2 * B),
    ("aten::max", (X,), E, 4 * E + 4),
    ("aten::max", (X, 1, False), E, 4 * E + (4 + 8) * B * H),
    ("aten::max", (X, X), E, 12 * E),
    ("aten::amax", (X, "[1]", False), E, 4 * E + 4 * B * H),
    ("aten::norm", (X, 2, "[0]", False), E, 4 * E + 4 * C * H),
    ("aten::norm", (X, 2), E, 4 * E + 4),
    ("aten::std", (X, True), E, 4 * E + 4),
    ("aten::var", (X, "[2]", 1, True), E, 4 * E + 4 * B * C),
    ("aten::logsumexp", (X, "[2]", False), E, 4 * E + 4 * B * C),
    ("aten::cumsum", (X, 1, None), E, 8 * E),
    ("aten::cumsum", (("int", (B, C)), 1, None), B * C, 12 * B * C),
    ("aten::cumsum", ((BF16, (B, C)), 1, 6), B * C, 6 * B * C),
    ("aten::argmax", (X, -1, False), E, 4 * E + 8 * B * C),
    ("aten::argmax", (X, None, False), E, 4 * E + 8),
    ("aten::all", (("bool", (B, C)),), B * C, B * C + 1),
    ("aten::topk", (X, 3, -1, True, True), E, 4 * E + 12 * B * C * 3),
    ("aten::sort", (X, 1, True), E * 4, 4 * E + 12 * E),
    ("aten::sort", (X, True, 1, True), E * 4, 4 * E + 12 * E),
    ("aten::_softmax", (X, -1, False), 5 * E, 8 * E),
    ("aten::_log_softmax", ((BF16, (B, C, H)), -1, True), 5 * E, 2 * E + 4 * E),
    ("aten::_softmax_backward_data", (X, X, -1, 6), 4 * E, 12 * E),
    ("aten::max_pool2d_with_indices", (IMAGE, "[3, 3]", "[2, 2]", "[1, 1]", "[1, 1]", False), 9 * 12 * 6 * 10,
     2 * 12 * 240 + (2 + 8) * 12 * 60),
    ("aten::avg_pool2d", (IMAGE, "[4, 5]", "[]", "[0]", True), 20 * 12 * 12, 2 * 12 * (240 + 12)),
    ("aten::max_pool2d_with_indices_backward",
     ((BF16, (3, 4, 6, 10)), IMAGE, "[3, 3]", "[2, 2]", "[1, 1]", "[1, 1]", False, (LONG, (3, 4, 6, 10))), 12 * 60,
     (2 + 8) * 12 * 60 + 2 * 12 * 240),
]  # fmt: skip


@given(st.lists(st.integers(0, 4), max_size=4), st.data())
def test_what_remains_is_as_numpy_says(shape: list[int], data: st.DataObject) -> None:
    rank = max(len(shape), 1)
    dims = data.draw(st.lists(st.integers(0, rank - 1), unique=True, max_size=rank)) if shape else []
    expected = np.zeros(shape).sum(axis=tuple(dims) if dims else None).shape
    signed = tuple(dim - data.draw(st.sampled_from([0, rank])) for dim in dims)
    assert remaining(tuple(shape), signed) == expected
    cost = reduction(Tensor(tuple(shape), FP32), signed)
    assert cost.bytes == 4 * (prod(shape) + prod(expected))


def test_windows_rounded_up_do_not_begin_behind_the_source() -> None:
    def pooled(size: int, ceil: bool) -> object:
        image = (BF16, (1, 1, size, size))
        return FAMILY.cost("aten::avg_pool2d", image, "[2, 2]", "[2, 2]", "[1, 1]", ceil).params["output_shape"]

    assert pooled(4, False) == (1, 1, 3, 3)
    assert pooled(5, False) == (1, 1, 3, 3)
    assert pooled(5, True) == (1, 1, 3, 3)
    assert pooled(4, True) == (1, 1, 3, 3)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (listed(X, "[3]", False, None), "no dimension 3"),
        (listed(X, "", False, None), "dimensions are not recorded"),
        (call(None, "[0]"), "argument 0 is not a tensor"),
    ],
)
def test_what_cannot_be_modelled_says_why(arguments: Arguments, why: str) -> None:
    with pytest.raises(CannotModel, match=why):
        FAMILY.models["aten::sum"].estimate(arguments, CallContext())


def test_an_elementwise_maximum_has_no_backward_pass_of_a_reduction() -> None:
    backward = FAMILY.models["aten::max"].backward
    assert backward is not None
    with pytest.raises(CannotModel):
        backward(call(X, X), CallContext())


test_costs_computed_by_hand = FAMILY.known(KNOWN, "vector")
test_the_rows_of_the_reference_tables = FAMILY.reference_rows("Reduce_fwd", departing="cumsum")
test_more_work_costs_more = FAMILY.growing(KNOWN, B, C, H)
test_whatever_the_arguments = FAMILY.hostile(KNOWN)
test_an_expanded_dimension_counts_once = FAMILY.expanded_once(
    [("aten::sum", (X, "[1]", False, None), 0, 4 * (E - C * H))]
)
