"""Tables as CSV: verbatim, so that a file read back holds what the table held.

Names of a trace are not changed: a spreadsheet may take one that begins with `=` for a formula.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from tracelens_graph.reports.json import json_text

if TYPE_CHECKING:
    from tracelens_graph.tables.table import Table


def write_csv(table: Table, file: TextIO) -> None:
    """Write a table: lists as JSON text, floats with all their digits, NaN and None as nothing.

    Args:
        table: what to write.
        file: a text file, opened with `newline=""`.
    """
    writer = csv.writer(_UnixLines(file), lineterminator="\r\n")
    writer.writerow(table.columns)
    writer.writerows(zip(*map(_cells, table.columns.values()), strict=True))


class _UnixLines:
    """Ends rows with a line feed alone.

    The writer itself must believe in both characters, else before Python 3.13 it leaves a carriage return in a cell
    without quotes.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, row: str) -> int:
        return self._file.write(row[:-2] + "\n")


def _cells(values: Any) -> Iterable[Any]:
    dtype = getattr(values, "dtype", None)
    if dtype is None or dtype.kind == "O":
        return map(_cell, values)
    if dtype.kind == "f" and (values != values).any():
        return map(_cell, values.tolist())
    return values.tolist()


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple | dict):
        return json_text(value)
    return None if value != value else value
