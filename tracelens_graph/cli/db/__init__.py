"""`tracelens-graph db`: traces in a Neo4j database, and a server for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from tracelens_graph.cli.app import Group
from tracelens_graph.db.connection import DEFAULT_DATABASE, DEFAULT_USER
from tracelens_graph.tables.terminal import progress_on_terminal
from tracelens_graph.utils.texts import printable, shorten

if TYPE_CHECKING:
    from tracelens_graph.db.connection import Connection

HOMES = {
    name: f"{__name__}.{home}"
    for name, home in {
        "start": "server:start",
        "stop": "server:stop",
        "check": "catalog:check",
        "demo": "catalog:demo",
        "push": "push:push",
        "push-diff": "push:push_diff",
        "upgrade": "push:upgrade",
        "pull": "catalog:pull",
        "export": "push:export",
        "import": "server:import_",
        "list": "catalog:list_",
        "query": "query:query",
        "queries": "query:queries",
        "drop": "catalog:drop",
        "forget-events": "catalog:forget_events",
    }.items()
}
"""Name of a command -> its module and what it is there."""


Progress = Callable[[int, int], None]


class _Group(Group):
    homes: ClassVar[Mapping[str, str]] = HOMES
    anywhere: ClassVar[Mapping[str, bool]] = dict.fromkeys(("--uri", "--user", "--database"), True)


app = typer.Typer(cls=_Group, add_completion=False, no_args_is_help=True)


@app.callback()
def _options(
    uri: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            envvar="NEO4J_URI",
            show_default="the server of `db start`, else bolt://127.0.0.1:7687",
            help="Neo4j server: bolt:// or neo4j://, with +s encrypted.",
        ),
    ] = None,
    user: Annotated[
        str, typer.Option(metavar="NAME", envvar=["NEO4J_USER", "NEO4J_USERNAME"], help="Name to log in with.")
    ] = DEFAULT_USER,
    database: Annotated[
        str, typer.Option(metavar="NAME", envvar="NEO4J_DATABASE", help="Database of the server.")
    ] = DEFAULT_DATABASE,
) -> None:
    """Traces in a Neo4j database: push, ask, pull; and a local server for it.

    --uri, --user and --database may also come after the command.
    """
    CHOSEN.set(Chosen(uri, user, database))


def say(text: str, err: bool = False) -> None:
    """A line of the answer, or beside it, without what a terminal would obey."""
    typer.echo(printable(text), err=err)


def progress_of(what: str, name: str = "", unit: str = "rows") -> AbstractContextManager[Progress | None]:
    """A line on a terminal that says how far the work inside is."""
    return progress_on_terminal(f"{what} {shorten(printable(name), 40)}".rstrip(), unit=unit)


# --- the database ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """The database that the options of `db` name: the address of its server, whom to log in as, and its name."""

    uri: str | None = None
    user: str = DEFAULT_USER
    database: str = DEFAULT_DATABASE


CHOSEN: ContextVar[Chosen] = ContextVar("chosen")


def connection(uri: str | None = None) -> Connection:
    """The database that a command was given.

    The password is taken from NEO4J_PASSWORD, else asked for on a terminal; empty where the server asks for none.

    Args:
        uri: a server to be taken for the one that is named.

    Raises:
        DatabaseError: the URI is none.
    """
    from tracelens_graph.db.connection import DEFAULT_URI, Connection
    from tracelens_graph.db.server.server import running, standard_folder

    of = CHOSEN.get(None) or _of_environment()
    uri = uri or of.uri
    local = running(standard_folder()) if uri is None else None
    chosen = Connection(uri or (local.uri if local else DEFAULT_URI), of.user, database=of.database)
    return Connection(chosen.uri, of.user, _password(chosen), of.database)


def _of_environment() -> Chosen:
    """The database that a command takes that has no such options."""
    env = os.environ
    user = env.get("NEO4J_USER") or env.get("NEO4J_USERNAME") or DEFAULT_USER
    return Chosen(env.get("NEO4J_URI") or None, user, env.get("NEO4J_DATABASE") or DEFAULT_DATABASE)


def _password(of: Connection) -> str:
    given = os.environ.get("NEO4J_PASSWORD")
    if given is None and sys.stdin.isatty():
        prompt = f"password of {of.user} at {of.uri} (empty for none)"
        given = typer.prompt(prompt, default="", hide_input=True, show_default=False, err=True)
    return given or ""
