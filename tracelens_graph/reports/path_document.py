"""A critical path, and what changes would gain, as JSON for programs and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracelens_graph.analyses.critical_path.critical_path import CriticalPath
from tracelens_graph.analyses.critical_path.what_if import WhatIf
from tracelens_graph.output.markers import COMMENT
from tracelens_graph.reports.markdown import escape, table_markdown
from tracelens_graph.reports.path_text import extent, headline, screen_tables, sentence
from tracelens_graph.reports.ranks_document import document
from tracelens_graph.reports.views import told
from tracelens_graph.tables.table import Table


def path_json(path: CriticalPath, tables: Mapping[str, Table]) -> str:
    """A path as one JSON object: how long it is, what it consists of, and tables of it."""
    said = {"step": path.step, "headline": headline(path), "extent": extent(path), "notes": path.notes}
    return document(path.causes.traces, said, tables)


def path_markdown(path: CriticalPath, rows: int | None) -> str:
    """A path as a page: how long it is, and the tables of the screen.

    Args:
        path: the path.
        rows: rows of each table; 0 for all, None for as many as a screen has.
    """
    tables = map(table_markdown, screen_tables(path, rows))
    return _page([f"## {escape(headline(path))}", escape(extent(path)), *tables, *map(escape, path.notes)])


def what_if_json(found: Sequence[WhatIf], table: Table) -> str:
    """What changes would gain as one JSON object."""
    path = found[0].path
    said = {
        "step": path.step, "headline": [sentence(one) for one in found], "extent": extent(path), "notes": table.notes,
    }  # fmt: skip
    return document(path.causes.traces, said, {table.name: table})


def what_if_markdown(found: Sequence[WhatIf], table: Table) -> str:
    """What changes would gain as a page."""
    lines = [f"**{escape(sentence(one))}**" for one in found]
    return _page(["## What if", *lines, escape(extent(found[0].path)), table_markdown(told(table))])


def _page(blocks: Sequence[str]) -> str:
    return COMMENT + "\n\n".join(block.rstrip() for block in blocks) + "\n"
