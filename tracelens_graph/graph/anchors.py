"""Places that two sequences surely have in common: where to cut them before they are aligned item by item."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

_BASE = np.uint64(0x9E3779B97F4A7C15)


def in_step(first: np.ndarray, second: np.ndarray, reach: int) -> list[tuple[int, int]]:
    """Places whose surroundings occur equally often on both sides, as many as are in the same order on both.

    Args:
        first, second: a number for each item of both sequences.
        reach: how many neighbours on each side count; with 0 only items that occur once do.
    """
    keys = [surroundings(values, reach) for values in (first, second)]
    sides = [np.unique(key, return_counts=True) for key in keys]
    common, of_a, of_b = np.intersect1d(sides[0][0], sides[1][0], assume_unique=True, return_indices=True)
    count_a, count_b = sides[0][1][of_a], sides[1][1][of_b]
    common = common[(count_a == count_b) & ((reach > 0) | (count_a == 1))]
    places = [np.flatnonzero(np.isin(key, common)) for key in keys]
    order = [place[np.argsort(key[place], kind="stable")] for key, place in zip(keys, places, strict=True)]
    in_a = np.argsort(order[0], kind="stable")
    at_a, at_b = order[0][in_a].tolist(), order[1][in_a].tolist()
    return [(at_a[k], at_b[k]) for k in _longest_ascending(at_b)]


def surroundings(values: np.ndarray, reach: int) -> np.ndarray:
    """For each item a hash of it and of its neighbours on both sides."""
    values = values.astype(np.uint64)
    padded = np.concatenate((np.zeros(reach, np.uint64), values, np.zeros(reach, np.uint64)))
    found = np.zeros(len(values), np.uint64)
    for place in range(2 * reach + 1):
        found = found * _BASE + padded[place : place + len(values)]
    return found


def _longest_ascending(values: list[int]) -> list[int]:
    """Places of a longest ascending run, by patience sorting."""
    tops: list[int] = []
    piles: list[int] = []
    before = [-1] * len(values)
    for place, value in enumerate(values):
        pile = bisect_left(tops, value)
        tops[pile : pile + 1] = [value]
        piles[pile : pile + 1] = [place]
        before[place] = piles[pile - 1] if pile else -1
    found = []
    at = piles[-1] if piles else -1
    while at >= 0:
        found.append(at)
        at = before[at]
    return found[::-1]
