"""`tracelens-graph db pull`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracelens_graph.cli.db.connection import Database, Uri, User, connection
from tracelens_graph.cli.options import Written
from tracelens_graph.cli.outputs import say_written, size_of
from tracelens_graph.db.connection import DEFAULT_DATABASE, DEFAULT_USER


def pull(
    trace: Annotated[str, typer.Argument(metavar="TRACE", show_default=False, help="A trace by name, run/name or id.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", show_default=False, help="File to write."),
        Written((".tlg",)),
    ],
    uri: Uri = None,
    user: User = DEFAULT_USER,
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Pull the graph of a trace out of the database, into a file that every command takes in place of a trace.

    Example: tracelens-graph db pull llama-70b/rank0 -o rank0.tlg
    """
    from tracelens_graph.db.database import Database as Graphs
    from tracelens_graph.reports.progress import progress_on_terminal
    from tracelens_graph.stores.graph_file import write_graph
    from tracelens_graph.utils.texts import printable, shorten

    with (
        Graphs(connection(uri, user, database)) as graphs,
        progress_on_terminal(f"pulling {shorten(printable(trace), 40)}", unit="events") as progress,
    ):
        core = graphs.pull_core(trace, progress=progress)
    write_graph(core, output)
    say_written(f"wrote {output}: {len(core.columns):,} nodes{size_of(output)}", output)
