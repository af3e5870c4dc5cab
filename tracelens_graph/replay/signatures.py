"""Which calls of a trace are replayed: one for each operation and argument set.

GPU work is charged to the outermost operation with a schema that launches work itself, so that a row holds what its
program runs, and nothing counts twice; where there is none, to the operation that launched it. `Signatures` groups the
calls by name and arguments.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tracelens_graph.analyses.shared.call_columns import argument_codes
from tracelens_graph.analyses.shared.grouping import Groups, group_by
from tracelens_graph.errors import NodeNotFoundError
from tracelens_graph.frameworks import NAMESPACES
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import climb, outermost_above
from tracelens_graph.graph.window import Window
from tracelens_graph.replay.custom.lookup import replayers_of
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows
from tracelens_graph.utils.suggest import did_you_mean
from tracelens_graph.utils.texts import shown_name

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core
    from tracelens_graph.perf.devices import Architecture

_NAMED = 5
"""Operations that an error names."""


@dataclass(frozen=True)
class Charged:
    """GPU work of a window by the call that is replayed for it.

    Attributes:
        window: the window.
        op: for each of its GPU events, in the order of `window.gpu_rows`, the row of the call; -1 for none.
    """

    window: Window
    op: Rows

    @property
    def uncharged(self) -> Rows:
        """Rows of the GPU events that are charged to no call."""
        found: Rows = self.window.gpu_rows[self.op < 0]
        return found

    def work_of(self, rows: Rows) -> tuple[Codes, Ns]:
        """Number of GPU events that are charged to each of some calls, and the sum of their durations."""
        inside = np.isin(self.op, rows)
        place = np.searchsorted(rows, self.op[inside])
        time = self.window.core.columns.dur_ns[self.window.gpu_rows[inside]]
        return np.bincount(place, minlength=len(rows)), sum_by_group(place, time, len(rows))


@dataclass(frozen=True)
class Signatures:
    """Calls by name and arguments. All arrays have one entry per signature.

    Attributes:
        window: the window that the calls are of.
        rows: row of the call that stands for the others: that with the most GPU time below it.
        calls: number of calls; where any has GPU work, of those that have.
        gpu_events: kernels, copies and fills that are charged to them.
        charged_ns: sum of the durations of these.
        median_ns: median over the calls of the sum of these of each.
        won_ns: time beyond that at the roof; NaN where no device was given, or no model applies.
    """

    window: Window
    rows: Rows
    calls: Codes
    gpu_events: Codes
    charged_ns: Ns
    median_ns: np.ndarray
    won_ns: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def core(self) -> Core:
        """The graph."""
        return self.window.core

    @cached_property
    def names(self) -> list[str]:
        """Name of the operation of each."""
        return [self.core.names[code] for code in self.core.columns.name[self.rows].tolist()]

    @cached_property
    def percent(self) -> np.ndarray:
        """Share of the window's GPU time that is charged to each."""
        return 100 * self.charged_ns / max(int(self.core.columns.dur_ns[self.window.gpu_rows].sum()), 1)

    def at(self, places: Codes) -> Signatures:
        """Some of them, in the order of the places."""
        arrays = ("rows", "calls", "gpu_events", "charged_ns", "median_ns", "won_ns")
        return replace(self, **{name: getattr(self, name)[places] for name in arrays})

    def first(self, number: int) -> Signatures:
        """The first ones; 0 for all."""
        return self.at(np.arange(len(self))[: number or None])


def with_schema(w: Window) -> Mask:
    """For each name of a graph whether it is that of an operation of PyTorch, or has a replayer."""
    replayers = replayers_of(w)
    return np.array([name.startswith(NAMESPACES) or name in replayers for name in w.core.names], bool)


def charge(w: Window, names: Mask) -> Charged:
    """Charge each GPU event of a window to an operation around its launch that has one of some names.

    That is the outermost one that does more than those within it: some GPU event is below it and below none of these.

    Args:
        w: the window.
        names: for each name of the graph whether it is one of them.
    """
    c = w.core.columns
    if not len(w.gpu_rows):
        return Charged(w, np.zeros(0, np.int64))
    inner = climb(c.parent, c.parent[w.gpu_rows], (c.kind == Kind.Op) & names[c.name])
    return Charged(w, outermost_above(c.last, np.unique(inner[inner >= 0]), inner))


def charge_all(w: Window) -> Charged:
    """Charge each GPU event to an operation with a schema, else to the operation that launched it."""
    found = charge(w, with_schema(w))
    return Charged(w, np.where(found.op >= 0, found.op, w.core.columns.owner[w.gpu_rows]))


def signatures(charged: Charged) -> Signatures:
    """What GPU work is charged to, by name and arguments, the most GPU time first."""
    return _grouped(charged, np.unique(charged.op[charged.op >= 0]))


def longest_on_host(w: Window) -> Signatures:
    """Outermost operations with a schema by their time on the host, the longest first: of a window without GPU work."""
    c = w.core.columns
    fits = with_schema(w)[c.name] & (c.kind == Kind.Op)
    rows = w.rows_of_kind(Kind.Op)
    rows = rows[fits[rows]]
    return _grouped(Charged(w, np.zeros(0, np.int64)), rows[climb(c.parent, c.parent[rows], fits) < 0])


def named(w: Window, name: str | re.Pattern[str]) -> Signatures:
    """Calls of operations of a name, the most GPU time first; without any the longest on the host.

    Of operations within one another that fit, those count that GPU work is charged to; without any the inner one.

    Args:
        w: the window.
        name: the name, or an expression that is found in it.

    Raises:
        NodeNotFoundError: the window has no such operation; the message says what there is.
    """
    core, c = w.core, w.core.columns
    fits = np.array([name == one if isinstance(name, str) else bool(name.search(one)) for one in core.names], bool)
    rows = w.rows_of_kind(Kind.Op)
    charged = charge(w, fits)
    working = np.unique(charged.op[charged.op >= 0])
    called = np.union1d(rows[fits[c.name[rows]]], working).astype(np.int64)
    if not len(called):
        raise NodeNotFoundError(_no_op(w, name))
    # In pre-order what lies in a call follows it at once, so looking at the next one is enough.
    holds_another = np.append(called[1:] <= c.last[called[:-1]], False)
    is_idle = ~holds_another & (outermost_above(c.last, working, called) < 0)
    return _grouped(charged, called[is_idle | np.isin(called, working)])


def of_event(w: Window, uid: int) -> Signatures:
    """The signature of one event: of an operation, or of that to which GPU work is charged.

    The call that was asked for stands for the others.

    Args:
        w: the window that is searched for calls with equal arguments.
        uid: an operation, a launch or a GPU event.

    Raises:
        NodeNotFoundError: there is no such event, or no operation around it.
    """
    core, c = w.core, w.core.columns
    row = core.row(uid)
    kind = Kind(int(c.kind[row]))
    if kind in GPU_KINDS or kind is Kind.RuntimeCall:
        row = _op_around(w, row)
    elif kind is not Kind.Op:
        raise NodeNotFoundError(
            f"uid {uid} is no operation but a {kind.name}, {core.names[c.name[row]][:60]!r}; "
            f"--under {uid} takes the operations below it"
        )
    if row < 0:
        raise NodeNotFoundError(f"uid {uid} ({kind.name}) belongs to no operation that the trace records")
    name = np.arange(len(core.names)) == c.name[row]
    rows = w.rows_of_kind(Kind.Op)
    codes = argument_codes(core)
    alike = rows[name[c.name[rows]] & (codes[c.argset[rows]] == codes[c.argset[row]])]
    found = _grouped(charge(w, name), np.union1d(alike, [row]).astype(np.int64))
    return replace(found, rows=np.array([row], np.int64))


def below_roof(w: Window, arch: Architecture) -> Signatures:
    """Operations by the time beyond that at the roof, the most first; those without a performance model last.

    GPU work is charged as in the table `below_roof`: to the outermost operation whose model applies.

    Args:
        w: the window.
        arch: the device.
    """
    from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
    from tracelens_graph.analyses.performance.roofline_points import below_roof as table_of
    from tracelens_graph.analyses.performance.unified import unified

    core, c = w.core, w.core.columns
    found = signatures(Charged(w, unified(w).owner[np.searchsorted(core.gpu_rows, w.gpu_rows)]))
    table = table_of(unified_perf_summary(w, arch=arch))
    won: Counter[tuple[int, int]] = Counter()
    codes = argument_codes(core)
    for uid, us in zip(table["uid"], table["could_be_won_ms"], strict=True):
        row = core.row(int(uid))
        won[int(c.name[row]), int(codes[c.argset[row]])] += us * 1e6
    keys = zip(c.name[found.rows].tolist(), codes[c.argset[found.rows]].tolist(), strict=True)
    won_ns = np.array([won.get(key, np.nan) for key in keys], float)
    return replace(found, won_ns=won_ns).at(np.argsort(-np.nan_to_num(won_ns, nan=-1), kind="stable"))


def _op_around(w: Window, row: int) -> int:
    """The operation that a launch or a GPU event is charged to, -1 for none."""
    c = w.core.columns
    start = np.array([c.parent[row]])
    is_op = c.kind == Kind.Op
    best = int(climb(c.parent, start, is_op & with_schema(w)[c.name])[0])
    return best if best >= 0 else int(climb(c.parent, start, is_op)[0])


def _grouped(charged: Charged, rows: Rows) -> Signatures:
    """Calls, by ascending rows, grouped by name and arguments: the most GPU time first, then the longest on hosts."""
    w = charged.window
    core, c = w.core, w.core.columns
    events, time = charged.work_of(rows)
    # group_by keeps the first row of a group: the call with the most GPU work stands for the others.
    largest = np.lexsort((c.uid[rows], -c.dur_ns[rows], -time))
    group, first = group_by(c.name[rows[largest]], argument_codes(core)[c.argset[rows[largest]]])
    chosen = rows[largest[first]]
    count = len(first)
    has_work = events[largest] > 0
    # Calls without GPU work would draw the median to 0; where none has any, all of them count.
    counted = has_work | ~np.bincount(group, has_work, minlength=count).astype(bool)[group]
    found = Signatures(
        w,
        chosen,
        np.bincount(group[counted], minlength=count),
        sum_by_group(group, events[largest], count),
        sum_by_group(group, time[largest], count),
        Groups(group[counted], time[largest][counted], count).median,
        np.full(count, np.nan),
    )
    host = sum_by_group(group, c.dur_ns[rows[largest]], count)
    return found.at(np.lexsort((c.uid[chosen], -host, -found.charged_ns)))


def _no_op(w: Window, name: str | re.Pattern[str]) -> str:
    """Why a name is of no use, with names that may be meant."""
    core = w.core
    where = f" in {w.title}" if w.title else ""
    known = [core.names[code] for code in np.unique(core.columns.name[w.rows_of_kind(Kind.Op)]).tolist()]
    charged = signatures(charge_all(w))
    time: Counter[str] = Counter()
    for one, ns in zip(charged.names, charged.charged_ns.tolist(), strict=True):
        time[one] += ns
    most = ", ".join(shown_name(one) for one, _ in time.most_common(_NAMED))
    listed = f"the most GPU time: {most}" if most else "there is no GPU work"
    if not isinstance(name, str):
        return f"no operation{where} has a name in which /{name.pattern}/ is found; {listed}"
    short = {one.rpartition("::")[2]: one for one in known}
    meant = did_you_mean(name, known, aliases=short, most=3, cutoff=0.75)
    return f"no operation{where} is called {name[:80]!r}; {meant or listed}"
