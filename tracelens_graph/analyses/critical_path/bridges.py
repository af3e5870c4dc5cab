"""Transfers through ranks without a file: what is sent to one, and what leaves it for others then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.parts import POINT_TO_POINT, ends_of
from tracelens_graph.utils.arrays import Rows

NEVER_NS = 2**62
"""A gap that nothing is known of."""


class Bridge(NamedTuple):
    """What is sent to a rank without a file, and what follows from it there.

    Attributes:
        sends: parts sent to it.
        follows: per part one that follows: received from the rank, or of a collective that it takes part in.
        later_ns: how long the rank computes in between, of all of them the least.
        moves_ns: how long what follows takes at least, once the rank has come.
        is_joint: whether other ranks come to what follows, too.
    """

    sends: Rows
    follows: Rows
    later_ns: int
    moves_ns: int
    is_joint: bool = False


class Bridges(NamedTuple):
    """What passes ranks without a file.

    Attributes:
        over: what is sent to them, and what follows.
        ahead: part received from a first stage that nothing was sent to since the last collective of all stages -> how
            many were received before it since.
    """

    over: Sequence[Bridge] = ()
    ahead: Mapping[int, int] = {}


def bridged(m: MatchedCollectives) -> MatchedCollectives:
    """The same, where a transfer to a rank without a file and what it sends on are one.

    A stage of a pipeline sends on what it has received and computed, in the order in which it comes: its receiver
    follows from who sent to it. The transfer takes what the stage computed as well. What is sent last to a first stage,
    which then comes to a collective of all stages, is one of its own.
    """
    if not (bridges := through(m).over):
        return m
    number = m.number.copy()
    for one in bridges:
        new = number.max() + 1 + np.arange(len(one.sends))
        number[one.sends] = new
        if not one.is_joint:
            number[one.follows] = new
    return m.numbered(number)


def through(m: MatchedCollectives) -> Bridges:
    """What passes ranks without a file."""
    if not ends_elsewhere(m):
        return Bridges()
    there, lanes = {one.rank for one in m.ranks}, _lanes(m)
    found: list[Bridge] = []
    ahead: dict[int, int] = {}
    for rank in [one for one in lanes if one not in there]:
        gets, gives = ({peer: of for (peer, is_in), of in lanes[rank].items() if is_in == way} for way in (True, False))
        for source, sends in gets.items():
            # The first and the last stage send back to where they receive from.
            targets = [target for target in gives if target != source] or [source]
            fits = [target for target in targets if target in gives and len(gives[target]) == len(sends)]
            if len(fits) != 1:
                continue
            like = _like(m, lanes, rank, source, fits[0])
            parts = np.array(sends), np.array(gives[fits[0]])
            if (m.start_ns[parts[0]] < m.end_ns[parts[1]]).all():
                found.append(_bridge(m, *parts, like))
            elif fits == [source]:
                first = _of_first_stage(m, rank, *parts, like)
                found += first.over
                ahead |= first.ahead
    return Bridges(found, ahead)


_Lanes = Mapping[int | None, Mapping[tuple[int, bool], list[int]]]
"""Rank -> the other end of its transfers on the GPU, and whether they come from there -> their parts as they start."""


def _lanes(m: MatchedCollectives) -> _Lanes:
    """The transfers of each rank; those of one without a file as the other ends recorded them."""
    there = {one.rank for one in m.ranks}
    ends = [ends_of(one) if one.kind in POINT_TO_POINT and not one.on_host else (None, None) for one in m.parts.forms]
    found: dict[int | None, dict[tuple[int, bool], list[int]]] = defaultdict(lambda: defaultdict(list))
    known = np.flatnonzero(np.array([None not in one for one in ends], bool)[m.parts.form])
    for part in known[np.argsort(m.start_ns[known], kind="stable")].tolist():
        source, target = ends[m.parts.form[part]]
        own = m.ranks[m.trace[part]].rank
        for rank, peer in ((source, target), (target, source)):
            if peer is not None and (rank == own or rank not in there):
                found[rank][peer, rank == target].append(part)
    return found


class _Like(NamedTuple):
    """What a rank of the same stage gets and gives in place of one without a file; nothing where none is known.

    Attributes:
        place: its place.
        gets, gives: its parts of transfers.
        offset: how many of these it gives before it needs the first that it gets.
        gap_ns: how long it computes from one that it gets to what it gives then, at least.
    """

    place: int = -1
    gets: Rows = np.zeros(0, np.int64)
    gives: Rows = np.zeros(0, np.int64)
    offset: int = NEVER_NS
    gap_ns: int = NEVER_NS

    def comes_ns(self, m: MatchedCollectives, collectives: Rows) -> int:
        """How long after the last that it got it comes to some collectives, at least."""
        at = np.flatnonzero((m.trace == self.place) & np.isin(m.number, collectives))
        before = np.searchsorted(m.end_ns[self.gets], m.start_ns[at]) - 1
        gaps = (m.start_ns[at] - m.end_ns[self.gets[before]])[before >= 0] if len(self.gets) else at
        return int(gaps.min(initial=NEVER_NS))


def _like(m: MatchedCollectives, lanes: _Lanes, rank: int | None, source: int, target: int) -> _Like:
    """A rank of the stage of one without a file that passes messages between a source and a target."""
    own = lanes[rank]
    peers = {peer for peer, _ in own}
    groups = [one.ranks or () for one in m.parts.forms if one.kind not in POINT_TO_POINT and rank in (one.ranks or ())]
    of_stage = {one for ranks in groups if peers.isdisjoint(ranks) for one in ranks}
    for place, one in enumerate(m.ranks):
        of = lanes.get(one.rank, {})
        if one.rank in of_stage and _shape(of) == _shape(own):
            like = dict(zip(own, map(np.array, of.values()), strict=True))
            gets, gives = like[source, True], like[target, False]
            for at in range(len(gets)):
                gap = m.start_ns[gives[at:]] - m.end_ns[gets[: len(gets) - at]]
                if (gap >= 0).all():
                    return _Like(place, gets, gives, at, int(gap.min()))
    return _Like()


def _shape(lanes: Mapping[tuple[int, bool], list[int]]) -> list[tuple[bool, int]]:
    return [(is_in, len(parts)) for (_, is_in), parts in lanes.items()]


def _bridge(m: MatchedCollectives, sends: Rows, follows: Rows, like: _Like) -> Bridge:
    since = m.start_ns[sends]
    moves = min(int((m.end_ns[follows] - np.maximum(m.start_ns[follows], since)).min()), _least_ns(m, "send"))
    return Bridge(sends, follows, min(int((m.end_ns[follows] - since).min()) - moves, like.gap_ns + moves), moves)


def _least_ns(m: MatchedCollectives, kind: str) -> int:
    """How long collectives of a kind last at least once all have come; `NEVER_NS` where there are none."""
    like = np.array([one == kind for one in m.kind], bool)
    return int((m.last_end_ns - m.last_start_ns)[like].min(initial=NEVER_NS))


def _of_first_stage(m: MatchedCollectives, rank: int | None, sends: Rows, receives: Rows, like: _Like) -> Bridges:
    """What passes a first stage: with what comes back it goes on, and comes to what it shares with other stages."""
    joint = _collectives_of(m, rank)
    comes = m.last_start_ns[joint]
    turns = [np.searchsorted(comes, ns[of]) for ns, of in ((m.start_ns, sends), (m.end_ns, receives))]
    pairs: list[tuple[int, int]] = []
    ahead: dict[int, int] = {}
    for turn in range(len(joint) + 1):
        back, out = sends[turns[0] == turn], receives[turns[1] == turn]
        if len(back):
            ahead |= {part: at for at, part in enumerate(out.tolist()) if m.end_ns[part] < m.start_ns[back[0]]}
        pairs += zip(back.tolist(), out[like.offset :].tolist(), strict=False)
    found = []
    if pairs:
        then, back = np.array(pairs).T[::-1]
        found.append(_bridge(m, back, then, like))
    is_last = np.append(np.diff(turns[0]) > 0, True) & (turns[0] < len(joint))
    last, then = sends[is_last], joint[turns[0][is_last]]
    if len(last):
        moves = _least_ns(m, m.kind[then[0]])
        later = min(int((m.first_end_ns[then] - m.start_ns[last]).min()) - moves, like.comes_ns(m, then))
        found.append(Bridge(last, m.order[m.first[then]], max(later, 0), moves, is_joint=True))
    return Bridges(found, ahead)


def _collectives_of(m: MatchedCollectives, rank: int | None) -> Rows:
    """Numbers of the collectives on the GPU that a rank without a file took part in, in the order of time."""
    forms = [m.parts.form_of(part) for part in m.order[m.first].tolist()]
    takes_part = [one.kind not in POINT_TO_POINT and not one.on_host and rank in (one.ranks or ()) for one in forms]
    found = np.flatnonzero(takes_part)
    return found[np.argsort(m.last_start_ns[found], kind="stable")]


def ends_elsewhere(m: MatchedCollectives) -> dict[int, tuple[int, int]]:
    """Form of transfers on the GPU -> source and target, one of which has no file."""
    there, found = {one.rank for one in m.ranks}, {}
    for at, one in enumerate(m.parts.forms):
        source, target = ends_of(one) if one.kind in POINT_TO_POINT and not one.on_host else (None, None)
        if source is not None and target is not None and (source in there) != (target in there):
            found[at] = source, target
    return found
