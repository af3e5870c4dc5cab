"""Rings that one of their links bounds: all-reduces of a group are as fast as the slowest pair of its ranks.

NCCL runs all-reduce, all-gather, reduce-scatter, broadcast and reduce as rings, which move data as fast as the slowest
link that they pass. No trace has their order. But where the bus bandwidth of a group, without latency, is that of the
slowest pair among its ranks, and no pair that it might pass is slower, that pair bounds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.ranks.links import LATENCY_BYTES, Link, Links
from tracelens_graph.analyses.ranks.parts import MOVES_OF_ALL
from tracelens_graph.utils.arrays import Ns

_ALIKE = 1.25
"""Bandwidths that differ by less are one."""
_RINGS = (*MOVES_OF_ALL, "broadcast", "reduce")


class Ring(NamedTuple):
    """Collectives of a group, of one kind and size, that a pair of its ranks bounds.

    Attributes:
        link: the group.
        factor: how many times as fast they move data with a change of pairs.
        passes: places of the pairs that bound it.
        is_sure: whether these are slow links; what is as fast as all others may bound it or not.
    """

    link: Link
    factor: float
    passes: Sequence[tuple[int, ...]]
    is_sure: bool

    @property
    def excess_ns(self) -> float:
        """How much longer they take than with the change, summed."""
        link = self.link
        return max(link.ns - link.latency_ns, 0) * (1 - 1 / self.factor) * len(link.collectives)


def rings(links: Links, factor: Callable[[Link], float]) -> list[Ring]:
    """Which groups of more than two ranks a change of pairs changes, too.

    Args:
        links: the links of the job.
        factor: how many times as fast a pair of ranks moves data.
    """
    usable = [one for one in links.all if one.size >= LATENCY_BYTES and one.kind in (*_RINGS, "send")]
    largest = {(one.places, one.is_pair): one for one in sorted(usable, key=lambda one: one.size)}.values()
    pace = {one: _pace(one) for one in largest if len(one.places) == 2}
    changed = [one for one in pace if factor(one) != 1]
    found: dict[tuple[int, ...], tuple[float, Sequence[tuple[int, ...]], bool]] = {}
    for ring in largest if changed else ():
        rate, ranks = ring.bandwidth_beyond_latency(ring.ns), set(ring.places)
        if len(ranks) < 3 or not any(
            _ALIKE > pace[one] / rate > 1 / _ALIKE for one in changed if ranks >= {*one.places}
        ):
            continue
        # What is slower than the ring is no part of it.
        passed = [one for one in pace if pace[one] > rate / _ALIKE and ranks.issuperset(one.places)]
        bound = [one for one in passed if pace[one] < _ALIKE * rate]
        then = min(pace[one] * factor(one) for one in passed) / min(pace[one] for one in passed)
        found[ring.places] = then, [one.places for one in bound], all(one.is_slow for one in bound)
    return [
        Ring(one, *found[one.places])
        for one in usable
        if one.kind in _RINGS and one.places in found and found[one.places][0] != 1
    ]


def bounded(links: Links, slow: Sequence[Link]) -> list[Ring]:
    """The groups that some slow pairs bound, and how much faster they are where these are as fast as others.

    Groups that are slow links themselves are none.
    """
    mended = {one.places: one.bandwidth_factor for one in slow if one.factor > 1}
    return [one for one in rings(links, lambda pair: mended.get(pair.places, 1.0)) if not one.link.is_slow]


def slow_ns(links: Links) -> Ns:
    """How much longer each part of a collective takes as its link is slow, or one that bounds it; 0 of all others."""
    m = links.matched
    found = np.zeros(len(m) + 1)  # behind them for parts of none
    slow = [one for one in links.all if one.is_slow and one.factor > 1]
    for one in slow:
        found[one.collectives] = m.shortest_ns[one.collectives] * (1 - 1 / one.factor)
    for ring in bounded(links, slow):
        at = ring.link.collectives
        found[at] = np.maximum(m.shortest_ns[at] - ring.link.latency_ns, 0) * (1 - 1 / ring.factor)
    return np.rint(found).astype(np.int64)[m.number]


def _pace(pair: Link) -> float:
    """Bandwidth of a pair: of a slow one its own, of another that of its like, which chance changes less."""
    return pair.bandwidth_beyond_latency(pair.ns if pair.is_slow or not pair.others else pair.typical_ns)
