"""The wheel holds the package, all of it, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from corpus import CHECKOUT

pytestmark = pytest.mark.checkout

SETUPTOOLS = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]


def source_files() -> Iterator[tuple[Path, PurePosixPath]]:
    """Every file of the three source folders, with the place it has once installed."""
    for package, folder in SETUPTOOLS["package-dir"].items():
        root = CHECKOUT / folder
        for path in root.rglob("*"):  # does not follow the two symlinks
            inside = path.relative_to(root)
            if path.is_file() and "__pycache__" not in inside.parts:
                yield path, PurePosixPath(*package.split("."), *inside.parts)


@pytest.fixture(scope="module")
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel named by --wheel, else one that is built from an sdist of the checkout."""
    given: Path | None = request.config.getoption("--wheel")
    if given:
        return given
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(CHECKOUT)]
    subprocess.run(build, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_package_list_is_that_of_the_folders() -> None:
    on_disk = {".".join(place.parent.parts) for _, place in source_files() if place.suffix == ".py"}
    assert SETUPTOOLS["packages"] == sorted(on_disk)


def test_every_package_folder_has_an_init() -> None:
    folders = {path.parent for path, _ in source_files() if path.suffix == ".py"}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = {PurePosixPath(name) for name in zipfile.ZipFile(wheel).namelist()}
    metadata = {name for name in names if name.parts[0].endswith(".dist-info")}
    assert {name.name for name in metadata} >= {"METADATA", "LICENSE", "entry_points.txt"}
    assert names - metadata == {place for _, place in source_files()}


def test_wheel_imports_by_itself(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    snippet = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import tracelens_graph.cypher, tracelens_graph.loaders\n"
        "print(tracelens_graph.cypher.__file__, tracelens_graph.loaders.__file__, sep='\\n')"
    )
    run = subprocess.run([sys.executable, "-I", "-c", snippet], check=True, capture_output=True, text=True)
    package = tmp_path / "tracelens_graph"
    assert run.stdout.split() == [str(package / "cypher/__init__.py"), str(package / "loaders/__init__.py")]
