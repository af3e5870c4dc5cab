"""Tables as GitHub-flavoured Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tracelens_graph.output.files import COMMENT
from tracelens_graph.tables.terminal import LONGEST_CELL
from tracelens_graph.utils.texts import printable, shorten

if TYPE_CHECKING:
    from tracelens_graph.tables.table import Table

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$&]|:(?=//)|(?<=www)\.|^[-+=])", re.IGNORECASE)
_NUMBERED = re.compile(r"^(\d{1,9})(?=[.)](?: |$))")
_REFERENCE = re.compile(r"@(?=[\w-])|\\?#(?=\d)|\bGH-(?=\d)", re.IGNORECASE)
_COMMIT = re.compile(r"\b(?=\d*[a-f])(?=[a-f]*\d)[\da-f]{7,40}\b", re.IGNORECASE)
_SHORT = 6
"""Digits of a commit that GitHub does not take for one."""
_NO_WIDTH = "&#8203;"
"""A blank of no width, as an entity: what stands on both sides of it is no name of a user, an issue or a commit."""


def table_markdown(table: Table, longest: int = LONGEST_CELL, signed: Collection[str] = ()) -> str:
    """A table as Markdown: title, pipe table, notes; characters with a meaning in Markdown are escaped.

    Args:
        longest: characters of a cell; the rest is cut.
        signed: columns of changes, whose numbers have a sign.
    """
    lines = [f"**{escape(table.title)}**", ""] if table.title else []
    rows = list(table.rows())
    right = [all(_is_number(row[i]) for row in rows) for i in range(len(table.columns))]
    signs = ["+" if name in signed else "" for name in table.columns]
    cells = ((_cell(value, longest, sign) for value, sign in zip(row, signs, strict=True)) for row in rows)
    lines.append(pipe_table(map(escape, table.columns), cells, right))
    for note in table.notes:
        lines += ["", escape(note)]
    return "\n".join(lines) + "\n"


def page(blocks: Iterable[str]) -> str:
    """Blocks of Markdown as a file, which says what made it."""
    return COMMENT + "\n\n".join(block.rstrip() for block in blocks) + "\n"


def pipe_table(headings: Iterable[str], rows: Iterable[Iterable[str]], right: Sequence[bool]) -> str:
    """A table of cells that are Markdown already.

    Args:
        headings: of its columns.
        rows: its cells.
        right: for each column whether it is set to the right, as numbers are.
    """
    lines = [headings, ("---:" if to_right else "---" for to_right in right), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def escape(text: str) -> str:
    """Text that Markdown takes for nothing but text, on one line.

    GitHub looks for users (`@name`), issues (`#1`, `GH-1`) and commits in what Markdown has made, so that no backslash
    keeps them from being links; what would be one has a blank of no width in it.
    """
    return _apart(_NUMBERED.sub(r"\1\\", _SPECIAL.sub(r"\\\1", printable(text))))


def folded(title: str, inside: str) -> str:
    """Markdown that unfolds at a click on its title."""
    return f"<details>\n<summary>{_apart(html.escape(printable(title)))}</summary>\n\n{inside.strip()}\n\n</details>"


def code_cell(text: str) -> str:
    """A name for a cell of a table: as code, where what is read as a name of a user is none, if a cell can hold it."""
    shown = printable(text)
    return escape(shown) if not shown.strip() or re.search(r"[|`\\]", shown) else f"`{shown}`"


def _apart(text: str) -> str:
    parted = _REFERENCE.sub(lambda match: match[0] + _NO_WIDTH, text)
    return _COMMIT.sub(lambda match: _NO_WIDTH.join(re.findall(f".{{1,{_SHORT}}}", match[0])), parted)


def code(text: str) -> str:
    """Text as code, on one line."""
    shown = printable(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence}{shown}{fence}" if len(fence) == 1 else f"{fence} {shown} {fence}"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: Any, longest: int, sign: str) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:{sign}.3f}"
    return escape(shorten(str(value), longest))
