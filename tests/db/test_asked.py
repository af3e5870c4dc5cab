"""What a question is asked of, and why it has no answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from handmade import small_trace

from tracelens_graph.cypher import library
from tracelens_graph.db.catalog import is_sound, resolve
from tracelens_graph.db.connection import Connection, OpenDatabase
from tracelens_graph.db.database import Database
from tracelens_graph.db.subject import chosen, subject, why_empty
from tracelens_graph.errors import DatabaseError
from tracelens_graph.loading.one import load_core


def trace(number: int, name: str, run: str = "") -> dict[str, Any]:
    key = f"{number:032x}"[::-1]
    run = run or key
    return {
        "id": key, "name": name, "run": run, "path": f"{run}/{name}", "state": "complete", "pushed_ns": number,
        "schema_version": 1, "tool_version": "1", "options": "{}",
    }  # fmt: skip


RANKS = [trace(0x11, "rank0", "job"), trace(0x22, "rank1", "job")]
ALONE = trace(0x33, "bert")
TRACES = [*RANKS, ALONE]
DIFFS = [
    {"a": a["id"], "b": b["id"], "key": f"{a['id']} {b['id']}", "pushed_ns": number}
    for number, (a, b) in enumerate([(RANKS[0], RANKS[1]), (ALONE, RANKS[0])])
]


@pytest.mark.parametrize(
    ("question", "given", "said"),
    [
        ("step_summary", {}, "bert"),
        ("step_summary", {"trace": RANKS[0]["id"]}, "job/rank0"),
        ("kernel_choices", {}, "job/rank1 (a), bert (b)"),
        ("kernel_choices", {"b": RANKS[1]["id"]}, "job/rank0 (a), job/rank1 (b)"),
        ("kernel_choices", {"b": RANKS[0]["id"]}, "job/rank0 (b)"),
        ("diff_places", {}, "bert (a), job/rank0 (b)"),
        ("diff_places", {"b": RANKS[1]["id"]}, "job/rank0 (a), job/rank1 (b)"),
        ("diff_places", {"a": ALONE["id"], "b": RANKS[1]["id"]}, "bert (a), job/rank1 (b)"),
        ("rank_balance", {}, "bert"),
        ("rank_balance", {"run": "job"}, "run job"),
        ("run_history", {}, ""),
        ("run_history", {"run": "job"}, "run job"),
    ],
)
def test_what_a_question_is_asked_of(question: str, given: dict[str, Any], said: str) -> None:
    places = chosen(library()[question], TRACES, DIFFS, given)
    assert subject(TRACES, places) == said
    assert given.items() <= places.items()


def test_what_is_no_trace_is_known() -> None:
    assert all(map(is_sound, TRACES))
    assert is_sound({**ALONE, "label_a": "b", "rank": 3})
    assert not is_sound({"name": "foreign"})
    assert not is_sound({name: value for name, value in ALONE.items() if name != "pushed_ns"})
    assert is_sound({name: value for name, value in {**ALONE, "state": "loading"}.items() if name != "pushed_ns"})
    assert not is_sound({**ALONE, "rank": "5"})
    assert not is_sound({**ALONE, "rank": "3"})


def test_no_rows_have_a_reason(neo4j: Connection) -> None:
    with neo4j.driver() as driver:
        said = why_empty(OpenDatabase(driver, neo4j.database), library()["step_summary"], [], {})
    assert said.startswith("the database holds no complete trace; `tracelens-graph db push")
    with pytest.raises(DatabaseError, match="it holds none: `tracelens-graph db push"):
        resolve([], "x")
    with Database(neo4j) as graphs:
        core = load_core(json.dumps(small_trace() | {"mark": "asked alone"}).encode())
        graphs.push(core, run="asked-alone", name="x")
        table = graphs.ask("odd_layers", trace="asked-alone/x")
        assert table.title.endswith("Asked of asked-alone/x.")
        (note,) = table.notes
        assert note.startswith(
            "nothing of this is in asked-alone/x; how it is found: Layers are modules that differ by"
        )
        (note,) = graphs.ask("slowest_ranks", run="asked-alone").notes
        assert note == "run asked-alone is one trace; this is asked of the ranks of a run, pushed with --run"


def test_a_node_that_is_no_trace_is_not_asked(neo4j: Connection) -> None:
    with Database(neo4j) as graphs:
        graphs.push(load_core(json.dumps(small_trace() | {"mark": "foreign"}).encode()), run="asked", name="sound")
        before = graphs.invalid_traces()
        foreign = "{id: 'foreign', name: 'x', run: 'x', path: 'x/x', state: 'complete'}"
        graphs.ask(f"CREATE (:Trace {foreign})", write=True)
        try:
            assert graphs.invalid_traces() == before + 1
            assert "foreign" not in {one["id"] for one in graphs.traces()}
            assert len(graphs.ask("gpu_timeline"))  # a null is the greatest of pushed_ns
        finally:
            graphs.ask("MATCH (t:Trace {id: 'foreign'}) DELETE t", write=True)
