"""The roofline of a page: roofs of the device, and a point for each operation by its arguments."""

from __future__ import annotations

from typing import Any

from tracelens_graph.analyses.performance.roofline_points import MOST_POINTS, Point, RooflinePoints
from tracelens_graph.perf.devices import Architecture
from tracelens_graph.reports.html.names import clean
from tracelens_graph.reports.html.tables import Texts
from tracelens_graph.tables.table import Table

_OF_CATEGORY = {
    "gemm": "gemm", "conv": "conv", "sdpa": "attention", "attention": "attention", "norm": "norm", "softmax": "norm",
    "elementwise": "elementwise", "reduce": "reduce", "embedding": "copy", "copy": "copy", "moe": "gemm",
}  # fmt: skip
"""What a category's name may hold -> class."""
_TEXTS = ("name", "category", "shapes", "types")


def roofline(
    ops: Table | None, arch: Architecture | None, texts: Texts, most: int = MOST_POINTS
) -> dict[str, Any] | None:
    """Roofs and points; None where the device or its operations are not known.

    Args:
        ops: `unified_perf_summary`, made for the device.
        arch: the device.
        texts: takes the names.
        most: points, those with most time.
    """
    if ops is None or arch is None or "Pct Roofline_mean" not in ops.columns:
        return None
    found = RooflinePoints.of(ops, arch, most)
    return {
        "device": clean(found.device), "bandwidth": found.bandwidth, "roofs": [vars(roof) for roof in found.roofs],
        "points": [_object(point, texts) for point in found.points], "more": found.more, "unplaced": found.unplaced,
    }  # fmt: skip


def _object(point: Point, texts: Texts) -> dict[str, Any]:
    """A point as JSON, with texts as places in the texts of the page."""
    numbers = {key: texts.number(getattr(point, key)) for key in _TEXTS}
    return {**vars(point), **numbers, "class": _class_of(point.category)}


def _class_of(category: str) -> str:
    low = category.lower()
    return next((of for part, of in _OF_CATEGORY.items() if part in low), "other")
