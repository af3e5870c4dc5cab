"""Which ranks of a collective wait for which: each rank's part ends after those have started that it waits for.

In an all-reduce, reduce-scatter, all-gather or barrier all wait for all. Of the other kinds this is told from what is
recorded: source and target of a transfer, sizes of what each rank exchanges, root of a broadcast; where no root is
recorded, from when each rank ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tracelens_graph.graph.collectives import Collective
from tracelens_graph.graph.trace_set import TraceMember

BUFFERED_BYTES = 4 << 20
"""A sender of no more than this need not wait for its receiver: a buffer of NCCL's takes the message."""

_FROM_ONE = ("broadcast", "scatter")
_TO_ONE = ("reduce", "gather")
_EXCHANGE = ("all_to_all", "all_to_allv")
_TRANSFER = ("send", "recv")


class Said(NamedTuple):
    """What a rank knows of a collective, and the rank."""

    node: Collective
    trace: TraceMember


def waits_partly(kind: str) -> bool:
    """Whether in a kind of collective some ranks wait for some others only."""
    return kind in (*_FROM_ONE, *_TO_ONE, *_EXCHANGE, *_TRANSFER)


def awaited_parts(
    kind: str, said: Sequence[Said], start_ns: np.ndarray, end_ns: np.ndarray
) -> tuple[np.ndarray | None, bool]:
    """For each part of a collective which parts it waits for, itself included; None for all. And whether it is a guess.

    Args:
        kind: kind of the collective; of a transfer `send`.
        said: what each rank knows of it.
        start_ns, end_ns: of each part, on one clock.
    """
    if kind in _EXCHANGE:
        return _partners(said), False
    if kind in _TRANSFER:
        return _transfer(said), False
    root = _recorded_root(said)
    guess = root < 0
    if guess:
        root = _likely_root(kind, start_ns, end_ns)
    return _rooted(kind, len(said), root), guess


def _rooted(kind: str, count: int, root: int) -> np.ndarray:
    awaited = np.eye(count, dtype=bool)
    if kind in _FROM_ONE:
        awaited[:, root] = True
    else:
        awaited[root] = True
    return awaited


def _partners(said: Sequence[Said]) -> np.ndarray | None:
    """Of an exchange with recorded sizes: those that a rank sends something to or gets something from."""
    ranks = said[0].node.ranks
    if ranks is None:
        return None
    place = {rank: at for at, rank in enumerate(ranks)}
    own = [place.get(-1 if one.trace.rank is None else one.trace.rank, -1) for one in said]
    awaited = np.eye(len(said), dtype=bool)
    for at, one in enumerate(said):
        splits = [split for split in (one.node.in_split, one.node.out_split) if split]
        if not splits or own[at] < 0 or any(len(split) != len(ranks) for split in splits):
            return None
        for other, where in enumerate(own):
            awaited[at, other] |= where < 0 or any(split[where] > 0 for split in splits)
    return awaited


def _transfer(said: Sequence[Said]) -> np.ndarray:
    """Of a transfer: the receiver waits for the sender, who waits only with what no buffer takes."""
    awaited = np.ones((len(said), len(said)), bool)
    for at, one in enumerate(said):
        size = one.node.in_bytes
        if one.node.kind == "send" and size is not None and size <= BUFFERED_BYTES:
            awaited[at] = False
            awaited[at, at] = True
    return awaited


def _recorded_root(said: Sequence[Said]) -> int:
    """Place of the root; -1 where it is not recorded.

    PyTorch writes the root, by its place in the group, where it writes the rank for other kinds; so it is the root if
    all ranks say the same.
    """
    told = {_recorded_rank(one) for one in said}
    if len(told) != 1 or len(said) < 2 or (place := told.pop()) is None:
        return -1
    ranks = said[0].node.ranks
    root = ranks[place] if ranks and place < len(ranks) else place
    return next((at for at, one in enumerate(said) if one.trace.rank == root), -1)


def _recorded_rank(one: Said) -> int | None:
    core, c = one.trace.core, one.trace.core.columns
    for row in one.node.rows:
        owner = int(c.owner[row])
        for uid in (int(c.uid[row]), int(c.uid[owner]) if owner >= 0 else -1):
            value = core.collective_args.get(uid, {}).get("rank")
            if type(value) is int and value >= 0:
                return value
    return None


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
