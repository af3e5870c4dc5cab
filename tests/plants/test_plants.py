"""Changes planted into real traces: the first screen names them, and no cause that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from plants.edits import Recording
from plants.kinds import Edit, original
from plants.known import PLANTS, Plant
from typer.testing import CliRunner

from corpus import needs_corpus
from tracelens_graph.cli.app import app

pytestmark = needs_corpus


def planted(trace: str, edit: Edit | None) -> tuple[Recording, float | None]:
    """A trace with a change in it, and by how many ms that changes it."""
    if edit is None:
        return original(trace), None
    found = original(trace).copy()
    with found.settled():
        return found, edit(found)


def first_screen(plant: Plant, folder: Path) -> tuple[list[str], float | None]:
    """The paragraphs of the screen: all above the places as one, then each place; and the planted change in ms."""
    before, _ = planted(plant.trace, plant.first)
    after, change = planted(plant.trace, plant.edit)
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


@pytest.mark.parametrize("plant", PLANTS, ids=[plant.name for plant in PLANTS])
def test_what_is_planted_is_named(plant: Plant, tmp_path: Path) -> None:
    found, _ = first_screen(plant, tmp_path)
    assert (missing(plant, found), false(plant, found)) == ([], [])


SLOW_LAYER, CLOCK = (
    next(plant for plant in PLANTS if plant.name == f"{kind}-vit") for kind in ("slow one layer", "clock")
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A trace, the same with one slow layer, and with another clock."""
    folder = tmp_path_factory.mktemp("several")
    edits = {"before": None, "layer": SLOW_LAYER.edit, "clock": CLOCK.edit}
    return [planted("vit", edit)[0].write(folder / f"{name}.json.gz") for name, edit in edits.items()]


def answer(*arguments: object) -> str:
    """What a command prints, on one line."""
    result = CliRunner(env={"COLUMNS": "100"}).invoke(app, ["diff", *map(str, arguments)])
    assert result.exit_code == 0, result.stderr
    return " ".join(result.stdout.split())


def test_a_slow_layer_is_not_explained_by_the_clock(files: list[Path]) -> None:
    within = answer("--within", files[1])
    assert "ViTLayer_7 of 12" in within
    assert re.search(r"all kernels (2[.]9|3[.]0)\dx as long; the traces do not show why", within)
    several = answer(*files)
    assert re.search(r"layer: [^;]*; the same kernels; 1 of 12: layer 7 \(ViTLayer_7\), 3[.]00x", several)
    assert re.search(r"clock: [^;]* in all; all kernels 1[.]10x as long: clock, power", several)
    assert several.count("clock, power") == 1


def test_only_what_deviates_from_the_clock_is_listed(files: list[Path]) -> None:
    found = paragraphs(CliRunner(env={"COLUMNS": "100"}).invoke(app, ["diff", str(files[0]), str(files[2])]).stdout)
    assert len(found) == 2
    assert "All kernels 1.10x as long" in found[0]
