"""The ranks of a job as a web page that needs nothing else: drawings, and the tables of the screen."""

from __future__ import annotations

from collections.abc import Iterator

from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.reports.page import canvas, escaped, page, paragraphs, table_section
from tracelens_graph.reports.ranks_drawings import drawings
from tracelens_graph.reports.ranks_text import first_rows, head, headline, late_lines

_TABLES = ("rank_times", "collective_kinds", "rank_balance")
_ROWS = 30


def ranks_html(job: Job, source: str) -> str:
    """A page with who waits for whom, bandwidths of collectives, one step over all ranks, and tables.

    Figures are those of the tables `rank_steps`, without steps `rank_balance`, and of `rank_collectives`.

    Args:
        job: the ranks.
        source: what the traces are called together.

    Raises:
        MissingExtraError: plotly is not installed.
    """
    title = f"Ranks of {source}"
    shown = drawings(job)

    def blocks() -> Iterator[str]:
        yield f"<h1>{escaped(title)}</h1>"
        yield f"<p>{escaped(head(job))}</p>"
        yield f"<p><b>{escaped(headline(job))}</b></p>"
        yield paragraphs(late_lines(job))
        for one in shown:
            yield f"<h2>{escaped(one.title)}</h2>"
            if one.figure:
                margin = one.figure["layout"]["margin"]
                yield paragraphs([one.reading])
                yield canvas(one.name, one.height + margin["t"] + margin["b"])
            yield paragraphs(one.notes)
        for name in _TABLES:
            yield table_section(first_rows(job.table(name), _ROWS))
        yield paragraphs(job.meetings.notes)

    return page(title, blocks(), {one.name: one.figure for one in shown if one.figure})
