"""Cypher made of the schema: constraints, indexes, and statements that write nodes and edges.

Labels, types and names of properties come from `schema` alone; everything of a trace is a parameter.
"""

from __future__ import annotations

from tracelens_graph.schema.database import EVENT, INDEXES, KEYS, KNOWLEDGE, PATHS
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


_GUARD = (
    " WITH count(*) AS found MERGE (t:Trace {id: $trace}) "
    "WITH t, found WHERE t.begun_ns = $begun AND t.state <> 'dropping' RETURN found"
)
"""End of a statement that writes: no row unless the trace is still the one that the writer began.

MERGE keeps a shared lock on the key until the commit. `BEGIN_DROP` needs that key alone, so whoever drops the trace
sees all that was written, and whoever writes sees that it is dropped.
"""

BEGIN_DROP = (
    "MATCH (t:Trace {id: $trace}) REMOVE t.id SET t.id = $trace, t.state = 'dropping', "
    "t.begun_ns = coalesce(t.begun_ns, $now) "
    "RETURN t.run AS run, t.begun_ns AS begun, coalesce(t.nodes, 0) AS events"
)
"""From its commit on no push of the trace gets a batch in. Parameters `trace` and `now`."""


def write_nodes(nodes: Nodes) -> str:
    """The statement that writes nodes, and returns their number as `found`: parameters `rows`, `trace`, `run`, `begun`.

    On nodes that several traces share nothing is taken away that this one does not know.
    """
    shared = KEYS[nodes.labels[0]].scope != "trace"
    changes = [
        f"n.{prop.name} = " + (f"coalesce(r[{place}], n.{prop.name})" if shared else f"r[{place}]")
        for place, prop in enumerate(nodes.properties)
    ][1:]
    change = f" SET {', '.join(changes)}" if changes else ""
    return f"UNWIND $rows AS r MERGE (n:{':'.join(nodes.labels)} {_key(nodes.labels[0], 'r[0]')}){change}{_GUARD}"


def write_edges(edges: Edges) -> str:
    """The statement that writes edges: parameters as above; `found` is the number of pairs whose ends exist."""
    return (
        f"UNWIND $rows AS r MATCH (a:{edges.source} {_key(edges.source, 'r[0]')}) "
        f"MATCH (b:{edges.target} {_key(edges.target, 'r[1]')}) MERGE (a)-[:{edges.type}]->(b){_GUARD}"
    )


def _key(label: str, value: str) -> str:
    key = KEYS[label]
    scope = f"{key.scope}: ${key.scope}, " if key.scope else ""
    return f"{{{scope}{key.name}: {value}}}"


_DROPPING = (
    "MATCH (t:Trace {id: $trace}) SET t.begun_ns = t.begun_ns WITH t WHERE t.begun_ns = $begun AND t.state = 'dropping'"
)

DELETE_EVENTS = (
    f"{_DROPPING} MATCH (n:{EVENT}) WHERE n.trace = $trace AND n.pre >= 0 WITH n LIMIT $limit "
    "DETACH DELETE n RETURN count(*) AS deleted"
)
"""Parameters `trace`, `begun` and `limit`."""

DELETE_CONTEXT = (
    *(
        f"{_DROPPING} MATCH (n:{label} {{trace: $trace}}) DETACH DELETE n"
        for label, key in KEYS.items()
        if key.scope == "trace" and label != EVENT
    ),
    f"{_DROPPING} DETACH DELETE t",
    *(
        f"MATCH (n:{label} {{run: $run}}) WHERE NOT EXISTS {{ (n)<--() }} DETACH DELETE n"
        for label in ("Collective", "ProcessGroup")
    ),
    "MATCH (n:Run {name: $run}) WHERE NOT EXISTS { (n)<--() } DETACH DELETE n",
)
"""What is left of a trace without events, and of a run without traces: parameters `trace`, `begun` and `run`."""

DELETE_UNUSED = tuple(
    "OPTIONAL MATCH (t:Trace {state: 'loading'}) WITH count(t) AS loading WHERE loading = 0 "
    f"MATCH (n:{label}) WHERE NOT EXISTS {{ (n)<--() }} WITH n LIMIT $limit "
    "SET n.name = n.name WITH n WHERE NOT EXISTS { (n)<--() } "  # again, as now it is locked
    "DETACH DELETE n RETURN count(*) AS deleted"
    for label in KNOWLEDGE
)
"""Knowledge that no trace uses; none while a trace is being pushed, which may be about to. Parameter `limit`."""
