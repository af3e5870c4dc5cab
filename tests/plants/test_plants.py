"""Changes planted into real traces: the first screen names them, and no cause that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from plants.kinds import original
from plants.known import PLANTS, Plant
from typer.testing import CliRunner

from corpus import needs_corpus
from tracelens_graph.cli.app import app

pytestmark = needs_corpus


def first_screen(plant: Plant, folder: Path) -> tuple[list[str], float | None]:
    """The paragraphs of the screen: all above the places as one, then each place; and the planted change in ms."""
    before = original(plant.trace)
    after = before.copy()
    with after.settled():
        change = plant.edit(after)
    a, b = before.write(folder / "before.json.gz"), after.write(folder / "after.json.gz")
    result = CliRunner(env={"COLUMNS": "100"}).invoke(app, ["diff", str(a), str(b)])
    assert result.exit_code == 0, result.stderr
    return paragraphs(result.stdout), change


def paragraphs(screen: str) -> list[str]:
    """What stands above the places, then each place, each on one line without breaks."""
    parts = re.split(r"^(?=(?: ?\d+ +[+-]\d|\d+ more: ))", screen, flags=re.MULTILINE)
    return [" ".join(part.split()) for part in parts]


def missing(plant: Plant, found: list[str]) -> list[str]:
    """What is planted and not named."""
    return [
        " and ".join(patterns)
        for patterns in plant.named
        if not any(all(re.search(one, text, re.IGNORECASE) for one in patterns) for text in found)
    ]


def false(plant: Plant, found: list[str]) -> list[str]:
    """What is named and not planted."""
    return [match[0] for pattern in plant.never for text in found if (match := re.search(pattern, text))]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_what_is_planted_is_named(plant: Plant, tmp_path: Path) -> None:
    found, _ = first_screen(plant, tmp_path)
    assert (missing(plant, found), false(plant, found)) == ([], [])
