"""What slow links delay: a rank that waits for one is late through no fault of its own."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tracelens_graph.analyses.ranks.figures import held_up_by, later_by, transfers
from tracelens_graph.analyses.ranks.links import LEAST_EXCESS_NS, Links
from tracelens_graph.analyses.ranks.outliers import FACTOR
from tracelens_graph.utils.arrays import Codes, Ns

_QUEUED_NS = 5_000
"""A kernel that starts so soon after another one ended waited behind it."""


class LinkDelays:
    """What slow links of a job delay.

    Args:
        links: the links.
    """

    def __init__(self, links: Links) -> None:
        self._links = links

    @cached_property
    def excess_ns(self) -> Ns:
        """How much longer each collective took than on sound links of its kind, size and number of ranks, else 0.

        That it goes to more hosts than these is no fault of its ranks either.
        """
        sound: dict[tuple[str, int, int], dict[int | None, list[float]]] = {}
        for one in self._links.all:
            if not one.is_slow:
                sound.setdefault(one.alike, {}).setdefault(one.hosts, []).append(one.ns)
        medians = {
            alike: {hosts: float(np.median(some)) for hosts, some in of_hosts.items()}
            for alike, of_hosts in sound.items()
        }
        found = np.zeros(len(self._links.matched), np.int64)
        for one in self._links.all:
            of_hosts = medians.get(one.alike, {})
            least = min(of_hosts.values(), default=np.nan)
            typical = one.ns if one.is_slow else of_hosts[one.hosts]
            if typical >= FACTOR * least and typical - least >= LEAST_EXCESS_NS:
                took = self._links.matched.shortest_ns[one.collectives]
                found[one.collectives] = np.maximum(took - took * least / typical, 0)
        return found

    @cached_property
    def delay_ns(self) -> Ns:
        """How much of the start of each part of a collective is the delay by slow links, also of other ranks.

        A rank waits for a collective that it does not compute beside, and for what it receives; so it starts what
        follows as much later as the collective ends later. The start of the rank that is last without the delays
        decides when that would be. What waits in a stream behind a collective is as late as that.
        """
        return self._delays[0]

    @cached_property
    def _delays(self) -> tuple[Ns, Ns]:
        """`delay_ns`, and the same without what a part waits in its stream behind another collective."""
        m, parts = self._links.matched, self._links.matched.parts
        delay, least = np.zeros((2, len(parts)), np.int64)
        if not self.excess_ns.any():
            return delay, least
        held = m.order
        moments = np.concatenate((m.start_ns[held], m.last_end_ns))
        # Of equal moments the ends first.
        order = np.lexsort((np.repeat((1, 0), (len(held), len(m))), moments))
        (late, before), queued = np.zeros((2, len(m.ranks)), np.int64), np.full((len(m.ranks), 2), -_QUEUED_NS)
        computes = self._links.computed_share > 0.5
        sends = np.zeros(len(parts), bool)
        sends[transfers(m)[1]] = True
        for event in order.tolist():
            if event < len(held):
                part = int(held[event])
                rank = int(m.trace[part])
                is_queued = m.start_ns[part] - queued[rank, 0] <= _QUEUED_NS
                least[part] = before[rank] if is_queued else late[rank]
                delay[part] = max(late[rank], queued[rank, 1] if is_queued else 0)
                continue
            number = event - len(held)
            of = m.parts_of(number)
            last = int(m.last_start_ns[number]) - int((m.start_ns[of] - delay[of]).max())
            ends_later = max(last, 0) + int(self.excess_ns[number])
            ranks = m.trace[of]
            queued[ranks], before[ranks] = (moments[event], ends_later), late[ranks]
            waits = ~sends[of] & ~computes[of]
            late[ranks[waits]] = ends_later
        return delay, least

    @cached_property
    def held_up_ns(self) -> tuple[Codes, Ns]:
        """As `Figures.held_up_ns`, but for what slow links delay.

        What waited in a stream behind a delayed collective may have been ready earlier or not: who holds up does so
        as recorded and either way, and the lowest figure counts.
        """
        m, (last, later) = self._links.matched, self._links.figures.held_up_ns
        for delay in self._delays if self.excess_ns.any() else ():
            also, ns = held_up_by(m, later_by(m, m.start_ns - delay))
            later = np.where(last == also, np.minimum(later, ns), 0)
            last = np.where(later > 0, last, -1)
        return last, later
