"""The notebooks of examples/ run as they stand and show what their cells give."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import run_notebook

from corpus import CHECKOUT

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
