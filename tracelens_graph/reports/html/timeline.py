"""What the timeline of a page draws: calls of the host by thread, annotations, GPU work by stream, idle gaps by cause.

Times stay whole nanoseconds. Callers are not stored: rows of the host stand in pre-order, so they follow from depth.
Where a view is kept with other things, the longest events are drawn: they are what a picture shows anyway.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.analyses.idle.blame import culprit
from tracelens_graph.analyses.idle.idle import BETWEEN_STEPS, CAUSE_MEANING, UNKNOWN, Cause, Idle, idle_parts, joined
from tracelens_graph.analyses.launches.queues import CAPACITY, queues_of
from tracelens_graph.analyses.timeline.copy_bandwidth import directed_copies
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.forest import build_forest
from tracelens_graph.graph.intervals import union_length
from tracelens_graph.graph.iterations import is_of_server
from tracelens_graph.graph.traversals import launches_of
from tracelens_graph.graph.window import Window
from tracelens_graph.reports.html.names import Names, clean
from tracelens_graph.reports.html.shell import Packed, zigzag
from tracelens_graph.schema import GPU_KINDS, HOST_KINDS, KIND_MEANING, Kind
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.names import short_name
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows

ANNOTATIONS = (Kind.Step, Kind.Annotation)
DRAWN_KINDS = (*HOST_KINDS, *ANNOTATIONS, *GPU_KINDS)

LANES = TableSchema(
    "lanes",
    "What is on the timeline of a page.",
    {
        "lane": Column("thread, stream, or idle time of a device", role=Role.key),
        "events": Column("what is on it: calls, annotations, GPU events, gaps", role=Role.count),
        "busy_ms": Column("length of the union of these", "ms"),
        "gpu_span_percent": Column(
            "of streams and idle time busy_ms as share of the GPU span, from the first to the last GPU event of the "
            "device, as in the GPU timeline of a report",
            "%",
        ),
        "longest_ms": Column("duration of the longest one", "ms"),
        "uid": Column("its node; of idle time the GPU event that ends it", role=Role.instance),
        "longest": Column("its name; of idle time what it is due to", role=Role.text),
    },
)

MOST_BLAMED = 100
"""Idle gaps on a page for which the call behind most of the gap is computed: the longest ones."""
_LONGEST_ARGUMENTS = 160
_THREAD = re.compile(r"thread (?P<number>\d+) \((?P<name>.+)\)")
"""What PyTorch calls threads."""

_HOST, _LONG, _BESIDE = 5 / 8, 1 / 8, 1 / 16
"""Of the longest events shares of calls of the host, the longest ones among them; and of annotations, and of gaps."""


class Part(NamedTuple):
    """Events of the host, annotations, GPU events, or idle gaps.

    Attributes:
        rows: the events; of gaps the GPU events that end them.
        start, dur: when they begin, ns from the trace's start, and how long they are.
    """

    rows: Rows
    start: Ns
    dur: Ns


@dataclass(frozen=True)
class Drawn:
    """The rows of a graph that are drawn.

    Attributes:
        host: calls of the host, ascending.
        depth: of each, the number of its callers that are drawn.
        notes: steps and annotations, by thread and start, callers first.
        note_depth: of each, the number of those around it.
        gpu: GPU events by device, stream, start.
        idle: the idle gaps.
        left_out: kind -> number of nodes of the window that are not drawn.
    """

    host: Rows
    depth: Codes
    notes: Rows
    note_depth: Codes
    gpu: Rows
    idle: Idle
    left_out: dict[str, int]

    @property
    def events(self) -> int:
        """Number of events of host and GPU, annotations included."""
        return len(self.host) + len(self.notes) + len(self.gpu)

    def parts(self, core: Core) -> dict[str, Part]:
        """All that is drawn of a graph, by the names of the parts on a page."""
        c, idle = core.columns, self.idle
        rows = {"host": self.host, "note": self.notes, "gpu": self.gpu}
        found = {name: Part(one, c.start_ns[one], c.dur_ns[one]) for name, one in rows.items()}
        return {**found, "idle": Part(idle.row, idle.start, idle.end - idle.start)}

    @property
    def cause(self) -> Codes:
        """Of each gap the cause that most of it is due to."""
        return self.idle.parts.argmax(axis=0) if len(self.idle.row) else self.idle.row


_SEEN = 4
"""Steps of a server that are seen first."""
_NONE = np.zeros(0, np.int64)
NOTHING = Drawn(_NONE, _NONE, _NONE, _NONE, _NONE, joined(()), {})
"""What is drawn of no event."""


def drawn(w: Window) -> Drawn:
    """What is drawn of a window."""
    gpu = w.core.device_order
    others = w.rows_of_kind(*(kind for kind in Kind if kind not in DRAWN_KINDS))
    counts = np.bincount(w.core.columns.kind[others], minlength=len(Kind))
    left_out = {KIND_MEANING[kind]: int(counts[kind]) for kind in Kind if counts[kind]}
    host, notes = w.rows_of_kind(*HOST_KINDS), w.rows_of_kind(*ANNOTATIONS)
    return _laid_out(w, host, notes, gpu[w.holds(gpu)], idle_parts(w), left_out)


def seen_first(w: Window) -> list[int] | None:
    """Where the timeline of a server opens: some steps in the middle of its steady state; None for all of a trace.

    Returns:
        Start and end, ns; the end is that of the steps' GPU work.
    """
    if not is_of_server(w.core):
        return None
    from tracelens_graph.analyses.serving.iterations import served_in

    served = served_in(w)
    first, behind = np.searchsorted(served.numbers, served.found.steady)
    begin = int(first + behind - _SEEN) // 2
    if len(served) <= _SEEN or behind - first < _SEEN:
        return None
    c, inside = w.core.columns, (served.group >= begin) & (served.group < begin + _SEEN)
    if not inside.any():
        return None
    start = int(c.start_ns[served.found.rows[served.numbers[begin]]])
    return [start, int(c.end_ns[w.gpu_rows[inside]].max())]


def _laid_out(w: Window, host: Rows, notes: Rows, gpu: Rows, idle: Idle, left_out: dict[str, int]) -> Drawn:
    """What is drawn of some rows; see `Drawn`. Depths are those among these rows."""
    c = w.core.columns
    is_inner = (c.kind[notes] != Kind.Step).astype(np.uint8)
    nested = build_forest(c.thread[notes].astype(np.int64), c.start_ns[notes], c.dur_ns[notes], is_inner)
    return Drawn(host, depth_among(c, host), notes[nested.order], nested.depth, gpu, idle, left_out)


def depth_among(c: Columns, rows: Rows) -> Codes:
    """For each of some rows of the host how many of the others are around it."""
    change = np.zeros(len(c) + 1, np.int64)
    np.add.at(change, rows, 1)
    # Several calls may end with the same row; += would count only one of them.
    np.add.at(change, c.last[rows].astype(np.int64) + 1, -1)
    return np.asarray(np.cumsum(change)[rows] - 1)


# ---- few of many events ----------------------------------------------------------------------------------------------


class LeftOut(NamedTuple):
    """Events that are not drawn although a page would draw them.

    Attributes:
        what: what they are, in the plural.
        number: how many.
        of: of how many.
        longest_ns: duration of the longest one.
    """

    what: str
    number: int
    of: int
    longest_ns: int

    def __str__(self) -> str:
        return f"{self.number:,} of {self.of:,} {self.what}, none longer than {self.longest_ns / 1e3:,.3f} µs"


def longest_events(w: Window, d: Drawn, most: int) -> tuple[Drawn, list[LeftOut]]:
    """The longest events of the GPU and of the host, annotations and idle gaps; with the calls that launched the first.

    Args:
        d: all that can be drawn of it.
        most: events, idle gaps among them; if there are not more, all of them stay.

    Returns:
        What is drawn, and what is not.
    """
    c = w.core.columns
    if d.events + len(d.idle.row) <= most:
        return d, []
    dur = {name: part.dur for name, part in d.parts(w.core).items()}
    notes, idle = (_longest(dur[name], int(most * _BESIDE)) for name in ("note", "idle"))
    host_room, long_room = min(int(most * _HOST), len(d.host)), int(most * _LONG)
    gpu_room = most - host_room - int(notes.sum()) - int(idle.sum())
    if host_room < len(d.host):  # there is room for the launch of each, and the op that it is charged to
        gpu_room = min(gpu_room, (host_room - long_room) // 2)
    gpu = _longest(dur["gpu"], gpu_room)
    first = np.zeros(len(c) + 1, np.int64)  # the last entry takes what there is none of
    shown = d.gpu[gpu]
    first[launches_of(c, shown)] = first[c.parent[shown]] = first[c.owner[shown]] = 1
    first[d.host[_longest(dur["host"], long_room)]] = 2
    host = _longest(dur["host"], host_room, first[d.host])
    kept = _laid_out(w, d.host[host], d.notes[notes], d.gpu[gpu], _of_gaps(d.idle, idle), d.left_out)
    missing = [
        LeftOut(what, int((~keep).sum()), len(keep), int(dur[name][~keep].max()))
        for what, name, keep in (
            ("GPU events", "gpu", gpu),
            ("calls of the host", "host", host),
            ("annotations", "note", notes),
            ("idle gaps", "idle", idle),
        )
        if not keep.all()
    ]
    return kept, missing


def _longest(dur: Ns, most: int, first: Codes | None = None) -> Mask:
    """Whether each is one of the longest, after those with a greater `first`; of equals the earlier ones are."""
    order = np.argsort(-dur, kind="stable") if first is None else np.lexsort((-dur, -first))
    keep = np.zeros(len(dur), bool)
    keep[order[: max(most, 0)]] = True
    return keep


def _of_gaps(idle: Idle, keep: Mask) -> Idle:
    """Some of the gaps; the time of all of them stays what it is."""
    per_gap = [field.name for field in fields(idle) if field.name != "total_ns"]
    return replace(idle, **{name: getattr(idle, name)[..., keep] for name in per_gap})


# ---- columns ---------------------------------------------------------------------------------------------------------


def columns(w: Window, d: Drawn, names: Names) -> dict[str, Packed]:
    """The columns of a page's timeline.

    Moments are in ns from the trace's start. A GPU event's `launch` is one more than the number of the call among
    those of the host, 0 without one; `args` one more than that of the arguments in `argument_texts`.
    """
    c, parts = w.core.columns, d.parts(w.core)
    place = np.zeros(len(c) + 1, np.int64)
    place[d.host] = np.arange(1, len(d.host) + 1)
    gpu = parts["gpu"]
    found = {
        "host.depth": Packed(d.depth, True),
        "host.args": Packed(_argument_sets(w, d)[1]),
        "note.depth": Packed(d.note_depth),
        "gpu.gap": Packed(zigzag(gpu.start - np.concatenate(([0], (gpu.start + gpu.dur)[:-1])))),
        "gpu.launch": Packed(place[c.parent[d.gpu]], True),  # the last entry, that of no parent, is 0
        "idle.cause": Packed(d.cause),
        **_culprits(w, d, place),
    }
    for name, part in parts.items():
        found[f"{name}.dur"] = Packed(part.dur)
        found[f"{name}.uid"] = Packed(c.uid[part.rows], True)
        if name != "gpu":
            found[f"{name}.start"] = Packed(part.start, True)
        if name != "idle":
            found[f"{name}.name"] = Packed(names.of_rows(part.rows))
    return found


def counters(w: Window, d: Drawn) -> tuple[dict[str, Any], dict[str, Packed]]:
    """What a page needs to draw queues and bandwidths beside events, of a window that is drawn whole.

    Returns:
        From which length on the queues of streams are full (`full`), and what copies move bytes (`ways`); columns of
        the copies: the place among GPU events, that of the way, and bytes.
    """
    rows, ways, way = directed_copies(w)
    called = _device_titles(w, d)
    place = np.zeros(len(w.core.columns), np.int64)
    place[d.gpu] = np.arange(len(d.gpu))
    full = {called(one.device, f"stream {one.stream}"): one.limit(CAPACITY) for one in queues_of(w)}
    return {"full": full, "ways": [called(*way) for way in ways]}, {
        "copy.event": Packed(place[rows], True),
        "copy.way": Packed(way),
        "copy.bytes": Packed(w.core.columns.bytes[rows]),
    }


def _culprits(w: Window, d: Drawn, place: Codes) -> dict[str, Packed]:
    """Of each gap the call that is most of it, one more than its number, 0 for none; its ns; ns of other causes.

    Of the longest gaps alone: for each of them what the host did is searched.

    Args:
        d: what is drawn.
        place: of each row of the graph one more than its number among calls.
    """
    idle, cause = d.idle, d.cause
    length = idle.end - idle.start
    call, blamed = np.zeros(len(length), np.int64), np.zeros(len(length), np.int64)
    for gap in np.argsort(-length, kind="stable")[:MOST_BLAMED].tolist():
        row, ns = culprit(w.core, idle, gap, Cause(int(cause[gap])))
        if row >= 0 and place[row]:
            call[gap], blamed[gap] = place[row], ns
    rest = length - idle.parts.max(axis=0) if len(length) else length
    return {"idle.culprit": Packed(call), "idle.blamed": Packed(blamed), "idle.rest": Packed(rest)}


def _argument_sets(w: Window, d: Drawn) -> tuple[Codes, Codes]:
    """Codes of the argument sets of calls that are drawn, and for each call one more than its position, 0 for none."""
    there, place = distinct(w.core.columns.argset[d.host])
    none = int(len(there) > 0 and there[0] < 0)
    return there[none:], place + 1 - none


def argument_texts(w: Window, d: Drawn) -> list[str]:
    """Sizes and types of arguments, as `[8, 16] [16, 4]; float`."""
    return [_argument_text(*w.core.argsets[code][:2]) for code in _argument_sets(w, d)[0].tolist()]


def _argument_text(dims: str, types: str) -> str:
    try:
        sizes = [size for size in json.loads(dims or "[]") if size]
        kinds = [str(kind).removeprefix("c10::") for kind in json.loads(types or "[]")]
    except (ValueError, TypeError, RecursionError):
        return clean(f"{dims[:_LONGEST_ARGUMENTS]} {types[:_LONGEST_ARGUMENTS]}", _LONGEST_ARGUMENTS)
    shown = [kind for kind in dict.fromkeys(kinds) if kind not in ("", "Scalar")]
    return clean("; ".join(filter(None, (" ".join(map(str, sizes)), ", ".join(shown)))), _LONGEST_ARGUMENTS)


def cause_label(cause: Cause) -> str:
    """The name of a cause as people read it: `unknown (no launch)`."""
    name = cause.name.replace("_", " ")
    return f"unknown ({name.removeprefix('unknown ')})" if cause in UNKNOWN else name


def cause_class(cause: Cause) -> str:
    """What gives a cause its colour."""
    if cause in (*UNKNOWN, Cause.outside, Cause.profiler):
        return "unknown"
    return Cause.python.name if cause in BETWEEN_STEPS else cause.name


def causes() -> list[dict[str, str]]:
    """What idle time is due to, by number: name, meaning and class."""
    return [
        {"name": cause_label(cause), "meaning": CAUSE_MEANING[cause], "class": cause_class(cause)} for cause in Cause
    ]


# ---- lanes -----------------------------------------------------------------------------------------------------------


def lanes(w: Window, d: Drawn) -> dict[str, list[dict[str, Any]]]:
    """Which rows and columns stand together: threads, threads of annotations, streams, idle gaps of devices.

    Each has a `title`, the number `n` of its rows, which follow one another, and what a thread launched.
    """
    core, c = w.core, w.core.columns
    names = {(str(pid), str(tid)): str(name) for pid, tid, name in core.info.threads}
    launches = np.bincount(c.thread[c.parent[w.linked_gpu_rows]], minlength=len(core.threads))
    called = _device_titles(w, d)

    def thread(row: int) -> str:
        pid, tid = core.threads[c.thread[row]]
        name = names.get((str(pid), str(tid))) or f"thread {tid}"
        usual, bare = _THREAD.fullmatch(name), name.removeprefix("thread ")
        is_number = bare.removeprefix("-").isdigit()
        return clean(f"{usual['name']} {usual['number']}" if usual else name if is_number else bare, 60)

    return {
        "host": [
            {"title": thread(row), "n": n, "launches": int(launches[c.thread[row]])}
            for row, n in _runs(d.host, c.thread[d.host])
        ],
        "note": [{"title": thread(row), "n": n} for row, n in _runs(d.notes, c.thread[d.notes])],
        "gpu": [
            {"title": called(int(c.device[row]), f"stream {c.stream[row]}"), "n": n}
            for row, n in _runs(d.gpu, c.device[d.gpu], c.stream[d.gpu])
        ],
        "idle": [
            {"title": called(int(c.device[row]), "idle"), "n": n} for row, n in _runs(d.idle.row, c.device[d.idle.row])
        ],
    }


def _device_titles(w: Window, d: Drawn) -> Callable[[int, str], str]:
    """What to call something of a device: with its number where several are drawn."""
    several = len(np.unique(w.core.columns.device[d.gpu])) > 1
    return lambda device, what: f"GPU {device} {what}" if several else what


def _runs(rows: Rows, *keys: Codes) -> list[tuple[int, int]]:
    """The first of those with equal keys that follow one another, and their number."""
    if not len(rows):
        return []
    changes = np.any([np.diff(key) != 0 for key in keys], axis=0)
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(rows)]
    return [(int(rows[low]), high - low) for low, high in pairwise(edges)]


def lane_table(w: Window, d: Drawn) -> Table:
    """One row for each lane of a timeline: GPU first, then threads and annotations."""
    c, parts, placed, spans = w.core.columns, d.parts(w.core), lanes(w, d), _spans_ns(w)

    def name(part: str, at: int) -> str:
        if part == "idle":
            return cause_label(Cause(int(d.cause[at])))
        text = w.core.names[int(c.name[parts[part].rows[at]])]
        return short_name(text) if part == "gpu" else text

    def records() -> Iterator[dict[str, Any]]:
        for part in ("gpu", "idle", "host", "note"):
            rows, start, dur = parts[part]
            low = 0
            for lane in placed[part]:
                here = slice(low, low + lane["n"])
                low = here.stop
                at = here.start + int(dur[here].argmax())
                busy = union_length(start[here], start[here] + dur[here])
                span = spans[int(c.device[rows[at]])] or 1 if part in ("gpu", "idle") else None
                yield {
                    "lane": f"annotations, {lane['title']}" if part == "note" else lane["title"],
                    "events": lane["n"], "busy_ms": busy / 1e6,
                    "gpu_span_percent": 100 * busy / span if span else None,
                    "longest": clean(name(part, at)), "longest_ms": int(dur[at]) / 1e6, "uid": int(c.uid[rows[at]]),
                }  # fmt: skip

    return LANES.of_records(list(records()), w.titled("What is on the timeline"))


def _spans_ns(w: Window) -> dict[int, int]:
    """Device -> time from the first start to the last end of its GPU events."""
    c, rows = w.core.columns, w.gpu_rows
    device = c.device[rows]
    return {
        int(one): int(c.end_ns[rows[device == one]].max() - c.start_ns[rows[device == one]].min())
        for one in np.unique(device)
    }
