"""A simulated run as Kineto writes it, and which part of it a recording holds."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tracelens_graph.simulate.events import GpuEvent, HostEvent, HostThread, argument_columns
from tracelens_graph.simulate.host import AutogradNode, Process
from tracelens_graph.simulate.kernels import DEVICE_PROPERTIES, ROCM_DEVICE

STEP = "ProfilerStep#"


def begin_late(process: Process) -> None:
    """Take out of a process what its recording does not hold where that begins `recording_begins_us` later.

    An event that began before is gone, also if it ended later; what it held hangs under the nearest event around it
    that is left. Work on the GPU that was launched before and began later is there, without a launch. A step
    without its range is no step.

    Raises:
        ValueError: nothing is left.
    """
    options = process.options
    if not options.recording_begins_us or options.recording_begins_rank not in (None, process.rank):
        return
    process.start += round(1000 * options.recording_begins_us)
    gone = {event.step for event in process.hosts if event.start < process.start and event.name.startswith(STEP)}
    process.hosts = [event for event in process.hosts if _is_in(process, event)]
    process.gpus = [gpu for gpu in process.gpus if gpu.start >= process.start]
    if not process.hosts or not process.gpus:
        raise ValueError(f"recording_begins_us: rank {process.rank} has nothing left to record")
    process.syncs = [sync for sync in process.syncs if _is_in(process, sync.call)]
    process.memory = [instant for instant in process.memory if instant.time >= process.start]
    for event in process.hosts:
        event.parent = _kept(process, event.parent, lambda one: one.parent)
        event.annotation = _kept(process, event.annotation, lambda one: one.annotation)
        event.step = None if event.step in gone else event.step
    for gpu in process.gpus:
        gpu.launch = _kept(process, gpu.launch)
    process.nodes = [
        node for node in process.nodes if all(op is None or _is_in(process, op) for op in (node.forward, node.backward))
    ]
    for node in process.nodes:
        node.enclosing = [event for event in node.enclosing if _is_in(process, event)]
        node.twin = _kept(process, node.twin)
        node.evaluate = _kept(process, node.evaluate)


def _is_in(process: Process, event: HostEvent) -> bool:
    return event.start >= process.start


def _kept(
    process: Process, event: HostEvent | None, around: Callable[[HostEvent], HostEvent | None] = lambda _: None
) -> HostEvent | None:
    """An event, or the nearest around it, that is in the recording; None for none."""
    while event is not None and not _is_in(process, event):
        event = around(event)
    return event


BASE_NS = 1751410836000000000
"""What all times are relative to; Kineto floors the day to a quarter, so ranks share it."""
CONTEXT = 1
Json = dict[str, Any]


class Writer:
    """Writes one process and gives every event its position in the list (`uid`)."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._options = process.options
        self._device = process.place.device
        self._events: list[Json] = []
        self._next_index = 0
        self._end = max(event.end for event in process.hosts)
        self._recorded = process.clock.recorded

    def write(self) -> Json:
        """The whole trace; call once."""
        self._host_events()
        self._device_events()
        self._device_annotations()
        if self._options.cuda_sync:
            self._sync_events()
        self._overheads()
        self._names()
        self._span_of_trace()
        o = self._options
        flags = {"record_shapes": o.shapes, "profile_memory": o.memory}
        flags |= dict.fromkeys(("with_stack", "with_modules"), o.python_stacks)
        return {
            "schemaVersion": 1,
            **self._platform(),
            **self._distributed(),
            **{key: 1 for key, is_on in flags.items() if is_on},
            "trace_id": hashlib.md5(self._identity().encode()).hexdigest().upper(),
            **({} if self._process.place.host_name is None else {"host_name": self._process.place.host_name}),
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": BASE_NS,
            "traceEvents": self._events,
            "traceName": f"{self._process.name}.json",
        }

    def _platform(self) -> Json:
        properties: Json = DEVICE_PROPERTIES
        versions: Json = {"cupti_version": 26, "cuda_runtime_version": 12080, "cuda_driver_version": 12090}
        if self._process.is_rocm:
            properties = ROCM_DEVICE
            versions = {"roctracer_version": 4.1, "hip_runtime_version": 70253211, "hip_driver_version": 70253211}
        return {"deviceProperties": [{"id": i, **properties} for i in range(self._devices())], **versions}

    def _identity(self) -> str:
        changed = self._options.changed()
        name = self._process.name.removeprefix("rank")
        return f"{self._options}/{name}" + (f"/{changed}" if changed else "")

    def _devices(self) -> int:
        """Number of GPUs that the process sees."""
        if self._options.nodes is not None:
            return self._options.ranks // self._options.nodes
        return max(1, min(8, self._options.ranks))

    def _distributed(self) -> Json:
        ranks, groups = self._options.ranks, self._process.place.groups
        if ranks == 1:
            return {}
        info = {"backend": "nccl", "rank": self._process.rank, "world_size": ranks}
        if self._options.collective_args == "none":
            return {"distributedInfo": info}
        config = [group.config() for group in groups]
        return {"distributedInfo": {**info, "pg_count": len(groups), "pg_config": config, "nccl_version": "2.26.2"}}

    # -- pieces of events ---------------------------------------------------------------------------

    def _add(self, event: Json) -> int:
        self._events.append(event)
        return len(self._events) - 1

    def _time(self, nanoseconds: int) -> float:
        return self._recorded(nanoseconds) / 1000

    def _complete(self, cat: str, name: str, pid: Any, tid: Any, start: int, end: int, args: Json) -> int:
        place = {
            "pid": pid,
            "tid": tid,
            "ts": self._time(start),
            "dur": (self._recorded(end) - self._recorded(start)) / 1000,
        }
        return self._add({"ph": "X", "cat": cat, "name": name, **place, "args": args})

    def _flow(self, phase: str, cat: str, number: int, pid: int, tid: int, time: int) -> None:
        end = {"bp": "e"} if phase == "f" else {}
        self._add(
            {"ph": phase, "id": number, "pid": pid, "tid": tid, "ts": self._time(time), "cat": cat, "name": cat, **end}
        )

    def _index(self) -> Json:
        self._next_index += 1
        return {"Ev Idx": self._next_index - 1}

    # -- the host -------------------------------------------------------------------------------------

    def _host_events(self) -> None:
        process = self._process
        ends: dict[int, tuple[str, int]] = {}
        ran = sorted((n for n in process.nodes if n.backward), key=_backward_start)
        for number, node in enumerate(ran, 1):
            assert node.backward is not None
            ends[id(node.forward)] = ("s", number)
            ends[id(node.backward)] = ("f", number)
        by_kind: dict[bool, list[HostEvent]] = {False: [], True: []}
        for event in process.hosts:
            if event.correlation == 0:
                by_kind[event.cat == "python_function"].append(event)
        for thread in (process.autograd, process.main):
            for event in by_kind[False]:
                if event.thread is thread:
                    event.uid = self._complete(*_place(event), self._op_args(event))
                    if id(event) in ends:
                        phase, number = ends[id(event)]
                        self._flow(phase, "fwdbwd", number, thread.pid, thread.tid, event.start)
        if self._options.memory:
            self._memory()
        self._python(by_kind[True])

    def _op_args(self, event: HostEvent) -> Json:
        args: Json = {"External id": event.external_id, "Record function id": event.record_id}
        if event.sequence is not None:
            args |= {"Sequence number": event.sequence, "Fwd thread id": event.forward_thread}
        args |= event.args
        if self._options.shapes and event.inputs:
            args |= argument_columns(event.inputs)
        return args | self._index()

    def _memory(self) -> None:
        for instant in self._process.memory:
            args = {
                "Total Reserved": instant.total_reserved,
                "Total Allocated": instant.total_allocated,
                "Bytes": instant.bytes,
                "Addr": instant.address,
                "Device Id": self._device,
                "Device Type": 1,
                **self._index(),
            }
            thread, where = (instant.thread, {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]"})
            self._add(where | {"pid": thread.pid, "tid": thread.tid, "ts": self._time(instant.time), "args": args})

    def _python(self, frames: list[HostEvent]) -> None:
        number = {id(frame): i for i, frame in enumerate(frames, 1)}
        for frame in frames:
            parent = next((e for e in frame.ancestors() if e.cat == "python_function"), None)
            above = None if parent is None else number[id(parent)]
            ids = {"Python parent id": above, "Python id": number[id(frame)], **frame.args}
            frame.uid = self._complete(*_place(frame), ids | self._index())

    # -- the device ---------------------------------------------------------------------------------

    def _device_events(self) -> None:
        calls = {event.correlation: event for event in self._process.hosts if event.correlation}
        works: dict[int, list[GpuEvent]] = {}
        for gpu in self._process.gpus:
            works.setdefault(gpu.correlation, []).append(gpu)
        for correlation in sorted(calls.keys() | works.keys()):
            call, launched = calls.get(correlation), works.get(correlation, ())
            for gpu in launched:
                gpu.uid = self._complete(
                    gpu.cat, gpu.name, self._device, gpu.stream, gpu.start, gpu.end, self._gpu_args(gpu)
                )
                self._flow("f", "ac2g", correlation, self._device, gpu.stream, gpu.start)
            if call is not None:
                op = next((event for event in call.ancestors() if event.cat == "cpu_op"), None)
                external = {} if op is None else {"External id": op.external_id}
                args = external | call.args | {"correlation": correlation}
                call.uid = self._complete(*_place(call), args)
                # a call without device work gets a flow that ends at itself, as Kineto writes it
                self._flow("s" if launched else "f", "ac2g", correlation, call.thread.pid, call.thread.tid, call.start)

    def _gpu_args(self, gpu: GpuEvent) -> Json:
        external = {} if gpu.owner is None else {"External id": gpu.owner.external_id}
        if self._process.is_rocm:
            return external | self._rocm_args(gpu)
        queued = {"queued": 0} if gpu.cat == "kernel" else {}
        place = {"device": self._device, "context": CONTEXT, "stream": gpu.stream, "correlation": gpu.correlation}
        return {**external, **queued, **place, **gpu.args}

    def _rocm_args(self, gpu: GpuEvent) -> Json:
        place = {"device": self._device, "stream": gpu.stream, "correlation": gpu.correlation}
        if gpu.kernel is None:
            return place | gpu.args
        if gpu.captured is not None:
            return place | {"kind": "Dispatch Task"}
        return place | {"kind": "Dispatch Kernel"} | {key: gpu.args[key] for key in ("grid", "block")}

    def _device_annotations(self) -> None:
        spans: dict[tuple[int, int], tuple[HostEvent, int, int]] = {}
        for gpu in self._process.gpus:
            note = gpu.launch.annotation if gpu.launch else None
            if note is not None:
                key = (id(note), gpu.stream)
                _, start, end = spans.get(key, (note, gpu.start, gpu.end))
                spans[key] = (note, min(start, gpu.start), max(end, gpu.end))
        for (_, stream), (note, start, end) in spans.items():
            # Kineto draws these one nanosecond wider on either side
            args = {"External id": note.external_id}
            self._complete("gpu_user_annotation", note.name, self._device, stream, start - 1, end + 1, args)

    def _sync_events(self) -> None:
        for sync in self._process.syncs:
            correlation = sync.call.correlation
            waited: Json = {}
            if sync.record is not None:
                waited = {
                    "wait_on_stream": sync.waits_on_stream,
                    "wait_on_cuda_event_record_corr_id": sync.record.correlation,
                    "wait_on_cuda_event_id": sync.record.correlation % 64,
                }
            place = {"stream": sync.stream, "correlation": correlation, "device": self._device, "context": CONTEXT}
            args = {"External id": correlation, "cuda_sync_kind": sync.kind, **waited, **place}
            self._complete("cuda_sync", sync.kind, self._device, sync.stream, sync.call.start, sync.call.end, args)

    def _overheads(self) -> None:
        start = self._process.start + 2_000
        for name, duration in (("Activity Buffer Request", 31_000), ("Lazy Function Loading", 9_500)):
            place = {"pid": -1, "tid": 0, "ts": self._time(start), "dur": duration / 1000}
            self._add({"ph": "X", "cat": "overhead", "name": name, **place})
            start += duration + 4_000

    # -- metadata -----------------------------------------------------------------------------------

    def _names(self) -> None:
        process, time = self._process, self._time(self._process.start)

        def name(kind: str, pid: int, tid: int, **args: Any) -> None:
            self._add({"name": kind, "ph": "M", "ts": time, "pid": pid, "tid": tid, "args": args})

        rows = [(process.pid, "CPU", process.pid), (self._device, f"GPU {self._device}", 5_000_000 + self._device)]
        for pid, label, order in rows:
            name("process_name", pid, 0, name="python3")
            name("process_labels", pid, 0, labels=label)
            name("process_sort_index", pid, 0, sort_index=order)
        for stream in sorted({gpu.stream for gpu in process.gpus}):
            name("thread_name", self._device, stream, name=f"stream {stream} ")
            name("thread_sort_index", self._device, stream, sort_index=stream)
        for thread, label in ((process.main, "python3"), (process.autograd, "pt_autograd_0"), *self._idle_threads()):
            name("thread_name", thread.pid, thread.tid, name=f"thread {thread.tid} ({label})")
            name("thread_sort_index", thread.pid, thread.tid, sort_index=thread.tid)

    def _idle_threads(self) -> Iterator[tuple[HostThread, str]]:
        known = (self._process.main, self._process.autograd)
        for thread in {id(e.thread): e.thread for e in self._process.hosts}.values():
            if thread not in known:
                yield thread, "python3"

    def _span_of_trace(self) -> None:
        start, end = self._process.start - 40_000, self._end + 250_000
        self._complete("Trace", "PyTorch Profiler (0)", "Spans", "PyTorch Profiler", start, end, {"Op count": 0})
        sort = {"name": "process_sort_index", "ph": "M", "ts": self._time(start), "pid": "Spans", "tid": 0}
        self._add(sort | {"args": {"sort_index": 536870912}})
        instant = {"ph": "i", "s": "g"}
        begin = {"name": "Iteration Start: PyTorch Profiler", "pid": "Traces", "tid": "Trace PyTorch Profiler"}
        self._add(begin | instant | {"ts": self._time(start)})
        self._add({"name": "Record Window End", "pid": "", "tid": ""} | instant | {"ts": self._time(end)})


def _backward_start(node: AutogradNode) -> int:
    assert node.backward is not None
    return node.backward.start


def _place(event: HostEvent) -> tuple[str, str, int, int, int, int]:
    return event.cat, event.name, event.thread.pid, event.thread.tid, event.start, event.end


def write_trace(file: Path, trace: dict[str, Any]) -> None:
    """Write a trace; the same one gives the same bytes, for no name and no time of the file are among them."""
    file.write_bytes(gzip.compress(json.dumps(trace).encode(), 6, mtime=0))
