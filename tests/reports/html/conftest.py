"""A browser that opens pages, and holds that nothing on them goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from html_pages import Opened, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    """Opens a page, and holds that nothing on it went wrong, and that it asked for nothing."""
    said: list[str] = []
    asked: list[str] = []
    pages: list[Page] = []

    def call(text: str, before: str = "", hash: str = "", width: int = 1280, **options: Any) -> Page:
        path = tmp_path / "page.html"
        path.write_text(text)
        page = browser.new_page(viewport={"width": width, "height": 800}, **options)
        pages.append(page)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        if before:
            page.add_init_script(before)
        page.goto(path.as_uri() + hash)
        until(page, "document.documentElement.dataset.ready")
        assert page.evaluate("document.documentElement.dataset.ready") == "yes"
        return page

    yield call
    for page in pages:
        page.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "blob:"))] == []
