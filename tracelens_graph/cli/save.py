"""`tracelens-graph save`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracelens_graph.cli.common import load
from tracelens_graph.cli.options import ExecutionTraceFile, Trace, Written
from tracelens_graph.cli.outputs import say_written, size_of


def save(
    trace: Trace,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", show_default=False, help="File to write."),
        Written((".tlg",)),
    ],
    et: ExecutionTraceFile = None,
) -> None:
    """Save the graph of a trace to one file that opens again in an instant.

    Every command takes such a file in place of a trace. With --et it holds what links the two, too.

    Example: tracelens-graph save trace.json.gz -o trace.tlg

    Example: tracelens-graph save trace.json.gz --et execution-trace.json.gz -o linked.tlg
    """
    core = load(trace, needs_times=False, et=et)
    from tracelens_graph.reports.progress import progress_on_terminal
    from tracelens_graph.stores.graph_file import write_graph

    with progress_on_terminal("saving") as progress:
        write_graph(core, output, progress)
    say_written(f"wrote {output}: {len(core.columns):,} nodes{size_of(output)}", output)
