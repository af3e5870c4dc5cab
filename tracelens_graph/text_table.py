"""Columns as aligned text for people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tracelens_graph.column import Column, heading_of
from tracelens_graph.texts import printable, shorten

_NARROWEST = 32
"""Characters that a column of text keeps, however narrow the terminal."""

LONGEST_CELL = 4096
"""Characters of a cell that people are shown, whatever room there is."""

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def bold(text: str, color: bool) -> str:
    """Text in bold type where the terminal has it."""
    return f"{_BOLD}{text}{_PLAIN}" if color and text else text


def aligned(
    columns: Sequence[tuple[str, Column | None, Sequence[Any]]], width: int | None = None, color: bool = False
) -> list[str]:
    """Lines with a header and a row each; numbers are rounded for reading and stand to the right.

    Args:
        columns: name, what the column says about itself, and plain Python values.
        width: longest line; columns of text are cut to fit. None cuts nothing but what no line can be meant to hold.
        color: whether to use terminal escapes.
    """
    cells = [column_cells(values, about) for _, about, values in columns]
    names = [_cell(heading_of(name, about), 0, is_id=True) for name, about, _ in columns]
    widths = [max(len(name), *map(len, column)) for name, (column, _) in zip(names, cells, strict=True)]
    to_right = [right for _, right in cells]
    _fit(widths, to_right, width)
    rows = [names, ["-" * size for size in widths], *zip(*(column for column, _ in cells), strict=True)]
    header, *lines = [_line(row, widths, to_right) for row in rows]
    return [bold(header, color), *lines]


def column_cells(values: Sequence[Any], about: Column | None) -> tuple[list[str], bool]:
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
    text = list_text(value) if isinstance(value, list) else str(value)
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


def list_text(cell: list[Any]) -> str:
    """A list in few characters: shapes as `[8,16] [16,4]`, shares as `aten::mm 30 %`, names with commas."""
    if cell and all(isinstance(part, dict) and {"name", "percent"} <= part.keys() for part in cell):
        return ", ".join(f"{part['name']} {part['percent']:.0f} %" for part in cell)
    if all(isinstance(part, list) for part in cell):
        return " ".join(str(part).replace(" ", "") for part in cell if part)
    return ", ".join(map(str, cell))
