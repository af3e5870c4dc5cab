"""How the server goes about queries: by indexes, with both bounds of a range, whatever else a database holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tracelens_graph.cypher import Query, library
from tracelens_graph.db.connection import OpenDatabase
from tracelens_graph.db.database import Database
from tracelens_graph.db.query import prepared
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind
from tracelens_graph.schema.database import EVENT, GPU_EVENT
from tracelens_graph.simulate import simulate, write

EVENTS = {EVENT, GPU_EVENT, *Kind.__members__}
DOCS = Path(__file__).parents[2] / "docs"

OTHERS = 24
PER_TRACE = 15
"""Accesses that a further trace may cost: which traces are complete, and what their names are, is found among all."""

ALL = {
    "common_signatures",
    "kernel_choices",
    "ops_only_in_one",
    "run_history",
    "incomplete_traces",
    "regressions",
    "findings_across",
    "worst_of_roof",
    "signature_history",
    "runs_like",
}
"""Queries about all traces of a database."""


@pytest.fixture(scope="module")
def traces(database: Database, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Ranks with enough events that a scan of all would not be cheaper, and statistics that know of them."""
    folder = tmp_path_factory.mktemp("plans")
    write(simulate(ranks=6, steps=3, seed=31), folder)
    paths = []
    for rank, file in enumerate(sorted(folder.glob("rank*.json.gz"))):
        database.push(load_core(str(file)), run="plans", name=f"rank{rank}")
        paths.append(f"plans/rank{rank}")
    with database.connection.driver() as driver, driver.session(database=database.connection.database) as session:
        session.run("CALL db.prepareForReplanning(60)").consume()
    return paths


@pytest.fixture(scope="module")
def profiled(database: Database, traces: list[str]) -> dict[str, tuple[int, int]]:
    """Statement -> its work among six traces, and among thirty."""
    asked = {name: (query.text, given_of(query, traces)) for name, query in library().items() if query.name not in ALL}
    asked |= {text: (of_first(text, traces), {}) for text in documented()}
    before = {name: work(database, *statement) for name, statement in asked.items()}
    for seed in range(OTHERS):
        database.push(
            load_core(simulate(1, steps=3, seed=100 + seed).ranks[0].trace), run=f"other-{seed}", name="rank0"
        )
    database.ask("CALL db.prepareForReplanning(60)", write=True)
    return {name: (before[name], work(database, *statement)) for name, statement in asked.items()}


def given_of(query: Query, traces: list[str]) -> dict[str, Any]:
    given = {"trace": traces[0], "a": traces[0], "b": traces[1], "run": "plans"}
    return {name: value for name, value in given.items() if name in query.defaults}


def documented() -> list[str]:
    """The statements about a trace or a run in the pages of the documentation that are about databases."""
    pages = sorted(set(DOCS.glob("*.md")) - {DOCS / "cypher-without-a-server.md"})
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    found = re.findall(r'db query "(MATCH .*?)"$', text, re.MULTILINE | re.DOTALL)
    found += re.findall(r"^```cypher\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [one for one in found if one.startswith("MATCH")]


def of_first(text: str, traces: list[str]) -> str:
    return re.sub(r"run: '\w+'", "run: 'plans'", text.replace("demo/rank0", traces[0]))


def work(database: Database, statement: str, given: Mapping[str, Any]) -> int:
    """Accesses to the database of a statement, or of the library's query of that text."""
    with database.connection.driver() as driver:
        db = OpenDatabase(driver, database.connection.database)
        query = next((one for one in library().values() if one.text == statement), None)
        text, values = prepared(db, query, dict(given)) if query else (statement, dict(given))
        with db.session(reads=True) as session:
            return hits(session.run(f"PROFILE {text}", values).consume().profile or {})


def hits(plan: Mapping[str, Any]) -> int:
    return int(plan.get("dbHits", 0)) + sum(map(hits, plan.get("children", ())))


def test_other_traces_cost_no_question_anything(profiled: dict[str, tuple[int, int]]) -> None:
    grown = {name: work for name, work in profiled.items() if work[1] - work[0] > PER_TRACE * OTHERS}
    assert not list(grown.items())
    assert len(profiled) > len(library())


@pytest.mark.parametrize("query", library().values(), ids=lambda query: query.name)
def test_events_are_found_by_indexes(database: Database, traces: list[str], query: Query) -> None:
    given = given_of(query, traces)
    with database.connection.driver() as driver, driver.session(database=database.connection.database) as session:
        statement, values = prepared(OpenDatabase(driver, database.connection.database), query, given)
        plan = session.run(f"EXPLAIN {statement}", values).consume().plan
    for operator, details in steps(plan or {}):
        assert operator != "AllNodesScan"
        if operator in ("NodeByLabelScan", "UnionNodeByLabelsScan", "IntersectionNodeByLabelsScan"):
            assert not EVENTS & set(details.partition(":")[2].replace("|", " ").replace("&", " ").split()), details
        if operator.startswith("NodeIndexSeek") and ("pre >" in details or "pre <" in details):
            assert "pre >" in details, details  # a range with both its ends
            assert "pre <" in details, details


def steps(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield plan["operatorType"].partition("@")[0], str(plan.get("args", {}).get("Details", ""))
    for child in plan.get("children", ()):
        yield from steps(child)
