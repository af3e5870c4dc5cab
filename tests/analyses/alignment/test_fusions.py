"""One call in place of several of its module, whatever stands between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from call_trees import FORWARD, Call, copy, launch, load, module, op

from tracelens_graph.analyses.alignment.difference import Diff, diff
from tracelens_graph.analyses.alignment.reasons import Reason
from tracelens_graph.analyses.alignment.rules import Reasons
from tracelens_graph.graph.core import Core

LAYERS = 3


def linear(number: int, outer: int, us: float) -> Call:
    sizes = {"Input Dims": [[8], [64, 16], [16, outer]], "Input type": ["float"] * 3}
    return module(f"Linear_{number}", op("aten::addmm", launch("gemm", us), **sizes))


def net(*calls: Sequence[Call]) -> Core:
    return load({FORWARD: [module("Net_0", *(module(f"Block_{k}", *one) for k, one in enumerate(calls)))]})


def product(number: int, us: float = 10.0) -> Call:
    return linear(number, 16, us)


def activation(number: int) -> list[Call]:
    return [
        product(2 * number),
        module(f"SiLU_{number}", op("aten::silu", launch("silu", 5.0))),
        product(2 * number + 1),
        op("aten::mul", launch("mul", 6.0)),
    ]


def fused_activation(number: int) -> list[Call]:
    return [product(2 * number), product(2 * number + 1), op("_C::silu_and_mul", launch("act_and_mul", 4.0))]


def projections(number: int) -> list[Call]:
    return [*(product(3 * number + k) for k in range(3)), op("aten::softmax", launch("softmax", 3.0))]


def one_projection(number: int) -> list[Call]:
    return [linear(number, 48, 18.0), op("aten::softmax", launch("softmax", 3.0))]


@pytest.mark.parametrize(
    ("parts", "whole", "ns"),
    [(activation, fused_activation, (33_000, 12_000)), (projections, one_projection, (90_000, 54_000))],
)
def test_parts_of_a_module_that_one_call_replaces_are_one_place(
    parts: Callable[[int], list[Call]], whole: Callable[[int], list[Call]], ns: tuple[int, int]
) -> None:
    a, b = (net(*map(one, range(LAYERS))) for one in (parts, whole))
    for first, second, times, reason in ((a, b, ns, Reason.fused), (b, a, ns[::-1], Reason.unfused)):
        found = diff(first, second)
        reasons = Reasons(found)
        places = [place for place in found.places if reasons.of(place).reason is not Reason.same]
        assert [(place.ns, place.times, reasons.of(place).reason) for place in places] == [(times, LAYERS, reason)]
        assert_whole(found)


def assert_whole(found: Diff) -> None:
    for side, forest in enumerate(found.alignment.sides):
        assert sorted(leaf for point in found.alignment.points for leaf in point.leaves[side]) == [
            *range(forest.leaves)
        ]


def test_products_whose_sizes_do_not_add_up_are_no_fusion() -> None:
    a = net(*map(projections, range(LAYERS)))
    b = net(*([linear(k, 40, 18.0), op("aten::softmax", launch("softmax", 3.0))] for k in range(LAYERS)))
    found = diff(a, b)
    reasons = {Reasons(found).of(place).reason for place in found.places}
    assert Reason.fused not in reasons
    assert Reason.other_sizes in reasons


def copied(*sizes: int) -> Core:
    calls = []
    for size in sizes:
        one = copy("HtoD (Pinned -> Device)", size / 10_000)
        one.kernel_args = {"bytes": size}
        calls.append(one)
    return net(calls)


def test_copies_are_paired_by_their_bytes() -> None:
    found = diff(copied(10**6, 10**6, 4 * 10**6), copied(16 * 10**6, 10**6, 10**6, 4 * 10**6))
    reasons = Reasons(found)
    whys = [reasons.of(place) for place in found.places]
    (why,) = [why for why in whys if why.reason is not Reason.same]
    assert why.reason is Reason.moves
    assert "16 MB, 10 GB/s" in why.text
