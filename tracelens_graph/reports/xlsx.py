"""Tables as an Excel workbook: one sheet each, and a sheet that says what the columns mean.

A workbook is opened by programs that obey what they read, so texts are written as texts and nothing else: no formula,
no link, no character that XML does not have.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.errors import MissingExtraError
from tracelens_graph.output.files import GENERATOR, temporary_files, temporary_folder
from tracelens_graph.reports.document import json_text
from tracelens_graph.tables.table import Column, Table
from tracelens_graph.utils.texts import printable

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.worksheet import Worksheet

MAX_ROWS = 1_048_576
"""Rows that a sheet has, the header among them."""

MAX_CELL = 32_767
"""UTF-16 units that a cell holds."""

_MAX_NAME = 31
_NOT_IN_NAMES = re.compile(r"[^\w .-]", re.ASCII)
_EXACT = 2**53
"""Whole numbers beyond this are not exact as numbers of Excel."""

_CREATED = datetime(1980, 1, 1)
"""When every workbook says that it was made, so that equal tables are equal files."""

_WIDTHS = range(8, 61)
_ROWS_MEASURED = 200

_ABOUT = {
    "sheet": Column("a sheet of this workbook"),
    "column": Column("one of its columns; (title) and (note) are about the whole sheet"),
    "unit": Column("unit of the numbers"),
    "meaning": Column("what the column holds"),
}


def workbook(tables: Mapping[str, Table]) -> bytes:
    """Tables as the sheets of a workbook, and a sheet `about` with their titles, notes and definitions.

    Numbers stay numbers; lists are JSON text; NaN, None and empty texts are empty cells. Control and invisible
    characters become visible escapes. What does not fit into Excel is left out, and the cell or `about` says so.

    Raises:
        MissingExtraError: XlsxWriter is not installed.
        OutputError: there is no space for temporary files.
    """
    try:
        import xlsxwriter
    except ImportError:
        raise MissingExtraError("XlsxWriter", "xlsx") from None
    made = list(tables.items())  # all of them before the first is written: making one may fail
    options = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    packed = BytesIO()  # a zip file that meets a full disk complains once more when it is thrown away
    with temporary_files(), temporary_folder() as folder:  # a file per sheet
        _write_book(xlsxwriter.Workbook(packed, {**options, "tmpdir": folder}), made)
    return packed.getvalue()


def _write_book(book: Workbook, made: Sequence[tuple[str, Table]]) -> None:
    from xlsxwriter.exceptions import FileCreateError

    book.set_properties({"author": GENERATOR, "created": _CREATED})
    taken: set[str] = set()
    about: dict[str, list[str]] = {name: [] for name in _ABOUT}
    for name, table in made:
        sheet = _sheet_name(name, taken)
        _write_sheet(book, sheet, table)
        for line in _lines_about(sheet, table):
            for column, text in zip(about.values(), line, strict=True):
                column.append(text)
    _write_sheet(book, _sheet_name("about", taken), Table("about", about, _ABOUT))
    try:
        book.close()
    except FileCreateError as error:
        raise OSError(*getattr(error.args[0], "args", error.args)) from None


def _sheet_name(name: str, taken: set[str]) -> str:
    """A name that Excel takes: plain characters, not too long, not there yet in any case."""
    wanted = _NOT_IN_NAMES.sub("_", name)[:_MAX_NAME] or "table"
    found, number = wanted, 1
    while found.lower() in taken or found.lower() == "history":
        number += 1
        found = f"{wanted[: _MAX_NAME - len(str(number)) - 1]}_{number}"
    taken.add(found.lower())
    return found


def _write_sheet(book: Workbook, name: str, table: Table) -> None:
    sheet = book.add_worksheet(name)
    columns = [_plain(values)[: MAX_ROWS - 1] for values in table.columns.values()]
    three_digits = book.add_format({"num_format": "#,##0.000"})
    for at, (title, values) in enumerate(zip(table.columns, columns, strict=True)):
        fractions = any(isinstance(value, float) for value in values[:_ROWS_MEASURED])
        sheet.set_column(at, at, _width(title, values), three_digits if fractions else None)
    bold = book.add_format({"bold": True})
    for at, title in enumerate(table.columns):
        sheet.write_string(0, at, _text(title), bold)
    sheet.freeze_panes(1, 0)
    if columns:
        sheet.autofilter(0, 0, min(len(table), MAX_ROWS - 1), len(columns) - 1)
    for row, cells in enumerate(zip(*columns, strict=True), 1):
        for at, value in enumerate(cells):
            _write_cell(sheet, row, at, value)


def _plain(values: np.ndarray | Sequence[Any]) -> Sequence[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else values


def _write_cell(sheet: Worksheet, row: int, column: int, value: Any) -> None:
    if value is None or value == "" or value != value:
        return
    if isinstance(value, str):
        sheet.write_string(row, column, _text(value))
    elif isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif (isinstance(value, float) and math.isfinite(value)) or (isinstance(value, int) and abs(value) <= _EXACT):
        sheet.write_number(row, column, value)
    else:
        text = json_text(value) if isinstance(value, list | tuple | dict) else str(value)
        sheet.write_string(row, column, _text(text))


def _text(text: str) -> str:
    """Text as a cell can hold it."""
    # The library takes a text in these tags for markup of its own and does not escape it.
    shown = printable(text[: MAX_CELL + 1] if not text.startswith("<r>") else f" {text[:MAX_CELL]}")
    # A character takes two units at most, so half as many always fit.
    if len(text) > MAX_CELL or (len(shown) > MAX_CELL // 2 and len(shown.encode("utf-16-le")) // 2 > MAX_CELL):
        mark = f"... [cut: {len(text):,} characters]"
        room = 2 * (MAX_CELL - len(mark))
        shown = shown.encode("utf-16-le")[:room].decode("utf-16-le", "ignore") + mark
    return shown


def _width(title: str, values: Sequence[Any]) -> int:
    longest = max((len(f"{v:,.3f}" if isinstance(v, float) else str(v)) for v in values[:_ROWS_MEASURED]), default=0)
    return min(max(longest + 1, len(title) + 3, _WIDTHS[0]), _WIDTHS[-1])


def _lines_about(sheet: str, table: Table) -> Iterator[tuple[str, str, str, str]]:
    if table.title:
        yield sheet, "(title)", "", table.title
    for note in table.notes:
        yield sheet, "(note)", "", note
    if len(table) >= MAX_ROWS:
        yield sheet, "(note)", "", f"a sheet cannot hold the last {len(table) - MAX_ROWS + 1:,} rows"
    for name in table.columns:
        column = table.about.get(name, Column(""))
        yield sheet, name, column.unit, column.definition
