"""Events of the profiler's trace as plain dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracelens_graph.execution.link import Link
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.linkage.identifiers import identifier_of_row, timestamp_us
from tracelens_graph.schema import FOREST_KINDS, GPU_KINDS, Kind
from tracelens_graph.schema.categories import CATEGORY_OF_KIND

CATEGORIES = {
    Kind.Op: CATEGORY_OF_KIND[Kind.Op],
    Kind.RuntimeCall: "runtime",
    **{kind: CATEGORY_OF_KIND[kind] for kind in GPU_KINDS},
}
"""Kinds of nodes that belong to an op -> category under which they are given."""

_ABSENT_BYTES = -(2**63)


def event_record(core: Core, link: Link, row: int) -> dict[str, Any]:
    """One event: what it is, its ids and times. GPU events have their identifier, ops the id of their node."""
    c = core.columns
    kind = Kind(int(c.kind[row]))
    pid, tid = core.threads[c.thread[row]]
    record: dict[str, Any] = {
        "uid": int(c.uid[row]),
        "category": CATEGORIES.get(kind, kind.name),
        "name": core.names[c.name[row]],
        "ts_us": timestamp_us(core, row),
        "dur_us": int(c.dur_ns[row]) / 1000,
        "start_ns": int(c.start_ns[row]),
        "dur_ns": int(c.dur_ns[row]),
        "pid": pid,
        "tid": tid,
        "external_id": _known(c.external_id[row]),
        "correlation": _known(c.correlation[row]),
    }
    if kind in GPU_KINDS:
        size = int(c.bytes[row])
        record |= {
            "device": _known(c.device[row]),
            "stream": _known(c.stream[row]),
            "bytes": None if size == _ABSENT_BYTES else size,
            "identifier": identifier_of_row(core, row),
        }
    elif kind is not Kind.RuntimeCall:
        node = int(link.node_of_row[row])
        record["cpu_op_id"] = int(link.execution.id[node]) if node >= 0 else None
    return record


def rows_inside(core: Core, row: int) -> np.ndarray:
    """Rows of the call forest that belong to an op or a range, ascending; those of a range by its thread and time."""
    c = core.columns
    if Kind(int(c.kind[row])) in FOREST_KINDS:
        return np.arange(row, int(c.last[row]) + 1)
    start, end = c.start_ns[row], c.start_ns[row] + c.dur_ns[row]
    inside = (c.thread == c.thread[row]) & (c.start_ns >= start) & (c.start_ns < end) & is_kind(c.kind, FOREST_KINDS)
    is_gpu = is_kind(c.kind, GPU_KINDS)
    inside[is_gpu] = (c.parent[is_gpu] >= 0) & inside[c.parent[is_gpu]]
    return np.flatnonzero(inside)


def _known(number: Any) -> int | None:
    return None if number == -1 else int(number)
