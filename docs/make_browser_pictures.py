"""Take the pictures of Neo4j Browser: docs/pictures/browser-*.png.

    NEO4J_URI=bolt://127.0.0.1:7687 python docs/make_browser_pictures.py http://127.0.0.1:7474

The server, of `db start` for instance, runs with or without a password (NEO4J_PASSWORD). The example run is pushed
into it. Needs Chromium or Chrome. tests/db/test_browser.py drives Neo4j Browser by the functions below, too.
"""

from __future__ import annotations

import base64
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from pages import DOCS

from tracelens_graph.cypher import library
from tracelens_graph.db.browser import FAVOURITES, STYLE, favourites, style
from tracelens_graph.db.connection import browser_link
from tracelens_graph.db.database import connect
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate, write

if TYPE_CHECKING:
    from playwright.sync_api import Page


LAYER = """MATCH (m:Module) WHERE m.gpu_events > 1 AND m.last - m.pre < 100
WITH m ORDER BY m.gpu_sum_ns DESC LIMIT 1
MATCH (n:Event) WHERE n.trace = m.trace AND n.pre >= m.pre AND n.pre <= m.last
RETURN n"""
SHARED = """MATCH (t:Trace {run: 'example'}) WITH t ORDER BY t.rank LIMIT 1
MATCH (k:Kernel:Hot) WHERE k.trace = t.id WITH t, k LIMIT 6
MATCH place = (k)-[:ON_STREAM]->(:Stream)-[:OF_DEVICE]->(:Device)-[:IN_TRACE]->(t)-[:OF_RUN]->(:Run)
MATCH known = (k)-[:NAMED]->(:KernelName)-[:IN_CATEGORY]->(:Category)
MATCH charged = (k)-[:CHARGED_TO]->(:Op)-[:HAS_SIGNATURE]->(:Signature)
RETURN place, known, charged"""

PICTURES = {
    "browser-layer": LAYER,
    "browser-knowledge": SHARED,
    "browser-path-to-python": "path_to_python",
    "browser-gpu-timeline": "gpu_timeline",
    "browser-ops-summary": "ops_summary",
}
"""Name of a picture -> name of a query, or a statement."""

_SETTLED_MS = 5000
"""Until the nodes of a drawing stand still."""

_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


def main(address: str) -> None:
    """Push the example and take all pictures."""
    with connect() as database:
        for rank in example_ranks():
            database.push(load_core(rank), run="example", replace=True)
        known = database.connection
    with browser(shutil.which("chromium") or shutil.which("google-chrome")) as page:
        login(page, address, known.uri, known.password, known.user)
        drop(page, STYLE, style())
        drop(page, FAVOURITES, favourites())
        for name, question in PICTURES.items():
            found = library().get(question)
            run(page, found.text if found else question)
            page.wait_for_timeout(_SETTLED_MS)
            page.screenshot(path=DOCS / "pictures" / f"{name}.png")
            print(DOCS / "pictures" / f"{name}.png")
        clear(page)
        open_favourites(page, "structure", "timeline")
        page.screenshot(path=DOCS / "pictures" / "browser-favourites.png")


def example_ranks() -> list[str]:
    """The traces that `make demo` looks at: a simulated training run of two ranks."""
    folder = Path(mkdtemp())
    write(simulate(ranks=2, steps=2, seed=7, read_loss=True), folder)
    return [str(file) for file in sorted(folder.glob("rank*.json.gz"))]


@contextmanager
def browser(program: str | None) -> Iterator[Page]:
    """A page of a headless browser: the one of this path, or else the one that playwright has installed."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        yield opened.new_page(viewport={"width": 1400, "height": 700})
        opened.close()


def login(page: Page, address: str, bolt: str, password: str, user: str = "neo4j") -> None:
    """Open Neo4j Browser and connect."""
    way = "" if password else "&preselectAuthMethod=NO_AUTH"
    page.goto(f"{browser_link(address, bolt, user)}{way}&db=neo4j")
    if password:
        page.fill("[data-testid=password]", password)
        page.click("[data-testid=connect]")
    page.wait_for_selector("text=Connected to Neo4j", state="attached", timeout=60_000)


def drop(page: Page, name: str, content: bytes) -> None:
    """Drop a file on the page, as a user does."""
    page.evaluate(
        """([name, content]) => {
            const data = new DataTransfer();
            data.items.add(new File([Uint8Array.from(atob(content), c => c.charCodeAt(0))], name));
            const target = document.querySelector('[data-testid=activeEditor]') || document.body;
            for (const type of ['dragenter', 'dragover', 'drop'])
                target.dispatchEvent(new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true}));
        }""",
        [name, base64.b64encode(content).decode()],
    )
    page.wait_for_timeout(1500)


def run(page: Page, statement: str) -> None:
    """Run a statement and wait for its result, which then is the only one on the page."""
    clear(page)
    _enter(page, statement)
    page.wait_for_selector("[data-testid=frame-loaded-contents]", timeout=60_000)


def clear(page: Page) -> None:
    """Take all results off the page."""
    _enter(page, ":clear")
    page.wait_for_selector("[data-testid=frame]", state="detached")


def open_favourites(page: Page, *themes: str) -> None:
    """Open the drawer of favourites, and folders in it."""
    page.click("[data-testid=navigationFavorites]")
    for theme in themes:
        page.click(f"[data-testid=expandFolder-{theme}]")
    page.wait_for_timeout(1000)


def _enter(page: Page, text: str) -> None:
    page.locator("[data-testid=activeEditor] .view-lines").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)
    page.keyboard.press("Escape")  # closes the list of completions, which would take the next key
    page.keyboard.press("Control+Enter")


if __name__ == "__main__":
    main(sys.argv[1])
