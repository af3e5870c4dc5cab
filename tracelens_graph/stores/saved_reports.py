"""Reports read back as tables, so that a run can be compared with one whose trace is gone: JSON, and folders of CSV.

Files are untrusted: what is not as `report` writes it is an error that says where, and text is parsed, never run. Lists
are JSON in our CSV and Python text in TraceLens's, where numbers may stand as `np.float64(1.5)`.
"""

from __future__ import annotations

import ast
import csv
import json
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tracelens_graph.errors import TraceError
from tracelens_graph.registry import about_columns
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.lazy import Lazy

_HEAD = re.compile(rb'\A\s*\{\s*"schema_version"\s*:')
_HEAD_SIZE = 256
_LARGEST = 2**63


def is_report(path: str | Path) -> bool:
    """Whether a file begins as a report in JSON does; never true of a pipe, which could be read but once."""
    path = Path(path)
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return bool(_HEAD.match(file.read(_HEAD_SIZE)))
    except OSError:
        return False


class JsonTables(Lazy[Table]):
    """The tables of a report by name, each made when it is asked for.

    Attributes:
        window: what the report was restricted to, in words; empty for the whole trace.

    Raises:
        TraceError: the file cannot be read, or is no report on a trace.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path
        try:
            found = msgspec.json.decode(Path(path).read_bytes())
        except OSError as error:
            raise TraceError(f"{path}: {(error.strerror or str(error)).lower()}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TraceError(f"{path}: no report in JSON: {error}") from None
        tables = found.get("tables") if isinstance(found, dict) else None
        if not isinstance(tables, dict) or not isinstance(found.get("trace"), dict):
            what = " (a comparison that diff wrote)" if isinstance(tables, dict) and "diff_places" in tables else ""
            raise TraceError(f"{path}: no report on a trace{what}, as report -o FILE.json writes it")
        if found.get("cut_short"):
            raise TraceError(f"{path}: holds the first rows of tables only; report -o FILE.json writes all of them")
        self.window = str(found.get("window") or "")
        super().__init__({name: (name, given) for name, given in tables.items()}, self._table)

    def _table(self, named: tuple[str, Any]) -> Table:
        name, given = named
        rows = given.get("rows") if isinstance(given, dict) else None
        if not isinstance(rows, list):
            raise TraceError(f"{self._path}: table {name} has no rows")
        defined = given.get("definitions")
        columns = list(rows[0] if rows and isinstance(rows[0], dict) else defined if isinstance(defined, dict) else ())
        for number, row in enumerate(rows, 1):
            if not isinstance(row, dict) or list(row) != columns:
                raise TraceError(f"{self._path}: table {name}: row {number} has other columns than the first")
        about = about_columns(name, columns)
        texts = {column for column, one in about.items() if one.is_text}
        cells = {
            column: [row[column] for row in rows] if column in texts else _cells([row[column] for row in rows])
            for column in columns
        }
        notes = given.get("notes")
        return Table(
            name,
            cells,
            about,
            str(given.get("title") or ""),
            [str(one) for one in notes] if isinstance(notes, list) else [],
        )


def _cells(values: Sequence[Any]) -> np.ndarray | list[Any]:
    """Numbers as an array, in which what is absent is NaN; all else as it is."""
    kinds = {type(value) for value in values}
    if kinds == {int} and all(-_LARGEST <= value < _LARGEST for value in values):
        return np.array(values, np.int64)
    if kinds <= {int, float, type(None)}:
        return np.array([np.nan if value is None else float(value) for value in values])
    return list(values)


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?|inf|nan)", re.ASCII)
_WHOLE = re.compile(r"[-+]?\d{1,18}", re.ASCII)
_SCALAR = re.compile(r"u?int\d+|float\d+|bool_?|str_")
_TRUTH = {"true": True, "false": False, "": None}
_WORDS = {"nan": float("nan"), "inf": float("inf"), "null": None}


def csv_tables(folder: str | Path) -> Lazy[Table]:
    """The tables of a folder by name (file name without `.csv`), each read when it is asked for.

    Raises:
        TraceError: the folder holds no CSV file.
    """
    files = {file.stem: file for file in sorted(Path(folder).glob("*.csv"))}
    if not files:
        raise TraceError(f"{folder}: a folder without CSV files")
    return Lazy(files, read_table)


def read_table(file: Path) -> Table:
    """One CSV file as a table: numbers as arrays, lists as lists, names as text, no value as None or NaN.

    Raises:
        TraceError: it is not CSV with one header line and rows of its width.
    """
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            header, *rows = list(csv.reader(lines)) or [[]]
    except (csv.Error, UnicodeDecodeError) as error:
        raise TraceError(f"{file}: no table in CSV: {error}") from None
    rows = [row for row in rows if row]
    if len(set(header)) != len(header):
        raise TraceError(f"{file}: two columns have one name")
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise TraceError(f"{file}: row {number} has {len(row)} cells, the header {len(header)}")
    texts = zip(*rows, strict=True) if rows else iter([()] * len(header))
    about = about_columns(file.stem, header)
    named = {name for name, column in about.items() if column.is_text}
    columns = {
        name: list(cells) if name in named else _column(cells) for name, cells in zip(header, texts, strict=True)
    }
    return Table(file.stem, columns, about)


def _column(cells: Sequence[str]) -> np.ndarray | list[Any]:
    if all(map(_WHOLE.fullmatch, cells)):
        return np.array(list(map(int, cells)), np.int64)
    if all(not cell or _NUMBER.fullmatch(cell) for cell in cells):
        return np.array([float(cell or "nan") for cell in cells])
    if all(cell.lower() in _TRUTH for cell in cells):
        return [_TRUTH[cell.lower()] for cell in cells]
    parsed = {cell: cell_value(cell) for cell in set(cells)}
    return [parsed[cell] for cell in cells]


def cell_value(text: str) -> Any:
    """What a cell holds: a list or dict if it is the text of one in JSON or Python, None if empty, else the text.

    Tuples become lists; `np.float64(1.5)` becomes 1.5.
    """
    if not text:
        return None
    if text[0] not in "[({":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in names
            return _literal(ast.parse(text, mode="eval").body)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _literal(node: ast.expr) -> Any:
    """The value of a tree of literals and numpy scalars.

    Raises:
        ValueError: the tree holds anything else.
    """
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_literal(part) for part in parts]
        case ast.Dict(keys=keys, values=values):
            return {_key(key): _literal(value) for key, value in zip(keys, values, strict=True)}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _negative(_literal(operand))
        case ast.Call(func=ast.Attribute(ast.Name("np" | "numpy"), scalar), args=[value], keywords=[]) if (
            _SCALAR.fullmatch(scalar)
        ):
            return _literal(value)
        case ast.Name(id=word) if word in _WORDS:
            return _WORDS[word]
    raise ValueError("not a literal")


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError("not a name")


def _negative(value: Any) -> Any:
    if isinstance(value, int | float):
        return -value
    raise ValueError("not a number")
