"""What a roofline shows: where points and roofs stand, and what is not drawn."""

from __future__ import annotations

import pytest
from roofs import TOY, calls_of

from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.analyses.performance.roofline_points import RooflinePoints
from tracelens_graph.perf.devices import Architecture
from tracelens_graph.reports.html.report import roofline
from tracelens_graph.reports.html.tables import Texts
from tracelens_graph.tables.table import Table


def ops_of(*names: str, arch: Architecture = TOY) -> Table:
    return unified_perf_summary(calls_of(names), arch=arch)


def test_points_stand_where_they_should() -> None:
    found = RooflinePoints.of(ops_of("product", "half product", "half product", "sum", "no rate"), TOY)
    points = {one.name: one for one in found.points}
    assert {name: (one.x, one.y) for name, one in points.items()} == {
        "product": pytest.approx((100, 4)),
        "half product": pytest.approx((10, 4)),
        "sum": pytest.approx((0.25, 0.01)),
        "no rate": pytest.approx((0.25, 0.01)),
    }
    half = points["half product"]
    assert (half.shapes, half.types) == ("[8, 16]", "BFloat16, matrix_fp16")
    assert (half.calls, half.us, half.percent) == (2, pytest.approx(2000), pytest.approx(40))
    assert (half.roof, half.bound, half.won_us) == (pytest.approx(40), "compute", pytest.approx(1200))
    assert (points["no rate"].roof, points["no rate"].won_us) == (None, None)
    assert (points["sum"].bound, points["sum"].won_us) == ("memory", pytest.approx(1000 - 40))


def test_roofs_are_those_of_the_precisions_that_occur() -> None:
    found = RooflinePoints.of(ops_of("product", "half product", "sum"), TOY)
    assert (found.device, found.bandwidth) == ("Toy <b>", 1000.0)
    # Equal rates share a roof.
    assert [(one.label, one.tflops, one.ridge) for one in found.roofs] == [
        ("matrix_bf16, matrix_fp16", 10.0, 10.0), ("vector_fp32", 8.0, 8.0),
    ]  # fmt: skip
    assert [one.label for one in RooflinePoints.of(ops_of("sum"), TOY).roofs] == ["vector_fp32"]
    bare = Architecture("bare", "Bare", "", {})
    found = RooflinePoints.of(ops_of("sum", "copy", arch=bare), bare)
    assert (found.roofs, len(found.points)) == ([], 1)


def test_what_is_not_drawn_is_counted() -> None:
    found = RooflinePoints.of(ops_of("sum", "product", "copy", "bytes unknown", "unheard of"), TOY, most=1)
    assert (len(found.points), found.more, found.unplaced) == (1, 1, 2)
    assert found.notes == [
        "1 more operations are not drawn",
        "2 operations with a model compute nothing, or their bytes or time are not known",
    ]
    assert RooflinePoints.of(ops_of("unheard of"), TOY).notes == ["no operation with a model computes anything"]


def test_a_page_has_texts_by_number() -> None:
    texts = Texts()
    found = roofline(ops_of("product", "sum"), TOY, texts)
    assert found is not None
    product = next(one for one in found["points"] if texts.listed[one["name"]] == "product")
    assert {key: texts.listed[product[key]] for key in ("category", "shapes", "types")} == {
        "category": "other", "shapes": "[8, 16]", "types": "BFloat16, matrix_bf16"
    }  # fmt: skip
    assert (product["class"], product["uid"], product["roof"]) == ("other", 0, pytest.approx(40))
    assert found["roofs"][0] == {"label": "matrix_bf16", "tflops": 10.0, "ridge": 10.0}


def test_without_a_device_there_is_none() -> None:
    assert roofline(ops_of("product"), None, Texts()) is None
    assert roofline(None, TOY, Texts()) is None
