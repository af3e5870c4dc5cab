"""A table in short: its first rows, and as many of its columns as there is room for."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from tracelens_graph.tables.column import Column, heading_of, headings
from tracelens_graph.tables.terminal import Layout, aligned, column_cells
from tracelens_graph.utils.texts import cut_end, printable, shorten, wrapped

ROWS = 10
"""Rows that are shown."""

_PIPED = 100
"""Characters of a line where there is no terminal."""

_HTML_COLUMNS, _HTML_CELL = 12, 80
"""Columns, and characters of a cell, that a notebook shows."""

_NAMED = 5
"""Columns without room that are named."""

Cells = Mapping[str, Sequence[Any]]


def short_text(title: str, columns: Mapping[str, Any], about: Mapping[str, Column]) -> str:
    """The first rows as lines that fit the terminal, and what is left out.

    Args:
        title: a line above.
        columns: the columns of the table.
        about: what they say of themselves.
    """
    width = shutil.get_terminal_size((_PIPED, 0)).columns
    cells = _first_rows(columns, about)
    chosen = [(name, about.get(name), values) for name, values in cells.items()]
    layout = aligned(chosen, width) if any(len(values) for _, _, values in chosen) else Layout([], [])
    hidden = [*layout.left_out, *(name for name in columns if name not in cells)]
    above = [cut_end(printable(title), width)] if title else []
    below = _left_out(columns, hidden)
    return "\n".join([*above, *layout.lines, *(wrapped(below, width) if below else ())])


def short_html(title: str, columns: Mapping[str, Any], about: Mapping[str, Column]) -> str:
    """The first rows as an HTML table. All text is escaped: names are whatever the trace says."""
    cells = _first_rows(columns, about)
    kept = list(cells)
    while len(kept) > _HTML_COLUMNS:
        kept.remove(_least_needed(kept, about))
    made = [_html_column(name, cells[name], about.get(name)) for name in kept]
    head = "".join(heading for heading, _ in made)
    rows = ["".join(row) for row in zip(*(shown for _, shown in made), strict=True)]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    left_out = _left_out(columns, [name for name in dict.fromkeys((*cells, *columns)) if name not in kept])
    return f"<table><caption>{_safe(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" + (
        f"<p>{_safe(left_out)}</p>" if left_out else ""
    )


def _first_rows(columns: Mapping[str, Any], about: Mapping[str, Column]) -> Cells:
    """The first cells of the columns that people are shown, as plain Python values."""
    told = [name for name in headings(about) if name in columns] or list(columns)
    return {
        name: cells.tolist() if isinstance(cells := columns[name][:ROWS], np.ndarray) else list(cells) for name in told
    }


def _least_needed(kept: Sequence[str], about: Mapping[str, Column]) -> str:
    """The column to leave out next: of those that give way most readily the last, but never the first of all."""
    return max(reversed(kept[1:]), key=lambda name: about[name].order_of_leaving if name in about else 0)


def _left_out(columns: Mapping[str, Any], hidden: Sequence[str]) -> str:
    """How many rows are not shown, and which columns."""
    rows = len(next(iter(columns.values()), ()))
    if not rows:
        return "no rows"
    more = [f"{rows - ROWS:,} more {'row' if rows == ROWS + 1 else 'rows'}"] if rows > ROWS else []
    if hidden:
        names = ", ".join([*map(printable, hidden[:_NAMED]), *(["..."] if len(hidden) > _NAMED else [])])
        more.append(f"{len(hidden)} more {'column' if len(hidden) == 1 else 'columns'}: {names}")
    return "; ".join(more)


def _html_column(name: str, cells: Sequence[Any], about: Column | None) -> tuple[str, list[str]]:
    """Heading and cells of a column; notebooks have ideas of their own on which side they stand."""
    texts, right = column_cells(cells, about, is_id=about is not None and about.is_id)
    side = f'style="text-align: {"right" if right else "left"}"'
    unit = f" ({about.unit})" if about and about.unit else ""
    meaning = f' title="{_safe(about.definition + unit)}"' if about and about.definition else ""
    heading = f"<th {side}{meaning}>{_safe(heading_of(name, about))}</th>"
    return heading, [f"<td {side}>{_safe(shorten(text, _HTML_CELL))}</td>" for text in texts]


def _safe(text: str) -> str:
    return escape(printable(text))
