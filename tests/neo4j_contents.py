"""All that a database holds, comparable: nodes with labels and properties, edges with their ends, each counted."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from tracelens_graph.db.connection import Connection
from tracelens_graph.db.image import Nodes

TIMES = ("begun_ns", "pushed_ns")
"""Properties that differ between two pushes of the same."""

_NODES = "MATCH (n) WHERE $traces IS NULL OR n.trace IN $traces OR n.id IN $traces RETURN labels(n), properties(n)"
_EDGES = """
MATCH (a)-[r]->(b) WHERE $traces IS NULL OR a.trace IN $traces OR a.id IN $traces
RETURN type(r), properties(r), a.trace, a.run, coalesce(a.uid, a.key, a.id, a.name),
       b.trace, b.run, coalesce(b.uid, b.key, b.id, b.name)
"""


class Contents(NamedTuple):
    """Nodes as texts and edges as tuples, with how often they are there."""

    nodes: Counter[str]
    edges: Counter[tuple[Any, ...]]


def contents(connection: Connection, *traces: str) -> Contents:
    """What a database holds, or the part of it that belongs to some traces alone."""
    with connection.driver() as driver, driver.session(database=connection.database) as session:
        wanted = list(traces) or None
        nodes = Counter(_node(*record.values()) for record in session.run(_NODES, traces=wanted))
        edges = Counter(_edge(*record.values()) for record in session.run(_EDGES, traces=wanted))
    return Contents(nodes, edges)


def _node(labels: list[str], properties: dict[str, Any]) -> str:
    return repr((sorted(labels), sorted(item for item in properties.items() if item[0] not in TIMES)))


def _edge(type: str, properties: dict[str, Any], *ends: Any) -> tuple[Any, ...]:
    return (type, repr(sorted(properties.items())), *ends)


def rows(nodes: Nodes) -> list[dict[str, Any]]:
    """Nodes of an image as the database has them, absent properties as None."""
    found = nodes.rows(0, len(nodes))
    return [dict(zip((prop.name for prop in nodes.properties), row, strict=True)) for row in found]


def assert_same(found: Contents, expected: Contents) -> None:
    """Fail with the first few differences."""
    for what, here, there in zip(("nodes", "edges"), found, expected, strict=True):
        lost, more = there - here, here - there
        assert not lost, f"{lost.total()} {what} lost: {list(lost)[:3]}"
        assert not more, f"{more.total()} {what} too many: {list(more)[:3]}"
