"""`tracelens-graph db`: traces in a Neo4j database, and a server for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import typer

from tracelens_graph.cli.program import Group

HOMES = {
    name: f"{__name__}.{home}"
    for name, home in {
        "start": "server:start",
        "stop": "server:stop",
        "check": "server:check",
        "demo": "push:demo",
        "push": "push:push",
        "push-diff": "push:push_diff",
        "pull": "files:pull",
        "export": "files:export",
        "import": "files:import_",
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


app = typer.Typer(
    cls=_Group,
    add_completion=False,
    no_args_is_help=True,
    help="Traces in a Neo4j database: push, ask, pull; and a local server for it.",
)


@app.callback()
def _options() -> None:
    pass
