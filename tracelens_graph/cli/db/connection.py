"""Which database a command talks to: options, variables of the environment, and the password."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.reports.progress import progress_on_terminal
from tracelens_graph.utils.texts import printable, shorten

if TYPE_CHECKING:
    from tracelens_graph.db.connection import Connection
    from tracelens_graph.db.database import Database as Graphs

Uri = Annotated[
    str | None,
    typer.Option(
        metavar="URI",
        envvar="NEO4J_URI",
        show_default="the server of `db start`, else bolt://127.0.0.1:7687",
        help="Neo4j server: bolt:// or neo4j://, with +s encrypted.",
    ),
]

User = Annotated[
    str, typer.Option(metavar="NAME", envvar=["NEO4J_USER", "NEO4J_USERNAME"], help="Name to log in with.")
]

Database = Annotated[str, typer.Option(metavar="NAME", envvar="NEO4J_DATABASE", help="Database of the server.")]


def connection(uri: str | None, user: str, database: str) -> Connection:
    """The database that a command was given.

    The password is taken from NEO4J_PASSWORD, else asked for on a terminal; empty where the server asks for none.

    Raises:
        DatabaseError: the URI is none.
    """
    from tracelens_graph.db.connection import DEFAULT_URI, Connection
    from tracelens_graph.db.server.server import running, standard_folder

    local = running(standard_folder()) if uri is None else None
    chosen = Connection(uri or (local.uri if local else DEFAULT_URI), user, database=database)
    return Connection(chosen.uri, user, _password(chosen), database)


def _password(of: Connection) -> str:
    given = os.environ.get("NEO4J_PASSWORD")
    if given is None and sys.stdin.isatty():
        prompt = f"password of {of.user} at {of.uri} (empty for none)"
        given = typer.prompt(prompt, default="", hide_input=True, show_default=False, err=True)
    return given or ""


def opened(uri: str | None, user: str, database: str) -> Graphs:
    """The graphs of the database that a command was given.

    Raises:
        DatabaseError: the URI is none.
    """
    from tracelens_graph.db.database import Database as Graphs

    return Graphs(connection(uri, user, database))


def progress_of(doing: str, name: str, unit: str) -> progress_on_terminal:
    """Progress of what is done with something of a name, such as a trace."""
    return progress_on_terminal(f"{doing} {shorten(printable(name), 40)}", unit=unit)
