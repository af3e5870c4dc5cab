"""Writing a graph into a database, so that it may be stopped at any point and gone on with.

Every statement merges, so writing a batch twice is writing it once. The Trace node is `loading` until the last edge
stands, and only then `complete`; whoever pushes the same trace again completes what is there. `begun_ns` tells a trace
from one that was dropped and pushed anew meanwhile: every batch asks for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tracelens_graph.errors import DatabaseError
from tracelens_graph.schema.database import EVENT
from tracelens_graph.stores.neo4j.catalog import drop_trace
from tracelens_graph.stores.neo4j.image import Image, Options
from tracelens_graph.stores.neo4j.statements import constraints, indexes
from tracelens_graph.stores.neo4j.writer import SESSIONS, LostEndsError, Progress, Writer, batches

if TYPE_CHECKING:
    from neo4j import Driver, ManagedTransaction

Outcome = Literal["pushed", "completed", "replaced", "unchanged"]

LONGEST_NAME = 500
"""Characters of the name of a run or a trace: an index holds 8,000 bytes."""

_COMPARED = {
    "path": "another name",
    "labels": "other labels",
    "options": "other options",
    "architecture": "another device",
    "schema_version": "another version of the graph model",
    "tool_version": "another version of tracelens_graph",
}
"""Properties of a trace that must agree with what is there -> what to call them."""


def make_schema(driver: Driver, database: str) -> None:
    """Make constraints and indexes that are missing, and wait until they serve."""
    with driver.session(database=database) as session:
        for statement in (*constraints(), *indexes()):
            session.run(statement).consume()
        session.run("CALL db.awaitIndexes(600)").consume()


def push_image(
    driver: Driver, database: str, image: Image, *, replace: bool = False, progress: Progress | None = None
) -> Outcome:
    """Write a graph into a database.

    Args:
        driver: a connection.
        database: name of the database.
        image: the graph.
        replace: whether the same trace, if it is there, gives way, whatever its state and options.
        progress: called with rows written and rows in all.

    Returns:
        "pushed", "completed" (an earlier push was cut off), "replaced", or "unchanged" if it is there already.

    Raises:
        DatabaseError: the trace is there with other options, its name is too long or taken in its run, or somebody else
            dropped it at the same time.
    """
    for what in ("run", "name"):
        if len(image.trace[what]) > LONGEST_NAME:
            raise DatabaseError(
                f"a {what} of {len(image.trace[what]):,} characters is too long: {LONGEST_NAME} at most"
            )
    make_schema(driver, database)
    with driver.session(database=database) as session:
        claim = session.execute_write(_claim, image.trace, replace)
        if claim.gives_way:
            drop_trace(driver, database, image.trace["id"])
            claim = session.execute_write(_claim, image.trace, False)._replace(outcome=claim.outcome)
        if claim.outcome == "unchanged":
            return "unchanged"
        try:
            _write(driver, database, image, claim.begun_ns, progress)
        except LostEndsError:  # shared knowledge was dropped with another trace; what is there stays
            _write(driver, database, image, claim.begun_ns, progress)
        session.execute_write(_complete, image.trace["id"], claim.begun_ns)
    return claim.outcome


def _write(driver: Driver, database: str, image: Image, begun_ns: int, progress: Progress | None) -> None:
    scope = {"trace": image.trace["id"], "run": image.trace["run"], "begun": begun_ns}
    writer = Writer(driver, database, scope, image.size, progress)
    for nodes in image.nodes:
        if nodes.labels[0] != EVENT:  # in one session, as two pushes that want the same nodes would only wait
            writer.write(batches(nodes, sessions=1))
    of_events = (batches(nodes) for nodes in image.nodes if nodes.labels[0] == EVENT)
    events = list(chain.from_iterable(chain.from_iterable(of_events)))  # no two want the same node
    writer.write([events[session::SESSIONS] for session in range(SESSIONS)])
    for edges in image.edges:
        writer.write(batches(edges))


class _Claim(NamedTuple):
    """What is to be done about a trace.

    Attributes:
        outcome: what it will have been.
        begun_ns: that of its Trace node.
        gives_way: whether what is there has to be dropped first.
    """

    outcome: Outcome
    begun_ns: int
    gives_way: bool = False


def _claim(tx: ManagedTransaction, trace: Mapping[str, Any], replace: bool) -> _Claim:
    """Make the Trace node, or go on with the one that is there."""
    named = tx.run(
        "MATCH (t:Trace {run: $run, name: $name}) WHERE t.id <> $id RETURN t.id AS id",
        run=trace["run"], name=trace["name"], id=trace["id"],
    ).single()  # fmt: skip
    if named:
        raise DatabaseError(
            f"{trace['path']} is the name of another trace in the database ({named['id']}): choose one with --as"
        )
    found = tx.run(
        "MERGE (t:Trace {id: $trace.id}) ON CREATE SET t += $trace, t.state = 'loading', t.begun_ns = $now "
        "RETURN t.begun_ns = $now AS new, properties(t) AS t",
        trace=dict(trace), now=time.time_ns(),
    ).single(strict=True)  # fmt: skip
    there = found["t"]
    if found["new"]:
        return _Claim("pushed", there["begun_ns"])
    if there["state"] == "dropping":
        return _Claim("pushed", 0, gives_way=True)
    if replace:
        return _Claim("replaced", 0, gives_way=True)
    differs = [
        f"{what} ({_shown(key, there.get(key))}, not {_shown(key, trace.get(key))})"
        for key, what in _COMPARED.items()
        if (there.get(key) or None) != (trace.get(key) or None)
    ]
    if differs:
        raise DatabaseError(f"{there['path']} is in the database with {' and '.join(differs)}: push it with --replace")
    return _Claim("unchanged" if there["state"] == "complete" else "completed", there["begun_ns"])


def _shown(key: str, value: Any) -> str:
    if key == "options" and value:
        return Options.of(value).words
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "none" if value in (None, "") else str(value)


def _complete(tx: ManagedTransaction, trace: str, begun_ns: int) -> None:
    done = tx.run(
        "MATCH (t:Trace {id: $id}) SET t.begun_ns = t.begun_ns "
        "WITH t WHERE t.begun_ns = $begun AND t.state <> 'dropping' "
        "SET t.pushed_ns = CASE t.state WHEN 'complete' THEN t.pushed_ns ELSE $now END, t.state = 'complete' "
        "RETURN t.id AS id",
        id=trace, begun=begun_ns, now=time.time_ns(),
    ).single()  # fmt: skip
    if done is None:
        raise DatabaseError("the trace was dropped or replaced by somebody else while it was pushed")
