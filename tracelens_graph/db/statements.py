"""Cypher made of the schema: constraints, indexes, and statements that write nodes and edges.

Labels, types and names of properties come from `schema` alone; everything of a trace is a parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tracelens_graph.db.image import Edges, Nodes
from tracelens_graph.schema.database import EVENT, EVENT_PROPERTIES, INDEXES, KEYS, KNOWLEDGE, PATHS


def schema() -> dict[str, str]:
    """Name -> statement that makes a constraint or an index; constraints, which make keys unique, come first."""
    keyed = [(label, (*filter(None, (key.scope,)), key.name)) for label, key in KEYS.items()]
    constraints = {
        f"{_index_name(label, names)}_key": f"FOR (n:{label}) REQUIRE ({_properties(names)}) IS UNIQUE"
        for label, names in (*keyed, PATHS)
    }
    indexes = {_index_name(label, names): f"FOR (n:{label}) ON ({_properties(names)})" for label, names in INDEXES}
    return {
        **{name: f"CREATE CONSTRAINT {name} IF NOT EXISTS {what}" for name, what in constraints.items()},
        **{name: f"CREATE INDEX {name} IF NOT EXISTS {what}" for name, what in indexes.items()},
    }


def _index_name(label: str, names: tuple[str, ...]) -> str:
    return "_".join((label.lower(), *names))


def _properties(names: tuple[str, ...]) -> str:
    return ", ".join(f"n.{name}" for name in names)


@dataclass(frozen=True, eq=False)
class Whole:
    """A node that stands for all that is written for it, and by which writers and those who drop it agree.

    Attributes:
        label: its label.
        key: its key.
        parameter: the parameter that holds its key.
        scope: further parameters of statements that write for it -> the properties that they hold.
        compared: properties that must agree with what is there -> what to call them.
    """

    label: str
    key: str
    parameter: str
    scope: Mapping[str, str]
    compared: Mapping[str, str]

    @property
    def begin(self) -> str:
        """Make the node, or find it: returns whether it is `new`, and its properties as `t`.

        Parameters: the key, `properties` and `now`.
        """
        return (
            f"MERGE (t:{self.label} {{{self.key}: ${self.parameter}}}) "
            "ON CREATE SET t += $properties, t.state = 'loading', t.begun_ns = $now "
            "RETURN t.begun_ns = $now AS new, properties(t) AS t"
        )

    @property
    def guard(self) -> str:
        """Begin of a transaction that writes: no row unless the node is still the one that the writer began.

        MERGE keeps a shared lock on the key until the commit. `begin_drop` needs that key alone, so whoever drops sees
        all that was written, and whoever writes sees that it is dropped. It is a statement of its own, so that a server
        plans and compiles it once. Parameters: the key and `begun`.
        """
        return (
            f"MERGE (t:{self.label} {{{self.key}: ${self.parameter}}}) "
            "WITH t WHERE t.begun_ns = $begun AND t.state <> 'dropping' RETURN t.state AS state"
        )

    @property
    def there(self) -> str:
        """What is there of it, without a lock: properties as `t`. Parameter: the key."""
        return f"MATCH (t:{self.label} {{{self.key}: ${self.parameter}}}) RETURN properties(t) AS t"

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
            "SET t.pushed_ns = coalesce(t.pushed_ns, $now), t.state = 'complete' "
            "RETURN t.begun_ns AS begun"
        )


_VERSIONS = {
    "schema_version": "another version of the graph model",
    "database_version": "another version of what stands in the database",
    "tool_version": "another version of tracelens_graph",
}
TRACE = Whole(
    "Trace", "id", "trace", {"run": "run"},
    {
        "path": "another name", "labels": "other labels", "options": "other options",
        "architecture": "another device", **_VERSIONS,
    },
)  # fmt: skip
DIFF = Whole(
    "Diff", "key", "diff", {"a": "a", "b": "b"},
    {"window_a": "another part of the first trace", "window_b": "another part of the second trace", **_VERSIONS},
)  # fmt: skip
MATCHING = Whole("Matching", "run", "run", {}, {})


def write_nodes(nodes: Nodes) -> str:
    """The statement that writes nodes, and returns their number as `found`.

    There is one for all events, and one for each other label: a server that was just started takes longer for a
    statement that it has not seen than for thousands of rows.

    Parameters: those of scopes, `trace`, `run` or `diff`; and `rows`. A row of an event is its uid, its further labels
    and all other `EVENT_PROPERTIES`, None for none. A row of another node is its key and a map of its properties;
    what this one does not know stays.
    """
    label = nodes.labels[0]
    changes = "n += r[1]"
    if label == EVENT:
        others = (f"n.{prop.name} = r[{place}]" for place, prop in enumerate(EVENT_PROPERTIES[1:], 2))
        changes = ", ".join(("n:$(r[1])", *others))
    return f"UNWIND $rows AS r MERGE (n:{label} {_key(label, 'r[0]')}) SET {changes} RETURN count(*) AS found"


def write_edges(edges: Edges) -> str:
    """The statement that writes edges: parameters as above; `found` is the number of pairs whose ends exist.

    Their type stands in it: where it is a parameter, MERGE looks at all edges of a node.
    """
    ends = [
        f"MATCH ({end}:{label} {_key(label, f'r[{place}]', edges.scopes[place])})"
        for place, (end, label) in enumerate((("a", edges.source), ("b", edges.target)))
    ]
    changes = ", ".join(f"e.{prop.name} = r[{place}]" for place, prop in enumerate(edges.properties, 2))
    change = f" SET {changes}" if changes else ""
    return f"UNWIND $rows AS r {' '.join(ends)} MERGE (a)-[e:{edges.type}]->(b){change} RETURN count(*) AS found"


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

DELETE_UNUSED_OF_RUN = tuple(
    f"MATCH (n:{label} {{run: $run}}) WHERE NOT EXISTS {{ (n)<--() }} DETACH DELETE n"
    for label in ("Collective", "ProcessGroup")
)
"""What no trace of a run uses any more: parameter `run`."""

DELETE_CONTEXT = (
    *(
        f"{TRACE.dropping} MATCH (n:{label} {{trace: $trace}}) DETACH DELETE n"
        for label, key in KEYS.items()
        if key.scope == "trace" and label != EVENT
    ),
    f"{TRACE.dropping} DETACH DELETE t",
    *DELETE_UNUSED_OF_RUN,
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

_UNUSED = "NOT EXISTS { (n)<--() }"

DELETE_UNUSED = tuple(
    "OPTIONAL MATCH (t:Trace {state: 'loading'}) WITH count(t) AS loading WHERE loading = 0 "
    f"MATCH (n:{label}) WHERE {_UNUSED} WITH n LIMIT $limit "
    f"SET n.name = n.name WITH n WHERE {_UNUSED} "  # again, as now it is locked
    "DETACH DELETE n RETURN count(*) AS deleted"
    for label in KNOWLEDGE
)
"""Knowledge that no trace uses; none while a trace is being pushed, which may be about to. Parameter `limit`."""
