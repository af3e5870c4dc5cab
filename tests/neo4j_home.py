"""A Neo4j server of one test file, which may be killed, and whose database is empty between tests."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from neo4j_server import PATIENCE_S, SMALL, free_ports

from tracelens_graph.stores.neo4j.connection import DEFAULT_USER, Connection
from tracelens_graph.stores.neo4j.server import server

PASSWORD = "of-tests-only"


class Home:
    """The server, in a folder of its own."""

    def __init__(self, folder: Path, program: tuple[Any, Path]) -> None:
        self.folder = folder
        self.program = program
        self.ports = free_ports()
        self.start()

    def start(self) -> None:
        bolt, http = self.ports
        started, _ = server.start(
            self.folder, *self.program, password=PASSWORD, bolt_port=bolt, http_port=http, memory=SMALL,
            patience_s=PATIENCE_S,
        )  # fmt: skip
        self.pid = started.pid
        self.connection = Connection(started.uri, DEFAULT_USER, PASSWORD)

    def wait_for_its_end(self) -> None:
        deadline = time.monotonic() + 30
        while server.running(self.folder) or not self._ports_are_free():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def _ports_are_free(self) -> bool:
        """Sockets of a process live longer than its arguments."""
        for port in self.ports:
            with socket.socket() as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    one.bind(("127.0.0.1", port))
                except OSError:
                    return False
        return True


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, neo4j_program: tuple[Any, Path]) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("neo4j") / "home"
    try:
        yield Home(folder, neo4j_program)
    finally:
        server.stop(folder)
