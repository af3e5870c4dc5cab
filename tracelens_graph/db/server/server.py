"""A Neo4j server on this machine, for this user: set up, started, stopped.

A server lives in a folder of its own: configuration, data, logs, import folder, and `server.json`, which holds the
process and its ports. It listens on the loopback address only and always asks for a password. The password is known to
Neo4j, hashed, and to whoever was shown it when the server was set up; this module keeps it nowhere.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tracelens_graph.db.connection import (
    DEFAULT_DATABASE,
    DEFAULT_USER,
    Connection,
    browser_link,
    errors_in_words,
    graph_database,
)
from tracelens_graph.db.server import offline, process
from tracelens_graph.db.server.jars import Java
from tracelens_graph.db.server.process import LOG, reason_in, why_ended
from tracelens_graph.db.server.settings import HOST, Memory, configuration, free_ports
from tracelens_graph.errors import DatabaseError, OutputError, ServerError, UnusableError
from tracelens_graph.output.files import replacing
from tracelens_graph.stores.folders import data_folder

SHORTEST_PASSWORD = 8

_ENTRY = "org.neo4j.server.CommunityEntryPoint"
_OPTIONS = (
    "-XX:+UseG1GC",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dfile.encoding=UTF-8",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)
_STATE, _OUTPUT = "server.json", "output.log"
_STARTED = b" Started."
_DETAILS = "debug.log"
_NOT_STARTED = re.compile(
    rf" Failed to start DatabaseId\{{\w+\[{DEFAULT_DATABASE}\]\}}(.*?)(?:^\d{{4}}-|\Z)", re.DOTALL | re.MULTILINE
)
"""What the log of a start says of a database that cannot be used, with the stack trace behind it; the server starts all
the same."""

_INTERVAL_S = 0.1


@dataclass(frozen=True)
class Server:
    """A server of this machine.

    Attributes:
        folder: where it lives.
        pid: its process; 0 while it is stopped.
        bolt_port: for drivers.
        http_port: for Neo4j Browser.
        ready: whether it has ever been ready; a folder in which none ever was holds nothing of worth.
        heap, page_cache: memory that it was started with last.
    """

    folder: Path
    pid: int = 0
    bolt_port: int = 0
    http_port: int = 0
    ready: bool = False
    heap: str = Memory.heap
    page_cache: str = Memory.page_cache

    @property
    def uri(self) -> str:
        """For drivers."""
        return f"bolt://{HOST}:{self.bolt_port}"

    @property
    def browser(self) -> str:
        """Address of Neo4j Browser, which connects to it."""
        return browser_link(f"http://{HOST}:{self.http_port}", self.uri)

    @property
    def argument(self) -> str:
        """What the process of this server, and no other, has among its arguments."""
        return f"{_ENTRY} --home-dir={self.folder} "


def standard_folder() -> Path:
    """Where the server lives if the user names no folder.

    Raises:
        OutputError: nothing shows the user's home folder.
    """
    return data_folder() / "neo4j"


def running(folder: Path) -> Server | None:
    """The server of a folder, if it runs; it may still be starting."""
    server = _state(folder)
    return server if server and server.pid and server.argument in process.arguments(server.pid) else None


def start(
    folder: Path,
    java: Java,
    jars: Path,
    *,
    password: str | None = None,
    bolt_port: int | None = None,
    http_port: int | None = None,
    heap: str | None = None,
    page_cache: str | None = None,
    settings: Mapping[str, str] | None = None,
    patience_s: float = 120,
) -> tuple[Server, str | None]:
    """Start the server of a folder, set it up before if there is none, and wait until it answers.

    Args:
        folder: where it lives, or is to live.
        java: runs it.
        jars: folder of the program.
        password: of its user `neo4j`, if the server is set up now; None for a random one.
        bolt_port, http_port: None for the one that it had before; at first for the usual one, or any that is free.
        heap, page_cache: memory that it may take, such as 512m or 2g; None for as much as before.
        settings: more settings, by name; they go before ours.
        patience_s: seconds until it must answer.

    Returns:
        The server, and its password if it was set up now.

    Raises:
        UnusableError: it starts without its database, and was ended.
        ServerError: it cannot be set up or does not start, or others are at work in its folder; the message says why.
    """
    graph_database()  # looked for before a server is set up
    folder = folder.expanduser().resolve()
    with _only_one(folder, patience_s):
        if found := running(folder):
            if found.ready:
                return found, None
            process.end(found.pid, found.argument, patience_s)  # its start was cut off: nobody was shown its password
        set_up = _state(folder)
        if set_up is None and (folder / _STATE).exists():
            raise ServerError(f"{folder / _STATE} is damaged: put it right, or name another folder")
        set_up = set_up or Server(folder)
        # Pushes that wait for a server, and favourites of a browser, find it by its ports.
        had = set_up if set_up.ready else Server(folder)
        ports = free_ports(bolt_port or had.bolt_port, http_port or had.http_port)
        memory = Memory(heap or had.heap, page_cache or had.page_cache)
        server = replace(set_up, bolt_port=ports[0], http_port=ports[1], pid=0, **asdict(memory))
        offline.restore(folder)
        for name in ("conf", "logs", "import"):
            (folder / name).mkdir(mode=0o700, exist_ok=True)
        with replacing(folder / "conf" / "neo4j.conf", private=True) as file:
            file.write(configuration(*ports, server.page_cache, settings or {}).encode())
        chosen = None
        if not server.ready:
            shutil.rmtree(folder / "data", ignore_errors=True)
            chosen = secrets.token_hex(12) if password is None else password
            _write_state(server)
            _set_password(server, java, jars, chosen)
        command = _command(server, java, jars, server.heap)
        for log in (LOG, _DETAILS):
            with suppress(FileNotFoundError):
                os.replace(folder / "logs" / log, folder / "logs" / f"previous-{log}")
        server = replace(server, pid=process.spawn(command, process.environment(), folder / "logs" / _OUTPUT))
        _write_state(server)
        try:
            _wait(server, chosen, time.monotonic() + patience_s)
            server = replace(server, ready=True)
            _write_state(server)
        except BaseException:
            process.end(server.pid, server.argument, patience_s=30)
            raise
    return server, chosen


def stop(folder: Path, patience_s: float = 30) -> Server | None:
    """End the server of a folder and wait until it is gone; None if none runs.

    Args:
        folder: where it lives.
        patience_s: seconds until it is killed.

    Raises:
        ServerError: it does not end.
    """
    folder = folder.expanduser().resolve()
    server = running(folder)
    if server is None:
        return None
    if not process.end(server.pid, server.argument, patience_s):
        raise ServerError(f"the server (process {server.pid}) cannot be ended; look into {folder}/logs")
    with suppress(OutputError):  # a full disk; nobody else has arguments like those of the process
        _write_state(replace(server, pid=0))
    return server


def known(folder: Path) -> Server | None:
    """The server of a folder, whether it runs or not; None where none was ever ready."""
    server = _state(folder)
    return server if server and server.ready else None


def import_files(folder: Path, files: Path, java: Java, jars: Path, patience_s: float = 120) -> None:
    """Put what an export holds in place of all that the database of a stopped server holds.

    Args:
        folder: where the server lives.
        files: what `BulkExport` wrote.
        java: runs the importer.
        jars: folder of the program.
        patience_s: seconds for which others that are at work in the folder are waited for.

    Raises:
        ServerError: the server runs, or the import failed; the message says why, and the database is as it was.
    """
    folder = folder.expanduser().resolve()
    with _only_one(folder, patience_s) as lock:
        if running(folder):
            raise ServerError(f"the server of {folder} runs: stop it first")
        offline.import_files(folder, files, java, jars, lock)


def _state(folder: Path) -> Server | None:
    folder = folder.expanduser().resolve()
    try:
        state = json.loads((folder / _STATE).read_text(encoding="ascii"))
        return Server(
            folder, int(state["pid"]), int(state["bolt_port"]), int(state["http_port"]), state["ready"] is True,
            **asdict(Memory(**{name: state[name] for name in ("heap", "page_cache") if name in state})),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, ServerError):
        return None


def _write_state(server: Server) -> None:
    state = {name: value for name, value in asdict(server).items() if name != "folder"}
    with replacing(server.folder / _STATE, private=True) as file:
        file.write(json.dumps(state).encode("ascii"))


@contextmanager
def _only_one(folder: Path, patience_s: float) -> Iterator[int]:
    """The folder, made if need be, with no other process at work in it meanwhile; the descriptor of the lock.

    An importer that went on without the process that started it is at work, too.
    """
    if os.name == "nt":
        raise ServerError("`db start` needs Linux or macOS; elsewhere docker/compose.yaml starts a server")
    import fcntl

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (folder / _STATE).exists() and any(path.name != ".lock" for path in folder.iterdir()):
            raise ServerError(f"{folder} holds something else than a server of `db start`: name another folder")
        folder.chmod(0o700)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ServerError(f"{folder}: {(error.strerror or str(error)).lower()}") from None
    try:
        deadline = time.monotonic() + patience_s
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > deadline:
                raise ServerError(f"`db start`, `db import` or its importer is at work in {folder}: wait for its end")
            time.sleep(_INTERVAL_S)
        yield descriptor
    finally:
        os.close(descriptor)


def _command(server: Server, java: Java, jars: Path, heap: str) -> list[str]:
    conf = server.folder / "conf"
    memory = (f"-Xms{heap}", f"-Xmx{heap}", f"-XX:ErrorFile={server.folder / 'logs'}/java-%p.log")
    places = (f"--home-dir={server.folder}", f"--config-dir={conf}")
    return [str(java.path), *memory, *_OPTIONS, "-cp", f"{conf}:{jars}/*", _ENTRY, *places]


def _set_password(server: Server, java: Java, jars: Path, password: str) -> None:
    """Set the first password before the server runs, so that it never runs with a known one.

    The administration tool takes the password as an argument, which all users of the machine could read. So Java reads
    its arguments, the password among them, from a pipe.
    """
    if len(password) < SHORTEST_PASSWORD or not password.isprintable():
        raise ServerError(f"the password must have {SHORTEST_PASSWORD} printable characters or more")
    escaped = f"@{password}" if password.startswith("@") else password  # one @ would name a file of arguments
    words = ["-Xmx256m", "-cp", f"{jars}/*", offline.ADMIN, "dbms", "set-initial-password", "--", escaped]
    quoted = ['"{}"'.format(word.replace("\\", "\\\\").replace('"', '\\"')) for word in words]
    places = {"NEO4J_HOME": str(server.folder), "NEO4J_CONF": str(server.folder / "conf"), "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            [java.path, "@/dev/stdin"],
            input="\n".join(quoted).encode(),
            env=process.environment() | places,
            capture_output=True,
            timeout=120,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerError(f"the server cannot be set up: {error}") from None
    if done.returncode:
        reason = reason_in(done.stderr.decode(errors="replace")).replace(password, "***")
        raise ServerError(f"the server cannot be set up: {reason}")


def _wait(server: Server, password: str | None, deadline: float) -> None:
    """Until the server says that it has started, and a login works where the password is known."""
    while time.monotonic() < deadline:
        up = is_up(server)
        try:
            if up and password is not None:
                _log_in(server, password)
        except DatabaseError:
            if server.argument in process.arguments(server.pid):
                raise
        if server.argument not in process.arguments(server.pid):
            raise ServerError(f"Neo4j ended while it started: {why_ended(server.folder / 'logs', _OUTPUT)}")
        if up and (found := _NOT_STARTED.search(_details(server))):
            reason = reason_in(found[1]) or f"look into {server.folder / 'logs' / _DETAILS}"
            raise UnusableError(
                f"the database {DEFAULT_DATABASE} cannot be used: {reason}; `db import DIR --force` puts another in "
                "its place"
            )
        if up:
            return
        time.sleep(_INTERVAL_S)
    raise ServerError(f"Neo4j was not ready in time; look into {server.folder / 'logs'}")


def _details(server: Server) -> str:
    try:
        return (server.folder / "logs" / _DETAILS).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def is_up(server: Server) -> bool:
    """Whether a server that runs has finished starting; its own log shows it, as its ports may be those of another."""
    try:
        return _STARTED in (server.folder / "logs" / LOG).read_bytes()
    except OSError:
        return False


def _log_in(server: Server, password: str) -> None:
    connection = Connection(server.uri, DEFAULT_USER, password)
    with errors_in_words(connection), connection.driver() as driver, driver.session(database="neo4j") as session:
        session.run("RETURN 1").consume()
