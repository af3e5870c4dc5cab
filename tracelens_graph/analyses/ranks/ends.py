"""The ends of matched collectives, from which clocks are estimated."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.ranks.clocks import Clocks, clocks_of
from tracelens_graph.analyses.ranks.parts import Parts

_MOST_ENDS = 20_000_000
"""Ends that clocks are estimated from: more collectives than that are thinned out."""


def clocks_by_ends(parts: Parts, meeting: np.ndarray, clock_of: np.ndarray) -> Clocks:
    """Clocks by the ends of barriers; of ranks that share a clock, the median counts.

    Args:
        parts: the parts of all ranks.
        meeting: for each part the number of its collective, -1 for none.
        clock_of: for each rank the number of its clock, from 0 on.
    """
    number = int(clock_of.max(initial=-1)) + 1
    rows = np.flatnonzero(parts.tells_time & (meeting >= 0))
    cell = meeting[rows] * number + clock_of[parts.trace[rows]]
    order = np.lexsort((parts.end_ns[rows], cell))
    cells, first, count = np.unique(cell[order], return_index=True, return_counts=True)
    middle = parts.end_ns[rows][order][first + (count - 1) // 2]
    _, place = np.unique(cells // max(number, 1), return_inverse=True)
    shared = np.flatnonzero(np.bincount(place) > 1)
    shared = shared[:: max(1, -(-len(shared) * number // _MOST_ENDS))]
    row = np.full(int(place.max(initial=-1)) + 1, -1, np.int64)
    row[shared] = np.arange(len(shared))
    kept = row[place] >= 0
    ends = np.zeros((len(shared), number), np.int64)
    known = np.zeros(ends.shape, bool)
    at = (row[place[kept]], cells[kept] % max(number, 1))
    ends[at], known[at] = middle[kept], True
    return clocks_of(ends, known)
