"""What a reader must know of how collectives of ranks were matched: what is missing, and what was done to clocks."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.graph.ranks import rank_titles

_SAME_CLOCK_NS = 50
"""Clocks that differ by less agree: what is shown is tenths of a microsecond."""


def notes_on_matching(m: MatchedCollectives) -> list[str]:
    """What was not matched, where ranks are missing, and what was done to clocks."""
    notes = []
    if unknown := int((~m.parts.is_recorded).sum()):
        who = "the traces" if unknown == len(m.parts) else f"{unknown:,} of {len(m.parts):,} parts"
        notes.append(f"{who} do not name process groups: collectives of one kind that end together are taken for one")
    if repeated := sum(one.repeated for one in m.ranks):
        notes.append(
            f"sequence numbers of {repeated:,} of {len(m.parts):,} parts repeat in their process group, so that they "
            "count for nothing: there kinds, sizes and times show what is one collective"
        )
    if alone := sum(one.unassigned for one in m.ranks):
        notes.append(
            f"{alone:,} communication kernels are in no collective here: nothing shows their launches or arguments"
        )
    for why, count in Counter(why for _, why in m.unmatched).items():
        notes.append(f"{count:,} of {len(m.parts):,} parts of collectives are not matched: {why}")
    return [*notes, *_notes_on_ranks(m), *_notes_on_clocks(m)]


def _notes_on_ranks(m: MatchedCollectives) -> list[str]:
    """Where ranks are missing that others may have waited for."""
    notes, ranks = [], len(m.ranks)
    if thinned := [place for place, one in enumerate(m.ranks) if one.is_thinned]:
        titles = rank_titles(m.ranks)
        who = f"file of {titles[thinned[0]]}" if len(thinned) == 1 else f"files of {len(thinned):,} of {ranks:,} ranks"
        notes.append(
            f"most events were left out of the {who}: calls that seem long may hold others, and host time "
            "and what a change of it would save are not reliable"
        )
    names: dict[int | None, list[str]] = {}
    for one in m.ranks:
        names.setdefault(one.rank, []).append(one.name)
    both = [f"{' and '.join(of)} are both rank {rank}" for rank, of in names.items() if rank is not None and of[1:]]
    if both:
        notes.append(f"{'; '.join(both[:3])}{' and so on' * (len(both) > 3)}: each file counts as a rank of its own")
    if lacking := len(m.incomplete):
        notes.append(f"{lacking:,} of {len(m):,} collectives lack ranks of their groups, which may be the last")
    if (job := m.job_size) > ranks and not m.group_size.all():
        notes.append(f"{ranks:,} of the job's {job:,} ranks are compared; others may be last")
    return notes


def _notes_on_clocks(m: MatchedCollectives) -> list[str]:
    ranks = m.ranks
    hosts = int(m.clock_of.max(initial=-1)) + 1  # clocks: a host mostly has one
    if len(ranks) < 2 or not len(m.parts):
        return []
    if hosts == 1:
        estimate = m.estimated
        known = np.isfinite(estimate.error_ns)
        known[0] = False
        if not known.any():
            return []
        at = int(np.argmax(np.where(known, np.abs(estimate.offset_ns), -1)))
        if abs(int(estimate.offset_ns[at])) < _SAME_CLOCK_NS:
            return ["all ranks are of one host, and so are their clocks by the ends of collectives"]
        return [
            "all ranks are of one host, so their clocks are taken as they are; by the ends of collectives they "
            f"differ by up to {abs(int(estimate.offset_ns[at])) / 1e3:,.1f} us ({ranks[at].name})"
        ]
    unknown = m.unknown_clocks
    unknown_ranks = int((~np.isfinite(m.clocks.error_ns)).sum())
    done = "corrected" if m.is_corrected else "not corrected"
    most = int(np.abs(m.clocks.offset_ns).max(initial=0))
    notes = []
    of_ranks = None in m.hosts
    where = f"clocks of {hosts:,} ranks, whose hosts are not known," if of_ranks else f"clocks of {hosts:,} hosts"
    if not of_ranks and hosts > (real := len({*m.hosts})):  # those of some ranks of a host plainly differ
        where = f"{hosts:,} clocks of {real:,} host{'s' * (real > 1)}"
    if most >= _SAME_CLOCK_NS:
        notes.append(f"{where} differ by up to {most / 1e3:,.1f} us by the ends of collectives: {done}")
    elif unknown_ranks < hosts - 1:
        notes.append(f"{where} agree as far as the ends of collectives show")
    if unknown:
        of = f"the clocks of {unknown:,} hosts are" if unknown > 1 else "the clock of 1 host is"
        notes.append(f"{of} unknown: they share too few collectives")
    if of_ranks and not most and unknown_ranks:
        notes.append("nothing shows how far apart the clocks of ranks are: they are taken as they are")
    return notes
