"""Links of a job, one by one: how fast each process group and each pair of ranks is, and which are slow.

A link is a process group, or a rank that sends and one that receives. It is compared with the links of equal kind, size
of the message, number of ranks and of hosts: what all of them share, such as a small message's latency, is no link's
fault. Slow links are then put down to what explains most of them: a pair of ranks, a rank, a host, a switch.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.ranks.figures import Figures, held_up_by, later_by, transfers
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.outliers import FACTOR, slow_ones
from tracelens_graph.analyses.ranks.sizes import bus_factors, gb_per_s
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.collective_kinds import kind_of
from tracelens_graph.graph.intervals import length_before, sum_before
from tracelens_graph.utils.arrays import Codes, Mask, Ns
from tracelens_graph.utils.hosts import is_hash
from tracelens_graph.utils.texts import ranges

LEAST_EXCESS_NS = 5_000
"""Links of equal kind differ by this much without a reason worth a name."""
LATENCY_BYTES, LEAST_LATENCY_NS = 65_536, 100_000
"""Below this size a message's time is latency; a link that is slower by less than that is not called slow for it."""
_MOST_PAIRED = 16
"""Pairs of ranks in larger groups are not looked at, as so many are in each."""
_PLURAL = {"rank": "ranks", "host": "hosts", "switch": "switches"}
_QUEUED_NS = 5_000
"""A kernel that starts so soon after another one ended waited behind it."""
_HEALTHY = 1.15
"""A link that is slower than its like by less is surely not slow."""
_LEAST_SLOW_SHARE = 0.75
"""Share of the links of a rank, host or switch that are slow, where it is what makes them slow."""


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

    def bandwidth(self, ns: float) -> float:
        """Bus bandwidth, if its messages took so long, GB/s."""
        rate = gb_per_s(np.array([self.size]), np.array([ns]))
        return float((rate * bus_factors([self.kind], np.array([len(self.places)])))[0])


@dataclass(frozen=True, eq=False)
class SlowLinks:
    """Slow links with one thing in common.

    Attributes:
        level: `group`, `pair`, `ranks` (a pair in both directions, or in groups), `rank`, `hosts`, `host`, `switches`
            or `switch`; one way only `from rank`, `into rank`, and so on.
        name: what to call it, for people.
        links: those that are slow, the worst first.
        of: number of links that it has, and that were compared.
        excess_ns: how much longer their collectives took than those of the others, summed.
        edit: what `what_if(..., bandwidth=...)` calls them.
    """

    level: str
    name: str
    links: Sequence[Link]
    of: int
    excess_ns: float
    edit: str


class _Alike(NamedTuple):
    """What links have in common that are compared: kind, size class, ranks, and hosts, 0 where not known."""

    kind: str
    size: int
    ranks: int
    hosts: int


class Cause(NamedTuple):
    """Something that links have in common: how wide it is, its level, and which ranks, hosts or switches."""

    width: int
    level: str
    which: tuple[int, ...]


class Links:
    """The links of a job.

    Args:
        figures: what each collective cost.
    """

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self._m = figures.matched

    # --- which there are ---------------------------------------------------------------------------------------------

    @cached_property
    def ends(self) -> Mapping[int, tuple[int, int]]:
        """Number of a transfer -> places of the rank that sends and of the one that receives."""
        at, source, target = transfers(self._m)
        places = zip(self._m.trace[source].tolist(), self._m.trace[target].tolist(), strict=True)
        return dict(zip(at.tolist(), places, strict=True))

    def _link_of(self, at: int) -> tuple[int, ...] | None:
        """The ranks of the link of a collective; None where not all of them are known."""
        m = self._m
        if m.kind[at] == "send":
            return self.ends.get(at)
        if m.group_size[at] > m.count[at] or m.count[at] < 2:
            return None
        return tuple(m.trace[m.parts_of(at)].tolist())

    @cached_property
    def all(self) -> list[Link]:
        """The links of collectives whose size is known and whose ranks are all there; by kind, size and ranks."""
        m, figures = self._m, self._figures
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
        sizes = [self._figures.size[some] for some in numbers]
        size = float(np.median(np.concatenate(sizes)))
        values = [self._m.shortest_ns[some].astype(float) for some in numbers]
        if size >= LATENCY_BYTES:
            values = [one * size / of for one, of in zip(values, sizes, strict=True)]
        contended = np.array([np.median(self._contended[some]) for some in numbers])
        places = list(of_links)
        least_ns = LEAST_EXCESS_NS if size >= LATENCY_BYTES else LEAST_LATENCY_NS
        slow = slow_ones(values, contended, least_ns, lambda some: self._one_cause(places, some, alike.kind == "send"))
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
    def _computed_share(self) -> np.ndarray:
        """Of each part, once all have come, the share of its time in which its rank computed."""
        m = self._m
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
        m = self._m
        share = self._computed_share.copy()
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
            if one.others and len(one.collectives) >= 3 and one.factor < _HEALTHY:
                fast[one.places] = max(fast.get(one.places, 0.0), one.size)
        return [
            replace(one, is_slow=False) if one.is_slow and one.size <= fast.get(one.places, 0.0) else one
            for one in links
        ]

    # --- what makes them slow ----------------------------------------------------------------------------------------

    def _causes(self, places: tuple[int, ...], is_pair: bool) -> Iterator[Cause]:
        """What a link has in common with others, from the narrowest on."""
        yield Cause(0, "pair" if is_pair else "group", places)
        if len(places) <= _MOST_PAIRED:
            yield from (Cause(1, "ranks", pair) for pair in combinations(sorted(places), 2))
        yield from _causes_at(2, "rank", places, is_pair)
        for width, level, of in ((6, "host", self._m.hosts), (10, "switch", self.switches)):
            named = [name for place in places if (name := of[place]) is not None]
            both = tuple(sorted(set(named)))
            if len(named) == len(places) and len(both) > 1:
                if len(both) == 2:
                    yield Cause(width, _PLURAL[level], both)
                yield from _causes_at(width + 1, level, named, is_pair)

    def _one_cause(self, places: Sequence[tuple[int, ...]], slow: Mask, is_pair: bool) -> bool:
        """Whether something that is not a link itself has all slow links of some, and none of the others."""
        common: set[Cause] | None = None
        others: set[Cause] = set()
        for one, is_slow in zip(places, slow.tolist(), strict=True):
            causes = {cause for cause in self._causes(one, is_pair) if cause.width}
            if is_slow:
                common = causes if common is None else common & causes
            else:
                others |= causes
        return bool((common or set()) - others)

    @cached_property
    def switches(self) -> list[int | None]:
        """For each rank the number of its switch; see `switches`."""
        return switches(self._m)

    @cached_property
    def slow(self) -> list[SlowLinks]:
        """What makes links slow, the most expensive first: each slow link counts for one of them."""
        judged = [one for one in self.all if one.others]
        slow = [one for one in judged if one.is_slow]
        if not slow:
            return []
        having: dict[Cause, list[Link]] = {}
        for one in judged:
            # What is neither slow nor surely fast is no argument.
            if one.is_slow or one.factor < _HEALTHY:
                for cause in self._causes(one.places, one.is_pair):
                    having.setdefault(cause, []).append(one)
        whole = {
            cause: some
            for cause, some in having.items()
            if sum(one.is_slow for one in some) >= _LEAST_SLOW_SHARE * len(some)
        }
        found, left = [], set(map(id, slow))
        while left:
            # Of what explains as many, the narrowest.
            cause = max(whole, key=lambda one: (self._explained(whole[one], left), -one.width, -len(whole[one])))
            links = [one for one in whole[cause] if one.is_slow and id(one) in left]
            if not links:
                break
            left -= set(map(id, links))
            links.sort(key=lambda one: -one.excess_ns)
            found.append(
                SlowLinks(
                    cause.level, self._named(cause.level, cause.which), links,
                    len({one.places for one in having[cause]}), sum(one.excess_ns for one in links),
                    self._edit(cause, links[0]),
                )
            )  # fmt: skip
        return sorted(found, key=lambda one: -one.excess_ns)

    @staticmethod
    def _explained(links: Sequence[Link], left: set[int]) -> int:
        return len({one.places for one in links if id(one) in left})

    # --- what they delay ---------------------------------------------------------------------------------------------

    @cached_property
    def excess_ns(self) -> Ns:
        """How much longer each collective took than on sound links of its kind, size and number of ranks, else 0.

        That it goes to more hosts than these is no fault of its ranks either.
        """
        sound: dict[tuple[str, int, int], dict[int | None, list[float]]] = {}
        for one in self.all:
            if not one.is_slow:
                sound.setdefault(one.alike, {}).setdefault(one.hosts, []).append(one.ns)
        medians = {
            alike: {hosts: float(np.median(some)) for hosts, some in of_hosts.items()}
            for alike, of_hosts in sound.items()
        }
        found = np.zeros(len(self._m), np.int64)
        for one in self.all:
            of_hosts = medians.get(one.alike, {})
            least = min(of_hosts.values(), default=np.nan)
            typical = one.ns if one.is_slow else of_hosts[one.hosts]
            if typical >= FACTOR * least and typical - least >= LEAST_EXCESS_NS:
                took = self._m.shortest_ns[one.collectives]
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
        m, parts = self._m, self._m.parts
        delay, least = np.zeros((2, len(parts)), np.int64)
        if not self.excess_ns.any():
            return delay, least
        held = m.order
        moments = np.concatenate((m.start_ns[held], m.last_end_ns))
        # Of equal moments the ends first.
        order = np.lexsort((np.repeat((1, 0), (len(held), len(m))), moments))
        (late, before), queued = np.zeros((2, len(m.ranks)), np.int64), np.full((len(m.ranks), 2), -_QUEUED_NS)
        computes = self._computed_share > 0.5
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
        m, (last, later) = self._m, self._figures.held_up_ns
        for delay in self._delays if self.excess_ns.any() else ():
            also, ns = held_up_by(m, later_by(m, m.start_ns - delay))
            later = np.where(last == also, np.minimum(later, ns), 0)
            last = np.where(later > 0, last, -1)
        return last, later

    # --- what they are called ----------------------------------------------------------------------------------------

    def rank_name(self, place: int) -> str:
        """What to call a rank: its number, else the name of its trace."""
        rank = self._m.ranks[place]
        return rank.name if rank.rank is None else str(rank.rank)

    def name_of(self, link: Link) -> str:
        """What to call a link."""
        return self._named("pair" if link.is_pair else "group", link.places)

    def short_name(self, link: Link) -> str:
        """The same in few characters, beside its level."""
        if link.is_pair:
            return self.name_of(link).removeprefix("rank ")
        return f"{self._listed(link.places).replace(', ', ',')} {self._description.get(link.places, '')}".rstrip()

    def hosts_of(self, link: Link) -> frozenset[int | None]:
        """The numbers of the hosts of a link, None for unknown ones."""
        return frozenset(self._m.hosts[place] for place in link.places)

    def numbers(self, places: Sequence[int]) -> list[int | None]:
        """The numbers of ranks."""
        return [self._m.ranks[place].rank for place in places]

    def joined(self, level: str, numbers: Collection[int], short: bool = False) -> str:
        """What to call some hosts, or switches, by their numbers: with their ranks, or in few characters without."""
        if not short:
            return " and ".join(self._named(level, (number,)) for number in sorted(numbers))
        names = [self._place_name(level, number)[0] for number in sorted(numbers)]
        numbered = names == [f"{level} {number}" for number in sorted(numbers)]
        return f"{_PLURAL[level]} {ranges(numbers)}" if numbered and len(names) > 1 else ", ".join(names)

    def _edit(self, cause: Cause, worst: Link) -> str:
        """What a change of bandwidth calls slow links; of those that it has no word for the worst one."""
        way, _, level = cause.level.rpartition(" ")
        if level in ("host", "rank", "switch"):
            name = level + (self.rank_name(cause.which[0]) if level == "rank" else str(cause.which[0]))
            return {"from": f"{name}->", "into": f"->{name}"}.get(way, name)
        if worst.is_pair and level == "pair":
            return "->".join(map(self.rank_name, worst.places))
        return self._listed(worst.places).replace(" ", "")

    def _listed(self, places: Sequence[int]) -> str:
        numbers = [self._m.ranks[place].rank for place in places]
        if None in numbers:
            return ", ".join(self._m.ranks[place].name for place in places)
        return ranges(number for number in numbers if number is not None)

    def _named(self, level: str, which: tuple[int, ...]) -> str:
        """What to call what slow links have in common."""
        if level == "pair":
            return " -> ".join(("rank " + self.rank_name(which[0]), self.rank_name(which[1])))
        if level == "group":
            called = self._description.get(which)
            return f"group of ranks {self._listed(which)}{f' ({called})' if called else ''}"
        if level in _PLURAL.values():
            one = next(name for name, plural in _PLURAL.items() if plural == level)
            return self.joined(one, which)
        level, number = level.split()[-1], which[0]
        if level == "rank":
            return f"rank {self.rank_name(number)}"
        name, places = self._place_name(level, number)
        return f"{name} (rank{'s' * (len(places) > 1)} {self._listed(places)})"

    def _place_name(self, level: str, number: int) -> tuple[str, list[int]]:
        """What to call a host or a switch, and the places of its ranks."""
        of = self._m.hosts if level == "host" else self.switches
        places = [place for place, name in enumerate(of) if name == number]
        name = self._m.ranks[places[0]].host if level == "host" else self._m.ranks[places[0]].switch
        return f"{level} {name if name and not is_hash(name) else number}", places

    @cached_property
    def _description(self) -> Mapping[tuple[int, ...], str]:
        """What the program calls a group of ranks, where it has a name that is not a number."""
        names: dict[tuple[int, ...], str] = {}
        for at, name in enumerate(self._figures.groups.name):
            if name and not name.isdigit() and self._m.kind[at] != "send":
                names.setdefault(tuple(self._m.trace[self._m.parts_of(at)].tolist()), name)
        return names


def _size_class(size: float) -> int:
    """Four to a power of two: the sizes of an uneven exchange are compared with near ones."""
    return round(4 * math.log2(size))


def _causes_at(width: int, level: str, ends: Sequence[int], is_pair: bool) -> Iterator[Cause]:
    """The causes of one level: one way from and into each end of a pair, and either way."""
    if is_pair:
        yield Cause(width, f"from {level}", (ends[0],))
        yield Cause(width, f"into {level}", (ends[1],))
    yield from (Cause(width + 1, level, (one,)) for one in dict.fromkeys(ends))


def switches(m: MatchedCollectives) -> list[int | None]:
    """For each rank the number of the switch or rack of its host, None where names of hosts do not show it."""
    hosts: dict[str | None, set[int | None]] = {}
    for rank, host in sorted(zip(m.ranks, m.hosts, strict=True), key=lambda one: one[0].rank or 0):
        hosts.setdefault(rank.switch, set()).add(host)
    # Where each host has one of its own, the names are those of hosts.
    are_shared = len(hosts) > 1 and None not in hosts and any(len(some) > 1 for some in hosts.values())
    number = {name: at for at, name in enumerate(hosts)}
    return [number[rank.switch] if are_shared else None for rank in m.ranks]
