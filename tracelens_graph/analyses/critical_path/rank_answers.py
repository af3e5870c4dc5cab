"""What a rank that is not held answers where it is read: from its own points, and from when the others had come.

What is kept of it is made once (`kept_rank`). It is asked for its latencies, for those that bind, for where the
stretches of paths over it begin, and for the segments of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

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
from tracelens_graph.analyses.critical_path.path_nodes import Nodes
from tracelens_graph.analyses.critical_path.path_tables import tie_columns
from tracelens_graph.analyses.critical_path.points import Edge, Inferred, RankPoints, Role, rank_points
from tracelens_graph.analyses.critical_path.rerun import Reach, reached
from tracelens_graph.analyses.critical_path.walk import Path, followed, segments_of
from tracelens_graph.analyses.ranks.clocks import RankClock
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import Reader, TraceMember, TraceSet
from tracelens_graph.graph.window import gpu_steps
from tracelens_graph.utils.arrays import Mask, Ns, Rows


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
