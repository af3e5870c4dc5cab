"""`tracelens-graph timeline`."""

from __future__ import annotations

from tracelens_graph.cli.common import load, write_table
from tracelens_graph.cli.options import (
    CacheOption,
    Extensions,
    Format,
    FormatOption,
    LinkedOnly,
    MicroIdle,
    Recompute,
    Trace,
    extension_of,
)
from tracelens_graph.cli.windows import WindowChoice, with_window_options


@with_window_options
def timeline(
    trace: Trace,
    window: WindowChoice,
    linked_only: LinkedOnly = False,
    micro_idle: MicroIdle = None,
    recompute: Recompute = False,
    extension: Extensions = None,
    format: FormatOption = Format.table,
    cache: CacheOption = False,
) -> None:
    """Show how long the GPU computed, communicated, copied and stood idle.

    Overlapping work counts once: computation, communication and copies that nothing hides, and idle time add up
    to the total.

    Example: tracelens-graph timeline trace.json.gz --micro-idle 10
    """
    added = extension_of(extension)
    core = load(trace, cache, wants_gpu=True)
    from tracelens_graph.analyses.timeline.timeline import gpu_timeline

    table = gpu_timeline(
        window.of(core, added), linked_only=linked_only, micro_idle_us=micro_idle, by_recompute=recompute
    )
    write_table(table, format)
