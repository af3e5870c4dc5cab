"""Cypher made of the schema: constraints, indexes, and statements that write nodes and edges.

Labels, types and names of properties come from `schema` alone; everything of a trace is a parameter.
"""

from __future__ import annotations

from tracelens_graph.schema.database import EVENT, INDEXES, KEYS, PATHS
from tracelens_graph.stores.neo4j.image import Edges, Nodes


def constraints() -> list[str]:
    """Statements that make keys unique."""
    keyed = [(label, (*filter(None, (key.scope,)), key.name)) for label, key in KEYS.items()]
    return [
        f"CREATE CONSTRAINT {_index_name(label, names)}_key IF NOT EXISTS "
        f"FOR (n:{label}) REQUIRE ({_properties(names)}) IS UNIQUE"
        for label, names in (*keyed, PATHS)
    ]


def indexes() -> list[str]:
    """Statements that make indexes."""
    return [
        f"CREATE INDEX {_index_name(label, names)} IF NOT EXISTS FOR (n:{label}) ON ({_properties(names)})"
        for label, names in INDEXES
    ]


def _index_name(label: str, names: tuple[str, ...]) -> str:
    return "_".join((label.lower(), *names))


def _properties(names: tuple[str, ...]) -> str:
    return ", ".join(f"n.{name}" for name in names)


def write_nodes(nodes: Nodes) -> str:
    """The statement that writes nodes: parameters `rows`, `trace` and `run`.

    On nodes that several traces share nothing is taken away that this one does not know.
    """
    shared = KEYS[nodes.labels[0]].scope != "trace"
    changes = [
        f"n.{prop.name} = " + (f"coalesce(r[{place}], n.{prop.name})" if shared else f"r[{place}]")
        for place, prop in enumerate(nodes.properties)
    ][1:]
    change = f" SET {', '.join(changes)}" if changes else ""
    return f"UNWIND $rows AS r MERGE (n:{':'.join(nodes.labels)} {_key(nodes.labels[0], 'r[0]')}){change}"


def write_edges(edges: Edges) -> str:
    """The statement that writes edges: parameters `rows`, `trace` and `run`; it returns the number of pairs found."""
    return (
        f"UNWIND $rows AS r MATCH (a:{edges.source} {_key(edges.source, 'r[0]')}) "
        f"MATCH (b:{edges.target} {_key(edges.target, 'r[1]')}) MERGE (a)-[:{edges.type}]->(b) RETURN count(*) AS found"
    )


def _key(label: str, value: str) -> str:
    key = KEYS[label]
    scope = f"{key.scope}: ${key.scope}, " if key.scope else ""
    return f"{{{scope}{key.name}: {value}}}"


DELETE_EVENTS = (
    f"MATCH (n:{EVENT}) WHERE n.trace = $trace AND n.pre >= 0 CALL (n) {{ DETACH DELETE n }} "
    "IN TRANSACTIONS OF 10000 ROWS"
)
"""Parameter `trace`; for a transaction of its own."""
