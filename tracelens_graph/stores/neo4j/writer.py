"""Writing nodes and edges in batches, in several sessions side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from queue import SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tracelens_graph.errors import DatabaseError
from tracelens_graph.stores.neo4j.batching import ranges_by_size
from tracelens_graph.stores.neo4j.image import Edges, Nodes
from tracelens_graph.stores.neo4j.statements import TRACE, Whole, write_edges, write_nodes

if TYPE_CHECKING:
    from neo4j import Driver, ManagedTransaction, Session

BATCH = 5000
"""Rows of a transaction: less costs time, more brings none."""

BATCH_BYTES = 8_000_000
"""Characters of text in a transaction, so that long names fill neither memory; a longer row goes alone."""

FEW = 1000
"""Rows that one session writes alone."""

SESSIONS = 2
"""Transactions side by side; more were slower."""

Progress = Callable[[int, int], None]


class LostEndsError(DatabaseError):
    """Nodes that were written are gone again: somebody dropped traces at the same time."""


class Batch(NamedTuple):
    """Rows `low` to `high` of some nodes or edges, written in one transaction."""

    statement: str
    group: Nodes | Edges
    low: int
    high: int


def batches(group: Nodes | Edges, sessions: int = SESSIONS, whole: Whole = TRACE) -> list[list[Batch]]:
    """Batches of nodes or edges: for each session those of a stretch of its own, all about as large.

    So two sessions rarely want the same node, and end at about the same time.
    """
    statement = write_nodes(group, whole) if isinstance(group, Nodes) else write_edges(group, whole)
    stretches = _stretches(group, sessions if len(group) > FEW else 1)
    return [
        [Batch(statement, group, low, high) for part in _parts(stretch, -(-len(stretch) // BATCH))
         for low, high in _fitting(group, part)]
        for stretch in stretches if stretch
    ]  # fmt: skip


def _stretches(group: Nodes | Edges, number: int) -> list[range]:
    """About equal parts of the rows, if possible cut where the edges of a node end."""
    ends = [len(group) * i // number for i in range(number + 1)]
    if isinstance(group, Edges) and number > 1:
        column = np.asarray(group.columns[0 if group.by_source else 1])
        changes = np.flatnonzero(column[1:] != column[:-1]) + 1
        for i in range(1, number):
            near = changes[np.abs(changes - ends[i]) < len(group) // (4 * number)]
            if len(near):
                ends[i] = int(near[np.argmin(np.abs(near - ends[i]))])
    return [range(low, high) for low, high in pairwise(ends)]


def _parts(rows: range, number: int) -> list[range]:
    ends = [rows.start + len(rows) * i // number for i in range(number + 1)]
    return [range(low, high) for low, high in pairwise(ends)]


def _fitting(group: Nodes | Edges, rows: range) -> Iterator[tuple[int, int]]:
    """The rows, in ranges that hold no more text than a transaction may."""
    if isinstance(group, Edges):  # keys are short
        return iter([(rows.start, rows.stop)])
    return ranges_by_size(rows.start, group.sizes[rows.start : rows.stop], BATCH_BYTES)


class Writer:
    """Writes batches of one trace.

    The threads are daemons: who interrupts the program need not wait until a server answers that is gone.

    Args:
        driver: a connection.
        database: name of the database.
        scope: parameters of all statements.
        size: rows in all.
        progress: called with rows written and rows in all.
    """

    def __init__(
        self, driver: Driver, database: str, scope: Mapping[str, Any], size: int, progress: Progress | None
    ) -> None:
        self._driver = driver
        self._database = database
        self._scope = scope
        self._size = size
        self._done = 0
        self._progress = progress
        self._stop = Event()

    def write(self, queues: Iterable[Sequence[Batch]]) -> None:
        """Write batches, those of each queue in their order, the queues side by side.

        Raises:
            LostEndsError: ends of edges are not in the database.
            DatabaseError: the trace is no longer ours.
        """
        news: SimpleQueue[int | BaseException] = SimpleQueue()
        queues = [queue for queue in queues if queue]
        for queue in queues:
            Thread(target=self._work, args=(queue, news), daemon=True).start()
        try:
            for _ in range(sum(map(len, queues))):
                said = news.get()
                if isinstance(said, BaseException):
                    raise said
                self._done += said
                if self._progress:
                    self._progress(min(self._done, self._size), self._size)
        except BaseException:
            self._stop.set()
            raise

    def _work(self, queue: Sequence[Batch], news: SimpleQueue[int | BaseException]) -> None:
        try:
            with self._driver.session(database=self._database) as session:
                for batch in queue:
                    if self._stop.is_set():
                        return
                    news.put(self._commit(session, batch))
        except BaseException as error:
            news.put(error)

    def _commit(self, session: Session, batch: Batch) -> int:
        from neo4j.exceptions import IncompleteCommit

        rows = batch.group.rows(batch.low, batch.high)
        parameters = {"rows": rows, **self._scope}

        def work(tx: ManagedTransaction) -> None:
            record = tx.run(batch.statement, parameters).single()
            if record is None:
                raise DatabaseError("what was pushed was dropped or replaced by somebody else meanwhile")
            if record["found"] != len(rows):
                raise LostEndsError("nodes were dropped by somebody else while edges to them were pushed: push again")

        try:
            session.execute_write(work)
        except IncompleteCommit:  # nobody knows whether it was committed; merging again is safe
            session.execute_write(work)
        return len(rows)
