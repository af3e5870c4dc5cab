"""A folder of report tables as CSV, ours or TraceLens's, read back as tables.

Lists are JSON in our files and Python text in TraceLens's, where numbers may stand as `np.float64(1.5)`. Both are
untrusted: text is parsed, never run.
"""

from __future__ import annotations

import ast
import csv
import json
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracelens_graph.errors import TraceError
from tracelens_graph.registry import about_columns
from tracelens_graph.tables.table import Table

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?|inf|nan)", re.ASCII)
_WHOLE = re.compile(r"[-+]?\d{1,18}", re.ASCII)
_SCALAR = re.compile(r"u?int\d+|float\d+|bool_?|str_")
_TRUTH = {"true": True, "false": False, "": None}
_WORDS = {"nan": float("nan"), "inf": float("inf"), "null": None}


class CsvTables(Mapping[str, Table]):
    """The tables of a folder by name (file name without `.csv`), each read when it is asked for.

    Raises:
        TraceError: the folder holds no CSV file.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._files = {file.stem: file for file in sorted(self.folder.glob("*.csv"))}
        self._tables: dict[str, Table] = {}
        if not self._files:
            raise TraceError(f"{folder}: a folder without CSV files")

    def __getitem__(self, name: str) -> Table:
        if name not in self._tables:
            self._tables[name] = read_table(self._files[name])
        return self._tables[name]

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


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
