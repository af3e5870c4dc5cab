"""Joining by ids: equal ones, and those that differ by one constant."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracelens_graph.execution.joining.sides import Pairs, Side

_VOTES = 1 << 20
"""Pairs of ids that vote for a constant."""
_MOST_OF_NAME = 1024
_CANDIDATES = 3


def by_ids(first: np.ndarray, second: np.ndarray, offset: int = 0) -> Pairs:
    """Places of ids of which the first is the second plus a constant; 0 is no id, and so is one that occurs twice."""
    sides = []
    for ids in (first, second):
        values, places, counts = np.unique(ids, return_index=True, return_counts=True)
        single = (counts == 1) & (values != 0)
        sides.append((values[single], places[single]))
    (ids, places), (others, their_places) = sides
    _, at, their = np.intersect1d(ids, others + offset, assume_unique=True, return_indices=True)
    return places[at], their_places[their]


def offsets(trace: Side, nodes: Side) -> Iterator[int]:
    """Constants by which the ids of the two may differ, likeliest first.

    Nodes of one name vote with the differences of their ids, those of the rarest names first.
    """
    mine, theirs = (np.flatnonzero(side.record_id) for side in (trace, nodes))
    if not len(mine) or not len(theirs):
        return
    size = int(max(trace.name.max(), nodes.name.max())) + 1
    counts = [np.bincount(side.name[at], minlength=size) for side, at in ((trace, mine), (nodes, theirs))]
    votes = counts[0] * counts[1]
    order = np.argsort(votes, kind="stable")
    voters = order[(votes[order] > 0) & (np.cumsum(votes[order]) <= _VOTES)]
    if not len(voters):
        voters = order[votes[order] > 0][:1]
    by_name = [_by_name(side, at, size) for side, at in ((trace, mine), (nodes, theirs))]
    differences = [np.empty(0, np.int64)]
    for name in voters.tolist():
        a, b = (ids[ends[name] : ends[name + 1]][:_MOST_OF_NAME] for ids, ends in by_name)
        differences.append((a[:, None] - b[None, :]).ravel())
    values, found = np.unique(np.concatenate(differences), return_counts=True)
    likeliest = values[np.argsort(-found, kind="stable")][:_CANDIDATES]
    yield from (int(one) for one in likeliest if one)


def _by_name(side: Side, at: np.ndarray, size: int) -> Pairs:
    """Ids ordered by name, and where those of each name begin."""
    order = np.argsort(side.name[at], kind="stable")
    ends = np.concatenate(([0], np.cumsum(np.bincount(side.name[at], minlength=size))))
    return side.record_id[at][order], ends
