"""Joining by the order of names on each thread, where ids do not help."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracelens_graph.graph.anchors import surroundings
from tracelens_graph.graph.common_order import common_order
from tracelens_graph.graph.joining.sides import Pairs, Side

_REACH = 4
"""Neighbours on each side by which places of two sequences are told to be alike."""
_VOTERS = 256
_VOTES = 1 << 20
_AS_GOOD = 0.5
"""Share of the votes of the best place from which on another one is looked at."""
_PLACES = 1000


def by_order(trace: Side, nodes: Side) -> Pairs:
    """Pairs of equal names in the same order, on pairs of threads that have most in common."""
    return _by_order(trace, nodes, np.arange(len(trace)), np.arange(len(nodes)))


def _by_order(trace: Side, nodes: Side, mine: np.ndarray, theirs: np.ndarray) -> Pairs:
    """As `by_order`, of some places of both sides."""
    found: list[Pairs] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for thread, other in _paired_threads(trace, nodes, mine, theirs):
        a, b = mine[trace.thread[mine] == thread], theirs[nodes.thread[theirs] == other]
        at, their = common_order(trace.name[a], nodes.name[b])
        found.append((a[at], b[their]))
    return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])


def _paired_threads(trace: Side, nodes: Side, mine: np.ndarray, theirs: np.ndarray) -> list[tuple[int, int]]:
    """Threads of both sides, each in one pair at most, those with most in common first.

    Two threads have in common what occurs on both: names, each with the one before it. Of equally good pairs those come
    first that began earlier.
    """
    bags = [_bags(trace, mine), _bags(nodes, theirs)]
    scores = []
    for place, (thread, (keys, counts)) in enumerate(bags[0].items()):
        for other_place, (other, (other_keys, other_counts)) in enumerate(bags[1].items()):
            _, at, their = np.intersect1d(keys, other_keys, assume_unique=True, return_indices=True)
            common = int(np.minimum(counts[at], other_counts[their]).sum())
            apart = int(counts.sum() + other_counts.sum()) - 2 * common
            if common:
                scores.append((-common, apart, abs(place - other_place), place, thread, other))
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for *_, thread, other in sorted(scores):
        if thread not in pairs and other not in taken:
            pairs[thread] = other
            taken.add(other)
    return list(pairs.items())


def _bags(side: Side, at: np.ndarray) -> dict[int, Pairs]:
    """Per thread, in the order in which they begin: what occurs there, and how often."""
    found = {}
    thread, name, order = side.thread[at], side.name[at], side.order[at]
    threads, first = np.unique(thread, return_index=True)
    for one in threads[np.argsort(order[first], kind="stable")].tolist():
        names = name[thread == one]
        found[one] = np.unique(names * (2**31) + np.concatenate(([2**31 - 1], names[:-1])), return_counts=True)
    return found


def within_longer(trace: Side, nodes: Side) -> Iterator[tuple[str, Pairs, int]]:
    """Pairs where one side recorded a part of what the other did: what to call it, pairs, number of the shorter side.

    The place of the busiest thread of the shorter side is voted for by its rarest stretches; all other threads are
    compared within the time in which it was found.
    """
    if not len(trace) or not len(nodes):
        return
    is_trace_longer = len(trace) >= len(nodes)
    long, short = (trace, nodes) if is_trace_longer else (nodes, trace)
    threads, counts = np.unique(short.thread, return_counts=True)
    busiest = np.flatnonzero(short.thread == threads[counts.argmax()])
    best: tuple[int, np.ndarray, int, int] | None = None
    for thread in np.unique(long.thread).tolist():
        at = np.flatnonzero(long.thread == thread)
        votes, begin, as_good = _place(long.name[at], short.name[busiest])
        if votes and (best is None or votes > best[0]):
            best = votes, at, begin, as_good
    if best is None:
        return
    _, at, begin, as_good = best
    there = _stretch(long.name[at], short.name[busiest], begin)
    if not len(there):
        return
    first, last = at[there[0]], at[there[-1]]
    after = at[there[-1] + 1] if there[-1] + 1 < len(at) else None
    until = long.order.max() + 1 if after is None else long.order[after]
    within = np.flatnonzero((long.order >= long.order[first]) & (long.order < max(until, long.order[last] + 1)))
    whole = np.arange(len(short))
    mine, theirs = (within, whole) if is_trace_longer else (whole, within)
    places = "" if as_good == 1 else f", the first of {as_good:,} places where they fit"
    yield (
        f"names in order, by thread, the {short.what} within the {long.what}{places}",
        _by_order(trace, nodes, mine, theirs),
        len(short),
    )


def _stretch(long: np.ndarray, short: np.ndarray, begin: int) -> np.ndarray:
    """Places of the longer sequence that are joined with the shorter one, which begins there or nearby.

    If all of it is where it should be, nothing else is looked at: of equal steps the neighbours would fit as well.
    """
    found = np.empty(0, np.int64)
    for slack in (0, len(short) // 20 + 2 * _REACH):
        low, high = max(begin - slack, 0), min(begin + len(short) + slack, len(long))
        there = common_order(long[low:high], short)[0] + low
        if len(there) == len(short):
            return there
        found = there if len(there) > len(found) else found
    return found


def _place(long: np.ndarray, short: np.ndarray) -> tuple[int, int, int]:
    """Where a sequence stands in a longer one: votes, the place of its beginning, number of places as good."""
    ours, theirs = surroundings(short, _REACH), surroundings(long, _REACH)
    keys, counts = np.unique(theirs, return_counts=True)
    at = np.minimum(np.searchsorted(keys, ours), max(len(keys) - 1, 0))
    known = np.flatnonzero(keys[at] == ours) if len(keys) else np.empty(0, np.int64)
    if not len(known):
        return 0, 0, 0
    often = counts[at[known]]
    rare = np.argsort(often, kind="stable")[:_VOTERS]
    rare = rare[np.cumsum(often[rare]) <= max(_VOTES, int(often[rare[0]]))]
    order = np.argsort(theirs, kind="stable")
    begins = np.cumsum(counts) - counts
    differences = [
        order[begins[at[place]] : begins[at[place]] + counts[at[place]]] - place for place in known[rare].tolist()
    ]
    values, votes = np.unique(np.concatenate(differences), return_counts=True)
    good = values[votes >= _AS_GOOD * votes.max()][:_PLACES]
    equal = np.array([_equal_at(long, short, begin) for begin in good.tolist()])
    return int(votes.max()), int(good[equal.argmax()]), int(np.count_nonzero(equal == equal.max()))


def _equal_at(long: np.ndarray, short: np.ndarray, begin: int) -> int:
    """How many items of a sequence are equal to those of a longer one, from a place on."""
    low, high = max(begin, 0), min(begin + len(short), len(long))
    return int(np.count_nonzero(long[low:high] == short[low - begin : high - begin]))
