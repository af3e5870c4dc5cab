"""docs/schema.json: current, and what every command writes as JSON is valid under it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import make_json_schema
import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from tracelens_graph.cli.app import app
from tracelens_graph.simulate import simulate, write

SCHEMA = json.loads(make_json_schema.PAGE.read_text())
COMMANDS = {
    "report T": "report", "report T --all": "report", "diff T O": "diff", "diff T O --by-name": "by_name",
    "diff T --within": "table", "ranks J": "ranks", "ranks J --path": "ranks",
    "ranks J --table rank_balance": "table", "info T": "info", "info T --table nodes": "table",
    "link T --et E": "link", "modules T": "table", "roofline T": "table", "roofline T --table below_roof": "table",
    "tree T": "table", "tree T --uid 300 --up": "table",
    "ask": "table", "ask idle_gaps": "table", "ask idle_gaps T": "table", "ask kernel_candidates T": "table",
    "ask rank_collectives J": "table", "timeline T": "table", "attribution T --level module": "table",
    "explain T": "table", "explain T headline": "table", "tensor T --et E t6": "table", "replay T": "table",
    "db queries": "table",
}  # fmt: skip


def faults(document: Any, name: str) -> list[str]:
    validator = Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{name}"})
    return [f"{list(one.absolute_path)}: {one.message:.200}" for one in validator.iter_errors(document)]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write(simulate(ranks=2, steps=2, layers=1), folder)
    return folder


def answer(job: Path, command: str) -> str:
    et = job / "rank0.execution-trace.json"
    paths = {"T": job / "rank0.json.gz", "O": job / "rank1.json.gz", "J": job, "E": et}
    words = [str(paths.get(word, word)) for word in command.split()]
    done = CliRunner().invoke(app, [*words, "-f", "json"])
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_it_is_current_and_a_schema() -> None:
    assert make_json_schema.schema() == SCHEMA, "run docs/make_json_schema.py"
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("command", COMMANDS)
def test_documents_are_valid_and_short(job: Path, command: str) -> None:
    text = answer(job, command)
    assert faults(json.loads(text), COMMANDS[command]) == []
    assert "--all" in command or len(text) <= 20_000


def test_what_is_no_such_document_is_found(job: Path) -> None:
    report, table = (json.loads(answer(job, command)) for command in ("report T", "ask idle_gaps T"))
    for key in ("verdict", "next", "time_spent", "opportunities", "trace", "schema_version"):
        assert faults({name: value for name, value in report.items() if name != key}, "report")
    worse = copy.deepcopy(report)
    worse["verdict"][0]["severity"] = "bad"
    assert faults(worse, "report")
    worse = copy.deepcopy(report)
    worse["opportunities"][0]["time_ms"] = "much"
    assert faults(worse, "report")
    worse = copy.deepcopy(table)
    worse["units"]["ms"] = 5
    assert faults(worse, "table")
    assert faults(table, "report")
