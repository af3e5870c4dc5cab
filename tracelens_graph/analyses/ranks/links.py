"""Links of a job, one by one: how fast each process group and each pair of ranks is, and which are slower than others.

A link is a process group, or a rank that sends and one that receives. It is compared with the links of equal kind, size
of the message, number of ranks and of hosts: what all of them share, such as a small message's latency, is no link's
fault.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.ranks.figures import Figures, transfers
from tracelens_graph.analyses.ranks.link_causes import have_one_cause
from tracelens_graph.analyses.ranks.outliers import slow_ones
from tracelens_graph.analyses.ranks.sizes import bus_factors, gb_per_s, ring_latency_ns, ring_steps
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.collective_kinds import kind_of
from tracelens_graph.graph.intervals import length_before, sum_before

LEAST_EXCESS_NS = 5_000
"""Links of equal kind differ by this much without a reason worth a name."""
LATENCY_BYTES, LEAST_LATENCY_NS = 65_536, 100_000
"""Below this size a message's time is latency; a link that is slower by less than that is not called slow for it."""
HEALTHY = 1.15
"""A link that is slower than its like by less is surely not slow."""


@dataclass(frozen=True, eq=False)
class Link:
    """What one link did with messages of one kind and size.

    Attributes:
        kind: kind of collective; of a transfer `send`.
        places: places of its ranks among the ranks; of a transfer the sender and the receiver.
        hosts: number of its hosts, None where not known.
        collectives: their numbers.
        size: median size of the message, bytes.
        ns: median duration on the rank where it was shortest: without waiting.
        others: number of links that it is compared with.
        typical_ns: median duration of these, for messages of its size; NaN without any.
        contended: share of this time, of 1, in which one of its ranks computed or communicated otherwise, both added.
        is_slow: whether it is slow.
    """

    kind: str
    places: tuple[int, ...]
    hosts: int | None
    collectives: np.ndarray
    size: float
    ns: float
    others: int
    typical_ns: float
    contended: float
    is_slow: bool

    @property
    def factor(self) -> float:
        """How many times slower than the others it is; NaN without others."""
        return self.ns / self.typical_ns

    @property
    def excess_ns(self) -> float:
        """How much longer its collectives took than those of the others, summed; NaN without others."""
        return (self.ns - self.typical_ns) * len(self.collectives)

    @property
    def alike(self) -> tuple[str, int, int]:
        """Equal for links of one kind, one class of sizes and one number of ranks."""
        return self.kind, _size_class(self.size), len(self.places)

    @property
    def is_pair(self) -> bool:
        """Whether it leads from one rank to another."""
        return self.kind == "send"

    @property
    def latency_ns(self) -> float:
        """What of its time is latency, as NCCL reckons it for a ring."""
        return float(ring_latency_ns(ring_steps(self.kind, len(self.places), self.is_pair)))

    @property
    def bandwidth_factor(self) -> float:
        """How many times as much bandwidth it needs to be as fast as its like, while its latency stays."""
        if self.typical_ns <= self.latency_ns:
            return self.factor
        return self.bandwidth_beyond_latency(self.typical_ns) / self.bandwidth_beyond_latency(self.ns)

    def bandwidth_beyond_latency(self, ns: float) -> float:
        """Bus bandwidth of what is not latency, if its messages took so long, GB/s; inf where all is."""
        return self.bandwidth(ns - self.latency_ns) if ns > self.latency_ns else np.inf

    def bandwidth(self, ns: float) -> float:
        """Bus bandwidth, if its messages took so long, GB/s."""
        rate = gb_per_s(np.array([self.size]), np.array([ns]))
        return float((rate * bus_factors([self.kind], np.array([len(self.places)])))[0])


class _Alike(NamedTuple):
    """What links have in common that are compared: kind, size class, ranks, and hosts, 0 where not known."""

    kind: str
    size: int
    ranks: int
    hosts: int


class Links:
    """The links of a job.

    Args:
        figures: what each collective cost.

    Attributes:
        figures, matched: these, and the collectives.
    """

    def __init__(self, figures: Figures) -> None:
        self.figures, self.matched = figures, figures.matched

    @cached_property
    def ends(self) -> Mapping[int, tuple[int, int]]:
        """Number of a transfer -> places of the rank that sends and of the one that receives."""
        at, source, target = transfers(self.matched)
        places = zip(self.matched.trace[source].tolist(), self.matched.trace[target].tolist(), strict=True)
        return dict(zip(at.tolist(), places, strict=True))

    def _link_of(self, at: int) -> tuple[int, ...] | None:
        """The ranks of the link of a collective; None where not all of them are known."""
        m = self.matched
        if m.kind[at] == "send":
            return self.ends.get(at)
        if m.group_size[at] > m.count[at] or m.count[at] < 2:
            return None
        return tuple(m.trace[m.parts_of(at)].tolist())

    @cached_property
    def all(self) -> list[Link]:
        """The links of collectives whose size is known and whose ranks are all there; by kind, size and ranks."""
        m, figures = self.matched, self.figures
        alike: dict[_Alike, dict[tuple[int, ...], list[int]]] = {}
        for at in np.flatnonzero(figures.size > 0).tolist():
            if (places := self._link_of(at)) is not None:
                key = _Alike(kind_of(m.kind[at]), _size_class(figures.size[at]), len(places), figures.hosts[at] or 0)
                alike.setdefault(key, {}).setdefault(places, []).append(at)
        found = [link for key in sorted(alike) for link in self._compared(key, alike[key])]
        return self._consistent(found)

    @cached_property
    def by_collective(self) -> Mapping[int, Link]:
        """Number of a collective -> its link, with messages of its size."""
        return {at: one for one in self.all for at in one.collectives.tolist()}

    def _compared(self, alike: _Alike, of_links: Mapping[tuple[int, ...], Sequence[int]]) -> Iterator[Link]:
        """The links of one kind and size, each against the others."""
        numbers = [np.array(some) for some in of_links.values()]
        sizes = [self.figures.size[some] for some in numbers]
        size = float(np.median(np.concatenate(sizes)))
        values = [self.matched.shortest_ns[some].astype(float) for some in numbers]
        if size >= LATENCY_BYTES:
            values = [one * size / of for one, of in zip(values, sizes, strict=True)]
        contended = np.array([np.median(self._contended[some]) for some in numbers])
        places, names = list(of_links), self.figures.names
        least_ns = LEAST_EXCESS_NS if size >= LATENCY_BYTES else LEAST_LATENCY_NS
        is_pair = alike.kind == "send"
        slow = slow_ones(values, contended, least_ns, lambda some: have_one_cause(names, places, some, is_pair))
        medians = np.array([np.median(one) for one in values])
        sound = ~slow | slow.all()
        for at, (some, of) in enumerate(zip(numbers, sizes, strict=True)):
            others = sound & (np.arange(len(slow)) != at)
            typical = float(np.median(medians[others])) if others.any() else np.nan
            own = float(np.median(of))
            scale = own / size if size >= LATENCY_BYTES else 1.0
            yield Link(
                alike.kind, places[at], alike.hosts or None, some, own, float(medians[at]) * scale,
                int(others.sum()), typical * scale, float(contended[at]), bool(slow[at]),
            )  # fmt: skip

    @cached_property
    def computed_share(self) -> np.ndarray:
        """Of each part, once all have come, the share of its time in which its rank computed."""
        m = self.matched
        share = np.zeros(len(m.parts))
        start = m.parts.own_start_ns + m.wait_ns
        for trace, here in positions_by(m.trace):
            edges = [length_before(m.ranks[trace].gpu.computing, at[here]) for at in (start, m.parts.own_end_ns)]
            share[here] = (edges[1] - edges[0]) / np.maximum(m.parts.own_end_ns[here] - start[here], 1)
        return share

    @cached_property
    def _contended(self) -> np.ndarray:
        """Of each collective, once all have come, the share of its time in which a rank of it did other things.

        Computing and other communication are added, and the busiest rank counts.
        """
        m = self.matched
        share = self.computed_share.copy()
        start = m.parts.own_start_ns + m.wait_ns
        for _, here in positions_by(m.trace):
            begun, done = start[here], m.parts.own_end_ns[here]
            others = sum_before(begun, done, done) - sum_before(begun, done, begun) - (done - begun)
            share[here] += np.minimum(others / np.maximum(done - begun, 1), 1.0)
        found: np.ndarray = m.reduced(np.maximum, share)
        return found

    def _consistent(self, links: list[Link]) -> list[Link]:
        """The links; one that is as fast as others with messages at least as large is not slow."""
        fast: dict[tuple[int, ...], float] = {}
        for one in links:
            if one.others and len(one.collectives) >= 3 and one.factor < HEALTHY:
                fast[one.places] = max(fast.get(one.places, 0.0), one.size)
        return [
            replace(one, is_slow=False) if one.is_slow and one.size <= fast.get(one.places, 0.0) else one
            for one in links
        ]


def _size_class(size: float) -> int:
    """Four to a power of two: the sizes of an uneven exchange are compared with near ones."""
    return round(4 * math.log2(size))
