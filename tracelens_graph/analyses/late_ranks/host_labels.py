"""What the host of a rank did within a span: time by state and innermost call, to be held against another rank's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.critical_path.host_time import innermost_calls
from tracelens_graph.analyses.idle.host_states import ABSENT, STATES
from tracelens_graph.analyses.idle.idle import calls_of
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import Intervals, merge
from tracelens_graph.schema import HOST_KINDS, Kind

UNRECORDED = STATES
"""State in which no thread that launches GPU work has a call, or all wait for others."""

_NOTHING = "nothing"


@dataclass
class Spent:
    """Time that the host spent with one label: a state, and what its innermost calls are called.

    Attributes:
        ns: exclusive host time.
        row: the call with most of it; -1 for none.
    """

    ns: int = 0
    row: int = -1


Label = tuple[int, str]


class HostLabels:
    """What the threads of a rank that launch GPU work did within spans.

    Where nothing launches any, it is all threads.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._calls = calls = calls_of(core)
        c = core.columns
        self._rows = calls.rows if len(calls.rows) else np.flatnonzero(is_kind(c.kind, HOST_KINDS))
        self._threads = []
        for thread in np.unique(c.thread[self._rows]).tolist():
            rows = self._rows[c.thread[self._rows] == thread]
            times, inside = innermost_calls(core, rows[c.dur_ns[rows] > 0].astype(np.int64))
            for mark in calls.spans:
                times, inside = _covered(core, times, inside, calls.span_rows(mark, thread))
            self._threads.append((times, inside))
        self._of_mark = {int(row): mark for mark, rows in calls.spans.items() for row in rows.tolist()}
        self._labels: dict[int, Label] = {}

    @property
    def first_ns(self) -> int:
        """When the first of these threads did anything; 0 where none did."""
        rows = self._rows
        return int(self._core.columns.start_ns[rows].min()) if len(rows) else 0

    def within(self, start_ns: int, end_ns: int) -> dict[Label, Spent]:
        """Exclusive time by label within a span; what no thread has a call for counts once."""
        found: dict[Label, Spent] = {}
        begun, done = [], []
        for row, length, start in self._segments(start_ns, end_ns):
            there = [self._calls.state[one] != ABSENT or one in self._of_mark for one in row.tolist()]
            row, length, start = row[there], length[there], start[there]
            begun.append(start)
            done.append(start + length)
            rows, place = np.unique(row, return_inverse=True)
            sums = np.zeros(len(rows), np.int64)
            np.add.at(sums, place, length)
            best: dict[Label, int] = {}
            for one, ns in zip(rows.tolist(), sums.tolist(), strict=True):
                spent = found.setdefault(label := self._label(one), Spent())
                spent.ns += ns
                if ns > best.get(label, 0):
                    best[label], spent.row = ns, one
        covered = merge(np.concatenate(begun), np.concatenate(done)) if begun else None
        busy = int((covered[1] - covered[0]).sum()) if covered else 0
        if end_ns - start_ns > busy:
            found[UNRECORDED, _NOTHING] = Spent(end_ns - start_ns - busy)
        return found

    def _segments(self, start_ns: int, end_ns: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        for times, inside in self._threads:
            low, high = np.searchsorted(times, (start_ns, end_ns))
            low = max(int(low) - 1, 0)
            begin = np.maximum(times[low:high], start_ns)
            end = np.minimum(np.append(times[low + 1 : high + 1], end_ns)[: len(begin)], end_ns)
            solid = (inside[low:high] >= 0) & (end > begin)
            yield inside[low:high][solid], (end - begin)[solid], begin[solid]

    def _label(self, row: int) -> Label:
        if row not in self._labels:
            c = self._core.columns
            kind, name = Kind(int(c.kind[row])), self._core.names[c.name[row]]
            state = self._of_mark.get(row, int(self._calls.state[row]))
            self._labels[row] = state, name if kind is Kind.RuntimeCall else normal_name(kind, name)
        return self._labels[row]


def _covered(core: Core, times: np.ndarray, inside: np.ndarray, marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A timeline in which the outermost marks stand for all that is called within them."""
    if not len(marks):
        return times, inside
    c = core.columns
    marks = marks[np.lexsort((-c.dur_ns[marks], c.start_ns[marks]))]
    spans: Intervals = merge(c.start_ns[marks], c.end_ns[marks])
    start, end = spans
    if not len(start):
        return times, inside
    first = marks[np.searchsorted(c.start_ns[marks], start)]
    begun = np.searchsorted(start, times, "right")
    outside = (begun == 0) | (times >= end[begun - 1])
    before = np.searchsorted(times, end, "right") - 1
    after = np.where(before >= 0, inside[np.maximum(before, 0)], -1) if len(inside) else np.full(len(end), -1)
    every = np.concatenate((times[outside], start, end))
    rows = np.concatenate((inside[outside], first, after))
    order = np.argsort(every, kind="stable")
    return every[order], rows[order]
