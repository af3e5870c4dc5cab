"""The history of many traces, and which of them lack something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracelens_graph.analyses.across.spending import in_order
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceSet, titled
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

RUN_HISTORY = TableSchema(
    "run_history",
    "How long the GPU took, trace after trace.",
    {
        "label_value": Column.text("value of the label asked for"),
        "run": Column.text("name of the run"),
        "trace": Column.text("name of the trace"),
        "gpu_total_ms": Column("from the first start to the last end of a GPU event", "ms"),
        "gpu_busy_ms": Column("any GPU event runs", "ms"),
        "computation_ms": Column("a computation kernel or a fill runs", "ms"),
        "exposed_comm_ms": Column("communication runs and no computation", "ms"),
        "idle_percent": Column("share of the total in which nothing runs", "%"),
        "total_change_percent": Column("change of the total against the trace before", "%"),
        "busy_change_percent": Column("change of the busy time against the trace before", "%"),
    },
    ordered=True,
    reads=("device", "owner", "stream", "thread"),
)

INCOMPLETE_TRACES = TableSchema(
    "incomplete_traces",
    "Which traces lack something.",
    {
        "run": Column.key("name of the run"),
        "trace": Column.key("name of the trace"),
        "rank": Column("rank in its job"),
        "state": Column.text("loading, complete or dropping"),
        "damage": Column.text("what was repaired in the file and what was lost; absent for a sound file"),
        "lean": Column("whether events were left out when it was pushed", role=Role.flag),
        "options": Column.text("of a lean push, what was pushed, JSON"),
        "entries": Column("entries of the file's event list"),
        "nodes": Column("events that were pushed"),
    },
    reads=(),
)


_HISTORY = {
    "gpu_total_ms": "total_time",
    "gpu_busy_ms": "busy_time",
    "computation_ms": "computation_time",
    "exposed_comm_ms": "exposed_comm_time",
}
"""Column of the history -> row of the timeline."""


def run_history(traces: TraceSet, label: str | None = None, run: str | None = None, named: str | None = None) -> Table:
    """GPU time of each of many traces, in the order of a label's values or of pushing.

    Labels whose values are all numbers, or all versions or dates, have the order of these. Changes are against the row
    above, so give a name (`rank0`) where runs hold several traces. Times are those of the GPU timeline.

    Args:
        traces: the traces, in order.
        label: key of a label, such as `commit`; traces without it are left out. By default the order is that of
            pushing.
        run: only traces of this run.
        named: only traces of this name.
    """
    chosen = []
    for trace in traces:
        value = trace.value_of(label) if label is not None else None
        wanted = run in (None, trace.run) and named in (None, trace.name)
        if wanted and (label is None or value is not None):
            chosen.append((value, trace))
    rows: list[dict[str, Any]] = []
    before: dict[str, float] = {}
    for value, trace in in_order(chosen, lambda one: one[0], traces, label):
        table = gpu_timeline(trace.window)
        rows_of = dict(zip(table["type"], table["time ms"], strict=True))
        times = {column: float(rows_of.get(row, 0.0)) for column, row in _HISTORY.items()}
        total, idle = times["gpu_total_ms"], float(rows_of.get("idle_time", 0.0))
        rows.append({
            "label_value": value, "run": trace.run, "trace": trace.name, **times,
            "idle_percent": 100 * idle / total if total else None,
            "total_change_percent": _change("gpu_total_ms", times, before),
            "busy_change_percent": _change("gpu_busy_ms", times, before),
        })  # fmt: skip
        before = times
    windows = [trace for _, trace in chosen]
    return RUN_HISTORY.of_records(rows, titled("GPU time, trace after trace", windows))


def _change(column: str, times: Mapping[str, float], before: Mapping[str, float]) -> float | None:
    """Change in percent of what was before; None if there was nothing."""
    base = before.get(column)
    return 100 * (times[column] - base) / base if base else None


def incomplete_traces(traces: TraceSet, run: str | None = None) -> Table:
    """Traces with lost or repaired events, because their files were damaged.

    In a database there may be more: traces whose push or drop has not ended, and lean ones. A graph in memory is
    always complete.

    Args:
        traces: the traces.
        run: name of a run; by default all.

    Raises:
        AnalysisError: one of them is a window: what a file lacks lies nowhere in the trace.
    """
    if window := next((one.window.title for one in traces if not one.window.is_whole), ""):
        raise AnalysisError(f"incomplete_traces is asked of whole traces, not of a window ({window})")
    found = [one for one in traces if one.core.info.damage and run in (None, one.run)]
    found.sort(key=lambda one: (one.run, one.rank is None, one.rank or 0, one.name))
    columns: dict[str, Cells] = {
        "run": [one.run for one in found],
        "trace": [one.name for one in found],
        "rank": [one.rank for one in found],
        "state": ["complete"] * len(found),
        "damage": [one.core.info.damage for one in found],
        "lean": [False] * len(found),
        "options": [None] * len(found),
        "entries": [one.core.info.events for one in found],
        "nodes": [len(one.core.columns) for one in found],
    }
    return INCOMPLETE_TRACES.table(columns, "Traces that lack something")
