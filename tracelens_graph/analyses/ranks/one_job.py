"""The ranks of one job: traces of other runs that lie beside them count for nothing."""

from __future__ import annotations

from collections.abc import Sequence

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
    while found := matched.whole.strangers:
        kept = [place for place in range(len(ranks)) if place not in found]
        ranks = ranks.only(kept) if isinstance(ranks, TraceSet) else [ranks[place] for place in kept]
        whole = None if whole is None else whole.only(kept)
        matched = MatchedCollectives(ranks, correct, whole, [*matched.left_out, *found.values()])
    return matched, whole
