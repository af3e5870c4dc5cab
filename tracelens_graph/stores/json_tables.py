"""A report as JSON, read back as tables, so that a run can be compared with one whose trace is gone.

The file is untrusted: what is not as `report --json` writes it is an error that says where.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tracelens_graph.errors import TraceError
from tracelens_graph.registry import about_columns
from tracelens_graph.tables.table import Table

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


class JsonTables(Mapping[str, Table]):
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
            raise TraceError(f"{path}: no report on a trace, as report --json writes it")
        self.window = str(found.get("window") or "")
        self._objects: dict[str, Any] = tables
        self._tables: dict[str, Table] = {}

    def __getitem__(self, name: str) -> Table:
        if name not in self._tables:
            self._tables[name] = self._table(name, self._objects[name])
        return self._tables[name]

    def __contains__(self, name: object) -> bool:
        return name in self._objects

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def _table(self, name: str, given: Any) -> Table:
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
