"""A critical path: segments one behind the other over the ranks of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.analyses.critical_path.job_causes import JobCauses
from tracelens_graph.analyses.critical_path.path_nodes import Nodes
from tracelens_graph.analyses.critical_path.points import Edge
from tracelens_graph.analyses.critical_path.rank_answers import LAST_COMES, Leg, Segments, segments_on
from tracelens_graph.analyses.critical_path.walk import NEAR_NS, Class
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.ranks import rank_number
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.utils.arrays import Codes, Ns, Rows


class NearTies(NamedTuple):
    """Points of a path that might as well have followed from something else, the closest first.

    Attributes:
        columns: what the table of near ties shows of each.
        points: number of different points.
    """

    columns: Mapping[str, Sequence[Any]]
    points: int


@dataclass(frozen=True, eq=False, repr=False)
class Path:
    """A critical path: segments one behind the other; each begins where the one before it ends.

    Attributes:
        job: the ranks, and what bound their points.
        step: number of the step; None for all there is.
        ordinal: per segment the place of its rank in the set; -1 where nothing is recorded that the path could follow.
        came_from: per segment the place of the rank that the path comes from; -1 where nothing is recorded.
        start_ns, end_ns: per segment from when to when it lasts, on the clock of the set, ns.
        kind: per segment its `Class`.
        nodes: per segment the node that stands for it.
        ties: points of the path that might as well have followed from something else.
    """

    job: JobCauses
    step: int | None
    ordinal: Rows
    came_from: Rows
    start_ns: Ns
    end_ns: Ns
    kind: Codes
    nodes: Nodes
    ties: NearTies

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def traces(self) -> TraceSet:
        """The ranks."""
        return self.job.traces

    @cached_property
    def length_ns(self) -> int:
        """From the beginning of the path to its end, ns: the sum of its segments."""
        return int((self.end_ns - self.start_ns).sum())

    def __repr__(self) -> str:
        spent = sorted(self.ns_by_class.items(), key=lambda item: -item[1])
        shares = ", ".join(f"{name} {100 * ns / self.length_ns:.1f} %" for name, ns in spent)
        return f"<{self.title}: {self.length_ns / 1e6:,.3f} ms{f': {shares}' if shares else ''}>"

    @property
    def title(self) -> str:
        """What the path is of."""
        count = len(self.traces)
        ranks = f"{count:,} ranks" if count > 1 else "1 rank"
        of = "Critical path" if self.step is None else f"Critical path of step {self.step}"
        return self.traces.titled(f"{of}, {ranks}")

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the path."""
        notes = list(self.job.notes)
        spent = self.ns_by_class
        if "communication" in spent and (self.job.matched is None or "peer" in spent):
            notes.append(
                "ranks are missing: of their collectives, communication is what the shortest equal one takes, which "
                "may be waiting for a late rank, too"
            )
        if (missing := int((self.end_ns - self.start_ns)[self.kind == Class.unrecorded].sum())) > 0:
            notes.append(f"{missing / 1e6:,.3f} ms of the path have no recorded cause")
        if ties := len(self.ties.columns["name"]):
            points, others = self.ties.points, "another cause" if ties == 1 else f"{ties:,} other causes"
            place = "1 point" if points == 1 else f"{points:,} points"
            notes.append(
                f"{place} of the path might as well follow from {others}, less than {NEAR_NS / 1e3:g} us behind"
            )
        return notes

    @cached_property
    def ns_by_class(self) -> dict[str, int]:
        """Time on the path by class, ns; adds up to `length_ns`."""
        spent = np.zeros(len(Class), np.int64)
        np.add.at(spent, self.kind, self.end_ns - self.start_ns)
        return {one.name: int(spent[one]) for one in Class if spent[one]}

    @cached_property
    def rank(self) -> list[int | None]:
        """Per segment its rank in the job, else its place in the set; None where nothing is recorded."""
        return [None if at < 0 else rank_number(self.traces, at) for at in self.ordinal.tolist()]


Stretch = tuple[int | None, int | None, int]
"""A path that is wanted: number of the step, from when on, or None for as far as it can be followed, until when."""


def followed_paths(job: JobCauses, asked: Sequence[Stretch], made: type[Path] = Path) -> list[Any]:
    """Some paths over the ranks of a job; each rank is asked once for its segments of all of them."""
    walked = [job.legs(start, end) for _, start, end in asked]
    on: dict[int, dict[int, list[Leg]]] = {}  # rank, number of a path -> stretches
    for at, legs in enumerate(walked):
        for rank, leg in legs:
            on.setdefault(rank, {}).setdefault(at, []).append(leg)
    given = {rank: (job.given[rank], list(legs.values())) for rank, legs in on.items()}
    left = {rank: iter(one) for rank, one in job.traces.ask(segments_on, given)}
    found = []
    for (step, start, end), legs in zip(asked, walked, strict=True):
        own: dict[int, Segments] = {rank: next(left[rank]) for rank in sorted({rank for rank, _ in legs})}
        found.append(made(job, step, *_joined(job, (start, end), [rank for rank, _ in legs], own)))
    return found


def _joined(
    job: JobCauses, span: tuple[int | None, int], legs: Sequence[int], found: Mapping[int, Segments]
) -> tuple[Rows, Rows, Ns, Ns, Codes, Nodes, NearTies]:
    """The segments of a path; see `Path`.

    Args:
        job: the ranks.
        span: from when to when the path leads.
        legs: the rank of each stretch, in the order of time.
        found: the segments of each rank.
    """
    place, number = dict.fromkeys(found, 0), dict.fromkeys(found, 0)
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
    pairs = list(zip(ordinal.tolist(), of.tolist(), strict=True))
    nodes = Nodes(*([found[rank].nodes[column][here] for rank, here in pairs] for column in range(len(Nodes._fields))))
    m, moves = job.meetings, np.flatnonzero(part >= 0)
    parts = m.first[ordinal[moves]] + part[moves]
    came_from = ordinal.copy()
    came_from[moves] = m.found.ordinal[m.met[parts]]
    begin, until = span
    if begin is not None and (first := int(start[0]) if len(start) else until) > begin:
        start, end, kind = np.append(begin, start), np.append(first, end), np.append(np.int8(Class.unrecorded), kind)
        ordinal, came_from = np.append(-1, ordinal), np.append(-1, came_from)
        nodes = Nodes([None, *nodes.uid], *(["", *one] for one in nodes[1:]))
    return ordinal, came_from, start, end, kind, nodes, _near_ties(job, found, parts)


def _near_ties(job: JobCauses, found: Mapping[int, Segments], parts: Rows) -> NearTies:
    """What came nearly as late within ranks, and to the collectives of the path."""
    ranks = sorted(found)
    arrivals = _arrivals(job, *job.meetings.near(parts))
    own = {
        name: [*chain.from_iterable(_tie_cells(job, rank, found[rank], name) for rank in ranks), *cells]
        for name, cells in arrivals.items()
    }
    count = [len(found[rank].ties.edge) for rank in ranks]
    edge = [*(found[rank].ties.edge for rank in ranks), np.arange(len(arrivals["name"]))]
    margin = np.rint(1e3 * np.array(own["margin_us"], float)).astype(np.int64)
    of_rank = np.repeat(np.arange(len(ranks) + 1), [*count, len(arrivals["name"])])
    order = np.lexsort((np.concatenate(edge), of_rank, margin)).tolist()
    points = sum(one.ties.points for one in found.values()) + len(np.unique(job.meetings.near(parts)[1]))
    return NearTies({name: [cells[at] for at in order] for name, cells in own.items()}, points)


def _tie_cells(job: JobCauses, rank: int, found: Segments, name: str) -> Sequence[Any]:
    if name.endswith("rank"):
        return [rank_number(job.traces, rank)] * len(found.ties.edge)
    return found.columns[name]


def _arrivals(job: JobCauses, other: Rows, point: Rows) -> dict[str, list[Any]]:
    """What the table of near ties shows of parts that came nearly as late as the last one to points of collectives."""
    m = job.meetings
    bound = m.last[point]
    names = job.kernels((*other.tolist(), *bound.tolist()))
    of_bound, of_other = ([rank_number(job.traces, m.rank(one)) for one in part.tolist()] for part in (bound, other))
    return {
        "rank": of_bound,
        "name": [LAST_COMES] * len(other),
        "bound_by": [Edge.arrive.name] * len(other),
        "bound_name": [names[one] for one in bound.tolist()],
        "bound_rank": of_bound,
        "other": [Edge.arrive.name] * len(other),
        "other_name": [names[one] for one in other.tolist()],
        "other_rank": of_other,
        "margin_us": ((m.found.time[point] - m.start_ns[other]) / 1e3).tolist(),
        "uid": [None] * len(other),
    }


def _gathered(rank: Rows, at: Rows, values: Mapping[int, np.ndarray]) -> np.ndarray:
    """Values of ranks at some places."""
    made = np.zeros(len(rank), next(iter(values.values())).dtype if values else np.int64)
    for one, of in positions_by(rank):
        made[of] = values[one][at[of]]
    return made
