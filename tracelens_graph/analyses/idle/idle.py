"""Why the GPU stood idle: what the host did in every gap, instead of giving it work.

A gap ends with a GPU event. Until the launch call of that event began, the gap is due to what the launching thread
did; from then on, to the launch. While the launching thread was not there (autograd's before the backward pass), the
one that launched the event before the gap is looked at. A gap is split by what covers it, in whole nanoseconds, so
the causes add up to the idle time exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import IntEnum

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.idle.between_steps import STATES_WITH_WORK, WORK, HostWork, are_between_steps
from tracelens_graph.analyses.idle.host_states import (
    ALLOCATION,
    COMPILATION,
    COPY_TO_DEVICE,
    DATA_LOADER,
    LAUNCH,
    PROFILER,
    PYTHON,
    STATES,
    SYNCHRONIZATION,
    Calls,
    Clock,
    ends,
)
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import Intervals, merge, union_length
from tracelens_graph.graph.iterations import iterations_of, left_out_of
from tracelens_graph.graph.traversals import launches_of
from tracelens_graph.graph.window import Window, whole_window, window_of
from tracelens_graph.output.files import TOOL
from tracelens_graph.schema import Kind
from tracelens_graph.schema.facts import CAUSES
from tracelens_graph.utils.arrays import Codes, Mask


class Cause(IntEnum):
    """What idle time is due to."""

    outside = 0
    data_loader = 1
    profiler = 2
    synchronization = 3
    host_to_device_copy = 4
    allocation = 5
    launches = 6
    python = 7
    queued = 8
    unknown_no_launch = 9
    unknown_not_recorded = 10
    unknown_late_start = 11
    compilation = 12
    detokenise = 13
    sampling = 14
    prepare = 15
    output = 16
    scheduler = 17


CAUSE_MEANING = {Cause[name]: meaning for name, meaning in CAUSES.items()}
"""Each cause in words."""

LONGEST_START_NS = 100_000
"""An idle GPU starts work microseconds, at most some tens, after its launch call returned. What takes longer than this
has another reason, which the trace does not show."""
LONGEST_BETWEEN_NS = 20_000
"""From one piece of queued work to the next a GPU takes microseconds, too; longer gaps are not explained by that."""

OF_STATE = {
    Cause.data_loader: DATA_LOADER,
    Cause.profiler: PROFILER,
    Cause.synchronization: SYNCHRONIZATION,
    Cause.host_to_device_copy: COPY_TO_DEVICE,
    Cause.allocation: ALLOCATION,
    Cause.launches: LAUNCH,
    Cause.python: PYTHON,
    Cause.compilation: COMPILATION,
    **{Cause[work]: STATES + number for number, work in enumerate(WORK)},
}
"""Causes that follow from what a thread does; its work between the steps of a server counts there alone."""

BETWEEN_STEPS = tuple(Cause[work] for work in WORK)
"""Causes that only gaps between the steps of a server have."""

UNKNOWN = (Cause.unknown_no_launch, Cause.unknown_not_recorded, Cause.unknown_late_start)
"""No known cause, and why."""


@dataclass(frozen=True)
class Idle:
    """The idle gaps of the devices, by device and time, and what each is due to.

    A gap is a stretch in which a device runs nothing, between its first start and its last end.

    Attributes:
        start, end: of the gaps, ns.
        row: the GPU event that ends each gap.
        before: the GPU event that started last before it: what the host had launched last.
        ended: the GPU event that ended last before it, where the gap begins.
        parts: ns by cause (row) and gap (column); the column of a gap adds up to its length.
        waited: row of the waiting call in which each gap began, -1 for none.
        total_ns: from the first start to the last end of a device, added up over devices.
    """

    start: np.ndarray
    end: np.ndarray
    row: np.ndarray
    before: np.ndarray
    ended: np.ndarray
    parts: np.ndarray
    waited: np.ndarray
    total_ns: int


def idle_parts(g: Core | Window) -> Idle:
    """The idle gaps, each split over its causes."""
    w = window_of(g)
    return w.once(_idle_parts)


def _idle_parts(w: Window) -> Idle:
    if w.all_iterations is not None:  # time of the others lies between theirs: neither idle nor work of these
        return ended_by(w, idle_parts(w.all_iterations))
    device = w.core.columns.device[w.gpu_rows]
    idle = joined(_of_device(w, w.gpu_rows[positions]) for _, positions in positions_by(device))
    if (left_out := left_out_of(w.core)) is None:
        return idle
    of, behind = iterations_of(w.core).of, np.append(left_out.behind, False)
    return ended_by(w, idle, ~behind[of[idle.row]] | (of[idle.row] == of[idle.ended]))


def leading_causes(idle: Idle) -> Codes:
    """Of each gap the cause that most of it is due to."""
    return idle.parts.argmax(axis=0) if len(idle.row) else idle.row


def ended_by(w: Window, idle: Idle, chosen: Mask | bool = True) -> Idle:
    """The gaps that end with work of a window, out of all or those chosen; the total is its work and these gaps."""
    own, c, rows = w.holds(idle.row) & chosen, w.core.columns, w.gpu_rows
    columns = {part.name: getattr(idle, part.name)[..., own] for part in fields(Idle) if part.name != "total_ns"}
    columns["parts"][Cause.outside] = 0
    busy = sum(union_length(c.start_ns[rows[at]], c.end_ns[rows[at]]) for _, at in positions_by(c.device[rows]))
    return Idle(**columns, total_ns=busy + int(columns["parts"].sum()))


def joined(parts: Iterable[Idle]) -> Idle:
    """Gaps of several devices, or of several kinds, as one."""
    none = np.zeros(0, np.int64)
    every = [Idle(none, none, none, none, none, np.zeros((len(Cause), 0), np.int64), none, 0), *parts]
    total_ns = sum(idle.total_ns for idle in every)
    with_gaps = [idle for idle in every if len(idle.row)]
    if len(with_gaps) == 1:  # shares the arrays, which are the largest that a report makes
        return replace(with_gaps[0], total_ns=total_ns)
    columns = {
        part.name: np.concatenate([getattr(idle, part.name) for idle in every], axis=-1)
        for part in fields(Idle)
        if part.name != "total_ns"
    }
    return Idle(**columns, total_ns=total_ns)


def behind_cut_off_work(w: Window) -> int | None:
    """Where to begin if the device first ran work that is not in the file, ns; None where all is there."""
    return w.once(_behind_cut_off_work)


def _behind_cut_off_work(w: Window) -> int | None:
    core, c, idle = w.core, w.core.columns, idle_parts(w)
    if not len(idle.row):
        return None
    length = idle.end - idle.start
    longest = int(length.argmax())
    call, start = launches_of(c, idle.row[longest : longest + 1])[0], idle.start[longest]
    within = int(c.start_ns[w.gpu_rows].min()) + limits.CUT_OFF_WITHIN_PERCENT / 100 * idle.total_ns
    if length[longest] < limits.CUT_OFF_PERCENT / 100 * int(length.sum()) or start > within:
        return None
    launched_within = start + limits.CUT_OFF_WITHIN_PERCENT / 100 * length[longest]
    if call < 0 or ends(core, np.array([call]))[0] > launched_within:
        return None
    return int(idle.end[longest])


def edge_parts(w: Window) -> Idle:
    """What the host did in the steps before the first GPU work, and behind the last.

    Two gaps per device at most; none without steps, and none in a piece that was cut out of a trace: there steps keep
    their lengths, but what lies in them before and behind the piece is gone. The first begins no sooner than the device
    ended work that is not in the window. What is behind the last GPU event follows from what the thread did that
    launched it. Where the end of the file is missing, there is no such gap: GPU work may be lost with it.
    """
    return w.once(_edge_parts)


def _edge_parts(w: Window) -> Idle:
    c, steps = w.core.columns, w.rows_of_kind(Kind.Step)
    if str(w.core.info.metadata.get("generator", "")).startswith(f"{TOOL} "):
        steps = steps[:0]
    device = c.device[w.gpu_rows]
    return joined(_edges(w, w.gpu_rows[positions], steps) for _, positions in positions_by(device) if len(steps))


def _rows_by_device(everything: Window) -> dict[int, np.ndarray]:
    """Device -> rows of its GPU events, ascending."""
    rows = everything.gpu_rows
    return {number: rows[positions] for number, positions in positions_by(everything.core.columns.device[rows])}


def _edges(w: Window, rows: np.ndarray, steps: np.ndarray) -> Idle:
    core, c = w.core, w.core.columns
    end = ends(core, rows)
    first, last = rows[[c.start_ns[rows].argmin()]], rows[[end.argmax()]]
    start, end = c.start_ns[first], end.max(keepdims=True)
    device = whole_window(core).once(_rows_by_device)[int(c.device[first[0]])]
    earlier = device[c.start_ns[device] < start]
    begin = np.maximum(c.start_ns[steps].min(keepdims=True), ends(core, earlier).max(initial=0))
    done = ends(core, steps).max(keepdims=True)
    found = []
    if begin < start:
        found.append(Idle(begin, start, first, first, first, *_split(w, begin, start, first, first, first), 0))
    if done > end and not core.info.gpu_ends_early:
        found.append(Idle(end, done, last, last, last, _behind(core, last, end, done), np.array([-1]), 0))
    return joined(found)


def _behind(core: Core, last: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Parts by cause of the time behind the last GPU event, by the states of the thread that launched it."""
    parts, states = np.zeros((len(Cause), 1), np.int64), np.zeros((STATES_WITH_WORK, 1), np.int64)
    call, calls = core.columns.parent[last], calls_of(core)
    if call >= 0:
        always = Clock((begin[:0], end[:0]))
        calls.timelines(always).add_spent(core.columns.thread[call], begin, end, states)
    for cause, state in OF_STATE.items():
        parts[cause] = states[state]
    parts[Cause.unknown_not_recorded] = end - begin - parts.sum(axis=0)
    return parts


def _of_device(w: Window, rows: np.ndarray) -> Idle:
    """The gaps between the GPU events of one device."""
    c = w.core.columns
    # Rows without a launch come last: of events that start together, one with a launch ends the gap.
    rows = rows[np.argsort(c.start_ns[rows], kind="stable")]
    start = c.start_ns[rows]
    over = start + c.dur_ns[rows]
    reach = np.maximum.accumulate(over)
    # Where its end is the running maximum, an event set that; of equal ends the later one counts.
    latest = np.maximum.accumulate(np.where(over == reach, np.arange(len(rows)), 0))
    at = np.flatnonzero(start[1:] > reach[:-1])
    begin, end, row, before, ended = reach[at], start[at + 1], rows[at + 1], rows[at], rows[latest[at]]
    parts, waited = _split(w, begin, end, row, before, ended)
    return Idle(begin, end, row, before, ended, parts, waited, int(reach[-1] - start[0]))


def _split(
    w: Window, begin: np.ndarray, end: np.ndarray, row: np.ndarray, before: np.ndarray, ended: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Parts of the gaps of one device by cause, and the waiting calls in which they began.

    A gap from 100 to 200 ends with kernel k, whose launch call ran from 150 to 160:

        100 ........ 150 .... 160 ............ 200
        | thread of   | in the | on its way    |
        | the launch  | call   | to the GPU    |
        host states    launches  launches; unknown if longer than 0.1 ms

    Where the call had returned before 100, the gap is queued, unknown if longer than 20 us.

    Of the first part, what a synchronising call that was under way at 100 lasted is due to that call. Time in which the
    device ran what is not in the window is cut out beforehand by the clock. Between the steps of a server what the
    thread of the launch does counts throughout, its work by the function that it is in: such gaps always begin as the
    host waits for what the step computed, which says nothing of them.
    """
    core, c, calls = w.core, w.core.columns, calls_of(w.core)
    parts = np.zeros((len(Cause), len(begin)), np.int64)
    waited = np.full(len(begin), -1, np.int64)
    clock = Clock(_outside(w, row))
    parts[Cause.outside] = end - begin - (clock(end) - clock(begin))
    linked = np.flatnonzero(c.parent[row] >= 0)
    call, call_before = launches_of(c, row[linked]), launches_of(c, before[linked])
    own = c.thread[call]
    other = np.where(call_before >= 0, c.thread[call_before], own)
    first, last, returned = begin[linked], end[linked], ends(core, call)
    # Launches before the gap leave no part of it to the host; clocks may even show them behind its end.
    launched = np.clip(c.start_ns[call], first, last)
    states, waited[linked] = _before_launch(calls, clock, own, other, first, launched)
    at_work = np.zeros(len(call), bool)
    if len(between := np.flatnonzero(are_between_steps(core, row[linked], ended[linked]))):
        work = host_work_of(core)
        spent = np.zeros((STATES_WITH_WORK, len(between)), np.int64)
        work.timelines(clock).add_spent(own[between], clock(first[between]), clock(launched[between]), spent)
        states[:, between], waited[linked[between]] = spent, -1
        at_work[between] = work.state[call[between]] >= STATES
    released = np.clip(returned, launched, last)
    in_call, to_start = clock(released) - clock(launched), clock(last) - clock(released)
    copying = calls.state[call] == COPY_TO_DEVICE
    queued = returned <= first
    late = to_start > np.where(queued, LONGEST_BETWEEN_NS, LONGEST_START_NS)
    queued &= ~late
    if at_work.any():
        of = np.flatnonzero(at_work)
        states[host_work_of(core).state[call[of]], of] += in_call[of]
    states[COPY_TO_DEVICE] += in_call * (copying & ~at_work)
    states[LAUNCH] += in_call * ~(copying | at_work) + to_start * ~(late | queued)
    for cause, state in OF_STATE.items():
        parts[cause, linked] = states[state]
    parts[Cause.queued, linked] = to_start * queued
    parts[Cause.unknown_late_start, linked] = to_start * late
    rest = end - begin - parts.sum(axis=0)
    parts[Cause.unknown_no_launch] = np.where(c.parent[row] >= 0, 0, rest)
    parts[Cause.unknown_not_recorded] = np.where(c.parent[row] >= 0, rest, 0)
    return parts, waited


def _before_launch(
    calls: Calls, clock: Clock, own: np.ndarray, other: np.ndarray, first: np.ndarray, launched: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What the host did from the begin of each gap to the launch that ends it.

    Args:
        calls, clock: of the threads; the time on which the parts are measured.
        own, other: thread that launched what ends the gap, and what came before it.
        first, launched: the stretch, ns.

    Returns:
        Time by state (row) and gap (column), and the waiting call in which each gap began, -1 for none.
    """
    threads = calls.timelines(clock)
    start, launch = clock(first), clock(launched)
    there = start.copy()
    if len(away := np.flatnonzero(other != own)):
        there[away] = np.minimum(threads.present_from(own[away], start[away]), launch[away])
    at_work = np.where(there > start, other, own)
    call = calls.waiting_at(at_work, first)
    waits = np.flatnonzero(call >= 0)
    free = start.copy()
    lead = _lost_lead(calls.state[call[waits]], calls.core.columns.dur_ns[call[waits]], (launched - first)[waits])
    free[waits] = clock(np.minimum(first[waits] + lead, launched[waits]))
    states = np.zeros((STATES_WITH_WORK, len(first)), np.int64)
    threads.add_spent(at_work, start, free, states)
    # What the host had lost of its lead is due to the call, unless data were loaded or the profiler was at work.
    states[[state for state in range(STATES) if state not in calls.spans]] = 0
    states[calls.state[call[waits]], waits] += (free - start - states.sum(axis=0))[waits]
    seen = np.maximum(free, there)
    threads.add_spent(other, free, seen, states)
    threads.add_spent(own, seen, launch, states)
    return states, call


def _lost_lead(state: np.ndarray, waited: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """How far ahead the host would be without its waiting calls, at the gaps that begin in one, in order of time.

    A call that waits 2 ms takes 2 ms of the host's lead. The gap that follows it uses up what it lasts; what it leaves,
    a later gap that begins in such a call uses:

        waited    2.0          1.0          0.5
        gap            0.1          1.5          0.9
        lost      2.0          2.9          1.9          (1.0 is left after the last gap)

    Args:
        state: of each call; calls of another state have a lead of their own.
        waited, gap: how long each call and the gap behind it last, ns.
    """
    lost = np.zeros(len(state), np.int64)
    for one in np.unique(state).tolist():
        at = np.flatnonzero(state == one)
        balance = np.cumsum(waited[at] - gap[at])
        # A lead does not fall below zero: what gaps took beyond it is not carried over.
        left = balance - np.minimum(np.minimum.accumulate(balance), 0)
        lost[at] = waited[at] + np.concatenate(([0], left[:-1]))
    return lost


def calls_of(core: Core) -> Calls:
    """The calls of the launching threads; all windows of a graph share them."""
    return whole_window(core).once(_calls)


def _calls(everything: Window) -> Calls:
    return Calls(everything.core)


def host_work_of(core: Core) -> HostWork:
    """What those threads do between the steps of a server."""
    return core.once(_host_work)


def _host_work(core: Core) -> HostWork:
    return HostWork(calls_of(core))


def _outside(w: Window, rows: np.ndarray) -> Intervals:
    """When the device of some GPU events of the window ran what is not in the window."""
    core, c, every = w.core, w.core.columns, w.core.gpu_rows
    if len(every) == len(w.gpu_rows) or not len(rows):
        every = every[:0]
    else:
        every = whole_window(core).once(_rows_by_device)[int(c.device[rows[0]])]
        every = every[~w.holds(every)]
    return merge(c.start_ns[every], ends(core, every))
