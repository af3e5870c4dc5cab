"""Neo4j Browser with our style and queries: what they hold, and what a user sees who drops them on its page."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from corpus import CHECKOUT
from tracelens_graph.cypher import library
from tracelens_graph.db.browser import FAVOURITES, STYLE, favourites, style
from tracelens_graph.db.connection import LOOPBACK, Connection
from tracelens_graph.db.database import Database
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import CONTEXT_KINDS, DIFF_KINDS, RANK_KINDS, Kind
from tracelens_graph.schema.comparisons import DIFF_PROPERTIES
from tracelens_graph.schema.database import CONTEXT_PROPERTIES, EVENT_PROPERTIES, HEAT, HOT, WARM
from tracelens_graph.schema.jobs import RANK_PROPERTIES
from tracelens_graph.simulate import simulate, write

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request

sys.path.insert(0, str(CHECKOUT / "docs"))
import make_browser_pictures as neo4j_browser

_RULE = re.compile(r"^node\.(\w+) \{(.*)\}$", re.MULTILINE)
_SETTING = re.compile(r"([\w-]+): ([^;]+);")
RULES = {label: dict(_SETTING.findall(body)) for label, body in _RULE.findall(style().decode())}
"""Label -> name of a setting -> value."""

WAY = ("Module", "PythonFunction", "Op", "RuntimeCall", "Kernel")
"""Kinds that a path from a module to a kernel goes through."""

KINDS = {kind.name for kind in Kind} | set(CONTEXT_KINDS) | set(DIFF_KINDS) | set(RANK_KINDS)
PROPERTIES = {**CONTEXT_PROPERTIES, **DIFF_PROPERTIES, **RANK_PROPERTIES}


def test_kinds_differ_in_colour_and_have_captions_that_are_stored() -> None:
    assert len({RULES[kind]["color"] for kind in KINDS}) == len(KINDS)
    for kind in KINDS:
        stored = {"name"} | {one.name for one in PROPERTIES.get(kind, EVENT_PROPERTIES)}
        assert RULES[kind]["caption"].strip("'{}") in stored


def diameters() -> dict[tuple[str, str], int]:
    """Kind and label of heat -> diameter, of the kinds that a path is made of."""
    of_heat = re.findall(r"^node\.(\w+)\.(\w+) \{ diameter: (\d+)px; \}$", style().decode(), re.MULTILINE)
    found = {(kind, ""): int(RULES[kind]["diameter"].removesuffix("px")) for kind in WAY}
    return found | {(kind, heat): int(size) for kind, heat, size in of_heat}


@dataclass(frozen=True)
class Seen:
    """A page of Neo4j Browser, logged in, that has taken both files; a trace to look at; and what the page asked of
    other hosts without being refused by the policy of the server."""

    page: Page
    trace: str
    elsewhere: list[str]

    def ask(self, name: str) -> None:
        """Run a query of the library on the trace, as the page on Neo4j Browser tells users to."""
        text = library()[name].text
        assert "trace: null" in text
        neo4j_browser.run(self.page, text.replace("trace: null", f"trace: '{self.trace}'", 1))

    def nodes(self) -> list[dict[str, Any]]:
        """What is drawn: labels, properties, fill, radius, and caption of each node."""
        self.page.wait_for_selector("g.node circle.b-outline")
        found: list[dict[str, Any]] = self.page.evaluate(
            """() => [...document.querySelectorAll('g.node')].map(node => ({
                labels: node.__data__.labels,
                properties: node.__data__.propertyMap,
                fill: node.querySelector('circle.b-outline').getAttribute('fill'),
                radius: +node.querySelector('circle.b-outline').getAttribute('r'),
                caption: [...node.querySelectorAll('text.caption')].map(line => line.textContent.trim()).join(''),
            }))"""
        )
        return found

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The table that is shown: columns and rows."""
        self.page.wait_for_selector("table thead th")
        return (
            self.page.locator("table th[role=columnheader]").all_inner_texts(),
            [row.locator("td[role=cell]").all_inner_texts() for row in self.page.locator("table tbody tr").all()],
        )


@pytest.fixture(scope="module")
def seen(neo4j: Connection, chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("browser")
    write(simulate(ranks=1, steps=1, seed=4711), folder)
    with Database(neo4j) as database:
        core = load_core(str(next(Path(folder).glob("rank*.json.gz"))))
        database.push(core, run="browser-test")
        setting = database.ask("SHOW SETTINGS 'server.http.advertised_address' YIELD value")
    address = str(setting["value"][0])
    host = neo4j_host(neo4j) if address.startswith(":") else ""
    with neo4j_browser.browser(chromium) as page:
        elsewhere: list[str] = []
        page.on("requestfinished", lambda request: _note(request, elsewhere))
        page.on("requestfailed", lambda request: _note(request, elsewhere))
        neo4j_browser.login(page, f"http://{host}{address}", neo4j.uri, neo4j.password, neo4j.user)
        neo4j_browser.drop(page, STYLE, style())
        neo4j_browser.drop(page, FAVOURITES, favourites())
        yield Seen(page, core.trace_id, elsewhere)


def _note(request: Request, elsewhere: list[str]) -> None:
    if urlsplit(request.url).hostname not in (*LOOPBACK, None) and request.failure != "csp":
        elsewhere.append(request.url)


def neo4j_host(connection: Connection) -> str:
    return connection.uri.partition("//")[2].rpartition(":")[0]


def kind_of(node: dict[str, Any]) -> str:
    (kind,) = KINDS & set(node["labels"])
    return kind


def test_a_query_is_drawn_in_the_colours_of_kinds(seen: Seen) -> None:
    seen.ask("path_to_python")
    nodes = seen.nodes()
    assert {"Kernel", "RuntimeCall", "Op", "Module", "PythonFunction"} <= set(map(kind_of, nodes))
    for node in nodes:
        assert node["fill"] == RULES[kind_of(node)]["color"]
        shown = node["caption"].rstrip("…")
        assert shown
        told = node["properties"][RULES[kind_of(node)]["caption"].strip("'{}")]
        # Where the browser breaks a caption, and which words it leaves out, depends on fonts; how it begins does not.
        assert told.startswith(shown.split()[0][:4])


def test_hot_nodes_are_larger(seen: Seen) -> None:
    neo4j_browser.run(
        seen.page,
        f"MATCH (k:Kernel {{trace: '{seen.trace}'}}) WITH k:{HOT} AS hot, k:{WARM} AS warm, collect(k)[..3] AS some "
        "UNWIND some AS k RETURN k",
    )
    radius: dict[str, set[float]] = {}
    for node in seen.nodes():
        radius.setdefault(next((heat for heat in HEAT if heat in node["labels"]), ""), set()).add(node["radius"])
        assert node["fill"] == RULES["Kernel"]["color"]
    assert radius == {heat: {diameters()["Kernel", heat] / 2} for heat in ("", *HEAT)}


@pytest.mark.parametrize("name", ["gpu_timeline", "repeated_subtrees"])
def test_a_table_has_the_columns_of_its_header(seen: Seen, name: str) -> None:
    seen.ask(name)
    columns, rows = seen.table()
    assert columns == list(library()[name].columns)
    assert rows
    assert any(rows[0])


def test_the_favourites_are_the_library(seen: Seen) -> None:
    themes = dict.fromkeys(query.theme for query in library().values())
    neo4j_browser.open_favourites(seen.page, *themes)
    drawer = seen.page.inner_text("body").splitlines()
    for wanted in (*themes, *(query.title for query in library().values())):
        assert wanted in drawer
    seen.page.click(f"text={library()['gpu_timeline'].title}")
    seen.page.wait_for_selector("[data-testid=activeEditor] >> text=idle_time")


def test_it_asks_no_other_host(seen: Seen) -> None:
    """Neither for fonts nor for scripts, and it reports nothing; so it has nothing to ask the user's leave for."""
    seen.ask("path_to_python")
    seen.nodes()
    assert seen.elsewhere == []
    assert "To help make Neo4j Browser better" not in seen.page.inner_text("body")
