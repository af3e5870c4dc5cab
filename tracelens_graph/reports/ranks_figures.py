"""Drawings of the ranks of a job, as plotly.js takes them: waits by rank and step, bandwidths, one step on all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.bandwidth_points import BandwidthPoints
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.rank_tables import shown_bytes
from tracelens_graph.analyses.ranks.step_lanes import Lane, StepLanes
from tracelens_graph.analyses.ranks.wait_map import WHOLE, WaitMap, rank_labels
from tracelens_graph.graph.intervals import Intervals
from tracelens_graph.reports.page import COLORS, CONFIG, SYMBOLS, escaped

COMPUTING, MOVING, WAITING, LATE = "#0072b2", "#009e73", "#e69f00", "#d55e00"
LINE = "#8a8a8a"
WAIT_SCALE = ((0.0, "#fff7e6"), (0.25, "#fbd58a"), (0.5, "#e69f00"), (0.75, "#a86400"), (1.0, "#4a2800"))
"""From no waiting to the most."""

UPPER, LOWER, BAR = -0.21, 0.21, 0.38
"""In a lane: middle of the computing, middle of the collectives, and the height of both."""

_LONGEST_LABEL, _LONGEST_NAME = 24, 60
_GRID = "#eeeeee"
_LEGEND = {"orientation": "h", "yanchor": "bottom", "y": 1.01, "x": 0}
_MARGIN = {"t": 50, "b": 50, "l": 20, "r": 20}
_FROM_TOP, _LEAST_HEIGHT = 130, 300


def labels_of(names: Sequence[str]) -> list[str]:
    """Names for an axis: short, and where that makes two of them equal, numbered."""
    short = [escaped(name, _LONGEST_LABEL) for name in names]
    if len(set(short)) == len(short):
        return short
    return [f"{place}: {label}" for place, label in enumerate(short)]


def height_of(rows: int, pixels: int) -> int:
    """Height of a drawing with rows, each of so many pixels, up to about a screen."""
    return min(max(_FROM_TOP + rows * pixels, _LEAST_HEIGHT), _FROM_TOP + 1200)


# --- waits -----------------------------------------------------------------------------------------------------------


def waits_figure(waits: WaitMap) -> dict[str, Any]:
    """A heat map of exposed waiting; beside it, how long each rank held up the others."""
    labels = labels_of(waits.labels)
    in_step = "" if waits.steps == [WHOLE] else "step %{x}, "
    heat = {
        "type": "heatmap", "x": waits.steps, "y": labels, "z": _rounded(waits.wait_ms),
        "customdata": [
            [list(cell) for cell in zip(*row, strict=True)]
            for row in zip(_rounded(waits.step_ms), _rounded(waits.held_up_ms), strict=True)
        ],
        "colorscale": [list(stop) for stop in WAIT_SCALE], "zmin": 0, "zmax": _scale_end(waits),
        "hoverongaps": False, "xgap": _gap(waits.steps), "ygap": _gap(labels),
        "colorbar": {
            "title": {"text": "exposed waiting, ms", "side": "top"}, "orientation": "h", "thickness": 12, "len": 0.4,
            "x": 0, "xanchor": "left", "y": 1.0, "yanchor": "bottom",
        },
        "hovertemplate": f"%{{y}}, {in_step}%{{customdata[0]:,.3f}} ms<br>waits for other ranks: %{{z:,.3f}} ms"
        "<br>holds the others up: %{customdata[1]:,.3f} ms<extra></extra>",
    }  # fmt: skip
    marked = [(waits.steps[column], row, column) for column, row in enumerate(waits.late.tolist()) if row >= 0]
    marks = {
        "type": "scatter", "mode": "markers", "name": "held the others up most", "x": [step for step, *_ in marked],
        "y": [labels[row] for _, row, _ in marked], "marker": {
            "symbol": "diamond", "size": 9, "color": LATE, "line": {"color": "white", "width": 1}},
        "hoverinfo": "text", "hovertext": [
            f"{labels[row]} held the others up most: {waits.held_up_ms[row, column]:,.3f} ms"
            for _, row, column in marked
        ],
    }  # fmt: skip
    bars = {
        "type": "bar", "orientation": "h", "x": _rounded(waits.all_held_up_ms), "y": labels, "xaxis": "x2",
        "marker": {"color": LATE}, "showlegend": False,
        "hovertemplate": "%{y} holds the others up: %{x:,.3f} ms<extra></extra>",
    }  # fmt: skip
    return {
        "data": [heat, marks, bars],
        "layout": {
            "xaxis": {"type": "category", "domain": [0, 0.7], "automargin": True,
                      "title": {"text": "" if waits.steps == [WHOLE] else "step"}},
            "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
            "xaxis2": {"domain": [0.74, 1], "title": {"text": "held the others up, ms"}, "gridcolor": _GRID,
                       "rangemode": "tozero"},
            "legend": {**_LEGEND, "x": 0.74},
            "showlegend": bool(marked),
            "bargap": 0.25,
            "hoverlabel": {"align": "left"},
            "plot_bgcolor": "white",
            "margin": {**_MARGIN, "t": 80},
        },
        "config": CONFIG,
    }  # fmt: skip


def _scale_end(waits: WaitMap) -> float:
    return float(np.nanmax(waits.wait_ms, initial=0.0)) or 1.0


def _gap(names: Sequence[str]) -> int:
    """Pixels between cells, where these are large."""
    return 1 if len(names) <= 64 else 0


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
            "type": "scatter", "mode": "markers", "name": f"{escaped(kind, _LONGEST_NAME)} ({len(rows):,})",
            "x": [row["message_bytes"] for row in rows], "y": [float(f"{row['busbw_gb_s']:.6g}") for row in rows],
            "hoverinfo": "text", "hovertext": [_collective(row) for row in rows],
            "marker": {"color": COLORS[color], "symbol": SYMBOLS[again % len(SYMBOLS)], "size": 8, "opacity": 0.6,
                       "line": {"color": "white", "width": 1}},
        })  # fmt: skip
    for peak in points.peaks:
        data.append({
            "type": "scatter", "mode": "lines", "name": escaped(peak_label(peak, points.device)), "y": [peak, peak],
            "x": list(ends_of(points)), "line": {"color": "#222222", "width": 2, "dash": "dash"}, "hoverinfo": "name",
        })  # fmt: skip
    axis = {"type": "log", "gridcolor": _GRID, "zeroline": False, "showline": True, "linecolor": "#888888",
            "ticks": "outside", "minor": {"showgrid": False}}  # fmt: skip
    marks = size_marks(*ends_of(points))
    return {
        "data": data,
        "layout": {
            "xaxis": {**axis, "title": {"text": "size of the message"}, "tickmode": "array", "tickvals": marks,
                      "ticktext": [shown_bytes(mark) for mark in marks],
                      "range": [float(np.log10(end)) for end in ends_of(points)]},
            "yaxis": {**axis, "title": {"text": "bus bandwidth, GB/s"}, "dtick": 1, "exponentformat": "none"},
            "legend": _LEGEND,
            "showlegend": True,
            "hovermode": "closest",
            "hoverlabel": {"align": "left"},
            "plot_bgcolor": "white",
            "margin": {**_MARGIN, "l": 60},
        },
        "config": CONFIG,
    }  # fmt: skip


def peak_label(peak: float, device: str | None) -> str:
    """What is said of the line of a peak."""
    return f"links{'' if device is None else f' of {device}'}: {peak:,.0f} GB/s"


def ends_of(points: BandwidthPoints) -> tuple[float, float]:
    """Ends of the axis of sizes."""
    sizes = [row["message_bytes"] for rows in points.kinds.values() for row in rows]
    return (min(sizes) / 2, max(sizes) * 2) if sizes else (1.0, 1e9)


def size_marks(least: float, most: float) -> list[float]:
    """Powers of ten for the axis of sizes."""
    return [10.0**power for power in range(int(np.ceil(np.log10(least))), int(np.floor(np.log10(most))) + 1)]


def _collective(row: Mapping[str, Any]) -> str:
    share = f", {row['percent_of_peak']:.1f} % of the links" if row["percent_of_peak"] is not None else ""
    sequence = "" if row["sequence"] is None else f" #{row['sequence']:,}"
    lines = [
        f"<b>{escaped(row['kind'], _LONGEST_NAME)}</b>{sequence}, {row['ranks']:,} ranks",
        escaped(row["group"] or "", _LONGEST_NAME),
        f"{shown_bytes(row['message_bytes'])} in {row['latency_us']:,.1f} us",
        f"{row['busbw_gb_s']:,.3f} GB/s on the bus{share}",
        "" if row["step"] is None else f"step {row['step']}",
    ]
    return "<br>".join(filter(None, lines))


# --- one step --------------------------------------------------------------------------------------------------------


def step_figure(lanes: StepLanes, figures: Figures) -> dict[str, Any]:
    """One lane per rank: above computing, below waiting and communication; lines join the starts of a collective."""
    m = figures.meetings
    begin, span = lanes.begin_ns, max(lanes.end_ns - lanes.begin_ns, 1)
    all_labels = rank_labels(m.attendances)
    labels = labels_of([all_labels[lane.rank] for lane in lanes.lanes])
    bars = {
        "computing": (COMPUTING, UPPER, _merged(lanes, "computing", "computes", labels)),
        "waiting for other ranks": (WAITING, LOWER, _merged(lanes, "waiting", "waits in shorter collectives", labels)),
        "communication": (MOVING, LOWER, _merged(lanes, "moving", "communicates in shorter collectives", labels)),
    }
    lane_of = {lane.rank: place for place, lane in enumerate(lanes.lanes)}
    hovers = _part_hovers(lanes, figures, [labels[lane_of[rank]] for rank in m.trace[lanes.parts].tolist()])
    for part, hover in zip(lanes.parts.tolist(), hovers, strict=True):
        lane = lane_of[int(m.trace[part])]
        start, end, wait = int(m.start_ns[part]), int(m.end_ns[part]), int(m.wait_ns[part])
        if wait:
            bars["waiting for other ranks"][2].append((lane, start, start + wait, hover))
        bars["communication"][2].append((lane, start + wait, end, hover))
    data = [
        {
            "type": "bar", "orientation": "h", "name": name, "marker": {"color": color}, "width": BAR,
            "y": [lane + middle for lane, *_ in of], "base": [_ms(max(start, begin) - begin) for _, start, *_ in of],
            "x": [_ms(min(end, lanes.end_ns) - max(start, begin)) for _, start, end, _ in of],
            "hoverinfo": "text", "hovertext": [hover for *_, hover in of], "textposition": "none",
        }
        for name, (color, middle, of) in bars.items()
    ]  # fmt: skip
    return {
        "data": [*data, _joins(lanes, figures, lane_of), _begins(lanes), *_late(lanes, figures, lane_of, labels)],
        "layout": {
            "barmode": "overlay",
            "xaxis": {"title": {"text": "ms"}, "range": [-0.005 * _ms(span), 1.005 * _ms(span)], "gridcolor": _GRID,
                      "zeroline": False},
            "yaxis": {"range": [len(labels) - 0.5, -0.5], "tickmode": "array", "tickvals": list(range(len(labels))),
                      "ticktext": labels, "automargin": True, "showgrid": False, "zeroline": False},
            "legend": _LEGEND,
            "hovermode": "closest",
            "hoverlabel": {"align": "left"},
            "plot_bgcolor": "white",
            "margin": _MARGIN,
        },
        "config": CONFIG,
    }  # fmt: skip


_Bars = list[tuple[int, int, int, str]]
"""Lane, start, end, and what is said of it."""


def _merged(lanes: StepLanes, what: str, does: str, labels: Sequence[str]) -> _Bars:
    found: _Bars = []
    for place, lane in enumerate(lanes.lanes):
        starts, ends = intervals_of(lane, what)
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            found.append((place, start, end, f"{labels[place]} {does}: {_ms(end - start):,.3f} ms"))
    return found


def intervals_of(lane: Lane, what: str) -> Intervals:
    """`computing`, `waiting` or `moving` of a lane."""
    found: Intervals = getattr(lane, what)
    return found


def _part_hovers(lanes: StepLanes, figures: Figures, labels: Sequence[str]) -> list[str]:
    m = figures.meetings
    found = []
    for part, label in zip(lanes.parts.tolist(), labels, strict=True):
        one, meeting, wait = m.parts.collective(part), int(m.meeting[part]), int(m.wait_ns[part])
        size = figures.size[meeting] if meeting >= 0 else np.nan
        sequence = "" if one.sequence is None else f" #{one.sequence:,}"
        took = _ms(int(m.end_ns[part] - m.start_ns[part]) - wait)
        lines = [
            f"<b>{escaped(one.kind, _LONGEST_NAME)}</b>{sequence}{'' if np.isnan(size) else ', ' + shown_bytes(size)}",
            escaped(one.group_description or one.group or "", _LONGEST_NAME),
            f"{label} waits {_ms(wait):,.3f} ms, then takes {took:,.3f} ms"
            if meeting >= 0
            else f"{label} takes {took:,.3f} ms; not matched with other ranks",
        ]
        found.append("<br>".join(filter(None, lines)))
    return found


def _joins(lanes: StepLanes, figures: Figures, lane_of: Mapping[int, int]) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    for line in join_lines(lanes, figures, lane_of):
        x += [_ms(start) for start, _ in line] + [None]
        y += [lane for _, lane in line] + [None]
    return {
        "type": "scatter", "mode": "lines", "name": "one collective", "x": x, "y": y, "hoverinfo": "skip",
        "line": {"color": LINE, "width": 1},
    }  # fmt: skip


def join_lines(lanes: StepLanes, figures: Figures, lane_of: Mapping[int, int]) -> list[list[tuple[int, float]]]:
    """For each collective its starts on the ranks, from the first lane to the last: ns after the begin, height."""
    m = figures.meetings
    lines: dict[int, list[tuple[int, float]]] = {meeting: [] for meeting in lanes.joined}
    for part in lanes.parts.tolist():
        if (meeting := int(m.meeting[part])) in lines:
            start = max(int(m.start_ns[part]), lanes.begin_ns)
            lines[meeting].append((start - lanes.begin_ns, lane_of[int(m.trace[part])] + LOWER))
    return [sorted(line, key=lambda point: point[1]) for line in lines.values()]


def _begins(lanes: StepLanes) -> dict[str, Any]:
    begins = [
        (_ms(at - lanes.begin_ns), place) for place, lane in enumerate(lanes.lanes) for at in lane.begins_ns
    ]  # fmt: skip
    return {
        "type": "scatter", "mode": "markers", "name": "begin of the step", "x": [at for at, _ in begins],
        "y": [place for _, place in begins], "hoverinfo": "skip",
        "marker": {"symbol": "line-ns-open", "size": 14, "color": "#222222", "line": {"width": 2}},
        "showlegend": bool(begins),
    }  # fmt: skip


def _late(lanes: StepLanes, figures: Figures, lane_of: Mapping[int, int], labels: Sequence[str]) -> list[Any]:
    marks = late_marks(lanes, figures, lane_of)
    if not marks:
        return []
    return [{
        "type": "scatter", "mode": "markers", "name": "came last", "x": [_ms(at) for at, *_ in marks],
        "y": [place + LOWER for _, place, _ in marks], "hoverinfo": "text",
        "hovertext": [f"{labels[place]} came last, {_ms(by):,.3f} ms after the median" for _, place, by in marks],
        "marker": {"symbol": "diamond", "size": 9, "color": LATE, "line": {"color": "white", "width": 1}},
    }]  # fmt: skip


def late_marks(lanes: StepLanes, figures: Figures, lane_of: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """Who came late to a collective: ns after the begin, lane, and by how much it was later than the median, ns."""
    m = figures.meetings
    _, later = figures.held_up_ns()
    found = []
    for meeting in lanes.late:
        part = int(m.last_part[meeting])
        place = lane_of.get(int(m.trace[part]))
        if place is not None and m.start_ns[part] >= lanes.begin_ns:
            found.append((int(m.start_ns[part]) - lanes.begin_ns, place, int(later[meeting])))
    return found


def _ms(ns: int) -> float:
    return ns / 1e6
