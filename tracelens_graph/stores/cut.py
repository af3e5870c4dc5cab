"""A piece of a trace as a small trace of its own, for a viewer such as Perfetto UI, or to be passed on.

A piece holds whole original events, and with every event all that gives it its place: its callers, its launch, its
step and its annotations. So in the graph of the piece each of them has the parent, the launch, the owner, the step
and the annotation that it has in the whole trace. What is no node (flow arrows, names of threads, counters) is
found in the file by reading the heads of all its entries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw

from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph import membership
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.info import LEFT_OUT_ITERATIONS
from tracelens_graph.graph.iterations import LeftOut, iterations_of, left_out_between
from tracelens_graph.loaders.kineto.times import digits_to_ns, origin_ns
from tracelens_graph.output.files import GENERATOR
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Mask, Ns, Rows

_PROCESS_NAMES = {b'"process_name"', b'"process_labels"', b'"process_sort_index"'}
_THREAD_NAMES = {b'"thread_name"', b'"thread_sort_index"'}
"""The metadata events that are taken along. Others may hold anything about the machine."""

_ARROW_ENDS = ("s", "t", "f")
_NOT_A_NODE, _OUTSIDE, _INSIDE = range(3)
_NEVER = -(2**63)
_FAR = 2**62


@dataclass(frozen=True)
class Piece:
    """Which part of a trace to cut out.

    Attributes:
        core: the graph.
        after_ns, before_ns: the time window, in ns from the trace's start, both ends included.
        rows: rows of the nodes in it, ascending.
        left_out: of iterations of a server that were chosen what was left out between them.
    """

    core: Core
    after_ns: int
    before_ns: int
    rows: Rows
    left_out: LeftOut | None = None


def piece_between(core: Core, after_ns: int, before_ns: int, also: Iterable[int] = ()) -> Piece:
    """All nodes that overlap a time window, and what gives them their places.

    Args:
        after_ns, before_ns: the window, in ns from the trace's start.
        also: rows to take along wherever they lie.

    Raises:
        AnalysisError: nothing happens in the window.
    """
    c, shown_ms = core.columns, core.info.shown_ms
    end = c.end_ns
    keep = (c.start_ns <= before_ns) & (end >= after_ns)
    keep[np.fromiter(also, np.int64)] = True
    if not keep.any():
        raise AnalysisError(
            f"nothing happens between {shown_ms(after_ns):,.3f} and {shown_ms(before_ns):,.3f} ms; "
            f"the trace lasts from {shown_ms(0):,.3f} to {shown_ms(max(end, default=0)):,.3f} ms"
        )
    return piece_of(core, keep, max(after_ns, 0), min(before_ns, int(end.max())))


def piece_of(core: Core, members: Mask, after_ns: int, before_ns: int) -> Piece:
    """Some nodes, and what gives them their places: callers, launches, steps, annotations.

    Args:
        members: for every row whether it is one of them; some are.
        after_ns, before_ns: the time from which counters and other entries that are not nodes are taken along.
    """
    c, keep = core.columns, members.copy()
    # GPU work without a launch finds its annotation by the device annotation over its start.
    lone = core.gpu_rows[keep[core.gpu_rows] & (c.parent[core.gpu_rows] < 0)]
    first = min(c.start_ns[lone], default=after_ns)
    keep |= (c.kind == Kind.DeviceAnnotation) & (c.start_ns <= before_ns) & (c.end_ns >= first)
    _with_all_above(keep, np.flatnonzero(keep), c.parent)
    ranges_above = np.concatenate((core.step[keep], core.annotation[keep]))
    ranges_above = np.unique(ranges_above[ranges_above >= 0])
    keep[ranges_above] = True
    _with_all_above(keep, ranges_above, core.annotation)
    return Piece(core, after_ns, before_ns, np.flatnonzero(keep))


def piece_of_iterations(core: Core, numbers: Sequence[int], device_ns: Ns) -> Piece:
    """What belongs to some iterations of a server, and what gives it its place; what lies between them is not in it.

    Args:
        numbers: of iterations that it has, ascending.
        device_ns: length of each on the device, which the piece alone does not show.
    """
    found, c = iterations_of(core), core.columns
    members = (found.of >= 0) & np.isin(found.of, numbers)
    piece = piece_of(core, members, int(c.start_ns[members].min()), int(c.end_ns[members].max()))
    return replace(piece, left_out=left_out_between(core, numbers, device_ns))


def piece_around(core: Core, rows: Sequence[int], margin_ns: int) -> Piece:
    """All that overlaps the time from the first start to the last end of some nodes, and a margin on both sides.

    The GPU work of the nodes is in it too, whenever it ran.
    """
    c, wanted = core.columns, np.asarray(rows)
    begin, end = int(c.start_ns[wanted].min()), int(c.end_ns[wanted].max())
    below = np.zeros(len(c), bool)
    for row in wanted.tolist():
        below[row : int(c.last[row]) + 1] = True
    ranges = wanted[np.isin(c.kind[wanted], (Kind.Annotation, Kind.Step))]
    below |= membership.inside(c, ranges, c.thread) | np.isin(core.step, wanted)
    work = core.gpu_rows[below[core.gpu_rows]]
    return piece_between(core, begin - margin_ns, end + margin_ns, also=work.tolist())


def write_piece(
    piece: Piece, file: BinaryIO, *, packed: bool = False, progress: Callable[[int, int], None] | None = None
) -> int:
    """Write a piece as Kineto JSON, which our loader and every viewer of Chrome traces read.

    Events are as in the file but for white space between their parts, in the file's order and time base. Of the
    top-level keys those are written that the graph keeps.

    Args:
        packed: whether to compress it (gzip).
        progress: called with blocks of the trace read and blocks in all.

    Returns:
        Number of entries written.

    Raises:
        AnalysisError: the graph comes from no file, so there are no original events, or no more than their arguments.
        ChangedTraceError: the file is no longer the one that was loaded.
    """
    texts = entries(piece, progress)
    top = {**piece.core.info.metadata, "generator": GENERATOR}
    if piece.left_out:
        top[LEFT_OUT_ITERATIONS] = piece.left_out.as_json()
    write_entries(texts, top, file, packed=packed)
    return len(texts)


def times_ns(core: Core, texts: Sequence[Raw]) -> Ns:
    """Times as the file shows them, in microseconds, as times of its graph in ns."""
    return digits_to_ns(texts) - origin_ns(core)


def whole(core: Core) -> Piece:
    """All that is in the file, what lies before the first and behind the last node included."""
    return Piece(core, -_FAR, _FAR, np.arange(len(core.columns)))


def entries(piece: Piece, progress: Callable[[int, int], None] | None = None) -> list[bytes]:
    """The original entries of a piece, in the file's order, without white space between their parts.

    Args:
        progress: called with blocks of the trace read and blocks in all.

    Raises:
        AnalysisError, ChangedTraceError: as `write_piece`.
    """
    source = piece.core.info.source or "the graph"
    if not piece.core.info.events and not len(piece.core.columns):
        raise AnalysisError(f"{source}: is empty, there are no events to cut out")
    if not len(piece.core.details.first):
        raise AnalysisError(f"{source}: holds no original events to cut out")
    found = _Entries(piece)
    found.read(progress)
    if not found.are_events:
        raise AnalysisError(f"{source}: holds arguments of events only, nothing to cut out")
    return found.chosen()


def write_entries(texts: Iterable[bytes], top: Mapping[str, Any], file: BinaryIO, *, packed: bool = False) -> None:
    """Write the entries of an event list as Kineto JSON.

    Args:
        top: what stands beside the list; `generator` is written first, so that the file is known as ours.
        packed: whether to compress it (gzip).
    """
    head = json.dumps({"generator": top["generator"], **top}, separators=(",", ":")).encode()[1:-1]
    import gzip

    # Neither name nor time in its header, so that equal pieces are equal files.
    with gzip.GzipFile("", "wb", 6, file, mtime=0) if packed else nullcontext(file) as out:
        out.write(b"{" + head + b',"traceEvents":[\n')
        out.write(b",\n".join(texts))
        out.write(b"\n]}\n")


def _with_all_above(keep: Mask, rows: Rows, above: np.ndarray) -> None:
    """Mark in `keep` all that stands above the rows; `above` gives the row over each row, -1 for none."""
    while len(rows):
        rows = np.unique(above[rows])
        rows = rows[rows >= 0]
        rows = rows[~keep[rows]]
        keep[rows] = True


class _Head(msgspec.Struct, gc=False):
    """What says whether an entry of the event list belongs to a piece."""

    ph: str
    pid: int | str | None = None
    tid: int | str | None = None
    cat: str | None = None
    name: Raw = Raw()
    id: Raw = Raw()
    ts: Raw = Raw()
    dur: Raw = Raw()


class _ArrowEnd(NamedTuple):
    uid: int
    arrow: tuple[str | None, bytes]
    phase: str


class _Name(NamedTuple):
    """A metadata event that names a thread, or a process (`tid` is None)."""

    uid: int
    pid: int | str | None
    tid: int | str | None


_HEADS = msgspec.json.Decoder(list[_Head | None])
_HEAD = msgspec.json.Decoder(_Head | None)
_RAWS = msgspec.json.Decoder(list[Raw])


class _Entries:
    """Finds the entries of a piece in the file's event list.

    Attributes:
        are_events: whether anything that was read looks like an event.
    """

    are_events = False

    def __init__(self, piece: Piece) -> None:
        core, c = piece.core, piece.core.columns
        self._piece, self._details = piece, core.details
        self._role = np.full(core.info.events, _NOT_A_NODE, np.uint8)
        self._role[c.uid[c.uid < core.info.events]] = _OUTSIDE
        inside = c.uid[piece.rows]
        self._role[inside[inside < core.info.events]] = _INSIDE
        self._code = {thread: code for code, thread in enumerate(map(tuple, core.threads))}
        self._threads = {tuple(core.threads[code]) for code in np.unique(c.thread[piece.rows]).tolist()}
        self._lanes = _Lanes(piece)
        self._found: dict[int, bytes] = {}
        self._names: list[_Name] = []
        self._arrow_ends: list[_ArrowEnd] = []

    def read(self, progress: Callable[[int, int], None] | None) -> None:
        """Go through the whole list once."""
        blocks = range(len(self._details.first))
        firsts = self._details.first.tolist()
        for done, (first, text) in enumerate(zip(firsts, self._details.texts(blocks), strict=True), 1):
            heads = _heads(text)
            self.are_events = self.are_events or any(head is not None for head in heads)
            role = self._role[first : first + len(heads)]
            places = np.flatnonzero(role == _INSIDE).tolist()
            others = [(i, h) for i in np.flatnonzero(role == _NOT_A_NODE).tolist() if (h := heads[i]) is not None]
            places += self._others(first, others)
            if places:
                raws = _RAWS.decode(text)
                self._found |= {first + i: bytes(msgspec.json.format(raws[i], indent=-1)) for i in places}
            if progress:
                progress(done, len(blocks))

    def chosen(self) -> list[bytes]:
        """The entries in the file's order: arrows with both ends, names of the threads that have entries."""
        phases: dict[Any, set[str]] = {}
        for end in self._arrow_ends:
            phases.setdefault(end.arrow, set()).add(end.phase)
        dropped = {end.uid for end in self._arrow_ends if not phases[end.arrow] >= {"s", "f"}}
        known = self._threads | {(pid, None) for pid, _ in self._threads}
        dropped |= {name.uid for name in self._names if (name.pid, name.tid) not in known}
        return [text for uid, text in sorted(self._found.items()) if uid not in dropped]

    def _others(self, first: int, entries: list[tuple[int, _Head]]) -> list[int]:
        """Which of the entries that are not nodes may belong to the piece."""
        core = self._piece.core
        arrows = [entry for entry in entries if entry[1].ph in _ARROW_ENDS]
        names = [(i, h) for i, h in entries if h.ph == "M" and bytes(h.name) in _PROCESS_NAMES | _THREAD_NAMES]
        timed = [(i, h) for i, h in entries if h.ph not in (*_ARROW_ENDS, "M") and len(memoryview(h.ts))]
        self._names += [_Name(first + i, h.pid, h.tid if bytes(h.name) in _THREAD_NAMES else None) for i, h in names]
        if arrows:
            threads = np.fromiter((self._code.get((h.pid, h.tid), -1) for _, h in arrows), np.int64, len(arrows))
            held = self._lanes.hold(threads, times_ns(core, [h.ts for _, h in arrows]))
            arrows = [arrow for arrow, holds in zip(arrows, held.tolist(), strict=True) if holds]
            self._arrow_ends += [_ArrowEnd(first + i, (h.cat, bytes(h.id)), h.ph) for i, h in arrows]
        if timed:
            start = times_ns(core, [h.ts for _, h in timed])
            lasted = digits_to_ns([h.dur if len(memoryview(h.dur)) else Raw(b"0") for _, h in timed])
            inside = (start <= self._piece.before_ns) & (start + lasted >= self._piece.after_ns)
            timed = [entry for entry, is_inside in zip(timed, inside.tolist(), strict=True) if is_inside]
            self._threads |= {(h.pid, h.tid) for _, h in timed}
        return [i for i, _ in (*arrows, *names, *timed)]


class _Lanes:
    """Which ends of arrows lie in a piece: those at events of it.

    An end is at the events that began last on its thread, until they have ended and the time window is over.
    """

    def __init__(self, piece: Piece) -> None:
        c = piece.core.columns
        until = np.full(len(c), _NEVER)
        until[piece.rows] = np.maximum(c.end_ns[piece.rows], piece.before_ns)
        order = np.lexsort((c.start_ns, c.thread))
        thread, start = c.thread[order], c.start_ns[order]
        begins = np.flatnonzero(np.diff(thread, prepend=-1).astype(bool) | np.diff(start, prepend=-1).astype(bool))
        self._first = np.searchsorted(thread[begins], np.arange(len(piece.core.threads) + 1, dtype=thread.dtype))
        self._start = start[begins]
        # Of events that begin together, one inside is enough to hold an arrow.
        self._until = np.maximum.reduceat(until[order], begins)

    def hold(self, threads: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Whether each end, given by code of its thread (-1 for an unknown one) and time, lies in the piece."""
        held = np.zeros(len(threads), bool)
        for thread in np.unique(threads[threads >= 0]).tolist():
            low, high = self._first[thread : thread + 2].tolist()
            here = np.flatnonzero(threads == thread)
            latest = low + np.searchsorted(self._start[low:high], times[here], "right") - 1
            held[here] = (latest >= low) & (times[here] <= self._until[np.maximum(latest, 0)])
        return held


def _heads(text: bytes) -> list[_Head | None]:
    try:
        return _HEADS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [_head(raw) for raw in _RAWS.decode(text)]


def _head(raw: Raw) -> _Head | None:
    """The head of an entry; None of one that is not an event."""
    try:
        return _HEAD.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
