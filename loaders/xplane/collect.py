"""From planes and lines to arrays: one entry per event of a device's streams or the host's threads, in file order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracelens_graph.loaders.xplane.lockstep import Block
from tracelens_graph.loaders.xplane.space import Line, Plane, Span, line_events, stats_of
from tracelens_graph.loaders.xplane.wire import Buffer, text
from tracelens_graph.utils.arrays import Codes, Ns, Rows

PROGRAMS, HOST, TASK = "/host:metadata", "/host:CPU", "Task Environment"
"""Names of planes: programs, threads of the host, when the profile was taken."""

GPU = re.compile(r"/device:GPU:(\d{1,6})")

DERIVED = frozenset(
    (
        "Steps", "Framework Name Scope", "Framework Ops", "Source code", "Source Code", "TensorFlow Name Scope",
        "TensorFlow Ops", "XLA Modules", "XLA Ops", "XLA TraceMe", "Launch Stats",
    )
)  # fmt: skip
"""Lines that XProf adds to a device: the same work once more, grouped in another way."""

NUMBERS = ("correlation_id", "program_id", "step_num", "device_ordinal", "run_id")
TEXTS = ("hlo_op", "memcpy_details", "memset_details", "_src")
"""Statistics of events that are read: whole numbers, and texts."""

ABSENT = -(2**63)
"""Value of a number that an event does not have."""

_LATEST = 2**59
"""Starts of lines, and ends of events in them, lie before this, in ns (18 years)."""


class Sparse(Mapping[str, np.ndarray]):
    """Columns that few events have a value in. Whole ones are made each time that they are asked for.

    Args:
        count: number of events.
        absent: value of the other events.
        dtype: type of whole columns.
    """

    def __init__(self, count: int, absent: int, dtype: type[np.generic]) -> None:
        self._count, self._absent, self._dtype = count, absent, dtype
        self._columns: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def put(self, name: str, rows: Rows, values: np.ndarray) -> None:
        """Add a column by the events that have a value, and these values."""
        self._columns[name] = rows, values

    def entries(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The events that have a value in a column, and these values."""
        return self._columns[name]

    def __getitem__(self, name: str) -> np.ndarray:
        rows, values = self._columns[name]
        whole = np.full(self._count, self._absent, self._dtype)
        whole[rows] = values
        return whole

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


@dataclass
class Events:
    """Events of a profile in columns.

    Attributes:
        names: texts that codes point into: names of events and texts of statistics.
        threads: (process or device, thread or stream).
        streams: name of each stream of a device, by its code.
        name: code of the name of each event.
        thread: code of its thread.
        start_ns, dur_ns: in ns from the profile's start.
        on_gpu: whether it stands on a stream.
        numbers, texts: name of a statistic -> its value of each event (`ABSENT`), or the code of its text (-1).
        left_out: why -> number of events that are not here.
        lost_events, lost_bytes: what could not be read.
        is_cut: whether the end of the file is missing.
        count: number of events in the file.
        runs: first and last place, exclusive, of events that follow one another in the file.
    """

    names: list[str] = field(default_factory=list)
    threads: list[tuple[Any, Any]] = field(default_factory=list)
    streams: dict[int, str] = field(default_factory=dict)
    name: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    thread: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    start_ns: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    dur_ns: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    on_gpu: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    numbers: Sparse = field(default_factory=lambda: Sparse(0, ABSENT, np.int64))
    texts: Sparse = field(default_factory=lambda: Sparse(0, -1, np.int32))
    left_out: dict[str, int] = field(default_factory=dict)
    lost_events: int = 0
    lost_bytes: int = 0
    is_cut: bool = False
    count: int = 0
    runs: list[tuple[int, int]] = field(default_factory=list)

    def code(self, name: str) -> int:
        """The code of a text, which is added if it is new."""
        return self.codes.setdefault(name, len(self.codes))

    @property
    def uid(self) -> np.ndarray:
        """Place of each event among all events of the file; made each time that it is asked for."""
        return np.concatenate([np.zeros(0, np.int64), *(np.arange(first, stop) for first, stop in self.runs)])

    @property
    def is_whole(self) -> bool:
        """Whether all events of the file are here, so that the place of each is its position."""
        return len(self) == self.count

    def __len__(self) -> int:
        return len(self.on_gpu)

    def __post_init__(self) -> None:
        self.codes: dict[str, int] = {}


@dataclass
class _Part:
    """Events of a line that follow one another; starts are those since the line's until `Collector` knows it."""

    runs: list[tuple[int, int]]
    name: Codes
    start_ns: Ns
    dur_ns: Ns
    on_gpu: bool
    thread: int = -1
    stats: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)


@dataclass(frozen=True)
class Index:
    """Where events stand, so that one can be looked at again.

    Attributes:
        plane: plane of each run of events.
        first: uid of its first event.
        begin: places in the file of every `MARKED`-th of them.
        count: number of events.
    """

    plane: list[Plane]
    first: list[int]
    begin: list[list[int]]
    count: list[int]


class _Arena:
    """Arrays of one type, side by side in memory of their own, which goes as a whole when the last of them goes.

    Arrays of events otherwise lie between those that reading a block takes for a moment, and keep their memory.
    """

    def __init__(self) -> None:
        self._free = np.zeros(0, np.uint8)

    def keep(self, values: np.ndarray) -> np.ndarray:
        """The values, in this memory."""
        if len(values) > len(self._free) or self._free.dtype != values.dtype:
            # Memory that is not written to is not taken.
            self._free = np.empty(max(_ARENA // values.itemsize, len(values)), values.dtype)
        kept, self._free = self._free[: len(values)], self._free[len(values) :]
        kept[:] = values
        return kept


_ARENA = 40 << 20
"""Bytes of an arena: more than the C library puts between others."""


class Collector:
    """Reads the lines of planes, one plane after the other.

    Attributes:
        events: what was read.
        index: where it stands.
    """

    def __init__(self, data: Buffer, host: Any) -> None:
        self.events = Events()
        self.index = Index([], [], [], [])
        self._data = data
        self._host = host
        self._thread_codes: dict[tuple[Any, Any], int] = {}
        self._lanes: dict[Any, int] = {}
        self._parts: list[_Part] = []
        self._arenas: dict[str, _Arena] = {}

    def _kept(self, column: str, values: np.ndarray) -> np.ndarray:
        return self._arenas.setdefault(column, _Arena()).keep(values)

    def read(self, plane: Plane) -> None:
        """Read the events of a plane; those of planes that are no GPU and no host are counted only."""
        gpu = GPU.fullmatch(plane.name)
        kept = bool(gpu) or plane.name == HOST
        wanted = [number for number, name in plane.stat_names.items() if name in (*NUMBERS, *TEXTS)]
        numbers = np.array([number for number in wanted if 0 <= number < 2**31], np.int64) if kept else np.zeros(0, int)
        codes = _Codes(self.events, plane)
        self.events.lost_bytes += 0 if plane.is_cut else plane.lost_bytes
        for begin, end in plane.lines:
            self._read_line(plane, codes, (begin, end), numbers, gpu, kept)

    def _read_line(
        self, plane: Plane, codes: _Codes, span: Span, wanted: np.ndarray, gpu: re.Match[str] | None, kept: bool
    ) -> None:
        events, found = self.events, Line()
        first, count, lost, runs = len(self._parts), events.count, events.lost_events, len(self.index.first)
        for block in line_events(self._data, *span, wanted, found):
            if kept:
                self._add(plane, codes, block, bool(gpu))
            events.count += len(block.name)
        events.lost_bytes += found.lost_bytes
        why = "" if kept else f"plane {plane.name}"
        if gpu and found.name in DERIVED:
            why = f"line {found.name}"
        if why:
            events.left_out[why] = events.left_out.get(why, 0) + events.count - count
        if why or not 0 <= found.start_ns < _LATEST:
            events.lost_events = lost + (0 if why else events.count - count)
            del self._parts[first:]
            for column in (self.index.plane, self.index.first, self.index.begin, self.index.count):
                del column[runs:]
            return
        thread = self._thread(int(gpu[1]), found.id) if gpu else self._thread(self._host, self._lane(found))
        if gpu:
            events.streams.setdefault(thread, found.name or str(found.id))
        for part in self._parts[first:]:
            part.thread = thread
            part.start_ns += found.start_ns

    def finish(self) -> Events:
        """All events that were read."""
        events, parts = self.events, self._parts
        self.events, self._parts, self._arenas = Events(), [], {}
        events.names = list(events.codes)
        events.threads = list(self._thread_codes)
        sizes = [len(part.name) for part in parts]
        at = [0, *np.cumsum(sizes).tolist()]
        events.numbers, events.texts = Sparse(at[-1], ABSENT, np.int64), Sparse(at[-1], -1, np.int32)
        for target, stats in ((events.numbers, NUMBERS), (events.texts, TEXTS)):
            for stat in stats:
                there = [
                    (offset, *part.stats.pop(stat))
                    for part, offset in zip(parts, at, strict=False)
                    if stat in part.stats
                ]
                if there:
                    rows = np.concatenate([of + np.int32(offset) for offset, of, _ in there])
                    target.put(stat, rows, np.concatenate([values for _, _, values in there]))
        if not parts:
            return events
        events.runs = [run for part in parts for run in part.runs]
        events.thread = np.repeat(np.array([part.thread for part in parts], np.int32), sizes)
        events.on_gpu = np.repeat(np.array([part.on_gpu for part in parts], bool), sizes)
        for key in ("name", "start_ns", "dur_ns"):
            whole = np.empty(at[-1], np.int32 if key == "name" else np.int64)
            for part, offset in zip(parts, at, strict=False):
                whole[offset : offset + len(part.name)] = getattr(part, key)
                if key != "name":
                    setattr(part, key, whole[:0])
            setattr(events, key, whole)
        return events

    def _lane(self, found: Line) -> Any:
        """What a thread of the host is called; threads of Python often have one name, and then their number behind."""
        name = found.name or found.id
        return name if self._lanes.setdefault(name, found.id) == found.id else f"{name}/{found.id}"

    def _thread(self, process: Any, thread: Any) -> int:
        return self._thread_codes.setdefault((process, thread), len(self._thread_codes))

    def _add(self, plane: Plane, codes: _Codes, block: Block, on_gpu: bool) -> None:
        count, first = len(block.name), self.events.count
        self.index.plane.append(plane)
        self.index.first.append(first)
        self.index.begin.append(block.tags.tolist())
        self.index.count.append(count)
        name, known = codes.of_events(block.name)
        start = (block.offset_ps + 500) // 1000
        # Ends are rounded, not durations, so that events that touch in ps do so in ns.
        end = (block.offset_ps + block.duration_ps + 500) // 1000
        sound = block.sound & known & (block.offset_ps >= 0) & (block.duration_ps >= 0) & (end >= start)
        sound &= end < _LATEST
        part = _Part([(first, first + count)], name, start, end - start, on_gpu)
        place = None
        if not sound.all():
            self.events.lost_events += int(np.count_nonzero(~sound))
            place = np.cumsum(sound) - 1
            edges = np.flatnonzero(np.diff(np.concatenate(([False], sound, [False]))))
            part.runs = [(first + begin, first + stop) for begin, stop in edges.reshape(-1, 2).tolist()]
            part.name, part.start_ns, part.dur_ns = name[sound], start[sound], (end - start)[sound]
        for number, stats in block.stats.items():
            stat = plane.stat_names[number]
            of, field, value = stats.event, stats.field, stats.value
            if stat in NUMBERS:
                good = (field == 3) | (field == 4) | (field == 0)
                values = value
            else:
                good = (field == 7) | (field == 5)
                values = codes.of_texts(self._data, field, value, stats.end)
            if place is not None:
                good &= sound[of]
                of = place[of]
            rows = self._kept(f"rows of {stat}", of[good].astype(np.int32))
            part.stats[stat] = rows, self._kept(stat, values[good])
        part.name, part.start_ns = self._kept("name", part.name), self._kept("start_ns", part.start_ns)
        part.dur_ns = self._kept("dur_ns", part.dur_ns)
        self._parts.append(part)


class _Codes:
    """Codes of the names and texts of a plane."""

    def __init__(self, events: Events, plane: Plane) -> None:
        self._events, self._plane = events, plane
        self._names = _Table({number: metadata.name for number, metadata in plane.events.items()}, events)
        self._texts = _Table(plane.stat_names, events)

    def of_events(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Codes of the names of events by the numbers of their metadata, and which of them have metadata."""
        found = self._names.codes(numbers)
        return found, found >= 0

    def of_texts(self, data: Buffer, field: np.ndarray, value: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Codes of texts of statistics, which stand in them or are referred to."""
        found = self._texts.codes(value)
        for at in np.flatnonzero(field == 5).tolist():
            found[at] = self._events.code(text(data, int(value[at]), int(end[at])))
        return found


class _Table:
    """Codes by numbers; a text gets its code when it is first met."""

    def __init__(self, texts: Mapping[int, str], events: Events) -> None:
        self._texts, self._events = texts, events
        self._numbers = np.array(sorted(texts), np.int64)
        self._known = np.full(len(texts) + 1, -1, np.int32)
        most = int(self._numbers[-1]) if len(self._numbers) else 0
        # Numbers are mostly given one after the other: then a table of all of them is small, and quicker.
        self._places = np.full(most + 2 if self._is_dense(most) else 0, -1, np.int64)
        if len(self._places):
            self._places[self._numbers] = np.arange(len(self._numbers))

    def _is_dense(self, most: int) -> bool:
        return bool(len(self._numbers)) and self._numbers[0] >= 0 and most < 8 * len(self._numbers) + 4096

    def codes(self, numbers: np.ndarray) -> np.ndarray:
        """Codes; -1 for a number without a text."""
        if not len(self._numbers):
            return np.full(len(numbers), -1, np.int32)
        if len(self._places):
            # Unsigned, negative numbers are huge: they get the last entry, -1, as others beyond do.
            at = self._places[np.minimum(numbers.view(np.uint64), len(self._places) - 1).view(np.int64)]
        else:
            at = np.minimum(np.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
            at = np.where(self._numbers[at] == numbers, at, -1)
        there = np.zeros(len(self._known), bool)
        there[at] = True
        for place in np.flatnonzero(there[:-1] & (self._known[:-1] < 0)).tolist():
            self._known[place] = self._events.code(self._texts[int(self._numbers[place])])
        found: np.ndarray = self._known[at]
        return found


def programs(data: Buffer, planes: Iterable[Plane]) -> dict[int, Span]:
    """Number by which events name a program -> where its `HloProto` stands."""
    found = {}
    for plane in planes:
        if plane.name == PROGRAMS:
            for number, metadata in plane.events.items():
                of_program = stats_of(data, metadata.stats, plane.stat_names)
                span = of_program.get("Hlo Proto") or of_program.get("hlo_proto")
                if isinstance(span, tuple):
                    number = of_program.get("program_id", number)
                    # Statistics of events hold the same number as a signed one.
                    found[number - (1 << 64) if number >> 63 else number] = span
    return found
