"""TraceLens's timeline of each GPU of a JAX profile, and their mean."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tracelens_graph.analyses.timeline.timeline import GPU_TIMELINE, times_by_group, unlinked_notes
from tracelens_graph.compat.jax.kernels import pids
from tracelens_graph.compat.jax.schemas import GPU_EVENTS_AVERAGES
from tracelens_graph.graph.window import Window
from tracelens_graph.tables.table import Table


def gpu_timeline(w: Window) -> Table:
    """The timeline of each GPU with work, by its number."""
    gpus, times = w.once(_times)
    columns: dict[str, list[object]] = {name: [] for name in ("type", "time ms", "percent", "gpu_pid")}
    for at, pid in enumerate(gpus):
        for name, time in times.items():
            columns["type"].append(name)
            columns["time ms"].append(time[at] / 1e6)
            columns["percent"].append(_percent(time[at], times["total_time"][at]))
            columns["gpu_pid"].append(pid)
    about = {name: GPU_TIMELINE[name] for name in columns}
    return Table("gpu_timeline", columns, about, w.titled("GPU timeline of each GPU"), unlinked_notes(w, False))


def gpu_events_averages(w: Window) -> Table:
    """The mean of these timelines; a GPU without work is not counted."""
    gpus, times = w.once(_times)
    mean = {name: float(time.mean()) for name, time in times.items()} if gpus else {}
    columns: dict[str, list[object]] = {
        "type": list(mean),
        "time ms": [time / 1e6 for time in mean.values()],
        "percent": [_percent(time, mean["total_time"]) for time in mean.values()],
    }
    return GPU_EVENTS_AVERAGES.table(columns, w.titled("Mean of the timelines of all GPUs"))


def _times(w: Window) -> tuple[list[int], Mapping[str, np.ndarray]]:
    rows = w.gpu_rows
    gpus, of = np.unique(pids(w.core, rows), return_inverse=True)
    return gpus.tolist(), times_by_group(w.core, rows, of, len(gpus))


def _percent(time: float, total: float) -> float:
    return 100 * time / total if total else float("nan")
