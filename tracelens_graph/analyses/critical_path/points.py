"""Points of one rank, and what may have determined when each of them came.

A point is the start or end of a GPU event, the start of a call that launches or waits, the return of one that waits,
or the first thing that a thread did. An edge leads from a point to a later one that could not come before it. All
host time between two calls is one edge; which op it was spent in is looked up when someone asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.critical_path.gpu_queue import GpuQueue
from tracelens_graph.analyses.critical_path.waits import JUST_BEFORE_NS, waits_of
from tracelens_graph.analyses.idle.host_states import PROFILER
from tracelens_graph.analyses.idle.idle import calls_of
from tracelens_graph.graph.arrays import is_kind, positions_by
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.membership import process_of_thread
from tracelens_graph.graph.recompute import ENGINE
from tracelens_graph.graph.traversals import host_rows
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Ns, Rows


class Edge(IntEnum):
    """Why a point came no sooner than another."""

    host = 0
    """The thread did something else first; or the thread that it works for did."""
    call = 1
    """A call that waits takes some time itself."""
    launch = 2
    """GPU work starts after the call that launches it has begun."""
    stream = 3
    """GPU work starts after the work before it on its stream has ended."""
    event = 4
    """GPU work starts after work of another stream that its stream waits for."""
    sync = 5
    """A call returns after the GPU work that it waits for has ended."""
    run = 6
    """GPU work ends after it has started."""
    arrive = 7
    """A collective moves data after a rank that takes part has come."""
    transfer = 8
    """A collective ends on a rank after all have come that it gets data from."""
    maybe = 9
    """GPU work may wait for a collective on another stream; nothing shows whether it does, so it never binds."""


class Role(IntEnum):
    """What a point is of its row."""

    begin = 0
    """The first thing a thread did."""
    call = 1
    returned = 2
    gpu_start = 3
    gpu_end = 4
    complete = 5
    """The last of those who take part in a collective has come; it has no row."""


class Inferred(NamedTuple):
    """What is inferred of a rank: number of waits from the order of calls, and from times alone; and notes."""

    inferred: int
    guessed: int
    notes: list[str]


@dataclass(frozen=True, eq=False, repr=False)
class RankPoints:
    """Points and edges of one rank, on its own clock.

    Attributes:
        time: per point the moment, ns.
        role, row: per point what it is, and its row.
        before, after, kind: per edge its points and its `Edge`.
        gpu_rows: rows of its GPU events, ascending.
        gpu_start, gpu_end: their points.
        about: what is inferred of them, and what a reader must know.
    """

    time: np.ndarray
    role: np.ndarray
    row: np.ndarray
    before: np.ndarray
    after: np.ndarray
    kind: np.ndarray
    gpu_rows: np.ndarray
    gpu_start: np.ndarray
    gpu_end: np.ndarray
    about: Inferred


def rank_points(core: Core) -> RankPoints:
    """The points of a rank, and every edge between them that its trace shows."""
    c = core.columns
    queue = GpuQueue(core)
    waits = waits_of(core, queue)
    end_ns = _returns(c.end_ns, *waits.host, queue)
    launches = np.zeros(len(c), bool)
    launches[queue.launch[queue.launch >= 0]] = True
    returns = np.zeros(len(c), bool)
    returns[waits.host[0]] = True
    calls, returning = np.flatnonzero(launches | returns), np.flatnonzero(returns)
    begin = _first_of_threads(core, calls)
    count = len(queue.rows)
    points = _Collected()
    for of, rows, moment in (
        (Role.begin, begin, c.start_ns), (Role.call, calls, c.start_ns), (Role.returned, returning, end_ns),
        (Role.gpu_start, queue.rows, c.start_ns), (Role.gpu_end, queue.rows, end_ns),
    ):  # fmt: skip
        points.add(of, moment[rows], rows)
    host = len(begin) + len(calls) + len(returning)
    start, end = host + np.arange(count), host + count + np.arange(count)
    call_point = np.full(len(c) + 1, -1)
    call_point[calls] = len(begin) + np.arange(len(calls))
    return_point = np.full(len(c) + 1, -1)
    return_point[returning] = len(begin) + len(calls) + np.arange(len(returning))

    edges = _Collected()
    time, row, role = points.joined()
    _chain_threads(core, time[:host], row[:host], role[:host], edges)
    launched = np.flatnonzero(queue.launch >= 0)
    edges.add(Edge.launch, call_point[queue.launch[launched]], start[launched])
    same = np.flatnonzero(queue.lane[1:] == queue.lane[:-1])
    edges.add(Edge.stream, end[same], start[same + 1])
    waiting, awaited = waits.device
    unexplained = _unexplained(core, queue, waiting, awaited)
    waiting, awaited = np.concatenate((waiting, unexplained[0])), np.concatenate((awaited, unexplained[1]))
    edges.add(Edge.event, end[awaited], start[waiting])
    edges.add(Edge.sync, end[waits.host[1]], return_point[waits.host[0]])
    edges.add(Edge.maybe, end[waits.maybe[1]], start[waits.maybe[0]])
    edges.add(Edge.run, start, end)
    before, after, kind = edges.joined()
    order = np.argsort(queue.rows)
    return RankPoints(
        time,
        role,
        row,
        before,
        after,
        kind,
        queue.rows[order],
        start[order],
        end[order],
        Inferred(waits.inferred, len(unexplained[0]), waits.notes),
    )


_AHEAD_NS = 10_000
"""The GPU's clock may be some us ahead, so that what a call waited for seems to end so much after it returned."""


def _returns(end_ns: Ns, calls: Rows, awaited: Rows, queue: GpuQueue) -> Ns:
    """Ends of all rows, of calls that wait no sooner than what they wait for."""
    ahead = (queue.end_ns[awaited] > end_ns[calls]) & (queue.end_ns[awaited] <= end_ns[calls] + _AHEAD_NS)
    found = end_ns.copy()
    np.maximum.at(found, calls[ahead], queue.end_ns[awaited[ahead]])
    return found


class _Collected:
    """Points, or edges, as they are collected: two arrays of each kind."""

    def __init__(self) -> None:
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, kind: Role | Edge, one: np.ndarray, other: np.ndarray) -> None:
        """Some of a kind."""
        self._parts.append((one, other, np.full(len(one), kind, np.int8)))

    def joined(self) -> tuple[np.ndarray, ...]:
        """The first and the second arrays, and kinds."""
        return tuple(np.concatenate(part) for part in zip(*self._parts, strict=True))


UNEXPLAINED_NS = 20_000
"""GPU work that starts this long after all that it is known to follow from has waited for something else."""


def _unexplained(
    core: Core, queue: GpuQueue, waiting: np.ndarray, awaited: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """GPU work that nothing recorded explains, and the work of another stream of its device that ended just before.

    Within a graph launch, for one, nothing shows which stream waits for which.
    """
    left = np.flatnonzero(queue.explained_ns(waiting, awaited) < queue.start_ns - UNEXPLAINED_NS)
    if not len(left):
        return left, left
    by_end = np.argsort(queue.end_ns, kind="stable")
    # Nothing is done with what is sent, so a send is the cause only where nothing else ended then.
    others = by_end[queue.kinds[by_end] != "send"]
    first = _just_before(core, queue, left, others)
    rest = np.setdiff1d(left, first[0], assume_unique=True)
    second = _just_before(core, queue, rest, by_end)
    return np.concatenate((first[0], second[0])), np.concatenate((first[1], second[1]))


def _just_before(core: Core, queue: GpuQueue, left: Rows, by_end: Rows) -> tuple[Rows, Rows]:
    """Of some GPU work that whose last work of other streams, in the order of ends, ended just before it; and this."""
    at = np.searchsorted(queue.end_ns[by_end], queue.start_ns[left], "right") - 1
    left, other = left[at >= 0], by_end[at[at >= 0]]
    device = core.columns.device[queue.rows]
    fits = (queue.end_ns[other] >= queue.start_ns[left] - JUST_BEFORE_NS) & (queue.lane[other] != queue.lane[left])
    fits &= device[other] == device[left]
    return left[fits], other[fits]


def _first_of_threads(core: Core, calls: np.ndarray) -> np.ndarray:
    """Row of the first host event of every thread that has calls, or of the mark of its step; in the order of threads.

    Of JAX that is the first behind the profiler's own start.
    """
    c = core.columns
    counts = np.zeros(len(core.threads) + 1, bool)
    counts[c.thread[calls]] = True
    hosts = host_rows(c)
    hosts = hosts[counts[c.thread[hosts]]]
    if core.framework.launches_from_pool:
        hosts = hosts[~_of_profiler(core, hosts)]
    order = np.lexsort((hosts, c.start_ns[hosts], c.thread[hosts]))
    thread = c.thread[hosts[order]]
    first = hosts[order][np.flatnonzero(np.diff(thread, prepend=-1))]
    mark = core.step[first]
    return np.where((mark >= 0) & (c.thread[mark] == c.thread[first]), mark, first)


def _of_profiler(core: Core, rows: np.ndarray) -> np.ndarray:
    """Which of ascending rows lie in frames of the profiler, those included."""
    profiling = calls_of(core).spans[PROFILER]
    reach = (
        np.concatenate(([-1], np.maximum.accumulate(core.columns.last[profiling])))
        if len(profiling)
        else np.array([-1])
    )
    found: np.ndarray = reach[np.searchsorted(profiling, rows, "right")] >= rows
    return found


def _chain_threads(core: Core, time: np.ndarray, row: np.ndarray, role: np.ndarray, edges: _Collected) -> None:
    """Edges along each thread, and between threads where one works for the other."""
    thread = core.columns.thread[row].astype(np.int64)
    # Roles ascend in the order of time, so that a call without a length still begins before it returns.
    order = np.lexsort((role, row, time, thread))
    before, after = order[:-1], order[1:]
    same = thread[before] == thread[after]
    before, after = before[same], after[same]
    in_call = (role[after] == Role.returned) & (role[before] == Role.call) & (row[after] == row[before])
    edges.add(Edge.call, before[in_call], after[in_call])
    edges.add(Edge.host, before[~in_call], after[~in_call])
    own = np.full(len(time), np.iinfo(np.int64).min)
    own[after] = time[before]
    of_thread = {code: order_of[np.argsort(time[order_of], kind="stable")] for code, order_of in positions_by(thread)}
    for source, target in _handovers(core, sorted(of_thread)):
        given, taken = of_thread[source], of_thread[target]
        taken = taken[role[taken] != Role.returned]
        if core.framework.launches_from_pool:  # a thread of a pool goes by itself through what it was given
            taken = taken[own[taken] < _begin_of_roots(core, row[taken])]
        at = np.searchsorted(time[given], time[taken], "right") - 1
        taken, at = taken[at >= 0], at[at >= 0]
        later = (time[given[at]] > own[taken]) & (given[at] != taken)
        edges.add(Edge.host, given[at][later], taken[later])


def _handovers(core: Core, threads: list[int]) -> list[tuple[int, int]]:
    """Pairs of threads: the second goes on where the first one was; both ways where they work in turns.

    In JAX that is the thread of Python and those of the pool that it gives work to.
    """
    if core.framework.launches_from_pool:
        dispatcher = calls_of(core).dispatcher
        return [(dispatcher, thread) for thread in threads if thread != dispatcher and dispatcher in threads]
    return [way for pair in sorted(_working_pairs(core, threads)) for way in (pair, pair[::-1])]


def _begin_of_roots(core: Core, rows: np.ndarray) -> np.ndarray:
    """Start of the outermost call around each row."""
    c = core.columns
    first = np.flatnonzero(c.parent < 0)
    start: np.ndarray = c.start_ns[first[np.searchsorted(first, rows, "right") - 1]]
    return start


def _working_pairs(core: Core, threads: list[int]) -> set[tuple[int, int]]:
    """Pairs of threads: one waits while the other works: of the forward and of the backward pass.

    Known by ops whose forward and backward sides are linked; without such links by what autograd calls its work, and
    then the thread of the process that calls most counts as the forward one. Without either, the threads of a process
    that make their calls in long turns work in turns.
    """
    if len(threads) < 2:
        return set()
    c = core.columns
    links = autograd_of(core)
    known = set(threads)
    pairs = {
        (min(pair), max(pair))
        for pair in set(zip(c.thread[links.forward].tolist(), c.thread[links.backward].tolist(), strict=True))
        if pair[0] != pair[1] and known.issuperset(pair)
    }
    if pairs:
        return pairs
    ops = np.flatnonzero((c.kind == Kind.Op) & np.isin(c.thread, threads))
    of_autograd = np.array([name.startswith(ENGINE) for name in core.names], bool)
    backward = set(c.thread[ops[of_autograd[c.name[ops]]]].tolist())
    process = process_of_thread(core.threads)
    calls = np.bincount(c.thread[np.flatnonzero(c.kind == Kind.RuntimeCall)], minlength=len(core.threads))
    for thread in backward:
        forward = [one for one in threads if one not in backward and process[one] == process[thread]]
        if forward:
            main = max(forward, key=lambda one: int(calls[one]))
            pairs.add((min(main, thread), max(main, thread)))
    return pairs or _pairs_in_turns(core, threads, process)


_CALLS_A_TURN = 2


def _pairs_in_turns(core: Core, threads: list[int], process: np.ndarray) -> set[tuple[int, int]]:
    """Threads that make their calls in turns with the one of their process that makes most, and never while it calls.

    Threads that work by themselves call while others do, or once at a time.
    """
    c = core.columns
    calls = np.flatnonzero(is_kind(c.kind, (Kind.RuntimeCall,)) & np.isin(c.thread, threads))
    calls = calls[np.argsort(c.start_ns[calls], kind="stable")]
    pairs = set()
    for _, of in positions_by(process[c.thread[calls]]):
        by = c.thread[calls[of]].astype(np.int64)
        count = np.bincount(by)
        main = int(count.argmax())
        for thread in np.flatnonzero(count).tolist():
            both = calls[of][(by == main) | (by == thread)]
            turn = np.flatnonzero(np.diff(c.thread[both]))
            at_once = c.start_ns[both[turn + 1]] < c.end_ns[both[turn]]
            if thread != main and count[thread] >= _CALLS_A_TURN * len(turn) / 2 and not at_once.any():
                pairs.add((min(main, thread), max(main, thread)))
    return pairs
