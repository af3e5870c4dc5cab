"""Collectives of several ranks as TraceLens's tables match them: kernels of one number in one process group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.nodes import UNKNOWN_SPAN, Nodes
from tracelens_graph.analyses.shared.grouping import Cells, group_by, text_codes
from tracelens_graph.compat.ranks.kernels import Arguments, RankKernels
from tracelens_graph.errors import AnalysisError
from tracelens_graph.utils.texts import printable


@dataclass(frozen=True)
class Instances:
    """Collectives, each with one kernel per rank that took part in it.

    Attributes:
        kernels: those of all ranks.
        member: positions in `kernels`, by collective, then by rank.
        of: number of the collective of each member; they count in the order in which the long table names them.
        mismatches: one line for each that members say different things of; empty in strict mode.
    """

    kernels: RankKernels
    member: np.ndarray
    of: np.ndarray
    mismatches: Sequence[str] = ()

    @classmethod
    def where(
        cls, kernels: RankKernels, chosen: Callable[[Arguments], bool], agree: Sequence[str], strict: bool
    ) -> Instances:
        """The collectives of which some rank's kernel carries certain arguments.

        Args:
            kernels: those of all ranks.
            chosen: which arguments.
            agree: columns that all members have to agree on.
            strict: whether it is an error if they do not; else those of the lowest rank count.

        Raises:
            AnalysisError: members say different things.
        """
        matched = np.flatnonzero(kernels.number >= 0)
        of, first = group_by(kernels.group[matched], kernels.number[matched])
        wanted = kernels.by_arguments([chosen(one) for one in kernels.arguments], bool)
        takes = wanted[matched[first]]  # what the lowest rank says counts
        kept = takes[of]
        number = np.cumsum(takes) - 1
        member, of = matched[kept], number[of[kept]]
        order = np.argsort(of, kind="stable")
        found = cls(kernels, member[order], of[order])
        mismatches = found.disagreements(agree)
        if mismatches and strict:
            more = f"; and {len(mismatches) - 1:,} more" if len(mismatches) > 1 else ""
            raise AnalysisError(f"{mismatches[0]}{more}")
        return replace(found, mismatches=mismatches)

    def only(self, kept: np.ndarray) -> Instances:
        """Some of them.

        Args:
            kept: for each whether it is one of them.
        """
        members = kept[self.of]
        number = np.cumsum(kept) - 1
        return Instances(self.kernels, self.member[members], number[self.of[members]])

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def first(self) -> np.ndarray:
        """For each collective the place in `member` of its first member, that of the lowest rank."""
        return np.flatnonzero(np.diff(self.of, prepend=-1))

    # --- what members say ----------------------------------------------------------------------------------------

    def disagreements(self, columns: Sequence[str]) -> list[str]:
        """For each collective with members that say different things, which collective, what, and which ranks."""
        found: dict[int, str] = {}
        for column in columns:
            codes = self.kernels.by_arguments(
                text_codes([repr(one.cells[column]) for one in self._arguments]), np.int64
            )
            said = codes[self.member]
            odd = np.flatnonzero(said != np.repeat(said[self.first], self.count))
            _, firsts = np.unique(self.of[odd], return_index=True)
            for at in odd[firsts].tolist():
                number = int(self.of[at])
                if number not in found:
                    found[number] = self._told(column, int(self.member[self.first[number]]), int(self.member[at]))
        return [found[number] for number in sorted(found)]

    def _told(self, column: str, one: int, other: int) -> str:
        kernels = self.kernels
        said = [
            f"{self._arguments[kernels.said[at]].cells[column]!s:.64} on rank {kernels.ranks[kernels.place[at]]}"
            for at in (one, other)
        ]
        return printable(f"collective {collective_id(kernels, one):.64}: {column} is {' and '.join(said)}")

    @property
    def _arguments(self) -> Sequence[Arguments]:
        return self.kernels.arguments

    @cached_property
    def said(self) -> list[Arguments]:
        """For each collective the arguments of its lowest rank."""
        return [self._arguments[at] for at in self.kernels.said[self.member[self.first]].tolist()]

    def spans(self, nodes: Nodes) -> list[str]:
        """For each collective whether the ranks of its group are on one node."""
        by_group = spans_of_groups(self.kernels, nodes)
        return [by_group[group] for group in self.kernels.group[self.member[self.first]].tolist()]

    @property
    def ids(self) -> list[str]:
        """TraceLens's name for each collective."""
        return [collective_id(self.kernels, at) for at in self.member[self.first].tolist()]

    @property
    def lacking(self) -> int:
        """Number of them that have fewer members than their group has ranks."""
        size = self.kernels.by_arguments([len(self.kernels.ranks_of(one) or ()) or one.group_size or 0
                                          for one in self._arguments], np.int64)  # fmt: skip
        return int(np.count_nonzero(self.count < size[self.member[self.first]]))

    # --- times, ns -----------------------------------------------------------------------------------------------

    @cached_property
    def count(self) -> np.ndarray:
        """Number of members of each collective."""
        return np.bincount(self.of, minlength=len(self.first))

    @cached_property
    def place(self) -> np.ndarray:
        """Per member the position of its rank."""
        return self.kernels.place[self.member]

    @cached_property
    def start(self) -> np.ndarray:
        """Per member."""
        return self.kernels.start_ns[self.member]

    @cached_property
    def dur(self) -> np.ndarray:
        """Per member."""
        return self.kernels.dur_ns[self.member]

    @cached_property
    def end(self) -> np.ndarray:
        """Per member."""
        return self.start + self.dur

    def least(self, values: np.ndarray) -> np.ndarray:
        """For each collective the smallest of its members' values."""
        return np.minimum.reduceat(values, self.first) if len(self) else values[:0]

    def most(self, values: np.ndarray) -> np.ndarray:
        """For each collective the greatest."""
        return np.maximum.reduceat(values, self.first) if len(self) else values[:0]

    def sums(self, values: np.ndarray) -> np.ndarray:
        """For each collective the sum."""
        return np.add.reduceat(values, self.first) if len(self) else values[:0]

    def per_member(self, values: np.ndarray) -> np.ndarray:
        """A value per collective as one per member."""
        return np.repeat(values, self.count)

    def lowest_with(self, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """For each collective the position of the lowest rank whose value is the one wanted of that collective."""
        return self.least(np.where(values == self.per_member(wanted), self.place, len(self.kernels.ranks)))

    # --- columns -------------------------------------------------------------------------------------------------

    @cached_property
    def places(self) -> list[int]:
        """Positions of the ranks that take part in any of them."""
        found: list[int] = np.unique(self.place).tolist()
        return found

    @cached_property
    def _by_place(self) -> tuple[np.ndarray, np.ndarray]:
        """Members by rank, and the ranks in that order."""
        order = np.argsort(self.place, kind="stable")
        return order, self.place[order]

    def wide(self, values: np.ndarray | list[Any], place: int) -> Cells:
        """For each collective the value of one rank: NaN, or None in a list, where it takes no part."""
        begin, end = np.searchsorted(self._by_place[1], (place, place + 1)).tolist()
        of_rank = self._by_place[0][begin:end]
        if isinstance(values, np.ndarray):
            column = np.full(len(self), np.nan)
            column[self.of[of_rank]] = values[of_rank]
            return column
        cells: list[Any] = [None] * len(self)
        for number, at in zip(self.of[of_rank].tolist(), of_rank.tolist(), strict=True):
            cells[number] = values[at]
        return cells


def spans_of_groups(kernels: RankKernels, nodes: Nodes) -> list[str]:
    """For each group of processes whether its ranks are on one node; the last one is for kernels without a group."""
    return [*map(nodes.span, kernels.ranks_of_groups), UNKNOWN_SPAN]


def collective_id(kernels: RankKernels, at: int) -> str:
    """TraceLens's name for the collective of a kernel: its group and its number in it."""
    return f"{kernels.name_of(int(kernels.group[at]))}_{kernels.number[at]}"
