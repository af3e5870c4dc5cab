from __future__ import annotations

import json
from pathlib import Path

import pytest
from handmade import Run, small_trace
from typer.testing import CliRunner

from tracelens_graph.cli.app import app


@pytest.fixture(scope="session")
def trace_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small trace as a file."""
    path = tmp_path_factory.mktemp("trace") / "small.json"
    path.write_text(json.dumps(small_trace()))
    return path


@pytest.fixture
def run() -> Run:
    """Runs a command in this process: exit code, standard output, standard error."""
    runner = CliRunner(env={"COLUMNS": None})  # pytest-xdist sets it

    def call(*arguments: object, **options: object) -> tuple[int, str, str]:
        result = runner.invoke(app, [str(argument) for argument in arguments], **options)  # type: ignore[arg-type]
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return call
