"""`tracelens-graph db push`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli.db.connection import Database, Uri, User, connection
from tracelens_graph.cli.db.images import As, Label, MinGpuTime, Only, Run, WithArgs, counts, wanted
from tracelens_graph.cli.options import Arch, Traces
from tracelens_graph.db.connection import DEFAULT_DATABASE, DEFAULT_USER

if TYPE_CHECKING:
    from tracelens_graph.db.database import Database as Graphs
    from tracelens_graph.db.image import Options
    from tracelens_graph.graph.trace_set import TraceSet


def push(
    traces: Traces,
    uri: Uri = None,
    user: User = DEFAULT_USER,
    database: Database = DEFAULT_DATABASE,
    run: Run = "",
    name: As = "",
    label: Label = None,
    only: Only = "",
    min_gpu_time: MinGpuTime = "",
    with_args: WithArgs = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Where a trace is there already, drop it and push it anew.")
    ] = False,
    arch: Arch = None,
) -> None:
    """Push traces into a Neo4j database.

    Stopped at any point, the same command goes on. What is there already is left as it is. Where all ranks of a run are
    named, their collectives are matched, and the critical path of each step is stored.

    Example: tracelens-graph db push trace.json.gz --run llama-70b --label commit=3f2a9c

    Example: tracelens-graph db push traces/ --run llama-70b --only gpu,Op --min-gpu-time 5us
    """
    from tracelens_graph.db.database import Database as Graphs
    from tracelens_graph.reports.progress import progress_on_terminal
    from tracelens_graph.utils.texts import printable, shorten

    chosen = wanted(traces, run, name, label, only, min_gpu_time, with_args, arch)
    with Graphs(connection(uri, user, database)) as graphs:
        graphs.traces()  # a server that does not answer is to be known before a large trace is read
        ranks = chosen.load()
        for image in chosen.images(ranks):
            start = time.monotonic()
            called = shorten(printable(image.properties["name"]), 40)
            with progress_on_terminal(f"pushing {called}", unit="rows") as progress:
                outcome = graphs.push_image(image, replace=replace, progress=progress)
            seconds = 0 if outcome == "unchanged" else time.monotonic() - start
            typer.echo(printable(f"{outcome} {counts(image, seconds)}"))
        chosen.check(ranks)
        if run:
            _match(graphs, run, ranks, chosen.options)


def _match(graphs: Graphs, run: str, ranks: TraceSet, options: Options) -> None:
    """Match the collectives of a run and follow its paths, if all of its ranks were pushed, and say what was done."""
    from tracelens_graph.reports.progress import progress_on_terminal
    from tracelens_graph.utils.texts import printable

    of_run = {trace["id"] for trace in graphs.traces() if trace["run"] == run}
    if of_run != {one.core.trace_id for one in ranks}:
        if not any(one["run"] == run and one["state"] == "complete" for one in graphs.matchings()):
            named = f"{len(ranks):,} of its {len(of_run):,} traces were named"
            typer.echo(printable(f"collectives of {run} are not matched: {named}; name all of them"))
    elif len(ranks) > 1:
        start = time.monotonic()
        with progress_on_terminal("pushing collectives", unit="rows") as progress:
            outcome = graphs.match(run, ranks, options=options, progress=progress)
        (found,) = (one for one in graphs.matchings() if one["run"] == run)
        if found["parts"]:
            seconds = "" if outcome == "unchanged" else f" in {time.monotonic() - start:.1f} s"
            counts = f"{found['collectives']:,} over {len(ranks):,} ranks{seconds}"
            if found["unmatched"]:
                counts += f"; {found['unmatched']:,} of {found['parts']:,} parts are not matched"
            typer.echo(printable(f"{outcome} collectives of {run}: {counts}"))
