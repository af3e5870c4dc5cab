"""Files of other profilers, read as a stream of events in the format of PyTorch's profiler.

A translation is a function of an open file that yields the text of a Kineto trace piece by piece, always the same text
for the same file. So arguments of an event can be read again later from the same offset, as from a compressed file.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import msgspec

EVENTS_AT_ONCE = 2048
APART = 10**10
"""More than any number of a launch, which has 32 bits: numbers of each rank begin at another multiple of it."""
_Process = TypeVar("_Process", bound=Hashable)


def ranks_of(users: Iterable[tuple[_Process, Any]]) -> dict[_Process, int]:
    """Process -> rank, in the order of their first devices; empty where one process alone used a device.

    Args:
        users: processes, and devices that they used; what is no number counts as none.
    """
    first: dict[_Process, int] = {}
    for process, device in users:
        if isinstance(device, int):
            first[process] = min(first.get(process, device), device)
    in_order = sorted(first, key=lambda one: (first[one], one)) if len(first) > 1 else ()
    return {process: rank for rank, process in enumerate(in_order)}


def timed(start: Any, end: Any) -> dict[str, Any]:
    """Begin and duration of an event as it has them, in us; of what is no time it has none, and counts as lost.

    Args:
        start, end: nanoseconds.
    """
    is_known = isinstance(start, int | float) and start >= 0
    is_whole = is_known and isinstance(end, int | float)
    return {"ph": "X", "ts": start / 1000 if is_known else None, "dur": (end - start) / 1000 if is_whole else None}


def trace_text(beside: dict[str, Any], events: Iterable[str]) -> Iterator[bytes]:
    """The text of a Kineto trace.

    Args:
        beside: what stands beside the event list.
        events: each event as JSON.
    """
    head = msgspec.json.encode(beside)[:-1]
    between = head + (b"," if beside else b"") + b'"traceEvents":[\n'
    for some in joined(events):
        yield between + some
        between = b",\n"
    yield (b"" if between == b",\n" else between) + b"\n]}\n"


def joined(events: Iterable[str]) -> Iterator[bytes]:
    """Events as JSON with commas between them, `EVENTS_AT_ONCE` at a time."""
    events = iter(events)
    while some := list(islice(events, EVENTS_AT_ONCE)):
        yield ",\n".join(some).encode("utf-8", "replace")
