"""One rank among others: its parts of collectives, what these had to wait for, and what host and GPU did meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain

import numpy as np

from tracelens_graph.analyses.critical_path.bridges import ends_elsewhere
from tracelens_graph.analyses.critical_path.path_nodes import innermost_calls
from tracelens_graph.analyses.idle.host_states import ABSENT, ALLOCATION, LAUNCH, PYTHON, STATES, SYNCHRONIZATION
from tracelens_graph.analyses.idle.idle import calls_of
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.parts import POINT_TO_POINT, ends_of
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, gpu_classes
from tracelens_graph.analyses.stragglers.chains import RankChains
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import Intervals, merge, sum_by_group
from tracelens_graph.graph.traversals import host_rows
from tracelens_graph.graph.window import whole_window
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows

UNRECORDED = STATES
"""State in which no thread that launches GPU work has a call, or all wait for others."""

WORKS = (ALLOCATION, LAUNCH, PYTHON)
"""States in which the host itself works, and does not wait."""

_NOTHING = "nothing"

DISTRIBUTED = "c10d::"
"""How names of PyTorch's ops begin that communicate; without a GPU the host may wait in them."""

WAITS: tuple[int, str] = (SYNCHRONIZATION, f"{DISTRIBUTED}wait")
"""Label of the time in which the host waits for the end of a collective that runs on another thread."""

_ROUNDED_NS = 1_000
"""Times of a trace are written to this at worst."""
_WOKEN_NS = 200_000
"""A thread that does something so soon after such an end, and nothing before, waited for it."""


@dataclass(frozen=True)
class Spent:
    """Time that the host spent with one label: a state, and what its innermost calls are called.

    Attributes:
        calls: row of each call -> its exclusive host time, ns; row -1 stands for none.
    """

    calls: dict[int, int] = field(default_factory=dict)

    @property
    def ns(self) -> int:
        """Exclusive host time of all."""
        return sum(self.calls.values())

    @property
    def row(self) -> int:
        """The call with most of it; -1 for none."""
        return max(self.calls, key=lambda row: self.calls[row], default=-1)


Label = tuple[int, str]


class HostLabels:
    """What the threads of a rank that launch GPU work did within spans.

    Where nothing launches any, it is all threads.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._calls = calls = calls_of(core)
        c = core.columns
        ended = [row for one in collectives_of(core).nodes if one.on_host for row in one.rows]
        self._rows = calls.rows if len(calls.rows) else host_rows(c)
        self._threads: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for thread, at in positions_by(c.thread[self._rows]):
            rows = self._rows[at]
            times, inside = innermost_calls(core, rows[c.dur_ns[rows] > 0].astype(np.int64))
            for mark in calls.spans:
                times, inside = _covered(core, times, inside, calls.span_rows(mark, thread))
            self._threads[thread] = times, self._waiting(times, inside, np.array(ended, np.int64))
        self._of_mark = {int(row): mark for mark, rows in calls.spans.items() for row in rows.tolist()}
        self._of_mark |= dict.fromkeys(ended, WAITS[0])
        self._labels: dict[int, Label] = dict.fromkeys(ended, WAITS)

    def _waiting(self, times: np.ndarray, inside: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """What is within where stretches in which no op works, and that end with a collective, are that collective."""
        if not len(ended) or not len(times):
            return inside
        core, end_ns = self._core, self._core.columns.end_ns[ended]
        at = np.searchsorted(times, end_ns - _ROUNDED_NS)
        row = inside[at - 1]
        names = core.columns.name[row]
        communicates = np.array([core.names[name].startswith(DISTRIBUTED) for name in names.tolist()], bool)
        there = (at > 0) & (at < len(times)) & ((row < 0) | (self._calls.state[row] != LAUNCH) | communicates)
        there &= times[np.minimum(at, len(times) - 1)] - end_ns <= _WOKEN_NS
        found = inside.copy()
        found[at[there] - 1] = ended[there]
        return found

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
            for one, ns in zip(rows.tolist(), sums.tolist(), strict=True):
                calls = found.setdefault(self.label(one), Spent()).calls
                calls[one] = calls.get(one, 0) + ns
        covered = merge(np.concatenate(begun), np.concatenate(done)) if begun else None
        busy = int((covered[1] - covered[0]).sum()) if covered else 0
        if end_ns - start_ns > busy:
            found[UNRECORDED, _NOTHING] = Spent({-1: end_ns - start_ns - busy})
        return found

    def totals(self) -> dict[int, dict[Label, tuple[int, int]]]:
        """Per thread and label of `WORKS` how many calls there are in all, and their exclusive time, ns."""
        c, state = self._core.columns, self._calls.state
        found: dict[int, dict[Label, tuple[int, int]]] = {}
        for thread, (times, inside) in self._threads.items():
            solid = np.flatnonzero(inside[:-1] >= 0)
            rows, place = np.unique(inside[solid], return_inverse=True)
            ns = sum_by_group(place, np.diff(times)[solid], len(rows))
            works = np.isin(state[rows], WORKS) & ~np.isin(rows, list(self._of_mark))
            rows, ns = rows[works], ns[works]
            labels: dict[Label, tuple[int, int]] = {}
            for _, at in positions_by(
                (c.name[rows].astype(np.int64) * len(Kind) + c.kind[rows]) * STATES + state[rows]
            ):
                label = self.label(int(rows[at[0]]))
                count, sum_ns = labels.get(label, (0, 0))
                labels[label] = count + len(at), sum_ns + int(ns[at].sum())
            found[thread] = labels
        return found

    def _segments(self, start_ns: int, end_ns: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        for times, inside in self._threads.values():
            low, high = np.searchsorted(times, (start_ns, end_ns))
            low = max(int(low) - 1, 0)
            begin = np.maximum(times[low:high], start_ns)
            end = np.minimum(np.append(times[low + 1 : high + 1], end_ns)[: len(begin)], end_ns)
            solid = (inside[low:high] >= 0) & (end > begin)
            yield inside[low:high][solid], (end - begin)[solid], begin[solid]

    def label(self, row: int) -> Label:
        """The state and the name of a call."""
        if row not in self._labels:
            c = self._core.columns
            kind, name = Kind(int(c.kind[row])), self._core.names[c.name[row]]
            state = self._of_mark.get(row, int(self._calls.state[row]))
            self._labels[row] = state, name if kind is Kind.RuntimeCall else normal_name(kind, name)
        return self._labels[row]


def _covered(core: Core, times: np.ndarray, inside: np.ndarray, ranges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A timeline in which the outermost marks stand for all that is called within them."""
    if not len(ranges):
        return times, inside
    c = core.columns
    # Of equal starts the longest first, so that the search below finds the outermost.
    ranges = ranges[np.lexsort((-c.dur_ns[ranges], c.start_ns[ranges]))]
    spans: Intervals = merge(c.start_ns[ranges], c.end_ns[ranges])
    start, end = spans
    if not len(start):
        return times, inside
    first = ranges[np.searchsorted(c.start_ns[ranges], start)]
    begun = np.searchsorted(start, times, "right")
    outside = (begun == 0) | (times >= end[begun - 1])
    before = np.searchsorted(times, end, "right") - 1
    after = np.where(before >= 0, inside[np.maximum(before, 0)], -1) if len(inside) else np.full(len(end), -1)
    every = np.concatenate((times[outside], start, end))
    rows = np.concatenate((inside[outside], first, after))
    order = np.argsort(every, kind="stable")
    return every[order], rows[order]


@dataclass(frozen=True, eq=False)
class Kernels:
    """GPU work of one name on a rank, by its rows."""

    core: Core
    rows: Rows

    @property
    def takes(self) -> Ns:
        """How long each takes, ns."""
        return self.core.columns.dur_ns[self.rows]

    @property
    def inputs(self) -> frozenset[str]:
        """Sizes of the inputs of the ops that own them."""
        owner = self.core.columns.owner[self.rows]
        sets = np.unique(self.core.columns.argset[owner[owner >= 0]]).tolist()
        return frozenset(self.core.argsets[one][0] for one in sets if one >= 0)


def by_name(core: Core, rows: Rows) -> dict[str, Kernels]:
    """GPU work by name, in the order of the rows."""
    return {core.names[code]: Kernels(core, rows[at]) for code, at in positions_by(core.columns.name[rows])}


class RankWork:
    """What is asked of one rank; times are on the clock of its trace, and what is costly is made when first wanted.

    Attributes:
        ordinal: its place in the set.
        core: its graph.
        on_gpu: whether collectives with kernels are meant, or those that ran on the host.
        parts: its part of each of these that it took part in.
    """

    def __init__(self, matched: MatchedCollectives, ordinal: int, core: Core, on_gpu: bool = True) -> None:
        self._m, self.ordinal, self.core, self.on_gpu = matched, ordinal, core, on_gpu
        self.parts: dict[int, int] = {
            int(matched.number[part]): part
            for part in matched.parts.of_rank(ordinal).tolist()
            if matched.number[part] >= 0 and matched.parts.form_of(part).on_host != on_gpu
        }

    @cached_property
    def chains(self) -> RankChains:
        """Its binding causes."""
        return RankChains(self.core)

    @cached_property
    def host(self) -> HostLabels:
        """Its host time."""
        return HostLabels(self.core)

    @cached_property
    def _launched(self) -> tuple[Rows, Ns]:
        c, rows = self.core.columns, whole_window(self.core).linked_gpu_rows
        rows = rows[gpu_classes(self.core, rows) != COMMUNICATION]
        launched = c.start_ns[c.parent[rows]]
        order = np.argsort(launched, kind="stable")
        return rows[order], launched[order]

    def kernels(self, start_ns: int, end_ns: int) -> dict[str, Kernels]:
        """Its GPU work that was launched within a span and does not communicate, by name."""
        rows, launched = self._launched
        return by_name(self.core, rows[slice(*np.searchsorted(launched, (start_ns, end_ns)))])

    @cached_property
    def order(self) -> list[int]:
        """Its collectives in the order in which it came to them."""
        start = self._m.start_ns
        return sorted(self.parts, key=lambda collective: (start[self.parts[collective]], collective))

    @cached_property
    def place(self) -> dict[int, int]:
        """The place of each collective in that order."""
        return {collective: at for at, collective in enumerate(self.order)}

    @cached_property
    def ends(self) -> dict[int, int]:
        """The points of its chains at which its parts of collectives end, and the collectives."""
        end_ns = self.core.columns.end_ns
        last = {
            collective: max(self._m.parts.kernels(part), key=lambda row: int(end_ns[row]))
            for collective, part in self.parts.items()
        }
        return {self.chains.end_of(row): collective for collective, row in last.items()}

    @cached_property
    def collective_of(self) -> dict[int, int]:
        """The collective that each kernel is of."""
        return {row: collective for collective, part in self.parts.items() for row in self._m.parts.kernels(part)}

    def first_row(self, collective: int) -> int:
        """The first kernel of its part of a collective."""
        start_ns = self.core.columns.start_ns
        return min(self._m.parts.kernels(self.parts[collective]), key=lambda row: int(start_ns[row]))

    def point(self, collective: int) -> int:
        """The point of its chains at which its part of a collective starts."""
        return self.chains.start_of(self.first_row(collective))

    def start_ns(self, collective: int) -> int:
        """When its part of a collective starts."""
        return int(self._m.parts.own_start_ns[self.parts[collective]])

    def end_ns(self, collective: int) -> int:
        """When its part of a collective ends."""
        return int(self._m.parts.own_end_ns[self.parts[collective]])

    def launched_ns(self, collective: int, otherwise: int) -> int:
        """When its part of a collective was launched; `otherwise` where that is not recorded."""
        call = int(self.core.columns.parent[self.first_row(collective)])
        return int(self.core.columns.start_ns[call]) if call >= 0 else otherwise

    def begin_ns(self, collective: int) -> int:
        """When the step of its part of a collective began on the host; without steps, when its first call did."""
        return self._step_of(collective)[0]

    def _step_of(self, collective: int) -> tuple[int, int]:
        row, c = self.first_row(collective), self.core.columns
        step = int(self.core.gpu_step[row] if self.on_gpu else self.core.step[row])
        if step < 0:
            return self.host.first_ns, int(c.end_ns.max())
        return int(c.start_ns[step]), int(c.end_ns[step])

    @cached_property
    def own_ns(self) -> Callable[[int, int], int]:
        """How long the host did not wait in collectives, or for them, within a span."""
        return cache(self._own_ns)

    def _own_ns(self, start_ns: int, end_ns: int) -> int:
        did = self.host.within(start_ns, end_ns).items()
        return end_ns - start_ns - sum(one.ns for label, one in did if label[1].startswith(DISTRIBUTED))

    def own_of_step_ns(self, collective: int) -> int:
        """The same within the step of its part of a collective."""
        return self.own_ns(*self._step_of(collective))

    def waited_for(self, row: int) -> tuple[int, int]:
        """For which rank the kernel of a collective waited, -1 for none that is known, and how long, ns."""
        collective = self.collective_of.get(row, -1)
        wait = int(self._m.wait_ns[self.parts[collective]]) if collective >= 0 else 0
        return (int(self._m.trace[self._m.last_part[collective]]), wait) if wait else (-1, 0)


def shared_ends(one: RankWork, other: RankWork) -> frozenset[int]:
    """The points at which those collectives of a rank end that another rank took part in, too."""
    return frozenset(point for point, collective in one.ends.items() if collective in other.parts)


def pipelines(matched: MatchedCollectives) -> tuple[Codes, Codes]:
    """For each rank the number of its pipeline, and its stage there.

    Ranks that transfers join, directly or over others, are of one pipeline. Its stages are in the order in which they
    first send something: a stage sends when it has received and computed. Ranks without a file have their stage, too.
    Ranks of a ring are one stage.
    """
    m, count = matched, len(matched.ranks)
    transfers: Mask = np.array([kind in POINT_TO_POINT for kind in m.kind], bool)
    parts = m.order[np.repeat(transfers, m.count)]
    rank, other = m.trace[parts], m.per_part(m.trace[m.last_part])[parts]
    sends = parts[np.array([one.kind == "send" for one in m.parts.forms], bool)[m.parts.form[parts]]]
    sender, when = m.trace[sends], m.last_start_ns[m.number[sends]]
    elsewhere = ends_elsewhere(m)
    there = {one.rank: at for at, one in enumerate(m.ranks)}
    missing = sorted({*chain(*elsewhere.values())} - {*there})
    place = there | {one: count + at for at, one in enumerate(missing)}
    places = count + len(missing)  # several ranks may have one number
    for form, (source, target) in elsewhere.items():
        of = np.flatnonzero(m.parts.form == form)
        rank, other = np.append(rank, place[source]), np.append(other, place[target])
        if place[source] >= count:
            sender, when = np.append(sender, np.full(len(of), place[source])), np.append(when, m.end_ns[of])
    number = np.arange(places)
    while True:  # the smallest place of each pipeline goes on from rank to rank
        least = number.copy()
        np.minimum.at(least, rank, number[other])
        np.minimum.at(least, other, number[rank])
        if np.array_equal(least, number):
            break
        number = least
    pipeline = np.unique(number, return_inverse=True)[1]
    first = np.full(places, np.iinfo(np.int64).max)
    np.minimum.at(first, sender, when)
    stage = np.zeros(places, np.int64)
    for _, of in positions_by(pipeline):
        stage[of[np.lexsort((of, first[of]))]] = np.arange(len(of))
    stage[[place[rank] for rank in _in_rings(m) if rank in place]] = 0
    return pipeline[:count], stage[:count]


def _in_rings(m: MatchedCollectives) -> list[int]:
    """Numbers of the ranks of rings: three or more that all send equally often, each to the next one alone."""
    there, ways = {one.rank for one in m.ranks}, Counter[tuple[int, int]]()
    count = np.bincount(m.parts.form, minlength=len(m.parts.forms))
    for form, times in zip(m.parts.forms, count.tolist(), strict=True):
        source, target = ends_of(form) if form.kind in POINT_TO_POINT else (None, None)
        if source is not None and target is not None and (form.kind == "send" or source not in there):
            ways[source, target] += times
    from_one, to_one = (Counter(way[end] for way in ways) for end in (0, 1))
    after = {source: target for source, target in ways if from_one[source] == to_one[target] == 1}
    found, seen = list[int](), set[int]()
    for first in after:
        ring, one = list[int](), first
        while one in after and one not in seen:
            seen.add(one)
            ring.append(one)
            one = after[one]
        if one == first and len(ring) > 2 and len({ways[each, after[each]] for each in ring}) == 1:
            found += ring
    return found
