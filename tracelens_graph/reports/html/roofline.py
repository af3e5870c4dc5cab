"""The roofline of a page: roofs of the device, and a point for each operation by its arguments."""

from __future__ import annotations

from typing import Any

from tracelens_graph.analyses.performance.reached import positive, reached
from tracelens_graph.perf.devices import Architecture
from tracelens_graph.reports.html.names import clean
from tracelens_graph.reports.html.tables import Texts
from tracelens_graph.reports.roofline_html import MOST_MARKS, device_roofs
from tracelens_graph.tables.table import Table

_OF_CATEGORY = {
    "gemm": "gemm", "conv": "conv", "sdpa": "attention", "attention": "attention", "norm": "norm", "softmax": "norm",
    "elementwise": "elementwise", "reduce": "reduce", "embedding": "copy", "copy": "copy", "moe": "gemm",
}  # fmt: skip
"""What a category's name may hold -> class."""


def roofline(
    ops: Table | None, arch: Architecture | None, texts: Texts, most: int = MOST_MARKS
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
    modelled = [row for row in ops.records() if row["has_perf_model"]]
    drawn = [row for row in modelled if positive(row["FLOPS/Byte"]) and reached(row).tflops_s]
    points = []
    for row in drawn[:most]:
        rates = reached(row)
        points.append({
            "name": texts.number(str(row["name"])), "category": texts.number(str(row["op category"])),
            "class": _class_of(str(row["op category"])),
            "args": texts.number(" ".join(str(dims) for dims in row["Input Dims"] or () if dims)),
            "x": row["FLOPS/Byte"], "y": rates.tflops_s, "us": row["Kernel Time (µs)_sum"],
            "percent": row["Percentage (%)"], "calls": row["operation_count"], "uid": row["ex_UID"],
            "roof": rates.percent_of_roof,
            "bound": str(row["Roofline Bound"] or "").removesuffix("_BOUND").lower(),
            "won_us": rates.won_us,
        })  # fmt: skip
    bandwidth = arch.value("memory_bandwidth_gbps")
    return {
        "device": clean(arch.name), "bandwidth": bandwidth,
        "roofs": [{"label": specs, "tflops": rate, "ridge": ridge} for specs, rate, ridge in device_roofs(drawn, arch)],
        "points": points, "more": max(len(drawn) - most, 0), "unplaced": len(modelled) - len(drawn),
    }  # fmt: skip


def _class_of(category: str) -> str:
    low = category.lower()
    return next((of for part, of in _OF_CATEGORY.items() if part in low), "other")
