"""Pairs of nodes of a graph and of an execution trace: by ids, or by the order of names on each thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.common_order import common_order, surroundings
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import Kind
from tracelens_graph.schema.categories import is_step_name
from tracelens_graph.utils.arrays import Codes, Mask, Rows

Pairs = tuple[Rows, Rows]
"""Places in the first and in the second side, of equal length."""

_JOINED = (Kind.Op, Kind.Annotation, Kind.Step)


@dataclass(eq=False)
class Side:
    """Ops and ranges of one of the two, thread by thread, on each in the order in which they began.

    Attributes:
        what: what it is called in messages.
        row: rows of the graph, or of the execution trace.
        name: codes of names, the same for both sides.
        thread: number of the thread.
        order: ascending with the beginning, over all threads.
        record_id, external_id: 0 where there is none.
        is_step: whether it is a range `ProfilerStep#n`.
    """

    what: str
    row: Rows
    name: Codes
    thread: Codes
    order: Rows
    record_id: np.ndarray
    external_id: np.ndarray
    is_step: Mask

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def of_graph(cls, core: Core, record_ids: np.ndarray) -> Side:
        """Ops, annotations and steps of a graph."""
        c = core.columns
        rows = np.flatnonzero(is_kind(c.kind, _JOINED))
        # Of equal times an annotation is the outer one; ops stand in the order of the call forest.
        keys = rows, c.kind[rows] == Kind.Op, -c.dur_ns[rows], c.start_ns[rows]
        order = np.empty(len(rows), np.int64)
        order[np.lexsort(keys)] = np.arange(len(rows))
        rows, order = (values[np.lexsort((order, c.thread[rows]))] for values in (rows, order))
        return cls(
            "trace", rows, c.name[rows].astype(np.int64), c.thread[rows].astype(np.int64), order, record_ids[rows],
            np.maximum(c.external_id[rows], 0), c.kind[rows] == Kind.Step,
        )  # fmt: skip

    @classmethod
    def of_execution_trace(cls, execution: ExecutionTrace, core: Core) -> Side:
        """Ops and ranges of an execution trace, with the codes that names have in a graph."""
        known = {name: code for code, name in enumerate(core.names)}
        codes = [known.setdefault(name, len(known)) for name in execution.names]
        rows = np.flatnonzero(execution.is_op)
        rows = rows[np.argsort(execution.tid[rows], kind="stable")]
        name = np.array(codes, np.int64)[execution.name[rows]]
        steps = [code for name, code in known.items() if is_step_name(name)]
        return cls(
            "execution trace", rows, name, execution.tid[rows], rows, np.maximum(execution.rf_id[rows], 0),
            np.zeros(len(rows), np.int64), np.isin(name, steps),
        )  # fmt: skip


_VOTES = 1 << 20
"""Pairs of ids that vote for a constant, and places that vote for one."""
_MOST_OF_NAME = 1024
_CANDIDATES = 3


def by_ids(first: np.ndarray, second: np.ndarray, offset: int = 0) -> Pairs:
    """Places of pairs of ids whose first is the second plus a constant; 0 is no id, and so is one that occurs twice."""
    sides = []
    for ids in (first, second):
        values, places, counts = np.unique(ids, return_index=True, return_counts=True)
        single = (counts == 1) & (values != 0)
        sides.append((values[single], places[single]))
    (ids, places), (others, their_places) = sides
    _, at, their = np.intersect1d(ids, others + offset, assume_unique=True, return_indices=True)
    return places[at], their_places[their]


def offsets(trace: Side, nodes: Side) -> Iterator[int]:
    """Constants by which the ids of the two may differ, likeliest first.

    Nodes of one name vote with the differences of their ids, those of the rarest names first.
    """
    mine, theirs = (np.flatnonzero(side.record_id) for side in (trace, nodes))
    if not len(mine) or not len(theirs):
        return
    size = int(max(trace.name.max(), nodes.name.max())) + 1
    counts = [np.bincount(side.name[at], minlength=size) for side, at in ((trace, mine), (nodes, theirs))]
    votes = counts[0] * counts[1]
    order = np.argsort(votes, kind="stable")
    voters = order[(votes[order] > 0) & (np.cumsum(votes[order]) <= _VOTES)]
    if not len(voters):
        voters = order[votes[order] > 0][:1]
    by_name = [_by_name(side, at, size) for side, at in ((trace, mine), (nodes, theirs))]
    differences = [np.empty(0, np.int64)]
    for name in voters.tolist():
        a, b = (ids[ends[name] : ends[name + 1]][:_MOST_OF_NAME] for ids, ends in by_name)
        differences.append((a[:, None] - b[None, :]).ravel())
    values, found = np.unique(np.concatenate(differences), return_counts=True)
    likeliest = values[np.argsort(-found, kind="stable")][:_CANDIDATES]
    yield from (int(one) for one in likeliest if one)


def _by_name(side: Side, at: np.ndarray, size: int) -> Pairs:
    """Ids ordered by name, and where those of each name begin."""
    order = np.argsort(side.name[at], kind="stable")
    ends = np.concatenate(([0], np.cumsum(np.bincount(side.name[at], minlength=size))))
    return side.record_id[at][order], ends


_REACH = 4
"""Neighbours on each side by which places of two sequences are found to be alike."""
_VOTERS = 256
_AS_GOOD = 0.5
"""Share of the votes of the best place from which on another one is looked at."""
_PLACES = 1000
_AS_LONG = 0.5
"""Share of the busiest thread's length from which on a thread of the longer side is looked at."""
_MOST_THREADS = 1000
"""Threads of the longer side that are looked at, the longest first."""
_MOST_PAIRS = 1 << 22
"""Pairs of threads that are compared."""


def by_order(trace: Side, nodes: Side) -> Pairs:
    """Pairs of equal names in the same order, on pairs of threads that have most in common."""
    return _by_order(trace, nodes, np.arange(len(trace)), np.arange(len(nodes)))


def _by_order(trace: Side, nodes: Side, mine: np.ndarray, theirs: np.ndarray) -> Pairs:
    """As `by_order`, of some places of both sides."""
    ours, others = _threads(trace, mine), _threads(nodes, theirs)
    found: list[Pairs] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for place, other in _paired_threads(_bags(trace, ours), _bags(nodes, others)):
        a, b = ours[place], others[other]
        one, two = trace.name[a], nodes.name[b]
        if not np.array_equal(one, two):
            at, their = common_order(one, two)
            a, b = a[at], b[their]
        found.append((a, b))
    return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])


def _threads(side: Side, at: np.ndarray) -> list[np.ndarray]:
    """Some places of a side thread by thread, in the order in which the threads begin."""
    at = at[np.argsort(side.thread[at], kind="stable")]
    thread = side.thread[at]
    found = np.split(at, np.flatnonzero(thread[1:] != thread[:-1]) + 1) if len(at) else []
    return sorted(found, key=lambda places: int(side.order[places[0]]))


class _Bags(NamedTuple):
    """What occurs on threads: names, each with the one before it. Columns, by thread.

    Attributes:
        thread: place of the thread.
        key: what occurs.
        times: how often.
    """

    thread: Codes
    key: np.ndarray
    times: np.ndarray


def _bags(side: Side, threads: list[np.ndarray]) -> _Bags:
    lengths = np.array([len(one) for one in threads], np.int64)
    name = side.name[np.concatenate([*threads, np.empty(0, np.int64)])]
    before = np.concatenate(([0], name))[:-1]
    # No name has this code, so the end of one thread does not count as what comes before the next.
    before[np.cumsum(lengths) - lengths] = 2**31 - 1
    thread = np.repeat(np.arange(len(threads)), lengths)
    key = name * (2**31) + before
    order = np.lexsort((key, thread))
    thread, key = thread[order], key[order]
    first = np.flatnonzero(np.diff(thread, prepend=-1) | np.diff(key, prepend=-1))
    return _Bags(thread[first], key[first], np.diff(first, append=len(key)))


def _paired_threads(mine: _Bags, theirs: _Bags) -> list[tuple[int, int]]:
    """Threads of both sides by their places, each in one pair at most, those with most in common first.

    Of equally good pairs those come first that began earlier. What occurs on so many threads that all pairs of them
    would be too many does not count; threads that have nothing else are paired if all that occurs on them is equal.
    """
    one, two, common = _in_common(mine, theirs)
    sizes, other_sizes = (np.bincount(bags.thread, bags.times).astype(np.int64) for bags in (mine, theirs))
    apart = sizes[one] + other_sizes[two] - 2 * common
    order = np.lexsort((two, one, np.abs(one - two), apart, -common))
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for place, other in [*zip(one[order].tolist(), two[order].tolist(), strict=True), *_alike(mine, theirs)]:
        if place not in pairs and other not in taken:
            pairs[place] = other
            taken.add(other)
    return list(pairs.items())


def _in_common(mine: _Bags, theirs: _Bags) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of threads that have something in common, and how much: by what is rare, up to a number of pairs."""
    by_key, by_other_key = np.argsort(mine.key, kind="stable"), np.argsort(theirs.key, kind="stable")
    keys, begin, count = np.unique(mine.key[by_key], return_index=True, return_counts=True)
    low, high = (np.searchsorted(theirs.key[by_other_key], keys, side) for side in ("left", "right"))
    products = count * (high - low)
    rarest = np.argsort(products, kind="stable")
    kept = rarest[np.cumsum(products[rarest]) <= _MOST_PAIRS]
    kept = kept[products[kept] > 0]
    times = products[kept]
    width = np.repeat((high - low)[kept], times)
    within = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
    a = by_key[np.repeat(begin[kept], times) + within // width]
    b = by_other_key[np.repeat(low[kept], times) + within % width]
    others = int(theirs.thread.max(initial=0)) + 1
    pair, back = np.unique(mine.thread[a] * others + theirs.thread[b], return_inverse=True)
    common = np.bincount(back.reshape(-1), np.minimum(mine.times[a], theirs.times[b]), len(pair))
    return pair // others, pair % others, common.astype(np.int64)


def _alike(mine: _Bags, theirs: _Bags) -> Iterator[tuple[int, int]]:
    """Threads of both sides on which all is equal, the first with the first."""
    waiting: dict[bytes, list[int]] = {}
    for place, bag in _whole(theirs):
        waiting.setdefault(bag, []).append(place)
    turns = {bag: iter(places) for bag, places in waiting.items()}
    for place, bag in _whole(mine):
        other = next(turns.get(bag, iter(())), None)
        if other is not None:
            yield place, other


def _whole(bags: _Bags) -> Iterator[tuple[int, bytes]]:
    """Each thread, and all that occurs on it."""
    ends = np.flatnonzero(np.diff(bags.thread, append=-1)) + 1
    both = np.column_stack((bags.key, bags.times))
    for place, (begin, end) in enumerate(pairwise([0, *ends.tolist()])):
        yield place, both[begin:end].tobytes()


def within_longer(trace: Side, nodes: Side) -> Iterator[tuple[str, Pairs, int]]:
    """Pairs where one side recorded a part of what the other did: what to call it, pairs, number of the shorter side.

    The place of the busiest thread of the shorter side is voted for by its rarest stretches; all other threads are
    compared within the time in which it was found.
    """
    if not len(trace) or not len(nodes):
        return
    is_trace_longer = len(trace) >= len(nodes)
    long, short = (trace, nodes) if is_trace_longer else (nodes, trace)
    busiest = max(_threads(short, np.arange(len(short))), key=len)
    best: tuple[int, np.ndarray, int, int] | None = None
    threads = [at for at in _threads(long, np.arange(len(long))) if len(at) >= _AS_LONG * len(busiest)]
    for at in sorted(threads, key=len, reverse=True)[:_MOST_THREADS]:
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
    # The rarest stretch has its vote, even where it occurs more often than all may.
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
