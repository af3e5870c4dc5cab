"""Single events of a profile, in the form that PyTorch's profiler gives its own, and what was made of them.

Viewers of Chrome traces know that form, and so does the loader of such traces: a piece that is cut out of a profile is
a trace as any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from tracelens_graph.errors import DamagedBytesError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.details import NO_TEXT, Details, source_id
from tracelens_graph.graph.node import Node
from tracelens_graph.loaders.kineto.times import origin_ns
from tracelens_graph.loaders.sources import Source
from tracelens_graph.loaders.xplane.collect import Index
from tracelens_graph.loaders.xplane.space import stats_of
from tracelens_graph.loaders.xplane.wire import BYTES, Buffer, fields, opened_bytes
from tracelens_graph.schema import DEVICE_KINDS, Kind
from tracelens_graph.schema.categories import CATEGORY_OF_KIND

BLOCK = 1024
"""Events whose details are made at a time."""

_OWN = ("correlation_id",)
"""Statistics that stand under names of their own."""

_LAUNCH_SHAPE = re.compile(r"\b(grid|block):(\d{1,18}),(\d{1,18}),(\d{1,18})\b", re.ASCII)
"""Blocks of a kernel's grid and threads of its blocks, in XLA's text `kernel_details`."""


@dataclass(frozen=True)
class Sources:
    """What ops are instances of.

    Attributes:
        uid: uids of ops, ascending.
        instruction: position in `instructions` of what each is an instance of.
        instructions: facts of instructions.
    """

    uid: np.ndarray
    instruction: np.ndarray
    instructions: Sequence[dict[str, Any]]

    def of(self, uid: int) -> dict[str, Any]:
        """Facts of the instruction of an op; none for any other event."""
        at = int(np.searchsorted(self.uid, uid))
        known = at < len(self.uid) and self.uid[at] == uid
        return self.instructions[int(self.instruction[at])] if known else {}


class XplaneDetails(Details):
    """Events of a profile; the file must still be as it was.

    Args:
        source: the file.
        index: where events stand in it.
        sources: what ops are instances of.
        core: the graph.
    """

    def __init__(self, source: Source, index: Index, sources: Sources, core: Core) -> None:
        self._names = _names_of_threads(core)
        first = np.arange(0, core.info.events, BLOCK)
        super().__init__(first, np.minimum(first + BLOCK, core.info.events) - first)
        self._source, self._index, self._sources, self._core = source, index, sources, core
        self._runs = np.array(index.first, np.int64)

    def texts(self, blocks: Iterable[int]) -> Iterator[bytes]:
        """The JSON text `[event, ...]` of each of the blocks; null for what is not a node."""
        with opened_bytes(self._source) as data:
            for block in blocks:
                begin, count = int(self.first[block]), int(self.count[block])
                recorded = self._recorded(data, begin, begin + count)
                rows = self._core.rows_of(range(begin, begin + count)).tolist()
                events = [self._event(row, recorded.get(uid, {})) for uid, row in enumerate(rows, begin)]
                for at in range(max(begin, self._core.info.events - len(self._names)), begin + count):
                    events[at - begin] = self._names[at - self._core.info.events]
                self._source.check_unchanged()
                yield msgspec.json.encode(events)

    def places(self) -> np.ndarray | None:
        """That no block stands in the file as text; None for bytes in memory."""
        return np.full((len(self.first), 3), (0, 0, NO_TEXT), np.int64) if self._source.lasting else None

    def identity(self) -> str:
        """Hash of the decompressed bytes."""
        return source_id(self._source)

    def _recorded(self, data: Buffer, begin: int, end: int) -> dict[int, dict[str, Any]]:
        """uid -> statistics of the events in a stretch of uids."""
        found: dict[int, dict[str, Any]] = {}
        at = max(int(np.searchsorted(self._runs, begin, "right")) - 1, 0)
        while at < len(self._runs) and self._runs[at] < end:
            index, first = self._index, int(self._runs[at])
            skipped = max((begin - first) // BLOCK, 0)
            places, uid = index.begin[at], first + skipped * BLOCK
            stop = min(end, first + index.count[at])
            if uid < stop and skipped < len(places):
                place = places[skipped]
                try:
                    while uid < stop:
                        place, stats = _next_event(data, place, index.plane[at].stat_names)
                        if uid >= begin:
                            found[uid] = stats
                        uid += 1
                except DamagedBytesError:
                    pass
            at += 1
        return found

    def _event(self, row: int, stats: dict[str, Any]) -> dict[str, Any] | None:
        if row < 0:
            return None
        core, c = self._core, self._core.columns
        kind = Kind(int(c.kind[row]))
        own = () if "correlation_id" in stats and stats["correlation_id"] != c.correlation[row] > 0 else _OWN
        args: dict[str, Any] = {key: value for key, value in stats.items() if key not in own and key}
        pid, tid = core.threads[int(c.thread[row])]
        if kind in DEVICE_KINDS:
            args |= {"device": pid, "stream": tid}
            shape = _LAUNCH_SHAPE.findall(str(args.get("kernel_details", "")))
            args |= {what: [int(size) for size in sizes] for what, *sizes in shape}
        if c.correlation[row] >= 0:
            args["correlation"] = int(c.correlation[row])
        if kind in DEVICE_KINDS and c.bytes[row] >= 0:
            args["bytes"] = int(c.bytes[row])
        args |= self._sources.of(int(c.uid[row]))
        args |= Node(core, row).shapes
        name = core.names[int(c.name[row])]
        if kind is Kind.Step:
            args["name"] = name
        return {
            "ph": "X",
            "cat": CATEGORY_OF_KIND[kind],
            "name": _name(kind, name),
            "pid": pid,
            "tid": tid,
            "ts": (int(c.start_ns[row]) + origin_ns(self._core)) / 1000,
            "dur": int(c.dur_ns[row]) / 1000,
            "args": args,
        }


def _name(kind: Kind, name: str) -> str:
    """The name that PyTorch's traces, and their readers, use for the kind of an event."""
    if kind is Kind.Module:
        return f"nn.Module: {name}"
    return f"ProfilerStep#{name.rpartition('#')[2]}" if kind is Kind.Step else name


def _names_of_threads(core: Core) -> list[dict[str, Any]]:
    """Entries that name processes and threads for viewers; they stand behind all events."""
    found = [_named("process_name", pid, 0, name) for pid, name, _ in core.info.processes]
    return found + [_named("thread_name", pid, tid, name) for pid, tid, name in core.info.threads]


def _named(what: str, pid: Any, tid: Any, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _next_event(data: Buffer, at: int, names: dict[int, str]) -> tuple[int, dict[str, Any]]:
    """Where the event behind one begins, and the statistics of that at a place, which is that of its tag."""
    _, wire, begin, end = next(fields(data, at, len(data)))
    if wire != BYTES:
        raise DamagedBytesError
    spans = [(value, after) for number, kind, value, after in fields(data, begin, end) if (number, kind) == (4, BYTES)]
    stats = stats_of(data, spans, names)
    return end, {name: value for name, value in stats.items() if isinstance(value, str | int | float)}
