"""Forgetting the events of traces: their facts stay, as if facts alone had been pushed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tracelens_graph.db.catalog import DELETED_AT_ONCE, drop_whole
from tracelens_graph.db.connection import OpenDatabase
from tracelens_graph.db.image import Options
from tracelens_graph.db.statements import DELETE_UNUSED, DIFF, MATCHING
from tracelens_graph.schema.database import EVENT, KEYS

if TYPE_CHECKING:
    from neo4j import ManagedTransaction

FACTS = Options(kinds=())
"""What is pushed of a trace whose events are forgotten."""

_KEPT = ("Device", "StepTime")
"""Labels of what belongs to one trace and is a fact."""

_BEGIN = "MATCH (t:Trace {id: $trace}) SET t.options = $options, t.lean = true"
"""From its commit on nobody asks the trace for events."""

_EVENTS = (
    f"MATCH (n:{EVENT}) WHERE n.trace = $trace AND n.pre >= 0 WITH n LIMIT $limit "
    "DETACH DELETE n RETURN count(*) AS deleted"
)
_CONTEXT = tuple(
    f"MATCH (n:{label} {{trace: $trace}}) WITH n LIMIT $limit DETACH DELETE n RETURN count(*) AS deleted"
    for label, key in KEYS.items()
    if key.scope == "trace" and label not in (EVENT, *_KEPT)
)
_END = (
    *(f"MATCH (n:{label} {{run: $run}}) WHERE NOT EXISTS {{ (n)<--() }} DETACH DELETE n"
      for label in ("Collective", "ProcessGroup")),
    "MATCH (t:Trace {id: $trace}) SET t.nodes = 0, t.pulled_edges = '{}', t.edges = COUNT { (t)--() }",
)  # fmt: skip


def forget_events(
    db: OpenDatabase, trace: Mapping[str, Any], progress: Callable[[int, int], None] | None = None
) -> None:
    """Delete the events of a trace, what else belongs to it alone, and its comparisons; facts stay.

    In batches, and to be gone on with if it is cut off. The matching of its run goes, too: it holds times of events.

    Args:
        db: the database.
        trace: properties of a complete trace.
        progress: called with events deleted and events in all.
    """
    given = {"trace": trace["id"], "run": trace["run"], "options": FACTS.text, "limit": DELETED_AT_ONCE}
    events, done = trace.get("nodes", 0), 0
    with db.session() as session:
        session.execute_write(_run, (_BEGIN,), given)
        for diff in session.execute_read(_diffs_of, trace["id"]):
            drop_whole(db, DIFF, diff)
        drop_whole(db, MATCHING, trace["run"])
        while deleted := session.execute_write(_deleted, _EVENTS, given):
            done += deleted
            if progress:
                progress(min(done, events), events)
        for statement in (*_CONTEXT, *DELETE_UNUSED):
            while session.execute_write(_deleted, statement, given):
                pass
        session.execute_write(_run, _END, given)


def _run(tx: ManagedTransaction, statements: Iterable[str], given: Mapping[str, Any]) -> None:
    for statement in statements:
        tx.run(statement, dict(given)).consume()


def _deleted(tx: ManagedTransaction, statement: str, given: Mapping[str, Any]) -> int:
    return tx.run(statement, dict(given)).single(strict=True)["deleted"]


def _diffs_of(tx: ManagedTransaction, trace: str) -> list[str]:
    return tx.run("MATCH (d:Diff)-[:COMPARES]->(:Trace {id: $trace}) RETURN d.key", trace=trace).value()
