"""A trace joined with a snapshot of CUDA memory of its run: allocations as if they had been recorded with the trace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO

import msgspec
import numpy as np

from tracelens_graph.errors import LinkError, NotATraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph
from tracelens_graph.graph.info import SEGMENTS
from tracelens_graph.graph.membership import calls_of
from tracelens_graph.graph.traversals import climb, rows_of_kind
from tracelens_graph.loaders.kineto.details import FileDetails
from tracelens_graph.loaders.kineto.times import origin_ns
from tracelens_graph.loaders.memory_snapshot.snapshot import Change, Entry, history
from tracelens_graph.loaders.reports import Pieces, checked
from tracelens_graph.loaders.sources import Source, open_source
from tracelens_graph.loading.profile import load_profile
from tracelens_graph.schema import HOST_KINDS, Kind
from tracelens_graph.utils.arrays import Codes, Ns, Rows

_FRAME = re.compile(r"(?:.*/)?([^/]*)\(\d+\): (.*)", re.DOTALL)
"""A frame in a trace: its line is that at which the function begins, so only file and function are compared."""

_AT_ONCE = 1 << 20
_LATEST = 999
"""Times of a snapshot are whole microseconds: this many ns later an entry may have been made."""


def with_memory(core: Core, memory: Any, tell: Callable[[str], None]) -> Graph:
    """The graph, with the allocations and releases of a snapshot in it.

    They stand behind the events of the trace. The thread of one is that whose Python stack is most like its own; of
    several, that whose innermost call began last.

    Args:
        core: the graph of a file of the profiler.
        memory: the snapshot, given like the trace.
        tell: called with a line on what lies outside of the trace's time.

    Raises:
        LinkError: the graph takes no allocations, or the snapshot is of another time.
        NotATraceError, TraceError: the snapshot cannot be read.
    """
    details, c, source = core.details, core.columns, open_source(memory)
    if why := _unfit(core):
        raise LinkError(f"{core.info.source}: {why}, so it is not joined with {source.name}")
    assert isinstance(details, FileDetails)
    segments, devices = _read_snapshot(source)
    changes = [[change for change in some if change.time_us is not None] for some in devices]
    at = [np.array([change.time_us for change in some], np.int64) * 1000 - core.info.start_epoch_ns for some in changes]
    last = int(c.end_ns.max())
    kept = [[(change, ns) for change, ns in zip(some, when.tolist(), strict=True) if -_LATEST <= ns <= last]
            for some, when in zip(changes, at, strict=True)]  # fmt: skip
    count, inside = sum(map(len, changes)), sum(map(len, kept))
    if not inside:
        raise LinkError(_apart(core, source.name, np.concatenate([np.zeros(0, np.int64), *at]), last))
    if inside < count:
        tell(f"{source.name}: {count - inside:,} of {count:,} entries are outside of the trace's time, and left out")
    has_stacks = any(change.frames for change in chain(*changes))
    events: list[bytes] = []
    for some in kept:
        found = [change for change, _ in some]
        thread, moment = _places(core, found, np.array([ns for _, ns in some], np.int64), has_stacks)
        events += _events(core, found, thread, moment)
    joined = load_profile(_WithEvents(details.source, details.end, events))
    joined.info.metadata[SEGMENTS] = segments
    return joined


def _unfit(core: Core) -> str:
    """Why a graph cannot be joined; empty if it can."""
    if not isinstance(core.details, FileDetails) or not len(rows_of_kind(core.columns, HOST_KINDS)):
        return "is no profiler's trace with calls (a saved graph keeps what it was joined with)"
    if core.info.damage:
        return "is damaged"
    return "has allocations of its own" if len(rows_of_kind(core.columns, (Kind.MemoryEvent,))) else ""


def _apart(core: Core, name: str, at: Ns, last: int) -> str:
    """That a snapshot is of another time than the trace."""
    if not len(at):
        return f"{name}: has no history: call torch.cuda.memory._record_memory_history() before the run"
    is_late = at.min() > last
    apart_s = (at.min() - last if is_late else -at.max()) / 1e9
    how = f"begins {apart_s:,.3f} s after the end" if is_late else f"ends {apart_s:,.3f} s before the begin"
    return f"{name}: its history {how} of {core.info.source}: take both in one run"


def _places(core: Core, changes: Sequence[Change], at: Ns, has_stacks: bool) -> tuple[Codes, Ns]:
    """Of each entry the thread that made it, and the moment within its microsecond."""
    c = core.columns
    host = rows_of_kind(c, HOST_KINDS)
    lowest = np.iinfo(np.int64).min
    best = np.full((3, len(at)), lowest)  # likeness of stacks, begin of the innermost call, and less is later
    thread, delay = np.full(len(at), np.bincount(c.thread[host]).argmax(), np.int64), np.zeros(len(at), np.int64)
    likeness = _Likeness(core, changes) if has_stacks else None
    allocates = np.append(c.kind != Kind.RuntimeCall, False)  # an op allocates before it launches
    for code in np.unique(c.thread[host]).tolist():
        for later in (0, _LATEST):
            call = calls_of(c, np.full(len(at), code), at + later)
            call = climb(c.parent, call, allocates)
            alike = np.zeros(len(at), np.int64) if likeness is None else likeness.of(call)
            found = np.where(call >= 0, np.stack((alike, c.start_ns[call], np.full(len(at), -later))), lowest)
            first = np.argmax(found != best, axis=0)[None]  # which differs, and so decides
            better = np.take_along_axis(found, first, 0)[0] > np.take_along_axis(best, first, 0)[0]
            best[:, better], thread[better], delay[better] = found[:, better], code, later
    # Entries of a device keep their order.
    return thread, np.maximum.accumulate(np.maximum(at + delay, 0))


class _Likeness:
    """How alike the Python stacks of entries of a snapshot and of calls in the trace are."""

    def __init__(self, core: Core, changes: Sequence[Change]) -> None:
        self._core = core
        c = core.columns
        self._is_frame = np.append(c.kind == Kind.PythonFunction, False)
        codes: dict[tuple[str, ...], int] = {}
        self._stack = np.array([codes.setdefault(tuple(one.frames), len(codes)) for one in changes], np.int64)
        self._stacks = [_functions(stack) for stack in codes]
        self._of_row: dict[int, Counter[Any]] = {-1: Counter()}

    def of(self, call: Rows) -> np.ndarray:
        """Twice the number of frames that both have, less those of the call's."""
        frame = climb(self._core.columns.parent, call, self._is_frame)
        pairs, which = np.unique(np.stack((self._stack, frame)), axis=1, return_inverse=True)
        values = [self._pair(stack, row) for stack, row in pairs.T.tolist()]
        return np.array(values, np.int64)[which.reshape(-1)]

    def _pair(self, stack: int, row: int) -> int:
        if row not in self._of_row:
            self._of_row[row] = _functions(self._frames(row))
        own = self._of_row[row]
        return 2 * (own & self._stacks[stack]).total() - own.total()

    def _frames(self, row: int) -> Iterator[str]:
        core = self._core
        while row >= 0:
            if self._is_frame[row]:
                yield core.names[core.columns.name[row]]
            row = int(core.columns.parent[row])


def _functions(frames: Iterable[str]) -> Counter[Any]:
    """How often each function, by file and name, is in a stack."""
    return Counter(match.groups() for frame in frames if (match := _FRAME.fullmatch(frame)))


def _events(core: Core, changes: Sequence[Change], thread: Codes, at: Ns) -> list[bytes]:
    """Entries as events of the trace, in JSON."""
    # Digits, as floats of microseconds since 1970 lose nanoseconds.
    ns = at + origin_ns(core)
    encode, events = msgspec.json.Encoder().encode, []
    for change, code, when in zip(changes, thread.tolist(), ns.tolist(), strict=True):
        pid, tid = core.threads[code]
        ts = msgspec.Raw(f"{'-' * (when < 0)}{abs(when) // 1000}.{abs(when) % 1000:03d}".encode())
        events.append(encode({**change.event, "pid": pid, "tid": tid, "ts": ts}))
    return events


def _read_snapshot(source: Source) -> tuple[list[Entry], list[list[Change]]]:
    """The segments in a snapshot of PyTorch's CUDA allocator, and of each device what it allocated and released.

    Raises:
        NotATraceError: it is something else, or a pickle that does more than hold plain values.
        TraceError: it is damaged.
    """
    if source.packing != "pickle":
        raise NotATraceError(f"{source.name}: is no snapshot of torch.cuda.memory._dump_snapshot()")
    with source.raw() as stream:
        (found,) = checked(history, b"".join(iter(lambda: stream.read(_AT_ONCE), b"")), source.name)
    return found


class _WithEvents(Source):
    """A source with further events behind its own.

    Args:
        of: the source.
        at: where its last event ends.
        events: the others, each as JSON.
    """

    def __init__(self, of: Source, at: int, events: Iterable[bytes]) -> None:
        self.__dict__.update(of.__dict__)
        self._of, self._at, self._events, self.packing = of, at, b"".join(b",\n" + one for one in events), "joined"

    def open(self) -> BinaryIO:
        """A fresh stream of the decompressed bytes; raises as that of the source."""
        return Pieces(self._pieces(self._of.open()))

    def _pieces(self, stream: BinaryIO) -> Iterator[bytes]:
        with stream:
            left = self._at
            while left and (some := stream.read(min(left, _AT_ONCE))):
                left -= len(some)
                yield some
            yield self._events
            yield from iter(lambda: stream.read(_AT_ONCE), b"")
