"""The call that idle time is due to, found by descending from the host's stack while one function holds most of it.

the gaps                     |#######################|
train.py(9): main            100 %  -> goes on with what it calls
  train.py(48): step         100 %
    aten::item               70 %   -> the calls of one function count together
      cudaMemcpyAsync        30 %   -> no call of it holds more than half of the gaps: aten::item is named
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.idle.between_steps import are_between_steps
from tracelens_graph.analyses.idle.host_states import DATA_LOADER, Calls, Clock, ends
from tracelens_graph.analyses.idle.idle import OF_STATE, Cause, Idle, calls_of, host_work_of
from tracelens_graph.graph.arrays import expanded, is_kind, positions_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import Intervals, length, length_before, merge, overlapping, sum_by_group
from tracelens_graph.graph.traversals import ancestors, climb, launches_of, subtree_sums
from tracelens_graph.graph.user_code import Code, codes_of, pausing, user_lines
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import HOST_KINDS, Kind
from tracelens_graph.utils.arrays import Codes, Ns, Rows

DEEPEST = 200
"""Levels that are gone down where several calls of one function count together."""

_VARIES = re.compile(r" at 0x[0-9a-fA-F]+|^(nn\.Module: .*)_\d+$")
"""What differs between calls of one function: addresses of objects, and instances of modules."""


@dataclass(frozen=True)
class Blamed:
    """A function that idle time is due to.

    Attributes:
        row: its call with most of the time, -1 for none.
        rows: all its calls that count, ascending.
        ns: their time in the gaps.
        due_ns: idle time that is due to them; more than `ns` where a call cost the host its lead.
    """

    row: int
    rows: Rows
    ns: int
    due_ns: int


NOBODY = Blamed(-1, np.zeros(0, np.int64), 0, 0)

Spent = tuple[Rows, Ns, Ns]
"""Calls, each with those above it; of each its time in gaps outside of the others, and the idle time due to that."""


def culprit(core: Core, idle: Idle, gap: int, cause: Cause) -> tuple[int, int]:
    """Row of the host event to which the part of a gap with this cause is due most, and its ns there; -1 for none."""
    found = blame(core, idle, np.array([gap]), (cause,))
    return found.row, min(found.ns, int(idle.parts[cause, gap]))


def blame(core: Core, idle: Idle, gaps: Rows, causes: Sequence[Cause]) -> Blamed:
    """The function to which the parts of some gaps with these causes are due most."""
    return blamed(core, spent_in(core, idle, gaps, causes))


def spent_in(core: Core, idle: Idle, gaps: Rows, causes: Sequence[Cause]) -> Spent:
    """What the host called in the parts of some gaps with these causes; arguments as in `blame`."""
    calls = calls_of(core)
    spent = []
    for cause in causes:
        if cause in OF_STATE:
            state, at = OF_STATE[cause], gaps[idle.parts[cause, gaps] > 0]
            between = are_between_steps(core, idle.row[at], idle.ended[at])
            if between.any():
                stretches = _up_to_launch(core, idle, at[between])
                spent.append(in_state(calls, state, *stretches, host_work_of(core).state))
                at = at[~between]
            if not len(at):
                continue
            wait = idle.waited[at]
            waits = (wait >= 0) & (calls.state[wait] == state)
            held = at[waits]
            spent.append(in_waits(core, wait[waits], idle.parts[cause, held], idle.start[held], idle.end[held]))
            spent.append(in_state(calls, state, *_stretches(calls, idle, at[~waits], state)))
    return together(spent)


def _stretches(calls: Calls, idle: Idle, gaps: Rows, state: int) -> tuple[Codes, Ns, Ns]:
    """For each gap the thread that was in a state, and from when to when it is looked at.

    It is the thread that launched what ends the gap, else the one that launched before, else the dispatcher. The
    first is looked at up to the end of its launch, where that is in the gap.
    """
    c = calls.core.columns
    call, before = launches_of(c, idle.row[gaps]), launches_of(c, idle.before[gaps])
    _, start, end = _up_to_launch(calls.core, idle, gaps)
    chosen = np.full(len(gaps), -1, np.int64)
    always = calls.timelines(Clock((start[:0], start[:0])))
    for launch in (call, before, None):
        thread = np.full(len(gaps), calls.dispatcher) if launch is None else np.where(launch >= 0, c.thread[launch], -1)
        left = np.flatnonzero((chosen < 0) & (thread >= 0))
        left = left[always.alone_in(state, thread[left], start[left], end[left]) > 0]
        chosen[left] = thread[left]
    known = chosen >= 0
    return chosen[known], start[known], end[known]


def _up_to_launch(core: Core, idle: Idle, gaps: Rows) -> tuple[Codes, Ns, Ns]:
    """For each gap the thread of the launch that ends it, -1 for none, and the gap up to the end of that launch."""
    start, end, call = idle.start[gaps], idle.end[gaps], launches_of(core.columns, idle.row[gaps])
    returned = np.where(call >= 0, ends(core, call), end)
    end = np.where(returned > start, np.minimum(returned, end), end)
    return np.where(call >= 0, core.columns.thread[call], -1), start, end


def in_state(calls: Calls, state: int, thread: Codes, start: Ns, end: Ns, states: Codes | None = None) -> Spent:
    """What threads called while they were in a state, within the stretches of gaps.

    Waiting for other threads of a data loader is what these did.

    Args:
        calls: of the launching threads.
        state: of the threads; see `host_states`.
        thread, start, end: the stretches, ns; those of one thread may overlap.
        states: of every row of the graph; None for `calls.state`.
    """
    states, parts = calls.state if states is None else states, []
    for code, at in positions_by(thread):
        gaps = merge(start[at], end[at])
        if not len(gaps[0]):
            continue
        rows = calls.within(code, int(gaps[0][0]), int(gaps[1][-1]))
        order = list(calls.spans)
        # States that hold for whatever is called come before the others, and the last of them before the rest.
        for held in order[order.index(state) + 1 :] if state in order else order:
            gaps = _common(gaps, calls.span_intervals(held, code), inside=False)
        if state in order:
            gaps = _common(gaps, calls.span_intervals(state, code))
            rows, own = own_time(calls, rows, gaps)
            if 2 * own.sum() < length(gaps):  # marked by annotations, with little recorded below them
                spans = calls.span_rows(state, code)
                rows, own = own_time(calls, spans[calls.core.columns.kind[spans] == Kind.Annotation], gaps)
        else:
            rows, own = own_time(calls, rows, gaps)
            own[states[rows] != state] = 0
        found = (rows, own, own)
        parts.append(_of_workers(calls, gaps, found) if state == DATA_LOADER else found)
    return together(parts)


def in_waits(core: Core, rows: Rows, due: Ns, start: Ns, end: Ns) -> Spent:
    """The waiting calls that cost the host its lead.

    Args:
        rows: the call in which each gap began.
        due: idle time that is due to it.
        start, end: of the gaps.
    """
    calls, at = np.unique(rows, return_inverse=True)
    inside = np.maximum(np.minimum(ends(core, rows), end) - np.maximum(core.columns.start_ns[rows], start), 0)
    above = _with_callers(core, calls)
    times = np.zeros((2, len(above)), np.int64)
    times[:, np.searchsorted(above, calls)] = [sum_by_group(at, time, len(calls)) for time in (inside, due)]
    return above, times[0], times[1]


def together(parts: Sequence[Spent]) -> Spent:
    """Several times as one, by ascending calls."""
    if not parts:
        return (np.zeros(0, np.int64),) * 3
    every, own, due = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    rows, at = np.unique(every, return_inverse=True)
    return rows, sum_by_group(at, own, len(rows)), sum_by_group(at, due, len(rows))


def blamed(core: Core, spent: Spent) -> Blamed:
    """The function that holds most of some time.

    A function of Python, if it has more than half outside of what it calls, wherever it is called; else from the
    outermost calls down, as long as the calls of one function have more than half.
    """
    rows, own, due = spent
    total = int(due.sum())
    if not total:
        return NOBODY
    c = core.columns
    reach = np.searchsorted(rows, c.last[rows], "right")
    alone, itself = due, own
    own, due = (np.concatenate(([0], np.cumsum(time))) for time in (own, due))
    own, due = (running[reach] - running[: len(rows)] for running in (own, due))
    kept = np.flatnonzero(due > 0)
    rows, own, due, alone, itself = (values[kept] for values in (rows, own, due, alone, itself))
    function = _functions(core, rows)
    sums = sum_by_group(function, np.where(c.kind[rows] == Kind.PythonFunction, alone, 0), int(function.max()) + 1)
    if 2 * sums.max() > total:
        chosen = np.flatnonzero((function == sums.argmax()) & (alone > 0))
        return Blamed(
            int(rows[chosen[alone[chosen].argmax()]]), rows[chosen], int(itself[chosen].sum()), int(sums.max())
        )
    at = np.searchsorted(rows, c.parent[rows])
    parent = np.where(np.append(rows, -1)[at] == c.parent[rows], at, -1)
    chosen = _descent(parent, function, due, total)
    does_work = np.append(codes_of(core)[rows] != Code.passed_on, True)
    outer = np.unique(climb(parent, chosen, does_work))
    chosen = outer[outer >= 0] if (outer >= 0).any() else chosen
    return Blamed(int(rows[chosen[due[chosen].argmax()]]), rows[chosen], int(own[chosen].sum()), int(due[chosen].sum()))


def line_below(w: Window, spent: Spent, found: Blamed) -> tuple[int, int]:
    """The user's line, below the calls of a function, with most of some time outside of what other lines call.

    Args:
        found: the function; where its own line has most, there is no answer.

    Returns:
        The row of the line's frame with most of it, -1 for none, and the time of all its frames, ns.
    """
    c, (rows, own, _) = w.core.columns, spent
    last = np.maximum.accumulate(c.last[found.rows])
    at = np.searchsorted(found.rows, rows, "right") - 1
    inside = np.flatnonzero((at >= 0) & (rows <= last[at]) & (own > 0))
    frames, own = user_lines(w, rows[inside]), own[inside]
    named = np.flatnonzero(frames >= 0)
    if not len(named):
        return -1, 0
    names, of = np.unique(c.name[frames[named]], return_inverse=True)
    sums = sum_by_group(of, own[named], len(names))
    if names[sums.argmax()] in c.name[found.rows]:
        return -1, 0
    most = named[of == sums.argmax()]
    _, group = np.unique(frames[most], return_inverse=True)
    calls = sum_by_group(group, own[most], int(group.max()) + 1)
    return int(np.unique(frames[most])[calls.argmax()]), int(sums.max())


def _descent(parent: Rows, name: Codes, whole: Ns, total: int) -> Rows:
    """Positions of the calls of the innermost function that holds more than half, else of the largest root.

    Args:
        parent: position of the caller of each, -1 for roots.
        name: number of its function.
        whole: time in it and below.
        total: of all roots.
    """
    _, group = np.unique((parent + 1) * (int(name.max()) + 1) + name, return_inverse=True)
    sums = sum_by_group(group, whole, int(group.max()) + 1)
    # Calls with more than half lie one in the other; down to where several calls count together, no level is visited.
    heavy = np.flatnonzero(2 * whole > total)
    shared = heavy[sums[group[heavy]] > whole[heavy]]
    chosen = np.flatnonzero(group == group[shared[0]]) if len(shared) else heavy[-1:]
    order = np.argsort(parent, kind="stable")
    callers = parent[order]
    for _ in range(DEEPEST):
        callees, _ = expanded(
            *(np.searchsorted(callers, chosen if len(chosen) else [-1], side) for side in ("left", "right"))
        )
        if not len(called := order[callees]):
            break
        names, of = np.unique(name[called], return_inverse=True)
        sums = sum_by_group(of, whole[called], len(names))
        most = int(sums.argmax())
        if 2 * sums[most] <= total and len(chosen):
            break
        chosen = called[of == most]
        if 2 * sums[most] <= total:
            break
    return chosen


def _functions(core: Core, rows: Rows) -> Codes:
    """Numbers of functions: names without what differs between their calls."""
    codes, at = np.unique(core.columns.name[rows], return_inverse=True)
    _, number = np.unique([_VARIES.sub(r"\1", core.names[code]) for code in codes.tolist()], return_inverse=True)
    return number[at]


def own_time(calls: Calls, rows: Rows, gaps: Intervals) -> tuple[Rows, Ns]:
    """The calls with time in the gaps, and how much of it lies in no other call."""
    c = calls.core.columns
    start = c.start_ns[rows]
    end = np.maximum(calls.nested_ends(rows), start)
    inside = length_before(gaps, end) - length_before(gaps, start)
    solid = np.flatnonzero(inside > 0)
    rows, own = rows[solid], inside[solid]
    called = np.flatnonzero(np.isin(c.parent[rows], rows))
    np.subtract.at(own, np.searchsorted(rows, c.parent[rows[called]]), inside[solid][called])
    return rows, np.maximum(own, 0)


def _of_workers(calls: Calls, gaps: Intervals, found: Spent) -> Spent:
    """What the threads that a data loader waits for did meanwhile, where waiting is most of what it did itself.

    They are the other threads with frames of data loaders: of pinned memory, or of worker processes in the trace.
    Where they did little but wait, too, what they wait for is not in the trace.
    """
    core, c = calls.core, calls.core.columns
    rows, own, _ = found
    pauses = pausing(core)
    waiting = int(own[pauses[rows]].sum())
    if 2 * waiting <= own.sum():
        return found
    parts = []
    for thread, (theirs, loading) in calls.loading_threads.items():
        if thread not in c.thread[rows]:
            theirs, spent = own_time(calls, theirs, _common(gaps, loading))
            spent[pauses[theirs]] = 0
            parts.append((theirs, spent, spent))
    workers = together(parts)
    return workers if 2 * workers[1].sum() > waiting else found


def _common(first: Intervals, second: Intervals, inside: bool = True) -> Intervals:
    """What lies in both, or in the first alone."""
    if len(first[0]):
        second = overlapping(second, int(first[0][0]), int(first[1][-1]))
    edges = np.unique(np.concatenate((*first, *second)))
    begin, end = edges[:-1], edges[1:]
    in_first, in_second = (length_before(one, end) > length_before(one, begin) for one in (first, second))
    kept = in_first & (in_second == inside)
    return merge(begin[kept], end[kept])


def _with_callers(core: Core, rows: Rows) -> Rows:
    """Rows and all calls above them, ascending."""
    c = core.columns
    if len(rows) == 1:
        return np.array([*reversed(ancestors(c, int(rows[0]))), int(rows[0])], np.int64)
    asked = np.zeros(len(c), np.int64)
    asked[rows] = 1
    return np.flatnonzero((subtree_sums(c, asked) > 0) & is_kind(c.kind, HOST_KINDS))
