"""Collectives of several ranks as TraceLens's tables match them: kernels of one number in one process group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.parts import PartsByCollective
from tracelens_graph.analyses.ranks.rank_collectives import UNKNOWN_SPAN, Nodes
from tracelens_graph.analyses.shared.grouping import Cells, group_by, text_codes
from tracelens_graph.compat.ranks.kernels import Arguments, RankKernels
from tracelens_graph.errors import AnalysisError
from tracelens_graph.utils.arrays import Codes, Mask, Rows
from tracelens_graph.utils.texts import printable


class Instances(PartsByCollective):
    """Collectives, each with one kernel per rank that took part in it.

    Args:
        kernels: those of all ranks.
        number: number of the collective of each kernel, -1 for none; they count in the order in which the long table
            names them.

    Attributes:
        mismatches: one line for each that members say different things of; empty in strict mode.
    """

    def __init__(self, kernels: RankKernels, number: Codes) -> None:
        self.kernels, self.number, self.trace = kernels, number, kernels.place
        self.start_ns, self.end_ns = kernels.start_ns, kernels.start_ns + kernels.dur_ns
        self.mismatches: Sequence[str] = ()

    @classmethod
    def where(
        cls, kernels: RankKernels, chosen: Callable[[Arguments], bool], agree: Sequence[str], strict: bool
    ) -> Instances:
        """The collectives in which some rank's kernel carries certain arguments.

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
        number = np.full(len(kernels), -1, np.int64)
        number[matched] = _counted(wanted[matched[first]])[of]  # what the lowest rank says counts
        found = cls(kernels, number)
        found.mismatches = found.disagreements(agree)
        if found.mismatches and strict:
            more = f"; and {len(found.mismatches) - 1:,} more" if len(found.mismatches) > 1 else ""
            raise AnalysisError(f"{found.mismatches[0]}{more}")
        return found

    def only(self, kept: Mask) -> Instances:
        """Some of them."""
        return Instances(self.kernels, np.where(self.number >= 0, self.per_part(_counted(kept)), -1))

    @cached_property
    def lowest(self) -> Rows:
        """For each collective the kernel of its lowest rank."""
        return self.order[self.first]

    # --- what members say ----------------------------------------------------------------------------------------

    def disagreements(self, columns: Sequence[str]) -> list[str]:
        """For each collective with members that say different things, which collective, what, and which ranks."""
        found: dict[int, str] = {}
        for column in columns:
            codes = self.kernels.by_arguments(
                text_codes([repr(one.cells[column]) for one in self.kernels.arguments]), np.int64
            )
            odd = self.order[codes[self.order] != np.repeat(codes[self.lowest], self.count)]
            _, firsts = np.unique(self.number[odd], return_index=True)
            for at in odd[firsts].tolist():
                number = int(self.number[at])
                if number not in found:
                    found[number] = self._mismatch(column, int(self.lowest[number]), at)
        return [found[number] for number in sorted(found)]

    def _mismatch(self, column: str, one: int, other: int) -> str:
        kernels = self.kernels
        cells = [kernels.arguments[kernels.argument_codes[at]].cells[column] for at in (one, other)]
        ranks = [kernels.ranks[kernels.place[at]] for at in (one, other)]
        listed = " and ".join(f"{cell!s:.64} on rank {rank}" for cell, rank in zip(cells, ranks, strict=True))
        return printable(f"collective {collective_id(kernels, one):.64}: {column} is {listed}")

    @cached_property
    def arguments(self) -> list[Arguments]:
        """For each collective the arguments of its lowest rank."""
        return [self.kernels.arguments[at] for at in self.kernels.argument_codes[self.lowest].tolist()]

    def spans(self, nodes: Nodes) -> list[str]:
        """For each collective whether the ranks of its group are on one node."""
        by_group = spans_of_groups(self.kernels, nodes)
        return [by_group[group] for group in self.kernels.group[self.lowest].tolist()]

    @property
    def ids(self) -> list[str]:
        """TraceLens's name for each collective."""
        return [collective_id(self.kernels, at) for at in self.lowest.tolist()]

    @property
    def lacking(self) -> int:
        """Number of them that have fewer members than their group has ranks."""
        size = self.kernels.by_arguments([len(self.kernels.ranks_of(one) or ()) or one.group_size or 0
                                          for one in self.kernels.arguments], np.int64)  # fmt: skip
        return int(np.count_nonzero(self.count < size[self.lowest]))

    # --- columns -------------------------------------------------------------------------------------------------

    @cached_property
    def places(self) -> list[int]:
        """Positions of the ranks that take part in any of them."""
        return np.unique(self.trace[self.order]).tolist()

    def wide(self, values: np.ndarray | list[Any], place: int) -> Cells:
        """For each collective the value of one rank's kernel: NaN, or None in a list, where it takes no part."""
        # Kernels stand rank by rank, so those of one rank are a range.
        begin, end = np.searchsorted(self.trace, (place, place + 1)).tolist()
        of_rank = begin + np.flatnonzero(self.number[begin:end] >= 0)
        if isinstance(values, np.ndarray):
            column = np.full(len(self), np.nan)
            column[self.number[of_rank]] = values[of_rank]
            return column
        cells: list[Any] = [None] * len(self)
        for number, at in zip(self.number[of_rank].tolist(), of_rank.tolist(), strict=True):
            cells[number] = values[at]
        return cells


def _counted(kept: Mask) -> Rows:
    """Numbers of those that are kept, from 0 on; -1 for the others."""
    return np.where(kept, np.cumsum(kept) - 1, -1)


def spans_of_groups(kernels: RankKernels, nodes: Nodes) -> list[str]:
    """For each group of processes whether its ranks are on one node; the last one is for kernels without a group."""
    return [*map(nodes.span, kernels.groups[1]), UNKNOWN_SPAN]


def collective_id(kernels: RankKernels, at: int) -> str:
    """TraceLens's name for the collective of a kernel: its group and its number in it."""
    return f"{kernels.name_of(int(kernels.group[at]))}_{kernels.number[at]}"
