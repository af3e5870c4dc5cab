"""A drawing of one step on all ranks of a job, as plotly.js takes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.rank_pictures.step_lanes import StepLanes
from tracelens_graph.analyses.rank_pictures.wait_map import rank_labels
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.rank_tables import shown_bytes
from tracelens_graph.graph.intervals import Intervals
from tracelens_graph.reports.page import CONFIG, escaped
from tracelens_graph.reports.ranks_figures import GRID, LATE, LEGEND, LONGEST_NAME, MARGIN, labels_of

_COMPUTING, _MOVING, _WAITING, _LINE, _BAND = "#0072b2", "#009e73", "#e69f00", "#8a8a8a", "#f4f4f4"
_UPPER, _LOWER, _BAR = -0.21, 0.21, 0.38
"""In a lane: middle of the computing, middle of the collectives, and the height of both."""

_Bars = list[tuple[float, int, int, str]]
"""Height of the middle, start, end, and what is said of it."""


def step_figure(lanes: StepLanes, figures: Figures) -> dict[str, Any]:
    """One lane per rank: above computing, below waiting and communication; lines join the starts of a collective.

    Times are in ms from the begin of the stretch.
    """
    drawing = _Drawing(lanes, figures)
    count, span = len(drawing.labels), _ms(lanes.end_ns - lanes.begin_ns)
    return {
        "data": [*drawing.bars(), *drawing.joins(), *drawing.begins(), *drawing.late()],
        "layout": {
            "barmode": "overlay",
            "xaxis": {"title": {"text": "ms"}, "range": [-0.005 * span, 1.005 * span], "gridcolor": GRID,
                      "zeroline": False},
            "yaxis": {"range": [count - 0.5, -0.5], "tickmode": "array", "tickvals": list(range(count)),
                      "ticktext": drawing.labels, "automargin": True, "showgrid": False, "zeroline": False},
            "shapes": [
                {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": lane - 0.5, "y1": lane + 0.5,
                 "layer": "below", "line": {"width": 0}, "fillcolor": _BAND}
                for lane in range(1, count, 2)
            ],
            "legend": LEGEND,
            "showlegend": True,
            "hovermode": "closest",
            "hoverlabel": {"align": "left"},
            "plot_bgcolor": "white",
            "margin": MARGIN,
        },
        "config": CONFIG,
    }  # fmt: skip


class _Drawing:
    """What is drawn of a stretch, part by part."""

    def __init__(self, lanes: StepLanes, figures: Figures) -> None:
        self._lanes, self._figures, self._meetings = lanes, figures, figures.meetings
        ranks = [lane.rank for lane in lanes.lanes]
        names = rank_labels(self._meetings.attendances)
        self.labels = labels_of([names[rank] for rank in ranks])
        self._lane_of = {rank: place for place, rank in enumerate(ranks)}

    def bars(self) -> Iterator[dict[str, Any]]:
        """Computing, waiting and communication."""
        lanes = self._lanes.lanes
        computing = self._merged([one.computing for one in lanes], _UPPER)
        waiting = self._merged([one.waiting for one in lanes], _LOWER, "waits in shorter collectives")
        moving = self._merged([one.moving for one in lanes], _LOWER, "communicates in shorter collectives")
        m = self._meetings
        for part in self._lanes.parts.tolist():
            lane = self._lane_of[int(m.trace[part])]
            start, end, wait = int(m.start_ns[part]), int(m.end_ns[part]), int(m.wait_ns[part])
            hover = self._told(part, self.labels[lane])
            if wait:
                waiting.append((lane + _LOWER, start, start + wait, hover))
            moving.append((lane + _LOWER, start + wait, end, hover))
        # There are many of these, so that one text serves all.
        yield {
            **self._bars("computing", _COMPUTING, computing), "hoverinfo": "none", "hovertext": None,
            "hovertemplate": "computes: %{x:,.3f} ms<extra></extra>",
        }  # fmt: skip
        yield self._bars("waiting for other ranks", _WAITING, waiting)
        yield self._bars("communication", _MOVING, moving)

    def joins(self) -> Iterator[dict[str, Any]]:
        """A line for each collective through its starts, from the first lane to the last."""
        m, begin = self._meetings, self._lanes.begin_ns
        points: dict[int, list[tuple[int, float]]] = {meeting: [] for meeting in self._lanes.joined}
        for part in self._lanes.parts.tolist():
            if (meeting := int(m.meeting[part])) in points:
                points[meeting].append((self._lane_of[int(m.trace[part])], _ms(max(int(m.start_ns[part]) - begin, 0))))
        x: list[float | None] = []
        y: list[float | None] = []
        for line in points.values():
            x += [*(start for _, start in sorted(line)), None]
            y += [*(lane + _LOWER for lane, _ in sorted(line)), None]
        if x:
            yield {
                "type": "scatter", "mode": "lines", "name": "start of one collective on the ranks", "x": x, "y": y,
                "hoverinfo": "skip", "line": {"color": _LINE, "width": 1},
            }  # fmt: skip

    def begins(self) -> Iterator[dict[str, Any]]:
        """Where steps begin on the ranks."""
        begins = [
            (_ms(at - self._lanes.begin_ns), place)
            for place, lane in enumerate(self._lanes.lanes)
            for at in lane.begins_ns
        ]
        if begins:
            yield _marks("a step begins", begins, {
                "symbol": "line-ns-open", "size": 14, "color": "#222222", "line": {"width": 2}})  # fmt: skip

    def late(self) -> Iterator[dict[str, Any]]:
        """Who came late to a collective, and by how much."""
        m, begin = self._meetings, self._lanes.begin_ns
        marks: list[tuple[float, float]] = []
        hovers = []
        for meeting, by_ns in self._lanes.late_ns.items():
            part = int(m.last_part[meeting])
            lane = self._lane_of.get(int(m.trace[part]))
            if lane is not None and begin <= m.start_ns[part] <= self._lanes.end_ns:
                marks.append((_ms(int(m.start_ns[part]) - begin), lane + _LOWER))
                hovers.append(f"{self.labels[lane]} comes last, {_ms(by_ns):,.3f} ms after the median of the others")
        if marks:
            drawn = _marks("comes last", marks, {
                "symbol": "diamond", "size": 9, "color": LATE, "line": {"color": "white", "width": 1}})  # fmt: skip
            yield {**drawn, "hoverinfo": "text", "hovertext": hovers}

    def _bars(self, name: str, color: str, bars: _Bars) -> dict[str, Any]:
        begin, end = self._lanes.begin_ns, self._lanes.end_ns
        clipped = [(middle, max(start, begin), min(stop, end), hover) for middle, start, stop, hover in bars]
        shown = [one for one in clipped if one[2] > one[1]]
        return {
            "type": "bar", "orientation": "h", "name": name, "width": _BAR,
            "marker": {"color": color, "line": {"width": 0}}, "y": [round(middle, 2) for middle, *_ in shown],
            "base": [_ms(start - begin) for _, start, _, _ in shown],
            "x": [_ms(stop - start) for _, start, stop, _ in shown],
            "hoverinfo": "text", "hovertext": [hover for *_, hover in shown], "textposition": "none",
        }  # fmt: skip

    def _merged(self, of_lanes: Sequence[Intervals], middle: float, does: str = "") -> _Bars:
        return [
            (place + middle, start, end, f"{self.labels[place]} {does}: {_ms(end - start):,.3f} ms")
            for place, (starts, ends) in enumerate(of_lanes)
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]

    def _told(self, part: int, label: str) -> str:
        """What is said of a rank's part of a collective, in the few tags that plotly.js knows."""
        m = self._meetings
        one, meeting, wait = m.parts.collective(part), int(m.meeting[part]), int(m.wait_ns[part])
        size = self._figures.size[meeting] if meeting >= 0 else np.nan
        took = f"{_ms(int(m.end_ns[part] - m.start_ns[part]) - wait):,.3f} ms"
        lines = [
            f"<b>{escaped(one.kind, LONGEST_NAME)}</b>{'' if one.sequence is None else f' #{one.sequence:,}'}"
            f"{'' if np.isnan(size) else f', {shown_bytes(size)}'}",
            escaped(one.group_description or one.group or "", LONGEST_NAME),
            f"{label} waits {_ms(wait):,.3f} ms, then takes {took}"
            if meeting >= 0
            else f"{label} takes {took}; not matched with other ranks",
        ]
        return "<br>".join(filter(None, lines))


def _marks(name: str, places: Sequence[tuple[float, float]], marker: dict[str, Any]) -> dict[str, Any]:
    x, y = ([place[axis] for place in places] for axis in (0, 1))
    return {"type": "scatter", "mode": "markers", "name": name, "x": x, "y": y, "marker": marker, "hoverinfo": "skip"}


def _ms(ns: int) -> float:
    return ns / 1e6
