"""What is made from the code is current: outputs of examples and notebooks, reference pages, pictures; demo."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from itertools import chain
from pathlib import Path
from typing import Any

import make_database_schema
import make_pictures
import make_reference
import make_schema_picture
import pytest
import run_examples
import run_notebook
import typer
from neo4j_server import Home
from pages import DOCS, PAGES

import tracelens_graph
from corpus import CHECKOUT
from tracelens_graph.cli.app import app

PACKAGE = CHECKOUT / "tracelens_graph"
DEMO_FILES = {
    "rank0.json.gz",
    "rank1.json.gz",
    "rank0.truth.json",
    "rank0.tlg",
    "timeline.csv",
    "modules.csv",
    "ops.csv",
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    run_examples.workspace(folder)
    return folder


EXAMPLES = [page for page in PAGES if "\n```" in page.read_text()]
ASKING = [page for page in EXAMPLES if run_examples.needs_database(page.read_text())]


@pytest.mark.parametrize("page", sorted({*EXAMPLES} - {*ASKING}), ids=lambda page: page.name)
def test_examples_print_what_the_page_shows(page: Path, workspace: Path) -> None:
    text = page.read_text()
    assert run_examples.with_outputs(text, workspace) == text, "run docs/run_examples.py"


@pytest.mark.parametrize("page", ASKING, ids=lambda page: page.name)
def test_examples_of_databases_print_what_their_pages_show(page: Path, workspace: Path, home: Home) -> None:
    text = page.read_text()
    with run_examples.empty_database(home.connection):
        assert run_examples.with_outputs(text, workspace) == text, f"run docs/run_examples.py {page.name}"


def test_example_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(run_examples.ExampleError, match="ends with 3"):
        run_examples.with_outputs("```console\n$ exit 3\n```\n", tmp_path)


def test_outputs_are_put_below_their_examples(tmp_path: Path) -> None:
    page = (
        "```console\n$ echo a\nold\n$ echo b\n```\n\n```pycon\n>>> for i in (1, 2):\n...     i\nold\n>>> 1 / 0\n```\n"
    )
    new = run_examples.with_outputs(page, tmp_path)
    assert "$ echo a\na\n$ echo b\nb\n" in new
    assert (
        "...     i\n1\n2\n>>> 1 / 0\nTraceback (most recent call last):\nZeroDivisionError: division by zero\n" in new
    )
    assert run_examples.with_outputs(new, tmp_path) == new


def test_pages_about_the_database_are_current() -> None:
    schema = (DOCS / "database-schema.md").read_text()
    assert make_database_schema.schema_page() == schema, "run docs/make_database_schema.py"


def test_reference_is_current() -> None:
    assert make_reference.reference() == (DOCS / "reference.md").read_text(), "run docs/make_reference.py"
    assert make_reference.command_line() == (DOCS / "cli.md").read_text(), "run docs/make_reference.py"


def test_every_command_and_option_is_documented() -> None:
    _, *sections = (DOCS / "cli.md").read_text().split("\n## ")
    by_command = {section.partition("\n")[0]: section for section in sections}

    def check(command: object, path: str) -> None:
        for name, inner in getattr(command, "commands", {}).items():
            check(inner, f"{path} {name}")
            missing = [
                option
                for option in chain.from_iterable(
                    p.opts + p.secondary_opts for p in inner.params if not getattr(p, "hidden", False)
                )
                if option.startswith("-") and f"`{option}`" not in by_command[f"{path} {name}"] and option != "--help"
            ]
            assert missing == [], f"{path} {name}"

    check(typer.main.get_command(app), "tracelens-graph")


@pytest.mark.checkout
def test_pictures_are_current() -> None:
    assert make_pictures.layers_picture() == (DOCS / "pictures/layers.svg").read_text(), "run docs/make_pictures.py"
    assert make_schema_picture.schema_picture() == (DOCS / "pictures/schema.svg").read_text(), (
        "run make_schema_picture.py"
    )
    assert make_pictures.graph_picture() == (DOCS / "pictures/graph.svg").read_text(), "run docs/make_pictures.py"


@pytest.mark.checkout
def test_picture_shows_the_import_contract() -> None:
    drawn = defaultdict(set)
    heading = r'y="([\d.]+)" font-size="14" text-anchor="middle" font-weight="bold">(\w+)<'
    for y, module in re.findall(heading, (DOCS / "pictures/layers.svg").read_text()):
        drawn[float(y)].add(module)
    rows = [drawn[y] for y in sorted(drawn)]

    modules = [path for path in PACKAGE.iterdir() if path.suffix == ".py" or [*path.glob("[!_]*")]]
    there = {path.stem for path in modules if not path.stem.startswith("_")}
    contracts = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [{part.strip(" ()") for part in re.split(r"[|:]", line)} & there for line in contracts[0]["layers"]]
    assert rows == [layer for layer in layers if layer]
    assert set().union(*rows) == there


def test_demo_compares_with_the_truth_and_writes_files(tmp_path: Path) -> None:
    script = CHECKOUT / "examples/demo.py"
    run = subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "All 8 times equal the simulator's truth" in run.stdout
    assert {path.name for path in (tmp_path / "demo").iterdir()} >= DEMO_FILES
    assert (tmp_path / "demo/timeline.csv").read_text().startswith("type,time ms,percent\n")
    command = [str(Path(sys.executable).with_name("tracelens-graph")), "timeline", str(tmp_path / "demo/rank0.tlg")]
    again = subprocess.run([*command, "-f", "csv"], check=True, capture_output=True, text=True).stdout
    assert again == (tmp_path / "demo/timeline.csv").read_text()


def test_demo_notices_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CHECKOUT / "examples"))
    import demo

    truth = tmp_path / "truth.json"
    truth.write_text('{"timeline": {"busy": 1}}')
    graph = tracelens_graph.load({"traceEvents": []})
    with pytest.raises(SystemExit, match="differs from the simulator's truth"):
        demo.compare_with_truth(tracelens_graph.gpu_timeline(graph), truth)


DEMO_RUN = "simulate(ranks=2, steps=2, seed=7, read_loss=True)"


def one_cell(source: str, shown: str = "") -> str:
    """A notebook of one cell, with an output that it does not have."""
    outputs = [{"name": "stdout", "output_type": "stream", "text": [shown]}] if shown else []
    cell = {"cell_type": "code", "execution_count": 3, "metadata": {}, "outputs": outputs, "source": [source]}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def outputs(source: str, folder: Path) -> list[dict[str, Any]]:
    (cell,) = json.loads(run_notebook.with_outputs(one_cell(source, "old\n"), folder))["cells"]
    assert cell["execution_count"] == 1
    return list(cell["outputs"])


@pytest.mark.parametrize("path", run_notebook.NOTEBOOKS, ids=lambda path: path.name)
def test_outputs_are_current(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    folder = tmp_path / "examples"
    folder.mkdir()
    assert run_notebook.with_outputs(text, folder) == text, "run docs/run_notebook.py"
    assert len(text) < 100_000


@pytest.mark.parametrize("path", run_notebook.NOTEBOOKS, ids=lambda path: path.name)
def test_cells_have_ids_and_links_lead_to_files(path: Path) -> None:
    notebook = json.loads(path.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids))
    texts = "".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)]+)\)", texts)
    assert links
    assert [link for link in links if not (path.parent / link).is_file()] == []


def test_notebook_simulates_the_run_of_the_demo() -> None:
    assert DEMO_RUN in (CHECKOUT / "examples/first_report.ipynb").read_text()
    assert DEMO_RUN in (CHECKOUT / "examples/demo.py").read_text()


def test_outputs_are_what_is_printed_and_the_last_value(tmp_path: Path) -> None:
    printed, result = outputs("print(6 * 7)\n{'a': 1}", tmp_path)
    assert (printed["output_type"], printed["text"]) == ("stream", ["42\n"])
    assert result["data"] == {"text/plain": ["{'a': 1}"]}
    assert outputs("x = 1", tmp_path) == []
    (frame,) = outputs("import pandas as pd\npd.DataFrame({'a': [1]})", tmp_path)
    assert frame["data"].keys() == {"text/plain", "text/html"}


def test_frames_are_not_written(tmp_path: Path) -> None:
    source = "from IPython.display import HTML\nHTML('<table></table><iframe srcdoc=\"&lt;p&gt;&quot;\"></iframe><p>')"
    (shown,) = outputs(source, tmp_path)
    assert shown["data"]["text/html"] == ["<table></table><p>"]
    whole = run_notebook.with_outputs(one_cell(source), tmp_path, str)
    assert "iframe" in whole


def test_cell_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        run_notebook.with_outputs(one_cell("1 / 0"), tmp_path)
