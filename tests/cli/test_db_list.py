"""`db list`, and the columns that `db query` shows, on a real server."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from handmade import Run, small_trace

from tracelens_graph.cli.db.catalog import _listed, _on_screen
from tracelens_graph.db.connection import Connection
from tracelens_graph.db.image import Options


@pytest.fixture
def database(run: Run, neo4j: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A trace file, pushed without a run; the database is that of the environment."""
    for name, value in (("URI", neo4j.uri), ("USER", neo4j.user), ("PASSWORD", neo4j.password)):
        monkeypatch.setenv(f"NEO4J_{name}", value)
    file = tmp_path / "listed.json"
    file.write_text(json.dumps(small_trace() | {"mark": "db list"}))
    labels = "--label", "kind=small", "--label", "made=by-hand-for-this-test"
    assert run("db", "push", file, *labels)[0] == 0
    return file


def test_the_name_that_works_and_the_time_are_shown(run: Run, database: Path) -> None:
    _, text, _ = run("db", "list")
    _, listed, _ = run("db", "list", "--format", "csv")
    row = next(row for row in csv.DictReader(io.StringIO(listed)) if row["trace"] == "listed")
    line = next(line for line in text.splitlines() if line.startswith("listed "))
    assert row["pushed"] in line
    assert "(a wider terminal or -f csv shows them)" in " ".join(text.split())
    assert run("db", "query", "gpu_timeline", "-p", f"trace={row['trace']}")[0] == 0


def test_columns_do_not_depend_on_how_fast_traces_were_pushed() -> None:
    few = Options(kinds=("Op", "Kernel", "Memcpy", "Memset"), min_gpu_time_ns=5_000)

    def columns(*seconds: int) -> str:
        traces = [
            {"id": f"{rank}" * 32, "run": "job", "name": f"rank{rank}", "path": f"job/rank{rank}", "rank": rank,
             "state": "complete", "nodes": 678, "edges": 3412 + rank, "pushed_ns": second * 10**9, "lean": rank == 1,
             "options": few.text, "labels": [f"commit={rank}f2a9c"], "architecture": "h100-sxm"}
            for rank, second in enumerate(seconds)
        ]  # fmt: skip
        lines = _on_screen(_listed(traces, 0)).text(100).splitlines()
        return next(line for line in lines if line.startswith("trace "))

    assert columns(1_790_000_000, 1_790_000_000) == columns(1_790_000_000, 1_790_000_004)
    assert "pushed" in columns(1_790_000_000, 1_790_000_000)


def test_traces_of_one_name_are_listed_by_what_each_is_asked_by(run: Run, database: Path, tmp_path: Path) -> None:
    for mark in "ab":
        file = tmp_path / mark / "twice.json"
        file.parent.mkdir()
        file.write_text(json.dumps(small_trace() | {"mark": f"twice {mark}"}))
        assert run("db", "push", file)[0] == 0
    rows = [row for row in csv.DictReader(io.StringIO(run("db", "list", "-f", "csv")[1])) if row["name"] == "twice"]
    assert len(rows) == 2
    for row in rows:
        assert row["id"].startswith(row["trace"])
        assert run("db", "query", "gpu_timeline", "-p", f"trace={row['trace']}")[0] == 0
        assert run("db", "drop", row["trace"], "--yes")[0] == 0


def test_what_is_no_trace_is_left_out_and_counted(run: Run, database: Path) -> None:
    assert run("db", "query", "CREATE (:Trace {name: 'foreign', mark: 'db list'})", "--write")[0] == 0
    try:
        code, text, _ = run("db", "list")
        assert code == 0
        assert "labelled Trace and left out" in " ".join(text.split())
        _, text, err = run("db", "list", "--format", "csv")
        assert "labelled Trace and left out" in err
        assert "foreign" not in text
    finally:
        run("db", "query", "MATCH (t:Trace {mark: 'db list'}) DELETE t", "--write")


def test_a_question_shows_the_columns_that_ask_shows(run: Run, database: Path) -> None:
    asked, queried = (
        run(*words)[1].splitlines()
        for words in (("ask", "kernel_summary", database), ("db", "query", "kernel_summary", "-p", "trace=listed"))
    )
    heading = next(line for line in asked if line.startswith("kernel "))
    shown = next(line for line in queried if line.startswith("kernel "))
    places = {"uid", "ext", "id", "pid/tid", "start", "ms"}  # which a graph in memory knows
    assert {"sum", "mean"} <= set(heading.split()) - places <= set(shown.split())
    assert "Parent" not in shown
    assert any(line.endswith("Asked of listed.") for line in queried)
