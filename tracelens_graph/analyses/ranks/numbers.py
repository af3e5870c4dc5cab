"""Numbers of matched collectives: by time, and by which parts of a number hold together."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.ranks.matching import SAME_END_NS


def split_by_end(number: np.ndarray, end: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Numbers, new ones for what of a collective ends apart from the rest of it; for some of the parts.

    Without the names of process groups, collectives of several groups are in one lane, and look alike.
    """
    order = np.lexsort((end, number))
    same = number[order][1:] == number[order][:-1]
    later = np.diff(end[order]) > SAME_END_NS
    begins = np.concatenate(([True], ~same | (later & which[order][1:])))[: len(order)]
    found = np.empty(len(number), np.int64)
    found[order] = np.cumsum(begins) - 1
    return found


def are_together(number: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """For each number whether its parts all overlap, or end close together."""
    order = np.argsort(number, kind="stable")
    first = np.searchsorted(number[order], np.arange(int(number.max(initial=-1)) + 1))
    if not len(first):
        return np.empty(0, bool)
    last_start = np.maximum.reduceat(start[order], first)
    first_end, last_end = np.minimum.reduceat(end[order], first), np.maximum.reduceat(end[order], first)
    return (last_start < first_end) | (last_end - first_end <= SAME_END_NS)


def by_time(number: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Numbers from 0 on in the order of the first starts; -1 stays."""
    there = np.flatnonzero(number >= 0)
    numbers, place = np.unique(number[there], return_inverse=True)
    first = np.full(len(numbers), np.iinfo(np.int64).max)
    np.minimum.at(first, place, start[there])
    found = np.full(len(number), -1, np.int64)
    found[there] = np.argsort(np.argsort(first, kind="stable"))[place]
    return found
