"""The first screen of each planted job names every culprit and no healthy rank; so do JSON, the page and Python."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from planted import PLANTED
from simulated_jobs import Cause, Job, write
from typer.testing import CliRunner

import tracelens_graph as tlg
from tracelens_graph.cli.app import app


def ranks(*arguments: object) -> str:
    """What `ranks` prints."""
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["ranks", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def named_in(text: str) -> set[int]:
    """Ranks that a text names by numbers: `rank 3`, `ranks 4-7 and 9`."""
    found: set[int] = set()
    for numbers in re.findall(r"\branks? ((?:\d+(?:-\d+)?(?:, | and )?)+)", text):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", numbers):
            found.update(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.filterwarnings("ignore::tracelens_graph.errors.IncompleteSetWarning")
@pytest.mark.filterwarnings("ignore::tracelens_graph.errors.DamagedTraceWarning")
@pytest.mark.parametrize("name", PLANTED)
def test_every_culprit_is_named_and_no_healthy_rank(name: str, tmp_path: Path) -> None:
    planted = PLANTED[name]
    screen = ranks(write(planted.job, tmp_path / name))
    late = [line for line in screen.splitlines() if line.startswith("late: ")]
    who = [line.partition(", by ")[0] for line in late]
    assert named_in("; ".join(who)) == set(planted.ranks), screen
    assert all(word in screen.partition("Times of a step")[0].lower() for word in planted.words), screen


def test_one_mechanism_for_all_forms(tmp_path: Path) -> None:
    folder = write(PLANTED["two_culprits"].job, tmp_path / "job")
    late = [line for line in ranks(folder).splitlines() if line.startswith("late: ")]
    assert len(late) == 2
    told = json.loads(ranks(folder, "-f", "json"))
    assert told["late"] == late
    rows = tlg.rank_tables(tlg.load_set(folder))["culprits"].records()
    assert [row["ranks"] for row in rows] == ["[2]", "[5]"]
    assert [row["reason"] for row in rows] == ["data_loader", "python"]
    assert [row["step_ms"] for row in rows] == pytest.approx([3.0, 2.5], rel=0.02)
    ranks(folder, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert all(line.partition(":")[2].partition("(")[0].strip() in page for line in late)


@pytest.mark.parametrize(
    ("name", "saves"),
    [("loader", "14.9 ms"), ("fsdp", "5.65 ms"), ("rank_in_pipeline", "790 us"), ("more_work", "less")],
)
def test_a_repair_saves_what_a_replay_says(name: str, saves: str, tmp_path: Path) -> None:
    """Of what no other rank does no figure is shown."""
    assert f"saves {saves}\n" in ranks(write(PLANTED[name].job, tmp_path))


SHAPES = {
    "ddp": {},
    "fsdp": {"style": "fsdp"},
    "moe": {"style": "moe"},
    "tensor": {"tensor": 4},
    "pipeline": {"pipeline": 4},
}


@pytest.mark.parametrize("jitter", [0.1, 0.2, 0.3])
@pytest.mark.parametrize("shape", SHAPES)
def test_jitter_makes_nobody_late(shape: str, jitter: float, tmp_path: Path) -> None:
    screen = ranks(write(Job(ranks=16, jitter=jitter, seed=1, **SHAPES[shape]), tmp_path))
    assert not [line for line in screen.splitlines() if line.startswith("late: ")], screen


@pytest.mark.parametrize("shape", SHAPES)
def test_a_slow_rank_is_named_through_jitter(shape: str, tmp_path: Path) -> None:
    slow = (Cause("slower_kernels", (6,), factor=1.5),)
    screen = ranks(write(Job(ranks=16, jitter=0.1, seed=1, causes=slow, **SHAPES[shape]), tmp_path))
    late = [line.partition(", by ")[0] for line in screen.splitlines() if line.startswith("late: ")]
    assert named_in("; ".join(late)) == {6}, screen
