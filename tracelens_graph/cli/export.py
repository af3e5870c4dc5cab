"""`tracelens-graph export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracelens_graph.cli.common import Trace, load


def export(
    trace: Trace,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="PATH",
            show_default=False,
            help="Where to: a file .graphml, .graphml.gz, .parquet or .csv, or with --format a folder.",
        ),
    ],
    format: Annotated[
        str | None, typer.Option("--format", "-f", show_default=False, help="The format, if PATH does not tell.")
    ] = None,
) -> None:
    """Write the graph for other programs, nodes and edges with all their properties.

    GraphML is one file. Parquet and CSV are two: from trace.csv they are trace-nodes.csv and trace-edges.csv.

    Example: tracelens-graph export trace.json.gz -o trace.graphml
    """
    core = load(trace)
    from tracelens_graph.stores.export import export_graph
    from tracelens_graph.texts import printable

    done = export_graph(core, out, format)
    for path in done.paths:
        typer.echo(f"wrote {printable(str(path))}")
    typer.echo(f"{done.nodes:,} nodes, {done.edges:,} edges")
    if done.replaced:
        typer.echo(f"{done.replaced:,} characters that the format cannot hold were replaced")
