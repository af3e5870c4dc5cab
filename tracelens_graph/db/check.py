"""Whether a database can be used, and what is wrong with it if not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tracelens_graph.db.connection import LOOPBACK, Connection, OpenDatabase, errors_in_words
from tracelens_graph.db.server.server import is_up, running
from tracelens_graph.db.server.settings import BOLT_PORT
from tracelens_graph.errors import DatabaseError

_EDITION = "CALL dbms.components() YIELD name, edition RETURN name, edition"
_TRACES = "MATCH (t:Trace {state: 'complete'}) RETURN count(t)"


@dataclass(frozen=True)
class Health:
    """What a database that can be used says of itself.

    Attributes:
        version: of the server.
        edition: of the server, `community` or `enterprise`.
        traces: how many complete traces it holds.
    """

    version: str
    edition: str
    traces: int


def check(connection: Connection, local: Path) -> Health:
    """Connect, log in, look at version and database.

    Args:
        connection: the database.
        local: folder of this machine's own server, which may be just starting.

    Raises:
        DatabaseError: what is wrong, in one line.
    """
    try:
        with errors_in_words(connection), connection.driver() as driver:
            db = OpenDatabase(driver, connection.database)
            version = db.reach()
            with db.session(reads=True) as session, session.begin_transaction() as transaction:
                editions = {record["name"]: record["edition"] for record in transaction.run(_EDITION)}
                counted = transaction.run(_TRACES).single(strict=True)
                transaction.rollback()  # nothing is to be committed
        return Health(version, str(editions.get("Neo4j Kernel", "unknown")), int(counted[0]))
    except DatabaseError:
        server, place = running(local), urlsplit(connection.uri)
        if (
            server
            and place.hostname in LOOPBACK
            and (place.port or BOLT_PORT) == server.bolt_port
            and not is_up(server)
        ):
            raise DatabaseError(
                f"the server at {connection.uri} is still starting: try again in a few seconds"
            ) from None
        raise
