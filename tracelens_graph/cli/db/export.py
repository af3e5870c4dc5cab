"""`tracelens-graph db export`."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from tracelens_graph.cli.db.images import As, Label, MinGpuTime, Only, Run, WithArgs, counts, wanted
from tracelens_graph.cli.options import TO_NEW_FOLDER, Arch, Traces


def export(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", show_default=False, file_okay=False, help="New folder for the files."),
        TO_NEW_FOLDER,
    ],
    traces: Traces,
    run: Run = "",
    name: As = "",
    label: Label = None,
    only: Only = "",
    min_gpu_time: MinGpuTime = "",
    with_args: WithArgs = False,
    arch: Arch = None,
) -> None:
    """Write traces as files for `db import`, or `neo4j-admin database import`: the same graph as `db push` writes.

    Example: tracelens-graph db export import/ traces/ --run llama-70b
    """
    from tracelens_graph.db.bulk import README, BulkExport
    from tracelens_graph.reports.progress import progress_on_terminal
    from tracelens_graph.utils.texts import printable, shorten

    chosen = wanted(traces, run, name, label, only, min_gpu_time, with_args, arch)
    with BulkExport(folder) as exported:
        loaded = chosen.load()
        for image in chosen.images(loaded):
            start = time.monotonic()
            with progress_on_terminal(
                f"writing {shorten(printable(image.properties['name']), 40)}", unit="rows"
            ) as progress:
                exported.add(image, progress)
            typer.echo(printable(f"wrote {counts(image, time.monotonic() - start)}"))
    done = exported.done
    typer.echo(f"{done.nodes:,} nodes, {done.edges:,} edges, {done.size / 1e6:,.1f} MB; to import:")
    typer.echo(printable(f"  tracelens-graph db import {shlex.quote(str(folder))}"))
    typer.echo(f"into the server of `db start`; {README} tells how into another one")
    chosen.check(loaded)
