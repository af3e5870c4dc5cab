"""What traces are in a database, and how they leave it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from tracelens_graph.errors import DatabaseError
from tracelens_graph.schema.database import KEYS, KNOWLEDGE
from tracelens_graph.stores.neo4j.statements import DELETE_EVENTS

if TYPE_CHECKING:
    from neo4j import Driver, ManagedTransaction

_TRACES = "MATCH (t:Trace) RETURN properties(t) AS t ORDER BY t.run, t.rank, t.name"
_OF_TRACE = [label for label, key in KEYS.items() if key.scope == "trace" and label != "Event"]


def traces(driver: Driver, database: str) -> list[dict[str, Any]]:
    """Properties of all traces, by run, rank and name; also of those that are not complete."""
    found, *_ = driver.execute_query(_TRACES, database_=database, routing_="r")
    return [record["t"] for record in found]


def resolve(known: Sequence[Mapping[str, Any]], wanted: str) -> Mapping[str, Any]:
    """The trace that is meant by an id, `run/name` or name.

    Raises:
        DatabaseError: there is none, or several are called so.
    """
    by_path = [trace for trace in known if wanted in (trace["id"], trace.get("path"))]
    found = by_path or [trace for trace in known if trace.get("name") == wanted]
    if len(found) > 1:
        raise DatabaseError(f"{wanted} is the name of several traces: {', '.join(trace['path'] for trace in found)}")
    if not found:
        names = [name for trace in known for name in (trace.get("path"), trace.get("name")) if name]
        near = get_close_matches(wanted, names, 1)
        raise DatabaseError(f"no trace {wanted!r} is in the database{f'; did you mean {near[0]}?' if near else ''}")
    return found[0]


def drop_trace(driver: Driver, database: str, trace: str) -> None:
    """Delete a trace, and knowledge that no other trace uses; in batches, and to be gone on with if it is cut off.

    Knowledge stays while another trace is being pushed, which may be about to use it.
    """
    with driver.session(database=database) as session:
        run = session.execute_write(_begin, trace)
        session.run(DELETE_EVENTS, trace=trace).consume()
        session.execute_write(_end, trace, run)
        for label in KNOWLEDGE:
            session.run(
                f"MATCH (n:{label}) WHERE NOT EXISTS {{ (n)<--() }} AND NOT EXISTS {{ (:Trace {{state: 'loading'}}) }} "
                "CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 10000 ROWS"
            ).consume()


def _begin(tx: ManagedTransaction, trace: str) -> str | None:
    record = tx.run("MATCH (t:Trace {id: $id}) SET t.state = 'dropping' RETURN t.run AS run", id=trace).single()
    return record["run"] if record else None


def _end(tx: ManagedTransaction, trace: str, run: str | None) -> None:
    tx.run(f"MATCH (n:{'|'.join(_OF_TRACE)} {{trace: $trace}}) DETACH DELETE n", trace=trace).consume()
    for label in ("Collective", "ProcessGroup"):
        tx.run(f"MATCH (n:{label}) WHERE n.run = $run AND NOT EXISTS {{ (n)<--() }} DETACH DELETE n", run=run).consume()
    tx.run("MATCH (t:Trace {id: $trace}) DETACH DELETE t", trace=trace).consume()
    tx.run("MATCH (r:Run {name: $run}) WHERE NOT EXISTS { (r)<--() } DETACH DELETE r", run=run).consume()
