"""`tracelens-graph db`: traces in a Neo4j database, and a server for it."""

from __future__ import annotations

from collections.abc import Callable

import typer

from tracelens_graph.cli.db import catalog, check, demo, export, import_, pull, push, push_diff, query, server
from tracelens_graph.cli.outputs import protected
from tracelens_graph.cli.program import Group

app = typer.Typer(
    cls=Group, no_args_is_help=True, help="Traces in a Neo4j database: push, ask, pull; and a local server for it."
)
COMMANDS: dict[str, Callable[..., None]] = {
    "start": server.start,
    "stop": server.stop,
    "check": check.check,
    "demo": demo.demo,
    "push": push.push,
    "push-diff": push_diff.push_diff,
    "pull": pull.pull,
    "export": export.export,
    "import": import_.import_,
    "list": catalog.list_,
    "query": query.query,
    "queries": query.queries,
    "drop": catalog.drop,
}
_ACTING = (server.start, server.stop, demo.demo, push.push, import_.import_, catalog.drop)
for name, command in COMMANDS.items():
    app.command(name)(protected(command, acts=command in _ACTING))
