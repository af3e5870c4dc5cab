"""Parts that ranks had in collectives, as columns: one entry each, and what follows from which are one collective."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.held import NONE, Forms
from tracelens_graph.analyses.ranks.rank_collectives import RankCollectives
from tracelens_graph.graph.collective_kinds import UNKNOWN
from tracelens_graph.graph.collectives import Collective
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows, narrow

BARRIERS = (
    "allreduce", "allreduce_coalesced", "reduce_scatter", "_reduce_scatter_base", "all_gather", "_allgather_base",
    "barrier",
)  # fmt: skip
"""Kinds that no rank leaves before all have come, so that all leave them together."""

POINT_TO_POINT = ("send", "recv")
"""Kinds in which one rank sends to one other: both names stand for one transfer."""

MOVES_OF_ALL = tuple(kind for kind in BARRIERS if kind != "barrier")
"""Those of them that move data."""

_SAME_SIZES = (*MOVES_OF_ALL, "all_to_all")
"""Kinds for which every rank gives the same number of elements."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of collectives, by rank and then in the order of their starts.

    Attributes:
        ranks: the ranks.
        forms: what collectives of equal group, kind and size share, see `Held`; form: the place of that of each part.
        trace: place of the rank in `ranks`.
        node: place of the collective in what the rank held.
        shift_ns: for each rank what was added to its times.
        start_ns, end_ns: int64, ns on the clock of the set.
        lane: number of the process group, or of the pair of ranks within it, that the part belongs to.
        sequence: number of the collective in its lane, -1 where not recorded, or where it counts for one rank alone.
        is_barrier: whether its kind is one of `BARRIERS`.
        on_host: whether it ran on the host (gloo, MPI): ranks leave it less closely together.
        is_known: whether its kind is known.
        is_transfer: whether one rank sends to one other.
        lacks_partner: whether it is a transfer whose other end is not recorded.
        is_recorded: whether the trace records its process group.
        key: number of what ranks must agree on: kind, and type and sizes where these are equal on all ranks.
    """

    ranks: Sequence[RankCollectives]
    forms: Sequence[Collective]
    form: Codes
    trace: np.ndarray
    node: np.ndarray
    shift_ns: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    lane: np.ndarray
    sequence: np.ndarray
    is_barrier: np.ndarray
    on_host: np.ndarray
    is_known: np.ndarray
    is_transfer: np.ndarray
    lacks_partner: np.ndarray
    is_recorded: np.ndarray
    key: np.ndarray

    @classmethod
    def of(cls, ranks: Sequence[RankCollectives]) -> Parts:
        """The parts of some ranks."""
        held = [rank.held for rank in ranks]
        known = Forms()
        numbers = [np.array([known.number(form) for form in one.forms], np.int32) for one in held]
        forms, nothing = known.forms, [np.empty(0, np.int64)]
        form = np.concatenate([of[one.form] for of, one in zip(numbers, held, strict=True)] or nothing)
        trace = np.repeat(np.arange(len(held), dtype=np.int32), [len(one) for one in held])
        offset = np.array([rank.offset_ns for rank in ranks], np.int64)
        shift_ns = offset - offset.min() if len(offset) else offset
        shift = shift_ns[trace]
        lanes = _lanes(forms, [of.tolist() for of in numbers])
        sequence = np.concatenate([one.sequence for one in held] or nothing, dtype=np.int64)

        def of_form(holds: Callable[[Collective], bool]) -> Mask:
            return np.array([holds(one) for one in forms], bool)[form]

        is_transfer = of_form(lambda one: one.kind in POINT_TO_POINT)
        return cls(
            ranks,
            forms,
            form,
            trace,
            np.concatenate([np.arange(len(one), dtype=np.int32) for one in held] or nothing),
            shift_ns,
            np.concatenate([one.start_ns for one in held] or nothing) + shift,
            np.concatenate([one.end_ns for one in held] or nothing) + shift,
            _as_met(np.array(_numbered(lanes), np.int64)[form]),
            narrow(np.where(is_transfer | (sequence == NONE), -1, sequence)),
            of_form(lambda one: one.kind in BARRIERS),
            of_form(lambda one: one.on_host),
            of_form(lambda one: one.kind != UNKNOWN),
            is_transfer,
            of_form(lambda one: one.kind in POINT_TO_POINT and None in ends_of(one)),
            of_form(lambda one: one.group is not None),
            _as_met(np.array(_numbered(_keys(forms, lanes)), np.int64)[form]),
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
        return self.ranks[self.trace[part]].held.collective(int(self.node[part]))

    def form_of(self, part: int) -> Collective:
        """The same without place, kernels and times, which takes no time to make."""
        return self.forms[self.form[part]]

    def kernels(self, part: int) -> tuple[int, ...]:
        """Rows of the kernels of the part."""
        return self.ranks[self.trace[part]].held.kernels(int(self.node[part]))

    def of_rank(self, trace: int) -> Rows:
        """The parts of a rank."""
        return np.arange(*np.searchsorted(self.trace, (trace, trace + 1)))


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    """A number for each of some keys, equal for equal keys."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _as_met(numbers: Codes) -> Codes:
    """Numbers from 0 on without gaps, in the order in which they come first."""
    _, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first)).astype(np.int32)[place]


def _lanes(forms: Sequence[Collective], of_ranks: Sequence[Sequence[int]]) -> list[Hashable]:
    """What the ranks of a process group have in common: its ranks, and its name where several groups have these.

    Groups are often numbered by each rank for itself, so a name alone is not enough. Where ranks are not recorded, the
    name is all there is.

    Args:
        forms: what is known of collectives.
        of_ranks: for each rank the numbers of those that it has.
    """
    groups = [id(form.ranks) if form.ranks else None for form in forms]  # `Forms` has equal ones once
    several: set[int | None] = set()
    for own in of_ranks:
        names: dict[int | None, str | None] = {}
        for one in own:
            if groups[one] is not None and names.setdefault(groups[one], forms[one].group) != forms[one].group:
                several.add(groups[one])
    lanes: list[Hashable] = []
    for form, at in zip(forms, groups, strict=True):
        group: Any = (at, form.group if at in several else None) if at is not None else form.group_key
        lanes.append((group, ends_of(form) if form.kind in POINT_TO_POINT else None))
    return lanes


def ends_of(transfer: Collective) -> tuple[int | None, int | None]:
    """Source and target of a transfer; of a group of two ranks, who is not recorded is the other one."""
    source, target, ranks = transfer.source_rank, transfer.target_rank, transfer.ranks or ()
    if len(ranks) == 2 and (source is None) != (target is None):
        known = target if source is None else source
        other = next((rank for rank in ranks if rank != known), None)
        source, target = (other, target) if source is None else (source, other)
    return source, target


def _keys(forms: Sequence[Collective], lanes: Sequence[Hashable]) -> list[Hashable]:
    has_sizes = dict.fromkeys(lanes, True)
    for one, lane in zip(forms, lanes, strict=True):
        # If one rank lacks sizes, keys with sizes would match none of its parts: the lane does without.
        has_sizes[lane] &= one.kind == UNKNOWN or one.in_elements is not None
    return [
        (
            "transfer" if one.kind in POINT_TO_POINT else one.kind,
            (one.dtype, one.in_elements, one.out_elements) if has_sizes[lane] and one.kind in _SAME_SIZES else None,
        )
        for one, lane in zip(forms, lanes, strict=True)
    ]


class PartsByCollective:
    """Parts that ranks had in collectives.

    Attributes:
        number: number of the collective of each part, -1 for none; numbers go from 0 on without gaps.
        trace: place of the rank of each part.
        start_ns, end_ns: start and end of each part, on one clock.
    """

    number: Any
    trace: Codes
    start_ns: Any
    end_ns: Any

    def __len__(self) -> int:
        return self._collectives

    @cached_property
    def _collectives(self) -> int:
        return int(self.number.max(initial=-1)) + 1

    @cached_property
    def order(self) -> np.ndarray:
        """Matched parts by collective, then by rank."""
        order = np.argsort(self.number, kind="stable").astype(np.int32)
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
