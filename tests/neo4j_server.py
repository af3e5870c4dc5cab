"""The Neo4j server that tests talk to: the one of NEO4J_URI, else one of their own for the whole run.

The own server is started by the first test that needs it, on free ports and in a temporary folder, and shared by all
processes of a run (pytest-xdist). The process that the user started ends it, and a small watcher does so if that one is
killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tracelens_graph.errors import OutputError, ServerError
from tracelens_graph.stores.neo4j.connection import DEFAULT_USER, Connection
from tracelens_graph.stores.neo4j.server import jars, process, server
from tracelens_graph.stores.neo4j.server.java import Java, find_java
from tracelens_graph.stores.neo4j.server.settings import Memory

SMALL = Memory("512m", "64m")
PATIENCE_S = 300
"""Seconds for a start, on a machine that has other things to do."""

_FAST_START = "-XX:TieredStopAtLevel=1"
"""Servers that live for seconds are not worth what Java's second compiler costs: 40 % of a start."""

_STOP = (
    "import pathlib, sys; from tracelens_graph.stores.neo4j.server.server import stop; stop(pathlib.Path(sys.argv[1]))"
)
_WATCHER = f'while kill -0 "$0" 2>/dev/null; do sleep 1; done; exec "$1" -c "{_STOP}" "$2"'


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
def neo4j(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Connection:
    """A database that tests may write to. Others use it at the same time: keep to traces of your own."""
    if uri := os.environ.get("NEO4J_URI"):
        return Connection(uri, os.environ.get("NEO4J_USER", DEFAULT_USER), os.environ.get("NEO4J_PASSWORD", ""))
    folder = _shared_folder(request.config, tmp_path_factory)
    folder.mkdir(mode=0o700, exist_ok=True)
    told = folder / "connection.json"
    with _locked(folder / "lock"):
        if not told.exists():
            java, files = request.getfixturevalue("neo4j_program")
            password = secrets.token_hex(12)
            bolt, http = free_ports()
            _watch(request.config, folder / "home")
            started, _ = server.start(
                folder / "home", java, files, password=password, bolt_port=bolt, http_port=http, memory=SMALL,
                patience_s=PATIENCE_S,
            )  # fmt: skip
            descriptor = os.open(told, os.O_WRONLY | os.O_CREAT, 0o600)
            with open(descriptor, "w") as file:
                json.dump({"uri": started.uri, "password": password}, file)
    known = json.loads(told.read_text())
    return Connection(known["uri"], DEFAULT_USER, known["password"])


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the server, in the process that ends last."""
    factory = getattr(config, "_tmp_path_factory", None)
    if factory is None or _is_worker(config) or factory._basetemp is None:
        return
    with suppress(OutputError):  # another run of pytest may have tidied up the folder of this one
        server.stop(_shared_folder(config, factory) / "home")


def free_ports() -> tuple[int, int]:
    """Two ports that nobody listens at."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _shared_folder(config: pytest.Config, factory: pytest.TempPathFactory) -> Path:
    own = factory.getbasetemp()
    return (own.parent if _is_worker(config) else own) / "neo4j"


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _watch(config: pytest.Config, home: Path) -> None:
    first = os.getppid() if _is_worker(config) else os.getpid()
    command = ["sh", "-c", _WATCHER, str(first), sys.executable, str(home)]
    process.spawn(command, os.environ, home.with_name("watcher.log"))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
