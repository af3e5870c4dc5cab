"""The GPU timeline: how long the GPU computed, communicated, copied and stood idle."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.gpu_class import COMMUNICATION, COMPUTATION, MEMCPY, gpu_classes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import gaps, length, merge, union_length
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema.tables import GPU_TIMELINE
from tracelens_graph.table import Table

ROW_MEANING = {
    "computation_time": "a computation kernel or a fill runs",
    "exposed_comm_time": "communication runs and no computation",
    "exposed_memcpy_time": "a copy runs and neither computation nor communication",
    "busy_time": "any GPU event runs",
    "idle_time": "nothing runs, between the first start and the last end",
    "micro_idle_time": "idle, in gaps shorter than the threshold",
    "macro_idle_time": "idle, in gaps as long as the threshold or longer",
    "total_time": "from the first start to the last end of a GPU event",
    "total_comm_time": "communication runs, whatever else does",
    "total_memcpy_time": "a copy runs, whatever else does",
}


def gpu_timeline(
    g: Core | Window, linked_only: bool = False, micro_idle_us: float | None = None, by_recompute: bool = False
) -> Table:
    """Where the GPU's time went, all devices and streams pooled.

    Times are lengths of unions of intervals, so overlap counts once, and computation + exposed communication +
    exposed copies + idle = total exactly. Time before the first and after the last GPU event is not counted.

    Args:
        g: the graph, or a window of it.
        linked_only: leave out GPU events whose launch is not in the trace.
        micro_idle_us: split idle time into gaps below this length and the others.
        by_recompute: two blocks, without and with recomputation of activations, each with its own total.

    Returns:
        Columns `type`, `time ms`, `percent`, and `is_recompute` if asked for; no rows without GPU events.
    """
    w = window_of(g)
    rows = w.linked_gpu_rows if linked_only else w.gpu_rows
    blocks: list[tuple[bool | None, np.ndarray]] = [(None, rows)]
    if by_recompute:
        again = w.core.recompute[rows]
        blocks = [(False, rows[~again]), (True, rows[again])]
    columns: dict[str, list[object]] = {name: [] for name in GPU_TIMELINE}
    for flag, part in blocks:
        times = _times_ns(w.core, part, micro_idle_us)
        total = times.get("total_time", 0)
        for name, time in times.items():
            columns["type"].append(name)
            columns["time ms"].append(time / 1e6)
            columns["percent"].append(100 * time / total if total else float("nan"))
            columns["is_recompute"].append(flag)
    if not by_recompute:
        del columns["is_recompute"]
    return Table(
        "gpu_timeline",
        columns={name: np.array(c, float) if name in ("time ms", "percent") else c for name, c in columns.items()},
        about={name: about for name, about in GPU_TIMELINE.items() if name in columns},
        title=w.titled("GPU timeline" + (" of GPU events with a launch in the trace" if linked_only else "")),
        notes=unlinked_notes(w, linked_only),
    )


def _times_ns(g: Core, rows: np.ndarray, micro_idle_us: float | None) -> dict[str, int]:
    if not len(rows):
        return {}
    start = g.columns.start_ns[rows]
    end = start + g.columns.dur_ns[rows]
    what = gpu_classes(g, rows)

    def union(*classes: int) -> int:
        picked = np.isin(what, classes)
        return union_length(start[picked], end[picked])

    busy = merge(start, end)
    total = int(end.max() - start.min())
    times = {
        "computation_time": union(COMPUTATION),
        "exposed_comm_time": union(COMPUTATION, COMMUNICATION) - union(COMPUTATION),
        "exposed_memcpy_time": length(busy) - union(COMPUTATION, COMMUNICATION),
        "busy_time": length(busy),
    }
    if micro_idle_us is None:
        times["idle_time"] = total - length(busy)
    else:
        holes = _holes(busy, int(start.min()), int(end.max()))
        times["micro_idle_time"] = int(holes[holes < micro_idle_us * 1000].sum())
        times["macro_idle_time"] = int(holes[holes >= micro_idle_us * 1000].sum())
    times["total_time"] = total
    times["total_comm_time"] = union(COMMUNICATION)
    times["total_memcpy_time"] = union(MEMCPY)
    return times


def _holes(busy: tuple[np.ndarray, np.ndarray], first: int, last: int) -> np.ndarray:
    """Lengths of the idle gaps between the first start and the last end, empty events included."""
    if not len(busy[0]):
        return np.array([last - first])
    begins, ends = gaps(busy)
    return np.concatenate((ends - begins, [busy[0][0] - first, last - busy[1][-1]]))


def unlinked_notes(w: Window, left_out: bool) -> list[str]:
    """What is to be said under a table about GPU events without a launch in the trace."""
    every, c = w.gpu_rows, w.core.columns
    if not len(every):
        return [f"the {'window' if w.title else 'trace'} has no GPU events"]
    lone = every[c.parent[every] < 0]
    if not len(lone):
        return []
    share = 100 * int(c.dur_ns[lone].sum()) / max(int(c.dur_ns[every].sum()), 1)
    what = "left out" if left_out else "included"
    return [f"{len(lone):,} GPU events ({share:.1f} % of GPU time) have no launch in the trace: {what}"]
