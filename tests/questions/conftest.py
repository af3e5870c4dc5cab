"""A question asked twice: of the database on a real server, and of the graph in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.cypher import library
from tracelens_graph.db.connection import Connection
from tracelens_graph.db.database import Database
from tracelens_graph.errors import DatabaseError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.registry import current
from tracelens_graph.tables.table import Table

Answers = tuple[Table, Table]


@pytest.fixture(scope="session")
def database(neo4j: Connection) -> Iterator[Database]:
    with Database(neo4j) as found:
        yield found


@pytest.fixture(scope="session")
def ask(database: Database) -> Callable[..., Answers]:
    """The answers of a query and of its twin; each trace is pushed once.

    Called with a graph, or with a sequence of `TraceMember`, the name of the question, and its parameters.
    """
    pushed: set[str] = set()

    def push(core: Core, **placement: Any) -> None:
        if core.trace_id not in pushed:
            database.push(core, **placement)
            pushed.add(core.trace_id)

    def match(ranks: TraceSet) -> None:
        database.match(ranks[0].run, ranks)

    def both(graphs: Core | Sequence[Any], name: str, **parameters: Any) -> Answers:
        if isinstance(graphs, Core):
            push(graphs)
            asked = {"trace": graphs.trace_id, **parameters}
        else:
            for placed in graphs:
                push(placed.core, run=placed.run, name=placed.name, labels=placed.labels)
            if "Matching" in library()[current(name)].text:
                match(TraceSet.of(graphs).of_run(parameters.get("run")))
            asked = parameters
        twin = QUESTIONS[name](graphs, **parameters)
        try:
            return database.ask(name, **asked), twin
        except DatabaseError as error:  # a database says what there is in place of an answer without rows
            if len(twin) or "is not there" not in str(error):
                raise
            return twin, twin

    return both
