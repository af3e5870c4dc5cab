"""What a question is asked about: which traces, whether its step, device or op is there, and why there is no answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tracelens_graph.analyses.ops.signatures import EVERY
from tracelens_graph.cypher import Query
from tracelens_graph.db.catalog import called, diffs, matchings, paths, traces
from tracelens_graph.db.connection import OpenDatabase
from tracelens_graph.db.image import Options
from tracelens_graph.errors import DatabaseError
from tracelens_graph.frameworks import PYTORCH
from tracelens_graph.schema import Kind
from tracelens_graph.schema.database import LABEL
from tracelens_graph.utils.suggest import did_you_mean, there_are

_PLACES = {"trace", "a", "b", "run"}
_LAST, _BEFORE = "was pushed last", "was pushed before b"
"""Parameters that name traces or a run, and what the meaning of one says of its default."""

_OF_COMPARISON = "(d:Diff "
"""In the text of a question about a comparison in the database."""

_NO_TRACE = "the database holds no complete trace; `tracelens-graph db push TRACE` puts one there"


def chosen(
    query: Query, complete: Sequence[Mapping[str, Any]], compared: Sequence[Mapping[str, Any]], given: Mapping[str, Any]
) -> dict[str, str]:
    """The traces, by their ids, and the run that a question is asked of, by parameter; none for what means all.

    Where a parameter is not given this is the choice that the text of the question describes.

    Args:
        query: the question.
        complete: all complete traces.
        compared: all complete comparisons.
        given: its parameters; a trace by its id.
    """
    found: dict[str, str] = {name: given[name] for name in _PLACES if given.get(name) is not None}
    if _OF_COMPARISON in query.text:
        fitting = [one for one in compared if all(one[side] == found.get(side, one[side]) for side in "ab")]
        last = min(fitting, key=lambda one: (-one["pushed_ns"], one["key"]), default=found)
        return {**found, **{side: last[side] for side in "ab" if side in last}}
    last_first = sorted(complete, key=lambda trace: (-trace["pushed_ns"], trace["id"]))
    for name in sorted(_PLACES & query.parameters.keys() - found.keys(), reverse=True):  # b before a
        meaning = query.parameters[name]
        if _BEFORE in meaning:
            b = next((one for one in last_first if one["id"] == found.get("b")), None)
            fitting = [one for one in last_first if b and one["id"] != b["id"] and one["pushed_ns"] < b["pushed_ns"]]
        else:
            fitting = last_first if _LAST in meaning else []
        if fitting:
            found[name] = fitting[0]["run" if name == "run" else "id"]
    return found


def subject(complete: Sequence[Mapping[str, Any]], chosen: Mapping[str, str]) -> str:
    """In words what a question is asked of; empty for all traces, or none."""
    by_id = {trace["id"]: trace for trace in complete}
    parts = []
    for name, value in sorted(chosen.items()):
        trace = by_id.get(value)  # also of a run that is one trace
        words = called(complete, trace) if trace else f"run {value}"
        parts.append(words if name in ("trace", "run") else f"{words} ({name})")
    return ", ".join(parts)


def why_empty(db: OpenDatabase, query: Query, complete: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> str:
    """Why a question has no rows; without a known reason, what it looks for.

    Args:
        db: the database.
        query: the question.
        complete: all complete traces.
        given: its parameters, those included that `chosen` gives.
    """
    if not complete:
        return _NO_TRACE
    of = subject(complete, chosen(query, complete, (), given))
    pairs = [(one["a"], one["b"]) for one in diffs(db)] if _OF_COMPARISON in query.text else None
    if pairs is not None and (given.get("a"), given.get("b")) not in pairs:
        return (
            f"no comparison{f' of {of}' if of else ''} is in the database: `tracelens-graph db push-diff A B` adds it"
        )
    if "(g:Matching " in query.text and (reason := _of_ranks(db, query, complete, given)):
        return reason
    if f":{Kind.MemoryEvent.name} " in query.text and (reason := _of_memory(complete, given)):
        return reason
    found = f"nothing of this is in {of}" if of else "there is nothing of this"
    return f"{found}; how it is found: {query.notes}" if query.notes else found


def _of_memory(complete: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> str:
    """Why there are no allocations of a trace."""
    trace = next((one for one in complete if one["id"] == given.get("trace")), None)
    if trace is None:
        return ""
    if Kind.MemoryEvent.name not in Options.of(trace["options"]).kinds:
        return "allocations were left out when the trace was pushed: push it with --replace, and MemoryEvent in --only"
    return PYTORCH.no_allocations if given.get("step") is None else ""


def _of_ranks(db: OpenDatabase, query: Query, complete: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> str:
    """Why a question about the ranks of a run has no rows, if nobody matched these or no such step has a path."""
    run = given["run"]
    of_run = [trace for trace in complete if trace["run"] == run]
    matched = {one["run"]: one for one in matchings(db) if one["state"] == "complete"}
    if run in matched:
        return _no_path(db, matched[run], given.get("step")) if ":CriticalPath)" in query.text else ""
    if len(of_run) < 2:
        return f"{subject(complete, {'run': run})} is one trace; this is asked of the ranks of a run, pushed with --run"
    return f"the collectives of {run} are not matched: push its {len(of_run):,} traces together, with --run"


def _no_path(db: OpenDatabase, matching: Mapping[str, Any], step: int | None) -> str:
    """Why there is no path of a step."""
    if not matching.get("paths"):
        return "there are no GPU events, so there is no path to follow through them"
    steps = ", ".join(str(path["step"]) for path in paths(db, matching["run"]) if "step" in path)
    return f"no rank has GPU work of step {step}; steps with GPU work: {steps or 'none'}"


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

_SPENT_OPS = "MATCH (n:Signature)<-[:SPENT]-() RETURN DISTINCT n.name AS value ORDER BY value"

_NUMBERS = ("step", "device", "stream", "stream_a", "stream_b", "uid")
"""Those that are numbers. A text in a statement of one's own may be a part of a name, or a pattern."""

_CLOSE = 0.8
"""How alike names have to be that one is suggested for the other: those of ops begin alike."""

_LISTED = 10

_WHOLE = "state: 'complete'"
"""What a statement about traces that are there as wholes has."""


def check_values(db: OpenDatabase, query: Query, given: Mapping[str, Any]) -> None:
    """See that a question is asked about something that is there.

    Args:
        db: the database.
        query: a question of the library, or a statement of its form: that is asked about any trace where it is given
            none, and may call anything by a text.
        given: its parameters; a trace by its id.

    Raises:
        DatabaseError: a value is not there; the message says which are.
    """
    is_own = not query.theme
    wanted = {name: value for name, value in given.items() if value not in (None, EVERY) and name in query.defaults}
    if is_own:
        wanted = {name: value for name, value in wanted.items() if name in _NUMBERS and isinstance(value, int | str)}
    known = traces(db)
    complete = [trace for trace in known if trace["state"] == "complete"]
    if "run" in wanted:
        _check("run", wanted["run"], dict.fromkeys(trace["run"] for trace in known))
        of_whole = _WHOLE in query.text  # all but the question about what is not whole
        if of_whole and wanted["run"] not in {trace["run"] for trace in complete}:
            raise DatabaseError(f"run {wanted['run']} has no complete trace: push it again, and it goes on")
    if not is_own:
        if "named" in wanted:
            _check("named", wanted["named"], dict.fromkeys(trace["name"] for trace in complete))
        if "label" in wanted:
            keys = (name.removeprefix(LABEL) for trace in complete for name in trace if name.startswith(LABEL))
            _check("label", wanted["label"], dict.fromkeys(keys))
        if "trace" not in query.defaults and "op" in wanted:
            with db.session(reads=True) as session:
                _check("op", wanted["op"], session.run(_SPENT_OPS).value())
    asked = [name for name in wanted if name in _OF_TRACES and (is_own or "trace" in query.defaults)]
    if not asked:
        return
    if given.get("trace") is not None:
        complete = [trace for trace in complete if trace["id"] == given["trace"]]
    elif not is_own:
        complete = sorted(complete, key=lambda trace: trace["pushed_ns"])[-1:]
    if not complete:
        return
    ids = [trace["id"] for trace in complete]
    with db.session(reads=True) as session:
        for name in asked:
            there = session.run(_OF_TRACES[name], {"traces": ids, "value": wanted[name]}).value()
            if there or not any(trace.get("lean") for trace in complete):  # what is left out may be there all the same
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
