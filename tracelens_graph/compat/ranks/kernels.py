"""Kernels of collectives on all ranks, with their arguments, as TraceLens's tables show them.

What is one collective is matched by position, see `matched_by_position`. Groups are separated by their ranks, too: one
name may stand for a group per node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.matching import matched_by_position
from tracelens_graph.analyses.shared.gpu_work import as_tracelens_counts
from tracelens_graph.analyses.shared.grouping import group_by, text_codes
from tracelens_graph.analyses.timeline.collectives import FIELDS, KEYS, argument_cell, communication_kernels, megabytes
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.collective_kinds import UNKNOWN, kind_of, kind_of_kernel
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.info import MOST_RANKS
from tracelens_graph.graph.trace_set import TraceMember, TraceSet
from tracelens_graph.utils.arrays import Codes, Ns

ALL = "all"
"""Name of the group of all ranks, where recordings name none."""

TRANSFERS = ("send", "recv", "send_recv")
"""Kinds of point-to-point transfers."""


@dataclass(frozen=True)
class Arguments:
    """What kernels say of their collective; None is what was not recorded.

    Attributes:
        cells: the cells of `KEYS`, by column.
    """

    cells: dict[str, Any]

    @property
    def group(self) -> str | None:
        """Name of the process group."""
        return self.cells["Process Group Name"]

    @property
    def ranks(self) -> list[int] | None:
        """Ranks of the group, where all of them are listed."""
        listed = self.cells["Process Group Ranks"]
        return listed if isinstance(listed, list) and listed else None

    @property
    def kind(self) -> str:
        """Kind of the collective, one name for all of PyTorch's; `unknown` where nothing shows it."""
        return kind_of(self.cells["Collective name"] or "")

    @property
    def group_size(self) -> int | None:
        """Number of ranks in the group."""
        size = self.cells["Group size"]
        return size if isinstance(size, int) and 0 < size <= MOST_RANKS else len(self.ranks or ()) or None

    def elements(self, way: str) -> int | None:
        """Elements that the rank puts in (`In`) or gets out (`Out`)."""
        count = self.cells[f"{way} msg nelems"]
        return count if isinstance(count, int) and abs(count) < 2**63 else None

    def megabytes(self, way: str) -> float:
        """Their size in units of 2**20 bytes; NaN where number or type is not known."""
        return megabytes(self.cells[f"{way} msg nelems"], self.cells["dtype"])


class RankKernels:
    """Kernels of collectives on all ranks of the last trace's run, by rank and start. Arrays have one entry per kernel.

    Attributes:
        traces: the ranks, ascending; `ranks` are their numbers.
        place: position in `traces`.
        start_ns, dur_ns: start on the clock of the set, and duration.
        stream: stream on the device, -1 for none.
        argument_codes: position in `arguments`.
        arguments: the different arguments that kernels carry.
        borrowed: how many kernels are shown with the arguments of their op.
        is_simplified: whether no kernel names a group and each rank uses one stream: then all are of the group `ALL`.

    Raises:
        AnalysisError: a rank is there twice.
    """

    def __init__(self, traces: TraceSet) -> None:
        self.traces, self.ranks = _by_rank(traces)
        parts = [_kernels_of(trace) for trace in self.traces]
        self.place = np.repeat(np.arange(len(parts)), [len(part.start_ns) for part in parts])
        self.start_ns, self.dur_ns, self.stream, self._sequence = (
            np.concatenate([getattr(part, name) for part in parts]) if parts else np.zeros(0, np.int64)
            for name in ("start_ns", "dur_ns", "stream", "sequence")
        )
        raw = [one for part in parts for one in part.arguments]
        self.argument_codes = text_codes(raw)
        distinct = dict.fromkeys(raw)
        self.arguments = [_arguments(one) for one in distinct]
        self.borrowed = sum(part.borrowed for part in parts)
        self.is_simplified = self._has_no_groups()

    def __len__(self) -> int:
        return len(self.place)

    def _has_no_groups(self) -> bool:
        if not len(self) or any(one.group is not None for one in self.arguments):
            return False
        _, first = group_by(self.place, self.stream)
        return len(first) == len(np.unique(self.place))

    def by_arguments(self, values: Sequence[Any] | np.ndarray, dtype: Any = float) -> np.ndarray:
        """Per kernel the value of its arguments, from one value per entry of `arguments`."""
        return np.array(values, dtype)[self.argument_codes] if len(values) else np.zeros(0, dtype)

    @cached_property
    def groups(self) -> tuple[list[tuple[str | None, str]], list[list[int] | None], np.ndarray]:
        """Name and ranks, as text, of the groups of processes; their ranks; the group of each of the arguments."""
        apart = not self.is_simplified
        named = [(one.group, str(one.cells["Process Group Ranks"])) if apart else (ALL, "") for one in self.arguments]
        ranks: dict[tuple[str | None, str], list[int] | None] = {}
        for group, one in zip(named, self.arguments, strict=True):
            if group not in ranks:
                ranks[group] = self.ranks_of(one)
        places = {group: place if group[0] is not None else -1 for place, group in enumerate(ranks)}
        return list(ranks), list(ranks.values()), np.array([places[group] for group in named], np.int64)

    @cached_property
    def group(self) -> Codes:
        """Number of the group of processes of each kernel, -1 where none is known."""
        return self.by_arguments(self.groups[2], np.int64)

    def name_of(self, group: int) -> str | None:
        """Name of the group with a number."""
        return self.groups[0][group][0]

    def ranks_of(self, one: Arguments) -> list[int] | None:
        """Ranks of the group of a kernel with some arguments; None where nothing shows it."""
        if self.is_simplified:
            return self.ranks
        return one.ranks or (list(range(self._world_size)) if one.group_size == self._world_size else None)

    @property
    def _world_size(self) -> int:
        return max((trace.core.info.world_size or 0 for trace in self.traces), default=0)

    @cached_property
    def number(self) -> Codes:
        """Place of each kernel in its group, from 0 on, equal for those of one collective; -1 without a group."""
        # Without groups nothing separates a transfer from an all-to-all, which NCCL runs in kernels of the same name.
        transfers_apart = not self.is_simplified
        is_transfer = self.by_arguments([transfers_apart and one.kind in TRANSFERS for one in self.arguments], bool)
        return matched_by_position(self.group, self.place, self._sequence, is_transfer)

    def ts(self) -> np.ndarray:
        """Start of each kernel as the file of the first rank would have it, us."""
        if not self.traces:
            return np.zeros(0)
        first = self.traces[0]
        zero = (first.clock_ns or 0) - first.offset_ns - _base_ns(first.core)
        ns = self.start_ns + zero
        return ns // 1000 + ns % 1000 / 1e3  # floats of as many ns as have passed since 1970 are 256 ns apart


@dataclass(frozen=True)
class _Part:
    """The kernels of one rank, by start."""

    start_ns: Ns
    dur_ns: Ns
    stream: Codes
    sequence: Codes
    arguments: list[tuple[Any, ...]]
    borrowed: int


def _kernels_of(trace: TraceMember) -> _Part:
    core, c = trace.core, trace.core.columns
    rows, source = communication_kernels(as_tracelens_counts(trace.window))
    order = np.lexsort((c.uid[rows], c.start_ns[rows]))
    rows, source = rows[order], source[order]
    arguments, sequence = [], []
    for row, at, uid in zip(rows.tolist(), source.tolist(), c.uid[source].tolist(), strict=True):
        args: Mapping[str, Any] = core.collective_args[uid] if at >= 0 else {}
        if args.get("kind") is None or not _is_listed(args.get("ranks")):
            args = _completed(core, row, args)
        values = map(args.get, FIELDS)
        arguments.append(tuple(one if isinstance(one, str | int | float | None) else str(one) for one in values))
        number = args.get("sequence")
        sequence.append(number if type(number) is int and 0 <= number < 2**62 else -1)
    return _Part(
        c.start_ns[rows] + trace.offset_ns,
        c.dur_ns[rows],
        c.stream[rows],
        np.array(sequence, np.int64),
        arguments,
        int(np.count_nonzero((source >= 0) & (source != rows))),
    )


def _is_listed(ranks: Any) -> bool:
    """Whether ranks are listed in full. PyTorch cuts long lists short."""
    return isinstance(ranks, list) or (isinstance(ranks, str) and "..." not in ranks)


def _completed(core: Core, row: int, args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a kernel with what stands elsewhere: its kind by its launch or name, its ranks by the metadata."""
    at = collectives_of(core).of_row.get(row)
    node = None if at is None else collectives_of(core).nodes[at]
    kind = args.get("kind") or (node and node.kind)
    if kind in (None, UNKNOWN):
        kind = kind_of_kernel(core.names[core.columns.name[row]])
    ranks = args.get("ranks")
    if node and node.ranks and not _is_listed(ranks):
        ranks = str(list(node.ranks))
    return {**args, "kind": None if kind == UNKNOWN else kind, "ranks": ranks}


def _arguments(raw: Sequence[Any]) -> Arguments:
    return Arguments({key: argument_cell(key, value) for key, value in zip(KEYS, raw, strict=True)})


def _by_rank(traces: TraceSet) -> tuple[list[TraceMember], list[int]]:
    """The traces of the last one's run by rank, and their ranks: their places, unless all of them have a rank."""
    members = list(traces.of_run()) if len(traces) else []
    ranks = [member.rank for member in members if member.rank is not None]
    if len(ranks) < len(members):
        return members, list(range(len(members)))
    if doubled := sorted(rank for rank, count in Counter(ranks).items() if count > 1):
        twice = [one.name for one in members if one.rank == doubled[0]]
        raise AnalysisError(f"rank {doubled[0]} is there more than once: {', '.join(twice)}")
    order = sorted(range(len(members)), key=ranks.__getitem__)
    return [members[at] for at in order], [ranks[at] for at in order]


def _base_ns(core: Core) -> int:
    """What the file's times count from, ns since 1970; 0 where it does not say."""
    base = core.info.metadata.get("baseTimeNanoseconds")
    return int(base) if isinstance(base, int) or (isinstance(base, str) and base.isdecimal()) else 0
