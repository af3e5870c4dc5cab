"""Critical paths of ranks that are not held: each is asked where it is read, and answers in some bytes a collective.

Within a rank everything follows from its own points once it is known when the others had come to its collectives. So a
rank is asked four things: how long its fastest causes take, how long those take that bind, and then, with the usual
ones of all ranks, which collective the start of each collective follows from. The path is followed back over these,
from rank to rank, and the ranks that it leads over are asked for the segments of their stretches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.analyses.critical_path.causes import (
    Causes,
    Latencies,
    bound_by,
    bound_latencies,
    bound_latency,
    causes,
    check_gpu_work,
    ends_of,
    latencies,
    least_latency,
    levels,
    notes_on,
    together,
    unbound,
)
from tracelens_graph.analyses.critical_path.collective_points import (
    EARLIEST,
    CollectivePoints,
    PartPoints,
    collective_points,
    has_root,
    parts_on_gpu,
    recorded_root,
)
from tracelens_graph.analyses.critical_path.critical_path import CriticalPath, critical_path, joined_steps
from tracelens_graph.analyses.critical_path.path_nodes import Nodes
from tracelens_graph.analyses.critical_path.path_tables import LAST_COMES, TIES, tie_columns
from tracelens_graph.analyses.critical_path.points import Edge, Inferred, RankPoints, Role, rank_points
from tracelens_graph.analyses.critical_path.rerun import MOST_QUANTILE, NEVER, Reach, forward, reached
from tracelens_graph.analyses.critical_path.walk import NEAR_NS, Class, Path, Ties, followed, segments_of
from tracelens_graph.analyses.ranks.clocks import RankClock
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import Reader, TraceMember, TraceSet, rank_number
from tracelens_graph.graph.window import gpu_steps
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Mask, Ns, Rows

# --- where a rank is read ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KeptRank:
    """What is kept of a rank from question to question, on its own clock.

    Attributes:
        points: its points and edges.
        start, end, single: per collective its points, and whether these are of one kernel; -1 on the host.
        root: place of a collective -> the root that it recorded, where its kind has one.
        steps: per step with GPU work its number, when it begins on the host, and its last GPU end.
        ends: number of a step -> its GPU ends.
    """

    points: RankPoints
    start: Rows
    end: Rows
    single: Mask
    root: Mapping[int, int]
    steps: Sequence[tuple[int, int, int]]
    ends: Mapping[int, Rows]


def kept_rank(core: Core) -> KeptRank:
    """What is kept of a rank."""
    points, nodes, c = rank_points(core), collectives_of(core).nodes, core.columns
    on_gpu = np.array([at for at, one in enumerate(nodes) if not one.on_host], np.int64)
    start, end, single = np.full(len(nodes), -1), np.full(len(nodes), -1), np.ones(len(nodes), bool)
    start[on_gpu], end[on_gpu], single[on_gpu] = ends_of(points, [nodes[at].rows for at in on_gpu.tolist()], core)
    root = {at: recorded_root(core, one.rows) for at, one in enumerate(nodes) if has_root(one.kind)}
    steps = [
        (number, int(c.start_ns[mark]), int(points.time[points.gpu_end[of]].max()))
        for number, mark, of in gpu_steps(core, points.gpu_rows)
    ]
    known = {at: one for at, one in root.items() if one is not None}
    ends: dict[int, Rows] = {}
    for number, _, of in gpu_steps(core, points.gpu_rows):
        ends[number] = np.append(ends.get(number, of[:0]), points.gpu_end[of])
    return KeptRank(points, start, end, single, known, steps, ends)


@dataclass(frozen=True, eq=False)
class Given:
    """What a rank must know of the others.

    Attributes:
        clock: its clock.
        node: places of its parts in collectives whose ranks were matched, ascending.
        came_ns: per part when those that it gets data from have come; `EARLIEST` where nothing shows it.
        served, whole: per part whether its end follows from that alone, and whether all its ranks are there.
        least_ns, usual_ns, most_ns: per kind of edge the latencies of all ranks, as far as they are known.
    """

    clock: RankClock
    node: Rows = field(default_factory=lambda: np.zeros(0, np.int64))
    came_ns: Ns = field(default_factory=lambda: np.zeros(0, np.int64))
    served: Mask = field(default_factory=lambda: np.zeros(0, bool))
    whole: Mask = field(default_factory=lambda: np.zeros(0, bool))
    least_ns: Ns | None = None
    usual_ns: Ns | None = None
    most_ns: Ns | None = None


def own_causes(kept: KeptRank, given: Given, core: Core | None = None) -> Causes:
    """The points of a rank alone; of its collectives there is one point each for when the others had come."""

    def meet(_: Rows, time: Ns) -> CollectivePoints:
        there = _met(given)
        end = kept.end[given.node]
        return CollectivePoints(
            len(time),
            time=given.came_ns[there],
            ordinal=np.zeros(len(there), np.int32),
            collective=there,
            before=len(time) + np.arange(len(there)),
            after=end[there],
            kind=np.full(len(there), Edge.transfer, np.int8),
            served=end[given.served],
            whole=end[given.whole],
        )

    traces = TraceSet([] if core is None else [TraceMember(core, "")])
    made = unbound(traces, None, [kept.points], given.clock, meet)
    if given.least_ns is None:
        return made
    made = bound_by(made, given.least_ns, given.least_ns if given.usual_ns is None else given.usual_ns)
    return replace(made, most_ns=given.most_ns)


def _met(given: Given) -> Rows:
    """The parts of which it is known when the others had come, in the order of their points."""
    return np.flatnonzero(given.came_ns > EARLIEST)


@dataclass(frozen=True, eq=False)
class Known:
    """What a rank answers first.

    Attributes:
        about: as in `RankPoints`.
        latencies: of all its edges.
        root, steps: as in `KeptRank`; times on the common clock.
        several: places of collectives that start with another kernel than they end with.
        last_ns: its last GPU end on that, None without any.
    """

    about: Inferred
    latencies: Latencies
    root: Mapping[int, int]
    steps: Sequence[tuple[int, int, int]]
    several: Rows
    last_ns: int | None


def known_of(rank: Reader, given: Given) -> Known:
    """The first answer of a rank."""
    kept = rank.once(kept_rank)
    made = own_causes(kept, given)
    times = given.clock(0, np.array([one[1:] for one in kept.steps], np.int64).reshape(-1)).reshape(-1, 2).tolist()
    ends = made.time[made.role == Role.gpu_end]
    return Known(
        kept.points.about,
        latencies(made),
        kept.root,
        [(number, begin, end) for (number, _, _), (begin, end) in zip(kept.steps, times, strict=True)],
        np.flatnonzero(~kept.single),
        int(ends.max()) if len(ends) else None,
    )


def bound_latencies_of(rank: Reader, given: Given) -> Latencies:
    """The second: latencies of the edges that bind with the least ones of all ranks."""
    return bound_latencies(own_causes(rank.once(kept_rank), given))


def reach_of(made: Causes, kept: KeptRank, given: Given, weight: Ns) -> Reach:
    """How the starts of the parts of a rank follow from when the others had come, and behind these its last GPU ends.

    Args:
        made, kept, given: the rank.
        weight: how long each of its edges takes.
    """
    there, points = _met(given), len(made.time) - len(made.collective)
    ends = np.flatnonzero(made.role == Role.gpu_end)
    starts = kept.start[given.node]
    targets = [*starts.reshape(-1, 1), ends, *(kept.ends[number] for number in sorted(kept.ends))]
    found = reached(made, weight, points + np.arange(len(there)), starts[there], targets)
    return found._replace(source=np.where(found.source >= 0, np.append(there, -1)[found.source], -1))


class Stretches(NamedTuple):
    """The third: where the stretches of a rank begin that lead to its collectives and to some last GPU ends.

    Attributes:
        part: per part the one whose end the start of it follows from; -1 for the first thing that is recorded.
        sink: per moment the same of its last GPU event that ends then; -2 for none.
    """

    part: Rows
    sink: Rows


def stretches_of(rank: Reader, given: tuple[Given, Ns]) -> Stretches:
    """The third answer of a rank.

    Args:
        rank: the rank.
        given: of the others, and moments at which paths end.
    """
    kept = rank.once(kept_rank)
    made = own_causes(kept, given[0])
    points = len(made.time)
    bound = np.flatnonzero(made.binding >= 0)
    source = np.arange(points)
    source[bound] = made.before[made.binding[bound]]
    for _ in range(points.bit_length()):  # what follows from itself, in a circle, ends anywhere in it
        further = source[source]
        if np.array_equal(further, source):
            break
        source = further
    first = np.full(points, -1)
    first[points - len(made.collective) :] = made.collective
    begins = np.append(first[source], -2)  # for no point, which is -1
    return Stretches(begins[kept.start[given[0].node]], begins[made.last_ends(given[1])])


class Leg(NamedTuple):
    """A stretch of a path on one rank.

    Attributes:
        part: the part to whose start it leads; -1 for the end of the path.
        moment: the end of the path.
        start_ns: the beginning of the path; None for as far as it can be followed.
    """

    part: int
    moment: int
    start_ns: int | None


class Segments(NamedTuple):
    """The fourth: the segments of a path on a rank, and near ties there.

    Attributes:
        counts: number of segments of each stretch.
        start_ns, end_ns, kind: per segment, as in `Path`.
        part: per segment the part whose transfer it is; -1 for anything else.
        nodes: what stands for each.
        edge, margin_ns, points, columns: its near ties: numbers in their order, and as in `Ties` and `TIES`.
    """

    counts: list[int]
    start_ns: Ns
    end_ns: Ns
    kind: np.ndarray
    part: Rows
    nodes: Nodes
    edge: Rows
    margin_ns: Ns
    points: int
    columns: Mapping[str, Cells]


def segments_on(rank: Reader, given: tuple[Given, Sequence[Sequence[Leg]]]) -> list[Segments]:
    """The segments of some paths on a rank.

    Args:
        rank: the rank.
        given: of the others, and of each path the stretches on this rank, in the order of time.
    """
    made = own_causes(kept := rank.once(kept_rank), given[0], rank.core)
    return [_segments(made, kept, given[0], legs) for legs in given[1]]


def _segments(made: Causes, kept: KeptRank, given: Given, legs: Sequence[Leg]) -> Segments:
    found = []
    for leg in legs:
        ends = kept.start[given.node[[leg.part]]] if leg.part >= 0 else made.last_ends(np.array([leg.moment], np.int64))
        found.append(segments_of(made, followed(made, int(ends[0]), leg.start_ns), leg.start_ns))
    edge, start, end, kind = (np.concatenate(one) for one in zip(*found, strict=True))
    path = Path(made, None, -1, edge, start, end, kind)
    moves = made.kind[edge] == Edge.transfer
    part = np.full(len(edge), -1)
    part[moves] = made.collective[made.before[edge[moves]] - (len(made.time) - len(made.collective))]
    ties = path.ties
    return Segments(
        [len(one[0]) for one in found], start, end, kind, part, path.nodes, ties.edge, ties.margin_ns, ties.points,
        tie_columns(path),
    )  # fmt: skip


def kernel_names(rank: Reader, given: Sequence[int]) -> list[str]:
    """Names of the first kernels of some collectives of a rank, by their places."""
    core, nodes = rank.core, collectives_of(rank.core).nodes
    return [core.names[core.columns.name[nodes[at].rows[0]]] for at in given]


# --- where they are asked ---------------------------------------------------------------------------------------------


class ReducedCauses:
    """What bound the points of ranks that are not held, as far as a path shows it.

    Args:
        traces: the ranks.
        matched: which of their collectives are one, in all that was recorded; by default they are matched.

    Raises:
        AnalysisError: no rank has a GPU event.
    """

    def __init__(self, traces: TraceSet, matched: MatchedCollectives | None = None) -> None:
        self.traces = traces
        self.matched = MatchedCollectives(traces) if matched is None else matched
        clocks = {at: Given(self.matched.rank_clock(at)) for at in range(len(traces))}
        found: dict[int, Known] = {}
        self._least = least_latency(together(_first_answers(traces.ask(known_of, clocks), found)))
        self._known = [found[at] for at in range(len(traces))]
        ends = [one.last_ns for one in self._known if one.last_ns is not None]
        check_gpu_work([len(ends)])
        self.last_ns = max(ends)
        self.steps = joined_steps(step for one in self._known for step in one.steps)
        self._part = parts_on_gpu(self.matched)
        self._first = np.searchsorted(self.matched.trace[self._part], np.arange(len(traces) + 1))

    @cached_property
    def notes(self) -> list[str]:
        """What a reader must know."""
        return notes_on(self.traces, self.matched, [one.about for one in self._known], self._found)

    @cached_property
    def _found(self) -> CollectivePoints:
        """Points of collectives; points of their parts are their starts, one for each, and then their ends."""
        matched, part = self.matched, self._part
        count = len(part)
        single = np.ones(count, bool)
        for rank, (first, last) in enumerate(pairwise(self._first.tolist())):
            single[first:last] = ~np.isin(matched.node[part[first:last]], self._known[rank].several)
        own = np.arange(count)
        points = PartPoints(part, own, count + own, single)
        return collective_points(matched, points, self._time, self._root)

    @cached_property
    def _time(self) -> Ns:
        return np.concatenate((self.matched.start_ns[self._part], self.matched.end_ns[self._part]))

    def _root(self, part: int) -> int | None:
        return self._known[int(self.matched.trace[part])].root.get(int(self.matched.node[part]))

    @cached_property
    def _met(self) -> Rows:
        """Per part the place of the point among those of collectives that its end follows from; -1 for none."""
        found, count = self._found, len(self._part)
        met = np.full(count, -1)
        moves = found.kind == Edge.transfer
        met[found.after[moves] - count] = found.before[moves] - 2 * count
        return met

    @cached_property
    def _arrivals(self) -> tuple[Rows, Rows]:
        """Parts, and the place of the point that each may be the last to come to."""
        comes = self._found.kind == Edge.arrive
        return self._found.before[comes], self._found.after[comes] - 2 * len(self._part)

    @cached_property
    def _last(self) -> Rows:
        """Per point of collectives the part that came last to it."""
        part, point = self._arrivals
        last = np.full(len(self._found.time), -1)
        at = np.flatnonzero(self._time[part] == self._found.time[point])
        last[point[at]] = part[at]  # of equal indices the last assignment stays, as in `bind`
        return last

    def _given(self, least_ns: Ns, usual_ns: Ns | None = None) -> list[Given]:
        """What each rank must know of the others."""
        found, count = self._found, len(self._part)
        came = np.append(found.time, EARLIEST)[self._met]
        served, whole = np.zeros((2, count), bool)
        served[found.served - count] = True
        whole[found.whole - count] = True
        node = self.matched.node[self._part]
        return [
            Given(
                self.matched.rank_clock(rank),
                node[first:last],
                came[first:last],
                served[first:last],
                whole[first:last],
                least_ns,
                usual_ns,
            )
            for rank, (first, last) in enumerate(pairwise(self._first.tolist()))
        ]

    @cached_property
    def _complete(self) -> list[Given]:
        """The same, with the latencies of all ranks."""
        least = self._least
        found = self.traces.ask(bound_latencies_of, dict(enumerate(self._given(least))))
        usual = bound_latency(together(latencies for _, latencies in found), least, 0.5)
        return self._given(least, usual)

    @cached_property
    def bounded(self) -> list[Given]:
        """The same, with the latencies of the slowest that bind."""
        found = self.traces.ask(bound_latencies_of, dict(enumerate(self._complete)))
        most = bound_latency(together(latencies for _, latencies in found), self._least, MOST_QUANTILE)
        return [replace(one, most_ns=most) for one in self._complete]

    def extent(self, reach: Mapping[int, Reach], step: int | None) -> tuple[int, int]:
        """When a step begins and ends where ranks follow from one another in other times; see `reach_of`.

        Without a step 0, and when everything has ended.
        """
        found, parts = self._found, len(self._part)
        met = len(found.time)
        before, after, takes = (
            [self._arrivals[0] + met],
            [self._arrivals[1]],
            [np.zeros(len(self._arrivals[0]), np.int64)],
        )
        ends: list[tuple[int, int]] = []  # a rank, and its number among ends
        origin = met + parts
        for rank, one in sorted(reach.items()):
            first, count = int(self._first[rank]), int(self._first[rank + 1] - self._first[rank])
            own = np.append(np.append(self._met[first : first + count], origin), 0)[one.source]
            before.append(np.where(one.source >= 0, own, origin))
            is_end = one.target >= count
            after.append(np.where(is_end, origin + 1 + len(ends) + one.target - count, met + first + one.target))
            takes.append(one.takes_ns)
            ends += [(rank, at) for at in range(1 + len({number for number, _, _ in self._known[rank].steps}))]
        last = np.iinfo(np.int64).max
        moment = np.concatenate((found.time, self._time[:parts], [EARLIEST], np.full(len(ends), last)))
        edges = (np.concatenate(before), np.concatenate(after))
        level, ordered = levels(moment, *edges)
        given = np.zeros(len(moment), np.int64)
        came = forward(
            edges[0][ordered], edges[1][ordered], np.concatenate(takes)[ordered], np.lexsort((level, moment)), given
        )[origin + 1 :].tolist()
        if step is None:
            return 0, max(end for end, (_, at) in zip(came, ends, strict=True) if at == 0 and end > NEVER // 2)
        known = []
        for end, (rank, at) in zip(came, ends, strict=True):
            if at:
                steps = self._known[rank].steps
                number = sorted({one for one, _, _ in steps})[at - 1]
                known += [(number, begin, end) for one, begin, _ in steps if one == number]
        return joined_steps(known).of(step)

    @cached_property
    def _moments(self) -> Ns:
        """When paths end: that of everything, and those of the steps."""
        return np.append(self.steps.end_ns, self.last_ns)

    @cached_property
    def _stretches(self) -> Mapping[int, Stretches]:
        given = {rank: (one, self._moments) for rank, one in enumerate(self._complete)}
        return dict(self.traces.ask(stretches_of, given))

    def path(self, step: int | None = None) -> ReducedPath:
        """The critical path of a step; by default of everything there is.

        Raises:
            AnalysisError: there is no such step.
        """
        return self._paths([(step, *((None, self.last_ns) if step is None else self.steps.of(step)))])[0]

    def step_paths(self) -> list[ReducedPath]:
        """The critical paths of all steps."""
        steps = self.steps
        return self._paths(
            list(zip(*(one.tolist() for one in (steps.number, steps.start_ns, steps.end_ns)), strict=True))
        )

    def _paths(self, asked: Sequence[tuple[int | None, int | None, int]]) -> list[ReducedPath]:
        walked = [list(self._walk(start, end))[::-1] for _, start, end in asked]
        on: dict[int, list[list[Leg]]] = {}
        for at, legs in enumerate(walked):
            for rank, leg in legs:
                on.setdefault(rank, [[] for _ in asked])[at].append(leg)
        found = self.traces.ask(
            segments_on, {rank: (self._complete[rank], list(filter(None, legs))) for rank, legs in on.items()}
        )
        left = {rank: iter(one) for rank, one in found}
        made = []
        for (step, start, end), legs in zip(asked, walked, strict=True):
            own: dict[int, Segments] = {rank: next(left[rank]) for rank in sorted({rank for rank, _ in legs})}
            made.append(ReducedPath.of(self, step, (start, end), [rank for rank, _ in legs], own))
        return made

    def _walk(self, start: int | None, end: int) -> Iterator[tuple[int, Leg]]:
        """The stretches of a path and their ranks, from its end back."""
        moment = int(np.flatnonzero(self._moments == end)[0])
        rank = max(rank for rank, one in self._stretches.items() if one.sink[moment] > -2)
        leg, target = Leg(-1, end, start), int(self._stretches[rank].sink[moment])
        for _ in range(len(self._part) + 1):
            yield rank, leg
            if target < 0 or (start is not None and self._found.time[self._met[self._first[rank] + target]] <= start):
                return
            last = int(self._last[self._met[self._first[rank] + target]])
            rank = int(self.matched.trace[self._part[last]])
            leg = Leg(last - int(self._first[rank]), end, start)
            target = int(self._stretches[rank].part[leg.part])

    def ties_at(self, rank: Rows, part: Rows) -> tuple[Rows, Rows]:
        """Parts that came nearly as late as the last one to points of collectives, and the places of these.

        Args:
            rank, part: ranks, and their parts whose transfers the points begin.
        """
        on_path = np.zeros(len(self._found.time), bool)
        on_path[self._met[self._first[rank] + part]] = True
        other, point = self._arrivals
        near = on_path[point] & (self._found.time[point] - self._time[other] < NEAR_NS) & (other != self._last[point])
        return other[near], point[near]

    def arrival_columns(self, other: Rows, point: Rows) -> dict[str, Cells]:
        """What the table of near ties shows of such parts."""
        bound = self._last[point]
        wanted: dict[int, dict[int, str]] = {}
        for one in (*other.tolist(), *bound.tolist()):
            wanted.setdefault(int(self.matched.trace[self._part[one]]), {})[one] = ""
        nodes = {rank: [int(self.matched.node[self._part[one]]) for one in parts] for rank, parts in wanted.items()}
        for rank, names in self.traces.ask(kernel_names, nodes):
            wanted[rank].update(zip(wanted[rank], names, strict=True))
        names = {part: name for parts in wanted.values() for part, name in parts.items()}
        came = {part: rank_number(self.traces, rank) for rank, parts in wanted.items() for part in parts}
        arrives = [Edge.arrive.name] * len(other)
        return {
            "rank": [came[one] for one in bound.tolist()],
            "name": [LAST_COMES] * len(other),
            "bound_by": arrives,
            "bound_name": [names[one] for one in bound.tolist()],
            "bound_rank": [came[one] for one in bound.tolist()],
            "other": arrives,
            "other_name": [names[one] for one in other.tolist()],
            "other_rank": [came[one] for one in other.tolist()],
            "margin_us": (self._found.time[point] - self._time[other]) / 1e3,
            "uid": [None] * len(other),
        }

    def margins(self, other: Rows, point: Rows) -> Ns:
        """How much earlier each of such parts came."""
        return np.asarray(self._found.time[point] - self._time[other])

    def came_from(self, rank: Rows, part: Rows) -> Rows:
        """The rank that came last to the collectives whose transfers some parts are."""
        return np.asarray(self._found.ordinal[self._met[self._first[rank] + part]])

    @cached_property
    def held(self) -> Causes:
        """The same of all ranks, read again and held together."""
        return causes(self.traces.with_graphs(lambda core: core), self.matched)

    @cached_property
    def frame(self) -> Causes:
        """The ranks and notes alone, without points."""
        none = np.zeros(0, np.int64)
        kept = RankPoints(none, none, none, none, none, none, none, none, none, Inferred(0, 0, []))
        found = unbound(self.traces, self.matched, [kept], self.matched.clock_ns, lambda _, time: CollectivePoints(0))
        return replace(found, notes=self.notes)


def _first_answers(answers: Iterable[tuple[int, Known]], found: dict[int, Known]) -> Iterator[Latencies]:
    """Latencies of ranks, which are not held; all else goes to `found`."""
    for rank, known in answers:
        yield known.latencies
        found[rank] = replace(known, latencies={})


class ReducedPath(CriticalPath):
    """A path over ranks that are not held.

    Attributes:
        reduced: what bound their points.
        arrivals: parts that came nearly as late as the last one to collectives of the path, and the points of these.
        columns: of near ties within ranks.
        order: of these, and behind them of arrivals, the closest first.
    """

    reduced: ReducedCauses
    arrivals: tuple[Rows, Rows]
    columns: Mapping[str, Sequence[Any]]
    order: Rows

    @classmethod
    def of(
        cls, reduced: ReducedCauses, step: int | None, span: tuple[int | None, int], legs: Sequence[int],
        found: Mapping[int, Segments],
    ) -> ReducedPath:  # fmt: skip
        """The path of some stretches.

        Args:
            reduced: what bound the points.
            step, span: the step, from when on, and until when.
            legs: the rank of each stretch, in the order of time.
            found: the segments of each rank.
        """
        place = dict.fromkeys(found, 0)
        number = dict.fromkeys(found, 0)
        ranks, at = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for rank in legs:
            count = found[rank].counts[number[rank]]
            ranks.append(np.full(count, rank))
            at.append(place[rank] + np.arange(count))
            place[rank] += count
            number[rank] += 1
        ordinal, of = np.concatenate(ranks), np.concatenate(at)
        start, end, kind, part = (
            _gathered(ordinal, of, {rank: getattr(one, name) for rank, one in found.items()})
            for name in ("start_ns", "end_ns", "kind", "part")
        )
        nodes = Nodes(*(
            [getattr(found[rank].nodes, name)[here] for rank, here in zip(ordinal.tolist(), of.tolist(), strict=True)]
            for name in ("rank", "uid", "name", "op", "module")
        ))  # fmt: skip
        nodes.rank[:] = [rank_number(reduced.traces, rank) for rank in ordinal.tolist()]
        moves = np.flatnonzero(part >= 0)
        came_from = ordinal.copy()
        came_from[moves] = reduced.came_from(ordinal[moves], part[moves])
        edge = np.arange(len(ordinal))
        begin, until = span
        if begin is not None and (first := int(start[0]) if len(start) else until) > begin:
            start, end, kind = (
                np.append(begin, start),
                np.append(first, end),
                np.append(np.int8(Class.unrecorded), kind),
            )
            edge, ordinal, came_from = (np.append(-1, one) for one in (edge, ordinal, came_from))
            nodes = Nodes(
                [None, *nodes.rank], [None, *nodes.uid], *(["", *one] for one in (nodes.name, nodes.op, nodes.module))
            )
        path = cls(reduced.frame, step, -1, edge, start, end, kind)
        moves = np.flatnonzero(edge >= 0)[moves]
        arrivals = reduced.ties_at(ordinal[moves], part[part >= 0])
        inside = sorted(found)
        margin = np.concatenate([*(found[rank].margin_ns for rank in inside), reduced.margins(*arrivals)])
        by_edge = np.concatenate([*(found[rank].edge for rank in inside), np.arange(len(arrivals[0]))])
        of_rank = np.repeat(np.arange(len(inside) + 1), [*(len(found[rank].edge) for rank in inside), len(arrivals[0])])
        points = sum(one.points for one in found.values()) + len(np.unique(arrivals[1]))
        order = np.lexsort((by_edge, of_rank, margin))
        path.__dict__.update(
            reduced=reduced, arrivals=arrivals, order=order, ordinal=ordinal, came_from=came_from, nodes=nodes,
            steps=reduced.steps, ties=Ties(order, margin[order], points),
            columns={
                name: [
                    rank_number(reduced.traces, rank) if name.endswith("rank") and cell is not None else cell
                    for rank in inside
                    for cell in found[rank].columns[name]
                ]
                for name in TIES
            },
        )  # fmt: skip
        return path

    def near_ties(self) -> Table:
        """As `path_tables.near_ties`."""
        more = self.reduced.arrival_columns(*self.arrivals)
        columns = {name: [(*self.columns[name], *more[name])[at] for at in self.order.tolist()] for name in more}
        return TIES.table(columns, f"Near ties: {self.title}", self.notes)

    def slack(self) -> Table:
        """As `path_tables.slack_by_name`; the ranks are held together for it."""
        return critical_path(self.reduced.held, self.step).slack()


def _gathered(rank: Rows, at: Rows, values: Mapping[int, np.ndarray]) -> np.ndarray:
    """Values of ranks at some places."""
    made = np.zeros(len(rank), next(iter(values.values())).dtype if values else np.int64)
    for one, of in positions_by(rank):
        made[of] = values[one][at[of]]
    return made
