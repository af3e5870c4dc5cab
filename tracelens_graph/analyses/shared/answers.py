"""Answers as a database and a graph in memory give them alike: real lists, and in files no digits that are noise.

Both add up the same numbers in another order, so that the last digits of a mean or a deviation differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.tables.column import Column
from tracelens_graph.tables.table import Table

DIGITS = 12
"""Significant digits of floats in files."""


def with_lists(table: Table, declared: Mapping[str, Column]) -> Table:
    """The table with lists where its declaration says lists; they may stand as JSON."""
    columns = {
        name: _listed(values) if name in declared and declared[name].cells == "list" else values
        for name, values in table.columns.items()
    }
    return Table(table.name, columns, table.about, table.title, table.notes)


def without_noise(table: Table) -> Table:
    """The table with floats of 12 significant digits, so that the same answer is the same file wherever it is from."""
    columns = {name: _rounded(values) for name, values in table.columns.items()}
    return Table(table.name, columns, table.about, table.title, table.notes)


def _listed(values: Sequence[Any] | np.ndarray) -> list[Any]:
    known = {text: _parsed(text) for text in {value for value in values if isinstance(value, str)}}
    return [known[value] if isinstance(value, str) else value for value in values]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


def _rounded(values: Sequence[Any] | np.ndarray) -> Sequence[Any] | np.ndarray:
    if isinstance(values, np.ndarray):
        if values.dtype.kind != "f":
            return values
        return np.array([float(f"{value:.{DIGITS}g}") for value in values.tolist()], values.dtype)
    return [float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value for value in values]
