"""The truth about a simulated rank, from what the simulation did, not from what it wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from .distributed import message_bytes
from .events import GpuEvent, HostEvent
from .host import AutogradNode, Process

Columns = dict[str, list[Any]]
FORMAT = 1


def truth_of(process: Process, processes: list[Process], recorded: Callable[[int], int]) -> dict[str, Any]:
    """Truth as JSON. Events are named by uid, their position in `traceEvents`; times are in nanoseconds.

    gpu_events, host_events  columns, one entry per event, ordered by uid
    autograd                 one record per autograd node that ran
    forward_backward         pairs of uids: an operator and the backward operator of its node
    collectives              one record per collective, with every rank's kernel; equal for all ranks
    timeline                 of all GPU events; timeline_linked leaves out those without a launch
    ops                      GPU time charged to operators, by name
    """
    gpus = sorted(process.gpus, key=lambda gpu: gpu.uid)
    ran = [node for node in process.nodes if node.backward is not None]
    return {
        "format": FORMAT,
        "rank": process.rank,
        "clock_offset_ns": recorded(0),
        "options": asdict(process.options),
        "timeline": timeline(gpus),
        "timeline_linked": timeline(gpu for gpu in gpus if gpu.launch is not None),
        "ops": _ops(gpus),
        "gpu_events": _gpu_columns(gpus, recorded),
        "host_events": _host_columns(process, recorded),
        "autograd": [_node(node) for node in ran],
        "forward_backward": [pair for node in ran for pair in _pairs(node)],
        "collectives": _collectives(process, processes),
    }


def _uid(event: HostEvent | None) -> int | None:
    return None if event is None else event.uid


def _gpu_columns(gpus: list[GpuEvent], recorded: Callable[[int], int]) -> Columns:
    rows = []
    for gpu in gpus:
        call = gpu.launch
        above = call.ancestors() if call is not None else []
        rows.append(
            {
                "uid": gpu.uid,
                "launch": _uid(call),
                "owner": _uid(gpu.owner),
                "annotation": None if call is None else _uid(call.annotation),
                "modules": [event.uid for event in reversed(above) if event.is_module],
                "step": None if call is None else call.step,
                "recompute": call is not None and call.recompute,
                "kind": _kind(gpu),
                "stream": gpu.stream,
                "start_ns": recorded(gpu.start),
                "duration_ns": gpu.end - gpu.start,
            }
        )
    return _columns(rows)


def _host_columns(process: Process, recorded: Callable[[int], int]) -> Columns:
    rows = [
        {
            "uid": event.uid,
            "parent": _uid(event.parent),
            "annotation": _uid(event.annotation),
            "step": event.step,
            "recompute": event.recompute,
            "start_ns": recorded(event.start),
            "duration_ns": event.end - event.start,
        }
        for event in sorted(process.hosts, key=lambda event: event.uid)
    ]
    return _columns(rows)


def _columns(rows: list[dict[str, Any]]) -> Columns:
    return {key: [row[key] for row in rows] for key in rows[0]} if rows else {}


def _node(node: AutogradNode) -> dict[str, Any]:
    return {
        "name": node.name,
        "sequence": node.sequence,
        "forward": node.forward.uid,
        "enclosing": [event.uid for event in node.enclosing],
        "twin": _uid(node.twin),
        "evaluate": _uid(node.evaluate),
        "backward": _uid(node.backward),
    }


def _pairs(node: AutogradNode) -> Iterable[tuple[int, int]]:
    assert node.backward is not None
    for forward in (node.forward, node.twin):
        if forward is not None:
            yield forward.uid, node.backward.uid


def _ops(gpus: list[GpuEvent]) -> dict[str, dict[str, int]]:
    time: Counter[str] = Counter()
    events: Counter[str] = Counter()
    owners: dict[str, set[int]] = {}
    for gpu in gpus:
        if gpu.owner is not None:
            time[gpu.owner.name] += gpu.end - gpu.start
            events[gpu.owner.name] += 1
            owners.setdefault(gpu.owner.name, set()).add(gpu.owner.uid)
    return {
        name: {"count": len(owners[name]), "gpu_events": events[name], "gpu_sum_ns": total}
        for name, total in time.most_common()
    }


def _collectives(process: Process, processes: list[Process]) -> list[dict[str, Any]]:
    records = []
    for collective in process.collectives.values():
        members = sorted(collective.members.items())
        starts = [gpu.start for _, gpu in members]
        records.append(
            {
                "group": collective.group,
                "seq": collective.sequence,
                "kind": collective.kind,
                "dtype": collective.dtype,
                "bytes": message_bytes(collective),
                "ranks": [rank for rank, _ in members],
                "kernels": [gpu.uid for _, gpu in members],
                "start_ns": starts,
                "end_ns": [gpu.end for _, gpu in members],
                "transfer_ns": collective.transfer,
                "skew_ns": max(starts) - min(starts),
                "last_rank": members[starts.index(max(starts))][0],
            }
        )
    return records


def _kind(gpu: GpuEvent) -> str:
    if gpu.collective is not None:
        return "communication"
    return "memcpy" if gpu.cat == "gpu_memcpy" else "computation"


def timeline(gpus: Iterable[GpuEvent]) -> dict[str, int]:
    """Where the time between the first start and the last end went, in nanoseconds.

    A sweep over all starts and ends: between two neighbours the counts of open events by kind do not change.
    """
    edges: list[tuple[int, int, str]] = []
    for gpu in gpus:
        edges += [(gpu.start, 1, _kind(gpu)), (gpu.end, -1, _kind(gpu))]
    edges.sort()
    names = (
        "computation",
        "exposed_comm",
        "exposed_memcpy",
        "busy",
        "idle",
        "total",
        "total_comm",
        "total_memcpy",
    )
    result = dict.fromkeys(names, 0)
    open_events: Counter[str] = Counter()
    before = edges[0][0] if edges else 0
    for time, change, kind in edges:
        span, before = time - before, time
        comp, comm, copy = (open_events[k] > 0 for k in ("computation", "communication", "memcpy"))
        result["total"] += span
        result["computation"] += span * comp
        result["exposed_comm"] += span * (comm and not comp)
        result["exposed_memcpy"] += span * (copy and not comp and not comm)
        result["busy"] += span * (comp or comm or copy)
        result["idle"] += span * (not (comp or comm or copy))
        result["total_comm"] += span * comm
        result["total_memcpy"] += span * copy
        open_events[kind] += change
    return result
