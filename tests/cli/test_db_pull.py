"""`db pull` and `db export`: out of a database, and into a new one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from handmade import HOSTILE, Run, small_trace

from tracelens_graph.db.bulk import ARGUMENTS
from tracelens_graph.db.connection import Connection
from tracelens_graph.loading.one import load_core
from tracelens_graph.stores.frames import node_columns


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A trace that no other test has."""
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"of": "db pull", **small_trace()}))
    return path


@pytest.fixture
def server(neo4j: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_URI", neo4j.uri)
    monkeypatch.setenv("NEO4J_USER", neo4j.user)
    monkeypatch.setenv("NEO4J_PASSWORD", neo4j.password)


@pytest.mark.usefixtures("server")
def test_pull_writes_a_graph_that_every_command_takes(run: Run, mine: Path, tmp_path: Path) -> None:
    assert run("db", "push", mine, "--run", "db-pull")[0] == 0
    out = tmp_path / "pulled.tlg"
    code, said, _ = run("db", "pull", "db-pull/mine", "-o", out)
    core = load_core(mine)
    assert code == 0
    assert said.endswith(f": {len(core.columns)} nodes\n")
    pulled = load_core(out)
    assert pulled.trace_id == core.trace_id
    ours, theirs = node_columns(core), node_columns(pulled)
    assert {name: ours[name].tolist() for name in ours} == {name: theirs[name].tolist() for name in theirs}
    assert run("timeline", out) == run("timeline", mine)
    assert run("db", "drop", "db-pull", "--yes")[0] == 0


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("options", [(), ("--with-args",)])
def test_no_events_can_be_cut_out_of_what_was_pulled(
    options: tuple[str, ...], run: Run, mine: Path, tmp_path: Path
) -> None:
    assert run("db", "push", mine, "--run", "db-pull", "--replace", *options)[0] == 0
    assert run("db", "pull", "db-pull/mine", "-o", tmp_path / "pulled.tlg")[0] == 0
    cut = run("cut", tmp_path / "pulled.tlg", "--uid", 5, "-o", tmp_path / "cut.json")
    assert cut == (1, "", "error: mine.json: holds arguments of events only, nothing to cut out\n")
    assert not (tmp_path / "cut.json").exists()


@pytest.mark.usefixtures("server")
def test_pull_of_an_unknown_trace_leaves_the_file_alone(run: Run, mine: Path, tmp_path: Path) -> None:
    assert run("db", "push", mine, "--run", "db-pull", "--replace")[0] == 0
    (tmp_path / "kept.tlg").write_text("mine")
    code, _, said = run("db", "pull", "nobody", "-o", tmp_path / "kept.tlg")
    assert (code, "--force replaces it" in said) == (1, True)
    code, _, said = run("db", "pull", "nobody", "-o", tmp_path / "kept.tlg", "--force")
    assert code == 1
    assert re.fullmatch("error: no trace 'nobody' is in the database; there are [^\n]+/[^\n]+\n", said)
    assert (tmp_path / "kept.tlg").read_text() == "mine"


def test_export_says_how_to_import(run: Run, mine: Path, trace_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "to be imported"
    code, said, _ = run(
        "db", "export", folder, mine, trace_file, "--run", HOSTILE, "--label", "a=b", "--only", "gpu,Op"
    )
    assert code == 0
    assert "\x1b" not in said
    assert f"  tracelens-graph db import '{folder}'\n" in said
    assert (folder / ARGUMENTS).is_file()
    assert "left out" in said
    nodes = sum(len((folder / name).read_text().split("\n")) for name in ("Event-Op.csv", "Event-Op-Hot.csv"))
    assert nodes > 4
    assert not (folder / "Event-Module.csv").exists()


def test_export_keeps_the_traces_that_could_be_read(run: Run, mine: Path, tmp_path: Path) -> None:
    code, said, told = run("db", "export", tmp_path / "new", mine, tmp_path / "none.json")
    assert code == 1
    assert "to import:" in said
    assert told.endswith("error: 1 of 2 traces could not be read; the others are done\n")
    assert (tmp_path / "new" / ARGUMENTS).is_file()


def test_export_into_a_folder_that_holds_something_is_refused(run: Run, mine: Path, tmp_path: Path) -> None:
    code, _, said = run("db", "export", tmp_path, mine)
    assert code == 1
    assert said == f"error: {tmp_path}: holds something already; name a new folder\n"


def test_export_refuses_wrong_options_before_it_reads(run: Run, tmp_path: Path, mine: Path) -> None:
    code, _, said = run("db", "export", tmp_path / "new", mine, "--label", "x")
    assert code == 2
    assert "KEY=VALUE" in said
    assert not (tmp_path / "new").exists()
