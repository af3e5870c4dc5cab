"""The truth about one rank, from what the simulation did, not from what it wrote; its tensors included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from tracelens_graph.simulate.events import GpuEvent, HostEvent, Tensor
from tracelens_graph.simulate.host import AutogradNode, Process
from tracelens_graph.simulate.job_truth import key_of


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among arguments or results, those in lists too."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def uses_in_order(process: Process) -> list[tuple[int, bool, HostEvent, Tensor]]:
    """(time, is result, event, tensor) of every use, arguments at the start of their operator, results at its end."""
    events = [event for event in process.hosts if event.record_id]
    uses = [(event.start, False, event, tensor) for event in events for tensor in tensors_in(event.inputs)]
    uses += [(event.end, True, event, tensor) for event in events for tensor in tensors_in(event.outputs)]
    return sorted(uses, key=lambda use: use[:2])


def tensor_truth(process: Process, recorded: Callable[[int], int]) -> dict[str, Any]:
    """Truth about tensors and storages, in the order in which operators meet them.

    tensors    one record each: uid of the operator that made it, uids of those that it is an argument of, shape, dtype,
               and place of its storage
    storages   one record each: bytes, device, uid of the operator that made it, the start of that operator, and the end
               of the last one that uses it

    What an operator is the first to give out it has made, unless it had been used before the operator began; None
    stands for what was there before.
    """
    tensors: dict[int, _Life] = {}
    storages: dict[int, _Life] = {}
    for time, is_result, event, tensor in uses_in_order(process):
        one = tensors.setdefault(id(tensor), _Life(tensor, time))
        one.used(event, is_result)
        if tensor.numel:  # no memory is needed for no elements
            memory = storages.setdefault(id(tensor.storage), _Life(tensor, time))
            memory.used(event, is_result)
            memory.bytes = max(memory.bytes, tensor.storage.bytes or tensor.bytes)  # parameters come from out of sight
    places = {key: place for place, key in enumerate(storages)}
    return {
        "tensors": [
            {
                "made_by": one.made_by and one.made_by.uid,
                "consumers": list(one.consumers),
                "shape": list(one.tensor.shape),
                "dtype": one.tensor.dtype,
                "storage": places.get(id(one.tensor.storage)) if one.tensor.numel else None,
            }
            for one in tensors.values()
        ],
        "storages": [
            {
                "bytes": one.bytes,
                "device": one.tensor.device,
                "made_by": one.made_by and one.made_by.uid,
                "start_ns": one.made_by and recorded(one.made_by.start),
                "end_ns": recorded(one.end),
            }
            for one in storages.values()
        ],
    }


@dataclass(slots=True)
class _Life:
    """What operators did with a tensor, or with the tensors of a storage."""

    tensor: Tensor
    first: int
    made_by: HostEvent | None = None
    consumers: dict[int, None] = field(default_factory=dict)
    end: int = 0
    bytes: int = 0

    def used(self, event: HostEvent, is_result: bool) -> None:
        if is_result and self.made_by is None and self.first > event.start:
            self.made_by = event
        if not is_result:
            self.consumers[event.uid] = None
        self.end = max(self.end, event.end)


def last_uses(process: Process) -> dict[int, int]:
    """When each tensor and storage, by `id`, was last used: the end of the last operator that got it or gave it."""
    found: dict[int, int] = {}
    for _, _, event, tensor in uses_in_order(process):
        for thing in (tensor, tensor.storage):
            found[id(thing)] = max(found.get(id(thing), 0), event.end)
    return found


def release_times(process: Process) -> dict[int, int]:
    """Address of device memory -> when it was given back."""
    return {instant.address: instant.time for instant in process.memory if instant.bytes < 0}


Columns = dict[str, list[Any]]
FORMAT = 1


def truth_of(process: Process, job: dict[str, Any]) -> dict[str, Any]:
    """Truth as JSON. Events are named by uid, their position in `traceEvents`; times are in nanoseconds.

    gpu_events, host_events  columns, one entry per event, ordered by uid
    host_waits               columns, one entry per call that waited for the device
    autograd                 one record per autograd node that ran
    forward_backward         pairs of uids: an operator and the backward operator of its node
    timeline                 of all GPU events; timeline_linked leaves out those without a launch
    ops                      GPU time charged to operators, by name
    tensors, storages        who made and who reads each: see `tensor_truth`

    `job` is the truth about all ranks: see `truth_of_job`.
    """
    recorded = process.clock.recorded
    gpus = sorted(process.gpus, key=lambda gpu: gpu.uid)
    ran = [node for node in process.nodes if node.backward is not None]
    return {
        "format": FORMAT,
        "rank": process.rank,
        "clock_offset_ns": process.clock.offset_ns,
        "options": asdict(process.options),
        "timeline": timeline(gpus, recorded),
        "timeline_linked": timeline((gpu for gpu in gpus if gpu.launch is not None), recorded),
        "ops": _ops(gpus, recorded),
        "gpu_events": _gpu_columns(gpus, recorded),
        "host_events": _host_columns(process, recorded),
        "host_waits": _host_waits(process),
        "autograd": [_node(node) for node in ran],
        "forward_backward": [pair for node in ran for pair in _pairs(node)],
        **tensor_truth(process, recorded),
        **job,
    }


def _uid(event: HostEvent | GpuEvent | None) -> int | None:
    return None if event is None or event.uid < 0 else event.uid


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
                "duration_ns": recorded(gpu.end) - recorded(gpu.start),
                "true_start_ns": gpu.start,
                "true_end_ns": gpu.end,
                "collective": None if gpu.collective is None else key_of(gpu.collective),
                **_causes(gpu),
            }
        )
    return columns(rows)


def _causes(gpu: GpuEvent) -> dict[str, Any]:
    """Why the work started when it did: the cause that bound, and what each other cause would have allowed.

    A launch allows the start `launch_latency_ns` after its call began, the work before it on the stream
    `stream_gap_ns` after its end, an awaited work of another stream at its end.
    """
    call, previous = gpu.launch, gpu.previous
    awaited = max(gpu.waits, key=lambda other: other.end, default=None)
    allowed: list[tuple[int, str, HostEvent | GpuEvent | None]] = [(gpu.ready, "launch", call)]
    if previous is not None:
        allowed.append((previous.end + previous.gap, "stream", previous))
    if awaited is not None:
        allowed.append((awaited.end, "wait", awaited))
    _, binding, event = max(allowed, key=lambda cause: cause[0])
    return {
        "binding": binding,
        "binding_event": _uid(event),
        "launch_latency_ns": None if call is None else gpu.ready - call.start,
        "previous": _uid(previous),
        "stream_gap_ns": None if previous is None else previous.gap,
        "awaited": [uid for other in gpu.waits if (uid := _uid(other)) is not None],
        "slack_ns": {cause: gpu.start - time for time, cause, _ in allowed},
    }


def _host_waits(process: Process) -> Columns:
    rows = []
    for sync in sorted(process.syncs, key=lambda sync: sync.call.uid):
        if sync.kind != "Stream Wait Event":
            last = max(sync.awaited, key=lambda gpu: gpu.end, default=None)
            returned = sync.call.end
            rows.append(
                {
                    "call": sync.call.uid,
                    "kind": sync.kind,
                    "awaited": [uid for gpu in sync.awaited if (uid := _uid(gpu)) is not None],
                    "last": _uid(last),
                    "last_end_ns": None if last is None else last.end,
                    "end_ns": returned,
                    "had_to_wait": last is not None and last.end > sync.asked,
                    "wake_ns": sync.wake,
                }
            )
    return columns(rows)


def _host_columns(process: Process, recorded: Callable[[int], int]) -> Columns:
    rows = [
        {
            "uid": event.uid,
            "parent": _uid(event.parent),
            "annotation": _uid(event.annotation),
            "step": event.step,
            "recompute": event.recompute,
            "start_ns": recorded(event.start),
            "duration_ns": recorded(event.end) - recorded(event.start),
        }
        for event in sorted(process.hosts, key=lambda event: event.uid)
    ]
    return columns(rows)


def columns(rows: list[dict[str, Any]]) -> Columns:
    """Records as columns; no columns where there are no records."""
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


def _ops(gpus: list[GpuEvent], recorded: Callable[[int], int]) -> dict[str, dict[str, int]]:
    time: Counter[str] = Counter()
    events: Counter[str] = Counter()
    owners: dict[str, set[int]] = {}
    for gpu in gpus:
        if gpu.owner is not None:
            time[gpu.owner.name] += recorded(gpu.end) - recorded(gpu.start)
            events[gpu.owner.name] += 1
            owners.setdefault(gpu.owner.name, set()).add(gpu.owner.uid)
    return {
        name: {"count": len(owners[name]), "gpu_events": events[name], "gpu_sum_ns": total}
        for name, total in time.most_common()
    }


def _kind(gpu: GpuEvent) -> str:
    if gpu.collective is not None:
        return "communication"
    return "memcpy" if gpu.cat == "gpu_memcpy" else "computation"


def timeline(gpus: Iterable[GpuEvent], recorded: Callable[[int], int]) -> dict[str, int]:
    """Where the time between the first start and the last end went, in nanoseconds.

    A sweep over all starts and ends: between two neighbours the counts of open events by kind do not change.
    """
    edges: list[tuple[int, int, str]] = []
    for gpu in gpus:
        edges += [(recorded(gpu.start), 1, _kind(gpu)), (recorded(gpu.end), -1, _kind(gpu))]
    edges.sort()
    names = ("computation", "exposed_comm", "exposed_memcpy", "busy", "idle", "total", "total_comm", "total_memcpy")
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
