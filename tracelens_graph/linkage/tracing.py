"""From an operator of the execution trace to everything that it did in the profiler's trace, and back from GPU work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.errors import NodeNotFoundError
from tracelens_graph.execution.link import Link
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import union_length
from tracelens_graph.graph.traversals import climb, launches_of
from tracelens_graph.linkage.metadata import metadata_of_row
from tracelens_graph.linkage.traces import (
    CATEGORIES,
    identifier_of_row,
    joined,
    row_of_identifier,
    row_of_node,
    timestamp_us,
)
from tracelens_graph.schema import FOREST_KINDS, GPU_KINDS, Kind
from tracelens_graph.utils.arrays import Mask, Rows

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


def rows_inside(core: Core, row: int) -> Rows:
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


def op_to_kernel_tracing(cpu_op_id: int, cpu_trace: Any, gpu_trace: Any) -> dict[str, Any]:
    """All events of the profiler's trace that belong to an operator, and their times.

    They are the operator itself, what it calls on its thread, and the GPU work that these calls launch; of a range
    that the program marked, what runs inside it on its thread.

    Args:
        cpu_op_id: id of the operator's node in the execution trace.
        cpu_trace: the execution trace: a path, parsed JSON or a graph. A path is read again at every call.
        gpu_trace: the profiler's trace, likewise; a graph that holds the link serves as both.

    Returns:
        A dictionary of plain values:

        * `cpu_op_id`, `name`, `method`: the operator, and how the traces were joined
        * `events`: category (`cpu_op`, `runtime`, `kernel`, `gpu_memcpy`, `gpu_memset`) -> events in the order of the
          call tree, the operator itself first. An event has `uid` (position in the file), `category`, `name`, `ts_us`
          and `dur_us` as in the file, `start_ns` (from the trace's start) and `dur_ns`, which are exact, `pid`, `tid`,
          `external_id`, `correlation`; an op `cpu_op_id`, the id of its own node; GPU work `device`, `stream`,
          `bytes` and `identifier`. Frames of Python are left out.
        * `timing`: sums of durations, see `timing`

    Raises:
        NodeNotFoundError: no node has the id, or the profiler's trace has nothing that belongs to it.
        AnalysisError: the traces are not of one run.
        TraceError: one of them cannot be read.
    """
    return events_of_op(*joined(cpu_trace, gpu_trace), cpu_op_id)


def events_of_op(core: Core, link: Link, cpu_op_id: int) -> dict[str, Any]:
    """What `op_to_kernel_tracing` gives, of a linked pair."""
    row = row_of_event(core, link, cpu_op_id)
    rows = rows_inside(core, row)
    events: dict[str, list[dict[str, Any]]] = {category: [] for category in CATEGORIES.values()}
    if row not in rows:
        events["cpu_op"].append(event_record(core, link, row))
    for one in rows[is_kind(core.columns.kind[rows], CATEGORIES)].tolist():
        events[CATEGORIES[Kind(int(core.columns.kind[one]))]].append(event_record(core, link, one))
    return {
        "cpu_op_id": int(cpu_op_id),
        "name": core.names[core.columns.name[row]],
        "method": link.method,
        "events": events,
        "timing": timing(core, row, rows),
    }


def row_of_event(core: Core, link: Link, cpu_op_id: int) -> int:
    """The row of the event that belongs to a node.

    Raises:
        NodeNotFoundError: there is no such node, or no such event.
    """
    execution = link.execution
    node = row_of_node(execution, cpu_op_id)
    row = int(link.row_of_node[node])
    if row < 0:
        name = execution.names[execution.name[node]][:80]
        count, ops = int((link.row_of_node >= 0).sum()), int(execution.is_op.sum())
        raise NodeNotFoundError(
            f"{core.info.source}: has no event of node {int(cpu_op_id)} ({name}): {count:,} of {ops:,} nodes have one, "
            f"joined by {link.method}"
        )
    return row


def timing(core: Core, row: int, rows: Rows) -> dict[str, Any]:
    """What an operator took, as sums of durations in us, and in ns, which are exact.

    Returns:
        * `cpu_op_us`: the operator's own duration, what it calls included
        * `runtime_us`: its calls of the runtime, without those that other such calls make
        * `kernel_us`, `copy_us`, `set_us`: its GPU work; `gpu_us`: all of this; `gpu_busy_us`: the same, with work
          that overlaps counted once
        * `elapsed_us`: from the operator's begin to the end of it and of all that it launched
        * all of these in ns, with `_ns` as suffix
        * `every_event_added`: the split of `cpu_op + runtime + gpu`, as often published. The calls of the runtime lie
          inside the operator, so the total counts them twice.
        * `launches_counted_once`: the split of `cpu_op + gpu`.

        A split has `total_us`, `total_ns`, `gpu_us`, `gpu_percent`, `overhead_us` (what is not GPU work) and
        `overhead_percent`; the percentages are None where the total is 0.
    """
    c = core.columns
    kind, length = c.kind[rows], c.dur_ns[rows]
    parent = c.parent[rows]
    is_nested = (parent >= 0) & (c.kind[parent] == Kind.RuntimeCall)

    def total(kinds: Iterable[Kind], also: np.ndarray | bool = True) -> int:
        return int(length[is_kind(kind, kinds) & also].sum())

    gpu = rows[is_kind(kind, GPU_KINDS)]
    ends = c.start_ns[gpu] + c.dur_ns[gpu]
    op_end = int(c.start_ns[row] + c.dur_ns[row])
    ns = {
        "cpu_op": int(c.dur_ns[row]),
        "runtime": total([Kind.RuntimeCall], ~is_nested),
        "kernel": total([Kind.Kernel]),
        "copy": total([Kind.Memcpy]),
        "set": total([Kind.Memset]),
        "gpu": total(GPU_KINDS),
        "gpu_busy": int(union_length(c.start_ns[gpu], ends)),
        "elapsed": max(op_end, int(ends.max(initial=op_end))) - int(c.start_ns[row]),
    }
    return {
        **_with_units(ns),
        "every_event_added": _split(ns["cpu_op"] + ns["runtime"], ns["gpu"]),
        "launches_counted_once": _split(ns["cpu_op"], ns["gpu"]),
    }


def _split(overhead: int, gpu: int) -> dict[str, Any]:
    total = overhead + gpu
    return {
        **_with_units({"total": total, "gpu": gpu, "overhead": overhead}),
        "gpu_percent": 100 * gpu / total if total else None,
        "overhead_percent": 100 * overhead / total if total else None,
    }


def _with_units(ns: Mapping[str, int]) -> dict[str, Any]:
    return {f"{name}_us": time / 1000 for name, time in ns.items()} | {f"{name}_ns": time for name, time in ns.items()}


WAYS = (
    "launched outside of all ops of the execution trace",
    "its launch is not in the trace",
    "launch, and the op that it stands in",
    "launch, and an op around the one that it stands in, which has no node",
    "launch, and the range that the program marked around it",
    "External id, as the trace has no launch",
)
"""How GPU work leads to an operator, by code; the first two do not."""

OUTSIDE, NO_LAUNCH, BY_OP, BY_OUTER_OP, BY_RANGE, BY_EXTERNAL_ID = range(len(WAYS))


class Origins(NamedTuple):
    """Where GPU events come from.

    Attributes:
        row: for each GPU event the row of the op or range, -1 for none.
        way: code of how it was found, as in `WAYS`.
    """

    row: Rows
    way: np.ndarray


def kernel_to_op_tracing(identifier: Any, gpu_trace: Any, cpu_trace: Any) -> dict[str, Any]:
    """The operator that a kernel, copy or fill came from.

    It is the innermost one around the launch that is in the execution trace. GPU work whose launch is not in the trace
    leads to the operator with its External id, if there is one alone.

    Args:
        identifier: what `get_gpu_op_identifier` gives: (timestamp, duration, stream, External id).
        gpu_trace: the profiler's trace: a path, parsed JSON or a graph. A path is read again at every call.
        cpu_trace: the execution trace, likewise; a graph that holds the link serves as both.

    Returns:
        A dictionary of plain values: `cpu_op_id`, the id of the operator's node; `cpu_op`, what
        `operation_metadata_scrape` gives of it; `event`, `launch` (None where it is not in the trace) and `kernel`,
        the events in the profiler's trace, as in `op_to_kernel_tracing`; `way`, how it was found, in words; `method`,
        how the traces were joined.

    Raises:
        NodeNotFoundError: no GPU event has the identifier, or several have, or it leads to no operator.
        AnalysisError: the traces are not of one run.
        TraceError: one of them cannot be read.
    """
    core, link = joined(cpu_trace, gpu_trace)
    kernel = row_of_identifier(core, identifier)
    found = origins(core, link, np.array([kernel]))
    row, way = int(found.row[0]), int(found.way[0])
    launch = int(launches_of(core.columns, np.array([kernel]))[0])
    record = partial(event_record, core, link)
    if row < 0:
        name = core.names[core.columns.name[kernel]][:80]
        raise NodeNotFoundError(
            f"{core.info.source}: {name} (event {core.columns.uid[kernel]}) leads to no op: {WAYS[way]}"
        )
    node = int(link.node_of_row[row])
    return {
        "cpu_op_id": int(link.execution.id[node]),
        "cpu_op": metadata_of_row(link.execution, node),
        "event": record(row),
        "launch": record(launch) if launch >= 0 else None,
        "kernel": record(kernel),
        "way": WAYS[way],
        "method": link.method,
    }


def origins(core: Core, link: Link, gpu: Rows) -> Origins:
    """The op or range that each of some GPU events comes from, and how it was found.

    Args:
        link: what links it with the execution trace.
        gpu: rows of GPU events.
    """
    c = core.columns
    has_node = link.node_of_row >= 0
    found = climb(c.parent, c.parent[gpu], has_node)
    way = np.where(found >= 0, BY_OP, OUTSIDE)
    nearest = climb(c.parent, c.parent[gpu], c.kind == Kind.Op)
    way[(found >= 0) & (nearest != found)] = BY_OUTER_OP
    missing = np.flatnonzero(found < 0)
    if len(missing):
        ranges = core.annotation[gpu[missing]]
        fits = (ranges >= 0) & has_node[ranges] & (c.parent[gpu[missing]] >= 0)
        found[missing[fits]], way[missing[fits]] = ranges[fits], BY_RANGE
        alone = missing[c.parent[gpu[missing]] < 0]
        by_id = _by_external_id(core, has_node, c.external_id[gpu[alone]])
        found[alone], way[alone] = by_id, np.where(by_id >= 0, BY_EXTERNAL_ID, NO_LAUNCH)
    return Origins(found, way)


def _by_external_id(core: Core, has_node: Mask, wanted: np.ndarray) -> np.ndarray:
    """For each External id the row of the only op that has it; -1 where there is none, or several."""
    c = core.columns
    ops = np.flatnonzero(has_node & (c.kind == Kind.Op) & (c.external_id != -1))
    ids, first, count = np.unique(c.external_id[ops], return_index=True, return_counts=True)
    if not len(ids):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where((ids[at] == wanted) & (count[at] == 1), ops[first[at]], -1)
