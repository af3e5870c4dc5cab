"""From an operator of the execution trace to everything that it did in the profiler's trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tracelens_graph.errors import NodeNotFoundError
from tracelens_graph.execution.link import Link
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import union_length
from tracelens_graph.linkage.records import CATEGORIES, event_record, rows_inside
from tracelens_graph.linkage.traces import joined, row_of_node
from tracelens_graph.schema import GPU_KINDS, Kind


def op_to_kernel_tracing(cpu_op_id: int, cpu_trace: Any, gpu_trace: Any) -> dict[str, Any]:
    """All events of the profiler's trace that belong to an operator, and what they took.

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


def timing(core: Core, row: int, rows: np.ndarray) -> dict[str, Any]:
    """What an operator took, as sums of durations in us, and in ns, which are exact.

    Args:
        core: the graph.
        row: the operator.
        rows: what belongs to it.

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
