"""Whether what a question is asked about is in the database: steps, devices, streams, ops, runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tracelens_graph.cypher import Query
from tracelens_graph.errors import DatabaseError
from tracelens_graph.stores.neo4j.catalog import traces
from tracelens_graph.suggest import did_you_mean, there_are

if TYPE_CHECKING:
    from neo4j import Driver

_STREAMS = "MATCH (n:Stream) WHERE n.trace = $trace RETURN DISTINCT n.stream AS value ORDER BY value"
_OF_TRACES: Mapping[str, str] = {
    "step": "MATCH (n:Step) WHERE n.trace = $trace RETURN DISTINCT n.step AS value ORDER BY value",
    "device": "MATCH (n:Device) WHERE n.trace = $trace RETURN DISTINCT n.device AS value ORDER BY value",
    "stream_a": _STREAMS,
    "stream_b": _STREAMS,
    "op": "MATCH (n:Op) WHERE n.trace = $trace RETURN DISTINCT n.name AS value ORDER BY value",
    "storage": "MATCH (n:Storage) WHERE n.trace = $trace RETURN DISTINCT n.name AS value ORDER BY value",
    "uid": "MATCH (n:Event {trace: $trace, uid: $uid}) RETURN n.uid AS value",
}
"""Parameter of questions about a trace -> the values there are in it."""

_LISTED = 10


def check_values(driver: Driver, database: str, query: Query, given: Mapping[str, Any]) -> None:
    """See that a question is asked about something that is there.

    Args:
        driver: a connection.
        database: name of the database.
        query: a question of the library.
        given: its parameters; a trace by its id.

    Raises:
        DatabaseError: a value is not there; the message says which are.
    """
    wanted = {name: value for name, value in given.items() if value is not None}
    if "run" in wanted:
        _check("run", wanted["run"], dict.fromkeys(trace["run"] for trace in traces(driver, database)))
    asked = [name for name in wanted if name in _OF_TRACES and "trace" in query.defaults]
    if not asked:
        return
    complete = [trace for trace in traces(driver, database) if trace["state"] == "complete"]
    if "trace" in wanted:
        complete = [trace for trace in complete if trace["id"] == wanted["trace"]]
    if not complete:
        return
    last = max(complete, key=lambda trace: trace["pushed_ns"])
    with driver.session(database=database, default_access_mode="READ") as session:
        for name in asked:
            there = session.run(_OF_TRACES[name], {"trace": last["id"], name: wanted[name]}).value()
            if there or not last.get("lean"):  # what was left out may still be told of by what was not
                _check(name, wanted[name], there)


def _check(name: str, value: Any, there: Iterable[Any]) -> None:
    known = list(there)
    if value in known:
        return
    if name == "uid":
        raise DatabaseError(f"uid {value} is not there: the trace has no such event in the database")
    meant = did_you_mean(str(value), map(str, known)) if isinstance(value, str) else ""
    raise DatabaseError(f"{name} {value} is not there; {meant or _there_are(known)}")


def _there_are(values: Sequence[Any]) -> str:
    """The values; whole numbers that follow each other as `1 ... 5`."""
    if len(values) < 3 or any(not isinstance(one, int) or other - one != 1 for one, other in pairwise(values)):
        return there_are(map(str, values), most=_LISTED)
    return f"there are {values[0]} ... {values[-1]}"
