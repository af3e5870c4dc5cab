"""Several traces of one run side by side: a line each, and which rank the others wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.schema.tables.across import OVERVIEW
from tracelens_graph.table import Table

Line = Mapping[str, Any]


def overview_line(g: Core | Window, trace: str, linked_only: bool = False) -> Line:
    """What the overview says of one trace; see `overview`."""
    w = window_of(g)
    times = {row["type"]: row for row in gpu_timeline(w, linked_only).records()}
    steps = w.core.columns.dur_ns[w.rows_of_kind(Kind.Step)]

    def time(kind: str, column: str) -> float | None:
        return times[kind][column] if kind in times else None

    return {
        "trace": trace,
        "rank": w.core.info.rank,
        "steps": len(steps),
        "step_ms": float(steps.mean() / 1e6) if len(steps) else None,
        "total_ms": time("total_time", "time ms"),
        "busy_percent": time("busy_time", "percent"),
        "computation_ms": time("computation_time", "time ms"),
        "communication_ms": time("total_comm_time", "time ms"),
        "exposed_communication_ms": time("exposed_comm_time", "time ms"),
        "idle_ms": time("idle_time", "time ms"),
    }


def overview(lines: Sequence[Line]) -> Table:
    """Traces side by side, by rank.

    Where all communicate, the slowest rank is the one that communicates for the shortest time: a collective begins
    to move data when its last rank arrives, and the time until then is part of its duration on all the others.
    Where they do not, it is the one with the longest steps, else the longest GPU time.

    Args:
        lines: what `overview_line` says of each trace.
    """
    ordered = sorted(lines, key=lambda line: (line["rank"] is None, line["rank"] or 0, line["trace"]))
    columns = {name: [line[name] for line in ordered] for name in OVERVIEW}
    slow = slowest(ordered)
    notes = [] if slow is None else [_said(ordered, slow)]
    return Table("overview", columns, OVERVIEW, "1 trace" if len(ordered) == 1 else f"{len(ordered)} traces", notes)


def slowest(lines: Sequence[Line]) -> int | None:
    """Position of the line of the slowest rank; None if nothing tells."""
    if len(lines) < 2:
        return None
    column, sign = _measure(lines)
    values = [line[column] for line in lines]
    if any(value is None for value in values):
        return None
    return int(np.argmax(sign * np.array(values, float)))


def _measure(lines: Sequence[Line]) -> tuple[str, int]:
    """The column that tells the slowest rank, and 1 if the greatest value does, else -1."""
    if all(line["communication_ms"] for line in lines):
        return "communication_ms", -1
    return ("step_ms", 1) if all(line["step_ms"] for line in lines) else ("total_ms", 1)


def _said(lines: Sequence[Line], slow: int) -> str:
    column, sign = _measure(lines)
    mine = lines[slow][column]
    others = float(np.median([line[column] for i, line in enumerate(lines) if i != slow]))
    name = lines[slow]["trace"] if lines[slow]["rank"] is None else f"rank {lines[slow]['rank']}"
    if sign < 0:
        return f"slowest: {name}: it communicates {mine:,.3f} ms, the others, waiting for it, {others:,.3f} ms"
    what = column.removesuffix("_ms")
    return f"slowest: {name}: {what} {mine:,.3f} ms, the others {others:,.3f} ms"
