"""Edits of Kineto JSON that plant a known change into a real trace; nothing of the product is used here.

Host edits move host events, GPU edits change durations; `Recording.settled` then moves the GPU work as a device would:
an event starts when it is launched and when all that ended before it has ended.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

Event = dict[str, Any]

GPU = ("kernel", "gpu_memcpy", "gpu_memset")
RUNTIME = ("cuda_runtime", "cuda_driver")
HOST = ("cpu_op", "python_function", "user_annotation", *RUNTIME)
_LATENCY_US = 8.0
"""From the launch to the start of an event that waits for nothing else."""


@cache
def _text(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


class Recording:
    """A trace that can be edited; flows from launches to GPU work, counters and instants are left out."""

    def __init__(self, path: Path, step: str | None = None) -> None:
        self.document = json.loads(_text(path))
        events = self.document["traceEvents"]
        self.meta = [event for event in events if event["ph"] == "M" or event.get("cat") == "fwdbwd"]
        self.host = [event for event in events if event["ph"] == "X" and event.get("cat") in HOST]
        self.gpu = [event for event in events if event["ph"] == "X" and event.get("cat") in GPU]
        self._next = 10_000_000
        self._before: dict[int, tuple[float, float, float | None]] = {}
        if step is not None:
            self._keep_only(step)

    def _keep_only(self, step: str) -> None:
        (whole,) = (event for event in self.host if event["name"] == step)
        start, end = whole["ts"], whole["ts"] + whole["dur"]
        self.host = [event for event in self.host if start <= event["ts"] < end]
        launched = {event["args"].get("correlation") for event in self.host if event["cat"] in RUNTIME}
        self.gpu = [event for event in self.gpu if event["args"]["correlation"] in launched]
        self.meta = [event for event in self.meta if event["ph"] == "M" or start <= event["ts"] < end]

    def copy(self) -> Recording:
        """A copy, to be edited."""
        return copy.deepcopy(self)

    def write(self, path: Path) -> Path:
        """The trace as a file, events in the order of their start."""
        events = sorted([*self.host, *self.gpu], key=lambda event: event["ts"])
        path.write_bytes(
            gzip.compress(json.dumps({**self.document, "traceEvents": [*self.meta, *events]}).encode(), compresslevel=1)
        )
        return path

    # -- what is there -------------------------------------------------------------------------------------------

    def named(self, pattern: str, categories: Iterable[str] = HOST) -> list[Event]:
        """Host events whose whole name matches, by start."""
        wanted = re.compile(pattern)
        found = [event for event in self.host if event["cat"] in categories and wanted.fullmatch(event["name"])]
        return sorted(found, key=lambda event: event["ts"])

    def modules(self, pattern: str) -> list[Event]:
        """Calls of modules whose name without the prefix matches, such as `ViTLayer_.*`."""
        return self.named(f"nn.Module: {pattern}", ("python_function",))

    def ops(self, pattern: str, within: Event | None = None) -> list[Event]:
        """Ops by name, of one module only or of all."""
        found = self.named(pattern, ("cpu_op",))
        return found if within is None else [event for event in found if is_inside(event, within)]

    def inside(self, around: Event) -> list[Event]:
        """A host event and all host events in it."""
        return [event for event in self.host if is_inside(event, around)]

    def work(self, around: Event | Iterable[Event]) -> list[Event]:
        """GPU events launched inside of host events, by start."""
        callers = [around] if isinstance(around, dict) else list(around)
        calls = {
            event["args"]["correlation"]
            for caller in callers
            for event in self.inside(caller)
            if event["cat"] in RUNTIME and "correlation" in event["args"]
        }
        return sorted((e for e in self.gpu if e["args"]["correlation"] in calls), key=lambda event: event["ts"])

    def kernels(self, pattern: str = ".*") -> list[Event]:
        """GPU events in whose name a pattern occurs, by start."""
        wanted = re.compile(pattern)
        return sorted((event for event in self.gpu if wanted.search(event["name"])), key=lambda event: event["ts"])

    # -- edits of the host ---------------------------------------------------------------------------------------

    def delay(self, at: float, us: float) -> None:
        """All that begins on the host from a time on begins later; what is open then takes longer."""
        for event in [*self.host, *self.meta]:
            if event.get("ts", -1) >= at:
                event["ts"] += us
            elif event.get("ts", at) + event.get("dur", 0) > at:
                event["dur"] += us

    def insert_call(self, at: float, name: str, us: float, category: str, thread: Event, **args: Any) -> Event:
        """A host event of its own at a time, on the thread of another."""
        self.delay(at, us + 0.2)
        event = {**self._new(thread), "cat": category, "name": name, "ts": at + 0.1, "dur": us, "args": args}
        self.host.append(event)
        return event

    def insert_copy(self, of: Event, at: float, rename: Callable[[str], str] = str) -> tuple[list[Event], list[Event]]:
        """A copy of a host event with all in it and its GPU work, begun at a time; host and GPU events of the copy."""
        host, work = copy.deepcopy((self.inside(of), self.work(of)))
        self.delay(at, of["dur"] + 0.2)
        calls: dict[int, int] = {}
        for event in host:
            event["ts"] += at + 0.1 - of["ts"]
            event["name"] = rename(event["name"])
            self._renumber(event, calls)
        end = max((event["ts"] + event["dur"] for event in work), default=0.0)
        for event in work:
            event["name"], event["ts"] = rename(event["name"]), end
            self._renumber(event, calls)
        self.host += host
        self.gpu += work
        return host, work

    def _renumber(self, event: Event, calls: dict[int, int]) -> None:
        """Numbers of its own for the copy of an event."""
        for name in ("correlation", "External id"):
            if name in event["args"]:
                self._next += 1
                event["args"][name] = calls.setdefault(event["args"][name], self._next)
        for name in ("Sequence number", "Fwd thread id", "Ev Idx", "Python id", "Python parent id"):
            event["args"].pop(name, None)

    def _new(self, like: Event) -> Event:
        return {"ph": "X", "pid": like["pid"], "tid": like["tid"]}

    def remove(self, around: Event) -> None:
        """A host event with all in it, and its GPU work."""
        gone = {id(event) for event in (*self.inside(around), *self.work(around))}
        self.host = [event for event in self.host if id(event) not in gone]
        self.gpu = [event for event in self.gpu if id(event) not in gone]

    def swap(self, first: Event, second: Event) -> None:
        """Two calls one after the other, the second now before the first; what is between them stays there."""
        groups = [self.inside(first), self.inside(second)]
        end, begin = first["ts"] + first["dur"], second["ts"]
        between = [event for event in self.host if end <= event["ts"] < begin and event["tid"] == first["tid"]]
        works = [self.work(first), self.work([e for e in between if e["cat"] in RUNTIME]), self.work(second)]
        longer, back, forth = second["dur"] - first["dur"], begin - first["ts"], second["ts"] + second["dur"] - end
        for events, by in ((groups[1], -back), (between, longer), (groups[0], forth)):
            for event in events:
                event["ts"] += by
        every = [event for work in works for event in work]
        if not every:
            return
        at = min(event["ts"] for event in every)
        for event in [event for work in reversed(works) for event in work]:
            self.place(event, at)
            at = _end(event)

    def rename(self, pattern: str, by: str, events: Iterable[Event] | None = None) -> int:
        """Another name, part by part; how many events have it."""
        wanted, number = re.compile(pattern), 0
        for event in [*self.host, *self.gpu] if events is None else events:
            name = wanted.sub(by, event["name"])
            number += name != event["name"]
            event["name"] = name
        return number

    def new_correlation(self, event: Event) -> int:
        """A number of its own for a launch and its work."""
        self._next += 1
        event["args"]["correlation"] = self._next
        return self._next

    # -- edits of the GPU ----------------------------------------------------------------------------------------

    def place(self, event: Event, at: float, us: float | None = None) -> None:
        """A GPU event begins at another time, among what runs there, and holds up others for so long."""
        event["ts"] = at
        self._before[id(event)] = (at, at + (event["dur"] if us is None else us), None)

    def scale(self, events: Iterable[Event], factor: float) -> float:
        """GPU events take that much longer; by how many ms in all."""
        change = 0.0
        for event in events:
            change += event["dur"] * (factor - 1)
            event["dur"] *= factor
        return change / 1000

    def jitter(self, share: float, seed: int) -> None:
        """Each GPU event takes up to a share longer or less."""
        draw = random.Random(seed)
        for event in self.gpu:
            event["dur"] *= 1 + draw.uniform(-share, share)

    def add_after(self, event: Event, name: str, us: float) -> Event:
        """One more kernel of the same launch, right after an event."""
        new: Event = copy.deepcopy(event)
        new |= {"name": name, "ts": event["ts"] + event["dur"], "dur": us, "cat": "kernel"}
        self.gpu.append(new)
        return new

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Edits inside of it, then the GPU work in its new time."""
        launches = self._launches()
        self._before = {
            id(event): (event["ts"], event["ts"] + event["dur"], launches.get(_call(event))) for event in self.gpu
        }
        yield
        launches = self._launches()
        for event in self.gpu:
            # What is new begins where it was put, and took no time before.
            self._before.setdefault(id(event), (event["ts"], event["ts"], launches.get(_call(event))))
        self._settle(launches)

    def _launches(self) -> dict[int, float]:
        return {_call(event): event["ts"] for event in self.host if event["cat"] in RUNTIME}

    def _settle(self, launches: dict[int, float]) -> None:
        """An event starts after its launch, and after all that had ended when it started before."""
        before = self._before
        order = sorted(self.gpu, key=lambda event: before[id(event)][:2])
        ended = sorted((before[id(event)][1], number) for number, event in enumerate(order))
        passed, latest, ends = 0, 0.0, [0.0] * len(order)
        for number, event in enumerate(order):
            start, _, launch = before[id(event)]
            while passed < len(ended) and ended[passed][0] <= start and ended[passed][1] < number:
                latest = max(latest, ends[ended[passed][1]])
                passed += 1
            now = launches.get(_call(event))
            waited = launch is None or now is None or start - launch > _LATENCY_US
            at = max(latest + (start - ended[passed - 1][0] if waited else 0.0), 0.0) if passed else start
            if now is not None:
                at = max(at, now + min(max(start - (now if launch is None else launch), 1.0), _LATENCY_US))
            event["ts"], ends[number] = at, at + event["dur"]


def _call(event: Event) -> int:
    return int(event["args"].get("correlation", -1))


def _end(event: Event) -> float:
    return float(event["ts"] + event["dur"])


def is_inside(event: Event, around: Event) -> bool:
    """Whether a host event lies in another, on its thread."""
    start = around["ts"]
    return bool(event["tid"] == around["tid"] and start <= event["ts"]
                and event["ts"] + event["dur"] <= start + around["dur"] + 1e-3)  # fmt: skip


def total_ms(events: Iterable[Event]) -> float:
    """Time of events in ms."""
    return sum(event["dur"] for event in events) / 1000
