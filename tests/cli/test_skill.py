"""What coding assistants read: every command of the skill runs, and its answers are short."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from handmade import Run

from tracelens_graph.simulate import simulate, write

TEXT = files("tracelens_graph.cli").joinpath("SKILL.md").read_text()
COMMANDS = sorted(set(re.findall(r"^tracelens-graph (.+)$", TEXT, re.MULTILINE)))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write(simulate(ranks=2, steps=2, layers=1), folder, traces_only=True)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_skill_answer_in_few_words(run: Run, job: Path, tmp_path: Path, command: str) -> None:
    trace = job / "rank0.json.gz"
    stands_for = {"TRACE": trace, "BEFORE": trace, "AFTER": job / "rank1.json.gz", "N": 500}
    folder = job if command.startswith("ranks") else tmp_path / "programs"
    code, out, error = run(*({**stands_for, "FOLDER": folder}.get(word, word) for word in command.split()))
    assert code == 0, error
    assert 0 < len(out) < 16_000


def test_it_is_printed(run: Run) -> None:
    assert run("skill") == (0, TEXT, "")
    assert re.match(r"---\nname: tracelens-graph\ndescription: .{100,1000}\n---\n", TEXT)
