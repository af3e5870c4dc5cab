"""Whether a query and its twin say the same."""

from __future__ import annotations

from io import StringIO
from itertools import zip_longest

from tracelens_graph.analyses.questions import QUESTIONS, Question
from tracelens_graph.analyses.shared.answers import without_noise
from tracelens_graph.reports.csv import write_csv
from tracelens_graph.tables.table import Table

DRAWN = "path"
"""A column for the drawing in Neo4j Browser, which tables leave out."""


def assert_same(query: Table, twin: Table) -> None:
    """The twin has the query's columns, but for empty ones, and as files both are equal; lists are lists in both."""
    is_empty = {name: all(cell is None for cell in query[name]) for name in query.columns}
    columns = [name for name in query.columns if name != DRAWN and (name in twin.columns or not is_empty[name])]
    assert set(columns) <= set(twin.columns)
    ours, theirs = (_file(table, columns) for table in (query, twin))
    for mine, other in zip_longest(ours.splitlines(), theirs.splitlines()):
        assert mine == other
    assert ours == theirs
    for name in columns:
        for one, other in zip(query[name], twin[name], strict=True):
            assert isinstance(one, list | tuple) == isinstance(other, list | tuple), name


def _file(table: Table, columns: list[str]) -> str:
    file = StringIO()
    write_csv(without_noise(Table(table.name, {name: table[name] for name in columns})), file)
    return file.getvalue()


def twins(names: str) -> dict[str, Question]:
    """Questions by name, each of which has a query."""
    found = {name: QUESTIONS[name] for name in names.split()}
    assert all(one.query for one in found.values())
    return found
