"""The ranks of a job as a web page that needs nothing else: drawings, and the tables of the screen."""

from __future__ import annotations

from collections.abc import Sequence

from tracelens_graph.analyses.ranks.bandwidth_points import BandwidthPoints
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.step_lanes import StepLanes
from tracelens_graph.analyses.ranks.wait_map import WHOLE, WaitMap
from tracelens_graph.reports.page import canvas, escaped, page, paragraphs, table_section
from tracelens_graph.reports.ranks_figures import bandwidths_figure, height_of, step_figure, waits_figure
from tracelens_graph.reports.ranks_text import first_rows, head, headline, late_line

_TABLES = ("rank_times", "collective_kinds", "rank_balance")
_ROWS = 30
_HEAT_ROW, _LANE = 22, 34
_BANDWIDTHS = 480
"""Pixels."""


def ranks_html(job: Job, source: str, late: Sequence[str] = ()) -> str:
    """A page with who waits for whom, bandwidths of collectives, one step over all ranks, and tables.

    The heat map has a row per rank and a column per step; a cell is the time for which the rank waits for others and
    does not compute (`rank_steps`). The step that is drawn is the one of median duration.

    Args:
        job: the ranks.
        source: what the traces are called together.
        late: lines on who came late, and why; by default what the figures alone tell.

    Raises:
        MissingExtraError: plotly is not installed.
    """
    title = f"Ranks of {source}"
    blocks = [
        f"<h1>{escaped(title)}</h1>",
        f"<p>{escaped(head(job))}</p>",
        f"<p><b>{escaped(headline(job))}</b></p>",
        paragraphs(late or [late_line(job)]),
    ]
    figures = {}
    if len(job.meetings):
        waits, points = WaitMap.of(job), BandwidthPoints.of(job)
        figures["waits"] = waits_figure(waits)
        blocks += [
            "<h2>Who waits, and who holds the others up</h2>",
            canvas("waits", height_of(len(waits.labels), _HEAT_ROW)),
            paragraphs(waits.notes),
            "<h2>Bus bandwidth by size of the message</h2>",
        ]
        if points.kinds:
            figures["bandwidths"] = bandwidths_figure(points)
            blocks.append(canvas("bandwidths", _BANDWIDTHS))
        blocks.append(paragraphs(points.notes))
    if any(len(rank.gpu.busy[0]) for rank in job.meetings.attendances):
        lanes = StepLanes.of(job.figures)
        figures["step"] = step_figure(lanes, job.figures)
        blocks += [
            f"<h2>{escaped(step_title(lanes))}</h2>",
            canvas("step", height_of(len(lanes.lanes), _LANE)),
            paragraphs(lanes.notes),
        ]
    blocks += [table_section(first_rows(job.table(name), _ROWS)) for name in _TABLES]
    blocks.append(paragraphs(job.meetings.notes))
    return page(title, blocks, figures)


def step_title(lanes: StepLanes) -> str:
    """What a drawing of lanes shows."""
    what = "The whole recording" if lanes.step is None else f"Step {lanes.step}"
    return f"{what} on all ranks"


def waits_title(waits: WaitMap) -> str:
    """What a heat map shows."""
    return "Exposed waiting by rank" + ("" if waits.steps == [WHOLE] else " and step")
