"""Cypher made of the schema: constraints, indexes, and statements that write nodes and edges.

Labels, types and names of properties come from `schema` alone; everything of a trace is a parameter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

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


class Whole(NamedTuple):
    """A node that stands for all that is written for it, and by which writers and those who drop it agree.

    Attributes:
        label: its label.
        key: its key.
        parameter: the parameter that holds its key.
    """

    label: str
    key: str
    parameter: str

    @property
    def guard(self) -> str:
        """End of a statement that writes: no row unless the node is still the one that the writer began.

        MERGE keeps a shared lock on the key until the commit. `begin_drop` needs that key alone, so whoever drops sees
        all that was written, and whoever writes sees that it is dropped.
        """
        return (
            f" WITH count(*) AS found MERGE (t:{self.label} {{{self.key}: ${self.parameter}}}) "
            "WITH t, found WHERE t.begun_ns = $begun AND t.state <> 'dropping' RETURN found"
        )

    @property
    def begin_drop(self) -> str:
        """From its commit on no push gets a batch in. Parameters: the key and `now`; returns properties as `t`."""
        return (
            f"MATCH (t:{self.label} {{{self.key}: ${self.parameter}}}) REMOVE t.{self.key} "
            f"SET t.{self.key} = ${self.parameter}, t.state = 'dropping', t.begun_ns = coalesce(t.begun_ns, $now) "
            "RETURN properties(t) AS t"
        )

    @property
    def dropping(self) -> str:
        """Begin of a statement that deletes: no row unless it is still being dropped. Parameters: key and `begun`."""
        return (
            f"MATCH (t:{self.label} {{{self.key}: ${self.parameter}}}) SET t.begun_ns = t.begun_ns "
            "WITH t WHERE t.begun_ns = $begun AND t.state = 'dropping'"
        )

    @property
    def complete(self) -> str:
        """All of it stands. Parameters: the key, `begun` and `now`; no row where it is no longer the writer's."""
        return (
            f"MATCH (t:{self.label} {{{self.key}: ${self.parameter}}}) SET t.begun_ns = t.begun_ns "
            "WITH t WHERE t.begun_ns = $begun AND t.state <> 'dropping' "
            "SET t.pushed_ns = CASE t.state WHEN 'complete' THEN t.pushed_ns ELSE $now END, t.state = 'complete' "
            "RETURN t.begun_ns AS begun"
        )


TRACE = Whole("Trace", "id", "trace")
DIFF = Whole("Diff", "key", "diff")
MATCHING = Whole("Matching", "run", "run")


def write_nodes(nodes: Nodes, whole: Whole = TRACE) -> str:
    """The statement that writes nodes, and returns their number as `found`.

    Parameters: `rows`, `begun`, the key of what they belong to, and those of scopes: `trace` and `run`, or `diff`. On
    nodes that several traces share nothing is taken away that this one does not know.
    """
    shared = KEYS[nodes.labels[0]].scope in ("", "run")
    changes = [
        f"n.{prop.name} = " + (f"coalesce(r[{place}], n.{prop.name})" if shared else f"r[{place}]")
        for place, prop in enumerate(nodes.properties)
    ][1:]
    change = f" SET {', '.join(changes)}" if changes else ""
    return f"UNWIND $rows AS r MERGE (n:{':'.join(nodes.labels)} {_key(nodes.labels[0], 'r[0]')}){change}{whole.guard}"


def write_edges(edges: Edges, whole: Whole = TRACE) -> str:
    """The statement that writes edges: parameters as above; `found` is the number of pairs whose ends exist."""
    ends = [
        f"MATCH ({end}:{label} {_key(label, f'r[{place}]', edges.scopes[place])})"
        for place, (end, label) in enumerate((("a", edges.source), ("b", edges.target)))
    ]
    changes = ", ".join(f"e.{prop.name} = r[{place}]" for place, prop in enumerate(edges.properties, 2))
    change = f" SET {changes}" if changes else ""
    return f"UNWIND $rows AS r {' '.join(ends)} MERGE (a)-[e:{edges.type}]->(b){change}{whole.guard}"


def _key(label: str, value: str, within: str | int = "") -> str:
    key = KEYS[label]
    scope_value = f"r[{within}]" if isinstance(within, int) else f"${within or key.scope}"
    scope = f"{key.scope}: {scope_value}, " if key.scope else ""
    return f"{{{scope}{key.name}: {value}}}"


DELETE_EVENTS = (
    f"{TRACE.dropping} MATCH (n:{EVENT}) WHERE n.trace = $trace AND n.pre >= 0 WITH n LIMIT $limit "
    "DETACH DELETE n RETURN count(*) AS deleted"
)
"""Parameters `trace`, `begun` and `limit`."""

DELETE_CONTEXT = (
    *(
        f"{TRACE.dropping} MATCH (n:{label} {{trace: $trace}}) DETACH DELETE n"
        for label, key in KEYS.items()
        if key.scope == "trace" and label != EVENT
    ),
    f"{TRACE.dropping} DETACH DELETE t",
    *(
        f"MATCH (n:{label} {{run: $run}}) WHERE NOT EXISTS {{ (n)<--() }} DETACH DELETE n"
        for label in ("Collective", "ProcessGroup")
    ),
    "MATCH (n:Run {name: $run}) WHERE NOT EXISTS { (n)<--() } DETACH DELETE n",
)
"""What is left of a trace without events, and of a run without traces: parameters `trace`, `begun` and `run`."""


def _deletions(whole: Whole, patterns: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Statements that delete what belongs to a node, and then the node itself.

    Args:
        whole: the node, `t` in the patterns.
        patterns: what is to be found, and what of it is deleted: `e` for an edge, `p` for a node.
    """
    deletes = {"e": "DELETE", "p": "DETACH DELETE"}
    return tuple(
        f"{whole.dropping} MATCH {pattern} WITH {what} LIMIT $limit {deletes[what]} {what} RETURN count(*) AS deleted"
        for pattern, what in (*patterns, (f"(p:{whole.label} {{{whole.key}: t.{whole.key}}})", "p"))
    )


DELETIONS = {
    DIFF: _deletions(
        DIFF,
        (
            (f"(x:{EVENT})-[e:MATCHES]->(y:{EVENT}) WHERE x.trace = t.a AND x.pre >= 0 AND y.trace = t.b", "e"),
            ("(t)-[e:ONLY_IN_A|ONLY_IN_B]->()", "e"),
            ("(p:Divergence)-[e:IN_A|IN_B]->() WHERE p.diff = t.key AND p.place >= 0", "e"),
            ("(p:Divergence) WHERE p.diff = t.key AND p.place >= 0", "p"),
        ),
    ),
    MATCHING: _deletions(
        MATCHING,
        (
            (f"(m:Meeting)<-[:MEMBER_OF]-(:{EVENT})-[e:SENDS]->() WHERE m.run = t.run AND m.number >= 0", "e"),
            *(
                (f"(p:{label}) WHERE p.run = t.run AND p.number >= 0", "p")
                for label in ("Meeting", "PathSegment", "CriticalPath")
            ),
        ),
    ),
}
"""What belongs to a comparison, or to a matching, and that node: statements to be run one after the other, each until
nothing is left. Parameters: that of the key, `begun` and `limit`."""

DELETE_UNUSED = tuple(
    "OPTIONAL MATCH (t:Trace {state: 'loading'}) WITH count(t) AS loading WHERE loading = 0 "
    f"MATCH (n:{label}) WHERE NOT EXISTS {{ (n)<--() }} WITH n LIMIT $limit "
    "SET n.name = n.name WITH n WHERE NOT EXISTS { (n)<--() } "  # again, as now it is locked
    "DETACH DELETE n RETURN count(*) AS deleted"
    for label in KNOWLEDGE
)
"""Knowledge that no trace uses; none while a trace is being pushed, which may be about to. Parameter `limit`."""
