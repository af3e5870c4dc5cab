"""Writing nodes and edges in batches, in two sessions side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from tracelens_graph.db.batches import SESSIONS, Batch, edge_stages, node_batches
from tracelens_graph.db.image import Edges, Nodes
from tracelens_graph.db.statements import Whole
from tracelens_graph.errors import DatabaseError, LostEndsError

if TYPE_CHECKING:
    from neo4j import Driver, ManagedTransaction, Session

Progress = Callable[[int, int], None]


class Writer:
    """Writes what belongs to one node, such as a trace.

    The threads are daemons: who interrupts the program need not wait until a server answers that is gone.

    Args:
        driver: a connection.
        database: name of the database.
        whole: what kind of node.
        scope: parameters of all statements.
        size: rows in all.
        progress: called with rows written and rows in all.
    """

    def __init__(
        self,
        driver: Driver,
        database: str,
        whole: Whole,
        scope: Mapping[str, Any],
        size: int,
        progress: Progress | None,
    ) -> None:
        self._driver = driver
        self._database = database
        self._guard = whole.guard
        self._scope = dict(scope)
        self._size = size
        self._done = 0
        self._progress = progress
        self._stop = Event()

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

        rows = batch.rows()

        def work(tx: ManagedTransaction) -> None:
            if tx.run(self._guard, self._scope).single() is None:
                raise DatabaseError("what was pushed was dropped or replaced by somebody else meanwhile")
            if tx.run(batch.statement, {"rows": rows, **self._scope}).single(strict=True)["found"] != len(rows):
                raise LostEndsError("nodes were dropped by somebody else while edges to them were pushed: push again")

        try:
            session.execute_write(work)
        except IncompleteCommit:  # nobody knows whether it was committed; merging again is safe
            session.execute_write(work)
        return len(rows)
