"""Tables as GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tracelens_graph.text_table import LONGEST_CELL
from tracelens_graph.texts import printable, shorten

if TYPE_CHECKING:
    from tracelens_graph.table import Table

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$&]|:(?=//)|(?<=www)\.)", re.IGNORECASE)


def table_markdown(table: Table, longest: int = LONGEST_CELL) -> str:
    """A table as Markdown: title, pipe table, notes; characters with a meaning in Markdown are escaped.

    Args:
        table: the table.
        longest: characters of a cell; the rest is cut.
    """
    lines = [f"**{escape(table.title)}**", ""] if table.title else []
    rows = list(table.rows())
    right = [all(_is_number(row[i]) for row in rows) for i in range(len(table.columns))]
    lines.append(_row(escape(name) for name in table.columns))
    lines.append(_row("---:" if to_right else "---" for to_right in right))
    lines += [_row(_cell(value, longest) for value in row) for row in rows]
    for note in table.notes:
        lines += ["", escape(note)]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text that Markdown takes for nothing but text, on one line."""
    return _SPECIAL.sub(r"\\\1", printable(text))


def code(text: str) -> str:
    """Text as code, on one line."""
    shown = printable(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence}{shown}{fence}" if len(fence) == 1 else f"{fence} {shown} {fence}"


def _row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: Any, longest: int) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}"
    return escape(shorten(str(value), longest))
