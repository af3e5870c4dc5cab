"""Who waits for GPU work of a rank: other streams, and calls of the host that return when it is done.

Both stand in `cuda_sync` rows, where the profiler was asked for them (`enable_cuda_sync_events`). Without them the
calls are there, but not which stream they concern; then waits are inferred from the order of calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from tracelens_graph.analyses.critical_path.gpu_queue import GpuQueue
from tracelens_graph.analyses.idle.host_states import SYNCHRONIZATION
from tracelens_graph.analyses.idle.idle import calls_of
from tracelens_graph.analyses.shared.gpu_work import gpu_categories
from tracelens_graph.errors import ChangedTraceError
from tracelens_graph.graph.arrays import distinct, positions_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.edges import edge_rows
from tracelens_graph.graph.window import whole_window
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Mask, Rows

_STREAM_WAIT = re.compile(r"StreamWaitEvent$")
_RECORD = re.compile(r"EventRecord(WithFlags)?$")
_DEVICE_SYNC = re.compile(r"(?:Device|Ctx)Synchronize$")
_STREAM_SYNC = re.compile(r"(?:Stream|Event)Synchronize$")
_TO_HOST_BLOCKING = re.compile(r"DtoH.*Pageable|Device ?(?:->|To) ?Host.*Pageable", re.IGNORECASE)
_ANY_STREAM = 2**32 - 1
_NONE = np.zeros(0, np.int64)
Pairs = tuple[np.ndarray, np.ndarray]
_NO_PAIRS: Pairs = _NONE, _NONE


@dataclass(frozen=True, eq=False)
class Waits:
    """Waits of one rank; GPU events are positions in `GpuQueue.rows`.

    Attributes:
        device: waiting and awaited GPU events: one starts no sooner than the other has ended.
        host: rows of calls, and GPU events that have ended when they return.
        maybe: the same of communication that nothing is known to wait for, and what may; none where waits are recorded.
        inferred: how many waits between streams are inferred from the order of calls.
        notes: what a reader must know.
    """

    device: Pairs
    host: Pairs
    maybe: Pairs = _NO_PAIRS
    inferred: int = 0
    notes: list[str] = field(default_factory=list)


class _Calls:
    """Runtime calls that match patterns by name; names are looked at once each."""

    def __init__(self, core: Core) -> None:
        self._core = core
        c = core.columns
        self._rows = np.flatnonzero(c.kind == Kind.RuntimeCall)
        self._codes, self._place = distinct(c.name[self._rows])

    def named(self, pattern: re.Pattern[str]) -> np.ndarray:
        """Rows of the calls whose name fits, ascending."""
        fits = [pattern.search(self._core.names[code]) is not None for code in self._codes.tolist()]
        return self._rows[np.array(fits, bool)[self._place]] if fits else self._rows[:0]


def waits_of(core: Core, queue: GpuQueue) -> Waits:
    """All waits of a rank, as recorded; what is not recorded is inferred, and counted."""
    notes: list[str] = []
    calls = _Calls(core)
    recorded = _recorded(core, notes)
    device, host, recorded_calls = _of_records(core, queue, recorded)
    stream_waits = calls.named(_STREAM_WAIT)
    inferred = 0
    if not any(sync.kind == "stream wait event" for sync in recorded) and len(stream_waits):
        pairs = _inferred(core, queue, stream_waits, calls.named(_RECORD))
        inferred = int((pairs[1] >= 0).sum())
        device.append(pairs)
    elif not recorded and not len(stream_waits) and not len(core.depends_on):
        pairs = _by_order(core, queue)
        inferred = len(pairs[0])
        device.append(pairs)
    host += _host_waits(core, queue, calls, recorded_calls)
    depends = core.depends_on
    if len(depends):
        place = np.full(len(core.columns) + 1, -1)
        place[queue.rows] = np.arange(len(queue.rows))
        device.append((place[depends[:, 0]], place[depends[:, 1]]))
    joined = _joined(device)
    maybe = _NO_PAIRS if recorded else _maybe(queue, joined[1])
    return Waits(joined, _joined(host), maybe, inferred, notes)


_LEAST_OFTEN, JUST_BEFORE_NS = 3, 10_000
"""So often something holds by no chance; work that starts this soon behind other work has waited for it."""


def _by_order(core: Core, queue: GpuQueue) -> Pairs:
    """Waits of a trace that records none: communication waits for the work launched before it.

    The work launched behind it waits for it where that holds each time that a stream communicates in one kind, often
    enough or right behind; for what is sent, which nobody needs, right behind alone. Else what another thread, or an
    optimizer, launches next does: gradients are reduced beside the backward pass, and waited for behind it.
    """
    order = queue.by_launch
    communicates = queue.communicates[order]
    place = np.arange(len(order))
    before = np.maximum.accumulate(np.where(communicates, -1, place))
    behind = np.minimum.accumulate(np.where(communicates, len(order), place)[::-1])[::-1]
    own = np.flatnonzero(communicates)
    one, other = order[own[before[own] >= 0]], order[before[own][before[own] >= 0]]
    follows = queue.end_ns[other] <= queue.start_ns[one]
    waiting, awaited = [one[follows]], [other[follows]]
    explained = queue.explained_ns(*_NO_PAIRS)
    handed = cache(lambda: _handed_over(core, queue, order))
    group = np.unique(queue.lane[order[own]], return_inverse=True)[1] * (len(own) + 1)
    for _, of in positions_by(group + np.unique(queue.kinds[order[own]], return_inverse=True)[1]) if len(own) else ():
        is_sent = queue.kinds[order[own[of[0]]]] == "send"
        for follower, least_often in ((lambda: behind, _LEAST_OFTEN), (handed, 1)):
            at = own[of][follower()[own[of]] < len(order)]
            one, other = order[follower()[at]], order[at]
            late_ns = queue.start_ns[one] - queue.end_ns[other]
            is_right_behind = (late_ns < JUST_BEFORE_NS) & (queue.end_ns[other] > explained[one])
            if (late_ns >= 0).all() and ((len(at) >= least_often and not is_sent) or is_right_behind.any()):
                waiting.append(one)
                awaited.append(other)
                break
    return np.concatenate(waiting), np.concatenate(awaited)


def _handed_over(core: Core, queue: GpuQueue, order: Rows) -> Rows:
    """Behind each launch the next one by another thread, or by an optimizer, but for transfers; their number for none.

    Nobody waits for what is sent, and a rank waits for nothing to send it.
    """
    last = len(order)
    thread = core.columns.thread[queue.launch[order]]
    category, of = gpu_categories(whole_window(core))
    others = np.flatnonzero(~_transfers(queue, order))
    optimizes = np.array([name == "Optimizer" for name in category], bool)[of[queue.rows[order[others]]]]
    turns, steps = others[np.flatnonzero(np.diff(thread[others])) + 1], others[optimizes]
    place = np.arange(last)
    follows = np.append(others, last)[np.searchsorted(others, place, "right")]
    next_turn, next_step = (np.append(one, last)[np.searchsorted(one, place, "right")] for one in (turns, steps))
    is_turn = np.append(thread, -1)[follows] != thread
    return np.minimum(np.where(is_turn, follows, next_turn), next_step)


def _transfers(queue: GpuQueue, order: Rows) -> Mask:
    """Which events send to another rank, or receive from one."""
    return np.isin(queue.kinds[order], ("send", "recv"))


def _maybe(queue: GpuQueue, awaited: Rows) -> Pairs:
    """Communication that nothing is known to wait for, and what computes behind it and began when it had ended."""
    order = queue.by_launch
    computes = np.flatnonzero(~queue.communicates[order])
    at = np.flatnonzero(queue.communicates[order] & ~_transfers(queue, order) & ~np.isin(order, awaited))
    behind = np.searchsorted(computes, at)
    at, behind = at[behind < len(computes)], behind[behind < len(computes)]
    lane, other = queue.lane[order[computes[behind]]], order[at]
    waiting = np.full(len(at), -1)
    last = np.append(queue.first[1:], len(queue.rows))
    for number, of in positions_by(lane):
        first = queue.first[number]
        found = first + np.searchsorted(queue.start_ns[first : last[number]], queue.end_ns[other[of]])
        waiting[of] = np.where(found < last[number], found, -1)
    launched = (waiting >= 0) & (queue.launch[waiting] >= 0)
    return waiting[launched], other[launched]


def _joined(pairs: list[Pairs]) -> Pairs:
    if not pairs:
        return _NO_PAIRS
    one, other = (np.concatenate(side).astype(np.int64) for side in zip(*pairs, strict=True))
    both = (one >= 0) & (other >= 0)
    return one[both], other[both]


@dataclass(frozen=True)
class _Sync:
    """A synchronisation as recorded: its kind in lower case, its call, and what it waits for."""

    kind: str
    call: int
    device: int
    stream: int
    awaited_stream: int | None
    record: int | None
    """Correlation id of the call that recorded the event waited for."""


def _recorded(core: Core, notes: list[str]) -> list[_Sync]:
    c = core.columns
    calls, rows = edge_rows(core, "SYNCS")
    if not len(rows):
        return []
    try:
        events: Mapping[int, dict[str, Any]] = core.details.events(c.uid[rows].tolist())
    except ChangedTraceError as error:
        notes.append(f"{error}; which streams waited is inferred")
        events = {}
    found = []
    for call, row in zip(calls.tolist(), rows.tolist(), strict=True):
        args = events.get(int(c.uid[row]), {}).get("args")
        args = args if isinstance(args, dict) else {}
        kind = str(args.get("cuda_sync_kind") or core.names[c.name[row]]).lower()
        if kind == "stream wait event" and "wait_on_stream" not in args:
            continue
        device, stream = int(c.device[row]), int(c.stream[row])
        awaited, record = _number(args.get("wait_on_stream")), _number(args.get("wait_on_cuda_event_record_corr_id"))
        found.append(_Sync(kind, call, device, -1 if stream == _ANY_STREAM else stream, awaited, record))
    return found


def _number(value: Any) -> int | None:
    """A stream or an id; None for anything that is none."""
    return value if type(value) is int and 0 <= value < _ANY_STREAM else None


def _of_records(core: Core, queue: GpuQueue, syncs: list[_Sync]) -> tuple[list[Pairs], list[Pairs], set[int]]:
    """Waits between streams, waits of the host, and the calls that were recorded with what they wait for."""
    c = core.columns
    called = np.flatnonzero((c.kind == Kind.RuntimeCall) & (c.correlation != -1))
    call_of = dict(zip(c.correlation[called].tolist(), called.tolist(), strict=True))
    device: list[tuple[int, int, int, int]] = []
    host: list[tuple[int, int, int]] = []
    recorded_calls = set()
    for sync in syncs:
        begun = int(c.start_ns[sync.call])
        record = call_of.get(sync.record, -1) if sync.record is not None else -1
        # An event stands for what was launched before it was recorded, not before it was waited for.
        before = int(c.start_ns[record]) if record >= 0 and c.start_ns[record] <= begun else begun
        of = queue.lane_of(sync.device, sync.awaited_stream) if sync.awaited_stream is not None else -1
        if sync.kind == "stream wait event":
            device.append((queue.lane_of(sync.device, sync.stream), begun, of, before))
            continue
        recorded_calls.add(sync.call)
        if "Query" in core.names[c.name[sync.call]]:
            continue  # asks without waiting
        if sync.kind == "context sync":
            lanes, before = queue.lanes_of(sync.device), begun
        elif sync.kind == "stream sync":
            lanes, before = [queue.lane_of(sync.device, sync.stream)], begun
        else:
            lanes = [of]
        host += [(sync.call, lane, before) for lane in lanes]
    waiting, behind, awaited, until = np.array(device, np.int64).reshape(-1, 4).T
    call, lane, at = np.array(host, np.int64).reshape(-1, 3).T
    pairs = queue.first_after(waiting, behind), queue.last_before(awaited, until)
    return [pairs], [(call, queue.last_before(lane, at))], recorded_calls


def _host_waits(core: Core, queue: GpuQueue, calls: _Calls, recorded_calls: set[int]) -> list[Pairs]:
    """Waits of calls that no row records: by what they are called, and of copies that block."""
    c = core.columns
    found: list[Pairs] = []
    unrecorded = [rows[~np.isin(rows, list(recorded_calls))] for rows in map(calls.named, (_DEVICE_SYNC, _STREAM_SYNC))]
    for rows, of_all in zip(unrecorded, (True, False), strict=True):
        if len(rows) and queue.lanes:
            last = queue.last_before(
                np.tile(np.arange(queue.lanes), len(rows)), np.repeat(c.start_ns[rows], queue.lanes)
            )
            found += (
                [(np.repeat(rows, queue.lanes), last)] if of_all else [(rows, _last_ended(core, queue, rows, last))]
            )
    if core.framework.waits_in_functions:
        found.append(_waits_of_jax(core, queue))
    copies = np.flatnonzero((c.kind[queue.rows] == Kind.Memcpy) & (queue.launch >= 0))
    code, place = distinct(c.name[queue.rows[copies]])
    blocking = np.array([_TO_HOST_BLOCKING.search(core.names[one]) is not None for one in code.tolist()], bool)
    copies = copies[blocking[place]] if len(code) else copies
    # A call that returned before its copy had ended did not block, whatever the memory.
    copies = copies[c.end_ns[queue.launch[copies]] >= queue.end_ns[copies]]
    found.append((queue.launch[copies], copies))
    return found


def _waits_of_jax(core: Core, queue: GpuQueue) -> Pairs:
    """Outermost calls of Python that wait for results, and what ended last before they returned.

    They begin while threads of a pool still launch what they wait for, so launches show nothing.
    """
    c, calls = core.columns, calls_of(core)
    rows = np.flatnonzero((calls.state == SYNCHRONIZATION) & (c.thread == calls.dispatcher))
    above = c.parent[rows]
    rows = rows[(above < 0) | (calls.state[above] != SYNCHRONIZATION)]
    by_end = np.argsort(queue.end_ns, kind="stable")
    at = np.searchsorted(queue.end_ns[by_end], c.end_ns[rows], "right") - 1
    rows, last = rows[at >= 0], by_end[at[at >= 0]]
    waited = queue.end_ns[last] > c.start_ns[rows]
    return rows[waited], last[waited]


def _last_ended(core: Core, queue: GpuQueue, calls: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Of the last work of each stream before a call, what ended last before the call returned; -1 for none.

    A call that waits for a stream does not name it, but it returns right after that has ended.
    """
    ended = np.where(last >= 0, queue.end_ns[last], -1).reshape(len(calls), queue.lanes)
    ended[ended > core.columns.end_ns[calls][:, None]] = -1
    best = ended.argmax(axis=1)
    there = ended[np.arange(len(calls)), best] >= 0
    return np.where(there, last.reshape(len(calls), queue.lanes)[np.arange(len(calls)), best], -1)


def _inferred(core: Core, queue: GpuQueue, waits: np.ndarray, records: np.ndarray) -> Pairs:
    """What calls of `cudaStreamWaitEvent` without a stream make wait, by the order of calls.

    The work that is launched next waits. If it communicates, then for the last work launched before the event was
    recorded that does not; else for the last work before it on another stream, which has to have ended: that is
    usually a collective whose result is needed.
    """
    c = core.columns
    order = queue.by_launch
    when = c.start_ns[queue.launch[order]]
    begun = c.start_ns[waits]
    thread_time = np.lexsort((c.start_ns[records], c.thread[records]))
    records = records[thread_time]
    marked = begun.copy()
    for code, asked in positions_by(c.thread[waits]):
        own = records[c.thread[records] == code]
        if len(own):
            at = np.searchsorted(c.start_ns[own], begun[asked], "right") - 1
            marked[asked] = np.where(at >= 0, c.start_ns[own[at]], begun[asked])
    after = np.searchsorted(when, begun)
    there = after < len(order)
    waiting = np.where(there, order[np.minimum(after, len(order) - 1)], -1) if len(order) else np.full(len(waits), -1)
    found = np.full(len(waits), -1, np.int64)
    for place, (follower, mark, at) in enumerate(zip(waiting.tolist(), marked.tolist(), begun.tolist(), strict=True)):
        if follower >= 0:
            found[place] = _awaited(queue, order, when, follower, mark, at)
    return waiting, found


_LOOKED_BACK = 256
"""How many launches before a call are looked at for the one whose event it waits for."""


def _awaited(queue: GpuQueue, order: np.ndarray, when: np.ndarray, follower: int, mark: int, at: int) -> int:
    communicates = bool(queue.communicates[follower])
    until = int(np.searchsorted(when, mark if communicates else at))
    for position in order[max(until - _LOOKED_BACK, 0) : until][::-1].tolist():
        if queue.lane[position] == queue.lane[follower] or queue.end_ns[position] > queue.start_ns[follower]:
            continue
        if bool(queue.communicates[position]) != communicates:
            return int(position)
    return -1
