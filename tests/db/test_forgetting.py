"""Forgetting events: what is left is what a push of facts alone writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from neo4j_server import Contents, Home, assert_same, contents

from tracelens_graph.db.database import Database
from tracelens_graph.db.image import Options
from tracelens_graph.errors import DatabaseError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

FACTS = Options(kinds=())


@pytest.fixture
def database(home: Home) -> Iterator[Database]:
    """A database without any trace."""
    with Database(home.connection) as found:
        for trace in found.traces():
            found.drop(trace["id"])
        yield found


@pytest.fixture(scope="module")
def ranks() -> list[Core]:
    return [load_core(rank.trace) for rank in simulate(2, steps=1, layers=1, seed=51).ranks]


def without_number_of_edges(found: Contents, database: Database) -> Contents:
    """Edges of a push count those among knowledge; what is left when events are forgotten counts its own."""
    nodes: Counter[str] = Counter()
    numbers = [f"('edges', {trace['edges']})" for trace in database.traces()]
    for node, times in found.nodes.items():
        for number in numbers if "('pulled_edges'" in node else ():
            node = node.replace(number, "")
        nodes[node.split("('pulled_edges'")[0]] += times
    return Contents(nodes, found.edges)


def test_facts_are_left(home: Home, database: Database, ranks: list[Core]) -> None:
    for rank, core in enumerate(ranks):
        database.push(core, run="run", name=f"rank{rank}", options=FACTS)
    expected = without_number_of_edges(contents(home.connection), database)
    for rank, core in enumerate(ranks):
        database.push(core, run="run", name=f"rank{rank}", replace=True)
    database.match("run", {f"rank{rank}": core for rank, core in enumerate(ranks)})
    assert len(database.with_events()) == 2
    assert not database.with_events(before_ns=0)
    for trace in database.with_events(["run"]):
        database.forget_events(trace["id"])
    assert not database.with_events()
    assert_same(without_number_of_edges(contents(home.connection), database), expected)


def test_questions_about_events_are_refused(database: Database, ranks: list[Core]) -> None:
    database.push(ranks[0], run="run", name="rank0", options=FACTS)
    with pytest.raises(DatabaseError, match="facts alone"):
        database.ask("gpu_timeline", trace="run/rank0")
    with pytest.raises(DatabaseError, match="without some of its events"):
        database.pull("run/rank0")
    assert len(database.ask("run_history", run="run")) == 1
