"""What a question of the library is asked of, in words: which traces, and why there is no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracelens_graph.cypher import Query
from tracelens_graph.db.catalog import called, matchings, paths
from tracelens_graph.db.image import Options
from tracelens_graph.schema import Kind

if TYPE_CHECKING:
    from neo4j import Driver

_PLACES = {"trace", "a", "b", "run"}
_LAST, _BEFORE = "was pushed last", "was pushed before b"
"""Parameters that name traces or a run, and what the meaning of one says of its default."""

_NO_TRACE = "the database holds no complete trace; `tracelens-graph db push TRACE` puts one there"


def chosen(query: Query, complete: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> dict[str, str]:
    """The traces, by their ids, and the run that a question is asked of, by parameter; none for what means all.

    Where a parameter is not given this is the choice that the text of the question describes.

    Args:
        query: the question.
        complete: all complete traces.
        given: its parameters; a trace by its id.
    """
    found: dict[str, str] = {name: given[name] for name in _PLACES if given.get(name) is not None}
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
        told = called(complete, trace) if trace else f"run {value}"
        parts.append(told if name in ("trace", "run") else f"{told} ({name})")
    return ", ".join(parts)


def why_empty(
    driver: Driver, database: str, query: Query, complete: Sequence[Mapping[str, Any]], given: Mapping[str, Any]
) -> str:
    """Why a question has no rows; without a known reason, what it looks for.

    Args:
        driver: a connection.
        database: name of the database.
        query: the question.
        complete: all complete traces.
        given: its parameters, those included that `chosen` tells.
    """
    if not complete:
        return _NO_TRACE
    of = subject(complete, chosen(query, complete, given))
    if "(g:Matching " in query.text and (reason := _of_ranks(driver, database, query, complete, given)):
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
    return "no allocation is recorded: record with profile_memory=True" if given.get("step") is None else ""


def _of_ranks(
    driver: Driver, database: str, query: Query, complete: Sequence[Mapping[str, Any]], given: Mapping[str, Any]
) -> str:
    """Why a question about the ranks of a run has no rows, if nobody matched these or no such step has a path."""
    run = given["run"]
    of_run = [trace for trace in complete if trace["run"] == run]
    matched = {one["run"]: one for one in matchings(driver, database) if one["state"] == "complete"}
    if run in matched:
        return _no_path(driver, database, matched[run], given.get("step")) if ":CriticalPath)" in query.text else ""
    if len(of_run) < 2:
        return f"{subject(complete, {'run': run})} is one trace; this is asked of the ranks of a run, pushed with --run"
    return f"the collectives of {run} are not matched: push its {len(of_run):,} traces together, with --run"


def _no_path(driver: Driver, database: str, matching: Mapping[str, Any], step: int | None) -> str:
    """Why there is no path of a step."""
    if not matching.get("paths"):
        return "there are no GPU events, so there is no path to follow through them"
    steps = ", ".join(str(path["step"]) for path in paths(driver, database, matching["run"]) if "step" in path)
    return f"no rank has GPU work of step {step}; steps with GPU work: {steps or 'none'}"
