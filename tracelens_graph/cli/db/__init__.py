"""`tracelens-graph db`: traces in a Neo4j database, and a server for it."""

from __future__ import annotations

import typer

from tracelens_graph.cli.db import check, server

app = typer.Typer(no_args_is_help=True, help="Traces in a Neo4j database, and a server for it.")
for command in (server.start, server.stop, check.check):
    app.command()(command)
