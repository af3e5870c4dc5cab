"""Whether a query and its twin say the same."""

from __future__ import annotations

import json
import math
from typing import Any

from tracelens_graph.analyses.questions import QUESTIONS, Question
from tracelens_graph.table import Table

RELATIVE = 1e-9
DRAWN = "path"
"""A column for the drawing in Neo4j Browser, which tables leave out."""


def assert_same(query: Table, twin: Table) -> None:
    """The twin has the query's columns; equal rows in any order; floats to nine digits; no value is None or NaN."""
    columns = [name for name in query.columns if name != DRAWN]
    assert set(columns) <= set(twin.columns)
    assert len(query) == len(twin), f"{len(query)} rows, the twin has {len(twin)}"
    ours, theirs = (
        sorted(([_plain(cell) for cell in row] for row in _rows(table, columns)), key=_order) for table in (query, twin)
    )
    for mine, other in zip(ours, theirs, strict=True):
        for name, cell, wanted in zip(columns, mine, other, strict=True):
            assert _equal(cell, wanted), f"{name}: {cell!r}, the twin says {wanted!r}; rows {mine!r} and {other!r}"


def _rows(table: Table, columns: list[str]) -> Any:
    cells = [list(table[name]) for name in columns]
    return zip(*cells, strict=True)


def _plain(cell: Any) -> Any:
    if hasattr(cell, "item"):
        cell = cell.item()
    if isinstance(cell, float) and math.isnan(cell):
        return None
    if isinstance(cell, str) and cell[:1] in "[{":  # lists may stand as JSON
        try:
            return _plain(json.loads(cell))
        except ValueError:
            return cell
    if isinstance(cell, (list, tuple)):
        return [_plain(one) for one in cell]
    return cell


def _order(row: list[Any]) -> str:
    """Texts and whole numbers first: floats may differ in their last digits."""
    exact = [cell for cell in row if not isinstance(cell, float)]
    return repr((exact, [f"{cell:.6g}" for cell in row if isinstance(cell, float)]))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=RELATIVE, abs_tol=1e-9)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)


def of_theme(theme: str) -> dict[str, Question]:
    """The questions of a theme that have a query."""
    return {name: one for name, one in QUESTIONS.items() if one.query and one.query.theme == theme}
