"""What host threads do at any time, by their innermost call: the ground on which idle GPU time is explained."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

import numpy as np

from tracelens_graph.graph.arrays import is_kind, positions_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import Intervals, merge
from tracelens_graph.graph.traversals import ancestors, host_rows, launches_of, least_above, nearest_above
from tracelens_graph.graph.window import whole_window
from tracelens_graph.schema import HOST_KINDS, Flag, Kind
from tracelens_graph.utils.arrays import Codes

ABSENT, DATA_LOADER, PROFILER, SYNCHRONIZATION, COPY_TO_DEVICE, ALLOCATION, LAUNCH, PYTHON, COMPILATION = range(9)
"""States of a thread. ABSENT: nothing is recorded, or the thread waits for others. DATA_LOADER, PROFILER and
COMPILATION hold for whatever is called there; the other states are those of the innermost call."""

STATES = 9

_CALLS = tuple(
    (state, re.compile(pattern, re.VERBOSE))
    for state, pattern in (
        (
            SYNCHRONIZATION,
            r"""Synchronize | QueueFinish | ^(?:cuda|hip)Memcpy(?!.*Async)
            | BlockHostUntil | Await | ^Wait\b | TransferFromDevice | CopyToHost | ToLiteral
            | ^np\.asarray\(jax\.Array\)""",
        ),
        (
            ALLOCATION,
            r"""^(?:cuda|hip|cu)(?:Malloc|Free|Host(?:Alloc|Malloc|Free|Register|Unregister)
            | Mem(?:Alloc|Free|Create|Release|Map|Unmap|SetAccess|AddressReserve|AddressFree|PoolTrim))""",
        ),
        (COPY_TO_DEVICE, r"TransferToDevice | TransferLiteralToDevice | BufferFromHost(?:Buffer|Literal) | ^DevicePut"),
        (
            COMPILATION,
            r"""^(?: backend_compile | lower_sharding_computation | PjRt\w*Client::Compile | PJRT_Client_Compile
            | XlaCompile | jit_compile )""",
        ),
    )
)
"""States and what names of runtime calls hold, CUDA's, HIP's and those of JAX's runtime: the first that fits counts."""
_OF_THE_SYSTEM = re.compile(
    r"""^(?:pthread_ | sem_ | [ep]?poll | epoll_ | p?select | futex | p?read | p?write | recv | send | accept | connect
    | wait | (?:clock_)?nanosleep | u?sleep | sched_yield | ioctl | mmap | munmap | open | close
    | f(?:open|close|read|write|gets|puts|flush|sync|datasync) | flock | v?fork | sig | syscall )""",
    re.VERBOSE,
)
"""Calls of the operating system, in which a thread waits for others or for a file."""
_TO_DEVICE = re.compile(r"HtoD|Host ?(?:->|To) ?Device", re.IGNORECASE)
_FRAMES = {
    DATA_LOADER: ("torch/utils/data/", "torch\\utils\\data\\", "nvidia/dali/"),
    PROFILER: (
        "torch/profiler/", "torch\\profiler\\", "torch/autograd/profiler.py", "torch\\autograd\\profiler.py",
        "): start_trace", "): stop_trace",
    ),
    ABSENT: ("run_backward",),
    SYNCHRONIZATION: ("): block_until_ready", "): try_to_block"),
    COMPILATION: (
        "): compile_or_get_cached", "): _cached_compilation", "): lower_jaxpr_to_module", "): _pjit_lower",
        "): trace_to_jaxpr", "): _trace_for_jit",
    ),
}  # fmt: skip
"""State -> what the names of its Python frames hold. In `run_backward` a thread waits for those of autograd. Frames of
JAX go by their functions, because it records no folders."""


def _state_of_call(name: str) -> int:
    return next((state for state, pattern in _CALLS if pattern.search(name)), LAUNCH)


def _state_of_frame(name: str) -> int:
    return next((state for state, parts in _FRAMES.items() if any(part in name for part in parts)), PYTHON)


def _state_of_op(name: str) -> int:
    return DATA_LOADER if _loads_data(name) else LAUNCH


def _loads_data(name: str) -> bool:
    """Such as `enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__` or `## data_load ##`."""
    return "dataload" in name.lower().replace("_", "").replace(" ", "")


def _per_name(core: Core, rows: np.ndarray, value: Callable[[str], int]) -> np.ndarray:
    """A value of each row's name, which is computed once per name."""
    codes = core.columns.name[rows]
    values = np.zeros(len(core.names), np.uint8)
    values[codes] = 1
    for code in np.flatnonzero(values).tolist():
        values[code] = value(core.names[code])
    return values[codes]


def row_states(core: Core) -> np.ndarray:
    """For every row the state its thread is in while this is the innermost call.

    A copy call waits if it returns no sooner than its copy has ended. What waits within an op that copies to the
    device, waits for that copy. A call of the operating system is part of the op around it, or else of the program.
    """
    kind = core.columns.kind
    state = np.zeros(len(kind), np.uint8)
    state[kind == Kind.Module] = PYTHON
    for of, value in (
        (Kind.PythonFunction, _state_of_frame), (Kind.Op, _state_of_op), (Kind.RuntimeCall, _state_of_call),
    ):  # fmt: skip
        rows = np.flatnonzero(kind == of)
        state[rows] = _per_name(core, rows, value)
    of_system = rows[_per_name(core, rows, lambda name: bool(_OF_THE_SYSTEM.match(name))) > 0]
    state[of_system[nearest_above(core.columns, of_system, (Kind.Op,)) < 0]] = PYTHON
    _judge_copies(core, state)
    return state


def _judge_copies(core: Core, state: np.ndarray) -> None:
    c = core.columns
    copies = np.flatnonzero(c.kind == Kind.Memcpy)
    copies = copies[c.parent[copies] >= 0]
    call = launches_of(c, copies)
    waits = ends(core, call) >= ends(core, copies)
    to_device = copies_to_device(core, copies)
    state[call[waits]] = SYNCHRONIZATION
    # It overrides the line above: waiting for one's own copy to the device counts as copying.
    state[call[to_device & (waits | pageable(core, copies))]] = COPY_TO_DEVICE
    waiting = np.flatnonzero(state == SYNCHRONIZATION)
    copying = c.owner[copies[to_device]]
    for_copy = np.isin(nearest_above(c, waiting, (Kind.Op,)), copying[copying >= 0])
    state[waiting[for_copy]] = COPY_TO_DEVICE


def copies_to_device(core: Core, rows: np.ndarray) -> np.ndarray:
    """Which GPU events are copies from the host to the device, by name."""
    return _per_name(core, rows, lambda name: bool(_TO_DEVICE.search(name))) > 0


def pageable(core: Core, rows: np.ndarray) -> np.ndarray:
    """Which copies are from or to pageable memory, by name: these go through a buffer of the driver."""
    return _per_name(core, rows, lambda name: "Pageable" in name) > 0


def ends(core: Core, rows: np.ndarray) -> np.ndarray:
    """Ends of rows, ns."""
    return core.columns.start_ns[rows] + core.columns.dur_ns[rows]


def _dispatcher(core: Core) -> int:
    """Code of the thread with most frames of Python, else with most calls that run programs of XLA; -1 without any."""
    c = core.columns
    rows = np.flatnonzero(c.kind == Kind.PythonFunction)
    if not len(rows):
        rows = np.flatnonzero(c.kind == Kind.RuntimeCall)
        rows = rows[_per_name(core, rows, lambda name: name.startswith("PjitFunction")) > 0]
    return int(np.bincount(c.thread[rows]).argmax()) if len(rows) else -1


class Calls:
    """The calls of the threads that launch GPU work, and the state each stands for.

    Attributes:
        state: of every row of the graph.
        dispatcher: code of the thread of Python that gives work to threads of a pool, which launch it; -1 for none.
        threads: codes of the threads, the dispatcher among them.
        rows: rows of the calls, ascending; those of a thread stand together.
        spans: state -> rows of the frames, ops and annotations during which it holds, ascending.
    """

    def __init__(self, core: Core) -> None:
        self.core, self._c, self.state = core, core.columns, row_states(core)
        launches = np.zeros(len(core.threads), bool)
        launches[self._c.thread[self._c.parent[whole_window(core).linked_gpu_rows]]] = True
        self.dispatcher = _dispatcher(core) if core.framework.launches_from_pool else -1
        if launches.any() and self.dispatcher >= 0:
            launches[self.dispatcher] = True
        self.threads = np.flatnonzero(launches)
        rows = host_rows(self._c)
        self.rows = rows[launches[self._c.thread[rows]]]
        notes = np.flatnonzero(self._c.kind == Kind.Annotation)
        notes = notes[_per_name(core, notes, _loads_data) > 0]
        self.spans = {
            PROFILER: np.flatnonzero(self.state == PROFILER),
            COMPILATION: np.flatnonzero(self.state == COMPILATION),
            DATA_LOADER: np.union1d(np.flatnonzero(self.state == DATA_LOADER), notes),
        }
        self._of_thread = np.searchsorted(self._c.thread[self.rows], np.arange(len(core.threads) + 1))
        state = self.state[self.rows]
        self._waiting = dict(self._by_thread(self.rows[(state == SYNCHRONIZATION) | (state == COPY_TO_DEVICE)]))
        self._cut = self._cut_ends()
        self._always: Timelines | None = None
        self._held: dict[tuple[int, int], Intervals] = {}
        self._spans = {state: dict(self._by_thread(rows)) for state, rows in self.spans.items()}

    def _by_thread(self, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        return ((code, rows[positions]) for code, positions in positions_by(self._c.thread[rows]))

    def span_rows(self, state: int, thread: int) -> np.ndarray:
        """Rows of a thread during which a state holds, ascending."""
        return self._spans[state].get(thread, self.rows[:0])

    def span_intervals(self, state: int, thread: int) -> Intervals:
        """When a state holds on a thread."""
        if (state, thread) not in self._held:
            rows = self.span_rows(state, thread)
            self._held[state, thread] = merge(self._c.start_ns[rows], ends(self.core, rows))
        return self._held[state, thread]

    @cached_property
    def loading_threads(self) -> dict[int, tuple[np.ndarray, Intervals]]:
        """Code of each thread with frames of data loaders -> rows of its calls, and when it is in such a frame."""
        c = self._c
        frames = np.flatnonzero((self.state == DATA_LOADER) & (c.kind == Kind.PythonFunction))
        found = {}
        for thread, rows in self._by_thread(frames):
            calls = np.flatnonzero((c.thread == thread) & is_kind(c.kind, HOST_KINDS))
            found[thread] = calls, merge(c.start_ns[rows], ends(self.core, rows))
        return found

    def waiting_at(self, thread: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Row of the waiting call that each thread is in at each instant, -1 for none."""
        found = np.full(len(at), -1, np.int64)
        for code, asked in positions_by(thread):
            if (own := self._waiting.get(code)) is None:
                continue
            begun = np.searchsorted(self._c.start_ns[own], at[asked], "right") - 1
            found[asked] = np.where((begun >= 0) & (ends(self.core, own)[begun] > at[asked]), own[begun], -1)
        return found

    def timelines(self, clock: Clock) -> Timelines:
        """How long threads were in which state on a clock; on one that never stands still it is found once."""
        if clock.stands_still:
            return Timelines(self, clock)
        if self._always is None:
            self._always = Timelines(self, clock)
        return self._always

    @cached_property
    def _starts(self) -> np.ndarray:
        return self._c.start_ns[self.rows]

    def within(self, thread: int, start: int, end: int) -> np.ndarray:
        """Rows of a thread's calls that may lie in a span: those that start in it, and the chain open before it."""
        c = self._c
        own = slice(self._of_thread[thread], self._of_thread[thread + 1])
        rows = self.rows[own]
        low, high = np.searchsorted(self._starts[own], (start, end))
        above = [] if not low else [*reversed(ancestors(c, int(rows[low - 1]))), int(rows[low - 1])]
        return np.concatenate((np.array(above, np.int64), rows[low:high]))

    def nested_ends(self, rows: np.ndarray) -> np.ndarray:
        """Ends as they count for nesting: no later than those of callers, and than the start of what follows."""
        end = ends(self.core, rows)
        cut, cut_end = self._cut
        if len(cut):
            place = np.minimum(np.searchsorted(cut, rows), len(cut) - 1)
            found = np.flatnonzero(cut[place] == rows)
            end[found] = cut_end[place[found]]
        return end

    def _cut_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows that end otherwise than recorded, ascending, and their ends.

        They are the calls that outlive what they started in, and those that were open before such a call and are
        not around it.
        """
        c = self._c
        crossing = self.rows[(c.flags[self.rows] & Flag.outlives_parent.value) > 0]
        if not len(crossing):
            return crossing, crossing
        rows, cut_ends = [crossing], [least_above(c.parent, crossing, ends(self.core, np.arange(len(c))))]
        earlier = self.rows[np.searchsorted(self.rows, crossing) - 1].astype(np.int64)
        bound, around = c.start_ns[crossing], c.parent[crossing]
        while len(left := np.flatnonzero((earlier >= 0) & (earlier < crossing) & (earlier != around))):
            earlier, bound, around, crossing = earlier[left], bound[left], around[left], crossing[left]
            rows.append(earlier)
            cut_ends.append(np.minimum(ends(self.core, earlier), bound))
            earlier = c.parent[earlier].astype(np.int64)
        every, end = np.concatenate(rows), np.concatenate(cut_ends)
        # Several crossing calls may cut one row: the earliest end holds.
        order = np.lexsort((end, every))
        every, end = every[order], end[order]
        first = np.flatnonzero(np.diff(every, prepend=-1))
        return every[first], end[first]


class Clock:
    """Time that stands still within some intervals, so that nothing which lies there counts."""

    def __init__(self, hidden: Intervals) -> None:
        self._start, self._end = hidden
        self._before = np.concatenate(([0], np.cumsum(self._end - self._start)))

    @property
    def stands_still(self) -> bool:
        """Whether there is a time at which it does."""
        return len(self._start) > 0

    def __call__(self, at: np.ndarray) -> np.ndarray:
        """The clock's time at instants of the trace."""
        if not len(self._start):
            return at
        begun = np.searchsorted(self._start, at, "right")
        ahead = np.where(begun > 0, np.maximum(self._end[begun - 1] - at, 0), 0)
        return at - self._before[begun] + ahead


class ThreadStates:
    """The states of one thread, ready to be asked how long each lasted.

    Args:
        times, states: from each time up to the next the thread is in the state; the first time is -1. Of states
            from one time on the last counts.
    """

    def __init__(self, times: np.ndarray, states: np.ndarray) -> None:
        order = np.argsort(times, kind="stable")
        self._times, self._states = times[order], states[order]
        length = np.diff(self._times)
        self._before: dict[int, np.ndarray] = {}
        for state in np.flatnonzero(np.bincount(self._states, minlength=STATES)).tolist():
            if state != ABSENT:
                self._before[state] = before = np.zeros(len(order), np.int64)
                np.cumsum(length * (self._states[:-1] == state), out=before[1:])

    def with_state(self, state: int, during: Intervals) -> ThreadStates:
        """The same, but in one state during some intervals."""
        start, end = during
        if not len(start):
            return self
        begun = np.searchsorted(start, self._times, "right")
        outside = np.flatnonzero((begun == 0) | (self._times >= end[begun - 1]))
        after = self._states[np.searchsorted(self._times, end, "right") - 1]
        held = np.full(len(start), state, np.uint8)
        return ThreadStates(
            np.concatenate((self._times[outside], start, end)), np.concatenate((self._states[outside], held, after))
        )

    def filled(self, by: ThreadStates) -> ThreadStates:
        """The same, but as another thread where this one is not there."""
        times = np.union1d(self._times, by._times)
        own, other = (one._states[np.searchsorted(one._times, times, "right") - 1] for one in (self, by))
        return ThreadStates(times, np.where(own == ABSENT, other, own))

    def present_from(self, at: np.ndarray) -> np.ndarray:
        """For each time the first, not before it, at which the thread is there; the greatest number if it never is."""
        there = self._states[np.searchsorted(self._times, at, "right") - 1] != ABSENT
        return np.where(there, at, self._present[np.searchsorted(self._present, at, "right")])

    @cached_property
    def _present(self) -> np.ndarray:
        """Times from which the thread is there, and the greatest number."""
        return np.append(self._times[self._states != ABSENT], np.iinfo(np.int64).max)

    def add_spent(self, start: np.ndarray, end: np.ndarray, total: np.ndarray, at: np.ndarray) -> None:
        """Add the time spent in each state within spans to the columns `at` of `total`, which has a row per state."""
        # The first time is -1, before every span, so that neither index is negative.
        low, high = (np.searchsorted(self._times, bound, "right") - 1 for bound in (start, end))
        for state, before in self._before.items():
            time = before[high] - before[low]
            time += (end - self._times[high]) * (self._states[high] == state)
            time -= (start - self._times[low]) * (self._states[low] == state)
            total[state, at] += time


class Timelines:
    """How long threads were in which state, on a clock.

    Args:
        calls, clock: of the threads; the time on which the states are measured.
        states: of every row of the graph; None for `calls.state`.
    """

    def __init__(self, calls: Calls, clock: Clock, states: Codes | None = None) -> None:
        core, c = calls.core, calls.core.columns
        states = calls.state if states is None else states
        parent = c.parent[calls.rows]
        state = states[calls.rows]
        above = np.where(parent >= 0, states[parent], np.uint8(ABSENT))
        change = np.flatnonzero(state != above)
        rows, above = calls.rows[change], above[change]
        start, end = clock(c.start_ns[rows]), clock(calls.nested_ends(rows))
        if not (end > start).all():
            solid = np.flatnonzero(end > start)
            rows, above, start, end = rows[solid], above[solid], start[solid], end[solid]
        thread, state = c.thread[rows], states[rows]
        self._threads: dict[int, ThreadStates] = {}
        edges = zip(*(np.searchsorted(thread, calls.threads, side).tolist() for side in ("left", "right")), strict=True)
        for code, (first, last) in zip(calls.threads.tolist(), edges, strict=True):
            part = slice(first, last)
            # Of ends at one time the outermost comes last, and starts come after ends: the last one there holds.
            found = ThreadStates(
                np.concatenate(([-1], end[part][::-1], start[part])),
                np.concatenate((np.array([ABSENT], np.uint8), above[part][::-1], state[part])),
            )
            for held in calls.spans:
                mine = calls.span_rows(held, code)
                found = found.with_state(held, merge(clock(c.start_ns[mine]), clock(ends(core, mine))))
            self._threads[code] = found
        self._alone = self._threads
        if dispatcher := self._threads.get(calls.dispatcher):
            self._threads = {code: one.filled(dispatcher) for code, one in self._threads.items()}

    def present_from(self, thread: np.ndarray, at: np.ndarray) -> np.ndarray:
        """`ThreadStates.present_from` for threads and times."""
        found = np.empty(len(at), np.int64)
        for code, some in positions_by(thread):
            found[some] = self._threads[code].present_from(at[some])
        return found

    def add_spent(self, thread: np.ndarray, start: np.ndarray, end: np.ndarray, total: np.ndarray) -> None:
        """Add the time that threads spent in each state (row) within spans (columns)."""
        self._add(self._threads, thread, start, end, total)

    def alone_in(self, state: int, thread: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """The time that threads themselves, without the dispatcher, spent in a state within spans."""
        total = np.zeros((STATES, len(thread)), np.int64)
        self._add(self._alone, thread, start, end, total)
        return total[state]

    @staticmethod
    def _add(
        states: Mapping[int, ThreadStates], thread: np.ndarray, start: np.ndarray, end: np.ndarray, total: np.ndarray
    ) -> None:
        solid = np.flatnonzero(end > start)
        for code, positions in positions_by(thread[solid]):
            some = solid[positions]
            states[code].add_spent(start[some], end[some], total, some)
