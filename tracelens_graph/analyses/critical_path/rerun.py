"""Running points again, forward in time, with other weights on the edges between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from tracelens_graph.analyses.critical_path.causes import CEILING_NS, Causes, bound_latencies, bound_latency, together
from tracelens_graph.analyses.critical_path.points import Edge
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
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
        ends: how many of the last targets are ends of GPU work, and not starts of collectives.
    """

    target: Rows
    source: Rows
    takes_ns: Ns
    ends: int = 0

    def is_like(self, other: Reach) -> bool:
        """Whether all follows in the same times."""
        own, others = ((one.target, one.source, one.takes_ns) for one in (self, other))
        return all(np.array_equal(*pair) for pair in zip(own, others, strict=True))


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


def incomplete_ranks(m: MatchedCollectives) -> Mask:
    """Per rank whether its recording lacks collectives of its groups, or is foreign.

    Its host is seen to wait, but not what for, so that it seems to hold up the others.
    """
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


assert Edge.host not in CEILING_NS  # host time that did not bind takes none
