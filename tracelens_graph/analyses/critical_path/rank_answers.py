"""What a rank answers where it is read: from its own points, and from when the others had come.

What is kept of it is made once (`kept_rank`). It is asked for its latencies, for those that bind, for where the
stretches of paths over it begin, for the segments of these, and for what its threads and streams did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tracelens_graph.analyses.critical_path.causes import (
    Causes,
    Latencies,
    bound_by,
    bound_latencies,
    ends_of,
    latencies,
    unbound,
)
from tracelens_graph.analyses.critical_path.collective_points import (
    EARLIEST,
    CollectivePoints,
    has_root,
    recorded_root,
)
from tracelens_graph.analyses.critical_path.lanes import Lanes, lanes
from tracelens_graph.analyses.critical_path.path_nodes import NO_CALL, Nodes, named_segments, nodes_of
from tracelens_graph.analyses.critical_path.points import Edge, Inferred, RankPoints, Role, rank_points
from tracelens_graph.analyses.critical_path.rerun import (
    NEVER,
    Reach,
    forward,
    in_order,
    reached,
    weights,
)
from tracelens_graph.analyses.critical_path.walk import Class, Ties, followed, segments_of, ties_of
from tracelens_graph.analyses.ranks.clocks import RankClock
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.deferred import Reader
from tracelens_graph.graph.window import gpu_steps
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows, narrow


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
    root = {
        at: found
        for at, one in enumerate(nodes)
        if has_root(one.kind) and (found := recorded_root(core, one.rows)) is not None
    }
    steps: list[tuple[int, int, int]] = []
    ends: dict[int, Rows] = {}
    for number, mark, of in gpu_steps(core, points.gpu_rows):
        own = points.gpu_end[of]
        steps.append((number, int(c.start_ns[mark]), int(points.time[own].max())))
        ends[number] = np.append(ends.get(number, own[:0]), own)
    return KeptRank(points, start, end, single, root, steps, ends)


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


_MADE: WeakKeyDictionary[KeptRank, tuple[Given, Causes]] = WeakKeyDictionary()
"""The last points of ranks that are held, and the others that they know of."""


def own_causes(kept: KeptRank, given: Given) -> Causes:
    """The points of a rank alone; of its collectives there is one point each for when the others had come."""
    known, made = _MADE.get(kept, (None, None))
    if known is None or made is None or known.came_ns is not given.came_ns:
        made = unbound(kept.points, given.clock, lambda time: _meet(kept, given, time))
    is_bound = known is not None and known.least_ns is given.least_ns and known.usual_ns is given.usual_ns
    if given.least_ns is not None and not (is_bound and len(made.binding)):
        made = bound_by(made, given.least_ns, given.least_ns if given.usual_ns is None else given.usual_ns)
    made = replace(made, most_ns=given.most_ns)
    _MADE[kept] = given, made
    return made


def _meet(kept: KeptRank, given: Given, time: Ns) -> CollectivePoints:
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


def _met(given: Given) -> Rows:
    """The parts for which it is known when the others had come, in the order of their points."""
    return np.flatnonzero(given.came_ns > EARLIEST)


@dataclass(frozen=True, eq=False)
class Known:
    """What a rank answers first.

    Attributes:
        about: as in `RankPoints`.
        latencies: of all its edges.
        root, steps: as in `KeptRank`; times on the common clock.
        several: places of collectives that start with another kernel than they end with.
        first_ns, last_ns: its first moment on that, and its last GPU end; None without any.
    """

    about: Inferred
    latencies: Latencies
    root: Mapping[int, int]
    steps: Sequence[tuple[int, int, int]]
    several: Rows
    first_ns: int | None
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
        int(made.time.min()) if len(made.time) else None,
        int(ends.max()) if len(ends) else None,
    )


def bound_latencies_of(rank: Reader, given: Given) -> Latencies:
    """The second: latencies of the edges that bind with the least ones of all ranks."""
    return bound_latencies(own_causes(rank.once(kept_rank), given))


def reach_of(made: Causes, kept: KeptRank, given: Given, weight: Mapping[str, Ns], ends: Sequence[Rows]) -> Reach:
    """How the starts of the parts of a rank follow from when the others had come, and behind these some ends.

    Args:
        made, kept, given: the rank.
        weight: by name how long each of its edges takes.
        ends: sets of points; the latest of each counts.
    """
    parts = _met(given)
    sources = len(made.time) - len(made.collective) + np.arange(len(parts))
    return reached(made, weight, sources, kept.start[given.node], ends, parts)


def last_ends(made: Causes, kept: KeptRank) -> list[Rows]:
    """The points where GPU events of a rank end, all of them and those of each step."""
    return [np.flatnonzero(made.role == Role.gpu_end), *(kept.ends[number] for number in sorted(kept.ends))]


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
    return Stretches(narrow(begins[kept.start[given[0].node]]), narrow(begins[made.last_ends(given[1])]))


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
        ties: its near ties.
        columns: of these what the table shows of them, but for ranks.
    """

    counts: list[int]
    start_ns: Ns
    end_ns: Ns
    kind: Codes
    part: Rows
    nodes: Nodes
    ties: Ties
    columns: Mapping[str, Sequence[Any]]


def segments_on(rank: Reader, given: tuple[Given, Sequence[Sequence[Leg]]]) -> list[Segments]:
    """The segments of some paths on a rank.

    Args:
        rank: the rank.
        given: of the others, and of each path the stretches on this rank, in the order of time.
    """
    made = own_causes(kept := rank.once(kept_rank), given[0])
    return [_segments(made, kept, given[0], rank.core, legs) for legs in given[1]]


def _segments(made: Causes, kept: KeptRank, given: Given, core: Core, legs: Sequence[Leg]) -> Segments:
    found = []
    for leg in legs:
        ends = kept.start[given.node[[leg.part]]] if leg.part >= 0 else made.last_ends(np.array([leg.moment], np.int64))
        edges = followed(made, int(ends[0]), leg.start_ns)
        found.append(named_segments(made, core, *segments_of(made, core, edges, leg.start_ns)))
    edge, start, end, kind, rows = (np.concatenate(one) for one in zip(*found, strict=True))
    moves = made.kind[edge] == Edge.transfer
    part = np.full(len(edge), -1)
    part[moves] = made.collective[made.before[edge[moves]] - (len(made.time) - len(made.collective))]
    ties = ties_of(made, edge[np.diff(edge, prepend=-1) != 0])
    nodes = nodes_of(core, rows)
    for at in np.flatnonzero((rows < 0) & (kind == Class.host)).tolist():
        nodes.name[at] = NO_CALL
    return Segments([len(one[0]) for one in found], start, end, kind, part, nodes, ties, _of_ties(made, core, ties))


def _of_ties(made: Causes, core: Core, ties: Ties) -> dict[str, list[Any]]:
    point, bound = made.after[ties.edge], made.binding[made.after[ties.edge]]
    at, of_bound, of_other = (
        nodes_of(core, made.row[points]) for points in (point, made.before[bound], made.before[ties.edge])
    )
    return {
        "name": [name or LAST_COMES for name in at.name],
        "bound_by": [Edge(one).name for one in made.kind[bound].tolist()],
        "bound_name": of_bound.name,
        "other": [Edge(one).name for one in made.kind[ties.edge].tolist()],
        "other_name": of_other.name,
        "margin_us": (ties.margin_ns / 1e3).tolist(),
        "uid": at.uid,
    }


LAST_COMES = "the last rank comes"


def kernel_names(rank: Reader, given: Sequence[int]) -> list[str]:
    """Names of the first kernels of some collectives of a rank, by their places."""
    core, nodes = rank.core, collectives_of(rank.core).nodes
    return [core.names[core.columns.name[nodes[at].rows[0]]] for at in given]


class Did(NamedTuple):
    """What a rank did.

    Attributes:
        lanes: on its threads and streams, without the edges of it.
        moves_ns: per part how long it moves data; -1 where nothing shows it.
    """

    lanes: Lanes
    moves_ns: Ns


def did_on(rank: Reader, given: Given) -> Did:
    """What a rank did."""
    made = own_causes(rank.once(kept_rank), given)
    moves = np.full(len(given.node), -1)
    edge, part = transfers(made)
    moves[part] = weights(made)[edge]
    every = lanes(made, rank.core).items()
    found = {key: replace(one, edge=one.edge[:0], takes=narrow(one.takes)) for key, one in every}
    return Did(found, narrow(moves))


def transfers(made: Causes) -> tuple[Rows, Rows]:
    """Edges on which parts of a rank move data, and these parts."""
    edge = np.flatnonzero(made.kind == Edge.transfer)
    return edge, made.collective[made.before[edge] - (len(made.time) - len(made.collective))]


def starts_on(rank: Reader, given: tuple[Given, Ns]) -> Reach:
    """How the starts of a rank follow from when the others had come, as recorded, and its last ends at some moments."""
    made = own_causes(kept := rank.once(kept_rank), given[0])
    return reach_of(made, kept, given[0], {"least": weights(made)}, list(made.last_ends(given[1]).reshape(-1, 1)))


class Tail(NamedTuple):
    """How much later something must come at least that follows from the parts of a rank, and from its last end.

    Attributes:
        start_ns: of the start of each part; `NEVER` where nothing follows from it.
        end_ns: of the last GPU event that ends at the end of a path; `NEVER` of no interest.
        span: from when to when the path leads.
    """

    start_ns: Ns
    end_ns: int
    span: tuple[int, int]


class Slack(NamedTuple):
    """How much later GPU work of a name on a rank could have ended.

    Attributes:
        ns: sum of their durations.
        slack_ns: of each of them, in the order of their points.
        uid: that of the first with the least.
    """

    ns: int
    slack_ns: Ns
    uid: int


def slack_on(rank: Reader, given: tuple[Given, Tail]) -> dict[str, Slack]:
    """Name of GPU work that ends within a path -> how much later it could have ended without delaying its end.

    Causes that did not bind count with the least latency of their kind, so slack is an upper bound.
    """
    tail, (start, end) = given[1], given[1].span
    made = own_causes(kept := rank.once(kept_rank), given[0])
    count, sinks = len(made.time), np.zeros(0, np.int64)
    if tail.end_ns > NEVER:
        sinks = made.last_ends(np.array([end], np.int64))
    # What follows from the starts of parts, and from the end of the path, is one more point behind all.
    follows = np.flatnonzero(tail.start_ns > NEVER)
    own: Rows = np.concatenate((kept.start[given[0].node[follows]], sinks))
    takes = np.concatenate((tail.start_ns[follows], np.full(len(sinks), tail.end_ns)))
    before, after, weight = (
        np.concatenate(pair)
        for pair in ((made.before, own), (made.after, np.full(len(own), count)), (weights(made), takes))
    )
    last = np.full(count + 1, NEVER)
    last[count] = 0
    later = forward(after, before, weight, np.append(count, in_order(made)[::-1]), last)[:count]
    slack = np.where(later < 0, -NEVER, end - made.time - later)  # `Edge.maybe` alone leads nowhere
    points = np.flatnonzero((made.role == Role.gpu_end) & (made.time > start) & (made.time <= end))
    core, c = rank.core, rank.core.columns
    found = {}
    for name, of in sorted(positions_by(c.name[made.row[points]]), key=lambda one: int(one[1][0])):
        rows, ns = made.row[points[of]], slack[points[of]]
        found[core.names[name]] = Slack(int(c.dur_ns[rows].sum()), ns, int(c.uid[rows[np.argmin(ns)]]))
    return found
