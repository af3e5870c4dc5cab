"""The queue of each stream: how much launched work waits there, and for how long the queue is full."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import percent
from tracelens_graph.analyses.shared.grouping import Cells, group_by
from tracelens_graph.analyses.shared.levels import END_US, POINTS, START_US, Levels, edges_of, stretches
from tracelens_graph.analyses.timeline.timeline import unlinked_notes
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import Intervals, length_before, merge
from tracelens_graph.graph.traversals import launches_of
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Rows

CAPACITY = 1024
"""Launches that CUDA takes for a stream before a launch call waits, as Holistic Trace Analysis has it
(`get_time_spent_blocked_on_full_queue`). The driver documents no number."""

_DEVICE, _STREAM = (Column.key(text, cells="number") for text in ("index of the device", "number of the stream"))

QUEUES = TableSchema(
    "queues",
    "How much launched work waits on each stream, and for how long its queue is full.",
    {
        "device": _DEVICE,
        "stream": _STREAM,
        "gpu_events": Column.count("GPU events of the stream whose launch is in the trace"),
        "waited": Column.count("those that began after their launch call did, so that they were in the queue"),
        "mean_length": Column(
            "mean length of the queue over time, from the first launch to the start of the last event"
        ),
        "max_length": Column("greatest length of the queue", role=Role.max, drop_priority=0),
        "max_us": Column.moment("the first moment of this length, counted from the zero of Perfetto UI", "us"),
        "mean_wait_us": Column("mean time of those that waited from the start of the call to their own", "us"),
        "full_us": Column.total("time in which the queue has the length `capacity` or more", "us"),
        "full_percent": Column("full_us as share of the time from the first launch to the last start", "%"),
        "blocked_us": Column.total("time that calls which launch on the stream take while its queue is full", "us"),
    },
)  # fmt: skip

QUEUE_LENGTH = TableSchema(
    "queue_length",
    "How the queue of each stream grows and shrinks over time.",
    {
        "device": _DEVICE,
        "stream": _STREAM,
        "start_us": START_US,
        "end_us": END_US,
        "mean_length": Column("mean length of the queue in the stretch"),
        "max_length": Column("greatest length in it", role=Role.max, drop_priority=0),
        "full_us": Column.total("time of it in which the length is `capacity` or more", "us"),
    },
)


@dataclass(frozen=True, eq=False)
class Queue:
    """The queue of a stream.

    Attributes:
        device, stream: whose it is.
        events: GPU events of the stream whose launch is in the trace, by row.
        calls: the launch of each.
        waited: positions of those that began after their launch call did.
        course: number of events launched and not begun; an event enters when its launch call begins.
    """

    device: int
    stream: int
    events: Rows
    calls: Rows
    waited: Rows
    course: Levels

    @property
    def longest(self) -> int:
        """Its greatest length."""
        return int(self.course.level.max(initial=0))

    def full(self, capacity: int) -> Intervals:
        """When so many events or more are in it."""
        at, level = self.course
        return merge(at[:-1][level[:-1] >= capacity], at[1:][level[:-1] >= capacity])

    def limit(self, capacity: int) -> int:
        """From which length on it is full: the capacity, or less where it stays near its greatest length for long."""
        near = int(np.ceil(_NEAR * self.longest))
        if not _LONG <= self.longest < capacity:
            return capacity
        return near if self.full_share(near) >= _MUCH else capacity

    def full_share(self, length: int) -> float:
        """Share of the time, of 1, in which it has a length or more."""
        start, end = self.full(length)
        return int((end - start).sum()) / int(self.course.at[-1] - self.course.at[0])


_LONG, _NEAR, _MUCH = 256, 0.99, 0.1
"""Queues from this length on that are so near to it for such a part of the time stand at a limit."""


def queues_of(w: Window) -> list[Queue]:
    """The queue of each stream of a window, by device and stream; events without a launch in the trace are in none."""
    c, gpu = w.core.columns, w.linked_gpu_rows
    found = []
    for _, places in positions_by(group_by(c.device[gpu], c.stream[gpu])[0]):
        events = gpu[places]
        calls = launches_of(c, events)
        start, launch = c.start_ns[events], c.start_ns[calls]
        # Where clocks differ an event may begin before its call: it is in no queue.
        waited = np.flatnonzero(start > launch)
        change = np.repeat((1, -1), len(waited))
        course = Levels.of(np.concatenate((launch[waited], start[waited])), change)
        found.append(Queue(int(c.device[events[0]]), int(c.stream[events[0]]), events, calls, waited, course))
    return sorted(found, key=lambda queue: (queue.device, queue.stream))


def _longest_first(w: Window, capacity: int) -> list[Queue]:
    if capacity < 1:
        raise AnalysisError(f"capacity is a queue length of at least 1, not {capacity}")
    return sorted(queues_of(w), key=lambda queue: -queue.longest)


def queues(g: Core | Window, capacity: int = CAPACITY) -> Table:
    """The queue of each stream, the longest first: its length, how long work waits in it, and how long it is full.

    A GPU event is in the queue from the start of its launch call to its own start; every event of a replayed graph
    is. Where a queue is full, the launch call waits until an event begins: the host is that far ahead of the device.

    Args:
        g: the graph, or a window of it, whose events alone are counted.
        capacity: from which length on a queue is full. 1024 is what Holistic Trace Analysis takes for CUDA.

    Raises:
        AnalysisError: `capacity` is less than 1.
    """
    w = window_of(g)
    found, c = _longest_first(w, capacity), w.core.columns
    full = [one.full(capacity) for one in found]
    span = [int(c.start_ns[one.events].max() - c.start_ns[one.calls].min()) for one in found]
    waits = [c.start_ns[one.events[one.waited]] - c.start_ns[one.calls[one.waited]] for one in found]
    full_ns = np.array([int((end - start).sum()) for start, end in full], np.int64)
    columns: dict[str, Cells] = {
        "device": np.array([one.device for one in found], np.int64),
        "stream": np.array([one.stream for one in found], np.int64),
        "gpu_events": np.array([len(one.events) for one in found], np.int64),
        "waited": np.array([len(one.waited) for one in found], np.int64),
        "mean_length": [int(ns.sum()) / whole if whole > 0 else None for ns, whole in zip(waits, span, strict=True)],
        "max_length": np.array([one.longest for one in found], np.int64),
        "max_us": [_shown_us(w.core, one.course) for one in found],
        "mean_wait_us": [float(ns.mean()) / 1e3 if len(ns) else None for ns in waits], "full_us": full_ns / 1e3,
        "full_percent": percent(full_ns, np.array(span, np.int64)),
        "blocked_us": [_blocked_ns(c, one, when) / 1e3 for one, when in zip(found, full, strict=True)],
    }  # fmt: skip
    return QUEUES.table(columns, w.titled("Queues of streams"), [*_notes(w), *_near_their_longest(found, capacity)])


def queue_length(g: Core | Window, capacity: int = CAPACITY, points: int = POINTS) -> Table:
    """The length of the queue of each stream over time; see `queues`.

    Args:
        g: the graph, or a window of it, whose events alone are counted.
        capacity: from which length on a queue is full.
        points: number of equal stretches of time, from the first change of a queue to the last; 0 for one row from each
            change of a queue to its next.

    Raises:
        AnalysisError: `capacity` is less than 1, `points` less than 0 or more than a million.
    """
    w = window_of(g)
    found = [one for one in _longest_first(w, capacity) if len(one.course.at)]
    courses = [one.course for one in found]
    parts = []
    for one, edges in zip(found, edges_of(courses, points), strict=True):
        full = one.course.times_of(one.course.level >= capacity)
        parts.append({
            "device": np.full(len(edges) - 1, one.device), "stream": np.full(len(edges) - 1, one.stream),
            **stretches(w.core, edges), "mean_length": one.course.mean(edges), "max_length": one.course.greatest(edges),
            "full_us": np.diff(full.total_before(edges)) / 1e3,
        })  # fmt: skip
    columns: dict[str, Cells] = {
        name: np.concatenate([part[name] for part in parts]) if parts else [] for name in QUEUE_LENGTH
    }
    return QUEUE_LENGTH.table(columns, w.titled("Queues of streams over time"), _notes(w))


def _notes(w: Window) -> list[str]:
    if not len(w.gpu_rows):
        return unlinked_notes(w, left_out=True)
    lone = len(w.gpu_rows) - len(w.linked_gpu_rows)
    of = f"{lone:,} of {len(w.gpu_rows):,} GPU events have no launch in the trace"
    return [f"{of}: no queue shows them"] if lone else []


def _near_their_longest(found: list[Queue], capacity: int) -> Iterator[str]:
    """Notes on queues that seem to be full below the capacity."""
    for one in found:
        if (near := one.limit(capacity)) < capacity:
            yield (
                f"stream {one.stream} is never {capacity:,} long, but has {near:,} to {one.longest:,} in it for"
                f" {one.full_share(near):.0%} of the time, as a full queue does: -p capacity={near} counts this"
            )


def _shown_us(core: Core, course: Levels) -> float | None:
    return float(core.info.shown_ms(course.at[course.level.argmax()]) * 1e3) if len(course.at) else None


def _blocked_ns(c: Columns, one: Queue, full: Intervals) -> int:
    calls = np.unique(one.calls)
    begin, end = c.start_ns[calls], c.start_ns[calls] + c.dur_ns[calls]
    return int((length_before(full, end) - length_before(full, begin)).sum())
