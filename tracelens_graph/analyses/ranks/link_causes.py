"""What slow links have in common: a pair of ranks, a rank, a host, a switch; one way or both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from tracelens_graph.analyses.ranks.names import Names
from tracelens_graph.utils.arrays import Mask

_MOST_PAIRED = 16
"""Pairs of ranks in larger groups are not looked at, as so many are in each."""


class Cause(NamedTuple):
    """Something that links have in common.

    Attributes:
        width: how wide it is: of two that explain as much, the narrower one is meant.
        level: `group`, `pair`, `ranks` (a pair in both directions, or in groups), `rank`, `hosts`, `host`, `switches`
            or `switch`; one way only `from rank`, `into rank`, and so on.
        which: which ranks, by their places, hosts or switches, by their numbers.
    """

    width: int
    level: str
    which: tuple[int, ...]

    def called(self, names: Names) -> str:
        """What to call it, for people."""
        level = self.level.split()[-1]
        if level in ("pair", "group"):
            return names.link(self.which, level == "pair")
        if level == "ranks":
            return " and ".join(f"rank {names.rank(place)}" for place in self.which)
        if level == "rank":
            return f"rank {names.rank(self.which[0])}"
        return names.places("host" if level.startswith("host") else "switch", self.which)

    def edit(self, names: Names, worst: Sequence[int]) -> str:
        """What a change of bandwidth calls it; where it has no word for that, the worst link, by its places."""
        way, _, level = self.level.rpartition(" ")
        if level in ("host", "rank", "switch"):
            name = level + (names.rank(self.which[0]) if level == "rank" else str(self.which[0]))
            return {"from": f"{name}->", "into": f"->{name}"}.get(way, name)
        return "->".join(map(names.rank, worst)) if level == "pair" else names.listed(worst).replace(" ", "")


def causes_of(names: Names, places: Sequence[int], is_pair: bool) -> Iterator[Cause]:
    """What a link has in common with others, from the narrowest on.

    Args:
        names: hosts and switches of the job.
        places: places of its ranks.
        is_pair: whether it leads from one rank to another.
    """
    yield Cause(0, "pair" if is_pair else "group", tuple(places))
    if len(places) <= _MOST_PAIRED:
        yield from (Cause(1, "ranks", pair) for pair in combinations(sorted(places), 2))
    yield from _of_ends(2, "rank", places, is_pair)
    for width, level, plural, of in ((6, "host", "hosts", names.hosts), (10, "switch", "switches", names.switches)):
        named = [name for place in places if (name := of[place]) is not None]
        both = tuple(sorted(set(named)))
        if len(named) == len(places) and len(both) > 1:
            if len(both) == 2:
                yield Cause(width, plural, both)
            yield from _of_ends(width + 1, level, named, is_pair)


def _of_ends(width: int, level: str, ends: Sequence[int], is_pair: bool) -> Iterator[Cause]:
    """The causes of one level: one way from and into each end of a pair, and either way."""
    if is_pair:
        yield Cause(width, f"from {level}", (ends[0],))
        yield Cause(width, f"into {level}", (ends[1],))
    yield from (Cause(width + 1, level, (one,)) for one in dict.fromkeys(ends))


def have_one_cause(names: Names, places: Sequence[tuple[int, ...]], slow: Mask, is_pair: bool) -> bool:
    """Whether something that is not a link itself has all slow links of some, and none of the others."""
    common: set[Cause] | None = None
    others: set[Cause] = set()
    for one, is_slow in zip(places, slow.tolist(), strict=True):
        causes = {cause for cause in causes_of(names, one, is_pair) if cause.width}
        if is_slow:
            common = causes if common is None else common & causes
        else:
            others |= causes
    return bool((common or set()) - others)
