"""Whether a query and its twin say the same, of traces made by hand and of real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from corpus import cases, loaded, trace_id
from tracelens_graph.analyses.questions import QUESTIONS, Question
from tracelens_graph.analyses.shared.answers import without_noise
from tracelens_graph.graph.core import Core
from tracelens_graph.reports.csv import write_csv
from tracelens_graph.tables.table import Table

Ask = Callable[..., tuple[Table, Table]]
"""The fixture that asks a question of the database, and of the graph in memory."""

Asked = tuple[str, Mapping[str, Any]]
"""A question and its parameters."""

DRAWN = "path"
"""A column for the drawing in Neo4j Browser, which tables leave out."""


def assert_same(query: Table, twin: Table) -> None:
    """The twin has the query's columns, and as files both are equal, byte for byte; lists are lists in both."""
    columns = [name for name in query.columns if name != DRAWN]
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


def with_queries(names: str) -> dict[str, Question]:
    """Questions by name, each of which has a query."""
    found = {name: QUESTIONS[name] for name in names.split()}
    assert all(one.query for one in found.values())
    return found


def twins(
    questions: Mapping[str, Question],
    made: Mapping[str, Callable[[], Core]],
    asked: Sequence[Asked] = (),
    also: Sequence[tuple[str, str, Mapping[str, Any]]] = (),
    files: Sequence[Path] = (),
    rows: int = 0,
) -> tuple[Callable[..., None], Callable[..., None]]:
    """Two tests: the database says what the graph in memory says, of traces made by hand, and of real ones.

    Args:
        questions: those about one trace are asked of all traces.
        made: name -> trace.
        asked: further questions to all traces, with parameters.
        also: further questions to a trace that is made: its name, question and parameters.
        files: real traces.
        rows: how many rows an answer has at least.
    """
    every = [*((name, {}) for name, one in questions.items() if not one.several), *asked]

    def same(ask: Ask, core: Core, name: str, parameters: Mapping[str, Any]) -> None:
        query, twin = ask(core, name, **parameters)
        assert_same(query, twin)
        assert len(twin) >= rows

    @pytest.mark.parametrize(
        ("trace", "name", "parameters"),
        [
            pytest.param(*one, id="-".join(map(str, (*kind, *one[:2], *one[2].items()))))
            for kind, some in (((), [(trace, *one) for trace in made for one in every]), (("also",), also))
            for one in some
        ],
    )
    def of_made(ask: Ask, trace: str, name: str, parameters: Mapping[str, Any]) -> None:
        same(ask, made[trace](), name, parameters)

    @pytest.mark.parametrize(("name", "parameters"), every, ids=str)
    @pytest.mark.parametrize("path", cases((trace_id(path), path) for path in files))
    def of_real(ask: Ask, path: Path, name: str, parameters: Mapping[str, Any]) -> None:
        same(ask, loaded(path), name, parameters)

    return of_made, of_real
