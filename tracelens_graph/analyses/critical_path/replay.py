"""Running the points of ranks again, forward in time, with other weights on the edges between them."""

from __future__ import annotations

from typing import Literal

import numpy as np

from tracelens_graph.analyses.critical_path.causes import CEILING_NS, Causes, bound_latency
from tracelens_graph.analyses.critical_path.points import Edge

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
        assumed = bound_latency(gap, causes.kind, binding, causes.least_ns, MOST_QUANTILE)
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
    points = len(given)
    edges_into = np.bincount(after, minlength=points)
    root, offset = np.arange(points), np.zeros(points, np.int64)
    single = np.flatnonzero(edges_into[after] == 1)
    root[after[single]], offset[after[single]] = before[single], weight[single]
    while not np.array_equal(further := root[root], root):
        offset += offset[root]
        root = further
    place = np.empty(points, np.int64)
    place[order] = np.arange(points)
    choices = np.flatnonzero(edges_into[after] > 1)
    choices = choices[np.argsort(place[after[choices]], kind="stable")]
    start = before[choices]
    moment = np.where(edges_into == 0, given, NEVER).tolist()
    for target, source, takes in zip(
        after[choices].tolist(), root[start].tolist(), (offset[start] + weight[choices]).tolist(), strict=True
    ):
        if (reached := moment[source] + takes) > moment[target]:
            moment[target] = reached
    return np.asarray(np.array(moment, np.int64)[root] + offset)


def replayed(causes: Causes, weight: np.ndarray) -> np.ndarray:
    """Moments of all points with these weights; a point that follows from nothing keeps its own."""
    return forward(causes.before, causes.after, weight, in_order(causes), causes.time)


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
    return np.where(tail < NEVER // 2, -NEVER, late)


assert Edge.host not in CEILING_NS  # host time that did not bind takes none
