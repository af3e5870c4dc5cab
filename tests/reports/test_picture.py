"""The picture of the roofline: marks, roofs and labels, and that names from a trace stay texts."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from extended import HOSTILE, TOY, calls_of

from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.analyses.performance.roofline_points import RooflinePoints
from tracelens_graph.perf.devices import Architecture
from tracelens_graph.reports.picture import roofline_picture, saved

pytest.importorskip("matplotlib")


def picture(*names: str, arch: Architecture = TOY, title: str = "t") -> Any:
    return roofline_picture(RooflinePoints.of(unified_perf_summary(calls_of(names), arch=arch), arch), title)


def test_marks_and_roofs() -> None:
    (axes,) = picture("product", "sum", "sum", "sum").axes
    memory, *levels = ([*zip(*line.get_data(), strict=True)] for line in axes.lines)
    for x, y in memory:
        assert y == pytest.approx(x * 1.0)  # 1 TB/s
    assert memory[1] == pytest.approx((10, 10))
    assert [level[0] for level in levels] == [(10.0, 10.0), (8.0, 8.0)]  # they begin on the slope of the memory
    sums, products = axes.collections
    assert [marks.get_label() for marks in axes.collections] == [" Reduction (75.0 %)", " Other (25.0 %)"]
    places = np.concatenate([marks.get_offsets() for marks in axes.collections])
    areas = dict(zip(places[:, 1].tolist(), [*sums.get_sizes(), *products.get_sizes()], strict=True))
    product, total = (area for _, area in sorted(areas.items(), reverse=True))
    assert total == pytest.approx(3 * product)
    for axis in "xy":
        low, high = getattr(axes, f"get_{axis}lim")()
        drawn = [*places.T["xy".index(axis)], *(p["xy".index(axis)] for p in levels[0])]
        assert all(low <= value * (1 + 1e-9) and value <= high * (1 + 1e-9) for value in drawn)
    texts = axes.texts
    assert [text.get_text() for text in texts] == [
        "memory 1.00 TB/s",
        "matrix_bf16\n10.0 TFLOP/s, ridge 10.0",
        "vector_fp32\n8.0 TFLOP/s, ridge 8.0",
    ]
    assert texts[1].xyann[1] == 0
    assert texts[2].xyann[1] < 0  # they are too near for two labels


@pytest.mark.parametrize("names", [(), ("unheard of",), ("copy",)])
def test_without_marks(names: tuple[str, ...]) -> None:
    (axes,) = picture(*names).axes
    assert not axes.collections
    assert "no operation with a model computes anything" in axes.get_xlabel()


def test_a_device_without_figures_has_no_roofs() -> None:
    (axes,) = picture("sum", "copy", arch=Architecture("bare", "Bare", "", {})).axes
    assert (len(axes.lines), len(axes.collections)) == (0, 1)


@pytest.mark.parametrize("form", ["png", "svg"])
def test_names_stay_texts_in_a_picture(form: str) -> None:
    title = "<script>$\\alpha$</script>.json"
    content, again = (saved(picture(*HOSTILE, "product", title=title), form, "roofline") for _ in range(2))
    assert b"tracelens_graph " in content[:4096]
    assert content == again
    if form == "svg":
        root = ElementTree.fromstring(content)
        assert not [element for element in root.iter() if element.tag.rpartition("}")[2] in ("script", "a", "image")]
        assert "<script>$\\alpha$</script>.json" in "".join(root.itertext())
