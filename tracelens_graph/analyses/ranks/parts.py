"""Parts that ranks had in collectives, as columns: one entry each, and what follows from which are one collective."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.rank_collectives import RankCollectives
from tracelens_graph.graph.collective_kinds import UNKNOWN
from tracelens_graph.graph.collectives import Collective
from tracelens_graph.utils.arrays import Codes, Ns

BARRIERS = (
    "allreduce", "allreduce_coalesced", "reduce_scatter", "_reduce_scatter_base", "all_gather", "_allgather_base",
    "barrier",
)  # fmt: skip
"""Kinds that no rank leaves before all have come, so that all leave them together."""

POINT_TO_POINT = ("send", "recv")
"""Kinds in which one rank sends to one other: both names stand for one transfer."""

_SAME_SIZES = (
    "allreduce", "allreduce_coalesced", "reduce_scatter", "_reduce_scatter_base", "all_gather", "_allgather_base",
    "all_to_all",
)  # fmt: skip
"""Kinds for which every rank gives the same number of elements."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of collectives, by rank and then in the order of their starts.

    Attributes:
        ranks: the ranks.
        trace: place of the rank in `ranks`.
        node: place of the collective in what the rank held.
        shift_ns: for each rank what was added to its times.
        start_ns, end_ns: int64, ns on the clock of the set.
        lane: number of the process group, or of the pair of ranks within it, that the part belongs to.
        sequence: number of the collective in its lane, -1 where not recorded, or where it counts for one rank alone.
        is_barrier: whether its kind is one of `BARRIERS`.
        ends_together: whether all ranks leave it within microseconds, so that its ends show how clocks differ.
        is_known: whether its kind is known.
        is_transfer: whether one rank sends to one other.
        lacks_partner: whether it is a transfer whose other end is not recorded.
        is_recorded: whether the trace tells of what process group it is.
        key: number of what ranks must agree on: kind, and type and sizes where these are equal on all ranks.
    """

    ranks: Sequence[RankCollectives]
    trace: np.ndarray
    node: np.ndarray
    shift_ns: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    lane: np.ndarray
    sequence: np.ndarray
    is_barrier: np.ndarray
    ends_together: np.ndarray
    is_known: np.ndarray
    is_transfer: np.ndarray
    lacks_partner: np.ndarray
    is_recorded: np.ndarray
    key: np.ndarray

    @classmethod
    def of(cls, ranks: Sequence[RankCollectives]) -> Parts:
        """The parts of some ranks."""
        held = [(place, at, *one) for place, rank in enumerate(ranks) for at, one in enumerate(rank.held)]
        nodes = [one for _, _, one, _, _ in held]
        trace = np.array([place for place, *_ in held], np.int64)
        offset = np.array([rank.offset_ns for rank in ranks], np.int64)
        shift_ns = offset - offset.min() if len(offset) else offset
        shift = shift_ns[trace]
        lane = _numbered(_lanes(nodes, trace.tolist()))
        return cls(
            ranks,
            trace,
            np.array([at for _, at, *_ in held], np.int64),
            shift_ns,
            np.array([start for *_, start, _ in held], np.int64) + shift,
            np.array([end for *_, end in held], np.int64) + shift,
            lane,
            np.array(
                [-1 if one.sequence is None or one.kind in POINT_TO_POINT else one.sequence for one in nodes], np.int64
            ),
            np.array([one.kind in BARRIERS for one in nodes], bool),
            np.array([one.kind in BARRIERS and not one.on_host for one in nodes], bool),
            np.array([one.kind != UNKNOWN for one in nodes], bool),
            np.array([one.kind in POINT_TO_POINT for one in nodes], bool),
            np.array([one.kind in POINT_TO_POINT and None in _ends(one) for one in nodes], bool),
            np.array([one.group is not None for one in nodes], bool),
            _numbered(_keys(nodes, lane.tolist())),
        )

    def __len__(self) -> int:
        return len(self.trace)

    @cached_property
    def own_start_ns(self) -> Ns:
        """Start of each part on the clock of its trace."""
        return self.start_ns - self.shift_ns[self.trace]

    @cached_property
    def own_end_ns(self) -> Ns:
        """End of each part on the clock of its trace."""
        return self.end_ns - self.shift_ns[self.trace]

    def collective(self, part: int) -> Collective:
        """What the rank knows of the collective."""
        return self.ranks[self.trace[part]].held[self.node[part]][0]


def _numbered(keys: Sequence[Hashable]) -> np.ndarray:
    """A number for each of some keys, equal for equal keys, in the order in which they come first."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


def _lanes(nodes: Sequence[Collective], traces: Sequence[int]) -> list[Hashable]:
    """What the ranks of a process group have in common: its ranks, and its name where several groups have these.

    Groups are often numbered by each rank for itself, so a name alone does not tell. Where ranks are not recorded, the
    name is all there is.
    """
    names: dict[tuple[int, ...], dict[int, set[str | None]]] = {}
    for one, trace in zip(nodes, traces, strict=True):
        if one.ranks:
            names.setdefault(one.ranks, {}).setdefault(trace, set()).add(one.group)
    is_one = {ranks: all(len(of_trace) == 1 for of_trace in by.values()) for ranks, by in names.items()}
    lanes: list[Hashable] = []
    for one in nodes:
        group: Any = (one.ranks, None if is_one[one.ranks] else one.group) if one.ranks else one.group_key
        lanes.append((group, _ends(one) if one.kind in POINT_TO_POINT else None))
    return lanes


def _ends(transfer: Collective) -> tuple[int | None, int | None]:
    """Source and target of a transfer; of a group of two ranks, who is not recorded is the other one."""
    source, target, ranks = transfer.source_rank, transfer.target_rank, transfer.ranks or ()
    if len(ranks) == 2 and (source is None) != (target is None):
        known = target if source is None else source
        other = next((rank for rank in ranks if rank != known), None)
        source, target = (other, target) if source is None else (source, other)
    return source, target


def _keys(nodes: Sequence[Collective], lanes: Sequence[int]) -> list[Hashable]:
    has_sizes = dict.fromkeys(lanes, True)
    for one, lane in zip(nodes, lanes, strict=True):
        # If one rank lacks sizes, keys with sizes would match none of its parts: the lane does without.
        has_sizes[lane] &= one.kind == UNKNOWN or one.in_elements is not None
    return [
        (
            "transfer" if one.kind in POINT_TO_POINT else one.kind,
            (one.dtype, one.in_elements, one.out_elements) if has_sizes[lane] and one.kind in _SAME_SIZES else None,
        )
        for one, lane in zip(nodes, lanes, strict=True)
    ]


class PartsByCollective:
    """Parts that ranks had in collectives."""

    @cached_property
    def number(self) -> Codes:
        """Number of the collective of each part, -1 for none; numbers go from 0 on without gaps."""
        raise NotImplementedError

    @cached_property
    def trace(self) -> Codes:
        """Place of the rank of each part."""
        raise NotImplementedError

    @cached_property
    def start_ns(self) -> Ns:
        """Start of each part, on one clock."""
        raise NotImplementedError

    @cached_property
    def end_ns(self) -> Ns:
        """End of each part, on the same clock."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self._collectives

    @cached_property
    def _collectives(self) -> int:
        return int(self.number.max(initial=-1)) + 1

    @cached_property
    def order(self) -> np.ndarray:
        """Matched parts by collective, then by rank."""
        order = np.argsort(self.number, kind="stable")
        return order[self.number[order] >= 0]

    @cached_property
    def first(self) -> np.ndarray:
        """Where the parts of each collective begin in the order."""
        return np.searchsorted(self.number[self.order], np.arange(len(self)))

    def parts_of(self, number: int) -> np.ndarray:
        """The parts of a collective, by rank."""
        begin = int(self.first[number])
        end = int(self.first[number + 1]) if number + 1 < len(self) else len(self.order)
        return self.order[begin:end]

    def reduced(self, how: np.ufunc, values: np.ndarray) -> np.ndarray:
        """Values of parts put together per collective: `np.add` for sums, `np.minimum`, `np.maximum`."""
        # No number is without parts, for which `reduceat` would give a neighbour's value.
        return how.reduceat(values[self.order], self.first) if len(self) else np.empty(0, np.int64)

    @cached_property
    def count(self) -> np.ndarray:
        """Ranks of each collective."""
        return np.diff(np.append(self.first, len(self.order)))

    @cached_property
    def first_start_ns(self) -> np.ndarray:
        """When the first rank came to each collective."""
        return self.reduced(np.minimum, self.start_ns)

    @cached_property
    def last_start_ns(self) -> np.ndarray:
        """When the last rank came."""
        return self.reduced(np.maximum, self.start_ns)

    @cached_property
    def first_end_ns(self) -> np.ndarray:
        """When the first rank left."""
        return self.reduced(np.minimum, self.end_ns)

    @cached_property
    def last_end_ns(self) -> np.ndarray:
        """When the last rank left."""
        return self.reduced(np.maximum, self.end_ns)

    @cached_property
    def shortest_ns(self) -> np.ndarray:
        """Shortest duration of each collective on any rank."""
        return self.reduced(np.minimum, self.end_ns - self.start_ns)

    @cached_property
    def longest_ns(self) -> np.ndarray:
        """Longest duration of each collective on any rank."""
        return self.reduced(np.maximum, self.end_ns - self.start_ns)

    @cached_property
    def last_part(self) -> np.ndarray:
        """The part that came last to each collective; of several the one of the smallest rank."""
        return self._part_that_came(self.last_start_ns)

    @cached_property
    def first_part(self) -> np.ndarray:
        """The part that came first to each collective; of several the one of the smallest rank."""
        return self._part_that_came(self.first_start_ns)

    def _part_that_came(self, moment_ns: np.ndarray) -> np.ndarray:
        there = np.flatnonzero(self.start_ns[self.order] == np.repeat(moment_ns, self.count))
        of = self.number[self.order][there]
        return self.order[there[np.searchsorted(of, np.arange(len(self)))]]

    def per_part(self, values: np.ndarray) -> np.ndarray:
        """Values of collectives as one for each part; without meaning where a part was not matched."""
        return values[np.maximum(self.number, 0)] if len(self) else np.zeros(len(self.number), values.dtype)
