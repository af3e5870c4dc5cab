"""Cells as TraceLens has them: tuples for arguments, and in files as Python spells them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tracelens_graph.tables.table import Table


def as_tuples(value: Any) -> Any:
    """A value with tuples in place of lists, at every depth."""
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


def in_python(table: Table) -> Table:
    """A table with lists, tuples and dictionaries as pandas writes them to CSV: as Python spells them."""
    columns = {
        name: [str(cell) if isinstance(cell, list | tuple | dict) else cell for cell in cells]
        if isinstance(cells, list)
        else cells
        for name, cells in table.columns.items()
    }
    return replace(table, columns=columns)
