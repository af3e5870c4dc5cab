"""`db push`, `db list`, `db drop` on a real server."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from handmade import Run, small_trace

from tracelens_graph.db import push as pushing
from tracelens_graph.db.connection import Connection
from tracelens_graph.simulate import simulate, write


@pytest.fixture
def environment(neo4j: Connection, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    known = {"NEO4J_URI": neo4j.uri, "NEO4J_USER": neo4j.user, "NEO4J_PASSWORD": neo4j.password}
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    return known


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two traces of one stem in two folders, which no other test has."""
    for rank in range(2):
        trace = small_trace()
        trace["distributedInfo"]["rank"] = rank
        trace["mark"] = secrets.token_hex(8)
        (tmp_path / f"rank{rank}").mkdir()
        (tmp_path / f"rank{rank}" / "trace.json").write_text(json.dumps(trace))
    return tmp_path


@pytest.fixture
def name(run: Run, environment: dict[str, str]) -> str:
    """The name of a run that no other test has."""
    return f"run-{secrets.token_hex(4)}"


def listed(run: Run, name: str) -> list[dict[str, str]]:
    code, out, _ = run("db", "list", "--format", "csv")
    assert code == 0
    return [row for row in csv.DictReader(io.StringIO(out)) if row["run"] == name]


def test_push_list_drop(run: Run, folder: Path, name: str) -> None:
    command = ("db", "push", folder / "rank0" / "trace.json", folder / "rank1" / "trace.json", "--run", name)
    code, out, err = run(*command, "--label", "b=2", "--label", "a=1")
    assert (code, err.splitlines()[0]) == (0, f"run {name}: ranks 2, 3, 4, 5, 6, 7 are missing: the job has 8")
    first, second = out.splitlines()  # without collectives there is nothing to say of them
    assert first.startswith(f"pushed {name}/rank0/trace: 13 events, ")
    assert second.startswith(f"pushed {name}/rank1/trace: 13 events, ")
    rows = listed(run, name)
    assert [row["name"] for row in rows] == ["rank0/trace", "rank1/trace"]
    assert [row["rank"] for row in rows] == ["0", "1"]
    assert {row["state"] for row in rows} == {"complete"}
    assert {row["labels"] for row in rows} == {"a=1, b=2"}
    assert {row["events"] for row in rows} == {"13"}
    assert {row["lean"] for row in rows} == {""}
    assert all(row["pushed"].endswith("Z") and len(row["id"]) == 32 for row in rows)

    code, out, _ = run(*command, "--label", "a=1", "--label", "b=2")
    assert code == 0
    assert [line.split(" ")[0] for line in out.splitlines()] == ["unchanged", "unchanged"]

    code, out, err = run("db", "drop", f"{name}/rank0/trace", "--yes")
    assert (code, out) == (0, f"dropped {name}/rank0/trace: 13 events\n")
    assert [row["name"] for row in listed(run, name)] == ["rank1/trace"]
    assert run("db", "drop", name, "-y")[0] == 0
    assert listed(run, name) == []
    code, _, err = run("db", "drop", name, "-y")
    assert code == 1
    assert err.startswith(f"error: no trace '{name}' is in the database")


def test_ranks_one_by_one(run: Run, tmp_path: Path, name: str) -> None:
    job = simulate(ranks=2, steps=1, layers=1, seed=secrets.randbelow(2**31), python_stacks=False)
    ranks = write(job, tmp_path, traces_only=True)
    command = ("--run", name, "--only", "gpu")
    for trace in ranks:
        code, out, _ = run("db", "push", trace, *command)
        assert code == 0
    unmatched = f"collectives of {name} are not matched: 1 of its 2 traces were named; name all of them"
    assert out.splitlines()[1:] == [unmatched]
    code, out, _ = run("db", "query", "slowest_ranks", "--param", f"run={name}")
    assert code == 0
    told = f"the collectives of {name} are not matched: push its 2 traces together, with --run"
    assert told in " ".join(out.split())
    matched = rf"collectives of {name}: \d+ over 2 ranks"
    assert re.fullmatch(rf"pushed {matched} in \d+\.\d s", run("db", "push", *ranks, *command)[1].splitlines()[2])
    assert re.fullmatch(rf"unchanged {matched}", run("db", "push", *ranks, *command)[1].splitlines()[2])
    # A rank alone, if it is there, changes nothing.
    assert run("db", "push", ranks[0], *command)[1].count("\n") == 1
    code, out, _ = run("db", "query", "slowest_ranks", "--param", f"run={name}", "--format", "csv")
    assert (code, len(out.splitlines())) == (0, 3)
    assert run("db", "drop", name, "-y")[0] == 0


def test_lean_and_replace(run: Run, folder: Path, name: str) -> None:
    trace = folder / "rank0" / "trace.json"
    assert run("db", "push", trace, "--run", name)[0] == 0
    lean = ("db", "push", trace, "--run", name, "--only", "gpu, op", "--min-gpu-time", "1ns")
    code, out, err = run(*lean)
    assert (code, out) == (1, "")
    assert "other options (all events, not Op, Kernel, Memcpy, Memset; calls of 0.001 us" in err
    assert err.endswith("push it with --replace\n")
    code, out, _ = run(*lean, "--replace")
    assert code == 0
    assert out.startswith(f"replaced {name}/trace: 5 events, ")
    assert "; left out 8 events and " in out
    assert listed(run, name)[0]["lean"].startswith("Op, Kernel, Memcpy, Memset; calls of")
    run("db", "drop", name, "--yes")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--as", "x"], "--as is for one trace, and these are 2"),
        (["--label", "x"], "--label x: it has the form KEY=VALUE"),
        (["--label", "=x"], "--label =x: it has the form KEY=VALUE"),
        (["--label", "x=1", "--label", "x=2"], "--label x is given twice"),
        (["--only", "gpus"], "--only: no kind of node is called 'gpus'"),
        (["--min-gpu-time", "soon"], "--min-gpu-time: 'soon' is no time"),
    ],
)
def test_wrong_usage(run: Run, folder: Path, name: str, arguments: list[str], says: str) -> None:
    traces = [folder / "rank0" / "trace.json", folder / "rank1" / "trace.json"]
    code, out, err = run("db", "push", *traces, "--run", name, *arguments, env={"COLUMNS": "200"})
    assert (code, out) == (2, "")
    assert says in " ".join(err.replace("│", "").split())
    assert listed(run, name) == []


def test_an_unknown_device(run: Run, folder: Path, name: str) -> None:
    code, _, err = run("db", "push", folder / "rank0", "--run", name, "--arch", "h1000")
    assert code == 1
    assert "h1000" in err


def test_nobody_to_ask(run: Run, folder: Path, name: str) -> None:
    run("db", "push", folder / "rank0", "--run", name)
    code, _, err = run("db", "drop", name)
    assert code == 2
    assert "--yes" in err
    assert len(listed(run, name)) == 1
    run("db", "drop", name, "--yes")


def test_interrupted(run: Run, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pushing.Writer, "write", interrupt)
        code, out, err = run("db", "push", folder / "rank0", "--run", name)
    assert (code, out) == (130, "")
    assert "Traceback" not in err
    assert listed(run, name)[0]["state"] == "loading"
    assert run("db", "push", folder / "rank0", "--run", name)[1].startswith(f"completed {name}/trace: 13 events")
    run("db", "drop", name, "--yes")


RETRIED = """
import sys
from neo4j.exceptions import TransientError
from tracelens_graph.cli import main
from tracelens_graph.simulate import simulate, write
from tracelens_graph.db import push

calls = []

class Failing(push.Writer):
    def _commit(self, session, batch):
        execute = session.execute_write
        def execute_write(work):
            def fail_once(tx):
                calls.append(batch)
                if len(calls) == 1:
                    raise TransientError("a deadlock that tests made up")
                work(tx)
            return execute(fail_once)
        session.execute_write = execute_write
        try:
            return super()._commit(session, batch)
        finally:
            del session.execute_write

push.Writer = Failing
try:
    main()
finally:
    assert len(calls) > 2
"""


def test_what_is_tried_again_makes_no_noise(run: Run, folder: Path, name: str, environment: dict[str, str]) -> None:
    command = [sys.executable, "-c", RETRIED, "db", "push", str(folder / "rank0"), "--run", name]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert [line for line in done.stderr.splitlines() if not line.startswith("without edges ")] == []
    assert done.stdout.startswith(f"pushed {name}/trace: 13 events")
    run("db", "drop", name, "--yes")


def test_a_trace_that_takes_another_place_says_which_it_had(run: Run, folder: Path, name: str) -> None:
    file = folder / "rank0" / "trace.json"
    assert run("db", "push", file, "--run", name, "--label", "build=411")[0] == 0
    code, out, _ = run("db", "push", file, "--run", f"{name}-new", "--label", "build=1e5", "--replace")
    assert code == 0
    assert out.startswith(f"replaced {name}-new/trace: 13 events, ")
    assert out.splitlines()[0].endswith(f"; it was {name}/trace, build=411")
    assert not listed(run, name)


def test_what_is_not_complete_is_said_where_it_is_asked_for(run: Run, folder: Path, name: str) -> None:
    assert run("db", "push", folder / "rank0" / "trace.json", "--run", name)[0] == 0
    unfinished = f"MATCH (t:Trace {{run: '{name}'}}) SET t.state = 'loading'"
    assert run("db", "query", unfinished, "--write")[0] == 0
    code, out, err = run("db", "query", "run_history", "-p", f"run={name}")
    assert (code, out) == (1, "")
    assert err == f"error: run {name} has no complete trace: push it again, and it goes on\n"
    code, out, err = run("db", "forget-events", name, "--yes")
    assert (code, out) == (1, "")
    assert err == f"error: {name}/trace is not complete in the database: push it first\n"
    code, out, _ = run("db", "push", folder / "rank0" / "trace.json", "--run", name)
    assert (code, out.split()[0]) == (0, "completed")
