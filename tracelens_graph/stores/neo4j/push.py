"""Writing a graph into a database, so that it may be stopped at any point and gone on with.

Every statement merges, so writing a batch twice is writing it once. The Trace node is `loading` until the last edge
stands, and only then `complete`; whoever pushes the same trace again completes what is there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Literal

from tracelens_graph.errors import DatabaseError
from tracelens_graph.schema.database import EVENT
from tracelens_graph.stores.neo4j.catalog import drop_trace
from tracelens_graph.stores.neo4j.image import Edges, Image, Nodes
from tracelens_graph.stores.neo4j.statements import constraints, indexes, write_edges, write_nodes

if TYPE_CHECKING:
    from neo4j import Driver, ManagedTransaction, Session

BATCH = 5000
"""Rows of a transaction: less costs time, more brings none."""

SESSIONS = 2
"""Transactions side by side; more were slower."""

Outcome = Literal["pushed", "completed", "replaced", "unchanged"]
Progress = Callable[[int, int], None]

_COMPARED = {
    "path": "name",
    "labels": "labels",
    "options": "options",
    "schema_version": "version of the graph model",
    "tool_version": "version of tracelens_graph",
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
        replace: whether a trace that is there with other options gives way.
        progress: called with rows written and rows in all.

    Returns:
        "pushed", "completed" (an earlier push was cut off), "replaced", or "unchanged" if it is there already.

    Raises:
        DatabaseError: the trace is there with other options, its name is taken in its run, or it was changed by
            somebody else at the same time.
    """
    make_schema(driver, database)
    with driver.session(database=database) as session:
        there = session.execute_read(_find, image.trace["id"])
        outcome: Outcome = "pushed"
        if there is not None:
            outcome = _decide(there, image, replace)
            if outcome == "unchanged":
                return outcome
            if outcome == "replaced":
                drop_trace(driver, database, image.trace["id"])
        session.execute_write(_claim, image.trace)
    writer = _Writer(driver, database, image, progress)
    shared = [nodes for nodes in image.nodes if nodes.labels[0] != EVENT]
    writer.write(((write_nodes(nodes), nodes) for nodes in shared), sessions=1)
    writer.write((write_nodes(nodes), nodes) for nodes in image.nodes if nodes.labels[0] == EVENT)
    writer.write((write_edges(edges), edges) for edges in image.edges)
    with driver.session(database=database) as session:
        session.execute_write(_complete, image.trace["id"], time.time_ns())
    return outcome


def _decide(there: Mapping[str, Any], image: Image, replace: bool) -> Outcome:
    if replace or there["state"] == "dropping":
        return "replaced"
    differs = [name for key, name in _COMPARED.items() if there.get(key) != image.trace.get(key)]
    if differs:
        raise DatabaseError(
            f"{there.get('path')} is in the database with another {' and '.join(differs)}: push it with --replace"
        )
    return "unchanged" if there["state"] == "complete" else "completed"


def _find(tx: ManagedTransaction, trace: str) -> dict[str, Any] | None:
    record = tx.run("MATCH (t:Trace {id: $id}) RETURN properties(t) AS t", id=trace).single()
    return record["t"] if record else None


def _claim(tx: ManagedTransaction, trace: Mapping[str, Any]) -> None:
    """Write the Trace node; whoever is called like it keeps the name."""
    named = tx.run(
        "MATCH (t:Trace {run: $run, name: $name}) WHERE t.id <> $id RETURN t.id AS id",
        run=trace["run"], name=trace["name"], id=trace["id"],
    ).single()  # fmt: skip
    if named:
        raise DatabaseError(
            f"{trace['path']} is the name of another trace in the database ({named['id']}): choose one with --name"
        )
    tx.run(
        "MERGE (t:Trace {id: $trace.id}) ON CREATE SET t.state = 'loading' SET t += $trace", trace=dict(trace)
    ).consume()


def _complete(tx: ManagedTransaction, trace: str, now_ns: int) -> None:
    state = "MATCH (t:Trace {id: $id}) WHERE t.state <> 'dropping' SET t.state = 'complete', t.pushed_ns = $now"
    if tx.run(f"{state} RETURN t.id AS id", id=trace, now=now_ns).single() is None:
        raise DatabaseError("the trace was dropped by somebody else while it was pushed: push it again")


class _Writer:
    """Writes nodes or edges in batches, in several sessions side by side.

    Each session has a stretch of its own of the rows, so that two of them rarely want the same node.
    """

    def __init__(self, driver: Driver, database: str, image: Image, progress: Progress | None) -> None:
        self._driver = driver
        self._database = database
        self._scope = {"trace": image.trace["id"], "run": image.trace["run"]}
        self._progress = progress
        self._size = image.size
        self._done = 0
        self._lock = Lock()
        self._stop = Event()

    def write(self, groups: Iterable[tuple[str, Nodes | Edges]], sessions: int = SESSIONS) -> None:
        with ThreadPoolExecutor(sessions) as pool:
            try:
                for statement, group in groups:
                    starts = range(0, len(group), BATCH)
                    share = -(-len(starts) // sessions)
                    stretches = [starts[low : low + share] for low in range(0, len(starts), share)]
                    for future in [pool.submit(self._stretch, statement, group, stretch) for stretch in stretches]:
                        future.result()
            except BaseException:
                self._stop.set()
                raise

    def _stretch(self, statement: str, group: Nodes | Edges, starts: Sequence[int]) -> None:
        with self._driver.session(database=self._database) as session:
            for low in starts:
                if self._stop.is_set():
                    return
                rows = group.rows(low, low + BATCH)
                found = _commit(session, statement, {"rows": rows, **self._scope})
                if isinstance(group, Edges) and found != len(rows):
                    raise DatabaseError(
                        f"ends of {len(rows) - found:,} edges {group.type} are gone from the database; somebody "
                        "dropped traces at the same time: push it again"
                    )
                self._count(len(rows))

    def _count(self, rows: int) -> None:
        with self._lock:
            self._done += rows
            if self._progress:
                self._progress(self._done, self._size)


def _commit(session: Session, statement: str, parameters: dict[str, Any]) -> int:
    """Run a statement that merges; the number of pairs that it says it found."""
    from neo4j.exceptions import IncompleteCommit

    def work(tx: ManagedTransaction) -> int:
        record = tx.run(statement, parameters).single()
        return record["found"] if record else 0

    try:
        return session.execute_write(work)
    except IncompleteCommit:  # nobody knows whether it was committed; merging again is safe
        return session.execute_write(work)
