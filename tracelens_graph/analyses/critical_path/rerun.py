"""Running the points of ranks again, forward in time, with other weights on the edges between them.

A repaired rank is one without its delays: what takes longer on it than on all others takes the median of theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from tracelens_graph.analyses.critical_path.causes import CEILING_NS, Causes, bound_latencies, bound_latency, together
from tracelens_graph.analyses.critical_path.path_nodes import rank_of
from tracelens_graph.analyses.critical_path.points import Edge, Role
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, gpu_classes
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.window import step_number
from tracelens_graph.utils.arrays import Mask, Ns, Rows

MOST_QUANTILE = 0.995

NEVER = -(2**62)
"""Moment of a point that nothing leads to."""

Latency = Literal["least", "usual", "most"]
"""How long causes that did not bind are taken to last, in which their time is not seen: as the fastest of their kind,
as the median of those that bound, or as the slowest of these."""


def weights(causes: Causes, latency: Latency = "least") -> np.ndarray:
    """Time that each edge takes, ns.

    That of a binding edge is seen. Any other took no longer than the time between its points, and is taken to have
    the latency of its kind: with these weights the recorded times come out again.
    """
    gap = causes.time[causes.after] - causes.time[causes.before]
    binding = causes.binding[causes.after]
    assumed = {"least": causes.least_ns, "usual": causes.usual_ns}.get(latency)
    if assumed is None:
        assumed = causes.most_ns
    if assumed is None:
        assumed = bound_latency(together([bound_latencies(causes)]), causes.least_ns, MOST_QUANTILE)
    return np.where(binding == np.arange(len(gap)), gap, np.minimum(assumed[causes.kind], gap))


def in_order(causes: Causes) -> np.ndarray:
    """Points in an order in which every edge leads forward."""
    return np.lexsort((causes.level, causes.time))


def forward(
    before: np.ndarray, after: np.ndarray, weight: np.ndarray, order: np.ndarray, given: np.ndarray
) -> np.ndarray:
    """The moment of every point: the latest that an edge into it allows.

    Points with one edge into them are no choice: they are merged with what they follow from, so that only the others
    are gone through one by one.

    Args:
        before, after, weight: per edge its points and how long it takes.
        order: points in an order in which every edge leads forward.
        given: moments of points that no edge leads to.
    """
    line = _lines(before, after, weight, order, len(given))
    moment = np.where(line.is_first, given, NEVER).tolist()
    for target, source, takes in line.each():
        if (reached := moment[source] + takes) > moment[target]:
            moment[target] = reached
    return np.asarray(np.array(moment, np.int64)[line.root] + line.offset)


class _Lines(NamedTuple):
    """Points merged with what they follow from alone.

    Attributes:
        root, offset: per point the one that it follows from over single edges, and how much later it comes.
        is_first: whether no edge leads to a point.
        choices: of edges into points with several, in order: that point, the root before it, and how long it takes.
    """

    root: Rows
    offset: Ns
    is_first: Mask
    choices: tuple[Rows, Rows, Ns]

    def each(self) -> Iterator[tuple[int, int, int]]:
        """The choices one by one; as lists they would take several times the memory of the arrays."""
        for at in range(0, len(self.choices[0]), _BLOCK):
            yield from zip(*(one[at : at + _BLOCK].tolist() for one in self.choices), strict=True)


_BLOCK = 1 << 12


def _lines(before: Rows, after: Rows, weight: Ns, order: Rows, points: int) -> _Lines:
    edges_into = np.bincount(after, minlength=points)
    root, offset = np.arange(points), np.zeros(points, np.int64)
    single = np.flatnonzero(edges_into[after] == 1)
    root[after[single]], offset[after[single]] = before[single], weight[single]
    while not np.array_equal(further := root[root], root):
        # Before `root` moves on, or the offset would be that of another stretch; roots have none to add.
        offset += offset[root]
        root = further
    place = np.empty(points, np.int64)
    place[order] = np.arange(points)
    choices = np.flatnonzero(edges_into[after] > 1)
    choices = choices[np.argsort(place[after[choices]], kind="stable")]
    start = before[choices]
    return _Lines(
        root,
        offset,
        edges_into == 0,
        (after[choices], root[start], offset[start] + weight[choices]),
    )


class Reach(NamedTuple):
    """How much later than which sources some targets come at least: one entry for each that counts.

    Attributes:
        target, source: their places; source -1 is time 0.
        takes_ns: how much later.
    """

    target: Rows
    source: Rows
    takes_ns: Ns


def reached(causes: Causes, weight: Ns, sources: Rows, starts: Rows, targets: Sequence[Rows]) -> Reach:
    """How some sets of points follow from others, of which it is not known yet when they come.

    What a later source brings about anyhow is left out: it comes no sooner than its start, which an earlier one leads
    to.

    Args:
        causes: the points.
        weight: how long each edge takes.
        sources: points that nothing leads to.
        starts: per source a point that it comes no sooner than.
        targets: sets of points; of each the latest counts.
    """
    line = _lines(causes.before, causes.after, weight, in_order(causes), len(causes.time))
    count = len(sources)
    first = np.flatnonzero(line.is_first)
    found: dict[int, dict[int, int]] = {point: {-1: int(causes.time[point])} for point in first.tolist()}
    found.update((point, {at: 0}) for at, point in enumerate(sources.tolist()))
    start_root, start_offset = line.root[starts].tolist(), line.offset[starts].tolist()
    # From each source to each other one, over what is known of their starts; the last is time 0.
    between = np.full((count + 1, count + 1), NEVER)
    np.fill_diagonal(between, 0)
    known = 0

    def row(source: int) -> np.ndarray:
        nonlocal known
        while known <= source:
            for one, takes in found.get(start_root[known], {}).items():
                to_start = between[:, one] + (takes + start_offset[known])
                np.maximum(between[:, known], to_start, out=between[:, known])
            known += 1
        return between[:, source]

    def pruned(own: dict[int, int]) -> dict[int, int]:
        if len(own) < 2:
            return own
        by = [(row(one), takes, one) for one, takes in own.items() if one >= 0]
        return {
            one: takes
            for one, takes in own.items()
            if not any(other != one and other > one and int(there[one]) + more >= takes for there, more, other in by)
        }

    def merged(own: dict[int, int], source: int, takes: int) -> None:
        for one, more in found.get(source, {}).items():
            if (reach := more + takes) > own.get(one, NEVER):
                own[one] = reach

    at = -1
    for target, source, takes in line.each():
        if target != at:
            if at >= 0:
                found[at] = pruned(found[at])
            at = target
            found[at] = {}
        merged(found[at], source, takes)
    if at >= 0:
        found[at] = pruned(found[at])
    entries: list[tuple[int, int, int]] = []
    for place, points in enumerate(targets):
        latest: dict[int, int] = {}
        for root, offset in zip(line.root[points].tolist(), line.offset[points].tolist(), strict=True):
            latest[root] = max(offset, latest.get(root, NEVER))
        own: dict[int, int] = {}
        for root, offset in latest.items():
            merged(own, root, offset)
        entries += [(place, one, takes) for one, takes in pruned(own).items()]
    return Reach(*np.array(entries, np.int64).reshape(-1, 3).T)


def replayed(causes: Causes, weight: np.ndarray) -> np.ndarray:
    """Moments of all points with these weights; a point that follows from nothing keeps its own."""
    return forward(causes.before, causes.after, weight, in_order(causes), causes.time)


NO_CAUSE = 2**40
"""So much is taken off an edge that is no cause any more, ns."""


def incomplete_ranks(causes: Causes) -> Mask:
    """Per rank whether its recording lacks collectives of its groups, or is foreign.

    Its host is seen to wait, but not what for, so that it seems to hold up the others.
    """
    m = causes.matched
    if m is None:
        return np.zeros(len(causes.traces), bool)
    found = m.is_foreign.copy()
    place = {one.rank: at for at, one in enumerate(m.ranks)}
    for number in m.incomplete.tolist():
        parts = m.parts_of(number).tolist()
        there = {int(m.trace[part]) for part in parts}
        found[
            [place[one] for one in m.parts.collective(parts[0]).ranks or () if place.get(one, -1) not in {-1, *there}]
        ] = True
    return found if 2 * found.sum() < len(found) else m.is_foreign


def without_arrivals(causes: Causes, weight: Ns, ranks: Mask) -> Ns:
    """Weights with which nobody waits for some ranks."""
    arrivals = (causes.kind == Edge.arrive) & ranks[causes.ordinal[causes.before]]
    return np.where(arrivals, -NO_CAUSE, weight)


def slack(causes: Causes, sink: int) -> np.ndarray:
    """Per point how much later it could have come without delaying a point, ns; NEVER reversed where it cannot matter.

    Causes that did not bind count with the least latency of their kind, so slack is an upper bound.
    """
    inside = (causes.time[causes.after] <= causes.time[sink]) & (causes.before != sink)
    before, after, weight = causes.before[inside], causes.after[inside], weights(causes)[inside]
    given = np.full(len(causes.time), NEVER)
    given[sink] = 0
    tail = forward(after, before, weight, in_order(causes)[::-1], given)
    late = causes.time[sink] - causes.time - tail
    # Weights added to NEVER keep it far below any true tail, but no longer equal.
    return np.where(tail < NEVER // 2, -NEVER, late)


assert Edge.host not in CEILING_NS  # host time that did not bind takes none


LATE_SHARE, LATE_NS = 0.1, 1_000
"""What takes this much longer than the median of the others, and longer than on any of them, is late."""


@dataclass(frozen=True, eq=False)
class Repair:
    """New weights for some edges of a rank.

    Attributes:
        edge: the edges.
        weight: by bound the new weights, ns: the least, the median and the most of the other ranks.
        is_compared: whether any work of the rank could be compared with that of others.
        notes: what a reader must know.
    """

    edge: np.ndarray
    weight: dict[str, np.ndarray]
    is_compared: bool
    notes: list[str] = field(default_factory=list)


def repaired(causes: Causes, ordinal: int, among: Sequence[int] = (), stage: Sequence[int] = ()) -> Repair:
    """New weights for what is late on a rank, by comparing the same stretches of other ranks.

    Stretches are the same if they are at the same place in the same step, and the calls, or GPU events, of the thread
    or stream are the same there. Where no other rank does the same, its work is compared by name.

    Args:
        causes: the points of the ranks.
        ordinal: place of the rank among them.
        among: places of ranks that are repaired together with it, which are no measure for it unless all are.
        stage: per rank its pipeline stage; ranks of one stage run the same program. Without any all do.

    Raises:
        AnalysisError: there is no other rank.
    """
    if len(causes.traces) < 2:
        raise AnalysisError("what_if: repairing a rank takes other ranks to compare it with")
    beside = {ordinal} if len(among) == len(causes.traces) else {ordinal, *among}
    of_ranks = [lanes(causes, one) for one in range(len(causes.traces))]
    others = [at for at in range(len(of_ranks)) if at not in beside]
    edges: list[Rows] = []
    weight: dict[str, list[Ns]] = {"least": [], "usual": [], "most": []}
    unlike: set[int] = set()
    is_compared = False
    for place, lane in of_ranks[ordinal].items():
        found = {at: one for at in others if (one := of_ranks[at].get(place)) is not None}
        same = [one for one in found.values() if one.names == lane.names]
        if same:
            known, bounds = _by_place(lane, same)
        else:
            unlike.add(place[0])
            peers = [one for at, one in found.items() if not len(stage) or stage[at] == stage[ordinal]]
            known, bounds = _by_name(lane, peers or list(found.values()), place[1], bool(peers))
        is_compared |= bool(known.any())
        late = known & (lane.takes > bounds["most"])
        late &= lane.takes > bounds["usual"] * (1 + LATE_SHARE) + LATE_NS
        for bound, values in bounds.items():
            weight[bound].append(values[late])
        edges.append(lane.edge[late])
        if not same:  # of what no other rank does it is not known how long it would take
            unknown = ~known & (lane.takes >= 0)
            edges.append(lane.edge[unknown])
            for bound in bounds:
                weight[bound].append(
                    lane.takes[unknown] if bound != "least" else np.zeros(int(unknown.sum()), np.int64)
                )
    notes = []
    if unlike:
        notes.append(
            f"rank {rank_of(causes, ordinal)} does not run the same as any other in {len(unlike):,} steps: there its "
            "calls and kernels are compared with those of the same name"
        )
    return Repair(_joined(edges), {bound: _joined(values) for bound, values in weight.items()}, is_compared, notes)


Bounds = dict[str, Ns]
"""The least, the usual, and the most that other ranks take."""

Key = tuple[object, ...]


def _by_place(lane: Lane, same: Sequence[Lane]) -> tuple[Mask, Bounds]:
    """Which work of a lane can be compared with that of others with the same names, and what it takes there."""
    theirs = np.stack([one.takes for one in same])
    known = (lane.takes >= 0) & (theirs >= 0).all(axis=0) & (lane.own == [one.own for one in same]).all(axis=0)
    usual = np.rint(np.median(theirs, axis=0)).astype(np.int64)
    return known, {"least": theirs.min(axis=0), "usual": usual, "most": theirs.max(axis=0)}


def _by_name(lane: Lane, others: Sequence[Lane], what: str, is_same_program: bool) -> tuple[Mask, Bounds]:
    """The same for lanes that run other things: kernels by name and place, host time by the calls around it.

    Kernels beyond those of ranks with the same program take nothing there, as long as they are the lesser part.
    """
    theirs: dict[Key, list[int]] = {}
    for other in others:
        for key, takes in zip(compared_by(other, what, is_same_program), other.takes.tolist(), strict=True):
            if takes >= 0:
                theirs.setdefault(key, []).append(takes)
                if what == "host":
                    theirs.setdefault(key[1:], []).append(takes)
    # A call that follows another one than on other ranks is compared with all calls of its name.
    keys = [key if key in theirs or what == "gpu" else key[1:] for key in compared_by(lane, what, is_same_program)]
    known = np.array([key in theirs for key in keys], bool) & (lane.takes >= 0)
    further = ~known & (lane.takes >= 0)
    if what == "gpu" and is_same_program and further.sum() <= known.sum():
        known |= further
    found = [theirs.get(key, [0]) for key in keys]
    return known, {
        "least": np.array([min(one) for one in found], np.int64),
        "usual": np.array([round(float(np.median(one))) for one in found], np.int64),
        "most": np.array([max(one) for one in found], np.int64),
    }


def compared_by(lane: Lane, what: str, is_same_program: bool = False) -> list[Key]:
    """What work of lanes with other names is compared by.

    Kernels of one program have the same place among those of their name in the order of time. Programs run them in
    another order: there they have the same place among as many by how long they take.
    """
    if what == "host":
        return list(zip(["", *lane.names], lane.names, lane.own.tolist(), strict=False))
    count = Counter(lane.names)
    seen = Counter[str]()
    keys: list[Key] = [()] * len(lane.names)
    order = range(len(keys)) if is_same_program else np.argsort(lane.takes, kind="stable").tolist()
    for at in order:
        name = lane.names[at]
        keys[at] = (name, seen[name], 0 if is_same_program else count[name])
        seen[name] += 1
    return keys


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Lane:
    """What a thread or stream of a rank did in a step.

    Attributes:
        names: what the calls or GPU events are called.
        edge: the edges that bind them.
        takes: how long these take, ns; -1 where that is no work of the rank alone.
        own: whether the edges begin on the same thread: what another thread handed over is other work.
    """

    names: list[str]
    edge: np.ndarray
    takes: np.ndarray
    own: np.ndarray


Lanes = Mapping[tuple[int, str, int], Lane]


def lanes(causes: Causes, ordinal: int) -> Lanes:
    """(step, host or GPU, place among the threads or streams) -> what was done there, in the order of time."""
    core, c = causes.core(ordinal), causes.core(ordinal).columns
    points = np.flatnonzero((causes.ordinal == ordinal) & (causes.row >= 0) & (causes.role != Role.begin))
    rows = causes.row[points]
    binding = causes.binding[points]
    kind = np.where(binding >= 0, causes.kind[binding], -1)
    takes = np.where(binding >= 0, causes.time[points] - causes.time[causes.before[binding]], -1)
    host = np.isin(causes.role[points], (Role.call, Role.returned))
    runs = causes.role[points] == Role.gpu_end
    takes[host & ~np.isin(kind, (Edge.host, Edge.call))] = -1
    takes[runs & (kind != Edge.run)] = -1
    same_thread = c.thread[causes.row[causes.before[binding]]] == c.thread[rows]
    communicates = np.zeros(len(points), bool)
    communicates[runs] = gpu_classes(core, rows[runs]) == COMMUNICATION
    takes[communicates] = -1
    step = np.where(host, core.step[rows], core.gpu_step[rows])
    has_steps = bool((step >= 0).any())
    found = {}
    for what, chosen, lane in (
        ("host", host, c.thread[rows].astype(np.int64)), ("gpu", runs, c.stream[rows] * 4096 + c.device[rows]),
    ):  # fmt: skip
        of = np.flatnonzero(chosen & (step >= 0) if has_steps else chosen)
        for mark, in_step in positions_by(step[of]):
            # Without steps all of a recording counts as one.
            number = step_number(core.names[c.name[mark]]) if has_steps else 0
            if number is None:
                continue
            in_step = of[in_step]
            for place, (_, at) in enumerate(positions_by(lane[in_step])):
                here = in_step[at][np.argsort(causes.time[points[in_step[at]]], kind="stable")]
                names = [core.names[code] for code in c.name[rows[here]].tolist()]
                found[number, what, place] = Lane(names, binding[here], takes[here], same_thread[here])
    return found
