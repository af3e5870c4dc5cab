from __future__ import annotations

from typing import Any

from alignments import aligned, kernels
from call_trees import FORWARD, frame, launch, module, op, trace
from trees_of_calls import call_of, model

from tracelens_graph.analyses.alignment.align import Alignment
from tracelens_graph.analyses.alignment.difference import OUTSIDE_OF_OPS, diff
from tracelens_graph.analyses.alignment.divergence_points import Point
from tracelens_graph.loading.one import load_core


def container(found: Alignment, point: Point, side: int = 0) -> str:
    forest = found.sides[side]
    row = int(forest.row[point.container[side]])
    core = forest.window.core
    return core.names[core.columns.name[row]] if row >= 0 else ""


def point_of(found: Alignment, kernel: str, side: int) -> Point:
    leaf = kernels(found.sides[side]).index(kernel)
    (point,) = (point for point in found.points if leaf in point.leaves[side])
    return point


def test_a_renamed_op_that_nests_otherwise_is_told_at_the_lowest_op_of_one_name() -> None:
    a = op("aten::_convolution", op("aten::cudnn_convolution", launch("conv", 9.0)), op("aten::add_", launch("bias")))
    b = op("aten::_convolution", op("aten::miopen_convolution", launch("conv"), op("aten::add_", launch("bias"))))
    found = aligned([module("Net_0", a, call_of("relu"))], [module("Net_0", b, call_of("relu"))])
    point = point_of(found, "conv", 0)
    assert container(found, point) == container(found, point, 1) == "aten::_convolution"
    assert [len(leaves) for leaves in point.leaves] == [1, 1]
    assert point.change_ns == -8000
    assert container(found, point_of(found, "bias", 0)) == "aten::add_"


def test_what_only_one_side_has_is_a_point_per_gap() -> None:
    a, b = model(4), model(4)
    for one in b[0].calls:
        one.calls = [call_of("_to_copy"), *one.calls]
    found = aligned(a, b)
    extra = [point for point in found.points if not point.leaves[0]]
    assert [len(point.leaves[1]) for point in extra] == [1] * 4
    assert len({point.container for point in extra}) == 4


def test_replaced_work_below_a_frame_is_one_point_of_both_sides() -> None:
    def net(*names: str) -> list[Any]:
        return [frame("net.py(1): forward", *(call_of(name, call_of(name)) for name in ("mm", *names, "softmax")))]

    found = aligned(net("cumsum", "nll_loss"), net("native_dropout"))
    assert sum(len(point.leaves[0]) != len(point.leaves[1]) for point in found.points) == 1


def without_launch(*names: str) -> Any:
    document = trace([(FORWARD, [call_of("mm")])])
    last = document["traceEvents"][-1]
    for k, name in enumerate(names):
        args = {"device": 0, "stream": 7}
        document["traceEvents"].append({**last, "name": name, "ts": last["ts"] + 10 * k - 100, "args": args})
    return load_core(document)


def test_work_of_a_stream_without_launches_is_one_point() -> None:
    found = aligned(without_launch("gemm", "softmax", "gemm"), without_launch("gemm", "gemm"))
    (point,) = (point for point in found.points if len(point.leaves[0]) == 3)
    assert len(point.leaves[1]) == 2
    assert point.change_ns == -1000


def test_work_without_a_launch_is_never_paired_with_launched_work() -> None:
    found = aligned(without_launch(), without_launch("mm"))
    assert [int((of < 0).sum()) for of in found.leaves] == [0, 1]


def test_gaps_at_the_begin_of_every_thread_are_points_of_their_own() -> None:
    calls = {(1, k): [module(f"Net{k}_0", call_of("mm"), call_of("relu"))] for k in (1, 2)}
    more = {(1, k): [call_of("cumsum"), *calls[1, k]] for k in (1, 2)}
    found = aligned(calls, more)
    extra = [point for point in found.points if not point.leaves[0]]
    assert [len(point.leaves[1]) for point in extra] == [1, 1]


def test_launches_outside_of_ops_are_places_by_kernel() -> None:
    cores = [load_core(trace([(FORWARD, [launch("first", us), launch("second", 3.0)])])) for us in (2.0, 9.0)]
    found = diff(*cores)
    assert [(place.names, place.change_ns) for place in found.places] == [
        ((OUTSIDE_OF_OPS, OUTSIDE_OF_OPS), 7000),
        ((OUTSIDE_OF_OPS, OUTSIDE_OF_OPS), 0),
    ]
    assert found.places[0].kernels[0].keys() == {"first"}
