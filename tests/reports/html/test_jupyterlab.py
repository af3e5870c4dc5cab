"""The notebook of views in JupyterLab: where it is trusted, below each table the view; else the table alone."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import lab
import pytest
import run_notebook
from html_pages import COLORS, until

from corpus import CHECKOUT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, Page

pytestmark = pytest.mark.proof

NOTEBOOK = CHECKOUT / "examples" / "views.ipynb"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """That of a JupyterLab with the notebook twice: run here and trusted, and received from elsewhere."""
    if find_spec("jupyterlab") is None:
        pytest.skip("no JupyterLab here: pip install jupyterlab")
    home = tmp_path_factory.mktemp("lab")
    folder = home / "examples"
    folder.mkdir()
    text = run_notebook.with_outputs(NOTEBOOK.read_text(), folder, str)
    (folder / "trusted.ipynb").write_text(text)
    (folder / "received.ipynb").write_text(text.replace("Timeline, flame graph and", "Received:"))
    with lab.running(folder, home, "trusted.ipynb") as found:
        yield found


@pytest.fixture
def opened(address: str, browser: Browser) -> Iterator[Any]:
    """Opens a notebook by its name; nothing is asked of another server."""
    asked: list[str] = []
    pages: list[Page] = []

    def call(name: str) -> Page:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        pages.append(page)
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{address}/lab/tree/{name}?reset")
        page.wait_for_selector(".jp-OutputArea-output table", timeout=1000 * lab.PATIENCE_S)
        return page

    yield call
    for page in pages:
        page.close()
    assert [url for url in asked if not url.startswith((address, f"ws{address[4:]}", "data:", "blob:", "about:"))] == []


def outputs(page: Page, cells: list[str]) -> Iterator[Any]:
    """The output of each cell, found by the caption above its table, scrolled into sight."""
    for caption in cells:
        place = page.locator(".jp-OutputArea-output", has_text=caption).first
        place.scroll_into_view_if_needed(timeout=1000 * lab.PATIENCE_S)
        yield place


CELLS = [
    "GPU time by module: rank0", "Timeline: rank0", "GPU time by kernel: rank0", "Roofline of NVIDIA H100 SXM5: rank0",
    "kernel_summary: rank0",
]  # fmt: skip
"""Captions of what the cells give."""


def test_a_trusted_notebook_shows_each_view_below_its_table(opened: Any) -> None:
    page = opened("trusted.ipynb")
    shown = []
    assert page.evaluate("document.body.dataset.jpThemeLight") == "true"
    for output in outputs(page, CELLS):
        assert output.locator("table").first.is_visible()
        element = output.locator("iframe").element_handle(timeout=1000 * lab.PATIENCE_S)
        assert element.evaluate("(one) => getComputedStyle(one).colorScheme") == "light"
        frame: Frame = element.content_frame()
        until(frame, "document.documentElement.dataset.ready")
        assert frame.evaluate("document.documentElement.dataset.ready") == "yes"
        shown.append(frame.evaluate("tracelensGraph.shown"))
        if shown[-1] == "roofline":
            assert frame.evaluate("document.querySelectorAll('circle').length") > 20
            continue
        if shown[-1] == "tables":
            assert frame.locator("tbody tr").count() > 5
            continue
        until(frame, f"{COLORS} > 5")
        assert element.bounding_box()["y"] > output.locator("table").first.bounding_box()["y"]
    assert shown == ["flame", "timeline", "flame", "roofline", "tables"]


def test_a_received_notebook_shows_the_tables(opened: Any) -> None:
    page = opened("received.ipynb")
    for output in outputs(page, CELLS):
        assert output.locator("table").first.is_visible()
        assert output.locator("td").count() > 10
        assert output.locator("iframe").count() == 0
