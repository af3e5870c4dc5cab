"""How the server goes about the queries: by indexes, with both bounds of a range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


@pytest.mark.parametrize("query", library().values(), ids=lambda query: query.name)
def test_events_are_found_by_indexes(database: Database, traces: list[str], query: Query) -> None:
    given: dict[str, Any] = {"trace": traces[0], "a": traces[0], "b": traces[1], "run": "plans"}
    given = {name: value for name, value in given.items() if name in query.defaults}
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
