"""Tables as GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tracelens_graph.reports.terminal import printable

if TYPE_CHECKING:
    from tracelens_graph.table import Table

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$&])")


def table_markdown(table: Table) -> str:
    """A table as Markdown: title, pipe table, notes; characters with a meaning in Markdown are escaped."""
    lines = [f"**{_escape(table.title)}**", ""] if table.title else []
    rows = list(table.rows())
    right = [all(_is_number(row[i]) for row in rows) for i in range(len(table.columns))]
    lines.append(_row(_escape(name) for name in table.columns))
    lines.append(_row("---:" if to_right else "---" for to_right in right))
    lines += [_row(_cell(value) for value in row) for row in rows]
    for note in table.notes:
        lines += ["", _escape(note)]
    return "\n".join(lines) + "\n"


def _row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else _escape(str(value))


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", printable(text))
