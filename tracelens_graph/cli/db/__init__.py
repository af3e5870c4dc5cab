"""`tracelens-graph db`: traces in a Neo4j database, and a server for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from tracelens_graph.cli.db.connection import CHOSEN, Chosen
from tracelens_graph.cli.program import Group
from tracelens_graph.db.connection import DEFAULT_DATABASE, DEFAULT_USER

HOMES = {
    name: f"{__name__}.{home}"
    for name, home in {
        "start": "server:start",
        "stop": "server:stop",
        "check": "catalog:check",
        "demo": "catalog:demo",
        "push": "push:push",
        "push-diff": "push:push_diff",
        "pull": "catalog:pull",
        "export": "push:export",
        "import": "server:import_",
        "list": "catalog:list_",
        "query": "query:query",
        "queries": "query:queries",
        "drop": "catalog:drop",
    }.items()
}
"""Name of a command -> its module and what it is there."""


class _Group(Group):
    homes: ClassVar[Mapping[str, str]] = HOMES
    acting = frozenset({"start", "stop", "demo", "push", "import", "drop"})
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

    --uri, --user and --database may stand behind the command, too.
    """
    CHOSEN.set(Chosen(uri, user, database))
