"""Tables as CSV, one or a folder of them: verbatim, so that a file read back holds what the table held.

Spreadsheets break cells of more than 32,767 characters, so longer ones are cut and say so. Names
of a trace are not changed: a spreadsheet may take one that begins with `=` for a formula.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Mapping
from io import TextIOWrapper
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any, TextIO

from tracelens_graph.errors import OutputError
from tracelens_graph.output.folder import writing_folder
from tracelens_graph.registry import HOMES, REPORT
from tracelens_graph.reports.document import json_text
from tracelens_graph.tables.table import Table

MOST, _MARK = 32_000, 60
"""Characters of a cell, and of the mark of one that was cut."""
_FILE_NAME = re.compile(r"\w[\w.-]*", re.ASCII)
_OF_FAMILY = re.compile(rb"\A[^\n]*\bUID_first\b")
"""The header of a table for a family of ops, whose names are those of families."""


def write_csv(table: Table, file: TextIO) -> None:
    """Write a table: lists as JSON text, floats with all their digits, NaN and None as nothing, long cells cut.

    Args:
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
        text = json_text(value)
        if len(text) > MOST and not isinstance(value, dict):
            return json_text(_first(value))
    elif isinstance(value, str):
        text = value
    else:
        return None if value != value else value
    return text if len(text) <= MOST else f"{text[: MOST - _MARK]}... [cut: {len(text):,} characters]"


def _first(values: list[Any] | tuple[Any, ...]) -> list[Any]:
    """The first parts of a list, as many as a cell holds, and how many more there are."""
    lengths = accumulate(len(json_text([one])) for one in values)
    count = sum(1 for _ in takewhile(lambda length: length <= MOST - _MARK, lengths))
    return [*values[:count], f"... [cut: {len(values) - count:,} more of {len(values):,}]"]


def write_folder(
    tables: Mapping[str, Table], folder: str | os.PathLike[str], others: Mapping[str, bytes] | None = None
) -> list[Path]:
    """Write each table to `NAME.csv` in a folder, which is made if it is not there.

    All of them are written, or none; files of their names are replaced in a folder of tables, others left alone. Of an
    earlier report all tables are replaced: those that the new one lacks do not stay beside it. Text is UTF-8; half a
    surrogate pair, which UTF-8 does not have, becomes a visible escape.

    Args:
        tables: name of a file without `.csv` -> its table.
        others: name of a file that is not a table -> what it holds.

    Returns:
        The files.

    Raises:
        OutputError: the folder is something else, or a file cannot be written or must not be replaced.
    """
    files = {name: _file_name(folder, name) for name in tables}
    others = others or {}
    names = [*files.values(), *others]
    there = [one for one in Path(folder).iterdir() if not one.name.startswith(".")] if Path(folder).is_dir() else []
    is_ours = all(one.name in names or _is_table(one) for one in there)

    with writing_folder(folder, names, is_known=lambda _: is_ours) as output:
        for name, table in tables.items():
            with output.file(files[name]) as file:
                text = TextIOWrapper(file, "utf-8", errors="backslashreplace", newline="", write_through=True)
                write_csv(table, text)
                text.detach()
        for name, content in others.items():
            with output.file(name) as file:
                file.write(content)
    if is_ours and not REPORT.keys().isdisjoint(tables):
        for one in there:
            if one.name not in names and (one.stem in REPORT or one.stem not in HOMES):
                one.unlink(missing_ok=True)
    return output.paths


def _file_name(folder: str | os.PathLike[str], name: str) -> str:
    if not _FILE_NAME.fullmatch(name):
        raise OutputError(f"{folder}: {name!r} cannot be the name of a table's file")
    return f"{name}.csv"


def _is_table(path: Path) -> bool:
    """Whether a file has the name of one of our tables, or is one for a family of ops."""
    if path.suffix != ".csv" or path.is_dir() or path.stem in HOMES:
        return path.suffix == ".csv" and not path.is_dir()
    with path.open("rb") as file:
        return bool(_OF_FAMILY.match(file.read(4096)))
