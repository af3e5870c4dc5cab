"""Which database commands talk to, as whom, and `db check`."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from handmade import Run

from tracelens_graph.cli import db as options
from tracelens_graph.db.connection import Connection
from tracelens_graph.db.server import server

NAMES = ("NEO4J_URI", "NEO4J_USER", "NEO4J_USERNAME", "NEO4J_PASSWORD", "NEO4J_DATABASE")


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(server, "standard_folder", lambda: tmp_path / "no server")


@pytest.fixture
def known(neo4j: Connection, monkeypatch: pytest.MonkeyPatch) -> Connection:
    """The server of the tests, as the environment tells it."""
    monkeypatch.setenv("NEO4J_URI", neo4j.uri)
    monkeypatch.setenv("NEO4J_USER", neo4j.user)
    monkeypatch.setenv("NEO4J_PASSWORD", neo4j.password)
    return neo4j


def test_all_is_well(run: Run, known: Connection) -> None:
    code, out, _ = run("db", "check")
    assert code == 0
    assert out.startswith(f"{known.uri} is Neo4j ")
    assert "complete trace" in out
    assert out.count("\n") == 1


def test_options_go_before_the_environment(run: Run, known: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_URI", "bolt://127.0.0.1:1")
    monkeypatch.setenv("NEO4J_DATABASE", "nowhere")
    assert run("db", "check", "--uri", known.uri, "--database", "neo4j")[0] == 0
    code, out, error = run("db", "check", "--uri", known.uri)
    assert (code, out) == (1, "")
    assert error == f"error: {known.uri} has no database 'nowhere'\n"


def test_without_the_driver_the_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "neo4j", None)
    for words in (["list"], ["check"], ["start", "--folder", str(tmp_path / "home")]):
        code, out, error = run("db", *words)
        assert (code, out) == (1, "")
        assert "pip install '.[neo4j]'" in error


def test_the_other_name_of_the_user(run: Run, known: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    if not known.password:
        pytest.skip("the server of NEO4J_URI asks for no password")
    monkeypatch.delenv("NEO4J_USER")
    monkeypatch.setenv("NEO4J_USERNAME", "nobody")
    assert "for 'nobody'" in run("db", "check")[2]


@pytest.mark.parametrize("uri", ["http://127.0.0.1", "bolt://me:secret@127.0.0.1", "bolt://127.0.0.1:1"])
def test_what_is_wrong_is_one_line(run: Run, uri: str) -> None:
    code, out, error = run("db", "check", "--uri", uri)
    assert (code, out) == (1, "")
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert "secret" not in error


def test_the_server_of_db_start_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    options.CHOSEN.set(options.Chosen())
    assert options.connection().uri == "bolt://127.0.0.1:7687"
    monkeypatch.setattr(server, "running", lambda folder: server.Server(folder, 1, 4711, 4712))
    assert options.connection().uri == "bolt://127.0.0.1:4711"
    assert options.connection("bolt://elsewhere").uri == "bolt://elsewhere"


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_the_password_is_asked_for_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def prompt(text: str, **how: Any) -> str:
        asked.append(how)
        return "typed"

    monkeypatch.setattr(typer, "prompt", prompt)
    monkeypatch.setattr(sys, "stdin", StringIO())
    assert options.connection("bolt://host").password == ""
    monkeypatch.setattr(sys, "stdin", _Terminal())
    assert options.connection("bolt://host").password == "typed"
    assert [how["hide_input"] for how in asked] == [True]
    for given in ("known", ""):
        monkeypatch.setenv("NEO4J_PASSWORD", given)
        assert options.connection("bolt://host").password == given
    assert len(asked) == 1
