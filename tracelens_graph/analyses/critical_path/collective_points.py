"""Collectives among the points of ranks: nobody ends before those have come whom it gets data from.

In an all-reduce, reduce-scatter, all-gather or barrier all wait for all. Of the other kinds it follows from what is
recorded: source and target of a transfer, sizes of what each rank exchanges, root of a broadcast; where no root is
recorded, from when each rank ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.critical_path.points import Edge
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.graph.arrays import distinct, positions_by
from tracelens_graph.graph.collectives import Collective
from tracelens_graph.graph.core import Core
from tracelens_graph.utils.arrays import Mask, Ns, Rows, narrow

BUFFERED_BYTES = 4 << 20
"""A sender of no more than this need not wait for its receiver: a buffer of NCCL's takes the message."""

_BUFFER_NS, _BUFFER_BYTES_PER_NS = 20_000, 5
"""It takes it within this time, at no less than this rate."""

_TOGETHER_NS = 5_000
"""Ends so near one another are those of one transfer."""

_FROM_ONE = ("broadcast", "scatter")
_TO_ONE = ("reduce", "gather")
_EXCHANGE = ("all_to_all", "all_to_allv")
_TRANSFER = ("send", "recv")


class Member(NamedTuple):
    """What a rank knows of a collective, the rank, and the root that it recorded; see `recorded_root`."""

    node: Collective
    rank: int | None
    root: int | None = None


def waits_partly(kind: str) -> bool:
    """Whether in a kind of collective some ranks wait for some others only."""
    return kind in (*_FROM_ONE, *_TO_ONE, *_EXCHANGE, *_TRANSFER)


def awaited_parts(
    kind: str, members: Sequence[Member], start_ns: np.ndarray, end_ns: np.ndarray
) -> tuple[np.ndarray | None, bool]:
    """For each part of a collective which parts it waits for, itself included; None for all. And whether it is a guess.

    Args:
        kind: kind of the collective; of a transfer `send`.
        members: what each rank knows of it.
        start_ns, end_ns: of each part, on one clock.
    """
    if kind in _EXCHANGE:
        return _partners(members), False
    if kind in _TRANSFER:
        return _transfer(members, start_ns, end_ns), False
    root = _root_of(members)
    guess = root < 0
    if guess:
        root = _likely_root(kind, start_ns, end_ns)
    return _rooted(kind, len(members), root), guess


def _rooted(kind: str, count: int, root: int) -> np.ndarray:
    awaited = np.eye(count, dtype=bool)
    if kind in _FROM_ONE:
        awaited[:, root] = True
    else:
        awaited[root] = True
    return awaited


def _partners(members: Sequence[Member]) -> np.ndarray | None:
    """Of an exchange with recorded sizes: those that a rank sends something to or gets something from."""
    ranks = members[0].node.ranks
    if ranks is None:
        return None
    place = {rank: at for at, rank in enumerate(ranks)}
    own = [place.get(-1 if one.rank is None else one.rank, -1) for one in members]
    awaited = np.eye(len(members), dtype=bool)
    for at, one in enumerate(members):
        splits = [split for split in (one.node.in_split, one.node.out_split) if split]
        if not splits or own[at] < 0 or any(len(split) != len(ranks) for split in splits):
            return None
        for other, where in enumerate(own):
            awaited[at, other] |= where < 0 or any(split[where] > 0 for split in splits)
    return awaited


def _transfer(members: Sequence[Member], start_ns: np.ndarray, end_ns: np.ndarray) -> np.ndarray:
    """Of a transfer: the receiver waits for the sender, who need not wait with what a buffer takes.

    One that ran far longer than a buffer needs before its receiver came, and ended soon after that, or that ended
    together with a receiver who came later, waited all the same, as the kernel of a small message does where no buffer
    is free.
    """
    awaited = np.ones((len(members), len(members)), bool)
    came = start_ns.max()
    for at, one in enumerate(members):
        size = one.node.in_bytes
        if one.node.kind != "send" or size is None or size > BUFFERED_BYTES:
            continue
        before, after = came - start_ns[at], end_ns[at] - came
        is_together = abs(end_ns.max() - end_ns[at]) <= min(_TOGETHER_NS, before // 2)
        if after < 0 or not (is_together or after <= before - _BUFFER_NS - size // _BUFFER_BYTES_PER_NS):
            awaited[at] = False
            awaited[at, at] = True
    return awaited


def _root_of(members: Sequence[Member]) -> int:
    """Place of the root; -1 where it is not recorded, or where ranks disagree."""
    places = {one.root for one in members}
    if len(places) != 1 or len(members) < 2 or (place := places.pop()) is None:
        return -1
    ranks = members[0].node.ranks
    root = ranks[place] if ranks and place < len(ranks) else place
    return next((at for at, one in enumerate(members) if one.rank == root), -1)


def recorded_root(core: Core, rows: Sequence[int]) -> int | None:
    """The root by its place in the group, which PyTorch writes where it writes the rank for other kinds.

    Args:
        core: the graph.
        rows: kernels of a collective.
    """
    c = core.columns
    for row in rows:
        owner = int(c.owner[row])
        for uid in (int(c.uid[row]), int(c.uid[owner]) if owner >= 0 else -1):
            value = core.collective_args.get(uid, {}).get("rank")
            if type(value) is int and value >= 0:
                return value
    return None


def has_root(kind: str) -> bool:
    """Whether in a kind of collective one rank gives to all others, or gets from them."""
    return kind in (*_FROM_ONE, *_TO_ONE)


def _likely_root(kind: str, start_ns: np.ndarray, end_ns: np.ndarray) -> int:
    """Place of the part that is most likely the root: with it all take nearly the same time once they need not wait.

    Parts that would have ended before their data came count heavily against a root.
    """
    count = len(start_ns)
    best, best_spread = 0, np.inf
    for root in range(count):
        awaited = _rooted(kind, count, root)
        ready = np.where(awaited, start_ns[None, :], np.iinfo(np.int64).min).max(axis=1)
        taken = end_ns - ready
        spread = float(taken.max() - taken.min()) + 1e3 * float(np.maximum(-taken, 0).sum())
        if spread < best_spread:
            best, best_spread = root, spread
    return best


EARLIEST = np.iinfo(np.int64).min
"""Before all moments."""


@dataclass
class CollectivePoints:
    """Points and edges of collectives over ranks.

    Attributes:
        points: number of points before them.
        time, ordinal, collective: per point when the last has come, who that is, and the number of the collective.
        before, after, kind: edges.
        served: points that end a rank's part of a collective, and follow from one of these.
        whole: points that end a rank's part of a collective whose ranks are all there.
        lost: ends that lie before the last has come, so that nothing can follow.
        worst_ns: how far the worst of these lies before it.
        on_host: number of collectives that no kernel carried out, so that they are host time like any other.
        guessed: number of collectives whose source or target is guessed by the times of their ends alone.
    """

    points: int
    time: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    ordinal: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    collective: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    before: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    after: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    kind: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int8))
    served: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    whole: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    lost: int = 0
    worst_ns: int = 0
    guessed: int = 0
    on_host: int = 0


class PartPoints(NamedTuple):
    """Parts that ranks had in matched collectives on the GPU, and their points.

    Attributes:
        part: the parts, ascending.
        start, end: points where each starts and ends.
        single: whether these are of one kernel.
    """

    part: Rows
    start: Rows
    end: Rows
    single: Mask


def parts_on_gpu(matched: MatchedCollectives) -> Rows:
    """The parts of matched collectives that kernels carried out."""
    parts = matched.parts
    on_gpu = np.array([not one.on_host for one in parts.forms], bool)[parts.form] if len(parts) else np.zeros(0, bool)
    return np.flatnonzero((matched.number >= 0) & on_gpu).astype(np.int32)


def collective_points(
    matched: MatchedCollectives, parts: PartPoints, time: Ns, root: Callable[[int], int | None]
) -> CollectivePoints:
    """Points between the starts and the ends of those who take part in collectives.

    Of a kind that all wait in there is one for all; else one for each rank that waits for others.

    Args:
        matched: the collectives of the ranks.
        parts: their parts on the GPU.
        time: moments of all points.
        root: the root that was recorded for a part.
    """
    part, start, end, single = parts
    trace, number = matched.trace[part], matched.number[part]
    known = matched.parts
    partly = np.array([waits_partly(kind) for kind in matched.kind], bool)
    group = np.where(partly[number], -1, number)
    pairs: list[tuple[int, int, int]] = []
    guesses = 0
    for collective, of in positions_by(np.where(partly[number], number, -1)):
        if collective < 0:
            continue
        rooted = has_root(matched.kind[collective])
        members = [
            Member(known.form_of(one), matched.ranks[known.trace[one]].rank, root(one) if rooted else None)
            for one in part[of].tolist()
        ]
        awaited, guessed = awaited_parts(matched.kind[collective], members, time[start[of]], time[end[of]])
        guesses += guessed
        if awaited is None:
            group[of] = collective
            continue
        for waiting, row in zip(of.tolist(), awaited, strict=True):
            if row.sum() > 1:
                pairs += [(waiting, int(of[other]), collective) for other in np.flatnonzero(row).tolist()]
    # Points that all of a collective wait at come first; behind them those of one that waits for some others.
    joint = narrow(np.flatnonzero(group >= 0))
    numbers, place = distinct(group[joint])
    waiting, other, of_pair = np.array(pairs, np.int32).reshape(-1, 3).T
    alone, at, own = np.unique(waiting, return_index=True, return_inverse=True)
    comes, leaves = np.append(joint, other), np.append(joint, alone)
    comes_to = narrow(np.append(place, len(numbers) + own))
    leaves_from = narrow(np.append(place, len(numbers) + np.arange(len(alone))))
    moment = np.full(len(numbers) + len(alone), EARLIEST)
    np.maximum.at(moment, comes_to, time[start[comes]])
    last = np.zeros(len(moment), np.int32)
    is_last = time[start[comes]] == moment[comes_to]
    last[comes_to[is_last]] = trace[comes[is_last]]
    late = moment[leaves_from] - time[end[leaves]]
    fine = late <= 0
    leaves, leaves_from = leaves[fine], leaves_from[fine]
    kind = np.repeat(np.array([Edge.arrive, Edge.transfer], np.int8), (len(comes), len(leaves)))
    return CollectivePoints(
        len(time),
        moment,
        last,
        np.append(numbers, of_pair[at]).astype(np.int32),
        np.append(start[comes], len(time) + leaves_from),
        np.append(len(time) + comes_to, end[leaves]),
        kind,
        served=end[leaves[single[leaves]]],  # of several kernels the last one's own run stays a cause of its end
        whole=end[np.bincount(number)[number] >= matched.group_size[number]] if len(part) else end,
        lost=int((late > 0).sum()),
        worst_ns=int(late.max(initial=0)),
        guessed=guesses,
        on_host=len(np.unique(matched.number[matched.number >= 0])) - len(np.unique(number)),
    )
