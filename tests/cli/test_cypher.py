"""`tracelens-graph cypher`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from handmade import small_trace
from typer.testing import CliRunner

from tracelens_graph.cli.app import app

pytest.importorskip("ladybug")


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TRACELENS_GRAPH_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(small_trace()))
    return str(path)


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["cypher", *words])
    assert result.exit_code == code, result.output
    return result.output


def test_rows_are_shown_and_written(trace: str, tmp_path: Path) -> None:
    statement = "MATCH (o:Op) RETURN o.name AS op, o.dur_ns AS ns ORDER BY ns DESC"
    assert run(trace, statement).splitlines()[2].split() == ["aten::linear", "400,000"]
    rows = json.loads(run(trace, statement, "-f", "json"))["rows"]
    assert rows[0] == {"op": "aten::linear", "ns": 400_000}
    run(trace, statement, "-o", str(tmp_path / "ops.csv"), "--top", "2")
    assert (tmp_path / "ops.csv").read_text().splitlines() == ["op,ns", "aten::linear,400000", "aten::addmm,300000"]


def test_many_rows_are_counted(trace: str) -> None:
    shown = run(trace, "UNWIND range(1, 100) AS x RETURN x")
    assert len(shown.splitlines()) < 40
    assert "70 more" in shown


def test_parameters_and_files_of_statements(trace: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.cypher"
    file.write_text("MATCH (k:Kernel) WHERE k.dur_ns > $least RETURN k.name AS name // those that are long\n")
    assert run(trace, str(file), "-p", "least=40000", "-f", "csv").splitlines() == ["name", "gemm"]
    assert "NAME=VALUE" in run(trace, str(file), "-p", "least", code=2)
    assert "no value is given for $least" in run(trace, str(file), code=1)


def test_errors_take_one_line(trace: str) -> None:
    for statement in ("MATCH (k:Krnel) RETURN k", "MATCH (k:Kernel) RETURN k.nme", "MATCH (k", "CREATE (n:Op)"):
        assert len(run(trace, statement, code=1).splitlines()) == 1


def test_without_the_engine_the_extra_is_named(trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ladybug", None)
    assert "pip install '.[cypher]'" in run(trace, "MATCH (n) RETURN n", code=1)
