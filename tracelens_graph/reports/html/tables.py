"""Tables as a page has them: columns side by side, each text once."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from tracelens_graph.reports.html.names import clean
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.table import Table
from tracelens_graph.tables.terminal import list_text

MOST_ROWS = 20_000
"""Rows of a table on a page; `--csv` and `--json` have all."""
_FURTHER = "--csv DIR writes them"
"""Where the rows are that a page leaves out."""

_IN_PATH = ("module", "class")
"""Columns that say what the path of a module beside them says."""


class Texts:
    """Texts of cells, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The place of a text in `listed`."""
        return self._numbers.setdefault(clean(text), len(self._numbers))

    @property
    def listed(self) -> list[str]:
        """All texts."""
        return list(self._numbers)


def table_objects(
    tables: Mapping[str, Table], texts: Texts, most: int = MOST_ROWS, further: str = _FURTHER
) -> list[dict[str, Any]]:
    """Tables with columns: name, heading, unit, definition, whether it is shown at first, what its cells are, cells.

    Cells of kind `text` are places in the texts, `uid` numbers of nodes, `number` numbers, `flag` true or false; null
    where there is none.

    Args:
        tables: by the names that the page calls them.
        texts: where their texts go.
        most: rows of a table.
        further: where the rest of them is.
    """
    return [_table_object(name, table, texts, most, further) for name, table in tables.items()]


def _table_object(name: str, table: Table, texts: Texts, most: int, further: str) -> dict[str, Any]:
    notes = list(table.notes)
    if (rows := len(table)) > most:
        table = table.take(np.arange(most))
        notes.append(f"{rows - most:,} more rows: {further}")
    told = any(column.heading for column in table.about.values())
    repeated = _IN_PATH if next(iter(table.columns), "") == "path" else ()
    columns = []
    for key, cells in table.columns.items():
        about = table.about.get(key, Column(""))
        kind, values = _cells(cells.tolist() if isinstance(cells, np.ndarray) else list(cells), about, texts)
        columns.append({
            "name": clean(key), "heading": clean(about.heading or key.replace("_", " ")), "unit": about.unit,
            "about": about.definition, "kind": kind, "cells": values,
            "shown": key not in repeated and (bool(about.heading) or not told or about.is_id),
        })  # fmt: skip
    return {
        "name": name, "title": clean(table.title or name), "rows": len(table), "notes": [clean(one) for one in notes],
        "columns": columns,
    }  # fmt: skip


def _cells(values: list[Any], about: Column, texts: Texts) -> tuple[str, list[Any]]:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return "flag", values
    if all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in known):
        return "uid" if about.is_id else "number", [_number(value) for value in values]
    return "text", [None if value is None else texts.number(_text(value)) for value in values]


def _number(value: Any) -> int | float | None:
    if value is None:
        return None
    plain: int | float = value.item() if isinstance(value, np.number) else value
    return plain if abs(plain) <= sys.float_info.max else None  # a whole number can be beyond all that browsers know


def _text(value: Any) -> str:
    return list_text(value) if isinstance(value, list) else str(value)
