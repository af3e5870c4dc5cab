"""Which database a command talks to, and with which password."""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from tracelens_graph.db.connection import DEFAULT_DATABASE, DEFAULT_USER

if TYPE_CHECKING:
    from tracelens_graph.db.connection import Connection


@dataclass(frozen=True)
class Chosen:
    """The database that the options of `db` name: the address of its server, whom to log in as, and its name."""

    uri: str | None = None
    user: str = DEFAULT_USER
    database: str = DEFAULT_DATABASE


CHOSEN: ContextVar[Chosen] = ContextVar("chosen", default=Chosen())  # noqa: B039 (frozen)


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

    of = CHOSEN.get()
    uri = uri or of.uri
    local = running(standard_folder()) if uri is None else None
    chosen = Connection(uri or (local.uri if local else DEFAULT_URI), of.user, database=of.database)
    return Connection(chosen.uri, of.user, _password(chosen), of.database)


def _password(of: Connection) -> str:
    given = os.environ.get("NEO4J_PASSWORD")
    if given is None and sys.stdin.isatty():
        prompt = f"password of {of.user} at {of.uri} (empty for none)"
        given = typer.prompt(prompt, default="", hide_input=True, show_default=False, err=True)
    return given or ""
