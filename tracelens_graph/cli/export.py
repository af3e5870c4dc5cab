"""`tracelens-graph export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracelens_graph.cli.common import load
from tracelens_graph.cli.options import CacheOption, Trace, Written
from tracelens_graph.cli.outputs import say_written


def export(
    trace: Trace,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            show_default=False,
            help="Where to: a file .graphml, .graphml.gz, .parquet or .csv, or with --format a folder.",
        ),
        Written(is_folder=True),
    ],
    format: Annotated[
        str | None, typer.Option("--format", "-f", show_default=False, help="The format, if PATH does not tell.")
    ] = None,
    cache: CacheOption = False,
) -> None:
    """Write the graph for other programs, nodes and edges with all their properties.

    GraphML is one file. Parquet and CSV are two: from trace.csv they are trace-nodes.csv and trace-edges.csv.

    Example: tracelens-graph export trace.json.gz -o trace.graphml
    """
    from tracelens_graph.stores.export import export_format, export_graph

    export_format(output, format)
    core = load(trace, cache)
    done = export_graph(core, output, format)
    for path in done.paths:
        say_written(f"wrote {path}", output)
    say_written(f"{done.nodes:,} nodes, {done.edges:,} edges", output)
    if done.replaced:
        say_written(f"{done.replaced:,} characters that the format cannot hold were replaced", output)
