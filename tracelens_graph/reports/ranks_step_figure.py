"""A drawing of one step on all ranks of a job, in the words of plotly.js."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tracelens_graph.analyses.rank_pictures.step_lanes import StepLanes
from tracelens_graph.analyses.rank_pictures.wait_map import rank_labels
from tracelens_graph.analyses.ranks.meetings import Meetings
from tracelens_graph.graph.intervals import Intervals
from tracelens_graph.reports.ranks_figures import LATE, labels_of

_COMPUTING, _MOVING, _WAITING, _LINE, _BAND = "#0072b2", "#009e73", "#e69f00", "#8a8a8a", "#f4f4f4"
_UPPER, _LOWER, _BAR = -0.21, 0.21, 0.38
"""In a lane: middle of the computing, middle of the collectives, and the height of both."""

_Bars = list[tuple[float, int, int]]
"""Height of the middle, start, end."""


def step_figure(lanes: StepLanes, meetings: Meetings) -> dict[str, Any]:
    """One lane per rank: above computing, below waiting and communication; lines join the starts of a collective.

    Times are in ms from the begin of the stretch.
    """
    drawing = _Drawing(lanes, meetings)
    count, span = len(drawing.labels), _ms(lanes.end_ns - lanes.begin_ns)
    return {
        "data": [*drawing.bars(), *drawing.joins(), *drawing.begins(), *drawing.late()],
        "layout": {
            "xaxis": {"title": {"text": "ms"}, "range": [-0.005 * span, 1.005 * span]},
            "yaxis": {"range": [count - 0.5, -0.5], "tickvals": list(range(count)), "ticktext": drawing.labels},
            "shapes": [
                {"y0": lane - 0.5, "y1": lane + 0.5, "fillcolor": _BAND} for lane in range(1, count, 2)
            ],
            "showlegend": True,
        },
    }  # fmt: skip


class _Drawing:
    """What is drawn of a stretch, part by part."""

    def __init__(self, lanes: StepLanes, meetings: Meetings) -> None:
        self._lanes, self._meetings = lanes, meetings
        ranks = [lane.rank for lane in lanes.lanes]
        names = rank_labels(self._meetings.attendances)
        self.labels = labels_of([names[rank] for rank in ranks])
        self._lane_of = {rank: place for place, rank in enumerate(ranks)}

    def bars(self) -> Iterator[dict[str, Any]]:
        """Computing, waiting and communication."""
        lanes = self._lanes.lanes
        computing = self._merged([one.computing for one in lanes], _UPPER)
        waiting = self._merged([one.waiting for one in lanes], _LOWER)
        moving = self._merged([one.moving for one in lanes], _LOWER)
        m = self._meetings
        for part in self._lanes.parts.tolist():
            middle = self._lane_of[int(m.trace[part])] + _LOWER
            start, end, wait = int(m.start_ns[part]), int(m.end_ns[part]), int(m.wait_ns[part])
            if wait:
                waiting.append((middle, start, start + wait))
            moving.append((middle, start + wait, end))
        yield self._bars("computing", _COMPUTING, computing)
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
                "line": {"color": _LINE, "width": 1},
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
        """Who came late to a collective."""
        m, begin = self._meetings, self._lanes.begin_ns
        marks: list[tuple[float, float]] = []
        for meeting in self._lanes.late_ns:
            part = int(m.last_part[meeting])
            lane = self._lane_of.get(int(m.trace[part]))
            if lane is not None and begin <= m.start_ns[part] <= self._lanes.end_ns:
                marks.append((_ms(int(m.start_ns[part]) - begin), lane + _LOWER))
        if marks:
            yield _marks("comes last", marks, {
                "symbol": "diamond", "size": 9, "color": LATE, "line": {"color": "white", "width": 1}})  # fmt: skip

    def _bars(self, name: str, color: str, bars: _Bars) -> dict[str, Any]:
        begin, end = self._lanes.begin_ns, self._lanes.end_ns
        clipped = [(middle, max(start, begin), min(stop, end)) for middle, start, stop in bars]
        shown = [one for one in clipped if one[2] > one[1]]
        return {
            "type": "bar", "orientation": "h", "name": name, "width": _BAR, "marker": {"color": color},
            "y": [round(middle, 2) for middle, *_ in shown], "base": [_ms(start - begin) for _, start, _ in shown],
            "x": [_ms(stop - start) for _, start, stop in shown],
        }  # fmt: skip

    @staticmethod
    def _merged(of_lanes: Sequence[Intervals], middle: float) -> _Bars:
        return [
            (place + middle, start, end)
            for place, (starts, ends) in enumerate(of_lanes)
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]


def _marks(name: str, places: Sequence[tuple[float, float]], marker: dict[str, Any]) -> dict[str, Any]:
    x, y = ([place[axis] for place in places] for axis in (0, 1))
    return {"type": "scatter", "mode": "markers", "name": name, "x": x, "y": y, "marker": marker}


def _ms(ns: int) -> float:
    return ns / 1e6
