"""Which Neo4j database, as whom; and what goes wrong with it, in words.

>>> with errors_in_words(connection), connection.driver() as driver:
...     driver.execute_query("RETURN 1", database_=connection.database)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from tracelens_graph._version import __version__
from tracelens_graph.errors import DatabaseError, EndedBySignal, MissingExtraError

if TYPE_CHECKING:
    import neo4j

SCHEMES = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")
"""What a URI of a database begins with; +s is encrypted, +ssc without a check of the certificate."""

DEFAULT_URI = "bolt://127.0.0.1:7687"
DEFAULT_USER = "neo4j"
DEFAULT_DATABASE = "neo4j"

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names of this machine."""

SYSTEM = "system"
"""The database of every server that holds what the server knows of itself."""

WRITE_ALLOWS = "--write (in Python write=True) allows it"
"""What makes a refused statement one that is run."""

_CONNECT_S = 5.0
"""Seconds until an address that does not answer counts as dead."""

_HANDSHAKE_S = 20.0
"""Seconds for greeting and login, which take long on a server that is busy."""

_RETRIES_S = 120.0
"""Seconds for which what was begun is tried again: a server that is started anew under load takes a minute."""

OLDEST = (5, 26)
"""First version of Neo4j that everything is made for."""

_LONGEST = 400
"""Characters of a server's message that are shown."""


@dataclass(frozen=True)
class Connection:
    """A database and who asks it.

    Attributes:
        uri: where the server is, `bolt://host:port` or another of `SCHEMES`.
        user: name to log in with.
        password: empty where the server asks for none. It is never shown.
        database: name of the database.

    Raises:
        DatabaseError: the URI is none, or holds a name or a password; or the database is the server's own.
    """

    uri: str = DEFAULT_URI
    user: str = DEFAULT_USER
    password: str = field(default="", repr=False)
    database: str = DEFAULT_DATABASE

    def __post_init__(self) -> None:
        parts = _parts(self.uri)
        if parts.username is not None or parts.password is not None:
            raise DatabaseError("user and password do not belong into the URI: set NEO4J_USER and NEO4J_PASSWORD")
        if parts.scheme not in SCHEMES:
            known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
            raise DatabaseError(f"{self.uri!r} is no URI of a Neo4j server: those begin with {known}")
        if not parts.hostname:
            raise DatabaseError(f"{self.uri!r} names no host")
        if parts.query and parts.scheme.startswith("bolt"):
            raise DatabaseError(f"{self.uri!r}: a bolt:// URI ends with the port; neo4j:// alone takes ?{parts.query}")
        if self.database.lower() == SYSTEM:
            raise DatabaseError(f"the database {SYSTEM!r} is the server's own and takes no graphs; name another one")

    def driver(self) -> neo4j.Driver:
        """The official driver for this database; close it after use."""
        # The server warns of labels and properties that nothing in a database has yet, and quotes the statement.
        return self._driver(notifications_min_severity="OFF")

    def agent(self) -> str:
        """What the server calls itself, such as `Neo4j/5.26.31`; also one that is too old for `driver`."""
        with self._driver() as driver:
            return str(driver.get_server_info().agent)

    def _driver(self, **settings: Any) -> neo4j.Driver:
        log = logging.getLogger("neo4j")  # what comes of what it warns of is put in words
        if not log.handlers:
            log.addHandler(logging.NullHandler())
        return graph_database().driver(
            self.uri,
            auth=(self.user, self.password) if self.password else None,
            user_agent=f"tracelens_graph/{__version__}",
            connection_timeout=_CONNECT_S,
            connection_acquisition_timeout=_HANDSHAKE_S,
            max_transaction_retry_time=_RETRIES_S,
            **settings,
        )


def graph_database() -> type[neo4j.GraphDatabase]:
    """What makes drivers, of the official package.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        from neo4j import GraphDatabase
    except ModuleNotFoundError:
        raise MissingExtraError("neo4j", "neo4j") from None
    return GraphDatabase


def browser_link(address: str, uri: str, user: str = DEFAULT_USER) -> str:
    """Neo4j Browser at an address such as `http://127.0.0.1:7474`, with server and user filled in."""
    scheme, _, place = uri.partition("://")
    return f"{address}/browser/?connectURL={scheme}://{user}@{place}"


@dataclass(frozen=True)
class OpenDatabase:
    """A database that a driver is connected to.

    Attributes:
        driver: the connection.
        name: name of the database.
    """

    driver: neo4j.Driver
    name: str = DEFAULT_DATABASE

    def session(self, *, reads: bool = False, **settings: Any) -> neo4j.Session:
        """A session; one that `reads` may not write, and does not try for long."""
        return self.driver.session(database=self.name, default_access_mode="READ" if reads else "WRITE", **settings)

    def reach(self) -> str:
        """Connect, with no connection of a server that was started anew meanwhile; the version of the server.

        Raises:
            DatabaseError: it is older than `OLDEST`.
        """
        server = self.driver.get_server_info()
        version = _version(server.agent)
        if not is_new_enough(version):
            raise DatabaseError(_too_old(f"{server.address[0]}:{server.address[1]}", version))
        return version


def _version(agent: str) -> str:
    return agent.partition("/")[2] or agent


def _too_old(server: str, version: str) -> str:
    return f"the server at {server} is version {version} of Neo4j; {'.'.join(map(str, OLDEST))} or later is needed"


def is_new_enough(version: str) -> bool:
    """Whether a version of Neo4j, as it says it itself (5.26.31, 2025.01.0), is one that everything is made for."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) >= OLDEST


def _parts(uri: str) -> SplitResult:
    try:
        parts = urlsplit(uri)
        _ = parts.port
        (parts.hostname or "").encode("idna")  # as is done to look it up
    except ValueError as error:
        place = uri.rpartition("@")[2]
        raise DatabaseError(f"{place!r} is no URI of a server: {str(error).lower()}") from None
    return parts


@contextmanager
def errors_in_words(connection: Connection) -> Iterator[None]:
    """Turns whatever the driver raises inside the block into one clear line.

    Raises:
        DatabaseError: what went wrong; the driver's own error is its cause.
    """
    try:
        yield
    except MissingExtraError:
        raise
    except Exception as error:
        for one in _chain(error):
            if isinstance(one, EndedBySignal | KeyboardInterrupt):  # it left the driver in the middle of something
                raise one from None
        if words := _in_words(error, connection):
            raise DatabaseError(words) from error
        raise


def _in_words(error: Exception, connection: Connection) -> str:
    """What went wrong; empty for what is no error of a database."""
    from neo4j.exceptions import ConfigurationError, Neo4jError, ServiceUnavailable, SessionExpired

    if isinstance(error, Neo4jError):
        return _refusal(error, connection)
    if isinstance(error, ServiceUnavailable | SessionExpired | ConfigurationError):
        return _failure(error, connection)
    if isinstance(error, UnicodeEncodeError):
        return "a text holds half of a character (a lone surrogate), which no database takes"
    if isinstance(error, OverflowError):
        return "a number is too large: a database takes whole numbers of 64 bits"
    return ""


_FULL = "TransactionLogError"
_REFUSALS = {
    "AuthenticationRateLimit": "{where}: too many wrong passwords; wait a few seconds",
    **dict.fromkeys(("Unauthorized", "TokenExpired"), "{where}: wrong user or password for {user!r}"),
    "CredentialsExpired": "{where}: the password of {user!r} is still the initial one, which must be changed first",
    "DatabaseNotFound": "{where} has no database {database!r}",
    "DatabaseUnavailable": "{where}: the database {database!r} is not available: it is starting, stopping or stopped",
    _FULL: "{where}: the server cannot write any more, as its disk is full or broken: make room and restart it "
    "(`tracelens-graph db stop`, `db start`); then the same command goes on",
    "AccessMode": f"refused: it writes; {WRITE_ALLOWS}",  # what no plan shows, such as to drop an index
    "TransactionTimedOut": "{where}: the answer took longer than --timeout allows (in Python timeout_s), and was given "
    "up",
}
"""Code of an error of the server -> what it means."""


def _refusal(error: neo4j.exceptions.Neo4jError, connection: Connection) -> str:
    """What a server says no to."""
    kind = (error.code or "").rpartition(".")[2].removesuffix("ClientConfiguration")
    where = connection.uri
    if kind in ("Unauthorized", "TokenExpired") and not connection.password:
        return f"{where} asks for a password: set NEO4J_PASSWORD"
    if "critical error" in (error.message or ""):
        kind = _FULL
    if words := _REFUSALS.get(kind):
        return words.format(where=where, user=connection.user, database=connection.database)
    message = re.sub(r"\n *\^\s*$", "", error.message or kind)  # an arrow below the line that it quotes
    return f"{where}: {_one_line(message)} ({kind})"


def _failure(error: BaseException, connection: Connection) -> str:
    """Why there is no talking to a server."""
    from neo4j.exceptions import DriverError, IncompleteCommit, Neo4jError, SessionExpired

    where = connection.uri
    causes = list(_chain(error))
    texts = " ".join(str(one) for one in causes)
    kinds = {one.__name__ for cause in causes for one in type(cause).__mro__}
    if isinstance(error, IncompleteCommit):
        return f"{where}: the connection was lost during a commit, whose changes may be there or not"
    if "Notification filtering is not supported" in texts:  # by the first versions of Neo4j 5 and those before
        try:
            version = _version(connection.agent())
        except (DriverError, Neo4jError):  # such as a wrong password
            version = "5.6 or before"
        return _too_old(urlsplit(where).netloc, version)
    if isinstance(error, SessionExpired) or "defunct connection" in texts:
        return f"{where}: the connection was lost"
    if "gaierror" in kinds:
        return f"no host {urlsplit(where).hostname!r} is known"
    if "looks like HTTP" in texts:
        return f"{where} is not the Bolt port of a Neo4j server: a web server answers there"
    if "SSLCertVerificationError" in kinds:
        return f"{where}: the server's certificate is not trusted; +ssc in place of +s takes any"
    if "SSLError" in kinds or "BoltSecurityError" in kinds:
        return f"{where}: the server offers no encryption; try {urlsplit(where).scheme.partition('+')[0]}://"
    if "ConnectionRefusedError" in kinds:
        start = " (`tracelens-graph db start` starts one)" if urlsplit(where).hostname in LOOPBACK else ""
        return f"no server answers at {where}{start}"
    if "UnsupportedServerProduct" in kinds:
        return f"{where}: what answers there is no Neo4j server, or one that the driver does not know"
    if "handshake" in texts:
        return f"{where}: what answers there does not talk like a Neo4j server"
    if "TimeoutError" in kinds or "timed out" in texts:
        return f"no server answers at {where} in time"
    return f"{where}: {_one_line(str(error))}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and all that led to it."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        todo.append(one.__cause__ or (None if one.__suppress_context__ else one.__context__))
        if isinstance(one, BaseExceptionGroup):
            todo += one.exceptions


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
