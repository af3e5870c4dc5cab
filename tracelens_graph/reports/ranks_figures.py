"""Drawings of the ranks of a job in the words of plotly.js: waits by rank and step, bandwidths by size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.rank_pictures.bandwidth_points import BandwidthPoints
from tracelens_graph.analyses.rank_pictures.wait_map import WHOLE, WaitMap
from tracelens_graph.analyses.ranks.collective_tables import shown_bytes
from tracelens_graph.reports.page import COLORS, SYMBOLS, escaped

LATE = "#d55e00"
"""Colour of ranks that hold up the others."""
WAIT_SCALE = ((0.0, "#fff7e6"), (0.25, "#fbd58a"), (0.5, "#e69f00"), (0.75, "#a86400"), (1.0, "#4a2800"))
"""From no waiting to the most."""

_LONGEST_LABEL = 24
LONGEST_NAME = 60
GRID = "#eeeeee"


def labels_of(names: Sequence[str]) -> list[str]:
    """Names for an axis: short, and where that makes two of them equal, numbered."""
    short = [escaped(name, _LONGEST_LABEL) for name in names]
    if len(set(short)) == len(short):
        return short
    return [f"{place}: {label}" for place, label in enumerate(short)]


# --- waits -----------------------------------------------------------------------------------------------------------


def waits_figure(waits: WaitMap) -> dict[str, Any]:
    """A heat map of exposed waiting; beside it, how long each rank held up the others."""
    labels = labels_of(waits.labels)
    heat = {
        "type": "heatmap", "x": waits.steps, "y": labels, "z": _rounded(waits.wait_ms),
        "colorscale": [list(stop) for stop in WAIT_SCALE], "zmin": 0, "zmax": _scale_end(waits),
        "colorbar": {"title": {"text": "exposed waiting, ms"}},
    }  # fmt: skip
    marked = [(waits.steps[column], row) for column, row in enumerate(waits.late.tolist()) if row >= 0]
    marks = {
        "type": "scatter", "mode": "markers", "name": "held the others up most", "x": [step for step, _ in marked],
        "y": [labels[row] for _, row in marked],
        "marker": {"symbol": "diamond", "size": 9, "color": LATE, "line": {"color": "white", "width": 1}},
    }  # fmt: skip
    bars = {
        "type": "bar", "orientation": "h", "x": _rounded(waits.all_held_up_ms), "y": labels, "xaxis": "x2",
        "marker": {"color": LATE},
    }  # fmt: skip
    return {
        "data": [heat, marks, bars],
        "layout": {
            "xaxis": {"range": [-0.5, len(waits.steps) - 0.5],
                      "title": {"text": "" if waits.steps == [WHOLE] else "step"}},
            "yaxis": {"range": [len(labels) - 0.5, -0.5]},
            "xaxis2": {"title": {"text": "held the others up, ms"}},
            "showlegend": bool(marked),
        },
    }  # fmt: skip


def _scale_end(waits: WaitMap) -> float:
    return float(np.nanmax(waits.wait_ms, initial=0.0)) or 1.0


def _rounded(values: np.ndarray) -> list[Any]:
    """Numbers for JSON, to a tenth of a microsecond where they are milliseconds; NaN is None."""
    told = np.round(values, 4).astype(object)
    told[np.isnan(values)] = None
    return list(told.tolist())


# --- bandwidths ------------------------------------------------------------------------------------------------------


def bandwidths_figure(points: BandwidthPoints) -> dict[str, Any]:
    """Bus bandwidth against message size, one mark per collective, and the rate of the links."""
    data: list[dict[str, Any]] = []
    for place, (kind, rows) in enumerate(points.kinds.items()):
        again, color = divmod(place, len(COLORS))
        data.append({
            "type": "scatter", "mode": "markers", "name": f"{escaped(kind, LONGEST_NAME)} ({len(rows):,})",
            "x": [row["message_bytes"] for row in rows], "y": [float(f"{row['busbw_gb_s']:.6g}") for row in rows],
            "marker": {"color": COLORS[color], "symbol": SYMBOLS[again % len(SYMBOLS)], "size": 8, "opacity": 0.6,
                       "line": {"color": "white", "width": 1}},
        })  # fmt: skip
    for peak in points.peaks:
        data.append({
            "type": "scatter", "mode": "lines", "name": escaped(peak_label(peak, points.device)), "y": [peak, peak],
            "x": list(ends_of(points)), "line": {"color": "#222222", "width": 2, "dash": "dash"},
        })  # fmt: skip
    axis = {"type": "log", "gridcolor": GRID}
    marks = size_marks(*ends_of(points))
    return {
        "data": data,
        "layout": {
            "xaxis": {**axis, "title": {"text": "size of the message"}, "tickvals": marks,
                      "ticktext": [shown_bytes(mark) for mark in marks],
                      "range": [float(np.log10(end)) for end in ends_of(points)]},
            "yaxis": {**axis, "title": {"text": "bus bandwidth, GB/s"}},
            "showlegend": True,
        },
    }  # fmt: skip


def peak_label(peak: float, device: str | None) -> str:
    """What is said of the line of a peak."""
    return f"links{'' if device is None else f' of {device}'}: {peak:,.0f} GB/s"


def ends_of(points: BandwidthPoints) -> tuple[float, float]:
    """Ends of the axis of sizes."""
    sizes = [float(row["message_bytes"]) for rows in points.kinds.values() for row in rows]
    return (min(sizes) / 2, max(sizes) * 2) if sizes else (1.0, 1e9)


def size_marks(least: float, most: float) -> list[float]:
    """Powers of ten for the axis of sizes."""
    return [10.0**power for power in range(int(np.ceil(np.log10(least))), int(np.floor(np.log10(most))) + 1)]
