"""`replay --from-database`: programs of the signatures of a trace that was pushed as facts alone."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from handmade import Run

from tracelens_graph.db.connection import Connection
from tracelens_graph.replay.folder import read_folder
from tracelens_graph.simulate import simulate, write


@pytest.fixture
def database(run: Run, neo4j: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Name of a trace in the database of the environment."""
    for name in ("uri", "user", "password"):
        monkeypatch.setenv(f"NEO4J_{name.upper()}", getattr(neo4j, name))
    write(simulate(1, steps=1, layers=1, seed=36), tmp_path)
    code, _, err = run(
        "db", "push", tmp_path / "rank0.json.gz", "--facts", "--as", "asked", "--run", "nightly", "--replace"
    )
    assert code == 0, err
    return "nightly/asked"


def test_replay_writes_their_programs(run: Run, database: str, tmp_path: Path) -> None:
    code, out, err = run("replay", database, "--from-database", "--op", "aten::mm", "-f", "csv")
    assert (code, err) == (0, "")
    listed = list(csv.DictReader(io.StringIO(out)))
    assert {row["op"] for row in listed} == {"aten::mm"}
    assert "uid" not in listed[0]
    folder = tmp_path / "programs"
    code, out, err = run("replay", database, "--from-database", "--op", "aten::mm", "-o", folder)
    assert (code, err) == (0, "")
    assert len(read_folder(folder)) == len(list(folder.glob("*.py"))) == len(listed)
    assert f"replay {database} --from-database" in run("replay", database, "--from-database")[1].splitlines()[-1]


@pytest.mark.parametrize(
    ("trace", "options", "code", "said"),
    [
        ("nightly/asked", ("--step", "1"), 2, "signatures have no place in a trace"),
        ("nightly/asked", ("--collectives", "-o", "new"), 2, "signatures have no place in a trace"),
        ("nightly/asked", ("--uid", "3"), 2, "--uid goes without --from-database"),
        ("nightly/ask", (), 1, "no trace 'nightly/ask' is in the database; did you mean nightly/asked?"),
    ],
)
@pytest.mark.usefixtures("database")
def test_what_there_is_not_is_said(run: Run, trace: str, options: tuple[str, ...], code: int, said: str) -> None:
    found, out, err = run("replay", trace, "--from-database", *options)
    assert (found, out) == (code, "")
    assert said in " ".join(err.replace("│", " ").split())
