"""What traces are in a database, how they leave it, and how their events do: facts stay, as if pushed alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracelens_graph.db.connection import OpenDatabase
from tracelens_graph.db.image import Options
from tracelens_graph.db.statements import (
    DELETE_CONTEXT,
    DELETE_EVENTS,
    DELETE_UNUSED,
    DELETE_UNUSED_OF_RUN,
    DELETIONS,
    DIFF,
    MATCHING,
    TRACE,
    Whole,
)
from tracelens_graph.errors import DatabaseError
from tracelens_graph.schema import SCHEMA_VERSION
from tracelens_graph.schema.database import CONTEXT_PROPERTIES, DATABASE_VERSION, EVENT, KEYS
from tracelens_graph.schema.stored import Type
from tracelens_graph.utils.suggest import did_you_mean, there_are

if TYPE_CHECKING:
    from neo4j import ManagedTransaction, Session

DELETED_AT_ONCE = 5000
"""Nodes of a transaction, with all their edges."""

_NAMED = 10
"""Traces that an error names, of those there are."""

_ONCE = ".xplane.pb"
"""What names of profiles of JAX ended with in earlier versions."""

_ALWAYS = {"id", "name", "run", "path", "state"}
_COMPLETE = {"pushed_ns", "schema_version", "tool_version", "options"}
"""Properties that every trace has, and every complete one."""

_BEGINNING = 8
"""Characters of an id that stand for it, at least."""

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

_TRACES = "MATCH (t:Trace) RETURN properties(t) AS t ORDER BY t.run, t.rank, t.name"
_DIFFS = "MATCH (d:Diff) RETURN properties(d) AS d ORDER BY d.name, d.key"
_PATHS = "MATCH (c:CriticalPath) WHERE c.run = $run AND c.number >= 0 RETURN properties(c) AS c ORDER BY c.number"
_MATCHINGS = "MATCH (m:Matching) RETURN properties(m) AS m ORDER BY m.run"


def size(db: OpenDatabase) -> tuple[int, int]:
    """Numbers of all nodes and of all edges."""
    (nodes,) = _listed(db, "MATCH (n) RETURN {number: count(n)}")
    (edges,) = _listed(db, "MATCH ()-[e]->() RETURN {number: count(e)}")
    return nodes["number"], edges["number"]


def traces(db: OpenDatabase) -> list[dict[str, Any]]:
    """Properties of all traces, by run, rank and name; also of those that are not complete."""
    return [trace for trace in _listed(db, _TRACES) if is_sound(trace)]


def invalid(db: OpenDatabase) -> int:
    """How many nodes bear the label of traces and are none: others wrote or changed them."""
    return sum(not is_sound(trace) for trace in _listed(db, _TRACES))


def is_sound(trace: Mapping[str, Any]) -> bool:
    """Whether properties are those of a trace: what every one has is there, and all of them are of their types."""
    wanted = _ALWAYS | _COMPLETE if trace.get("state") == "complete" else _ALWAYS
    return wanted <= trace.keys() and all(
        _fits(trace[stored.name], stored.type) for stored in CONTEXT_PROPERTIES["Trace"] if stored.name in trace
    )


def is_current(trace: Mapping[str, Any]) -> bool:
    """Whether a complete trace is stored as this version stores traces."""
    return (trace["schema_version"], trace.get("database_version")) == (SCHEMA_VERSION, DATABASE_VERSION)


def why_outdated(trace: Mapping[str, Any]) -> str:
    """What to do about a trace that is stored in another way."""
    stored = f"{trace['schema_version']}.{trace.get('database_version', 0)}"
    ours = f"{SCHEMA_VERSION}.{DATABASE_VERSION}"
    return (
        f"{trace.get('path', trace['id'])} is stored in model {stored} of the database, and this version reads model "
        f"{ours}: `tracelens-graph db upgrade FILE` pushes it again"
    )


def checked(trace: Mapping[str, Any]) -> Mapping[str, Any]:
    """A trace that can be read.

    Raises:
        DatabaseError: it is not complete, or is stored by another version.
    """
    if trace["state"] != "complete":
        raise DatabaseError(f"{trace['path']} is not complete in the database ({trace['state']}): push it again")
    if not is_current(trace):
        raise DatabaseError(why_outdated(trace))
    return trace


def _fits(value: Any, kind: Type) -> bool:
    """Whether a property is of a type."""
    if kind == "strs":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return type(value).__name__ == kind


def diffs(db: OpenDatabase) -> list[dict[str, Any]]:
    """Properties of all comparisons, by name; also of those that are not complete."""
    return _listed(db, _DIFFS)


def matchings(db: OpenDatabase) -> list[dict[str, Any]]:
    """Properties of the matchings of ranks, by run; also of those that are not complete."""
    return _listed(db, _MATCHINGS)


def paths(db: OpenDatabase, run: str) -> list[dict[str, Any]]:
    """Properties of the critical paths of a run, by number."""
    return _listed(db, _PATHS, run=run)


def _listed(db: OpenDatabase, statement: str, **parameters: Any) -> list[dict[str, Any]]:
    db.reach()
    with db.session(reads=True) as session:  # which does not try for long
        return session.run(statement, parameters).value()


def meant(known: Sequence[Mapping[str, Any]], wanted: str) -> list[Mapping[str, Any]]:
    """All traces of the run of that name, else the trace that is meant.

    Raises:
        DatabaseError: nothing is called so, or several traces are.
    """
    return [trace for trace in known if trace["run"] == wanted] or [resolve(known, wanted)]


def resolve(known: Sequence[Mapping[str, Any]], wanted: str) -> Mapping[str, Any]:
    """The trace that is meant by an id or the beginning of one, `run/name` or name.

    Raises:
        DatabaseError: there is none, or several are called so.
    """
    found = _called_so(known, wanted)
    if len(found) > 1:
        raise DatabaseError(f"{wanted} is the name of several traces: {', '.join(trace['path'] for trace in found)}")
    if not known:
        raise DatabaseError(
            f"no trace {wanted!r} is in the database; it holds none: `tracelens-graph db push TRACE` puts one there"
        )
    if not found:
        paths = [called(known, trace) for trace in known]
        names = [trace["name"] for trace in known if trace.get("name")]
        hint = did_you_mean(wanted.removesuffix(_ONCE), [*names, *paths]) or there_are(paths, most=_NAMED)
        raise DatabaseError(f"no trace {wanted!r} is in the database; {hint}")
    return found[0]


def called(known: Sequence[Mapping[str, Any]], trace: Mapping[str, Any]) -> str:
    """What one calls a trace: `run/name`; its name where it is a run of its own, the beginning of its id if need be."""
    short = trace["name"] if trace["run"] == trace["id"] else trace["path"]
    names = (short, trace["id"][:12])
    return next((name for name in names if len(_called_so(known, name)) == 1), trace["id"])


def _called_so(known: Sequence[Mapping[str, Any]], wanted: str) -> list[Mapping[str, Any]]:
    """The traces that a name may mean; names of traces without a run come before those in runs, which have a path."""
    return (
        [trace for trace in known if wanted in (trace["id"], trace.get("path"))]
        or [trace for trace in known if trace["run"] == trace["id"] and trace.get("name") == wanted]
        or [trace for trace in known if trace.get("name") == wanted]
        or [trace for trace in known if len(wanted) >= _BEGINNING and trace["id"].startswith(wanted)]
    )


def drop_trace(db: OpenDatabase, trace: str, progress: Callable[[int, int], None] | None = None) -> None:
    """Delete a trace, its comparisons, the matching of its run, and knowledge that no other trace uses.

    In batches, and to be gone on with if it is cut off.
    Knowledge stays while another trace is being pushed, which may be about to use it.

    Args:
        db: the database.
        trace: its id.
        progress: called with events deleted and events in all.
    """
    with db.session() as session:
        began = session.execute_write(_begin, TRACE, trace)
        if began is None:
            return
        # From now on nobody begins to push a comparison of it, or to match it with other ranks.
        given = {"trace": trace, "begun": began["begun_ns"], "run": began["run"], "limit": DELETED_AT_ONCE}
        _delete_events(db, session, DELETE_EVENTS, given, began.get("nodes", 0), progress)
        session.execute_write(_run_all, DELETE_CONTEXT, given)
        _delete_all(session, DELETE_UNUSED, given)


def drop_whole(db: OpenDatabase, whole: Whole, key: str) -> None:
    """Delete a comparison or a matching, in batches, and to be gone on with if it is cut off.

    Args:
        db: the database.
        whole: which of the two it is.
        key: its key.
    """
    with db.session() as session:
        began = session.execute_write(_begin, whole, key)
        if began is None:
            return
        given = {whole.parameter: key, "begun": began["begun_ns"], "limit": DELETED_AT_ONCE}
        _delete_all(session, DELETIONS[whole], given)


def _delete_events(
    db: OpenDatabase, session: Session, statement: str, given: Mapping[str, Any], events: int,
    progress: Callable[[int, int], None] | None,
) -> None:  # fmt: skip
    """Delete the events of a trace by a statement, and before that its comparisons and the matching of its run."""
    for diff in session.execute_read(_diffs_of, given["trace"]):
        drop_whole(db, DIFF, diff)
    drop_whole(db, MATCHING, given["run"])
    done = 0
    while deleted := session.execute_write(_delete, statement, given):
        done += deleted
        if progress:
            progress(min(done, events), events)


def _delete_all(session: Session, statements: Iterable[str], given: Mapping[str, Any]) -> None:
    """Run each of some statements that delete until nothing is left."""
    for statement in statements:
        while session.execute_write(_delete, statement, given):
            pass


def _begin(tx: ManagedTransaction, whole: Whole, key: str) -> Mapping[str, Any] | None:
    found = tx.run(whole.begin_drop, {whole.parameter: key, "now": time.time_ns()}).single()
    return found["t"] if found else None


def _diffs_of(tx: ManagedTransaction, trace: str) -> list[str]:
    return tx.run("MATCH (d:Diff)-[:COMPARES]->(:Trace {id: $trace}) RETURN d.key", trace=trace).value()


def _delete(tx: ManagedTransaction, statement: str, parameters: Mapping[str, Any]) -> int:
    return tx.run(statement, dict(parameters)).single(strict=True)["deleted"]


def _run_all(tx: ManagedTransaction, statements: Iterable[str], parameters: Mapping[str, Any]) -> None:
    for statement in statements:
        tx.run(statement, dict(parameters)).consume()


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
    with db.session() as session:
        session.execute_write(_run_all, (_BEGIN,), given)
        _delete_events(db, session, _EVENTS, given, trace.get("nodes", 0), progress)
        _delete_all(session, (*_CONTEXT, *DELETE_UNUSED), given)
        session.execute_write(_run_all, (*DELETE_UNUSED_OF_RUN, _END), given)
