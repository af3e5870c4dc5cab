"""Which collectives a change of bandwidth means: by a name of their group, their kind, or the ranks of a link."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tracelens_graph.graph.collectives import Collective

_PAIR = re.compile(r"(\d+)->(\d+)")
_RANKS = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*")
_OF = re.compile(r"(->)?(rank|host|switch)(\d+)(->)?")
_MOST_RANKS = 1_000_000


def names_of(one: Collective) -> tuple[str, ...]:
    """What a collective may be called by: name and description of its group, and its kind."""
    return tuple(name for name in (one.group, one.group_description, one.kind) if name)


Places = Mapping[str, Mapping[int, int | None]]
"""`host` or `switch` -> number of a rank -> that of its host, or switch."""


def meant_by(name: str, places: Places) -> Callable[[Collective], bool]:
    """Whether a collective is meant by a name.

    Args:
        name: `all`; a name of `names_of`; `2->4` for transfers of one rank to another; `4-7` or `0,2,5` for groups of
            these ranks, and transfers between two; `rank3` for all that a rank takes part in, `host1` for all that a
            host does with others, `switch2` a switch; `host1->` and `->host1` for transfers one way.
        places: where each rank is.
    """
    pair, of = _PAIR.fullmatch(name), _OF.fullmatch(name)
    ranks = _listed(name)

    def is_meant(one: Collective) -> bool:
        if name == "all" or name in names_of(one):
            return True
        source, target = one.source_rank, one.target_rank
        own = set(one.ranks or ()) if source is None or target is None else {source, target}
        if pair is not None:
            return (source, target) == (int(pair[1]), int(pair[2]))
        if of is None:
            return len(ranks) > 1 and own == ranks
        number_of = {rank: rank if of[2] == "rank" else places[of[2]].get(rank) for rank in own}
        ends = [end for end, way in ((target, of[1]), (source, of[4])) if way]
        meant = [number_of[end] for end in ends if end is not None] if ends else list(number_of.values())
        return len(set(number_of.values())) > 1 and int(of[3]) in meant

    return is_meant


def _listed(name: str) -> set[int]:
    """Ranks of a list such as `0,2,4-7`; none where it is no list of them."""
    found: set[int] = set()
    for part in name.split(",") if _RANKS.fullmatch(name) else ():
        first, _, last = part.partition("-")
        if int(last or first) - int(first) < _MOST_RANKS:
            found.update(range(int(first), int(last or first) + 1))
    return found
