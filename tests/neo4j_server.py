"""The Neo4j server of the tests, and all that a database holds."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tracelens_graph.db.connection import DEFAULT_USER, Connection
from tracelens_graph.db.image import Nodes
from tracelens_graph.db.server import jars, process, server
from tracelens_graph.db.server.jars import Java, find_java
from tracelens_graph.errors import ServerError

SMALL: dict[str, Any] = {"heap": "512m", "page_cache": "64m"}
PATIENCE_S = 300
"""Seconds for a start, on a machine that has other things to do."""

SETTINGS = {"dbms.cypher.min_replan_interval": "1h"}
"""A plan is made once. Tests fill and empty the database, and for each such change of sizes the server would plan all
statements anew, which costs more than most of the statements."""

_FAST_START = "-XX:TieredStopAtLevel=1"
"""Servers that live for seconds are not worth what Java's second compiler costs: 40 % of a start."""

_STOP = "import pathlib, sys; from tracelens_graph.db.server.server import stop; stop(pathlib.Path(sys.argv[1]))"
_WATCHER = f'while kill -0 "$0" 2>/dev/null; do sleep 1; done; exec "$1" -c "{_STOP}" "$2"'
_EMPTY = "MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 5000 ROWS"


class Home:
    """A server in a folder of its own. A watcher ends it if the tests are killed.

    Attributes:
        folder: where it lives.
        java: runs it.
        files: folder of Neo4j's program.
        pid: its process.
        connection: how to reach it.
    """

    def __init__(self, folder: Path, java: Java, files: Path) -> None:
        self.folder, self.java, self.files = folder, java, files
        self._ports = free_ports()
        self._password = secrets.token_hex(12)
        watcher = ["sh", "-c", _WATCHER, str(os.getpid()), sys.executable, str(folder)]
        process.spawn(watcher, os.environ, folder.with_name("watcher.log"))
        self.start()

    def start(self) -> None:
        """Start it, unless it runs."""
        bolt, http = self._ports
        started, _ = server.start(
            self.folder, self.java, self.files, password=self._password, bolt_port=bolt, http_port=http,
            **SMALL, settings=SETTINGS, patience_s=PATIENCE_S,
        )  # fmt: skip
        self.pid = started.pid
        self.connection = Connection(started.uri, DEFAULT_USER, self._password)

    def stop(self) -> None:
        """End it; its database stays."""
        server.stop(self.folder)

    def empty(self) -> None:
        """Take every node out of its database."""
        with self.connection.driver() as driver, driver.session(database="neo4j") as session:
            session.run(_EMPTY).consume()

    def wait_for_its_end(self) -> None:
        """Wait until the server, which was killed, is gone and its ports are free."""
        deadline = time.monotonic() + 60
        while server.running(self.folder) or not self._ports_are_free():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def _ports_are_free(self) -> bool:
        """Sockets of a process live longer than its arguments."""
        for port in self._ports:
            with socket.socket() as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    one.bind(("127.0.0.1", port))
                except OSError:
                    return False
        return True


@pytest.fixture(scope="session")
def neo4j_program() -> Iterator[tuple[Java, Path]]:
    """A Java and the server's files, fetched if need be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", _FAST_START)
        try:
            java = find_java()
            files = jars.fetch(java)
        except ServerError as error:
            pytest.skip(f"no Neo4j here: {error}")
        yield java, files


@pytest.fixture(scope="session")
def _server(neo4j_program: tuple[Java, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("neo4j") / "home"
    try:
        yield Home(folder, *neo4j_program)
    finally:
        server.stop(folder)


@pytest.fixture(scope="session")
def neo4j(request: pytest.FixtureRequest) -> Connection:
    if uri := os.environ.get("NEO4J_URI"):
        return Connection(uri, os.environ.get("NEO4J_USER", DEFAULT_USER), os.environ.get("NEO4J_PASSWORD", ""))
    own: Home = request.getfixturevalue("_server")
    return own.connection


@pytest.fixture(scope="module")
def home(_server: Home) -> Home:
    _server.start()
    _server.empty()
    return _server


@pytest.fixture(scope="module")
def doomed(_server: Home) -> Home:
    _server.start()
    return _server


def free_ports() -> tuple[int, int]:
    """Two ports that nobody listens at."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


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
