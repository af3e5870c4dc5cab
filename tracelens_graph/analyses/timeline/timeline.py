"""The GPU timeline: how long the GPU computed, communicated, copied and stood idle."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, COMPUTATION, MEMCPY, gpu_classes
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import gaps, merge, union_length_by_group
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

GPU_TIMELINE = TableSchema(
    "gpu_timeline",
    "What the GPUs' time was spent on: computation, exposed communication, exposed copies, nothing.",
    {
        "type": Column.key("what the time was spent on", "type"),
        "time ms": Column.total(
            "length of the union of the intervals concerned", "ms", "time ms", compared="main", figure="ms"
        ),
        "percent": Column.share("share of total_time", "% of total time", "percent", compared="beside"),
        "is_recompute": Column(
            "whether the block covers recomputation of activations", role=Role.key, heading="recompute", cells="flag"
        ),
        "gpu_pid": Column.key(
            "number of the GPU, from 1 on, in the layout of TraceLens of a JAX profile", "GPU", cells="number"
        ),
    },
    ordered=True,
)


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


_AS_ONE = "communication of a GPU is hidden while another one computes; exposed_communication is of each GPU by itself"


def gpu_timeline(
    g: Core | Window, linked_only: bool = False, micro_idle_us: float | None = None, by_recompute: bool = False
) -> Table:
    """Where the GPU's time went, over all devices and streams together.

    Times are lengths of unions of intervals, so overlap counts once, even that of devices, and computation + exposed
    communication + exposed copies + idle = total exactly. Time before the first and after the last GPU event is not
    counted. Of some iterations of a server, idle time is that of the gaps before their work, and total time that and
    the busy time.

    Args:
        linked_only: leave out GPU events whose launch is not in the trace.
        micro_idle_us: split idle time into gaps below this length and the others.
        by_recompute: two blocks, without and with recomputation of activations, each with its own total.

    Returns:
        Columns `type`, `time ms`, `percent`, and `is_recompute` if asked for; no rows without GPU events.
    """
    w = window_of(g)
    rows = w.linked_gpu_rows if linked_only else w.gpu_rows
    devices = len(np.unique(w.core.columns.device[rows]))
    pooled = f", {devices:,} GPUs as one" if devices > 1 else ""
    blocks: list[tuple[bool | None, np.ndarray]] = [(None, rows)]
    if by_recompute:
        again = autograd_of(w.core).recompute[rows]
        blocks = [(False, rows[~again]), (True, rows[again])]
    columns: dict[str, list[object]] = {name: [] for name in ("type", "time ms", "percent", "is_recompute")}
    for flag, part in blocks:
        times = times_of(w.core, part, micro_idle_us, w.all_iterations)
        total = times.get("total_time", 0)
        for name, time in times.items():
            columns["type"].append(name)
            columns["time ms"].append(time / 1e6)
            columns["percent"].append(100 * time / total if total else float("nan"))
            columns["is_recompute"].append(flag)
    if not by_recompute:
        del columns["is_recompute"]
    return GPU_TIMELINE.table(
        {name: np.array(c, float) if name in ("time ms", "percent") else c for name, c in columns.items()},
        w.titled("GPU timeline" + pooled + (" of GPU events with a launch in the trace" if linked_only else "")),
        [*unlinked_notes(w, linked_only), *lost_notes(w), *([_AS_ONE] if devices > 1 else [])],
    )


def times_of(
    g: Core, rows: np.ndarray, micro_idle_us: float | None = None, all_iterations: Window | None = None
) -> dict[str, int]:
    """The rows of the timeline of some GPU events, in ns; none without events.

    Args:
        rows: rows of GPU events.
        micro_idle_us: split idle time into gaps below this length and the others.
        all_iterations: for events of some iterations of a server the part of the trace with all of them: then gaps
            before work of the others do not count, nor does that work.
    """
    if not len(rows):
        return {}
    times = times_by_group(g, rows, np.zeros(len(rows), np.int64), 1)
    if all_iterations is not None:
        idle = _gaps_before(g, rows, all_iterations.gpu_rows)
        times |= {"idle_time": idle.sum(keepdims=True), "total_time": times["busy_time"] + idle.sum()}
    found: dict[str, int] = {}
    for name, (time,) in times.items():
        if name == "idle_time" and micro_idle_us is not None:
            start, end = g.columns.start_ns[rows], g.columns.end_ns[rows]
            holes = idle if all_iterations else _holes(merge(start, end), int(start.min()), int(end.max()))
            found["micro_idle_time"] = int(holes[holes < micro_idle_us * 1000].sum())
            found["macro_idle_time"] = int(holes[holes >= micro_idle_us * 1000].sum())
        else:
            found[name] = int(time)
    return found


def times_by_group(g: Core, rows: np.ndarray, group: np.ndarray, groups: int) -> dict[str, np.ndarray]:
    """The rows of the timeline for each of several groups of GPU events by themselves.

    Args:
        rows: rows of GPU events.
        group: group of each, 0 <= group < groups.

    Returns:
        Name of the row -> ns, one entry per group, 0 for a group without events. Idle time is not split.
    """
    by_start = np.argsort(g.columns.start_ns[rows], kind="stable")
    rows, group = rows[by_start], group[by_start]
    start = g.columns.start_ns[rows]
    end = start + g.columns.dur_ns[rows]
    what = gpu_classes(g, rows)

    def union(*classes: int) -> np.ndarray:
        picked = np.isin(what, classes)
        return union_length_by_group(group[picked], start[picked], end[picked], groups)

    bounds = np.iinfo(np.int64)
    first, last = np.full(groups, bounds.max), np.full(groups, bounds.min)
    np.minimum.at(first, group, start)
    np.maximum.at(last, group, end)
    total = np.where(first <= last, last - first, 0)
    # Unions of more and more classes: each difference is what a class adds beyond those before it.
    computation, active = union(COMPUTATION), union(COMPUTATION, COMMUNICATION)
    busy = union(COMPUTATION, COMMUNICATION, MEMCPY)
    return {
        "computation_time": computation, "exposed_comm_time": active - computation,
        "exposed_memcpy_time": busy - active, "busy_time": busy, "idle_time": total - busy, "total_time": total,
        "total_comm_time": union(COMMUNICATION), "total_memcpy_time": union(MEMCPY),
    }  # fmt: skip


def times_on_devices(g: Core, rows: np.ndarray) -> tuple[dict[str, int], int]:
    """The rows of the timeline of some GPU events, ns, each device by itself, added up, and how many devices these are.

    So no device hides the communication of another one, and idle time is that of all of them.
    """
    devices, device = np.unique(g.columns.device[rows], return_inverse=True)
    by_device = times_by_group(g, rows, device, len(devices))
    return {name: int(ns.sum()) for name, ns in by_device.items()}, len(devices)


def _gaps_before(g: Core, rows: np.ndarray, every: np.ndarray) -> np.ndarray:
    """Lengths of the gaps between some GPU events that end with one of some of them."""
    begins, ends = gaps(merge(g.columns.start_ns[every], g.columns.end_ns[every]))
    own = np.isin(ends, g.columns.start_ns[rows])
    return ends[own] - begins[own]


def _holes(busy: tuple[np.ndarray, np.ndarray], first: int, last: int) -> np.ndarray:
    """Lengths of the idle gaps between the first start and the last end, empty events included."""
    if not len(busy[0]):
        return np.array([last - first])
    begins, ends = gaps(busy)
    return np.concatenate((ends - begins, [busy[0][0] - first, last - busy[1][-1]]))


def lost_notes(w: Window) -> list[str]:
    """One line on executions of JAX's programs whose GPU events the profiler lost; none where it lost none."""
    if not w.framework.compiles_programs:
        return []
    from tracelens_graph.analyses.ops.programs import recorded_executions

    lost = recorded_executions(w).text
    return [f"{lost}: time without any need not be idle time"] if lost else []


def unlinked_notes(w: Window, left_out: bool) -> list[str]:
    """Notes for a table on GPU events without a launch in the trace."""
    return list(w.once(_unlinked_notes, left_out))


def _unlinked_notes(w: Window, left_out: bool) -> list[str]:
    every, c = w.gpu_rows, w.core.columns
    if not len(every):
        return [f"the {'window' if w.title else 'trace'} has no GPU events"]
    lone = every[c.parent[every] < 0]
    if not len(lone):
        return []
    share = 100 * int(c.dur_ns[lone].sum()) / max(int(c.dur_ns[every].sum()), 1)
    what = "left out" if left_out else "included"
    return [f"{len(lone):,} GPU events ({share:.1f} % of GPU time) have no launch in the trace: {what}"]
