"""Which parts of the ranks are one collective.

Sequence numbers count where the profiler wrote them and ends agree. Elsewhere the parts of a process group are aligned
in time: kinds and sizes must be equal, and of several equal ones only the ends show which of them one rank lacks. So a
collective that one rank dropped, or ran alone, does not shift those that follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.alignment.sequence import NEVER, aligned
from tracelens_graph.analyses.ranks.clocks import clocks_by_ends
from tracelens_graph.analyses.ranks.parts import Parts
from tracelens_graph.analyses.shared.grouping import group_by
from tracelens_graph.graph.arrays import positions_by

SAME_END_NS = 100_000
"""Ends of one collective are hardly further apart than that, once clocks agree."""

_GAP = 1000
"""Cost of leaving a part alone."""
_FAR_PAIR = 1900
"""Cost of a pair whose ends lie far apart: ranks without a common end are still paired by their order."""
_ANCHOR_NS = 50_000
"""Ends that are mutually nearest and closer than that are taken as a pair."""
_WINDOW_NS = 50_000
_MOST_DIFFERENCES = 4_000_000
_OTHER_NS = 1_000_000
"""Barriers that end further apart are two, where clocks agree."""
_LEAST_FOR_DRIFT_NS = 1_000_000_000
_ROUNDS = 5
_LEAST_SHARE = 0.5
_PLAIN_SHARE = 0.8


class _Known(NamedTuple):
    """What is known of the clocks of ranks: the number of the host of each, and whether it was corrected."""

    host: np.ndarray
    is_corrected: np.ndarray


def matched(parts: Parts, same_host: np.ndarray) -> np.ndarray:
    """For each part the number of its collective; numbers go from 0 on without gaps, by lane and then by time.

    Args:
        parts: the parts of all ranks.
        same_host: for each rank the number of its host; ranks of one host have one clock.
    """
    number = np.full(len(parts), -1, np.int32)
    lanes = [of_lane for _, of_lane in positions_by(parts.lane)]
    with_barriers = [of_lane for of_lane in lanes if parts.is_barrier[of_lane].any()]
    _match(parts, with_barriers, _Known(same_host, np.zeros(len(same_host), bool)), number)
    # Barriers show how far apart clocks are; without any, many a shift may fit.
    rest = [of_lane for of_lane in lanes if not parts.is_barrier[of_lane].any()]
    if rest:
        clocks = clocks_by_ends(parts, number, np.arange(len(parts.ranks)))
        known = _Known(same_host, np.isfinite(clocks.error_ns))
        _match(replace(parts, end_ns=clocks.of(parts.end_ns, parts.trace)), rest, known, number)
    return number


def _match(parts: Parts, lanes: Iterable[np.ndarray], clocks: _Known, number: np.ndarray) -> None:
    """Number the collectives of some lanes."""
    found = int(number.max(initial=-1)) + 1
    for of_lane in lanes:
        numbers = _of_lane(parts, of_lane, clocks)
        number[of_lane] = numbers + found
        found += int(numbers.max()) + 1


def _of_lane(parts: Parts, rows: np.ndarray, clocks: _Known) -> np.ndarray:
    """The numbers of the collectives of one lane."""
    by_trace = {
        trace: rows[at[np.argsort(parts.end_ns[rows[at]], kind="stable")]]
        for trace, at in positions_by(parts.trace[rows])
    }
    # The rank with most parts begins, so that most parts of others find theirs.
    first = max(by_trace, key=lambda trace: len(by_trace[trace]))
    counted = bool((parts.sequence[rows] >= 0).all())
    merged = _Merged(parts)
    merged.add_in_order(by_trace[first])
    for trace in (trace for trace in by_trace if trace != first):
        own = by_trace[trace]
        if counted and merged.ends_agree(own):
            merged.add_by_sequence(own)
            continue
        is_corrected = clocks.is_corrected[first] and clocks.is_corrected[trace]
        shift = 0 if is_corrected else merged.shift(own, bool(clocks.host[first] == clocks.host[trace]))
        if merged.is_in_order(own, shift):
            merged.add_in_order(own)
        else:
            merged.add_by_ends(own, shift)
    return merged.numbers(rows)


class _Merged:
    """The collectives of a lane, as far as ranks were added, by their end on the clock of the first rank."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._number = np.empty(0, np.int64)
        self._key = np.empty(0, np.int64)
        self._sequence = np.empty(0, np.int64)
        self._end_ns = np.empty(0, np.int64)
        self._rows: list[np.ndarray] = []
        self._numbers: list[np.ndarray] = []

    def numbers(self, rows: np.ndarray) -> np.ndarray:
        """The number of the collective of each part, once all were added; ascending."""
        number = np.empty(len(rows), np.int64)
        number[np.searchsorted(rows, np.concatenate(self._rows))] = np.concatenate(self._numbers)
        return number

    def ends_agree(self, own: np.ndarray) -> bool:
        """Whether equal sequence numbers stand for equal collectives, as far as ends can show it."""
        at, there = self._at_sequence(own)
        if there.sum() < 2:
            return True
        _, by_number = _most_frequent(self._parts.end_ns[own][there] - self._end_ns[at[there]], np.ones(there.sum()))
        _, by_end = _shift(self._key, self._end_ns, self._parts.key[own], self._parts.end_ns[own])
        least = min(len(own), len(self._number))
        # Ends of kinds without a barrier fit by chance, too: only where nearly all do, numbers are doubted.
        return by_end < _PLAIN_SHARE * least or by_end <= by_number + (1 - _PLAIN_SHARE) * least / 2

    def _at_sequence(self, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the collectives with the sequence numbers and keys of some parts are, and which are there."""
        place = {pair: at for at, pair in enumerate(zip(self._sequence.tolist(), self._key.tolist(), strict=True))}
        wanted = zip(self._parts.sequence[own].tolist(), self._parts.key[own].tolist(), strict=True)
        at = np.array([place.get(pair, -1) for pair in wanted], np.int64)
        return at, at >= 0

    def add_by_sequence(self, own: np.ndarray) -> None:
        """Add the parts of a rank by their sequence numbers."""
        at, _ = self._at_sequence(own)
        self._add(own, at, self._parts.end_ns[own])

    def add_by_ends(self, own: np.ndarray, shift: int) -> None:
        """Add the parts of a rank by kinds, sizes and ends."""
        key, end_ns = self._parts.key[own], self._parts.end_ns[own] - shift
        at = np.full(len(own), -1, np.int64)
        end_ns = _without_drift(self._key, self._end_ns, key, end_ns)
        pairs = np.array(_paired(self._key, self._end_ns, key, end_ns), np.int64).reshape(-1, 2)
        apart = np.abs(self._end_ns[pairs[:, 0]] - end_ns[pairs[:, 1]])
        if len(pairs) and (apart <= SAME_END_NS).mean() >= _LEAST_SHARE:
            # Where most ends agree, a barrier that ends elsewhere is another one.
            pairs = pairs[(apart <= _OTHER_NS) | ~self._parts.is_barrier[own[pairs[:, 1]]]]
        at[pairs[:, 1]] = pairs[:, 0]
        self._add(own, at, end_ns)

    def add_in_order(self, own: np.ndarray) -> None:
        """Add the parts of a rank, the first to the first, and so on: their kinds and sizes are equal."""
        at = np.arange(len(own)) if len(self._number) else np.full(len(own), -1)
        self._add(own, at, self._parts.end_ns[own])

    def shift(self, own: np.ndarray, same_host: bool) -> int:
        """How far a rank's clock is ahead of the first one's; 0 where ends do not show it, or fit as well with 0."""
        both = self._key, self._end_ns, self._parts.key[own], self._parts.end_ns[own]
        shift, count = _shift(*both)
        if count < max(2, 0.3 * min(len(self._key), len(own))):
            return 0
        return 0 if same_host and _shift(*both, only_near=0)[1] >= 0.5 * count else shift

    def is_in_order(self, own: np.ndarray, shift: int) -> bool:
        """Whether the parts of a rank are of the same kinds and sizes in the same order, and ends do not contradict."""
        key, end_ns = self._parts.key[own], self._parts.end_ns[own]
        if not np.array_equal(self._key, key):
            return False
        # On one clock, a pair that is not of one collective shows by another one that ends nearer.
        first, second = _anchored(self._key, self._end_ns, key, end_ns - shift)
        same = int((first == second).sum())
        others = int(np.isin(second, first).sum()) - same
        if not self._parts.is_barrier[own].any():
            # Ranks may leave apart, and ends be close by chance: it takes much to contradict the order.
            return same + others < _PLAIN_SHARE * len(own) or others <= same
        # Where most ends agree, each one that does not is telling.
        return not others or (same + others < _LEAST_SHARE * len(own) and others <= same)

    def _add(self, own: np.ndarray, at: np.ndarray, own_end_ns: np.ndarray) -> None:
        is_new = at < 0
        fresh = len(self._number) + np.arange(int(is_new.sum()))
        numbers = np.empty(len(own), np.int64)
        numbers[~is_new] = self._number[at[~is_new]]
        numbers[is_new] = fresh
        self._rows.append(own)
        self._numbers.append(numbers)
        new = own[is_new]
        end_ns = np.concatenate((self._end_ns, own_end_ns[is_new]))
        order = np.argsort(end_ns, kind="stable")
        self._end_ns = end_ns[order]
        self._number = np.concatenate((self._number, fresh))[order]
        self._key = np.concatenate((self._key, self._parts.key[new]))[order]
        self._sequence = np.concatenate((self._sequence, self._parts.sequence[new]))[order]


def _without_drift(key_a: np.ndarray, end_a: np.ndarray, key_b: np.ndarray, end_b: np.ndarray) -> np.ndarray:
    """Ends of b on a clock that runs as fast as that of a.

    Pairs that surely are one collective show how far; with the line through them more pairs are found, and so on.
    """
    if not len(end_b) or end_b[-1] - end_b[0] < _LEAST_FOR_DRIFT_NS:
        return end_b
    moved = end_b
    for _ in range(_ROUNDS):
        first, second = _anchored(key_a, end_a, key_b, moved)
        _, at_a, at_b = np.intersect1d(first, second, return_indices=True)
        if len(at_b) < 3 or np.ptp(end_b[at_b]) == 0:
            return moved
        middle = int(np.median(end_b[at_b]))
        # Centred, because ends are large numbers of ns next to what they differ by.
        slope, apart = np.polyfit(end_b[at_b] - middle, (end_b[at_b] - end_a[at_a]).astype(float), 1)
        moved = end_b - np.rint(apart + slope * (end_b - middle)).astype(np.int64)
    return moved


def _shift(
    key_a: np.ndarray, end_a: np.ndarray, key_b: np.ndarray, end_b: np.ndarray, only_near: int | None = None
) -> tuple[int, int]:
    """The most frequent difference of ends over all pairs of one key, and how many have it.

    Of many pairs every so many parts of b stand for all; the count is that of all, as far as these show it.
    """
    places = dict(positions_by(key_a))
    pairs = [(end_b[at], end_a[places[key]]) for key, at in positions_by(key_b) if key in places]
    stride = max(1, -(-sum(len(own) * len(other) for own, other in pairs) // _MOST_DIFFERENCES))
    differences = [(own[::stride, None] - other[None, :]).ravel() for own, other in pairs]
    if not differences:
        return 0, 0
    found = np.concatenate(differences)
    if only_near is not None:
        return only_near, stride * int((np.abs(found - only_near) <= _WINDOW_NS // 2).sum())
    # Each key has one voice: collectives of groups that do not meet are many, and fit by chance.
    votes = [np.full(len(one), 1 / min(map(len, of))) for one, of in zip(differences, pairs, strict=True)]
    shift, count = _most_frequent(found, np.concatenate(votes))
    return shift, stride * count


def _most_frequent(differences: np.ndarray, votes: np.ndarray) -> tuple[int, int]:
    """The middle of the window with most votes for its differences, of several the nearest to 0; and how many it has.

    Args:
        differences: the differences.
        votes: what each counts.
    """
    order = np.argsort(differences, kind="stable")
    found, before = differences[order], np.append(0.0, np.cumsum(votes[order]))
    # One of the fullest windows begins at a value, so no others need to be tried.
    at = np.arange(len(found))
    until = np.searchsorted(found, found + _WINDOW_NS, "right")
    weight = before[until] - before[at]
    best = np.flatnonzero(weight >= weight.max() * (1 - 1e-9))
    best = best[np.argmin(np.abs(found[best]))]
    return int(np.median(found[best : until[best]])), int(until[best] - best)


def _paired(key_a: np.ndarray, end_a: np.ndarray, key_b: np.ndarray, end_b: np.ndarray) -> list[tuple[int, int]]:
    """Places in a and in b of what is one collective; both are in the order of their ends."""
    if not len(key_a) or not len(key_b):
        return []
    gap_a, gap_b = np.full(len(key_a), _GAP), np.full(len(key_b), _GAP)

    def costs(i: int, j: int, k: int) -> np.ndarray:
        apart = np.abs(end_b[j:k] - end_a[i]) // (SAME_END_NS // _GAP)
        return np.where(key_b[j:k] == key_a[i], np.minimum(apart, _FAR_PAIR), NEVER)

    return aligned(gap_a, gap_b, costs, _anchored(key_a, end_a, key_b, end_b), (key_a, key_b))


def _anchored(
    key_a: np.ndarray, end_a: np.ndarray, key_b: np.ndarray, end_b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A number for each entry: equal for those that are mutually nearest and close, else different for all."""
    number_a, number_b = np.arange(len(key_a)), len(key_a) + np.arange(len(key_b))
    for key, in_b in positions_by(key_b):
        in_a = np.flatnonzero(key_a == key)
        if not len(in_a):
            continue
        near_a, near_b = _nearest(end_b[in_b], end_a[in_a]), _nearest(end_a[in_a], end_b[in_b])
        mutual = near_b[near_a] == np.arange(len(in_b))
        close = np.abs(end_b[in_b] - end_a[in_a][near_a]) <= _ANCHOR_NS
        number_b[in_b[mutual & close]] = in_a[near_a[mutual & close]]
    return number_a, number_b


def _nearest(values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """For each value the place of the nearest of some ascending ones."""
    right = np.clip(np.searchsorted(among, values), 1, max(len(among) - 1, 1))
    left = right - 1
    right = np.minimum(right, len(among) - 1)
    return np.where(np.abs(values - among[left]) <= np.abs(among[right] - values), left, right)


# --- by position -----------------------------------------------------------------------------------------------------


def matched_by_position(
    group: np.ndarray, trace: np.ndarray, sequence: np.ndarray, is_transfer: np.ndarray
) -> np.ndarray:
    """For each kernel its place in its group, from 0 on, equal for those of one collective; -1 without a group.

    That is TraceLens's rule, whose tables name collectives by it: times count for nothing, so a collective that is not
    on a rank shifts those that follow, unless all kernels carry sequence numbers. Transfers come behind the collectives
    of their group: each rank has as many of them as it has partners.

    Args:
        group: number of the process group of each kernel, -1 where none is known.
        trace: place of its rank; kernels are by rank, then by start.
        sequence: its sequence number, -1 for none.
        is_transfer: whether one rank sends to one other.
    """
    number = np.full(len(group), -1, np.int64)
    for one, of_group in positions_by(group):
        if one < 0:
            continue
        collectives, transfers = of_group[~is_transfer[of_group]], of_group[is_transfer[of_group]]
        number[collectives] = _numbered(trace[collectives], sequence[collectives])
        behind = int(number[collectives].max(initial=-1)) + 1
        number[transfers] = behind + _places(trace[transfers])
    return number


def _numbered(trace: np.ndarray, sequence: np.ndarray) -> np.ndarray:
    """Numbers of collectives of a group: by sequence number where all kernels carry one, else by start."""
    if not len(trace) or sequence.min() < 0:
        return _places(trace)
    # Several kernels may carry out one call; on all ranks in one order.
    same, _ = group_by(trace, sequence)
    order = np.argsort(same, kind="stable")
    again = np.empty_like(same)
    again[order] = _places(same[order])
    _, number = np.unique(np.stack((sequence, again)), axis=1, return_inverse=True)
    return number.reshape(-1)


def _places(key: np.ndarray) -> np.ndarray:
    """Place of each entry among those of equal key; equal keys stand side by side."""
    if not len(key):
        return np.zeros(0, np.int64)
    begins = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    return np.arange(len(key)) - np.repeat(begins, np.diff(np.append(begins, len(key))))
