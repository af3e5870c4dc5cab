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
from tracelens_graph.db.query import prepared, statement_of
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
    asked = {name: query for name, query in library().items() if name not in ALL}
    asked |= {text: statement_of(of_first(text, traces)) for text in documented() if is_scoped(text)}
    before = {name: work(database, query, traces) for name, query in asked.items()}
    for seed in range(OTHERS):
        database.push(
            load_core(simulate(1, steps=3, seed=100 + seed).ranks[0].trace), run=f"other-{seed}", name="rank0"
        )
    database.ask("CALL db.prepareForReplanning(60)", write=True)
    return {name: (before[name], work(database, query, traces)) for name, query in asked.items()}


def given_of(query: Query, traces: list[str]) -> dict[str, Any]:
    given = {"trace": traces[0], "a": traces[0], "b": traces[1], "run": "plans"}
    return {name: value for name, value in given.items() if name in query.defaults or name in query.asked.used}


STATEMENT = re.compile(
    r"""
      ^```cypher\n(?P<block>.*?)^```
    | \bdb\ query\ (?P<quote>["'])(?P<shell>.*?)(?P=quote)
    | \.(?:query|ask)\("(?P<line>[^"]*)"
    | =\ \"\"\"\n(?P<lines>.*?)\"\"\"$
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
"""A statement in a page: in a block of its own, in a command, or in Python."""

PAGES = [DOCS.parent / "README.md", *sorted(set(DOCS.glob("*.md")) - {DOCS / "cypher-without-a-server.md"})]

ABOUT_ALL = 5
"""Statements of the pages that are about all traces of a database, or refused."""


def documented() -> list[str]:
    """The statements of the documentation that a database is asked."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    found = (next(filter(None, one.group("block", "shell", "line", "lines"))) for one in STATEMENT.finditer(text))
    return [one for one in (re.sub(r"^\.\.\. ", "", one, flags=re.MULTILINE) for one in found) if "MATCH" in one]


def is_scoped(statement: str) -> bool:
    """Whether a statement is about a trace or a run."""
    return re.search(r"\$trace\b|\btrace: |path: 'demo|run: '", statement) is not None


def lines_with_match() -> list[str]:
    """Lines of code in the pages that a statement begins in, or goes on."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    blocks = re.findall(r"^```(?:cypher|console|text|pycon|python)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [
        line for block in blocks for line in block.splitlines() if "MATCH (" in line and "-graph cypher" not in line
    ]


def of_first(text: str, traces: list[str]) -> str:
    return re.sub(r"run: '\w+'", "run: 'plans'", text.replace("demo/rank0", traces[0]))


def work(database: Database, query: Query, traces: list[str]) -> int:
    """Accesses to the database of a query about the first of some traces, or about two or all of them."""
    with database.connection.driver() as driver:
        db = OpenDatabase(driver, database.connection.database)
        text, values = prepared(db, query, given_of(query, traces))
        with db.session(reads=True) as session:
            return hits(session.run(f"PROFILE {text}", values).consume().profile or {})


def hits(plan: Mapping[str, Any]) -> int:
    return int(plan.get("dbHits", 0)) + sum(map(hits, plan.get("children", ())))


def test_other_traces_cost_no_question_anything(profiled: dict[str, tuple[int, int]]) -> None:
    grown = {name: work for name, work in profiled.items() if work[1] - work[0] > PER_TRACE * OTHERS}
    assert not list(grown.items())
    assert not [name for name, work in profiled.items() if not work[0]]


def test_every_statement_of_the_pages_is_profiled(profiled: dict[str, tuple[int, int]]) -> None:
    found = documented()
    begun = [line for text in found for line in text.splitlines() if "MATCH (" in line]
    assert not [line for line in lines_with_match() if not any(one in line for one in begun)]
    assert sum(not is_scoped(text) for text in found) == ABOUT_ALL
    assert library().keys() | set(found) == profiled.keys() | ALL | {text for text in found if not is_scoped(text)}


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
