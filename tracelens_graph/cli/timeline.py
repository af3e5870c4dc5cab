"""`tracelens-graph timeline`."""

from __future__ import annotations

from typing import Annotated

import typer

from tracelens_graph.cli.common import CacheOption, Format, FormatOption, LinkedOnly, Trace, load, write_table
from tracelens_graph.cli.windows import WindowChoice, with_window_options


@with_window_options
def timeline(
    trace: Trace,
    window: WindowChoice,
    linked_only: LinkedOnly = False,
    micro_idle: Annotated[
        float | None,
        typer.Option(
            "--micro-idle",
            metavar="US",
            min=0,
            show_default=False,
            help="Split idle time into gaps shorter than this many microseconds, and the others.",
        ),
    ] = None,
    by_recompute: Annotated[
        bool, typer.Option("--by-recompute", help="Tell recomputation of activations from the rest.")
    ] = False,
    format: FormatOption = Format.table,
    cache: CacheOption = False,
) -> None:
    """Show how long the GPU computed, communicated, copied and stood idle.

    Overlapping work counts once: computation, communication and copies that nothing hides, and idle time add up
    to the total.

    Example: tracelens-graph timeline trace.json.gz --micro-idle 10
    """
    core = load(trace, cache)
    from tracelens_graph.analyses.timeline.timeline import gpu_timeline

    table = gpu_timeline(window.of(core), linked_only=linked_only, micro_idle_us=micro_idle, by_recompute=by_recompute)
    write_table(table, format)
