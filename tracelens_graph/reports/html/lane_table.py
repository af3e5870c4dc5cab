"""The lanes of a timeline as a table: what is on each of them, and for how much of the time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tracelens_graph.graph.intervals import union_length
from tracelens_graph.graph.window import Window
from tracelens_graph.reports.html.drawn import Drawn, causes, lanes
from tracelens_graph.reports.html.names import clean
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.names import short_name
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

LANES = TableSchema(
    "lanes",
    "What is on the timeline of a page.",
    {
        "lane": Column("thread, stream, or idle time of a device", role=Role.key),
        "events": Column("what is on it: calls, annotations, GPU events, gaps", role=Role.count),
        "busy_ms": Column("length of the union of these", "ms"),
        "gpu_span_percent": Column(
            "of streams and idle time busy_ms as share of the GPU span, from the first to the last GPU event of the "
            "device, as in the GPU timeline of a report",
            "%",
        ),
        "longest_ms": Column("duration of the longest one", "ms"),
        "uid": Column("its node; of idle time the GPU event that ends it", role=Role.instance),
        "longest": Column("its name; of idle time what it is due to", role=Role.text),
    },
)


def lane_table(w: Window, d: Drawn) -> Table:
    """One row for each lane of a timeline: GPU first, then threads and annotations."""
    c = w.core.columns
    idle_names = [cause["name"] for cause in causes()]
    cause = d.idle.parts.argmax(axis=0) if len(d.idle.row) else d.idle.row

    def names(rows: np.ndarray) -> Any:
        return lambda at: w.core.names[int(c.name[rows[at]])]

    def kernels(at: int) -> str:
        return short_name(names(d.gpu)(at))

    parts = {
        "gpu": (c.start_ns[d.gpu], c.dur_ns[d.gpu], c.uid[d.gpu], kernels),
        "idle": (d.idle.start, d.idle.end - d.idle.start, c.uid[d.idle.row], lambda at: idle_names[int(cause[at])]),
        "host": (c.start_ns[d.host], c.dur_ns[d.host], c.uid[d.host], names(d.host)),
        "notes": (c.start_ns[d.notes], c.dur_ns[d.notes], c.uid[d.notes], names(d.notes)),
    }
    devices = {"gpu": c.device[d.gpu], "idle": c.device[d.idle.row]}
    spans = _spans_ns(w)

    def records() -> Iterator[dict[str, Any]]:
        placed = lanes(w, d)
        for part, (start, dur, uid, name) in parts.items():
            low = 0
            for lane in placed[part]:
                rows = slice(low, low + lane["n"])
                low = rows.stop
                at = rows.start + int(dur[rows].argmax())
                busy = union_length(start[rows], start[rows] + dur[rows])
                span = spans[int(devices[part][at])] if part in devices else None
                yield {
                    "lane": f"annotations, {lane['title']}" if part == "notes" else lane["title"],
                    "events": lane["n"], "busy_ms": busy / 1e6,
                    "gpu_span_percent": None if span is None else 100 * busy / (span or 1),
                    "longest": clean(name(at)), "longest_ms": int(dur[at]) / 1e6, "uid": int(uid[at]),
                }  # fmt: skip

    return LANES.of_records(list(records()), w.titled("What is on the timeline"))


def _spans_ns(w: Window) -> dict[int, int]:
    """Device -> time from the first start to the last end of its GPU events."""
    c, rows = w.core.columns, w.gpu_rows
    devices, device = np.unique(c.device[rows], return_inverse=True)
    bounds = np.iinfo(np.int64)
    first, last = np.full(len(devices), bounds.max), np.full(len(devices), bounds.min)
    np.minimum.at(first, device, c.start_ns[rows])
    np.maximum.at(last, device, c.end_ns[rows])
    return dict(zip(devices.tolist(), (last - first).tolist(), strict=True))
