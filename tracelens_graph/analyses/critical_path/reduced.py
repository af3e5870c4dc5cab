"""Critical paths of ranks that are not held: each is asked where it is read, and answers in some bytes a collective.

Within a rank everything follows from its own points once it is known when the others had come to its collectives. So a
rank is asked four things: how long its fastest causes take, how long those take that bind, and then, with the usual
ones of all ranks, which collective the start of each collective follows from. The path is followed back over these,
from rank to rank, and the ranks that it leads over are asked for the segments of their stretches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from tracelens_graph.analyses.critical_path.causes import (
    Causes,
    Latencies,
    bound_latency,
    causes,
    check_gpu_work,
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
    parts_on_gpu,
)
from tracelens_graph.analyses.critical_path.critical_path import CriticalPath, critical_path, joined_steps
from tracelens_graph.analyses.critical_path.path_nodes import Nodes
from tracelens_graph.analyses.critical_path.path_tables import LAST_COMES, TIES
from tracelens_graph.analyses.critical_path.points import Edge, Inferred, RankPoints
from tracelens_graph.analyses.critical_path.rank_answers import (
    Given,
    Known,
    Leg,
    Segments,
    Stretches,
    bound_latencies_of,
    kernel_names,
    known_of,
    segments_on,
    stretches_of,
)
from tracelens_graph.analyses.critical_path.rerun import MOST_QUANTILE, NEVER, Reach, forward
from tracelens_graph.analyses.critical_path.walk import NEAR_NS, Class, Ties
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.graph.arrays import Places, positions_by
from tracelens_graph.graph.trace_set import TraceSet, rank_number
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Ns, Rows


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
    def _arrivals_at(self) -> Places:
        """The same by point."""
        return Places(self._arrivals[1], len(self._found.time))

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
        """When paths end: those of the steps, and that of everything; ascending."""
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
        on: dict[int, dict[int, list[Leg]]] = {}  # rank, number of a path -> stretches
        for at, legs in enumerate(walked):
            for rank, leg in legs:
                on.setdefault(rank, {}).setdefault(at, []).append(leg)
        found = self.traces.ask(
            segments_on, {rank: (self._complete[rank], list(legs.values())) for rank, legs in on.items()}
        )
        left = {rank: iter(one) for rank, one in found}
        made = []
        for (step, start, end), legs in zip(asked, walked, strict=True):
            own: dict[int, Segments] = {rank: next(left[rank]) for rank in sorted({rank for rank, _ in legs})}
            made.append(ReducedPath.of(self, step, (start, end), [rank for rank, _ in legs], own))
        return made

    def _walk(self, start: int | None, end: int) -> Iterator[tuple[int, Leg]]:
        """The stretches of a path and their ranks, from its end back."""
        moment = int(np.searchsorted(self._moments, end))
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
        at = self._arrivals_at.of(self._met[self._first[rank] + part])
        other, point = (one[at] for one in self._arrivals)
        near = (self._found.time[point] - self._time[other] < NEAR_NS) & (other != self._last[point])
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
