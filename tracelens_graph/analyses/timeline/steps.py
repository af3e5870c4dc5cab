"""Steps side by side: how long each took on the host and on the device, and what the GPU did in it.

The host runs ahead of the device: its step may be over before the device has begun with it. So a step is measured
twice: on the host as the range `ProfilerStep#n`, on the device from the first start of GPU work launched in it to the
first start of that of later ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.shared.grouping import Cells, Groups
from tracelens_graph.analyses.timeline.timeline import times_by_group, unlinked_notes
from tracelens_graph.graph.arrays import distinct, quotients
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import length_before, merge, sum_by_group
from tracelens_graph.graph.membership import process_of_thread
from tracelens_graph.graph.traversals import launcher
from tracelens_graph.graph.window import Window, step_number, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

STEP_SUMMARY = TableSchema(
    "step_summary",
    "How long each step took, and what the GPU did for it.",
    {
        "name": Column.key("step; a line in brackets stands for GPU events launched in no step", "step"),
        "step": Column("number of the step"),
        "pid": Column.text("process of the step"),
        "start_ms": Column.moment("start of the step on the host, as Perfetto UI shows it", "ms"),
        "host_step_ms": Column("duration of the step on the host", "ms", heading="host step ms"),
        "device_step_ms": Column(
            "from the first start of its GPU work to the first start of that of later steps; of the "
            "last to the end of its work",
            "ms",
            heading="device step ms",
        ),
        "gpu_events": Column.count("GPU events launched in the step", "GPU events"),
        "gpu_sum_ms": Column.total("sum of their durations", "ms"),
        "computation_time_ms": Column("time in which one of them computes", "ms", heading="compute ms"),
        "exposed_comm_time_ms": Column(
            "time in which one of them communicates and none computes", "ms", heading="exp. comm ms"
        ),
        "exposed_memcpy_time_ms": Column("time in which one of them copies and none computes or communicates", "ms"),
        "busy_time_ms": Column("time in which any of them runs", "ms", heading="busy ms"),
        "idle_time_ms": Column(
            "total_time_ms without busy_time_ms; GPU events of other steps do not count", "ms", heading="idle ms"
        ),
        "total_time_ms": Column("from the first start to the last end of one of them", "ms"),
        "busy_percent": Column(
            "part of device_step_ms in which a GPU event runs, of whatever step", "%", heading="busy % of device step"
        ),
        "top_ops": Column(
            "ops charged with most GPU time: name, ms, percent of gpu_sum_ms", heading="top ops", cells="list"
        ),
        "uid": Column.instance("uid of the step"),
    },
)


OUTSIDE = "(outside of steps)"

TIMES = ("computation_time", "exposed_comm_time", "exposed_memcpy_time", "busy_time", "idle_time", "total_time")
"""Rows of the timeline that every step shows."""

_NAMED = 5
"""How many steps a note names."""


def step_summary(g: Core | Window, top_ops: int = 3) -> Table:
    """One row per step (`ProfilerStep#n`) of every process, in the order of their starts.

    A GPU event belongs to the step in which it was launched, also where it runs after the step has ended on the
    host: asynchronous work shifts shares from one step to another, never into two. GPU events launched in no step
    are a row of their own, so GPU events and their sums add up to those of the window.

    Steps on the device lie end to end, from the first start of a step's GPU work to that of any later step of the
    process; the last lasts to the end of its work. The part of it in which any GPU event of the window runs, whatever
    step launched that, is its busy share: never more than 100 %.

    Args:
        g: the graph, or a window of it; shown are its steps and those of its GPU events.
        top_ops: how many ops each step names, by the GPU time charged to them; 0 for no such column.

    Returns:
        One row per step, and one for GPU events outside of steps if there are any. No rows without steps.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    gpu = w.gpu_rows
    of_gpu = core.gpu_step[gpu]
    steps, _ = distinct(np.concatenate((w.rows_of_kind(Kind.Step), of_gpu[of_gpu >= 0])))
    title = w.titled("Steps")
    if not len(steps):
        what = "window" if w.title else "trace"
        return STEP_SUMMARY.empty(title, [f"the {what} has no steps ({core.framework.step_mark})"])
    steps = steps[np.lexsort((c.start_ns[steps], process_of_thread(core.threads)[c.thread[steps]]))]
    outside = len(steps)
    # The last entry serves step -1, of GPU events in no step.
    place = np.full(len(c) + 1, outside)
    place[steps] = np.arange(outside)
    group = place[of_gpu]
    groups = outside + 1
    names = [core.names[code] for code in c.name[steps].tolist()]
    host = np.append(c.dur_ns[steps] / 1e6, np.nan)
    times = {name: ns / 1e6 for name, ns in times_by_group(core, gpu, group, groups).items()}
    process = process_of_thread(core.threads)[c.thread[steps]]
    device, busy = on_device(core, gpu, group, process)
    share = quotients(100 * busy, device)
    columns: dict[str, Cells] = {
        "name": [*names, OUTSIDE],
        "step": [*map(step_number, names), None],
        "pid": [*(str(core.threads[code][0]) for code in c.thread[steps].tolist()), None],
        "start_ms": np.append(w.core.info.shown_ms(c.start_ns[steps]), np.nan),
        "host_step_ms": host,
        "device_step_ms": np.where(device > 0, device / 1e6, np.nan),
        "gpu_events": np.bincount(group, minlength=groups),
        "gpu_sum_ms": sum_by_group(group, c.dur_ns[gpu], groups) / 1e6,
        **{f"{name}_ms": times[name] for name in TIMES},
        "busy_percent": share,
        **({"top_ops": _top_ops(core, gpu, group, groups, top_ops)} if top_ops else {}),
        "uid": [*c.uid[steps].tolist(), None],
    }
    shown = np.arange(groups if columns["gpu_events"][outside] else outside)
    table = STEP_SUMMARY.table(columns, title).take(shown)
    table.notes = [*_notes(table.take(np.arange(outside))), *unlinked_notes(w, False)]
    return table


def on_device(core: Core, gpu: np.ndarray, group: np.ndarray, process: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each step its length on the device, and how long a GPU event of the window runs in it, ns.

    Args:
        gpu: rows of the GPU events of the window.
        group: step of each, by its place; the place behind the last step is that of events in no step.
        process: number of the process of each step; steps of one process stand together, in their order.

    Returns:
        Two arrays over steps, and 0 for events in no step.
    """
    c, groups = core.columns, len(process) + 1
    start, end = c.start_ns[gpu], c.end_ns[gpu]
    first, last = (np.full(groups, bound) for bound in (np.iinfo(np.int64).max, np.iinfo(np.int64).min))
    np.minimum.at(first, group, start)
    np.maximum.at(last, group, end)
    length, busy = np.zeros((2, groups), np.int64)
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for steps in np.split(np.arange(len(process)), np.flatnonzero(np.diff(process)) + 1):
        steps = steps[first[steps] <= last[steps]]
        if not len(steps):
            continue
        # Work of a later step may begin before that of an earlier one.
        begin = np.minimum.accumulate(first[steps][::-1])[::-1]
        bounds = np.append(begin, max(int(last[steps[-1]]), int(begin[-1])))
        found.append((steps, bounds))
    if found:
        every = length_before(merge(start, end), np.concatenate([bounds for _, bounds in found]))
        edges = np.cumsum([len(bounds) for _, bounds in found])[:-1]
        for (steps, bounds), before in zip(found, np.split(every, edges), strict=True):
            length[steps], busy[steps] = np.diff(bounds), np.diff(before)
    return length, busy


def _top_ops(core: Core, gpu: np.ndarray, group: np.ndarray, groups: int, top: int) -> list[list[dict[str, Any]]]:
    """The launchers that most GPU time is charged to, group by group."""
    c = core.columns
    owner = launcher(c, gpu)
    # One further name: without a launch.
    kinds = len(core.names) + 1
    name = np.where(owner >= 0, c.name[owner], kinds - 1).astype(np.int64)
    pairs, of = distinct(group * kinds + name)
    time = sum_by_group(of, c.dur_ns[gpu], len(pairs))
    total = sum_by_group(pairs // kinds, time, groups)
    order = np.lexsort((pairs, -time, pairs // kinds))
    begin = np.searchsorted((pairs // kinds)[order], np.arange(groups))
    best = order[np.arange(len(order)) - begin[(pairs // kinds)[order]] < top]
    found: list[list[dict[str, Any]]] = [[] for _ in range(groups)]
    for pair, ns in zip(pairs[best].tolist(), time[best].tolist(), strict=True):
        number, code = divmod(pair, kinds)
        label = core.names[code] if code < kinds - 1 else NO_LAUNCH
        share = 100 * ns / max(int(total[number]), 1)
        found[number].append({"name": label, "ms": ns / 1e6, "percent": share})
    return found


def _notes(steps: Table) -> list[str]:
    """The distribution over steps, and the steps that stand out."""
    time, device, share = (
        np.asarray(steps[name], float) for name in ("host_step_ms", "device_step_ms", "busy_percent")
    )
    empty = np.flatnonzero(np.asarray(steps["gpu_events"]) == 0)
    notes = [
        _spread("step on the host", time, "ms"),
        _spread("step on the device", device[np.isfinite(device)], "ms"),
        _spread("busy", share[np.isfinite(share)], "% of the step on the device"),
    ]
    if len(steps) > 1:
        slowest = int(np.argmax(time))
        where = "on the host"
        if np.isfinite(device).any():
            slowest, where = int(np.nanargmax(device)), "on the device"
        ms = (device if where == "on the device" else time)[slowest]
        notes.append(f"slowest {where}: {steps['name'][slowest]:.64}, uid {steps['uid'][slowest]}, {ms:,.3f} ms")
    if len(empty):
        named = ", ".join(f"{steps['name'][i]:.64}" for i in empty[:_NAMED].tolist())
        more = f" and {len(empty) - _NAMED:,} more" if len(empty) > _NAMED else ""
        notes.append(f"steps that launched no GPU event: {named}{more}")
    return list(filter(None, notes))


def _spread(what: str, values: np.ndarray, unit: str) -> str:
    if not len(values):
        return ""
    all_of_it = Groups(np.zeros(len(values), np.int64), values, 1)
    numbers = {"min": all_of_it.min, "median": all_of_it.median, "mean": all_of_it.mean, "max": all_of_it.max}
    if len(values) > 1:
        numbers["std"] = all_of_it.std()
    return f"{what}: " + ", ".join(f"{name} {value[0]:,.3f}" for name, value in numbers.items()) + f" {unit}"
