"""The ranks of a job as JSON for programs and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracelens_graph._version import __version__
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.graph.trace_set import Ranked
from tracelens_graph.output.markers import COMMENT
from tracelens_graph.reports.document import SCHEMA_VERSION, objects
from tracelens_graph.reports.json import laid_out, sound
from tracelens_graph.reports.markdown import escape, table_markdown
from tracelens_graph.reports.ranks_text import first_rows, head, headline, late_lines
from tracelens_graph.tables.table import Table

_ON_PAGE = {"rank_times": "Of a step", "collective_kinds": "Collectives", "rank_balance": "Ranks"}


def ranks_json(job: Job) -> str:
    """The ranks as one JSON object: what is to be said of them, and all tables.

    Strict JSON: NaN and infinity are null. Every row of a table has a line of its own.
    """
    said = {"headline": headline(job), "late": late_lines(job), "notes": job.meetings.notes}
    return document(job.meetings.attendances, said, job.tables())


def document(ranks: Sequence[Ranked], said: Mapping[str, Any], tables: Mapping[str, Table]) -> str:
    """What is to be said of some ranks, and tables, as one JSON object."""
    about = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "tracelens_graph", "version": __version__},
        "ranks": [{"name": one.name, "rank": one.rank} for one in ranks],
        **said,
    }
    return laid_out({**sound(about), "tables": objects(tables)}, 4) + "\n"


def ranks_markdown(job: Job, rows: int = 20) -> str:
    """The ranks as a page: the headline, who is late, and the tables of the screen.

    Args:
        job: the ranks.
        rows: rows of each table; 0 for all.
    """
    blocks = [f"## {escape(head(job))}", f"**{escape(headline(job))}**", *map(escape, late_lines(job))]
    blocks += [
        f"### {title}\n\n{table_markdown(first_rows(job.table(name), rows))}" for name, title in _ON_PAGE.items()
    ]
    blocks += [escape(note) for note in job.meetings.notes]
    return COMMENT + "\n\n".join(block.rstrip() for block in blocks) + "\n"
