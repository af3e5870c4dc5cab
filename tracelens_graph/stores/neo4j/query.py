"""Asking a database: queries of the library, and statements of the user's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tracelens_graph.cypher import Query, library
from tracelens_graph.errors import DatabaseError
from tracelens_graph.stores.neo4j.catalog import matchings, paths, resolve, traces
from tracelens_graph.stores.neo4j.connection import PrefixedError, reach
from tracelens_graph.stores.neo4j.parameters import check_values
from tracelens_graph.suggest import did_you_mean, hint
from tracelens_graph.table import Column, Table

if TYPE_CHECKING:
    from neo4j import Driver, Session

TRACE_PARAMETERS = ("trace", "a", "b")
"""Parameters that name a trace."""

_READING = (
    "db.labels", "db.relationshipTypes", "db.propertyKeys", "db.schema.", "db.index.", "db.info", "db.ping",
    "dbms.components",
)  # fmt: skip
"""What the names of procedures begin with that only read."""

_REFUSED = {
    "LoadCSV": "LOAD CSV reads files and addresses",
    "TerminateTransactions": "it ends transactions of others",
}
"""Steps of a plan that the server takes for reading."""


_EXPLAIN = "EXPLAIN "
_PLANNED = re.compile(
    r"(?:\s|//[^\n]*(?:\n|$)|/\*.*?\*/|CYPHER\b(?:\s+[\w.]+(?:\s*=\s*\w+)?(?<!EXPLAIN)(?<!PROFILE))*)*?"
    r"(?P<how>EXPLAIN|PROFILE)\b",
    re.IGNORECASE | re.DOTALL,
)
"""The begin of a statement whose plan is asked for."""

_OF_PLANS = {
    "operator": "what is done, above what it takes its rows from",
    "details": "to what",
    "estimated rows": "rows that the planner expects",
    "rows": "rows that it gave",
    "db hits": "accesses to the store",
}
"""Columns of a plan."""


def named(name: str) -> Query:
    """A query of the library.

    Raises:
        DatabaseError: there is none of that name.
    """
    known = library()
    if name not in known:
        raise DatabaseError(f"no query is called {name!r}; {hint(name, known)}")
    return known[name]


def prepared(driver: Driver, database: str, query: Query, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The statement of a query with parameters in the place of defaults, and their values; traces by their ids.

    Args:
        driver: a connection.
        database: name of the database.
        query: the query.
        parameters: instead of its defaults; a trace by id, `run/name` or name.

    Raises:
        DatabaseError: it has no such parameter, or no complete trace is called so, or several are.
    """
    for name in parameters:
        if name not in query.defaults:
            meant = did_you_mean(name, query.defaults)
            has = ", ".join(query.defaults) or "none"
            raise DatabaseError(f"{query.name} has no parameter {name!r}{meant and f'; {meant}'} (it has {has})")
    given = dict(parameters)
    if named_traces := [name for name in TRACE_PARAMETERS if given.get(name) is not None]:
        complete = [trace for trace in traces(driver, database) if trace["state"] == "complete"]
        given |= {name: resolve(complete, str(given[name]))["id"] for name in named_traces}
    return query.statement(given.keys()), given


def ask(driver: Driver, database: str, query: Query, parameters: Mapping[str, Any], timeout_s: float) -> Table:
    """The answer to a question of the library.

    Args:
        driver: a connection.
        database: name of the database.
        query: the question.
        parameters: instead of its defaults; a trace by id, `run/name` or name.
        timeout_s: after how long the server gives up.

    Raises:
        DatabaseError: as `prepared`, or a step, device or the like is not there, or the server refuses.
    """
    reach(driver)
    statement, given = prepared(driver, database, query, parameters)
    check_values(driver, database, query, given)
    table = _run(driver, database, statement, given, timeout_s, write=False)
    about = {name: Column(meaning) for name, meaning in query.columns.items() if name in table.columns}
    notes = [] if len(table) else _why_empty(driver, database, query, parameters)
    return Table(query.name, table.columns, about, query.title, notes)


def _why_empty(driver: Driver, database: str, query: Query, parameters: Mapping[str, Any]) -> list[str]:
    """Why a question about the ranks of a run has no rows, if nobody matched these or no such step has a path."""
    if "(g:Matching " not in query.text:
        return []
    complete = [trace for trace in traces(driver, database) if trace["state"] == "complete"]
    wanted = parameters.get("run") or max(complete, key=lambda trace: trace["pushed_ns"], default={}).get("run")
    of_run = [trace for trace in complete if trace["run"] == wanted]
    matched = {one["run"]: one for one in matchings(driver, database) if one["state"] == "complete"}
    if wanted in matched and ":CriticalPath)" in query.text:
        return [_no_path(driver, database, matched[wanted], parameters.get("step"))]
    if len(of_run) < 2 or wanted in matched:
        return []
    return [f"the collectives of {wanted} are not matched: push its {len(of_run):,} traces together, with --run"]


def _no_path(driver: Driver, database: str, matching: Mapping[str, Any], step: int | None) -> str:
    """Why there is no path of a step."""
    if not matching.get("paths"):
        return "there are no GPU events, so there is no path to follow through them"
    steps = ", ".join(str(path["step"]) for path in paths(driver, database, matching["run"]) if "step" in path)
    return f"no rank has GPU work of step {step}; steps with GPU work: {steps or 'none'}"


def run(
    driver: Driver, database: str, statement: str, parameters: Mapping[str, Any], timeout_s: float, write: bool = False
) -> Table:
    """The result of a statement.

    Without `write` the server refuses to write. What it would take for reading and is none is found in the plan that
    it makes of the statement, and refused: reading files or addresses, procedures that end the work of others.

    Args:
        driver: a connection.
        database: name of the database.
        statement: one statement in Cypher.
        parameters: what it calls `$name`.
        timeout_s: after how long the server gives up.
        write: whether it may write.

    Raises:
        DatabaseError: it is refused.
    """
    reach(driver)
    if not write:
        refused = _not_reading(driver, database, statement, parameters, timeout_s)
        if refused:
            raise DatabaseError(f"refused: {refused}; --write (in Python write=True) allows it")
    return _run(driver, database, statement, parameters, timeout_s, write)


def _not_reading(driver: Driver, database: str, statement: str, parameters: Mapping[str, Any], timeout_s: float) -> str:
    """Why a statement does more than read; empty if it only reads."""
    from neo4j.exceptions import Neo4jError

    begin = _PLANNED.match(statement)
    asked, sent, meant = _EXPLAIN + statement, _EXPLAIN, ""
    if begin:  # PROFILE would run it
        asked = f"{statement[: begin.start('how')]}{_EXPLAIN.strip()}{statement[begin.end('how') :]}"
        sent, meant = _EXPLAIN.strip(), begin["how"]
    with _session(driver, database) as session, session.begin_transaction(timeout=timeout_s) as tx:
        try:
            summary = tx.run(asked, dict(parameters)).consume()
        except Neo4jError as error:
            raise PrefixedError(error, sent, meant) from error
        tx.rollback()
    for operator, details in _steps(summary.plan or {}):
        if operator in _REFUSED:
            return _REFUSED[operator]
        if operator == "ProcedureCall" and not details.startswith(_READING):
            return f"{details.partition('(')[0]} may do more than read"
        if operator == "AdministrationCommand":
            return "it is a command of administration"
    return "" if summary.query_type in ("r", "s") else "it writes"


def _session(driver: Driver, database: str, write: bool = False) -> Session:
    """A session that reads, or writes."""
    mode = "WRITE" if write else "READ"
    return driver.session(database=database, default_access_mode=mode)


def _steps(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Operators of a plan and what they say of themselves."""
    if "operatorType" in plan:
        yield plan["operatorType"].partition("@")[0], str(plan.get("args", {}).get("Details", ""))
    for child in plan.get("children", ()):
        yield from _steps(child)


def _run(
    driver: Driver, database: str, statement: str, parameters: Mapping[str, Any], timeout_s: float, write: bool
) -> Table:
    with (
        _session(driver, database, write) as session,
        session.begin_transaction(timeout=timeout_s) as tx,
    ):
        result = tx.run(statement, dict(parameters))
        names = list(result.keys())
        rows = [[_plain(value) for value in record.values()] for record in result]
        summary = result.consume()
        if write:
            tx.commit()
        else:
            tx.rollback()  # leaving would commit, and a connection lost then would seem to leave changes in doubt
    if plan := summary.profile or summary.plan:
        return _plan(plan)
    columns = list(map(list, zip(*rows, strict=True))) if rows else [[] for _ in names]
    return Table("query", dict(zip(names, columns, strict=True)))


def _plan(plan: Mapping[str, Any]) -> Table:
    """The operators of a plan, each above those that it takes rows from; counts where it was run."""
    rows = []

    def walk(step: Mapping[str, Any], depth: int) -> None:
        told = step.get("args", {})
        names = {"details": "Details", "estimated rows": "EstimatedRows", "rows": "Rows", "db hits": "DbHits"}
        operator = "  " * depth + str(step["operatorType"]).partition("@")[0]
        rows.append({"operator": operator, **{column: told.get(name) for column, name in names.items()}})
        for child in step.get("children", ()):
            walk(child, depth + 1)

    walk(plan, 0)
    about = {name: Column(meaning) for name, meaning in _OF_PLANS.items() if any(row[name] is not None for row in rows)}
    return Table("plan", {name: [row[name] for row in rows] for name in about}, about, "Plan")


def _plain(value: Any) -> Any:
    """A value that every table can hold: nodes and relationships as dictionaries, a path as a list of its nodes."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    from neo4j.graph import Node, Path, Relationship

    if isinstance(value, Path):
        return [_plain(node) for node in value.nodes]
    if isinstance(value, Node):
        return {"labels": sorted(value.labels), **_plain(dict(value))}
    if isinstance(value, Relationship):
        return {"type": value.type, **_plain(dict(value))}
    return str(value)
