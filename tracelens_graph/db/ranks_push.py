"""Writing what the ranks of a run have in common into a database that holds them, in the same way as a trace.

A Matching node stands for the collectives and the critical paths of a run. There is one for a run, and it is about all
of its traces: it goes when one of them is dropped, and another trace that is pushed into the run makes it invalid.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracelens_graph.db.catalog import drop_whole
from tracelens_graph.db.image import Edges, Nodes
from tracelens_graph.db.push import Claim, Outcome, hold, judged, push_whole
from tracelens_graph.db.statements import MATCHING
from tracelens_graph.db.writer import Progress, Writer
from tracelens_graph.errors import DatabaseError

if TYPE_CHECKING:
    from neo4j import Driver, ManagedTransaction

_COMPARED = ("traces", "paths", "schema_version", "tool_version")
"""Properties of a matching that tell whether the one that is there is the same."""


@dataclass(frozen=True)
class RanksImage:
    """The matched collectives and the critical paths of a run as nodes and edges of a database.

    Attributes:
        matching: properties of the Matching node, without `state` and times of the push.
        nodes: all other nodes.
        edges: all edges.
    """

    matching: Mapping[str, Any]
    nodes: list[Nodes]
    edges: list[Edges]

    @property
    def size(self) -> int:
        """Number of nodes and edges, the Matching node left out."""
        return sum(map(len, self.nodes)) + sum(map(len, self.edges))


def push_ranks_image(driver: Driver, database: str, image: RanksImage, progress: Progress | None = None) -> Outcome:
    """Write what the ranks of a run have in common into a database; what other ranks of the run had gives way.

    Args:
        driver: a connection.
        database: name of the database.
        image: the collectives and paths.
        progress: called with rows written and rows in all.

    Returns:
        "pushed", "completed" (an earlier push was cut off), "replaced", or "unchanged" if they are there already.

    Raises:
        DatabaseError: one of the traces is not complete, or the run has others; somebody else dropped one of them or
            pushed another one at the same time.
    """
    run = image.matching["run"]

    def write(begun_ns: int) -> None:
        scope = {"run": run, "begun": begun_ns}
        Writer(driver, database, MATCHING, scope, image.size, progress).write(image.nodes, image.edges)

    return push_whole(
        driver, database, MATCHING, run,
        claim=lambda tx, _: _claim(tx, image.matching),
        drop=lambda: drop_whole(driver, database, MATCHING, run),
        write=write, replace=False,
    )  # fmt: skip


def _claim(tx: ManagedTransaction, matching: Mapping[str, Any]) -> Claim:
    """Make the Matching node, or go on with the one that is there, while nobody drops one of the traces."""
    hold(tx, sorted(matching["traces"]))
    other = tx.run(
        "MATCH (t:Trace {run: $run}) WHERE NOT t.id IN $traces RETURN t.path AS path ORDER BY path LIMIT 1",
        run=matching["run"], traces=matching["traces"],
    ).single()  # fmt: skip
    if other:
        raise DatabaseError(f"{other['path']} is of the run too: push all of its ranks together")
    found = tx.run(
        "MERGE (m:Matching {run: $matching.run}) "
        "ON CREATE SET m += $matching, m.state = 'loading', m.begun_ns = $now "
        "RETURN m.begun_ns = $now AS new, properties(m) AS m",
        matching=dict(matching), now=time.time_ns(),
    ).single(strict=True)  # fmt: skip
    return _judged(found["m"], found["new"], matching)


def _judged(there: Mapping[str, Any], new: bool, matching: Mapping[str, Any]) -> Claim:
    differs = any(there.get(name) != matching[name] for name in _COMPARED)
    return judged(there, new, matching, {}, replace=differs)
