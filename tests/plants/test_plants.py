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
from tracelens_graph.analyses.alignment.align import align
from tracelens_graph.cli.app import app
from tracelens_graph.graph.window import window_of
from tracelens_graph.loading.one import load_core

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


def test_a_compiled_backward_pass_stands_beside_the_eager_one_to_the_nanosecond(tmp_path: Path) -> None:
    whole = next(plant for plant in PLANTS if plant.kind == "compiled whole")
    after, change = planted(whole.trace, whole.edit)
    files = original(whole.trace).write(tmp_path / "a.json.gz"), after.write(tmp_path / "b.json.gz")
    windows = [window_of(load_core(file)) for file in files]
    found, back = align(*windows), align(*windows[::-1])
    ns = [sum(point.ns[side] for point in found.points) for side in range(2)]
    assert ns == [int(forest.ns.sum()) for forest in found.sides]
    assert change == pytest.approx((ns[1] - ns[0]) / 1e6, abs=1e-3)
    assert [point.ns[::-1] for point in back.points] == [point.ns for point in found.points]
    for forest, partner in zip(found.sides, found.leaves, strict=True):
        names = [forest.window.core.names[code] for code in forest.window.core.columns.name[forest.row].tolist()]
        products = [names[node] == "aten::convolution_backward" for node in forest.leaf_parent.tolist()]
        assert sum(products) == 20
        assert (partner[products] >= 0).all()


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
