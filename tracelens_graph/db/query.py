"""Asking a database: queries of the library, and statements of the user's own."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracelens_graph.cypher import Query, library, parse
from tracelens_graph.cypher.clause import Asked
from tracelens_graph.db.catalog import diffs, is_current, resolve, traces, why_outdated
from tracelens_graph.db.connection import WRITE_ALLOWS, OpenDatabase
from tracelens_graph.db.image import Options
from tracelens_graph.db.subject import check_values, chosen, subject, why_empty
from tracelens_graph.errors import DatabaseError
from tracelens_graph.registry import HOMES, schema_of
from tracelens_graph.schema import CONTEXT_EDGES, DIFF_EDGES, EVENT_EDGES, RANK_EDGES, Kind
from tracelens_graph.schema.comparisons import DIFF_EDGE_PROPERTIES, DIFF_PROPERTIES
from tracelens_graph.schema.database import (
    CONTEXT_PROPERTIES,
    EDGE_PROPERTIES,
    EVENT,
    EVENT_PROPERTIES,
    GPU_EVENT,
    HEAT,
    KEYS,
    REPEATED_EDGES,
)
from tracelens_graph.schema.jobs import RANK_EDGE_PROPERTIES, RANK_PROPERTIES
from tracelens_graph.tables.table import Column, Table
from tracelens_graph.utils.suggest import did_you_mean

if TYPE_CHECKING:
    from neo4j import ResultSummary, Session


TRACE_PARAMETERS = ("trace", "a", "b")
"""Parameters that name a trace."""

_READING = (
    "db.labels", "db.relationshipTypes", "db.propertyKeys", "db.schema.", "db.index.", "db.info", "db.ping",
    "dbms.components",
)  # fmt: skip
"""What the names of procedures begin with that only read."""

_REFUSED = {"LoadCSV": "LOAD CSV reads files and addresses", "TerminateTransactions": "it ends transactions of others"}
"""Steps of a plan that the server takes for reading."""


_EXPLAIN = "EXPLAIN"

_EVENTS = re.compile(rf":({'|'.join((EVENT, GPU_EVENT, *Kind.__members__))})\b")
"""Labels of events, in a statement."""

_OF_PLANS = {
    "operator": "what is done, above what it takes its rows from", "details": "to what",
    "estimated rows": "rows that the planner expects", "rows": "rows that it gave",
    "db hits": "accesses to the store",
}  # fmt: skip
"""Columns of a plan."""


_SHARED = (EVENT, GPU_EVENT, *HEAT)
"""Labels that stand behind the one that says what a node is."""


_NUMBERS = (int, float, bool)


def named(name: str) -> Query:
    """A query of the library.

    Raises:
        DatabaseError: there is none of that name.
    """
    known = library()
    if name not in known:
        meant = did_you_mean(name, known) or "`tracelens-graph db queries` lists those there are"
        raise DatabaseError(f"no query is called {name!r}; {meant}")
    return known[name]


def statement_of(text: str) -> Query:
    """A statement of the user's own, with what it is asked with.

    Raises:
        DatabaseError: it is none, or several.
    """
    own = parse("the text", "", text)
    if not own.asked.statements:
        raise DatabaseError("there is nothing to ask: the name of a query or a statement in Cypher is wanted")
    if own.asked.statements > 1:
        raise DatabaseError(f"these are {own.asked.statements}; one statement at a time is answered")
    return own


def prepared(db: OpenDatabase, query: Query, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The statement of a query with parameters in the place of defaults, and their values; traces by their ids.

    Args:
        db: the database.
        query: the query.
        parameters: instead of its defaults; a trace by id, `run/name` or name.

    Raises:
        DatabaseError: it has no such parameter, or no complete trace is called so, or several are.
    """
    known = list(dict.fromkeys([*query.defaults, *query.asked.used]))
    for name in parameters:
        if name not in known:
            meant = did_you_mean(name, known)
            has = f"it has {', '.join(known) or 'none'}"
            raise DatabaseError(f"{query.name} has no parameter {name!r}; {f'{meant} ({has})' if meant else has}")
    given = dict(parameters)
    if named_traces := [name for name in _traces_of(query) if given.get(name) is not None]:
        complete = [trace for trace in traces(db) if trace["state"] == "complete"]
        given |= {name: resolve(complete, str(given[name]))["id"] for name in named_traces}
    return query.statement(given.keys()), given


def _traces_of(query: Query) -> Iterator[str]:
    """Parameters that name a trace: those of defaults that are not numbers, and `$trace`."""
    for name in TRACE_PARAMETERS:
        default = query.asked.defaults.get(name)
        if default.kind not in _NUMBERS if default else name == "trace" and name in query.asked.used:
            yield name


def ask(db: OpenDatabase, query: Query, parameters: Mapping[str, Any], timeout_s: float) -> Table:
    """The answer to a question of the library.

    Args:
        db: the database.
        query: the question.
        parameters: instead of its defaults; a trace by id, `run/name` or name.
        timeout_s: after how long the server gives up.

    Raises:
        DatabaseError: as `prepared`, or a step, device or the like is not there, a trace is stored in another model, or
            the server refuses.
    """
    db.reach()
    _, given = prepared(db, query, parameters)
    complete = [trace for trace in traces(db) if trace["state"] == "complete"]
    compared = [diff for diff in diffs(db) if diff["state"] == "complete"]
    places = chosen(query, complete, compared, given)
    outdated = [trace for trace in complete if not is_current(trace)]
    if asked := [trace for trace in outdated if {trace["id"], trace["run"]} & set(places.values())]:
        raise DatabaseError(why_outdated(asked[0]))
    if _EVENTS.search(query.text):
        for trace in complete:
            if {trace["id"], trace["run"]} & set(places.values()) and Options.of(trace["options"]).facts_only:
                raise DatabaseError(
                    f"{trace['path']} has facts alone, and {query.name} is asked of events: "
                    "push it again, with --replace and without --facts"
                )
    check_values(db, query, given)
    given |= places
    with db.session(reads=True) as session:
        table, _ = _run(session, query.statement(given.keys()), given, timeout_s, write=False)
    notes = [] if len(table) else [why_empty(db, query, complete, given)]
    if outdated and not places:
        notes.append(f"{len(outdated):,} of {len(complete):,} traces may be missing: {why_outdated(outdated[0])}")
    of = subject(complete, places)
    title = f"{query.title} Asked of {of}." if of else query.title
    return Table(query.name, table.columns, declared(query, table), title, notes)


def declared(query: Query, answer: Table) -> dict[str, Column]:
    """What the columns of an answer say about themselves: as the table of the question does, in the query's words."""
    known = schema_of(query.name) if query.name in HOMES else {}
    return {
        name: replace(known.get(name, Column("")), definition=meaning)
        for name, meaning in query.columns.items()
        if name in answer.columns
    }


def run(
    db: OpenDatabase, statement: str, parameters: Mapping[str, Any], timeout_s: float, write: bool = False
) -> Table:
    """The result of a statement; what it names and the database does not know stands in its notes.

    Without `write` the server refuses to write. What it would take for reading and is none is found in the plan that
    it makes of the statement, and refused: reading files or addresses, procedures that end the work of others.

    Args:
        db: the database.
        statement: one statement in Cypher.
        parameters: what it calls `$name`.
        timeout_s: after how long the server gives up.
        write: whether it may write.

    Raises:
        DatabaseError: it is refused.
    """
    db.reach()
    if not write:
        refused = _not_reading(db, statement, parameters, timeout_s)
        if refused:
            raise DatabaseError(f"refused: {refused}; {WRITE_ALLOWS}")
    with db.session(reads=not write, notifications_min_severity="WARNING") as session:
        table, summary = _run(session, statement, parameters, timeout_s, write)
    table.notes = unknown_names(summary)
    return table


def _not_reading(db: OpenDatabase, statement: str, parameters: Mapping[str, Any], timeout_s: float) -> str:
    """Why a statement does more than read; empty if it only reads."""
    from neo4j.exceptions import Neo4jError

    plan = Asked.of(statement).plan  # PROFILE would run it
    asked = f"{statement[: plan.start]}{_EXPLAIN}{statement[plan.end :]}" if plan else f"{_EXPLAIN} {statement}"
    with db.session(reads=True) as session:
        try:
            with session.begin_transaction(timeout=timeout_s) as tx:
                summary = tx.run(asked, dict(parameters)).consume()
                tx.rollback()
        except Neo4jError as error:
            if not (error.code or "").startswith("Neo.ClientError.Statement."):
                raise
            _run(session, statement, parameters, timeout_s, write=False)  # is refused, with places in the user's text
            raise
    for operator, details in _steps(summary.plan or {}):
        if operator in _REFUSED:
            return _REFUSED[operator]
        if operator == "ProcedureCall" and not details.startswith(_READING):
            return f"{details.partition('(')[0]} may do more than read"
        if operator == "AdministrationCommand":
            return "it is a command of administration"
    return "" if summary.query_type in ("r", "s") else "it writes"


def _steps(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Operators of a plan and what they say of themselves."""
    if "operatorType" in plan:
        yield plan["operatorType"].partition("@")[0], str(plan.get("args", {}).get("Details", ""))
    for child in plan.get("children", ()):
        yield from _steps(child)


def _run(
    session: Session, statement: str, parameters: Mapping[str, Any], timeout_s: float, write: bool
) -> tuple[Table, ResultSummary]:
    with session.begin_transaction(timeout=timeout_s) as tx:
        result = tx.run(statement, dict(parameters))
        names = list(result.keys())
        rows = [[_plain(value) for value in record.values()] for record in result]
        summary = result.consume()
        if write:
            tx.commit()
        else:
            tx.rollback()  # leaving would commit, and a connection lost then would seem to leave changes in doubt
    if plan := summary.profile or summary.plan:
        return _plan(plan), summary
    columns = list(map(list, zip(*rows, strict=True))) if rows else [[] for _ in names]
    return Table("query", dict(zip(names, columns, strict=True))), summary


def _plan(plan: Mapping[str, Any]) -> Table:
    """The operators of a plan, each above those that it takes rows from; counts where it was run."""
    rows = []
    todo = [(plan, 0)]
    while todo:  # only what joins with the operator before it is indented: a chain may be long
        step, depth = todo.pop()
        facts = step.get("args", {})
        expected = facts.get("EstimatedRows")
        rows.append({
            "operator": "  " * depth + str(step["operatorType"]).partition("@")[0], "details": facts.get("Details"),
            "estimated rows": expected if expected is None else round(expected), "rows": facts.get("Rows"),
            "db hits": facts.get("DbHits"),
        })  # fmt: skip
        todo += [(child, depth + (place > 0)) for place, child in enumerate(step.get("children", ()))]
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
        labels = sorted(value.labels, key=lambda label: (label in _SHARED, label))
        return {"labels": labels, **_plain(dict(value))}
    if isinstance(value, Relationship):
        return {"type": value.type, **_plain(dict(value))}
    return str(value)


_TABLES = (
    {"": EVENT_PROPERTIES}, CONTEXT_PROPERTIES, EDGE_PROPERTIES, DIFF_PROPERTIES, DIFF_EDGE_PROPERTIES,
    RANK_PROPERTIES, RANK_EDGE_PROPERTIES,
)  # fmt: skip


_SCHEMA_NAMES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "01N50": ("label", (*KEYS, GPU_EVENT, *HEAT, *Kind.__members__)),
    "01N51": (
        "relationship type",
        tuple(edge.name for edge in (*EVENT_EDGES, *CONTEXT_EDGES, *DIFF_EDGES, *RANK_EDGES)),
    ),
    "01N52": (
        "property",
        (
            *("trace", "run"),
            *(key.name for key in KEYS.values()),
            *(one.name for table in _TABLES for properties in table.values() for one in properties),
        ),
    ),
}
"""Status of GQL -> what sort of name it is about, and the names of that sort in the schema."""

_CLOSE = 0.75
"""How alike a name has to be that is suggested: of some hundred names one resembles anything a little."""

_NAME = re.compile(r"`(.+?)` does not exist")


def unknown_names(summary: ResultSummary) -> list[str]:
    """A line for each label, type and property of a statement that nothing in the database has.

    Properties of the schema are none of them: values that are absent are no property.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # drivers before version 6 call it a preview
        objects = summary.gql_status_objects
    lines = []
    for one in objects:
        sort, known = _SCHEMA_NAMES.get(one.gql_status, ("", ()))
        name = _NAME.search(one.status_description)
        if not sort or not name or (sort == "property" and name[1] in known):
            continue
        meant = "" if name[1] in known else did_you_mean(name[1], known, cutoff=_CLOSE)
        if name[1] in REPEATED_EDGES:
            meant = f"`{REPEATED_EDGES[name[1]]}` of events says the same; `db push --all-edges` writes them"
        lines.append(f"no {sort} {name[1]}; {meant}" if meant else f"nothing in the database has the {sort} {name[1]}")
    return list(dict.fromkeys(lines))
