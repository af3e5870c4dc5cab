"""Files of other profilers, read as a stream of events in the format of PyTorch's profiler.

A translation is a function of an open file that yields the text of a Kineto trace piece by piece, always the same text
for the same file. So arguments of an event can be read again later from the same offset, as from a compressed file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

EVENTS_AT_ONCE = 2048


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
