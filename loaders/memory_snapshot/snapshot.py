"""A snapshot of PyTorch's CUDA allocator, in the words of its profiler.

Each allocation and release becomes a `[memory]` instant, each stack that allocated a stack of Python frames over it.
What was allocated before the recorded history stands before its begin. Times are microseconds; entries of one
microsecond stand behind one another in it, in their order. How long frames last means nothing.

Source: `torch/csrc/cuda/memory_snapshot.cpp` and `torch/cuda/_memory_viz.py` of PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec

from tracelens_graph.errors import NotATraceError
from tracelens_graph.frameworks import SNAPSHOT
from tracelens_graph.loaders.memory_snapshot.pickles import plain_value
from tracelens_graph.loaders.translated import trace_text

_THREAD = 1
"""Thread of the frames: snapshots name none."""
_GPU = 1
"""Type of a CUDA device in `[memory]` instants."""
_RESERVED = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}

Entry = dict[str, Any]


def translated(data: bytes, name: str) -> Iterator[bytes]:
    """The text of the trace that says what a snapshot says.

    Raises:
        NotATraceError: it is another pickle, or one that does more than hold plain values.
        TraceError: it is damaged.
    """
    found = plain_value(data, name)
    if not isinstance(found, dict) or not {"segments", "device_traces"} <= found.keys():
        raise NotATraceError(f"{name}: is a Python pickle, but no snapshot of torch.cuda.memory._dump_snapshot()")
    zero = min((entry["time_us"] for entries in found["device_traces"] for entry in entries), default=0)
    beside = {"schemaVersion": 1, "profiler": SNAPSHOT.profiler, "baseTimeNanoseconds": zero * 1000 - 1000}
    encode = msgspec.json.Encoder().encode
    return trace_text(beside, (encode(event).decode() for event in _events(found, zero)))


def _events(snapshot: Entry, zero: int) -> Iterator[Entry]:
    histories = snapshot["device_traces"]
    devices = {segment["device"] for segment in snapshot["segments"]} | set(range(len(histories)))
    for device in sorted(devices):
        entries = histories[device] if device < len(histories) else []
        segments = [segment for segment in snapshot["segments"] if segment["device"] == device]
        if entries or segments:
            yield from _of_device(device, entries, segments, zero)


def _of_device(device: int, entries: Sequence[Entry], segments: Sequence[Entry], zero: int) -> Iterator[Entry]:
    before = _before(entries, segments)
    reserved = sum(segment["total_size"] for segment in segments)
    reserved -= sum(_RESERVED.get(entry["action"], 0) * entry["size"] for entry in entries)
    allocated = 0
    open_frames: list[tuple[str, float]] = []
    now = 0.0
    for time, entry in _with_times([*before, *entries], zero):
        now = time
        action, size = entry["action"], entry["size"]
        reserved += _RESERVED.get(action, 0) * size
        change = {"alloc": size, "free_completed": -size}.get(action)
        if change is None:
            continue
        if change > 0:
            yield from _frames(open_frames, _names(entry.get("frames") or ()), time)
        allocated += change
        args = {
            "Total Reserved": reserved, "Total Allocated": allocated, "Bytes": change, "Addr": entry["addr"],
            "Device Id": device, "Device Type": _GPU,
        }  # fmt: skip
        yield {
            "ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": device, "tid": _THREAD,
            "ts": time, "args": args,
        }  # fmt: skip
    yield from _frames(open_frames, [], now + 1)


def _before(entries: Sequence[Entry], segments: Sequence[Entry]) -> list[Entry]:
    """Allocations of what is alive at the end, or is released, and was not allocated in the recorded history."""
    alive: set[int] = set()
    missing: dict[int, Entry] = {}
    for entry in entries:
        if entry["action"] == "alloc":
            alive.add(entry["addr"])
        elif entry["action"] == "free_completed":
            if entry["addr"] not in alive:
                missing.setdefault(entry["addr"], {"size": entry["size"], "frames": ()})
            alive.discard(entry["addr"])
    for segment in segments:
        address = segment["address"]
        for block in segment["blocks"]:
            place = block.get("address", address)
            if block["state"] != "inactive" and place not in alive:
                history = block.get("history") or [{}]
                frames = block.get("frames") or history[0].get("frames") or ()
                missing.setdefault(place, {"size": block["size"], "frames": frames})
            address += block["size"]
    return [{"action": "alloc", "addr": address, "time_us": None, **one} for address, one in missing.items()]


def _with_times(entries: Iterable[Entry], zero: int) -> Iterator[tuple[float, Entry]]:
    """Entries with their times in us since 1 us before the first; those of one us are spread over it."""
    for time, group in groupby(entries, key=lambda entry: entry["time_us"]):
        some = list(group)
        for at, entry in enumerate(some):
            yield (0 if time is None else time - zero + 1) + at / len(some), entry


def _names(frames: Iterable[Entry]) -> list[str]:
    """Names of frames as the profiler writes them, the outermost first."""
    return [f"{frame['filename']}({frame['line']}): {frame['name']}" for frame in frames][::-1]


def _frames(open_frames: list[tuple[str, float]], names: Sequence[str], now: float) -> Iterator[Entry]:
    """Close frames that are no longer on the stack, as events, and open those that are new."""
    same = 0
    while same < min(len(open_frames), len(names)) and open_frames[same][0] == names[same]:
        same += 1
    for name, start in open_frames[same:]:  # of frames with equal times the one that stands first is the outer one
        yield {
            "ph": "X", "cat": "python_function", "name": name, "pid": 0, "tid": _THREAD, "ts": start, "dur": now - start
        }  # fmt: skip
    del open_frames[same:]
    open_frames += [(name, now) for name in names[same:]]
