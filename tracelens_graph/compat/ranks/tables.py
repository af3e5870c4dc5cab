"""TraceLens's tables of the collectives of all ranks of a job, by name and column.

    tables = tracelens_tables(load_set("profiles/"))
    tables["straggler_summary"]

Which kernels count, and which of them are one collective: `tracelens_kernels`. Sizes are in units of 2^20 bytes and
bandwidths in units of 2^30, whatever their names say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from tracelens_graph.analyses.ranks.rank_collectives import Nodes, devices_of, host_of
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.compat.ranks.columns import (
    all2allv_columns,
    has_barrier,
    heatmap,
    implicit_sync_columns,
    long_columns,
    straggler_columns,
    summary_all2allv_columns,
    summary_implicit_sync_columns,
    summary_long_columns,
)
from tracelens_graph.compat.ranks.instances import Instances
from tracelens_graph.compat.ranks.kernels import RankKernels
from tracelens_graph.compat.ranks.schemas import STATISTICS
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.collectives import element_bytes
from tracelens_graph.graph.trace_set import TraceSet, titled
from tracelens_graph.registry import schema_of
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.suggest import hint

DEFAULT_STATISTICS = ("mean", "median", "min", "max")

COLUMNS = ("owner", "stream")
"""The columns that lean graphs have to have for these tables; see `Graph.lean`."""

_SHARED = ("Collective name", "Group size", "dtype")
_EVENLY = (*_SHARED, "In msg nelems", "Out msg nelems")
"""What all members of a collective have to agree on, and of one in which all ranks do the same."""

_ALWAYS = ("nccl_summary_implicit_sync", "nccl_summary_long", "nccl_long", "nccl_implicit_sync")


def tracelens_tables(
    traces: Any,
    strict: bool = True,
    *,
    ranks_per_node: int | None = None,
    statistics: Sequence[str] = DEFAULT_STATISTICS,
) -> dict[str, Table]:
    """TraceLens's tables of the collectives of all ranks, in the order of its report.

    Those of uneven all-to-alls and of stragglers are there only if they have rows.

    Args:
        traces: the ranks: a `TraceSet`, or graphs or windows of them; of several runs those of the last trace's. Of a
            window, the kernels in it count.
        strict: whether it is an error that members of a collective disagree on its kind, type or size. If not, what the
            lowest rank says counts, and a note names such collectives.
        ranks_per_node: ranks that run on one node, for `node_id` and `node_span`; by default what the recordings show.
        statistics: those that summaries have, of `STATISTICS`.

    Raises:
        AnalysisError: a rank is there twice, members of a collective disagree and `strict` is set, or a statistic is
            none of those.
    """
    return RankTables(TraceSet.of(traces), strict, ranks_per_node).tables(statistics)


class RankTables:
    """The tables one by one; see `tracelens_tables`."""

    def __init__(self, traces: TraceSet, strict: bool = True, ranks_per_node: int | None = None) -> None:
        self.kernels = RankKernels(traces)
        self._strict = strict
        recordings = self.kernels.traces
        hosts, devices = [host_of(one) for one in recordings], [devices_of(one.core) for one in recordings]
        self.nodes = Nodes.of(self.kernels.ranks, hosts, devices, ranks_per_node)

    def tables(self, statistics: Sequence[str] = DEFAULT_STATISTICS) -> dict[str, Table]:
        """All tables in the order of TraceLens's report; of those of all-to-alls and stragglers the ones with rows."""
        found = {name: self.table(name, statistics) for name in _TABLES}
        return {name: table for name, table in found.items() if len(table) or name in _ALWAYS}

    def table(self, name: str, statistics: Sequence[str] = DEFAULT_STATISTICS) -> Table:
        """One of the tables.

        Raises:
            AnalysisError: there is no such statistic, or members of a collective disagree.
        """
        for one in statistics:
            if one not in STATISTICS:
                raise AnalysisError(f"there is no statistic {one!r}; {hint(str(one), STATISTICS)}")
        columns, notes = _TABLES[name](self, statistics)
        schema = schema_of(name)
        return schema.table(columns, titled(schema.answers.removesuffix("."), self.kernels.traces), list(notes))

    # --- what several are made of ----------------------------------------------------------------------------------

    @cached_property
    def even(self) -> Instances:
        """The collectives that no rank leaves before all have come."""
        return Instances.where(self.kernels, has_barrier, _EVENLY, self._strict)

    @cached_property
    def uneven(self) -> Instances:
        """The uneven all-to-alls."""
        return Instances.where(self.kernels, lambda one: one.kind == "all_to_allv", _SHARED, self._strict)

    @cached_property
    def of_even(self) -> dict[str, Cells]:
        """Columns of the former, one by one."""
        return implicit_sync_columns(self.even, self.nodes)

    @cached_property
    def of_uneven(self) -> dict[str, Cells]:
        """Columns of the latter, one by one."""
        return all2allv_columns(self.uneven, self.nodes)

    @property
    def heatmap(self) -> _Made:
        """What each rank sends to each other one."""
        columns, left_out = heatmap(self.uneven)
        return columns, [f"{left_out:,} kernels do not say how much goes to which rank: left out"] if left_out else []


_Made = tuple[Mapping[str, Cells], Iterable[str]]

_TABLES: Mapping[str, Callable[[RankTables, Sequence[str]], _Made]] = {
    "nccl_summary_implicit_sync": lambda t, which: (summary_implicit_sync_columns(t.of_even, which), _notes(t.even)),
    "nccl_summary_long": lambda t, _: (summary_long_columns(t.kernels, t.nodes), _notes_of_kernels(t.kernels)),
    "nccl_summary_all2allv": lambda t, which: (summary_all2allv_columns(t.of_uneven, which), _notes(t.uneven)),
    "nccl_all2allv_heatmap": lambda t, _: t.heatmap,
    "nccl_long": lambda t, _: (long_columns(t.kernels, t.nodes), _notes_of_kernels(t.kernels)),
    "nccl_implicit_sync": lambda t, _: (t.of_even, _notes(t.even)),
    "nccl_all2allv": lambda t, _: (t.of_uneven, _notes(t.uneven)),
    "straggler_summary": lambda t, _: (straggler_columns(t.even, t.nodes), ()),
}
"""Name of a table, in the order of TraceLens's report -> its columns and notes, for some statistics."""


def _notes(found: Instances) -> Iterator[str]:
    if found.mismatches:
        others = f" and {len(found.mismatches) - 1:,} more" if len(found.mismatches) > 1 else ""
        yield f"members disagree, and what the lowest rank says counts: {found.mismatches[0]}{others}"
    if lacking := found.lacking:
        yield f"{lacking:,} of {len(found):,} collectives lack ranks of their groups, which may be the last"


def _notes_of_kernels(kernels: RankKernels) -> Iterator[str]:
    if not len(kernels):
        yield "no rank has kernels of collectives"
    if kernels.is_simplified:
        yield "no kernel names its process group and each rank uses one stream: matched by their order there"
    elif lost := int((kernels.number < 0).sum()):
        yield f"{lost:,} of {len(kernels):,} kernels name no process group: matched with nothing"
    if kernels.borrowed:
        yield f"{kernels.borrowed:,} kernels carry no arguments of their own: shown with those of their op"
    dtypes = {one.cells["dtype"] for one in kernels.arguments}
    if unknown := sorted(one for one in dtypes if one is not None and element_bytes(one) is None):
        yield f"no size is known for elements of type {', '.join(f'{dtype:.64}' for dtype in unknown)}"
