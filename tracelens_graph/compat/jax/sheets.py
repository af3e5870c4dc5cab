"""TraceLens's report of a JAX profile: its tables by name, in its order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tracelens_graph.compat.jax.costs import op_sheets
from tracelens_graph.compat.jax.launchers import (
    df_xla_perf,
    kernel_launchers,
    kernel_launchers_summary,
    kernel_launchers_summary_by_category,
    kernel_launchers_unique_args,
    xla_summary,
)
from tracelens_graph.compat.jax.timeline import gpu_events_averages, gpu_timeline
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.table import Table

SHEETS: Mapping[str, Callable[[Window], Table]] = {
    "gpu_timeline": gpu_timeline,
    "gpu_events_averages": gpu_events_averages,
    "kernel_launchers": kernel_launchers,
    "kernel_launchers_summary": kernel_launchers_summary,
    "kernel_launchers_summary_by_category": kernel_launchers_summary_by_category,
    "kernel_launchers_unique_args": kernel_launchers_unique_args,
    "df_xla_perf": df_xla_perf,
    "xla_summary": xla_summary,
}
"""The tables that are there whatever the profile holds."""


def jax_tables(g: Core | Window) -> dict[str, Table]:
    """TraceLens's tables of a JAX profile: those of `SHEETS`, and one for each category with performance models.

    Args:
        g: the graph, or a window of it.
    """
    w = window_of(g)
    return {**{name: table(w) for name, table in SHEETS.items()}, **op_sheets(w)}
