"""Traces that lie with the ranks of a job and are of another run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.matching import SAME_END_NS
from tracelens_graph.analyses.ranks.parts import POINT_TO_POINT, ends_of
from tracelens_graph.analyses.ranks.rank_collectives import RankCollectives
from tracelens_graph.graph.arrays import lower_medians, positions_by
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.utils.arrays import Codes, Mask

_OF = ("collectives", "collectives that all ranks leave together")
_LEAST = np.array([1, 3])
"""So many of each show that a rank does not fit."""
_OWN_CLOCK_NS = 10_000
"""A rank with a clock of its own on a host of others leaves collectives within this time of them."""


def of_one_job(
    ranks: TraceSet | Sequence[RankCollectives], correct: bool = True, whole: TraceSet | None = None
) -> tuple[MatchedCollectives, TraceSet | None]:
    """Which collectives of ranks are one, without strangers among them; and the same ranks of `whole`.

    Args:
        ranks, correct, whole: as in `MatchedCollectives`.
    """
    everything = ranks, whole
    places = list(range(len(ranks)))

    def only(kept: list[int]) -> tuple[MatchedCollectives, TraceSet | None]:
        of, of_whole = everything
        some = of.only(kept) if isinstance(of, TraceSet) else [of[place] for place in kept]
        some_whole = None if of_whole is None else of_whole.only(kept)
        why = [text for place, text in sorted(found.items()) if place not in kept]
        return MatchedCollectives(some, correct, some_whole, why), some_whole

    found: dict[int, str] = {}
    matched = MatchedCollectives(ranks, correct, whole)
    while more := strangers(matched.whole):
        found |= {places[at]: why for at, why in more.items()}
        places = [place for place in places if place not in found]
        matched, whole = only(places)
    # A partner that shares most collectives with a stranger alone fits nobody else's until that one is gone.
    for place in list(found) if len(found) > 1 else []:
        with_it = sorted([*places, place])
        again = only(with_it)
        if _fits_well(again[0].whole, with_it.index(place)) and not strangers(again[0].whole):
            places, (matched, whole) = with_it, again
    return matched, whole


def _fits_well(m: MatchedCollectives, place: int) -> bool:
    """Whether collectives of a rank prove that it is of the job of the others: most of them, and of barriers."""
    own, fit = np.array(_Fits(m).counts(np.ones(len(m.ranks), bool)))[:, :, place].T
    return bool(fit[0] > 0 and (2 * fit[own > 0] > own[own > 0]).all())


def strangers(m: MatchedCollectives) -> dict[int, str]:
    """Place of each trace that is of no job of most others, and what shows it.

    It takes part in no collective, and says that its job has another size, or nothing of a job; a trace without GPU
    work may have lost its collectives. Or at most half of its collectives fit those of the others, or of those that all
    ranks leave together. Of those that do so the one that fits least is left out first: without it others may fit. If
    they say the same of their job, most ranks are left.
    """
    fits = _Fits(m)
    there = np.ones(len(m.ranks), bool)
    fit = fits.counts(there)[0][1]
    if int((fit > 0).sum()) < 2:
        return {}
    sizes = [one.world_size for one in m.ranks]
    size = Counter(sizes[place] for place in np.flatnonzero(fit).tolist()).most_common(1)[0][0]
    other = np.array([one != size for one in sizes])
    of_none = ~np.isin(np.arange(len(sizes)), m.trace) & np.array([one.has_gpu_work for one in m.ranks])
    found = dict.fromkeys(np.flatnonzero(of_none & (other | (size is None))).tolist(), "it takes part in no collective")
    there[list(found)] = False
    while True:
        counts = np.array(fits.counts(there))
        own, fit = counts.transpose(1, 0, 2)
        share = np.where(there & (own >= _LEAST[:, None]), fit / np.maximum(own, 1), 1.0)
        worst = int(np.lexsort((~other, share.min(axis=0)))[0])
        which = int(share[:, worst].argmin())
        is_sure = other[worst] or (own[which, worst] > 1 and 2 * int(there.sum()) > len(there) + 2)
        if share[which, worst] > 0.5 or not is_sure:
            break
        there[worst] = False
        found[worst] = f"only {fit[which, worst]:,} of its {own[which, worst]:,} {_OF[which]} fit those of the others"
    known = {}
    for place, why in sorted(found.items()):
        of = sizes[place]
        job = f", and it is of a job of {of:,} ranks, not {size:,}" if of and size and of != size else ""
        known[place] = f"{m.ranks[place].name} is left out, as it comes from another run: {why}{job}"
    return known


class _Fits:
    """Which collectives of each rank fit those of the others.

    A collective proves nothing where the others of its group have no file, a damaged one, or recorded nothing then. It
    fits where most of those that recorded then took part in it, and left it together.
    """

    def __init__(self, m: MatchedCollectives) -> None:
        self._m = m
        place = {one.rank: at for at, one in enumerate(m.ranks) if one.rank is not None}
        are_known = all(one.rank is not None for one in m.ranks)
        # Groups by their ranks with a file; None where they are not known.
        groups: dict[tuple[int, ...] | None, int] = {}
        of_form = []
        for form in m.parts.forms:
            of = ends_of(form) if form.kind in POINT_TO_POINT else form.ranks
            there = tuple(sorted({place[one] for one in of if one in place})) if of and are_known else None
            of_form.append(groups.setdefault(there, len(groups)))
        self._groups = list(groups)
        self._of_group = list(positions_by(np.array(of_form, np.int64)[m.parts.form]))
        spans = [m.clock_ns(at, np.array(one.span_ns)) for at, one in enumerate(m.ranks)]
        self._begin_ns, self._end_ns = np.array(spans, np.int64).reshape(-1, 2).T
        self._is_sound = np.array([not one.damage for one in m.ranks], bool)
        self._is_in = (m.number >= 0) & self._leaves_with_others()

    def _leaves_with_others(self) -> Mask:
        """Per part whether its rank leaves it together with the others, as far as that is to be seen."""
        m = self._m
        found = np.ones(len(m.parts), bool)
        if not m.is_corrected or not len(m):
            return found
        most = np.where(self._has_own_clock(), _OWN_CLOCK_NS, SAME_END_NS)
        most[~np.isfinite(m.clocks.error_ns[m.clock_of])] = np.iinfo(np.int64).max
        seen = np.flatnonzero(m.parts.is_barrier & ~m.parts.on_host & (m.number >= 0))
        usual = lower_medians(m.number[m.order], m.end_ns[m.order])
        found[seen] = np.abs(m.end_ns[seen] - usual[m.number[seen]]) <= most[m.trace[seen]]
        return found

    def _has_own_clock(self) -> Mask:
        """Per rank whether most others of its host have one clock, and it another."""
        m = self._m
        found = np.zeros(len(m.ranks), bool)
        for _, of in positions_by(np.array([-1 if one is None else one for one in m.hosts], np.int64)):
            if m.hosts[of[0]] is not None:
                usual, count = Counter(m.clock_of[of].tolist()).most_common(1)[0]
                found[of] = (m.clock_of[of] != usual) & (2 * count > len(of))
        return found

    def counts(self, there: Mask) -> list[tuple[Codes, Codes]]:
        """Per rank how many of its collectives prove something, and how many of these fit; the same of barriers alone.

        Args:
            there: ranks that count.
        """
        m = self._m
        count = np.bincount(m.number[self._is_in], there[m.trace[self._is_in]], len(m)).astype(np.int64)
        with_it = np.where(self._is_in, m.per_part(count) - 1, 0)
        others, ever = np.ones((2, len(m.parts)), np.int64)
        for group, rows in self._of_group:
            if (members := self._groups[group]) is None:
                continue
            pool = np.array([one for one in members if there[one] and self._is_sound[one]], np.int64)
            begin, end = np.sort(self._begin_ns[pool]), np.sort(self._end_ns[pool])
            then = np.searchsorted(begin, m.end_ns[rows], "right") - np.searchsorted(end, m.start_ns[rows])
            own = np.isin(m.trace[rows], pool)
            others[rows], ever[rows] = then - own, len(pool) - own
        # What is recorded while nobody else does is no less a sign.
        is_apart = np.bincount(m.trace[others > 0], minlength=len(m.ranks)) == 0
        others = np.where(is_apart[m.trace], ever, others)
        proves = others > 0
        fits = proves & self._is_in & (with_it > 0) & (2 * (with_it + 1) > np.where(others > 1, others + 1, 0))

        def per_rank(some: Mask) -> Codes:
            return np.bincount(m.trace[some], minlength=len(m.ranks))

        return [(per_rank(proves & some), per_rank(fits & some)) for some in (True, m.parts.is_barrier)]
