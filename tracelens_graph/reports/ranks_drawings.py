"""Which drawings there are of the ranks of a job, in the order in which they stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tracelens_graph.analyses.rank_pictures.bandwidth_points import BandwidthPoints
from tracelens_graph.analyses.rank_pictures.step_lanes import StepLanes
from tracelens_graph.analyses.rank_pictures.wait_map import WHOLE, WaitMap
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.reports.ranks_figures import bandwidths_figure, waits_figure
from tracelens_graph.reports.ranks_step_figure import step_figure

_HEAT_ROW, _HEAT_LEAST, _HEAT_MOST = 24, 150, 900
_LANE, _LANES_LEAST, _LANES_MOST = 34, 110, 1000
_BANDWIDTHS = 300
"""Pixels of the area within the axes."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """A drawing.

    Attributes:
        name: short.
        title: what it shows.
        figure: in the words of plotly.js; None where there is nothing to draw, and only notes.
        height: pixels of the area within the axes.
        notes: what it does not show.
    """

    name: str
    title: str
    figure: dict[str, Any] | None
    height: int
    notes: list[str]


def drawings(job: Job) -> list[Drawing]:
    """The drawings of a job: waits and bandwidths where ranks share collectives, one step where anything took time."""
    shared = [*_waits(job), *_bandwidths(job)] if len(job.meetings) else []
    lanes = StepLanes.of(job)
    return [*shared, *(_step(job, lanes) if lanes.end_ns > lanes.begin_ns else ())]


def _waits(job: Job) -> Iterator[Drawing]:
    waits = WaitMap.of(job)
    by = "by rank" if waits.steps == [WHOLE] else "by rank and step"
    height = min(max(_HEAT_ROW * len(waits.ranks), _HEAT_LEAST), _HEAT_MOST)
    yield Drawing(
        "waits",
        f"Waiting {by}, and who holds the others up",
        waits_figure(waits),
        height,
        waits.notes,
    )


def _bandwidths(job: Job) -> Iterator[Drawing]:
    points = BandwidthPoints.of(job)
    yield Drawing(
        "bandwidths",
        "Bus bandwidth by size of the message",
        bandwidths_figure(points) if points.kinds else None,
        _BANDWIDTHS,
        points.notes,
    )


def _step(job: Job, lanes: StepLanes) -> Iterator[Drawing]:
    steps = {len(rank.steps) for rank in job.meetings.attendances}
    what = "The whole recording" if lanes.step is None else f"Step {lanes.step}"
    why = " (the one of median duration)" if lanes.step is not None and steps != {1} else ""
    yield Drawing(
        "step",
        f"{what}{why} on all ranks",
        step_figure(lanes, job.meetings),
        min(max(_LANE * len(lanes.lanes), _LANES_LEAST), _LANES_MOST),
        lanes.notes,
    )
