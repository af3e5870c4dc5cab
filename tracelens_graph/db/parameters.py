"""Whether what a question is asked about is in the database: steps, devices, streams, ops, runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tracelens_graph.cypher import Query
from tracelens_graph.db.catalog import traces
from tracelens_graph.errors import DatabaseError
from tracelens_graph.utils.suggest import did_you_mean, there_are

if TYPE_CHECKING:
    from neo4j import Driver

_STREAMS = "MATCH (n:Stream) WHERE n.trace IN $traces RETURN DISTINCT n.stream AS value ORDER BY value"
_UID = "MATCH (n:Event) WHERE n.trace IN $traces AND n.uid = $value RETURN n.uid AS value"
_OF_TRACES: Mapping[str, str] = {
    "step": "MATCH (n:Step) WHERE n.trace IN $traces RETURN DISTINCT n.step AS value ORDER BY value",
    "device": "MATCH (n:Device) WHERE n.trace IN $traces RETURN DISTINCT n.device AS value ORDER BY value",
    "stream": _STREAMS,
    "stream_a": _STREAMS,
    "stream_b": _STREAMS,
    "op": "MATCH (n:Op) WHERE n.trace IN $traces RETURN DISTINCT n.name AS value ORDER BY value",
    "storage": "MATCH (n:Storage) WHERE n.trace IN $traces RETURN DISTINCT n.name AS value ORDER BY value",
    "uid": _UID,
    "under": f"""{_UID} UNION
        MATCH (n:Module|PythonFunction|Op|RuntimeCall) WHERE n.trace IN $traces
        UNWIND [n.name, CASE WHEN n:Module THEN split(n.name, 'nn.Module: ')[-1] END] AS value
        WITH value, max(toInteger(n:Module)) AS module WHERE value IS NOT NULL
        RETURN value ORDER BY module DESC, value STARTS WITH 'nn.', value""",
}
"""Parameter of questions about a trace -> the values there are in it."""

_NUMBERS = ("step", "device", "stream", "stream_a", "stream_b", "uid")
"""Those that are numbers. A text in a statement of one's own may be a part of a name, or a pattern."""

_CLOSE = 0.8
"""How alike names have to be that one is suggested for the other: those of ops begin alike."""

_LISTED = 10


def check_values(driver: Driver, database: str, query: Query, given: Mapping[str, Any]) -> None:
    """See that a question is asked about something that is there.

    Args:
        driver: a connection.
        database: name of the database.
        query: a question of the library, or a statement of its form: that is asked about any trace where it is given
            none, and may call anything by a text.
        given: its parameters; a trace by its id.

    Raises:
        DatabaseError: a value is not there; the message says which are.
    """
    is_own = not query.theme
    wanted = {name: value for name, value in given.items() if value is not None and name in query.defaults}
    if is_own:
        wanted = {name: value for name, value in wanted.items() if name in _NUMBERS and isinstance(value, int | str)}
    if "run" in wanted:
        _check("run", wanted["run"], dict.fromkeys(trace["run"] for trace in traces(driver, database)))
    asked = [name for name in wanted if name in _OF_TRACES and (is_own or "trace" in query.defaults)]
    if not asked:
        return
    complete = [trace for trace in traces(driver, database) if trace["state"] == "complete"]
    if given.get("trace") is not None:
        complete = [trace for trace in complete if trace["id"] == given["trace"]]
    elif not is_own:
        complete = sorted(complete, key=lambda trace: trace["pushed_ns"])[-1:]
    if not complete:
        return
    ids = [trace["id"] for trace in complete]
    with driver.session(database=database, default_access_mode="READ") as session:
        for name in asked:
            there = session.run(_OF_TRACES[name], {"traces": ids, "value": wanted[name]}).value()
            if there or not any(trace.get("lean") for trace in complete):  # what is left out may still be told of
                _check(name, wanted[name], there)


def _check(name: str, value: Any, there: Iterable[Any]) -> None:
    known = list(there)
    if value in known:
        return
    if name == "uid" or (name == "under" and isinstance(value, int)):
        raise DatabaseError(f"{name} {value} is not there: the trace has no such event in the database")
    meant = did_you_mean(str(value), map(str, known), cutoff=_CLOSE) if isinstance(value, str) else ""
    raise DatabaseError(f"{name} {value} is not there; {meant or _there_are(known)}")


def _there_are(values: Sequence[Any]) -> str:
    """The values; whole numbers that follow each other as `1 ... 5`."""
    if len(values) == 1:
        return f"there is only {values[0]}"
    if len(values) < 3 or any(not isinstance(one, int) or other - one != 1 for one, other in pairwise(values)):
        return there_are(map(str, values), most=_LISTED)
    return f"there are {values[0]} ... {values[-1]}"
