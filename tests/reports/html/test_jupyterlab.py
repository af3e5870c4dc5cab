"""The notebook of views in JupyterLab: where it is trusted, below each table the view; else the table alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import run_notebook
from in_browser import until

from corpus import CHECKOUT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, Page

NOTEBOOK = CHECKOUT / "examples" / "views.ipynb"
PATIENCE_S = 60
OPTIONS = [
    "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0", "--IdentityProvider.token=", "--LabApp.news_url=",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.extension_manager=readonly",
]  # fmt: skip
COLORS = """(() => {
  const canvas = document.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
})()"""
"""Number of colours on a canvas."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab with the notebook twice, run and trusted, and run elsewhere."""
    if find_spec("jupyterlab") is None:
        pytest.skip("no JupyterLab here: pip install jupyterlab")
    home = tmp_path_factory.mktemp("lab")
    folder = home / "examples"
    folder.mkdir()
    folders = {"CONFIG": "config", "DATA": "data", "RUNTIME": "runtime"}
    env = {**os.environ, "HOME": str(home), "IPYTHONDIR": str(home / "ipython"), "JUPYTER_PREFER_ENV_PATH": "1"}
    env |= {f"JUPYTER_{name}_DIR": str(home / of) for name, of in folders.items()}
    text = run_notebook.with_outputs(NOTEBOOK.read_text(), folder, str)
    (folder / "trusted.ipynb").write_text(text)
    (folder / "received.ipynb").write_text(text.replace("Timeline, flame graph and", "Received:"))
    subprocess.run([sys.executable, "-m", "nbformat.sign", "trusted.ipynb"], cwd=folder, env=env, check=True)
    command = [sys.executable, "-m", "jupyterlab", *OPTIONS, f"--ServerApp.root_dir={folder}"]
    with (home / "log").open("wb") as log:
        server = psutil.Popen(command, cwd=home, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{_port(home, server)}"
    finally:
        with suppress(psutil.NoSuchProcess):
            processes = [server, *server.children(recursive=True)]  # kernels lead sessions of their own
            server.terminate()
            _, alive = psutil.wait_procs(processes, timeout=20)
            for process in alive:
                process.kill()
        server.wait()


def _port(home: Path, server: psutil.Popen) -> int:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and server.poll() is None:
        for path in (home / "runtime").glob("jpserver-*.json"):
            with suppress(ValueError):  # half of it
                return int(json.loads(path.read_text())["port"])
        time.sleep(0.1)
    raise AssertionError((home / "log").read_text())


@pytest.fixture
def opened(lab: str, browser: Browser) -> Iterator[Any]:
    """Opens a notebook by its name; nothing is asked of another server."""
    asked: list[str] = []
    pages: list[Page] = []

    def call(name: str) -> Page:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        pages.append(page)
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{lab}/lab/tree/{name}?reset")
        page.wait_for_selector(".jp-OutputArea-output table", timeout=1000 * PATIENCE_S)
        return page

    yield call
    for page in pages:
        page.close()
    assert [url for url in asked if not url.startswith((lab, f"ws{lab[4:]}", "data:", "blob:", "about:"))] == []


def outputs(page: Page, cells: list[str]) -> Iterator[Any]:
    """The output of each cell, found by the caption above its table, scrolled into sight."""
    for caption in cells:
        place = page.locator(".jp-OutputArea-output", has_text=caption).first
        place.scroll_into_view_if_needed(timeout=1000 * PATIENCE_S)
        yield place


CELLS = [
    "GPU time by module: rank0", "Timeline: rank0", "GPU time by kernel: rank0", "Roofline of NVIDIA H100 SXM5: rank0",
]  # fmt: skip
"""Captions of what the cells give."""


def test_a_trusted_notebook_shows_each_view_below_its_table(opened: Any) -> None:
    page = opened("trusted.ipynb")
    shown = []
    for output in outputs(page, CELLS):
        assert output.locator("table").first.is_visible()
        element = output.locator("iframe").element_handle(timeout=1000 * PATIENCE_S)
        frame: Frame = element.content_frame()
        until(frame, "document.documentElement.dataset.ready")
        assert frame.evaluate("document.documentElement.dataset.ready") == "yes"
        shown.append(frame.evaluate("tracelensGraph.shown"))
        if shown[-1] == "roofline":
            assert frame.evaluate("document.querySelectorAll('circle').length") > 20
            continue
        until(frame, f"{COLORS} > 5")
        assert element.bounding_box()["y"] > output.locator("table").first.bounding_box()["y"]
    assert shown == ["flame", "timeline", "flame", "roofline"]


def test_a_received_notebook_shows_the_tables(opened: Any) -> None:
    page = opened("received.ipynb")
    for output in outputs(page, CELLS):
        assert output.locator("table").first.is_visible()
        assert output.locator("td").count() > 10
        assert output.locator("iframe").count() == 0
