"""Forgetting the events of traces: their facts stay, as if facts alone had been pushed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tracelens_graph.db.catalog import DELETED_AT_ONCE, delete, diffs_of, drop_whole, run_all
from tracelens_graph.db.connection import OpenDatabase
from tracelens_graph.db.image import Options
from tracelens_graph.db.statements import DELETE_UNUSED, DELETE_UNUSED_OF_RUN, DIFF, MATCHING
from tracelens_graph.schema.database import EVENT, KEYS

FACTS = Options(kinds=())
"""What is pushed of a trace whose events are forgotten."""

_KEPT = ("Device", "StepTime")
"""Labels of what belongs to one trace and is a fact."""

_BEGIN = "MATCH (t:Trace {id: $trace}) SET t.options = $options, t.lean = true"
"""From its commit on nobody asks the trace for events."""

_ITS = "MATCH (n:{} {{trace: $trace}}) {}WITH n LIMIT $limit DETACH DELETE n RETURN count(*) AS deleted"
_EVENTS = _ITS.format(EVENT, "WHERE n.pre >= 0 ")
_CONTEXT = tuple(
    _ITS.format(label, "") for label, key in KEYS.items() if key.scope == "trace" and label not in (EVENT, *_KEPT)
)
_END = "MATCH (t:Trace {id: $trace}) SET t.nodes = 0, t.pulled_edges = '{}', t.edges = COUNT { (t)--() }"


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
        session.execute_write(run_all, (_BEGIN,), given)
        for diff in session.execute_read(diffs_of, trace["id"]):
            drop_whole(db, DIFF, diff)
        drop_whole(db, MATCHING, trace["run"])
        while deleted := session.execute_write(delete, _EVENTS, given):
            done += deleted
            if progress:
                progress(min(done, events), events)
        for statement in (*_CONTEXT, *DELETE_UNUSED):
            while session.execute_write(delete, statement, given):
                pass
        session.execute_write(run_all, (*DELETE_UNUSED_OF_RUN, _END), given)
