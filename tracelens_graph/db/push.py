"""Writing a graph into a database, so that it may be stopped at any point and gone on with.

Every statement merges, so writing a batch twice is writing it once. The Trace node is `loading` until the last edge
stands, and only then `complete`; whoever pushes the same trace again completes what is there. `begun_ns` tells a trace
from one that was dropped and pushed anew meanwhile: every batch asks for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tracelens_graph.db.catalog import drop_trace
from tracelens_graph.db.connection import reach
from tracelens_graph.db.image import Image, Options
from tracelens_graph.db.statements import TRACE, Whole, schema
from tracelens_graph.db.writer import Progress, Writer
from tracelens_graph.errors import DatabaseError, LostEndsError

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
    "database_version": "another version of what stands in the database",
    "tool_version": "another version of tracelens_graph",
}
"""Properties of a trace that must agree with what is there -> what to call them."""


class Claim(NamedTuple):
    """What is to be done about a trace, or a comparison.

    Attributes:
        outcome: what it will have been.
        begun_ns: that of its node.
        gives_way: whether what is there has to be dropped first.
    """

    outcome: Outcome
    begun_ns: int
    gives_way: bool = False


def make_schema(driver: Driver, database: str) -> None:
    """Make constraints and indexes that are missing, and wait until they serve."""
    with driver.session(database=database) as session:
        there = set(session.run("SHOW INDEXES YIELD name").value())
        missing = [statement for name, statement in schema().items() if name not in there]
        for statement in missing:
            session.run(statement).consume()
        if missing:
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
    trace = image.trace["id"]
    reach(driver)
    with driver.session(database=database) as session:
        there = session.run(TRACE.there, {TRACE.parameter: trace}).value()
    if there and judged(there[0], False, image.trace, _COMPARED, replace).outcome == "unchanged":
        return "unchanged"  # so the schema stands
    return push_whole(
        driver, database, TRACE, trace,
        claim=lambda tx, replace: _claim(tx, image.trace, replace),
        drop=lambda: drop_trace(driver, database, trace),
        write=lambda begun_ns: _write(driver, database, image, begun_ns, progress),
        replace=replace,
    )  # fmt: skip


def push_whole(
    driver: Driver, database: str, whole: Whole, key: str, *, claim: Callable[[ManagedTransaction, bool], Claim],
    drop: Callable[[], None], write: Callable[[int], None], replace: bool,
) -> Outcome:  # fmt: skip
    """Write what belongs to one node, which is `loading` until the last of it stands, and only then `complete`.

    Args:
        driver: a connection.
        database: name of the database.
        whole: what kind of node.
        key: its key.
        claim: makes the node, or finds what is there; told whether that gives way.
        drop: deletes what is there.
        write: writes all of it; told the `begun_ns` of the node.
        replace: whether what is there gives way.

    Raises:
        DatabaseError: somebody else dropped it at the same time, or the server is too old.
    """
    reach(driver)
    make_schema(driver, database)
    with driver.session(database=database) as session:
        claimed = session.execute_write(claim, replace)
        if claimed.gives_way:
            drop()
            claimed = session.execute_write(claim, False)._replace(outcome=claimed.outcome)
        if claimed.outcome == "unchanged":
            return "unchanged"
        try:
            write(claimed.begun_ns)
        except LostEndsError:  # shared knowledge was dropped with another trace; what is there stays
            write(claimed.begun_ns)
        session.execute_write(_complete, whole, key, claimed.begun_ns)
    return claimed.outcome


def hold(tx: ManagedTransaction, traces: Iterable[str]) -> None:
    """See that traces are complete, and keep them so until the commit.

    MERGE holds the key of each: whoever drops one afterwards sees what this transaction wrote.

    Raises:
        DatabaseError: one of them is not complete.
    """
    for trace in traces:
        found = tx.run("MERGE (t:Trace {id: $id}) RETURN t.state AS state, t.path AS path", id=trace)
        state = found.single(strict=True)
        if state["state"] != "complete":
            raise DatabaseError(f"{state['path'] or trace} is not complete in the database: push it first")


def judged(
    there: Mapping[str, Any], new: bool, wanted: Mapping[str, Any], compared: Mapping[str, str], replace: bool
) -> Claim:
    """What is to be done about a node that was just made, or is there.

    Args:
        there: its properties.
        new: whether it was just made.
        wanted: properties that it should have.
        compared: those that must agree -> what to call one that does not.
        replace: whether what is there gives way.

    Raises:
        DatabaseError: it is there, and differs.
    """
    if new:
        return Claim("pushed", there["begun_ns"])
    if there["state"] == "dropping":
        return Claim("pushed", 0, gives_way=True)
    if replace:
        return Claim("replaced", 0, gives_way=True)
    differs = [
        f"{what} ({_shown(key, there.get(key))}, not {_shown(key, wanted.get(key))})"
        for key, what in compared.items()
        if (there.get(key) or None) != (wanted.get(key) or None)
    ]
    if differs:
        called = there.get("path") or there["name"]
        raise DatabaseError(f"{called} is in the database with {' and '.join(differs)}: push it with --replace")
    return Claim("unchanged" if there["state"] == "complete" else "completed", there["begun_ns"])


def _write(driver: Driver, database: str, image: Image, begun_ns: int, progress: Progress | None) -> None:
    scope = {"trace": image.trace["id"], "run": image.trace["run"], "begun": begun_ns}
    Writer(driver, database, TRACE, scope, image.size, progress).write(image.nodes, image.edges)


def _claim(tx: ManagedTransaction, trace: Mapping[str, Any], replace: bool) -> Claim:
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
    # One rank more: the collectives of the run have to be matched anew.
    tx.run(
        "MATCH (m:Matching {run: $run}) WHERE NOT $id IN m.traces SET m.state = 'dropping'",
        run=trace["run"], id=trace["id"],
    ).consume()  # fmt: skip
    return judged(found["t"], found["new"], trace, _COMPARED, replace)


def _shown(key: str, value: Any) -> str:
    if key == "options" and value:
        return Options.of(value).words
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "none" if value in (None, "") else str(value)


def _complete(tx: ManagedTransaction, whole: Whole, key: str, begun_ns: int) -> None:
    done = tx.run(whole.complete, {whole.parameter: key, "begun": begun_ns, "now": time.time_ns()}).single()
    if done is None:
        raise DatabaseError("what was pushed was dropped or replaced by somebody else meanwhile")
