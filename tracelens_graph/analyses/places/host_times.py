"""Where the host's time went: by op, function of Python, line, module or thread, and the GPU idle meanwhile.

The calls of a level are nested anew by time, without all others between them. A call's *own* time is its duration
without the calls of its level right inside, so own times of a level add up to the time during which a thread was in any
of them. Ops stand beside runtime calls and annotations there, as in `prof.key_averages()`, whose figures they equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from tracelens_graph.analyses.shared.grouping import Cells, group_by
from tracelens_graph.graph.arrays import distinct, is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.forest import build_forest
from tracelens_graph.graph.intervals import Intervals, length, length_before, merge, sum_by_group
from tracelens_graph.graph.traversals import climb, is_captured, least_above, outermost, rows_of_kind
from tracelens_graph.graph.user_code import Code, codes_of, pausing, shown_frames
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import HOST_KINDS, NESTING_RANK, Kind
from tracelens_graph.tables.column import About, Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Numbering, Rows

By = Literal["op", "function", "line", "module", "thread"]

_NUMBER, _ADDRESS = re.compile(r"#\d+$"), re.compile(r" at 0x[0-9a-fA-F]+")

_COLUMNS: About = {
    "name": Column.key("name of the calls", "name"),
    "kind": Column.key("by op: Op, RuntimeCall, Annotation or Step", "kind", drop_priority=4),
    "calls": Column.count("calls, including those inside another call of the same name", "calls"),
    "self_ms": Column.total(
        "time in them without the calls inside that have a row of their own", "ms", "self ms", compared="main"
    ),
    "total_ms": Column.total("time in them with all that they call; nested calls count once", "ms", "total ms"),
    "percent": Column.share(
        "their own time, as share of the time from the first to the last call; in a window, of the time in its calls",
        "self %",
    ),
    "idle_ms": Column.total(
        "the part of their own time during which no GPU event ran, from the first GPU event or step to the last",
        "ms",
        "GPU idle ms",
    ),
    "sum_ms": Column.total("sum of the durations of all calls; nested calls of the same name count again", "ms"),
    "longest_ms": Column("the longest call", "ms", heading="longest ms", drop_priority=2),
    "uid": Column.uid("the longest call", heading="uid"),
}
_OF_A_LEVEL: About = {name: column for name, column in _COLUMNS.items() if name != "kind"}


HOST_TIMES = TableSchema(
    "host_times", "Where the host's time went: by op, function of Python, line, module or thread.", _COLUMNS
)
HOST_FUNCTIONS = TableSchema("host_functions", "Host time by Python function, including built-in ones.", _OF_A_LEVEL)
HOST_LINES = TableSchema("host_lines", "Host time by calling line of Python.", _OF_A_LEVEL)
HOST_MODULES = TableSchema("host_modules", "Host time by module, on the thread that calls it.", _OF_A_LEVEL)
HOST_THREADS = TableSchema("host_threads", "Host time by thread.", _OF_A_LEVEL)


@dataclass(frozen=True)
class HostCalls:
    """The calls of a level, nested by time; arrays have an entry for each.

    Attributes:
        core: the graph.
        rows: rows of the calls: by thread, callers before those that they call.
        parent: position of the call around each, -1 for none.
        last: position of the last call inside each, its own without one.
        depth: number of calls around each.
        start, end: bounds, ns. An end is no later than that of the call around it.
    """

    core: Core
    rows: Rows
    parent: Rows
    last: Rows
    depth: Codes
    start: Ns
    end: Ns

    def own(self, clock: Callable[[Ns], Ns] = lambda at: at) -> Ns:
        """What a clock counts during each call without the calls inside, ns."""
        begin = clock(self.start)
        took = clock(self.start + self.core.columns.dur_ns[self.rows]) - begin
        inner = np.flatnonzero(self.parent >= 0)
        inside = sum_by_group(self.parent[inner], (clock(self.end) - begin)[inner], len(self.rows))
        # Calls that overlap without nesting may take more time than what is around them.
        return np.maximum(took - inside, 0)

    def alone_in(self, name: Codes) -> Mask:
        """Which calls are the only one right inside a call of the same name."""
        called = self.parent >= 0
        inside = np.bincount(self.parent[called], minlength=len(self.rows))
        return called & (inside[self.parent] == 1) & (name == name[self.parent]) if len(name) else called


def calls_among(core: Core, wanted: Mask) -> HostCalls:
    """Some of the calls of a graph, nested by time."""
    c = core.columns
    rows = np.flatnonzero(wanted & ~is_captured(c))
    # What is outside in the call forest is outside here, too; annotations are around calls of the same time.
    rank = np.array([NESTING_RANK.get(Kind(kind), 0) for kind in range(max(Kind) + 1)], np.uint8)[c.kind[rows]]
    forest = build_forest(c.thread[rows], c.start_ns[rows], c.dur_ns[rows], rank)
    rows = rows[forest.order]
    start, end = c.start_ns[rows], c.start_ns[rows] + c.dur_ns[rows]
    if forest.outlives.any():
        end = least_above(forest.parent, np.arange(len(rows)), end)
    return HostCalls(core, rows, forest.parent, forest.last, forest.depth, start, end)


def _kinds(*kinds: Kind) -> Callable[[Window], Mask]:
    return lambda w: is_kind(w.core.columns.kind, kinds)


def _outermost_calls(w: Window) -> Mask:
    c = w.core.columns
    return is_kind(c.kind, (Kind.Annotation, Kind.Step)) | ((c.parent < 0) & is_kind(c.kind, HOST_KINDS))


LEVELS: Mapping[By, Callable[[Window], Mask]] = {
    "op": _kinds(Kind.Op, Kind.RuntimeCall, Kind.Annotation, Kind.Step),
    "function": _kinds(Kind.PythonFunction),
    "line": shown_frames,
    "module": _kinds(Kind.Module),
    "thread": _outermost_calls,
}
"""Level -> for each row of a graph whether it is one of its calls."""


def _host_calls(w: Window, by: By) -> HostCalls:
    return calls_among(w.core, LEVELS[by](w))


def idle_clock(w: Window) -> Callable[[Ns], Ns] | None:
    """What counts time during which no GPU event of any of the window's devices ran; None without GPU events.

    A GPU is idle from the first GPU event or step to the last: starting a profiler before them keeps no GPU waiting.
    """
    c, gpu = w.core.columns, w.core.gpu_rows
    if not len(w.gpu_rows):
        return None
    gpu = gpu[np.isin(c.device[gpu], np.unique(c.device[w.gpu_rows]))]
    covered = np.concatenate((gpu, rows_of_kind(c, (Kind.Step,))))
    first, last = c.start_ns[covered].min(), c.end_ns[covered].max()
    busy = merge(c.start_ns[gpu], c.end_ns[gpu])
    return lambda at: np.clip(at, first, last) - length_before(busy, at)


def times_of_calls(w: Window, drawn: Mask) -> tuple[Ns, ...]:
    """For each row of the graph its host time, its own, and for how long of the first the GPU was idle, ns.

    The last one is missing where there are no GPU events.

    Args:
        w: the window, for its GPU events.
        drawn: which calls have a line; the own time of one is that without those of them inside.
    """
    c = w.core.columns
    is_host = is_kind(c.kind, HOST_KINDS)
    calls = calls_among(w.core, is_host & drawn)
    whole, own = np.where(is_host, c.dur_ns, 0), np.zeros(len(c), np.int64)
    own[calls.rows] = calls.own()
    clock = idle_clock(w)
    return (whole, own) if clock is None else (whole, own, clock(c.start_ns + whole) - clock(c.start_ns))


def in_background(core: Core) -> Mask:
    """For each thread whether it has no op and no call of the runtime, and mostly waits or has no frame of the user."""
    c, threads = core.columns, len(core.threads)
    works, has_user = np.zeros((2, threads), bool)
    works[c.thread[is_kind(c.kind, (Kind.Op, Kind.RuntimeCall))]] = True
    has_user[c.thread[codes_of(core) == Code.user]] = True
    pauses = calls_among(core, pausing(core) & (c.kind == Kind.PythonFunction))
    outer, roots = pauses.rows[pauses.parent < 0], np.flatnonzero((c.parent < 0) & is_kind(c.kind, HOST_KINDS))
    waited, whole = (sum_by_group(c.thread[rows], c.dur_ns[rows], threads) for rows in (outer, roots))
    return ~works & ((2 * waited > whole) | ~has_user) & (whole > 0)


def host_span(w: Window) -> tuple[Intervals, str]:
    """What shares of host time are of: the time from the first to the last call; in a window, the time in its calls."""
    c = w.core.columns
    calls = w.rows_of_kind(*HOST_KINDS, Kind.Annotation, Kind.Step)
    start, end = c.start_ns[calls], c.start_ns[calls] + c.dur_ns[calls]
    if w.is_whole and len(calls):
        start, end = start.min(keepdims=True), end.max(keepdims=True)
    return merge(start, end), "time from the first to the last call" if w.is_whole else "time in calls of the window"


def host_times(g: Core | Window, by: Literal["op", "function", "line", "module", "thread"] = "op") -> Table:
    """Host time by name at a level, the greatest self time first; background threads last.

    By `op`, runtime calls and annotations have rows, too, and `calls`, `self_ms` and `sum_ms` are what
    `prof.key_averages()` of PyTorch shows as number of calls, self CPU and CPU total: there `ProfilerStep#3` is a
    `ProfilerStep*`, and a call that is the only one inside another of its name is one with it. Versions of PyTorch up
    to 2.3 round times once more in files; the newest, given stacks, takes frames of Python for calls inside ranges.
    By `function` a frame of Python is one of its file, line and name. By `line`, what the user's line calls of the
    framework and of built-in functions counts with it (see `user_code`); by `module`, what it calls on its own thread.
    A thread's time is that of its outermost calls and of annotations.

    Args:
        g: the graph, or a window of it: the calls that begin in it, each with all its time.
        by: the level.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    found = w.once(_host_calls, by)
    held = w.holds(found.rows)
    inside = np.flatnonzero(held)
    rows = found.rows[inside]
    names, name = _names(core, by, found.rows)
    if by == "op":
        # Of calls without length at one moment, as files of whole microseconds have them, each counts.
        alone = found.alone_in(name) & held[found.parent] & (found.end > found.start)[found.parent]
        # A call is one with the call of its name around it, of whatever kind that is.
        kind = c.kind[found.rows[climb(found.parent, inside, ~alone)]]
    else:
        alone, kind = np.zeros(len(held), bool), np.zeros(len(inside), np.uint8)
    again = alone[inside]
    group, first = group_by(kind, name[inside])
    groups = len(first)
    span, whole = host_span(w)
    whole_ns = length(span)
    outer = outermost(group, inside, found.last[inside])
    took = c.dur_ns[rows]

    def own(clock: Callable[[Ns], Ns] = lambda at: at) -> Ns:
        return sum_by_group(group, found.own(clock)[inside], groups)

    own_ns, longest = own(), np.lexsort((rows, -took, group))[np.searchsorted(np.sort(group), np.arange(groups))]
    idle = idle_clock(w)
    columns: dict[str, Cells] = {
        "name": [names[code] for code in name[inside[first]].tolist()],
        **({"kind": [Kind(one).name for one in kind[first].tolist()]} if by == "op" else {}),
        "calls": np.bincount(group[~again], minlength=groups),
        "self_ms": own_ns / 1e6,
        "total_ms": sum_by_group(group[outer], took[outer], groups) / 1e6,
        "percent": 100 * own_ns / max(whole_ns, 1),
        **({} if idle is None else {"idle_ms": own(idle) / 1e6}),
        "sum_ms": sum_by_group(group[~again], took[~again], groups) / 1e6,
        "longest_ms": took[longest] / 1e6,
        "uid": c.uid[rows[longest]],
    }
    together = "; threads side by side add up" if len(np.unique(c.thread[rows])) > 1 else ""
    notes = [f"percent: of {whole_ns / 1e6:,.3f} ms, the {whole}{together}"] if len(rows) else [_none(w, by)]
    table = HOST_TIMES.table(columns, w.titled(f"Host time by {by}"), notes)
    behind = in_background(core)[c.thread[rows]]
    is_behind = np.bincount(group[~behind], minlength=groups) == 0
    if is_behind.any() and not is_behind.all():
        table.notes = [*table.notes, "threads that only wait, or run neither ops nor lines of the user, come last"]
    return table.take(np.lexsort((columns["uid"], -own_ns, is_behind)))


def _named(schema: TableSchema, by: By, g: Core | Window) -> Table:
    table = host_times(g, by)
    return schema.table(table.columns, table.title, table.notes)


host_functions = partial(_named, HOST_FUNCTIONS, "function")
host_lines = partial(_named, HOST_LINES, "line")
host_modules = partial(_named, HOST_MODULES, "module")
host_threads = partial(_named, HOST_THREADS, "thread")


def _none(w: Window, by: By) -> str:
    what, more = {"op": "ops, calls of a runtime and ranges", "module": "modules", "thread": "calls"}.get(by), ""
    if len(w.rows_of_kind(Kind.PythonFunction)):
        if by == "line":
            what, more = "frames of users or models", "; --frames all shows every frame"
        else:
            more = "; its functions: --param by=function"
    return f"the {'window' if w.title else 'trace'} has no {what or 'frames of Python'} of the host{more}"


def thread_name(core: Core, thread: int) -> str:
    """Process, thread, and what the trace calls it."""
    pid, tid = core.threads[thread]
    names = (name for at_pid, at_tid, name in core.info.threads if (str(at_pid), str(at_tid)) == (str(pid), str(tid)))
    return f"{pid}/{tid} {next(names, '') or ''}".rstrip()


def _names(core: Core, by: By, rows: Rows) -> tuple[list[str], Codes]:
    """Names, and which one each call has: steps share one, addresses are left out."""
    c = core.columns
    if by == "thread":
        return [thread_name(core, thread) for thread in range(len(core.threads))], c.thread[rows]
    codes, name = distinct(c.name[rows])
    numbering = Numbering()
    steps = {*c.name[rows[c.kind[rows] == Kind.Step]].tolist()}
    texts = ((core.names[code], code in steps) for code in codes.tolist())
    place = [numbering[_NUMBER.sub("*", text) if is_step else _ADDRESS.sub("", text)] for text, is_step in texts]
    return list(numbering), np.array(place, np.int64)[name]
