"""Which nodes and GPU events of two graphs belong together, and how they resemble each other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tracelens_graph.analyses.alignment.containers import Containers
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.leaf_matching import Matching
from tracelens_graph.graph.arrays import expanded
from tracelens_graph.utils.arrays import Ns, Rows


class MatchKind(IntEnum):
    """How a node or leaf resembles its partner; of several, the last one listed holds."""

    unmatched = 0
    changed = 1
    """Same name and arguments; what is below differs."""
    fused = 2
    """One op or one run of GPU events with n of them on one side and m on the other."""
    same_structure = 3
    """The calls below are the same, with other arguments."""
    identical = 4
    """Names, arguments, calls below and what the GPU events do are the same."""
    wrapped = 5
    """Below callers that are no partners: there is a call between on one side, or other ones on both."""
    other_arguments = 6
    renamed = 7


def node_kinds(matching: Matching, containers: Containers) -> tuple[np.ndarray, np.ndarray]:
    """For each node of both forests how it resembles its partner (a MatchKind)."""
    a, b, partner = matching.a, matching.b, containers.of_a
    u = np.flatnonzero(partner >= 0)
    v = partner[u]
    events = _event_counts(a)[u] == _event_counts(b)[v]
    is_op = a.is_op[u] & b.is_op[v]
    parent = a.parent[u]
    apart = (parent >= 0) & (b.parent[v] >= 0) & (partner[parent] != b.parent[v])
    found = _strongest(
        len(u),
        (MatchKind.fused, is_op & ~events),
        (MatchKind.same_structure, (a.structure[u] == b.structure[v]) & (events | ~is_op)),
        (MatchKind.identical, (a.identity[u] == b.identity[v]) & events),
        (MatchKind.wrapped, apart),
        (MatchKind.other_arguments, a.args[u] != b.args[v]),
        (MatchKind.renamed, containers.renamed[u]),
    )
    return _on_both_sides(found, (u, v), (len(a.parent), len(b.parent)))


def leaf_kinds(matching: Matching, containers: Containers) -> tuple[np.ndarray, np.ndarray]:
    """For each leaf of both forests how it resembles its partner (a MatchKind)."""
    a, b = matching.a, matching.b
    i = np.flatnonzero(matching.of_a >= 0)
    j = matching.of_a[i]
    found = _strongest(
        len(i),
        (MatchKind.fused, np.diff(a.first_event)[i] != np.diff(b.first_event)[j]),
        (MatchKind.identical, (a.leaf_identity[i] == b.leaf_identity[j]) & (_count(a, i) == _count(b, j))),
        (MatchKind.wrapped, containers.of_a[a.leaf_parent[i]] != b.leaf_parent[j]),
        (MatchKind.other_arguments, a.leaf_args[i] != b.leaf_args[j]),
        (MatchKind.renamed, a.op[i] != b.op[j]),
    )
    return _on_both_sides(found, (i, j), (a.leaves, b.leaves))


def _strongest(pairs: int, *kinds: tuple[MatchKind, np.ndarray]) -> np.ndarray:
    found = np.full(pairs, MatchKind.changed, np.uint8)
    for kind, holds in kinds:
        found[holds] = kind
    return found


def _on_both_sides(
    kinds: np.ndarray, places: tuple[np.ndarray, np.ndarray], sizes: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    first, second = (np.full(size, MatchKind.unmatched, np.uint8) for size in sizes)
    first[places[0]], second[places[1]] = kinds, kinds
    return first, second


def _event_counts(forest: Forest) -> np.ndarray:
    """Number of GPU events below each node."""
    return forest.first_event[forest.high] - forest.first_event[forest.low]


def _count(forest: Forest, leaves: np.ndarray) -> np.ndarray:
    return np.diff(forest.first_event)[leaves]


@dataclass(frozen=True, eq=False)
class Matches:
    """Pairs of rows, by the row of the first side, then by that of the second.

    Where one side has more GPU events in a run, these are paired event by event as far as kinds agree, so an event may
    have several partners.

    Attributes:
        rows: per pair the rows in both graphs.
        kinds: how they resemble each other, a `MatchKind` each.
        ns: GPU time of both, with what is below them.
        alone: of both sides the rows without a partner, ascending.
        alone_ns: GPU time of these.
    """

    rows: tuple[np.ndarray, np.ndarray]
    kinds: np.ndarray
    ns: tuple[np.ndarray, np.ndarray]
    alone: tuple[np.ndarray, np.ndarray]
    alone_ns: tuple[np.ndarray, np.ndarray]

    def __len__(self) -> int:
        return len(self.kinds)

    def with_alone(self) -> tuple[tuple[Rows, Rows], tuple[Ns, Ns]]:
        """Rows of both sides and their GPU times: the pairs, then rows without a partner beside -1 and 0."""
        none = [np.full(len(rows), -1, np.int64) for rows in self.alone]
        zero = [np.zeros(len(rows), np.int64) for rows in self.alone]
        return (
            (
                np.concatenate((self.rows[0], self.alone[0], none[1])),
                np.concatenate((self.rows[1], none[0], self.alone[1])),
            ),
            (
                np.concatenate((self.ns[0], self.alone_ns[0], zero[1])),
                np.concatenate((self.ns[1], zero[0], self.alone_ns[1])),
            ),
        )

    def partner(self, side: int, row: int) -> int:
        """The row that a row of one side belongs to, the first of several; -1 without one."""
        mine, other = self.rows[side], self.rows[1 - side]
        # Pairs are sorted by the row of the first side, so that only there a row can be looked up.
        found = other[mine == row] if side else other[slice(*np.searchsorted(mine, (row, row + 1)))]
        return int(found.min(initial=np.iinfo(np.int64).max)) if len(found) else -1


def matches_of(
    sides: tuple[Forest, Forest], nodes: tuple[np.ndarray, np.ndarray], leaves: tuple[np.ndarray, np.ndarray]
) -> Matches:
    """The pairs of an alignment.

    Args:
        nodes: for each node of the first one its partner, -1 without one, and how it resembles it.
        leaves: the same for leaves.
    """
    a, b = sides
    (partner, node_kinds), (leaf_partner, leaf_kinds) = nodes, leaves
    u = np.flatnonzero((partner >= 0) & (a.row >= 0))
    u = u[b.row[partner[u]] >= 0]
    i = np.flatnonzero(leaf_partner >= 0)
    first, second, of = _events(a, b, i, leaf_partner[i])
    rows = [np.concatenate((side.row[nodes], events)).astype(np.int64)
            for side, nodes, events in ((a, u, first), (b, partner[u], second))]  # fmt: skip
    kinds = np.concatenate((node_kinds[u], leaf_kinds[i][of]))
    order = np.lexsort(rows[::-1])
    paired = rows[0][order], rows[1][order]
    times = [_Times(side) for side in (a, b)]
    alone = [np.setdiff1d(time.rows, mine) for time, mine in zip(times, paired, strict=True)]
    return Matches(
        paired, kinds[order], (times[0].of(paired[0]), times[1].of(paired[1])), (alone[0], alone[1]),
        (times[0].of(alone[0]), times[1].of(alone[1])),
    )  # fmt: skip


class _Times:
    """GPU time of all rows of one side that are aligned.

    Attributes:
        rows: these rows, ascending.
    """

    def __init__(self, side: Forest) -> None:
        nodes = np.flatnonzero(side.row >= 0)
        c = side.window.core.columns
        ns = np.where(np.isin(side.events, [*side.captured]), 0, c.dur_ns[side.events])
        rows = np.concatenate((side.row[nodes], side.events))
        order = np.argsort(rows)
        self.rows = rows[order].astype(np.int64)
        below = side.ns_before[side.high[nodes]] - side.ns_before[side.low[nodes]]
        self._ns = np.concatenate((below, ns)).astype(np.int64)[order]

    def of(self, rows: np.ndarray) -> np.ndarray:
        """GPU time of some of them."""
        return self._ns[np.searchsorted(self.rows, rows)]


def _events(a: Forest, b: Forest, i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of GPU events of paired leaves: rows of both sides, and which pair of leaves each is of."""
    kinds = [side.window.core.columns.kind for side in (a, b)]
    counts = np.diff(a.first_event)[i]
    alike = counts == np.diff(b.first_event)[j]
    at, of = expanded(np.zeros(int(alike.sum()), np.int64), counts[alike])
    of = np.flatnonzero(alike)[of]
    rows = [side.events[side.first_event[leaf[of]] + at] for side, leaf in ((a, i), (b, j))]
    # Event by event, where their kinds are the same ones.
    differ = np.zeros(len(i), bool)
    differ[of[kinds[0][rows[0]] != kinds[1][rows[1]]]] = True
    keep = ~differ[of]
    parts = [(rows[0][keep], rows[1][keep], of[keep])]
    for place in np.flatnonzero(~alike | differ).tolist():
        first, second = a.events_of(int(i[place])), b.events_of(int(j[place]))
        parts += [(*pair, np.full(len(pair[0]), place)) for pair in _by_kind(first, second, kinds)]
    one, other, leaf = (np.concatenate(part) for part in zip(*parts, strict=True))
    return one, other, leaf


def _by_kind(first: np.ndarray, second: np.ndarray, kinds: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of two runs of GPU events: those of one kind in their order; all of them where no kind is shared."""
    kind, other = kinds[0][first], kinds[1][second]
    shared = np.intersect1d(kind, other).tolist()
    groups = [(first[kind == one], second[other == one]) for one in shared] or [(first, second)]
    pairs = []
    for x, y in groups:
        most = max(len(x), len(y))
        at = np.arange(most)
        # The shorter run is stretched over the longer one, so that no event is left without a partner.
        pairs.append((x[at * len(x) // most], y[at * len(y) // most]))
    return pairs


def kind_name(kind: int) -> str:
    """The name of a `MatchKind` in words."""
    return MatchKind(kind).name.replace("_", " ")
