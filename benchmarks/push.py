"""How fast graphs are pushed into Neo4j, beside a bare loop that sends the same rows with the same statements.

The bare loop has its rows made before the clock starts, sends them in the same batches from as many sessions, and knows
nothing of locks, text sizes, progress or errors. Both push into the same server in turns, each time into a database
without the trace. What comes before, making nodes and edges of the graph, is measured by itself.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from measure import interleaved, medians

from tracelens_graph.db.batches import SESSIONS, edge_stages, node_batches
from tracelens_graph.db.catalog import drop_trace
from tracelens_graph.db.connection import Connection, OpenDatabase
from tracelens_graph.db.database import image
from tracelens_graph.db.image import Image, Placement
from tracelens_graph.db.push import make_schema, push_trace
from tracelens_graph.db.server import jars, server
from tracelens_graph.db.server.jars import find_java
from tracelens_graph.graph.core import Core

if TYPE_CHECKING:
    from neo4j import Driver

PASSWORD = "of-benchmarks-only"
DATABASE = "neo4j"
Stage = list[list[tuple[str, list[Any]]]]
"""What is written before the next stage begins: for each session, statements with their rows."""


@dataclass(frozen=True)
class Speed:
    """Seconds for one graph, medians."""

    nodes: int
    edges: int
    image_s: float
    bare_s: float
    ours_s: float


@contextmanager
def own_server() -> Iterator[Driver]:
    """A driver of a server that is there for this benchmark alone."""
    java = find_java()
    files = jars.fetch(java)
    with tempfile.TemporaryDirectory(prefix="tracelens_graph-bench-neo4j-") as folder:
        home = Path(folder) / "home"
        try:
            started, _ = server.start(home, java, files, password=PASSWORD, heap="2g", page_cache="1g")
            with Connection(started.uri, password=PASSWORD).driver() as driver:
                yield driver
        finally:
            server.stop(home)


def speed(driver: Driver, core: Core, runs: int) -> Speed:
    """How fast a graph is pushed."""
    start = time.perf_counter()
    made = image(core, Placement("bench", "trace"))
    image_s = time.perf_counter() - start
    make_schema(OpenDatabase(driver))
    rows = stages(made)
    measures = {"bare": partial(bare, driver, made, rows), "ours": partial(ours, driver, made)}
    if runs > 1:
        interleaved(1, measures)  # statements are planned and compiled once
    median = medians(interleaved(runs, measures))
    nodes, edges = sum(map(len, made.nodes)), sum(map(len, made.edges))
    return Speed(nodes, edges, image_s, median["bare"], median["ours"])


def stages(made: Image) -> list[Stage]:
    """All rows of an image, as they are sent."""
    nodes = node_batches(made.nodes)
    queues = [[nodes[session::SESSIONS] for session in range(SESSIONS)], *edge_stages(made.edges)]
    return [[[(batch.statement, batch.rows()) for batch in queue] for queue in stage] for stage in queues]


def bare(driver: Driver, made: Image, rows: list[Stage]) -> float:
    """Seconds of a loop that does no more than sending."""
    scope = {"trace": made.properties["id"], "run": made.properties["run"], "begun": 1}
    driver.execute_query("CREATE (t:Trace) SET t = $t, t.state = 'loading', t.begun_ns = 1", t=made.properties)
    start = time.perf_counter()
    for stage in rows:
        threads = [Thread(target=_send, args=(driver, queue, scope)) for queue in stage if queue]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seconds = time.perf_counter() - start
    drop_trace(OpenDatabase(driver), made.properties["id"])
    return seconds


def _send(driver: Driver, queue: list[tuple[str, list[Any]]], scope: dict[str, Any]) -> None:
    with driver.session(database=DATABASE) as session:
        for statement, rows in queue:
            session.execute_write(lambda tx: tx.run(statement, {"rows": rows, **scope}).consume())  # noqa: B023


def ours(driver: Driver, made: Image) -> float:
    """Seconds of a push."""
    start = time.perf_counter()
    push_trace(OpenDatabase(driver), made)
    seconds = time.perf_counter() - start
    drop_trace(OpenDatabase(driver), made.properties["id"])
    return seconds
