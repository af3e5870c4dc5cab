"""What some ranks of a job, and some of its steps, are called together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.names import Names
from tracelens_graph.analyses.stragglers.rank_work import pipelines
from tracelens_graph.utils.texts import ranges

MOST_STEPS = 5
"""Steps that are named by their numbers."""


def called(names: Names, places: Sequence[int], moves: bool, shared: Iterable[tuple[str, frozenset[int]]]) -> str:
    """What some ranks are called: by their numbers, and by hosts, stages and groups that are these ranks."""
    ranks = names.ranks(places)
    if moves:
        return f"{ranks} in turn"
    if len(places) == 1:
        return ranks
    same = [name for name, members in shared if members == frozenset(places)]
    return f"{' and '.join(same)} ({ranks})" if same else ranks


def teams(figures: Figures) -> list[tuple[str, frozenset[int]]]:
    """What ranks of a job may have in common: hosts, stages of a pipeline, process groups; with their places."""
    m = figures.matched
    hosts: dict[int | None, set[int]] = defaultdict(set)
    for place, host in enumerate(m.hosts):
        hosts[host].add(place)
    found = [
        (figures.names.place("host", host), frozenset(members))
        for host, members in hosts.items()
        if host is not None and len(hosts) > 1
    ]
    _, stage = pipelines(m)
    if stage.any():
        found += [
            (f"stage {at}", frozenset(np.flatnonzero(stage == at).tolist())) for at in range(int(stage.max()) + 1)
        ]
    place_of = {one.rank: place for place, one in enumerate(m.ranks)}
    names = dict(zip(figures.groups.number.tolist(), figures.groups.name, strict=True))
    for number, ranks in enumerate(figures.groups.ranks):
        members = frozenset(place_of[rank] for rank in ranks or () if rank in place_of)
        if 1 < len(members) < len(m.ranks) and all(members != other for _, other in found):
            found.append((f"group {names[number]}", members))
    return found


def when(struck: Sequence[int], steps: Sequence[int]) -> str:
    """Steps in words, where they are few of all; else empty."""
    if not struck or 2 * len(struck) > len(steps):
        return ""
    if len(struck) <= MOST_STEPS:
        return f" in step{'s' * (len(struck) > 1)} {ranges(struck, ' and ')}"
    return f" in {len(struck):,} of {len(steps):,} steps"
