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
            metavar="FILE",
            show_default=False,
            help="File to write; the suffix tells the format: .graphml, .parquet or .csv.",
        ),
    ],
) -> None:
    """Write the graph for other programs, nodes and edges with all their properties.

    GraphML is one file; Parquet and CSV are two, of nodes and of edges.

    Example: tracelens-graph export trace.json.gz -o trace.graphml
    """
    core = load(trace)
    from tracelens_graph.stores.export import export_graph

    export_graph(core, out)
