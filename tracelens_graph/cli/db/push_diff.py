"""`tracelens-graph db push-diff`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from tracelens_graph.cli.common import load
from tracelens_graph.cli.db.connection import Database, Uri, User, connection
from tracelens_graph.cli.traces import names_of
from tracelens_graph.cli.windows import WindowChoice, with_window_options
from tracelens_graph.db.connection import DEFAULT_DATABASE, DEFAULT_USER


@with_window_options
def push_diff(
    first: Annotated[
        Path, typer.Argument(metavar="A", show_default=False, help="Trace or saved graph that is compared with.")
    ],
    second: Annotated[Path, typer.Argument(metavar="B", show_default=False, help="The other one.")],
    window: WindowChoice,
    uri: Uri = None,
    user: User = DEFAULT_USER,
    database: Database = DEFAULT_DATABASE,
    run: Annotated[
        str,
        typer.Option(
            metavar="NAME", show_default=False, help="Run of those that are not there yet; else each is its own."
        ),
    ] = "",
    names: Annotated[
        str | None,
        typer.Option(metavar="A,B", show_default=False, help="What to call them in that run; else by file or folder."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Where the two are compared already, drop that and compare them anew.")
    ] = False,
) -> None:
    """Compare two traces by structure, as `diff` does, and push the comparison into a Neo4j database.

    Traces that are not there are pushed first. Stopped at any point, the same command goes on.

    Example: tracelens-graph db push-diff a.json.gz b.json.gz --run upgrade
    """
    from tracelens_graph.analyses.alignment.difference import diff, median_steps
    from tracelens_graph.db.database import Database as Graphs
    from tracelens_graph.reports.progress import progress_on_terminal
    from tracelens_graph.utils.texts import printable

    paths = [str(first), str(second)]
    tags = names_of(paths, names)
    with Graphs(connection(uri, user, database)) as graphs:
        graphs.traces()  # a server that does not answer is to be known before large traces are read
        a, b = (window.of(load(path, wants_gpu=True)) for path in paths)
        difference = diff(*(median_steps(a, b) if window == WindowChoice() else (a, b)), (tags[0], tags[1]))
        start = time.monotonic()
        with progress_on_terminal("pushing", unit="rows") as progress:
            outcome = graphs.push_diff(difference, run=run, replace=replace, progress=progress)
        ids = difference.a.core.trace_id, difference.b.core.trace_id
        (found,) = (one for one in graphs.diffs() if (one["a"], one["b"]) == ids)
    seconds = "" if outcome == "unchanged" else f" in {time.monotonic() - start:.1f} s"
    counts = f"{found['places']:,} places, {found['matches']:,} matches{seconds}"
    typer.echo(printable(f"{outcome} {found['name']}: {counts}"))
    typer.echo(f"ask next: tracelens-graph db query diff_places --param a={found['a']} --param b={found['b']}")
