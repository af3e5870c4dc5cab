"""Asking a database: queries of the library, and statements of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from tracelens_graph.cypher import Query, library
from tracelens_graph.errors import DatabaseError
from tracelens_graph.stores.neo4j.catalog import resolve, traces
from tracelens_graph.table import Column, Table

if TYPE_CHECKING:
    from neo4j import Driver

TRACE_PARAMETERS = ("trace", "a", "b")
"""Parameters that name a trace."""


def named(name: str) -> Query:
    """A query of the library.

    Raises:
        DatabaseError: there is none of that name.
    """
    known = library()
    if name not in known:
        near = get_close_matches(name, known, 1)
        raise DatabaseError(f"no query is called {name!r}{f'; did you mean {near[0]}?' if near else ''}")
    return known[name]


def ask(driver: Driver, database: str, query: Query, parameters: Mapping[str, Any], timeout_s: float) -> Table:
    """The answer to a question of the library.

    Args:
        driver: a connection.
        database: name of the database.
        query: the question.
        parameters: instead of its defaults; a trace by id, `run/name` or name.
        timeout_s: after how long the server gives up.

    Raises:
        DatabaseError: it has no such parameter, or no trace is called so, or several are.
    """
    for name in parameters:
        if name not in query.defaults:
            near = get_close_matches(name, query.defaults, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise DatabaseError(f"{query.name} has no parameter {name!r}{hint} (it has {', '.join(query.defaults)})")
    given = dict(parameters)
    for name in TRACE_PARAMETERS:
        if given.get(name) is not None:
            complete = [trace for trace in traces(driver, database) if trace["state"] == "complete"]
            given[name] = resolve(complete, given[name])["id"]
    table = run(driver, database, query.statement(given.keys()), given, timeout_s)
    table.name, table.title = query.name, query.title
    table.about = {name: Column(meaning) for name, meaning in query.columns.items() if name in table.columns}
    return table


def run(
    driver: Driver, database: str, statement: str, parameters: Mapping[str, Any], timeout_s: float, write: bool = False
) -> Table:
    """The result of a statement; without `write` in a session in which the server refuses to write."""
    from neo4j import READ_ACCESS, WRITE_ACCESS

    mode = WRITE_ACCESS if write else READ_ACCESS
    with (
        driver.session(database=database, default_access_mode=mode) as session,
        session.begin_transaction(timeout=timeout_s) as tx,
    ):
        result = tx.run(statement, dict(parameters))
        names = list(result.keys())
        rows = [list(record.values()) for record in result]
        tx.commit()
    columns = list(map(list, zip(*rows, strict=True))) if rows else [[] for _ in names]
    return Table("query", dict(zip(names, columns, strict=True)))
