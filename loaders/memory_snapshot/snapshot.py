"""A snapshot of PyTorch's CUDA allocator, in the words of its profiler.

Each allocation and release becomes a `[memory]` instant, each stack that allocated a stack of Python frames over it,
each recorded annotation an annotation. What was allocated before the recorded history stands before its begin. Times
are microseconds; entries of one microsecond stand behind one another in it, in their order. How long frames last means
nothing. Sizes are those that were asked for, as in the history.

Source: `torch/csrc/cuda/memory_snapshot.cpp` and `torch/cuda/_memory_viz.py` of PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, repeat
from operator import index
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec

from tracelens_graph.errors import NotATraceError, TraceError
from tracelens_graph.frameworks import SNAPSHOT
from tracelens_graph.graph.info import BEFORE_HISTORY
from tracelens_graph.loaders.memory_snapshot.pickles import plain_value
from tracelens_graph.loaders.translated import trace_text

_THREAD = 1
"""Thread of the frames: snapshots name none."""
_GPU = 1
"""Type of a CUDA device in `[memory]` instants."""
_RESERVED = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_CHANGES = {"alloc": 1, "free_completed": -1, "oom": 1}

Entry = dict[str, Any]
_Whole = Annotated[int, msgspec.Meta(ge=0)]


class _Block(TypedDict):
    size: _Whole
    state: str
    address: NotRequired[_Whole]
    requested_size: NotRequired[_Whole]
    frames: NotRequired[Any]
    history: NotRequired[list[Entry]]


class _Segment(TypedDict):
    device: _Whole
    address: _Whole
    total_size: _Whole
    blocks: list[_Block]
    stream: NotRequired[int]
    segment_type: NotRequired[str]
    segment_pool_id: NotRequired[Any]
    is_expandable: NotRequired[bool]


class _Mark(TypedDict):
    stage: str
    name: str
    device: _Whole
    time_us: _Whole


class _Snapshot(TypedDict):
    """What is read of a snapshot; entries of the history and stacks are looked at one by one."""

    segments: list[_Segment]
    device_traces: list[list[Any]]
    external_annotations: NotRequired[list[_Mark] | None]


class _Frame(TypedDict):
    filename: str
    line: int
    name: str


class _Stack(TypedDict):
    frames: list[_Frame]


@dataclass(frozen=True)
class Change:
    """An allocation, a release, or an allocation that failed.

    Attributes:
        time_us: its time since 1970; None for an allocation before the recorded history.
        frames: the Python stack as the profiler names frames, the outermost first.
        event: its instant as the profiler writes it, without place and time.
    """

    time_us: int | None
    frames: Sequence[str]
    event: Entry


def snapshot_in(data: bytes, name: str) -> Entry:
    """The snapshot in a pickle.

    Raises:
        NotATraceError: it is another pickle, or one that does more than hold plain values.
        TraceError: it is damaged.
        msgspec.ValidationError: a part of it is not what PyTorch writes; the message says where.
    """
    found = plain_value(data, name)
    if not isinstance(found, dict) or not {"segments", "device_traces"} <= found.keys():
        raise NotATraceError(f"{name}: is a Python pickle, but no snapshot of torch.cuda.memory._dump_snapshot()")
    return dict(msgspec.convert(found, _Snapshot))


def translated(data: bytes, name: str) -> Iterator[bytes]:
    """The text of the trace that says what a snapshot says.

    Raises:
        NotATraceError, TraceError: as `snapshot_in`.
    """
    found = snapshot_in(data, name)
    lost = _drop_broken(found)
    entries = [*(entry for entries in found["device_traces"] for entry in entries), *_marks(found)]
    zero = min((entry["time_us"] for entry in entries), default=0)
    beside = {
        "schemaVersion": 1, "profiler": SNAPSHOT.profiler, "baseTimeNanoseconds": zero * 1000 - 1000,
        "memorySegments": segments_of(found),
    }  # fmt: skip
    encode = msgspec.json.Encoder().encode
    # An event without a time counts as lost.
    broken: Entry = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": None, "args": {}}
    events = chain(_events(found, zero), repeat(broken, lost))
    return trace_text(beside, (encode(event).decode() for event in events))


def _drop_broken(snapshot: Entry) -> int:
    """Leave out the entries of the history that PyTorch does not write; how many these are."""
    kept = [[entry for entry in entries if _is_sound(entry)] for entries in snapshot["device_traces"]]
    lost = sum(map(len, snapshot["device_traces"])) - sum(map(len, kept))
    snapshot["device_traces"] = kept
    return lost


def _is_sound(entry: Any) -> bool:
    """Whether an entry has a time, an action, and the size and address that its action needs."""
    if not isinstance(entry, dict) or type(entry.get("time_us")) is not int or not 0 <= entry["time_us"] < 2**52:
        return False
    action, is_number = entry.get("action"), {key: type(entry.get(key)) is int for key in ("size", "addr")}
    if not isinstance(action, str) or ((action in _CHANGES or action in _RESERVED) and not is_number["size"]):
        return False
    return action not in ("alloc", "free_completed") or is_number["addr"]


def history(data: bytes, name: str) -> Iterator[tuple[list[Entry], list[list[Change]]]]:
    """Once: the segments of a snapshot, and of each device what it allocated and released.

    Raises:
        NotATraceError, TraceError: as `snapshot_in`.
    """
    found = snapshot_in(data, name)
    if lost := _drop_broken(found):
        raise TraceError(f"{name}: {lost:,} entries of its history lack a time, an action, a size or an address")
    yield segments_of(found), [list(changes(found, device)) for device in devices_of(found)]


def segments_of(snapshot: Entry) -> list[Entry]:
    """The segments of a snapshot, as rows of the table `memory_segments`."""
    rows = []
    for segment in snapshot["segments"]:
        blocks: dict[str, list[Entry]] = {"active_allocated": [], "inactive": [], "waiting": []}
        for block in segment["blocks"]:
            blocks.get(block["state"], blocks["waiting"]).append(block)
        used, gaps = blocks["active_allocated"], [block["size"] for block in blocks["inactive"]]
        allocated, waiting = (sum(block["size"] for block in some) for some in (used, blocks["waiting"]))
        free = segment["total_size"] - allocated - waiting
        rows.append({
            "device": segment["device"], "address": segment["address"], "stream": segment.get("stream", 0),
            "type": segment.get("segment_type", ""), "pool": str(segment.get("segment_pool_id", "")),
            "expandable": bool(segment.get("is_expandable")), "reserved_bytes": segment["total_size"],
            "allocated_bytes": allocated, "waiting_bytes": waiting, "free_bytes": free,
            "split_bytes": free if len(gaps) < len(segment["blocks"]) else 0,
            "largest_free_bytes": max(gaps, default=0), "free_blocks": len(gaps), "blocks": len(used),
            "requested_bytes": sum(map(_asked_for, used)), "unknown_bytes": free - sum(gaps),
        })  # fmt: skip
    return rows


def devices_of(snapshot: Entry) -> list[int]:
    """The devices with a history or segments."""
    histories = snapshot["device_traces"]
    return sorted({segment["device"] for segment in snapshot["segments"]}
                  | {device for device, entries in enumerate(histories) if entries})  # fmt: skip


def changes(snapshot: Entry, device: int) -> Iterator[Change]:
    """What a device allocated and released, in its order."""
    histories = snapshot["device_traces"]
    entries = histories[device] if device < len(histories) else []
    segments = [segment for segment in snapshot["segments"] if segment["device"] == device]
    reserved = sum(segment["total_size"] for segment in segments)
    reserved -= sum(_RESERVED.get(entry["action"], 0) * entry["size"] for entry in entries)
    allocated, stacks, alive = 0, dict[int, list[str]](), dict[int, int]()
    for entry in [*_before(entries, segments), *entries]:
        action, size = entry["action"], entry["size"]
        reserved += _RESERVED.get(action, 0) * size
        if action not in _CHANGES:
            continue
        has_failed = action == "oom"
        if not has_failed:
            # An address that is given out again was released, though that is not recorded.
            allocated -= alive.pop(entry["addr"], 0)
            if action == "alloc":
                alive[entry["addr"]] = size
                allocated += size
        args = {
            "Total Reserved": reserved, "Total Allocated": allocated, "Bytes": _CHANGES[action] * size,
            "Device Id": device, "Device Type": _GPU, **({} if has_failed else {"Addr": index(entry["addr"])}),
            **({BEFORE_HISTORY: 1} if entry["time_us"] is None else {}),
        }  # fmt: skip
        event = {
            "ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[OutOfMemory]" if has_failed else "[memory]",
            "args": args,
        }  # fmt: skip
        frames = entry.get("frames") or ()
        if id(frames) not in stacks:  # stacks that are equal are one object in most pickles
            stacks[id(frames)] = _names(frames)
        yield Change(entry["time_us"], stacks[id(frames)], event)


def _events(snapshot: Entry, zero: int) -> Iterator[Entry]:
    for device in devices_of(snapshot):
        place = {"pid": device, "tid": _THREAD}
        open_frames: list[tuple[str, float]] = []
        now = 0.0
        for time, change in _with_times(changes(snapshot, device), zero):
            now = time
            if change.event["args"]["Bytes"] > 0:
                yield from _frames(open_frames, change.frames, time, place)
            yield change.event | place | {"ts": time}
        yield from _frames(open_frames, [], now + 1, place)
        yield from _annotations(snapshot, device, zero, now + 1, place)


def _marks(snapshot: Entry) -> Sequence[Entry]:
    return snapshot.get("external_annotations") or ()


def _annotations(snapshot: Entry, device: int, zero: int, end: float, place: Entry) -> Iterator[Entry]:
    """Ranges that the program marked; one may never end."""
    begun: dict[str, list[float]] = {}

    def ranged(name: str, start: float, end: float) -> Entry:
        return {"ph": "X", "cat": "user_annotation", "name": name, **place, "ts": start, "dur": end - start}

    for mark in _marks(snapshot):
        if mark["device"] != device:
            continue
        time, starts = mark["time_us"] - zero + 1, begun.setdefault(mark["name"], [])
        if mark["stage"] == "START":
            starts.append(time)
        elif starts:
            yield ranged(mark["name"], starts.pop(), time)
    yield from (ranged(name, start, max(start, end)) for name, starts in begun.items() for start in starts)


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
                missing.setdefault(place, {"size": _asked_for(block), "frames": frames})
            address += block["size"]
    return [{"action": "alloc", "addr": address, "time_us": None, **one} for address, one in missing.items()]


def _asked_for(block: Entry) -> int:
    """Bytes that were asked for; the allocator rounds them up to a block."""
    history = block.get("history") or [{}]
    asked: int = block.get("requested_size") or history[0].get("real_size") or block["size"]
    return asked


def _with_times(found: Iterable[Change], zero: int) -> Iterator[tuple[float, Change]]:
    """Changes with their times in us since 1 us before the first; those of one us are spread over it."""
    for time, group in groupby(found, key=lambda change: change.time_us):
        some = list(group)
        for at, change in enumerate(some):
            yield (0 if time is None else time - zero + 1) + at / len(some), change


def _names(frames: Iterable[Entry]) -> list[str]:
    """Names of frames as the profiler writes them, the outermost first."""
    sound = msgspec.convert({"frames": frames}, _Stack)["frames"]
    return [f"{frame['filename']}({frame['line']}): {frame['name']}" for frame in sound][::-1]


def _frames(open_frames: list[tuple[str, float]], names: Sequence[str], now: float, place: Entry) -> Iterator[Entry]:
    """Close frames that are no longer on the stack, as events, and open those that are new."""
    same = 0
    while same < min(len(open_frames), len(names)) and open_frames[same][0] == names[same]:
        same += 1
    for name, start in open_frames[same:]:  # of frames with equal times the one that stands first is the outer one
        yield {"ph": "X", "cat": "python_function", "name": name, **place, "ts": start, "dur": now - start}
    del open_frames[same:]
    open_frames += [(name, now) for name in names[same:]]
