"""Writing a comparison of two traces into a database that holds them, in the same way as a trace.

A comparison is a Diff node with its places, edges from these to GPU events of both traces, and MATCHES edges between
the traces. Of two traces, in their order, there is one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracelens_graph.db.catalog import drop_whole
from tracelens_graph.db.image import Edges, Nodes
from tracelens_graph.db.push import Claim, Outcome, hold, judged, push_whole
from tracelens_graph.db.statements import DIFF
from tracelens_graph.db.writer import Progress, Writer

if TYPE_CHECKING:
    from neo4j import Driver, ManagedTransaction

_COMPARED = {
    "window_a": "another part of the first trace",
    "window_b": "another part of the second trace",
    "schema_version": "another version of the graph model",
    "tool_version": "another version of tracelens_graph",
}
"""Properties of a comparison that must agree with what is there -> what to call them."""


@dataclass(frozen=True)
class DiffImage:
    """A comparison as nodes and edges of a database.

    Attributes:
        diff: properties of its Diff node, without `state` and times of the push.
        places: its Divergence nodes.
        edges: all its edges but those to the traces.
    """

    diff: Mapping[str, Any]
    places: Nodes
    edges: list[Edges]

    @property
    def size(self) -> int:
        """Number of nodes and edges, the Diff node left out."""
        return len(self.places) + sum(map(len, self.edges))


def diff_key(a: str, b: str) -> str:
    """The key of the comparison of two traces, by their ids."""
    return f"{a} {b}"


def push_diff_image(
    driver: Driver, database: str, image: DiffImage, *, replace: bool = False, progress: Progress | None = None
) -> Outcome:
    """Write a comparison into a database.

    Args:
        driver: a connection.
        database: name of the database.
        image: the comparison.
        replace: whether a comparison of the two traces that is there gives way.
        progress: called with rows written and rows in all.

    Returns:
        "pushed", "completed" (an earlier push was cut off), "replaced", or "unchanged" if it is there already.

    Raises:
        DatabaseError: one of the traces is not complete, or other parts of them are compared in the database; somebody
            else dropped one of them at the same time.
    """
    key = image.diff["key"]
    return push_whole(
        driver, database, DIFF, key,
        claim=lambda tx, replace: _claim(tx, image.diff, replace),
        drop=lambda: drop_whole(driver, database, DIFF, key),
        write=lambda begun_ns: _write(driver, database, image, begun_ns, progress),
        replace=replace,
    )  # fmt: skip


def _claim(tx: ManagedTransaction, diff: Mapping[str, Any], replace: bool) -> Claim:
    """Make the Diff node, or go on with the one that is there, while nobody drops one of the traces."""
    hold(tx, dict.fromkeys((diff["a"], diff["b"])))
    found = tx.run(
        "MERGE (d:Diff {key: $diff.key}) ON CREATE SET d += $diff, d.state = 'loading', d.begun_ns = $now "
        "WITH d MATCH (t:Trace) WHERE t.id IN [d.a, d.b] MERGE (d)-[:COMPARES]->(t) "
        "RETURN DISTINCT d.begun_ns = $now AS new, properties(d) AS d",
        diff=dict(diff), now=time.time_ns(),
    ).single(strict=True)  # fmt: skip
    return judged(found["d"], found["new"], diff, _COMPARED, replace)


def _write(driver: Driver, database: str, image: DiffImage, begun_ns: int, progress: Progress | None) -> None:
    diff = image.diff
    scope = {"diff": diff["key"], "a": diff["a"], "b": diff["b"], "begun": begun_ns}
    Writer(driver, database, DIFF, scope, image.size, progress).write([image.places], image.edges)
