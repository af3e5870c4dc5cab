"""Running points again, forward in time, with other weights on the edges between them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from tracelens_graph.analyses.critical_path.causes import (
    CEILING_NS,
    Causes,
    bound_latencies,
    bound_latency,
    together,
)
from tracelens_graph.analyses.critical_path.points import Edge
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.parts import POINT_TO_POINT, ends_of
from tracelens_graph.graph.arrays import expanded
from tracelens_graph.utils.arrays import Mask, Ns, Rows, narrow

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
    if latency == "most":  # what may wait does
        assumed = np.where(np.arange(len(assumed)) == Edge.maybe, assumed[Edge.event], assumed)
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
    moment = array("q", np.where(line.is_first, given, NEVER).tobytes())  # a list would take five times the memory
    for target, source, takes in line.each():
        if (reached := moment[source] + takes) > moment[target]:
            moment[target] = reached
    return np.asarray(np.frombuffer(moment, np.int64)[line.root] + line.offset)


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
    root, offset = np.arange(points, dtype=before.dtype), np.zeros(points, np.int64)
    single = np.flatnonzero((edges_into == 1)[after])
    root[after[single]], offset[after[single]] = before[single], weight[single]
    while not np.array_equal(further := root[root], root):
        # Before `root` moves on, or the offset would be that of another stretch; roots have none to add.
        offset += offset[root]
        root = further
    place = np.empty(points, before.dtype)
    place[order] = np.arange(points)
    choices = narrow(np.flatnonzero((edges_into > 1)[after]))
    choices = choices[np.argsort(place[after[choices]], kind="stable")]
    start = before[choices]
    return _Lines(
        root,
        offset,
        edges_into == 0,
        (after[choices], root[start], offset[start] + weight[choices]),
    )


class Reach(NamedTuple):
    """How the starts of a rank's parts of collectives, and its ends, follow from when the others had come.

    That is a graph of few points: of its own ones those are left at which ways part. Points are numbered: first the
    parts, whose starts are targets, and whose transfers begin at sources; then what is left between, then ends.

    Attributes:
        target, source: per edge its points; source -1 is time 0.
        least_ns: how long each takes with the first weights.
        more_ns: by name of other weights how much longer; nothing where it is the same.
        between_ns: when the points between were.
        ends: how many ends there are.
    """

    target: Rows
    source: Rows
    least_ns: Rows
    more_ns: Mapping[str, Rows]
    between_ns: Ns
    ends: int

    def takes_ns(self, weight: str) -> Ns:
        """How long each edge takes with the weights of a name; of an unknown one with the first."""
        return self.least_ns.astype(np.int64) + self.more_ns.get(weight, 0)


_MOST_MERGED = 4
"""A point that follows from no more others, and that one thing follows from, is left out."""


def reached(
    causes: Causes, weight: Mapping[str, Ns], sources: Rows, starts: Rows, ends: Sequence[Rows], parts: Rows
) -> Reach:
    """How some points follow from others whose times are not known yet.

    Args:
        causes: the points.
        weight: by name how long each edge takes.
        sources: points that nothing leads to.
        starts: a point for each part.
        ends: sets of points; of each the latest counts.
        parts: per source its part.
    """
    points, order = len(causes.time), in_order(causes)
    lines = {bound: _lines(causes.before, causes.after, one, order, points) for bound, one in weight.items()}
    any_line = next(iter(lines.values()))
    target, root, at = _targets(list(lines.values()), starts, ends)
    into, from_, _ = any_line.choices
    out = np.bincount(np.concatenate((from_, root)), minlength=points)
    # Keys of what an edge begins at: time 0, a part, or behind all parts a point.
    key = np.where(any_line.is_first, -1, len(starts) + np.arange(points))
    key[sources] = parts
    since = np.where(any_line.is_first, causes.time, 0)
    since[sources] = 0
    before = np.concatenate((from_, root))
    after = np.concatenate((into, points + target)).tolist()
    left = [
        _contracted(after, key[before].tolist(), takes.tolist(), out.tolist(), len(starts))
        for takes in (np.concatenate((line.choices[2], line.offset[at])) + since[before] for line in lines.values())
    ]
    place = np.concatenate((np.empty(points, np.int64), order.argsort()[starts], points + np.arange(len(ends))))
    place[order] = np.arange(points)
    needed = _needed(left, points, len(starts), place)
    one, other = np.array(needed, np.int64).reshape(-1, 2).T
    out = np.bincount(other[other >= len(starts)] - len(starts), minlength=points).tolist()
    left = [_contracted(one.tolist(), other.tolist(), [ns[edge] for edge in needed], out, len(starts)) for ns in left]
    one, other = np.array(list(left[0]), np.int64).reshape(-1, 2).T
    between = np.unique(one[one < points])
    between = between[np.isin(between, other - len(starts))]
    kept = (one >= points) | np.isin(one, between)
    number = np.concatenate((np.zeros(points, np.int64), np.arange(len(starts)), np.arange(len(ends))))
    number[between] = len(starts) + np.arange(len(between))
    number[points + len(starts) :] += len(starts) + len(between)
    source = np.where(other >= len(starts), number[np.maximum(other - len(starts), 0)], other)
    takes_ns = {bound: np.array(list(ns.values()), np.int64)[kept] for bound, ns in zip(weight, left, strict=True)}
    least = next(iter(takes_ns.values()))
    return Reach(
        number[one[kept]].astype(np.int32),
        source[kept].astype(np.int32),
        narrow(least),
        {bound: narrow(ns - least, 1) for bound, ns in takes_ns.items() if not np.array_equal(ns, least)},
        causes.time[between],
        len(ends),
    )


Edges = dict[tuple[int, int], int]
"""Point, and key of what it follows from -> how long that takes."""


def _needed(left: Sequence[Edges], points: int, parts: int, place: Rows) -> list[tuple[int, int]]:
    """The edges that a way over two others, or any from time 0, is not as long as, with all latencies.

    A part's transfer begins no sooner than its start, so that ways lead on from the one to the other.
    """
    into: dict[int, dict[int, None]] = {}
    for target, source in left[0]:
        into.setdefault(target, {})[source] = None
    soonest: list[dict[int, int]] = [{} for _ in left]
    needed = []
    for target in sorted(into, key=place.tolist().__getitem__):
        via = [(one, one - parts if one >= parts else points + one) for one in into[target] if one >= 0]
        for ns, since in zip(left, soonest, strict=True):
            known = [since.get(point, NEVER) + ns[target, one] for one, point in via]
            since[target] = max([*known, ns.get((target, -1), NEVER)])
        direct = into[target]
        over: set[int] = set()
        for one, point in via:
            ways = [ns[target, one] for ns in left]
            if -1 in direct and all(
                since.get(point, NEVER) + way >= ns[target, -1]
                for ns, since, way in zip(left, soonest, ways, strict=True)
            ):
                over.add(-1)
            # Those of the shorter list: of a point that follows from many few follow from one another.
            first, second = sorted((into.get(point, {}), direct), key=len)
            over.update(
                source
                for source in first
                if source >= 0
                and source != one
                and source in second
                and all(
                    ns.get((point, source), NEVER) + way >= ns[target, source]
                    for ns, way in zip(left, ways, strict=True)
                )
            )
        needed += [(target, source) for source in direct if source not in over]
    return needed


def _targets(lines: Sequence[_Lines], starts: Rows, ends: Sequence[Rows]) -> tuple[Rows, Rows, Rows]:
    """Per target and root that it follows from: number of the target, root, and the point with most offset.

    Of the points of an end those are left out that one behind them is later than.
    """
    target, point = [np.arange(len(starts))], [starts]
    orders = [np.argsort(line.choices[0], kind="stable") for line in lines]
    choices = [tuple(one[order] for one in line.choices) for line, order in zip(lines, orders, strict=True)]
    for number, of in enumerate(ends, len(starts)):
        left = [of[:0]]
        for line, (after, before, takes) in zip(lines, choices, strict=True):
            root, own = np.unique(line.root[of], return_inverse=True)
            latest = np.full(len(root), NEVER)
            np.maximum.at(latest, own, line.offset[of])
            edges, into = expanded(np.searchsorted(after, root), np.searchsorted(after, root, side="right"))
            at = np.minimum(np.searchsorted(root, before[edges]), len(root) - 1)
            is_later = (root[at] == before[edges]) & (latest[into] + takes[edges] >= latest[at])
            is_last = np.ones(len(root), bool)
            is_last[at[is_later]] = False
            left.append(of[(line.offset[of] == latest[own]) & is_last[own]])
        point.append(np.unique(np.concatenate(left)))
        target.append(np.full(len(point[-1]), number))
    at = np.concatenate(point)
    return np.concatenate(target), lines[0].root[at], at


def _contracted(
    after: Sequence[int], key: Sequence[int], takes: Sequence[int], out: Sequence[int], parts: int
) -> Edges:
    """Edges between the points that are left."""
    left: Edges = {}
    merged: dict[int, dict[int, int]] = {}
    own: dict[int, int] = {}
    now = -1

    def close() -> None:
        follow = out[now] if now < len(out) else 2
        if follow == 1 and len(own) <= _MOST_MERGED:
            merged[parts + now] = own
        elif follow:
            left.update(((now, source), ns) for source, ns in own.items())

    for target, source, more in zip(after, key, takes, strict=True):
        if target != now:
            if now >= 0:
                close()
            now, own = target, {}
        if source in merged:
            for one, ns in merged.pop(source).items():
                if ns + more > own.get(one, NEVER):
                    own[one] = ns + more
        elif more > own.get(source, NEVER):
            own[source] = more
    if now >= 0:
        close()
    return left


def incomplete_ranks(m: MatchedCollectives) -> Mask:
    """Per rank whether its recording lacks collectives of its groups; nowhere where half of the ranks or more do.

    Its host is seen to wait, but not what for, so that it seems to hold up the others.
    """
    found = np.zeros(len(m.ranks), bool)
    place = {one.rank: at for at, one in enumerate(m.ranks)}
    for number in m.incomplete.tolist():
        parts = m.parts_of(number).tolist()
        there = {int(m.trace[part]) for part in parts}
        one = m.parts.collective(parts[0])
        group = ends_of(one) if one.kind in POINT_TO_POINT else one.ranks or ()
        found[[place[rank] for rank in group if place.get(rank, -1) not in {-1, *there}]] = True
    return found & (2 * found.sum() < len(found))


assert Edge.host not in CEILING_NS  # host time that did not bind takes none
