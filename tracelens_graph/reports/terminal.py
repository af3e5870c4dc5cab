"""Tables as text for people, and names from a trace made safe to print."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from tracelens_graph.column import Column
    from tracelens_graph.table import Table

_NARROWEST = 32
"""Characters that a column of text keeps, however narrow the terminal."""

LONGEST_CELL = 4096
"""Characters of a cell that people are shown, whatever room there is."""

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def printable(text: str) -> str:
    """Text without anything a terminal would obey: control and invisible characters become visible escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shorten(text: str, width: int) -> str:
    """The first `width` characters, and `...` if there are more."""
    return text if len(text) <= width else text[:width] + "..."


def terminal_width(stream: TextIO) -> int | None:
    """Characters per line of the terminal behind a stream, or as COLUMNS says; None where lines have no limit."""
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size().columns
    return None


def wants_color(stream: TextIO) -> bool:
    """Whether a stream is a terminal whose user has not asked for plain text (NO_COLOR, TERM=dumb)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def bold(text: str, color: bool) -> str:
    """Text in bold type where the terminal has it."""
    return f"{_BOLD}{text}{_PLAIN}" if color and text else text


def table_text(table: Table, width: int | None = None, color: bool = False) -> str:
    """A table as aligned text: title, header, rows, notes.

    Args:
        table: the table; numbers are rounded for reading.
        width: longest line; columns of text are cut to fit. None cuts nothing but what no line can be meant to hold.
        color: whether to use terminal escapes.
    """
    plain = zip(table.columns, _plain(table), strict=True)
    cells = [_column_cells(values, table.about.get(name)) for name, values in plain]
    names = [_cell(_heading(table, name), 0, is_id=True) for name in table.columns]
    lines = [bold(printable(table.title), color)] if table.title else []
    if len(table):
        widths = [max(len(name), *map(len, column)) for name, (column, _) in zip(names, cells, strict=True)]
        _fit(widths, [right for _, right in cells], width)
        rows = [names, ["-" * size for size in widths], *zip(*(column for column, _ in cells), strict=True)]
        aligned = [_line(row, widths, [right for _, right in cells]) for row in rows]
        lines += [bold(aligned[0], color), *aligned[1:]]
    elif not table.notes:
        lines.append("(nothing)")
    lines += [printable(note) for note in table.notes]
    return "\n".join(lines) + "\n"


def _heading(table: Table, name: str) -> str:
    about = table.about.get(name)
    return about.heading if about and about.heading else name


def _plain(table: Table) -> list[Sequence[Any]]:
    return [v if isinstance(v, list | tuple) else v.tolist() for v in table.columns.values()]  # type: ignore[union-attr]


def _column_cells(values: Sequence[Any], about: Column | None) -> tuple[list[str], bool]:
    """The cells of a column as text, and whether they are numbers, which stand to the right."""
    right = all(isinstance(v, int | float | None) and not isinstance(v, bool) for v in values)
    digits = 2 if about and about.unit == "%" else 3
    is_id = about is not None and about.is_id
    return [_cell(value, digits, is_id) for value in values], right


def _cell(value: Any, digits: int, is_id: bool) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:,.{digits}f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if is_id else f"{value:,}"
    text = str(value)
    return shorten(printable(text[: LONGEST_CELL + 1]), LONGEST_CELL)


def _fit(widths: list[int], right: Sequence[bool], width: int | None) -> None:
    """Narrow the widest columns of text until a line fits, or until none can give."""
    if width is None:
        return
    spare = width - sum(widths) - 2 * (len(widths) - 1)
    while spare < 0:
        texts = [i for i, is_number in enumerate(right) if not is_number and widths[i] > _NARROWEST]
        if not texts:
            return
        widest = max(texts, key=lambda i: widths[i])
        widths[widest] -= 1
        spare += 1


def _line(row: Iterable[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = (
        cell.rjust(size) if to_right else _cut(cell, size).ljust(size)
        for cell, size, to_right in zip(row, widths, right, strict=True)
    )
    return "  ".join(cells).rstrip()


def _cut(cell: str, size: int) -> str:
    return cell if len(cell) <= size else shorten(cell, size - 3)
