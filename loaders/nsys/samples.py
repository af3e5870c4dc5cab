"""What Nsight Systems sampled: functions in which threads were found, and metrics of GPUs while kernels ran.

Functions stand where nothing else is recorded of a thread: a sample shows one moment, so that around calls and ops it
would be a guess which of them came first. Source: "SQLite Schema Reference", COMPOSITE_EVENTS, SAMPLING_CALLCHAINS
(depth 0 is the innermost frame), GPU_METRICS (the last byte of `typeId` is the device).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.intervals import merge
from tracelens_graph.loaders.databases import Database

_SAMPLES, _STACKS = "COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS"
_METRICS, _METRIC_NAMES = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"


def has_stacks(database: Database) -> bool:
    """Whether stacks of threads were sampled."""
    return database.has(_SAMPLES, "id", "start", "globalTid") and database.has(_STACKS, "id", "symbol", "stackDepth")


def functions(
    database: Database, which: str, calls: Sequence[str], held: Mapping[int, list[int]]
) -> Iterator[dict[str, Any]]:
    """Functions in which threads were found, as events that have no process and thread yet but `globalTid`.

    A sample stands for the time that is nearer to it than to others, for two periods at most. Equal frames of samples
    that follow one another are one event.

    Args:
        database: the report.
        which: SQL that chooses samples.
        calls: tables of calls.
        held: global id of a thread -> begins and ends, in turn, of ranges during which it is known what it did.
    """
    stacks = _stacks(database)
    for (thread,) in database.connection.execute(f"SELECT DISTINCT globalTid FROM {_SAMPLES}{which}").fetchall():
        own = database.array(f"SELECT start, id FROM {_SAMPLES} WHERE globalTid = {int(thread)} ORDER BY start")
        known = [np.array(held.get(thread, ()), np.int64).reshape(-1, 2)]
        for table in calls:
            known.append(database.array(f'SELECT start, "end" FROM {table} WHERE globalTid = {int(thread)}'))
        begin, end = merge(*np.concatenate(known).T)
        at, ids = own.T
        between = np.diff(at) // 2
        most = int(np.median(between)) * 2 if len(between) else 0
        low = at - np.minimum(np.append(most, between), most)
        high = at + np.minimum(np.append(np.diff(at) - between, most), most)
        place = np.searchsorted(begin, at, "right")
        before, behind = np.append(np.iinfo(np.int64).min, end)[place], np.append(begin, np.iinfo(np.int64).max)[place]
        free = np.flatnonzero(before <= at)
        low, high = np.maximum(low, before)[free], np.minimum(high, behind)[free]
        for name, since, until in _frames(low.tolist(), high.tolist(), [stacks.get(i, ()) for i in ids[free].tolist()]):
            yield {
                "cat": "python_function",
                "name": name,
                "start": since,
                "end": until,
                "globalTid": thread,
                "args": {},
            }


def _stacks(database: Database) -> dict[int, tuple[str, ...]]:
    """Id of each sample -> its functions, the outermost first; one that is not known by name goes by its module."""
    module = "(SELECT value FROM temp.texts WHERE id = module)" if database.has(_STACKS, "module") else "NULL"
    named = "unresolved = 0" if database.has(_STACKS, "unresolved") else "1"
    found: dict[int, list[str]] = {}
    shown: dict[tuple[str | None, str | None], str] = {}
    for sample, symbol, of in database.rows(
        f"SELECT id, CASE WHEN {named} THEN (SELECT value FROM temp.texts WHERE id = symbol) END, {module} "
        f"FROM {_STACKS} ORDER BY id, stackDepth DESC"
    ):
        if (symbol, of) not in shown:
            file = PurePath(of or "").name
            shown[symbol, of] = f"{symbol} ({file})" if symbol and file else symbol or f"({file or 'unknown'})"
        stack = found.setdefault(sample, [])
        if symbol or not stack or stack[-1] != shown[symbol, of]:
            stack.append(shown[symbol, of])
    return {sample: tuple(stack) for sample, stack in found.items()}


def _frames(low: list[int], high: list[int], stacks: list[tuple[str, ...]]) -> Iterator[tuple[str, int, int]]:
    """Name, begin and end of the frames of samples; what equal stacks that touch have in common is one frame."""
    opened: list[tuple[str, int]] = []
    end = 0
    for since, until, stack in [*zip(low, high, stacks, strict=True), (0, 0, ())]:
        same = 0
        if since == end:
            while same < min(len(opened), len(stack)) and opened[same][0] == stack[same]:
                same += 1
        for name, begun in opened[same:]:
            if end > begun:
                yield name, begun, end
        opened[same:] = [(name, since) for name in stack[same:]]
        end = until


def counters(database: Database, which: str, correlation: str) -> Iterator[dict[str, Any]]:
    """Means of the metrics of a GPU over the samples while each kernel ran, of kernels with a sample.

    They are events as Kineto wrote those of CUPTI's range profiler: `cuda_profiler_range`, a metric per argument.

    Args:
        database: the report.
        which: SQL that chooses kernels.
        correlation: SQL for the number of a kernel's launch.
    """
    kernels = "CUPTI_ACTIVITY_KIND_KERNEL"
    if not database.has(_METRICS, "timestamp", "typeId", "metricId", "value") or not database.has(
        kernels, "start", "end", "deviceId", "correlationId", "shortName"
    ):
        return
    names: dict[int, str] = {}
    if database.has(_METRIC_NAMES, "metricId", "metricName"):
        names = dict(database.rows(f"SELECT metricId, metricName FROM {_METRIC_NAMES}"))
    work = database.array(f'SELECT deviceId, start, "end", shortName, {correlation} FROM {kernels}{which}')
    metrics = database.array(f"SELECT typeId & 0xFF, metricId, timestamp, rowid FROM {_METRICS} ORDER BY timestamp")
    value = dict(database.rows(f"SELECT rowid, value FROM {_METRICS}"))
    texts = dict(database.rows("SELECT id, value FROM temp.texts"))
    for device, of in positions_by(work[:, 0]):
        rows = work[of]
        own = metrics[metrics[:, 0] == device]
        found: list[dict[str, float]] = [{} for _ in of]
        for metric, chosen in positions_by(own[:, 1]):
            at = own[chosen, 2]
            sums = np.cumsum(np.append(0.0, [float(value[row] or 0) for row in own[chosen, 3].tolist()]))
            first, last = np.searchsorted(at, rows[:, 1], "right"), np.searchsorted(at, rows[:, 2], "right")
            for kernel in np.flatnonzero(last > first).tolist():
                low, high = first[kernel], last[kernel]
                found[kernel][names.get(metric, f"metric {metric}")] = float(sums[high] - sums[low]) / int(high - low)
        for (_, start, end, name, launch), args in zip(rows.tolist(), found, strict=True):
            if args:
                yield {
                    "cat": "cuda_profiler_range", "name": texts.get(name, ""), "start": start, "end": end,
                    "pid": device, "tid": 0, "args": args | {"device": device, "correlation": launch},
                }  # fmt: skip
