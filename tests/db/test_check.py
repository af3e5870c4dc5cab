"""What is wrong with a database, in one line."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from handmade import small_trace
from neo4j.exceptions import ClientError, ResultConsumedError

from tracelens_graph.db import check as checks
from tracelens_graph.db import connection as connections
from tracelens_graph.db.check import check
from tracelens_graph.db.connection import Connection, errors_in_words, is_new_enough
from tracelens_graph.db.database import Database
from tracelens_graph.db.server.server import Server
from tracelens_graph.errors import DatabaseError
from tracelens_graph.loading.one import load_core

Serve = Callable[[Callable[[socket.socket], None]], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Servers that are not Neo4j: each handles one connection after the other; gives the port."""
    listening: list[socket.socket] = []

    def start(handle: Callable[[socket.socket], None]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listening.append(listener)

        def accept() -> None:
            with suppress(OSError):  # closed at the end
                while True:
                    with listener.accept()[0] as client, suppress(OSError):
                        handle(client)

        threading.Thread(target=accept, daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for one in listening:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


def _web(client: socket.socket) -> None:
    client.recv(100)
    client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def _greeting(client: socket.socket) -> None:
    client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
    client.recv(100)


def _mute(client: socket.socket) -> None:
    client.recv(100)
    time.sleep(1)


def _wrong(connection: Connection, folder: Path) -> str:
    with pytest.raises(DatabaseError) as raised:
        check(connection, folder)
    text = str(raised.value)
    assert "\n" not in text
    return text


def test_a_database_that_is_well(neo4j: Connection, tmp_path: Path) -> None:
    health = check(neo4j, tmp_path)
    assert is_new_enough(health.version)
    assert health.edition in ("community", "enterprise")
    assert health.traces >= 0


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
def test_password_and_database(neo4j: Connection, scheme: str, tmp_path: Path) -> None:
    here = replace(neo4j, uri=f"{scheme}://{neo4j.uri.partition('://')[2]}")
    assert check(here, tmp_path).version
    if neo4j.password:
        assert _wrong(replace(here, password="not the password"), tmp_path) == (
            f"{here.uri}: wrong user or password for {neo4j.user!r}"
        )
        assert _wrong(replace(here, password=""), tmp_path) == f"{here.uri} asks for a password: set NEO4J_PASSWORD"
    assert _wrong(replace(here, database="nowhere"), tmp_path) == f"{here.uri} has no database 'nowhere'"


def _old(version: str, bolt: bytes) -> Callable[[socket.socket], None]:
    """A server of an older version, as far as a driver asks until it knows the version."""
    told = {"server": f"Neo4j/{version}", "connection_id": "bolt-1"}
    words = b"".join(bytes([0x80 + len(word)]) + word.encode() for pair in told.items() for word in pair)
    success = b"\xb1\x70" + bytes([0xA0 + len(told)]) + words

    def handle(client: socket.socket) -> None:
        with client.makefile("rb") as sent:
            sent.read(20)
            client.sendall(bolt)
            while length := int.from_bytes(sent.read(2)):
                sent.read(length + 2)  # with the mark of the end
                client.sendall(len(success).to_bytes(2) + success + b"\0\0")

    return handle


@pytest.mark.parametrize(("version", "bolt"), [("4.4.9", b"\0\0\4\4"), ("5.13.0", b"\0\0\4\5")])
def test_an_older_server_is_refused_with_its_version(serve: Serve, version: str, bolt: bytes, tmp_path: Path) -> None:
    connection = Connection(f"bolt://127.0.0.1:{serve(_old(version, bolt))}", password="any")
    host = connection.uri.partition("//")[2]
    words = f"the server at {host} is version {version} of Neo4j; 5.26 or later is needed"
    assert _wrong(connection, tmp_path) == words
    with Database(connection) as database:
        for use in (
            lambda: database.push(load_core(small_trace())),
            lambda: database.ask("gpu_timeline"),
            lambda: database.ask("RETURN 1"),
            database.traces,
        ):
            with pytest.raises(DatabaseError) as raised:
                use()
            assert str(raised.value) == words


def _closed_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
def test_nobody_there(scheme: str, tmp_path: Path) -> None:
    uri = f"{scheme}://127.0.0.1:{_closed_port()}"
    text = _wrong(Connection(uri), tmp_path)
    assert text == f"no server answers at {uri} (`tracelens-graph db start` starts one)"


def test_a_server_that_is_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = _closed_port()
    monkeypatch.setattr(checks, "running", lambda folder: Server(folder, 1, port, port))
    assert "is still starting" in _wrong(Connection(f"bolt://localhost:{port}"), tmp_path)
    assert "no server answers" in _wrong(Connection(f"bolt://localhost:{_closed_port()}"), tmp_path)


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
@pytest.mark.parametrize(
    ("handle", "words"),
    [
        (_web, "is not the Bolt port of a Neo4j server: a web server answers there"),
        (_greeting, "what answers there is no Neo4j server, or one that the driver does not know"),
        (socket.socket.close, "what answers there does not talk like a Neo4j server"),
        (_mute, "what answers there does not talk like a Neo4j server"),
    ],
)
def test_somebody_else_there(
    serve: Serve,
    handle: Callable[[socket.socket], None],
    words: str,
    scheme: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_HANDSHAKE_S", 0.5)
    assert _wrong(Connection(f"{scheme}://127.0.0.1:{serve(handle)}"), tmp_path).endswith(words)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("http://127.0.0.1:7474", "is no URI of a Neo4j server"),
        ("127.0.0.1:7687", "is no URI of a Neo4j server"),
        ("", "is no URI of a Neo4j server"),
        ("bolt://", "names no host"),
        ("bolt://host:99999", "port out of range"),
        ("bolt://host:port", "is no URI of a server"),
        ("bolt://" + 64 * "x" + ":7687", "is no URI of a server"),
    ],
)
def test_no_uri(uri: str, words: str) -> None:
    with pytest.raises(DatabaseError, match=words):
        Connection(uri)


@pytest.mark.parametrize("uri", ["bolt://me:secret@host", "bolt://me:secret@host:port", "bolt://:secret@host"])
def test_a_password_in_the_uri_is_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(DatabaseError) as raised:
        Connection(uri)
    assert "secret" not in str(raised.value)


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(Connection(password="secret"))


def test_what_a_server_refuses_is_told(neo4j: Connection) -> None:
    with pytest.raises(DatabaseError) as raised, errors_in_words(neo4j), neo4j.driver() as driver:
        driver.execute_query("MATCH (n RETURN n", database_=neo4j.database)
    assert "SyntaxError" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value.__cause__, ClientError)


def test_a_mistake_in_the_program_is_no_database_error(neo4j: Connection) -> None:
    with neo4j.driver() as driver, driver.session(database=neo4j.database) as session:
        result = session.run("RETURN 1")
        result.consume()
        with pytest.raises(ResultConsumedError), errors_in_words(neo4j):
            result.single()
