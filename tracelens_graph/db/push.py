"""Writing into a database, so that it may be stopped at any point and gone on with; nodes and edges in batches.

Every statement merges, so writing a batch twice is writing it once. The node that stands for a whole trace, comparison
or matching is `loading` until the last edge stands, and only then `complete`; whoever pushes the same again completes
what is there. `begun_ns` separates it from one that was dropped and pushed anew meanwhile: every batch asks for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tracelens_graph.db.batches import SESSIONS, Batch, edge_stages, node_batches
from tracelens_graph.db.catalog import drop_trace, drop_whole
from tracelens_graph.db.connection import OpenDatabase
from tracelens_graph.db.image import Edges, Image, Nodes, Options, TraceImage
from tracelens_graph.db.labels import texts_of
from tracelens_graph.db.statements import TRACE, Whole, schema
from tracelens_graph.errors import DatabaseError, LostEndsError

if TYPE_CHECKING:
    from neo4j import ManagedTransaction, Session

Progress = Callable[[int, int], None]
Outcome = Literal["pushed", "completed", "replaced", "unchanged"]
"""What a push did; it completes what an earlier push that was cut off began."""

LONGEST_NAME = 500
"""Characters of the name of a run or a trace: an index holds 8,000 bytes."""


class Claim(NamedTuple):
    """What is to be done about what is there.

    Attributes:
        outcome: what it will have been.
        begun_ns: that of its node.
        drop_first: whether what is there has to be dropped before.
        kept: properties of it that stay.
    """

    outcome: Outcome
    begun_ns: int
    drop_first: bool = False
    kept: Mapping[str, Any] = {}


def make_schema(db: OpenDatabase) -> None:
    """Make constraints and indexes that are missing, and wait until they serve."""
    with db.session() as session:
        there = set(session.run("SHOW INDEXES YIELD name").value())
        missing = [statement for name, statement in schema().items() if name not in there]
        for statement in missing:
            session.run(statement).consume()
        if missing:
            session.run("CALL db.awaitIndexes(600)").consume()


def push_trace(
    db: OpenDatabase, image: TraceImage, *, replace: bool = False, progress: Progress | None = None
) -> Outcome:
    """Write a graph into a database.

    Args:
        db: the database.
        image: the graph.
        replace: whether the same trace, if it is there, is dropped, whatever its state and options.
        progress: called with rows written and rows in all.

    Returns:
        What was done.

    Raises:
        DatabaseError: the trace is there with other options, its name is too long or taken in its run, or somebody else
            dropped it at the same time.
    """
    trace = image.properties
    for what in ("run", "name"):
        if len(trace[what]) > LONGEST_NAME:
            raise DatabaseError(f"a {what} of {len(trace[what]):,} characters is too long: {LONGEST_NAME} at most")
    db.reach()
    with db.session() as session:
        there = session.run(TRACE.there, {TRACE.parameter: trace["id"]}).value()
    if there and judged(TRACE, there[0], False, trace, replace).outcome == "unchanged":
        return "unchanged"  # so the schema stands
    return push_whole(db, TRACE, image, claim=_claim, replace=replace, progress=progress)


def push_whole(
    db: OpenDatabase, whole: Whole, image: Image, *,
    claim: Callable[[ManagedTransaction, Mapping[str, Any], bool], Claim], replace: bool = False,
    progress: Progress | None = None,
) -> Outcome:  # fmt: skip
    """Write what belongs to one node, which is `loading` until the last of it stands, and only then `complete`.

    Args:
        db: the database.
        whole: what kind of node.
        image: the node and all that belongs to it.
        claim: makes the node of some properties, or finds what is there; the last argument is `replace`.
        replace: whether what is there is dropped.
        progress: called with rows written and rows in all.

    Raises:
        DatabaseError: what `claim` raises; somebody else dropped it at the same time, or the server is too old.
    """
    db.reach()
    make_schema(db)
    properties = image.properties
    key = properties[whole.key]
    with db.session() as session:
        claimed = session.execute_write(claim, properties, replace)
        if claimed.drop_first:
            drop_trace(db, key) if whole is TRACE else drop_whole(db, whole, key)
            anew = session.execute_write(claim, {**properties, **claimed.kept}, False)
            claimed = anew._replace(outcome=claimed.outcome)
        if claimed.outcome == "unchanged":
            return "unchanged"
        scope = {name: properties[of] for name, of in whole.scope.items()}
        scope |= {whole.parameter: key, "begun": claimed.begun_ns}
        try:
            Writer(db, whole, scope, image.size, progress).write(image.nodes, image.edges)
        except LostEndsError:  # shared knowledge was dropped with another trace; what is there stays
            Writer(db, whole, scope, image.size, progress).write(image.nodes, image.edges)
        session.execute_write(_complete, whole, key, claimed.begun_ns)
    return claimed.outcome


def begun(tx: ManagedTransaction, whole: Whole, properties: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """The properties of the node that stands for a whole, which is made if it is not there; whether it is new."""
    given = {whole.parameter: properties[whole.key], "properties": dict(properties), "now": time.time_ns()}
    found = tx.run(whole.begin, given).single(strict=True)
    return found["t"], found["new"]


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


def judged(whole: Whole, there: Mapping[str, Any], new: bool, wanted: Mapping[str, Any], replace: bool) -> Claim:
    """What is to be done about a node that was just made, or is there.

    Args:
        whole: what kind of node.
        there: its properties.
        new: whether it was just made.
        wanted: properties that it should have.
        replace: whether what is there is dropped.

    Raises:
        DatabaseError: it is there, and differs.
    """
    if new:
        return Claim("pushed", there["begun_ns"])
    if there["state"] == "dropping":
        return Claim("pushed", 0, drop_first=True)
    if replace:
        return Claim("replaced", 0, drop_first=True)
    there, wanted = ({**one, "labels": texts_of(one)} for one in (there, wanted))
    differs = [
        f"{what} ({_shown(key, there.get(key))}, not {_shown(key, wanted.get(key))})"
        for key, what in whole.compared.items()
        if (there.get(key) or None) != (wanted.get(key) or None)
    ]
    if differs:
        called = there.get("path") or there["name"]
        raise DatabaseError(f"{called} is in the database with {' and '.join(differs)}: push it with --replace")
    return Claim("unchanged" if there["state"] == "complete" else "completed", there["begun_ns"])


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
    there, new = begun(tx, TRACE, trace)
    # One rank more: the collectives of the run have to be matched anew.
    tx.run(
        "MATCH (m:Matching {run: $run}) WHERE NOT $id IN m.traces SET m.state = 'dropping'",
        run=trace["run"], id=trace["id"],
    ).consume()  # fmt: skip
    kept = {name: there[name] for name in ("pushed_ns",) if name in there}  # builds stay in their order
    return judged(TRACE, there, new, trace, replace)._replace(kept=kept)


def _shown(key: str, value: Any) -> str:
    if key == "options" and value:
        return Options.of(value).words
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return "none" if value in (None, "") else str(value)


def _complete(tx: ManagedTransaction, whole: Whole, key: str, begun_ns: int) -> None:
    done = tx.run(whole.complete, {whole.parameter: key, "begun": begun_ns, "now": time.time_ns()}).single()
    if done is None:
        raise DatabaseError("what was pushed was dropped or replaced by somebody else meanwhile")


@dataclass
class Writer:
    """Writes what belongs to one node, such as a trace, once.

    The threads are daemons: who interrupts the program need not wait until a server answers that is gone.

    Attributes:
        db: the database.
        whole: what kind of node.
        scope: parameters of all statements.
        size: rows in all.
        progress: called with rows written and rows in all.
    """

    db: OpenDatabase
    whole: Whole
    scope: dict[str, Any]
    size: int
    progress: Progress | None
    _done: int = 0
    _stop: Event = field(default_factory=Event)

    def write(self, nodes: Sequence[Nodes], edges: Sequence[Edges]) -> None:
        """Write nodes, then edges.

        Raises:
            LostEndsError: ends of edges are not in the database.
            DatabaseError: the node that all this belongs to is no longer ours.
        """
        batches = node_batches(nodes)
        self._side_by_side([batches[session::SESSIONS] for session in range(SESSIONS)])
        for stage in edge_stages(edges):
            self._side_by_side(stage)

    def _side_by_side(self, queues: Iterable[Sequence[Batch]]) -> None:
        """Write batches, those of each queue in their order, the queues side by side."""
        news: SimpleQueue[int | BaseException] = SimpleQueue()
        filled = [queue for queue in queues if queue]
        for queue in filled:
            Thread(target=self._work, args=(queue, news), daemon=True).start()
        try:
            for _ in range(sum(map(len, filled))):
                found = news.get()
                if isinstance(found, BaseException):
                    raise found
                self._done += found
                if self.progress:
                    self.progress(min(self._done, self.size), self.size)
        except BaseException:
            self._stop.set()
            raise

    def _work(self, queue: Sequence[Batch], news: SimpleQueue[int | BaseException]) -> None:
        try:
            with self.db.session() as session:
                for batch in queue:
                    if self._stop.is_set():
                        return
                    news.put(self._commit(session, batch))
        except BaseException as error:
            news.put(error)

    def _commit(self, session: Session, batch: Batch) -> int:
        from neo4j.exceptions import IncompleteCommit

        rows = batch.rows()

        def work(tx: ManagedTransaction) -> None:
            if tx.run(self.whole.guard, self.scope).single() is None:
                raise DatabaseError("what was pushed was dropped or replaced by somebody else meanwhile")
            if tx.run(batch.statement, {"rows": rows, **self.scope}).single(strict=True)["found"] != len(rows):
                raise LostEndsError("nodes were dropped by somebody else while edges to them were pushed: push again")

        try:
            session.execute_write(work)
        except IncompleteCommit:  # nobody knows whether it was committed; merging again is safe
            session.execute_write(work)
        return len(rows)
