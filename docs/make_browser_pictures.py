"""Take the pictures of Neo4j Browser: docs/pictures/browser-*.png.

    NEO4J_URI=bolt://127.0.0.1:7687 python docs/make_browser_pictures.py http://127.0.0.1:7474

The server, of `db start` for instance, runs with or without a password (NEO4J_PASSWORD). The example run is pushed
into it. Needs chromium, and playwright, which is in no list of requirements: `pip install playwright`.
"""

from __future__ import annotations

import base64
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from pages import DOCS

from tracelens_graph.cypher import library
from tracelens_graph.database import connect
from tracelens_graph.loading import load_core
from tracelens_graph.simulate import simulate, write
from tracelens_graph.stores.neo4j.browser import FAVOURITES, STYLE, favourites, style

if TYPE_CHECKING:
    from playwright.sync_api import Page


LAYER = """MATCH (m:Module) WHERE m.gpu_events >= 4 AND m.last - m.pre < 45
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

_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


def main(address: str) -> None:
    """Push the example and take all pictures."""
    with connect() as database:
        for rank in example_ranks():
            database.push(load_core(rank), run="example", replace=True)
        bolt, password = database.connection.uri, database.connection.password
    with browser() as page:
        login(page, address, bolt, password)
        drop(page, STYLE, style())
        drop(page, FAVOURITES, favourites())
        for name, question in PICTURES.items():
            page.keyboard.press("Escape")
            run(page, ":clear")
            found = library().get(question)
            run(page, found.text if found else question)
            page.screenshot(path=DOCS / "pictures" / f"{name}.png")
            print(DOCS / "pictures" / f"{name}.png")
        run(page, ":clear")
        page.click("[data-testid=navigationFavorites]")
        page.wait_for_timeout(1500)
        for theme in ("structure", "timeline"):
            page.click(f"text={theme}")
            page.wait_for_timeout(500)
        page.screenshot(path=DOCS / "pictures" / "browser-favourites.png")


def example_ranks() -> list[str]:
    """The traces that `make demo` looks at: a simulated training run of two ranks."""
    folder = Path(mkdtemp())
    write(simulate(ranks=2, steps=2, seed=7), folder)
    return [str(file) for file in sorted(folder.glob("rank*.json.gz"))]


@contextmanager
def browser() -> Iterator[Page]:
    """A page of a headless browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=_ARGUMENTS)
        yield opened.new_page(viewport={"width": 1400, "height": 700})
        opened.close()


def login(page: Page, address: str, bolt: str, password: str) -> None:
    """Open Neo4j Browser and connect."""
    way = "" if password else "&preselectAuthMethod=NO_AUTH"
    page.goto(f"{address}/browser/?dbms={bolt}{way}&db=neo4j")
    if password:
        page.fill("[data-testid=username]", os.environ.get("NEO4J_USER", "neo4j"))
        page.fill("[data-testid=password]", password)
        page.click("[data-testid=connect]")
    page.wait_for_selector("text=Connected to Neo4j", state="attached", timeout=60_000)
    page.evaluate(
        """() => [...document.querySelectorAll('div')].find(one =>
            one.textContent.startsWith('To help make Neo4j Browser better') && one.clientHeight < 80)?.remove()"""
    )


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


def run(page: Page, statement: str) -> Any:
    """Run a statement and wait for its result."""
    editor = page.locator("[data-testid=activeEditor] .view-lines")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(statement)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    page.wait_for_timeout(6000)


if __name__ == "__main__":
    main(sys.argv[1])
