"""What ranks of a job, their hosts, switches and links are called."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.graph.ranks import rank_titles
from tracelens_graph.utils.hosts import is_hash
from tracelens_graph.utils.texts import ranges

_PLURAL = {"rank": "ranks", "host": "hosts", "switch": "switches"}


class Names:
    """Names for people; ranks are given by their places in the job.

    Args:
        matched: the collectives of the job.
        groups: for each collective what the program calls its process group.

    Attributes:
        hosts: for each rank the number of its host, None where not known.
    """

    def __init__(self, matched: MatchedCollectives, groups: Sequence[str | None]) -> None:
        self._m, self._ranks, self._groups = matched, matched.ranks, groups
        self.hosts = matched.hosts

    @cached_property
    def switches(self) -> list[int | None]:
        """For each rank the number of the switch or rack of its host, None where names of hosts do not show it."""
        hosts: dict[str | None, set[int | None]] = {}
        for rank, host in sorted(zip(self._ranks, self.hosts, strict=True), key=lambda one: one[0].rank or 0):
            hosts.setdefault(rank.switch, set()).add(host)
        # Where each host has one of its own, the names are those of hosts.
        are_shared = len(hosts) > 1 and None not in hosts and any(len(some) > 1 for some in hosts.values())
        number = {name: at for at, name in enumerate(hosts)}
        return [number[rank.switch] if are_shared else None for rank in self._ranks]

    def numbers(self, places: Sequence[int]) -> list[int | None]:
        """The numbers of ranks."""
        return [self._ranks[place].rank for place in places]

    def rank(self, place: int) -> str:
        """A rank: its number, else the name of its trace."""
        return self.listed((place,))

    def listed(self, places: Sequence[int], last: str = ", ") -> str:
        """Ranks by their numbers: `4-7, 9`; without numbers by the names of their traces."""
        numbers = [number for number in self.numbers(places) if number is not None]
        return (
            ranges(numbers, last) if len(numbers) == len(places) else ", ".join(self._ranks[at].name for at in places)
        )

    def ranks(self, places: Sequence[int]) -> str:
        """Ranks in a sentence: `rank 3`, `ranks 4-7 and 9`; by the names of traces where numbers are of several."""
        titles = rank_titles(self._ranks)
        if any(titles[place] != f"rank {self._ranks[place].rank}" for place in places):
            *others, last = [titles[place] for place in places]
            return f"{', '.join(others)} and {last}" if others else last
        return f"rank{'s' * (len(places) > 1)} {self.listed(places, ' and ')}"

    def place(self, level: str, number: int) -> str:
        """A host, or a switch, by its number."""
        first = self._ranks[self._members(level, number)[0]]
        name = first.host if level == "host" else first.switch
        return f"{level} {name if name and not is_hash(name) else number}"

    def places(self, level: str, numbers: Collection[int], short: bool = False) -> str:
        """Some hosts, or switches, by their numbers: with their ranks, or in few characters without."""
        names = [self.place(level, number) for number in sorted(numbers)]
        if not short:
            members = [self._members(level, number) for number in sorted(numbers)]
            ranks = [f"rank{'s' * (len(of) > 1)} {self.listed(of)}" for of in members]
            return " and ".join(f"{name} ({of})" for name, of in zip(names, ranks, strict=True))
        numbered = names == [f"{level} {number}" for number in sorted(numbers)]
        return f"{_PLURAL[level]} {ranges(numbers)}" if numbered and len(names) > 1 else ", ".join(names)

    def _members(self, level: str, number: int) -> list[int]:
        of = self.hosts if level == "host" else self.switches
        return [place for place, name in enumerate(of) if name == number]

    def link(self, places: Sequence[int], is_pair: bool) -> str:
        """A link: ranks of a group, or a rank that sends and one that receives."""
        if is_pair:
            return f"rank {' -> '.join(map(self.rank, places))}"
        called = self._description.get(tuple(places))
        return f"group of ranks {self.listed(places)}{f' ({called})' if called else ''}"

    def short_link(self, places: Sequence[int], is_pair: bool) -> str:
        """The same in few characters."""
        if is_pair:
            return self.link(places, is_pair).removeprefix("rank ")
        return f"{self.listed(places).replace(', ', ',')} {self._description.get(tuple(places), '')}".rstrip()

    @cached_property
    def _description(self) -> Mapping[tuple[int, ...], str]:
        """What the program calls a group of ranks, where it has a name that is not a number."""
        names: dict[tuple[int, ...], str] = {}
        for at, name in enumerate(self._groups):
            if name and not name.isdigit() and self._m.kind[at] != "send":
                names.setdefault(tuple(self._m.trace[self._m.parts_of(at)].tolist()), name)
        return names
