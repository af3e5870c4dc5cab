"""`tracelens-graph save`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracelens_graph.cli.common import Trace, load


def save(
    trace: Trace,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", show_default=False, help="File to write.")],
) -> None:
    """Save the graph of a trace to one file that opens again in an instant.

    Every command takes such a file in place of a trace.

    Example: tracelens-graph save trace.json.gz -o trace.tlg
    """
    core = load(trace)
    from tracelens_graph.reports.progress import progress_on_terminal
    from tracelens_graph.stores.graph_file import write_graph
    from tracelens_graph.texts import printable

    with progress_on_terminal("saving") as progress:
        write_graph(core, out, progress)
    typer.echo(f"wrote {printable(str(out))}: {len(core.columns):,} nodes, {out.stat().st_size / 1e6:,.1f} MB")
