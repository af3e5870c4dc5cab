"""Traces that lie with the ranks of a job and are of another run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.rank_collectives import RankCollectives
from tracelens_graph.graph.trace_set import TraceSet


def of_one_job(
    ranks: TraceSet | Sequence[RankCollectives], correct: bool = True, whole: TraceSet | None = None
) -> tuple[MatchedCollectives, TraceSet | None]:
    """Which collectives of ranks are one, without strangers among them; and the same ranks of `whole`.

    Args:
        ranks, correct, whole: as in `MatchedCollectives`.
    """
    matched = MatchedCollectives(ranks, correct, whole)
    while found := strangers(matched.whole):
        kept = [place for place in range(len(ranks)) if place not in found]
        ranks = ranks.only(kept) if isinstance(ranks, TraceSet) else [ranks[place] for place in kept]
        whole = None if whole is None else whole.only(kept)
        matched = MatchedCollectives(ranks, correct, whole, [*matched.left_out, *found.values()])
    return matched, whole


def strangers(m: MatchedCollectives) -> dict[int, str]:
    """Place of each trace that is of no job of most others, and what shows it.

    It says that its job has another size, or does not say so; and it takes part in no collective, or at most
    half of them fit those of the others. Of those that do not say so and fit in part there is one, that which fits
    least: without it others may fit. A trace without GPU work may have lost its collectives.
    """
    own, fit = m.counts_by_rank
    sizes = [one.world_size for one in m.ranks]
    size = Counter(sizes[place] for place in np.flatnonzero(fit).tolist()).most_common(1)
    other = np.array([bool(size) and one != size[0][0] for one in sizes])
    without = (own == 0) & np.array([one.has_gpu_work for one in m.ranks])
    found = np.flatnonzero(without & (np.array([not one for one in sizes]) | other))
    if int((fit > 0).sum()) < 2:
        return {}
    if not len(found):
        found = np.flatnonzero((own > 0) & (2 * fit <= own) & other)
        sure = found[(fit[found] == 0) | np.array([sizes[place] is not None for place in found.tolist()], bool)]
        found = sure if len(sure) else found[np.argsort(fit[found] / own[found], kind="stable")[:1]]
    known = {}
    for place in found.tolist():
        of = sizes[place]
        job = f", and it is of a job of {of:,} ranks, not {size[0][0] or 0:,}" if of and size[0][0] else ""
        fits = f"only {fit[place]:,} of its {own[place]:,} collectives fit those of the others"
        fits = fits if own[place] else "it takes part in no collective"
        known[place] = f"{m.ranks[place].name} is left out, as it is of another run: {fits}{job}"
    return known
