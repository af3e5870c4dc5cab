"""`tracelens-graph db demo`."""

from __future__ import annotations

from urllib.parse import urlsplit

import typer

from tracelens_graph.cli.db.connection import Database, Uri, User, connection
from tracelens_graph.db.connection import DEFAULT_DATABASE, DEFAULT_USER

RUN = "demo"
FIRST_QUERY = "path_to_python"
_HTTP_PORT = 7474


def demo(uri: Uri = None, user: User = DEFAULT_USER, database: Database = DEFAULT_DATABASE) -> None:
    """Push an example, a simulated training run of two ranks, and say how to look at it in Neo4j Browser.

    Example: tracelens-graph db demo
    """
    from tempfile import TemporaryDirectory

    from tracelens_graph.db.database import Database as Graphs
    from tracelens_graph.db.query import named
    from tracelens_graph.graph.trace_set import TraceSet
    from tracelens_graph.loading.one import load_core
    from tracelens_graph.reports.progress import progress_on_terminal
    from tracelens_graph.simulate import simulate, write

    with Graphs(connection(uri, user, database)) as graphs, TemporaryDirectory() as folder:
        graphs.traces()  # a server that does not answer is to be known before anything is made
        run = simulate(ranks=2, steps=2, seed=7, read_loss=True)
        files = [file for file in write(run, folder) if file.name.endswith(".json.gz")]
        ranks = TraceSet.of({file.name.partition(".")[0]: load_core(str(file)) for file in sorted(files)})
        for trace in ranks:
            with progress_on_terminal("pushing", unit="rows") as progress:
                outcome = graphs.push(trace.core, run=RUN, name=trace.name, replace=True, progress=progress)
            typer.echo(f"{outcome} {RUN}/{trace.name}")
        graphs.match(RUN, ranks)
        typer.echo(f"\nNeo4j Browser: {_browser(graphs.connection.uri)}")
    typer.echo(f"The first query to paste there (`db query {FIRST_QUERY}` prints its table; all: `db queries`):\n")
    typer.echo(named(FIRST_QUERY).text)


def _browser(uri: str) -> str:
    """Where Neo4j Browser of a server is: as `db start` knows it, else at the usual port."""
    from tracelens_graph.db.server.server import running, standard_folder

    local = running(standard_folder())
    if local and local.uri == uri:
        return local.browser
    return f"http://{urlsplit(uri).hostname}:{_HTTP_PORT}/browser/"
