"""The statements of docs/cypher-without-a-server.md: by the embedded engine and by Neo4j they give the same rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from neo4j_server import Home

import tracelens_graph as tlg
from corpus import CHECKOUT
from tracelens_graph.db.database import Database
from tracelens_graph.simulate import simulate, write
from tracelens_graph.tables.table import Table

pytest.importorskip("ladybug")

PAGE = CHECKOUT / "docs/cypher-without-a-server.md"
STATEMENTS = re.findall(r"^```cypher\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> tlg.TraceGraph:
    files = write(simulate(ranks=2, steps=2, seed=7), tmp_path_factory.mktemp("traces"))
    return tlg.load(next(path for path in files if path.name == "rank0.json.gz"))


@pytest.fixture(scope="module")
def database(home: Home, graph: tlg.TraceGraph) -> Iterator[Database]:
    with Database(home.connection) as found:
        found.push(graph, name=Path(graph.info.source).stem)
        yield found


def rows(table: Table) -> list[list[Any]]:
    return [
        [round(value, 6) if isinstance(value, float) else value for value in row.values()] for row in table.records()
    ]


def test_the_page_holds_statements() -> None:
    assert len(STATEMENTS) > 14


@pytest.mark.parametrize("statement", STATEMENTS, ids=range(len(STATEMENTS)))
def test_a_statement_has_an_answer(graph: tlg.TraceGraph, statement: str) -> None:
    assert len(graph.cypher(statement)) > 0


@pytest.mark.parametrize("statement", STATEMENTS, ids=range(len(STATEMENTS)))
def test_both_engines_give_the_same_rows(database: Database, graph: tlg.TraceGraph, statement: str) -> None:
    here, there = graph.cypher(statement), database.ask(statement)
    assert list(here.columns) == list(there.columns)
    if "ORDER BY" in statement:
        assert rows(here) == rows(there)
    else:  # the language leaves the order to the engine
        assert sorted(rows(here), key=repr) == sorted(rows(there), key=repr)
