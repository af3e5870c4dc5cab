"""Slow links put down to what explains most of them: a pair of ranks, a rank, a host, a switch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracelens_graph.analyses.ranks.link_causes import Cause, causes_of
from tracelens_graph.analyses.ranks.links import HEALTHY, Link, Links
from tracelens_graph.analyses.ranks.rings import Ring, bounded

_LEAST_SLOW_SHARE = 0.75
"""Share of the links of a rank, host or switch that are slow, where it is what makes them slow."""


@dataclass(frozen=True, eq=False)
class SlowLinks:
    """Slow links with one thing in common.

    Attributes:
        cause: what that is.
        name: what to call it, for people.
        links: those that are slow, the worst first.
        of: number of links that it has, and that were compared.
        edit: what `what_if(..., bandwidth=...)` calls them, or the narrowest of them, and how many times as fast the
            others are, as the command takes it.
        rings: collectives of larger groups that they bound.
    """

    cause: Cause
    name: str
    links: Sequence[Link]
    of: int
    edit: str
    rings: Sequence[Ring]

    @property
    def excess_ns(self) -> float:
        """How much longer their collectives, and those that they bound, took than with links like the others."""
        return sum(one.excess_ns for one in self.links) + sum(one.excess_ns for one in self.rings)


def slow_links(links: Links) -> list[SlowLinks]:
    """What makes links slow, the most expensive first: each slow link counts for one of them."""
    names = links.figures.names
    judged = [one for one in links.all if one.others]
    having: dict[Cause, list[Link]] = {}
    for one in judged:
        # What is neither slow nor surely fast is no argument.
        if one.is_slow or one.factor < HEALTHY:
            for cause in causes_of(names, one.places, one.is_pair):
                having.setdefault(cause, []).append(one)
    whole = {
        cause: some
        for cause, some in having.items()
        if sum(one.is_slow for one in some) >= _LEAST_SLOW_SHARE * len(some)
    }
    found: list[SlowLinks] = []
    left, bound = {id(one) for one in judged if one.is_slow}, bounded(links, [one for one in judged if one.is_slow])
    while left and whole:
        # Of what explains as many, the narrowest.
        cause = max(whole, key=lambda one: (_explained(whole[one], left), -one.width, -len(whole[one])))
        slow = [one for one in whole[cause] if one.is_slow and id(one) in left]
        if not slow:
            break
        left -= set(map(id, slow))
        slow.sort(key=lambda one: -one.excess_ns)
        number = len({one.places for one in having[cause]})
        worst = min(slow, key=lambda one: (len(one.places), -one.excess_ns))  # a pair has rings with it
        edit = f"{cause.edit(names, worst.places)}:{worst.bandwidth_factor:.2g}"
        of_cause = {one.places for one in slow}
        rings = [one for one in bound if any(places in of_cause for places in one.passes)]
        found.append(SlowLinks(cause, cause.called(names), slow, number, edit, rings))
    return sorted(found, key=lambda one: -one.excess_ns)


def _explained(links: Sequence[Link], left: set[int]) -> int:
    return len({one.places for one in links if id(one) in left})
