"""TraceLens's tables of the collectives of all ranks of a job, by name and column.

    tables = tracelens_tables(load_set("profiles/"))
    tables["straggler_summary"]

Which kernels count, and which of them are one collective: `tracelens_kernels`. Sizes are in units of 2^20 bytes and
bandwidths in units of 2^30, whatever their names say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from tracelens_graph.analyses.ranks.nodes import Nodes, devices_of, host_of
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.compat.ranks.all2allv import (
    all2allv_columns,
    heatmap,
    is_all2allv,
    summary_all2allv_columns,
)
from tracelens_graph.compat.ranks.implicit_sync import (
    has_barrier,
    implicit_sync_columns,
    straggler_columns,
    summary_implicit_sync_columns,
)
from tracelens_graph.compat.ranks.instances import Instances
from tracelens_graph.compat.ranks.kernels import Arguments, RankKernels
from tracelens_graph.compat.ranks.long import long_columns, summary_long_columns
from tracelens_graph.compat.ranks.schemas import STATISTICS
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.collectives import element_bytes
from tracelens_graph.graph.trace_set import TraceSet, titled
from tracelens_graph.registry import schema_of
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.suggest import hint

DEFAULT_STATISTICS = ("mean", "median", "min", "max")

COLUMNS = ("owner", "stream")
"""The columns that lean graphs have to have for these tables; see `graph.graph.lean`."""

_SHARED = ("Collective name", "Group size", "dtype")
_EVENLY = (*_SHARED, "In msg nelems", "Out msg nelems")
"""What all members of a collective have to agree on, and of one in which all ranks do the same."""

_ALWAYS = ("nccl_summary_implicit_sync", "nccl_summary_long", "nccl_long", "nccl_implicit_sync")


def tracelens_tables(
    traces: Any,
    strict: bool = True,
    *,
    run: str | None = None,
    ranks_per_node: int | None = None,
    statistics: Sequence[str] = DEFAULT_STATISTICS,
) -> dict[str, Table]:
    """TraceLens's tables of the collectives of all ranks, in the order of its report.

    Those of uneven all-to-alls and of stragglers are there only if they have rows.

    Args:
        traces: the ranks: a `TraceSet`, or graphs or windows of them. Of a window, the kernels in it count.
        strict: whether it is an error that members of a collective disagree on its kind, type or size. If not, what the
            lowest rank says counts, and a note names such collectives.
        run: name of a run; by default that of the last trace.
        ranks_per_node: ranks that run on one node, for `node_id` and `node_span`; by default what the recordings tell.
        statistics: those that summaries have, of `STATISTICS`.

    Raises:
        AnalysisError: there is no such run, a rank is there twice, members of a collective disagree and `strict` is
            set, or a statistic is none of those.
    """
    return RankTables(TraceSet.of(traces), strict, run=run, ranks_per_node=ranks_per_node).tables(statistics)


class RankTables:
    """The tables one by one, each made when it is first asked for; see `tracelens_tables`."""

    def __init__(
        self, traces: TraceSet, strict: bool = True, *, run: str | None = None, ranks_per_node: int | None = None
    ) -> None:
        self.kernels = RankKernels(traces, run)
        self._strict = strict
        recordings = self.kernels.traces
        hosts, devices = [host_of(one) for one in recordings], [devices_of(one.core) for one in recordings]
        self._nodes = Nodes.of(self.kernels.ranks, hosts, devices, ranks_per_node)

    def tables(self, statistics: Sequence[str] = DEFAULT_STATISTICS) -> dict[str, Table]:
        """All tables in the order of TraceLens's report; of those of all-to-alls and stragglers the ones with rows."""
        found = {
            "nccl_summary_implicit_sync": self.summary_implicit_sync(statistics),
            "nccl_summary_long": self.summary_long,
            "nccl_summary_all2allv": self.summary_all2allv(statistics),
            "nccl_all2allv_heatmap": self.all2allv_heatmap,
            "nccl_long": self.long,
            "nccl_implicit_sync": self.implicit_sync,
            "nccl_all2allv": self.all2allv,
            "straggler_summary": self.straggler_summary,
        }
        return {name: table for name, table in found.items() if len(table) or name in _ALWAYS}

    # --- kernels -------------------------------------------------------------------------------------------------

    @cached_property
    def long(self) -> Table:
        """Every kernel, by rank and start."""
        return self._table("nccl_long", long_columns(self.kernels, self._nodes), self._notes_of_kernels())

    @cached_property
    def summary_long(self) -> Table:
        """Kernels by rank, arguments and stream."""
        columns = summary_long_columns(self.kernels, self._nodes)
        return self._table("nccl_summary_long", columns, self._notes_of_kernels())

    def _notes_of_kernels(self) -> Iterator[str]:
        kernels = self.kernels
        if not len(kernels):
            yield "no rank has kernels of collectives"
        if kernels.is_simplified:
            yield "no kernel names its process group and each rank uses one stream: matched by their order there"
        elif lost := int((kernels.number < 0).sum()):
            yield f"{lost:,} of {len(kernels):,} kernels name no process group: matched with nothing"
        if kernels.borrowed:
            yield f"{kernels.borrowed:,} kernels carry no arguments of their own: shown with those of their op"
        dtypes = {one.cells["dtype"] for one in kernels.arguments}
        if strange := sorted(one for one in dtypes if one is not None and element_bytes(one) is None):
            yield f"no size is known for elements of type {', '.join(f'{dtype:.64}' for dtype in strange)}"

    # --- collectives with a barrier ------------------------------------------------------------------------------

    @cached_property
    def _with_barrier(self) -> Instances:
        return self._instances(has_barrier, _EVENLY)

    @cached_property
    def _columns_with_barrier(self) -> dict[str, Cells]:
        return implicit_sync_columns(self._with_barrier, self._nodes)

    @cached_property
    def implicit_sync(self) -> Table:
        """Each collective that ends together on all ranks."""
        return self._table("nccl_implicit_sync", self._columns_with_barrier, self._notes_of(self._with_barrier))

    def summary_implicit_sync(self, statistics: Sequence[str] = DEFAULT_STATISTICS) -> Table:
        """These by kind, type and size.

        Args:
            statistics: which, of `STATISTICS`.
        """
        columns = summary_implicit_sync_columns(self._columns_with_barrier, _checked(statistics))
        return self._table("nccl_summary_implicit_sync", columns, self._notes_of(self._with_barrier))

    @cached_property
    def straggler_summary(self) -> Table:
        """Which ranks the others wait for."""
        return self._table("straggler_summary", straggler_columns(self._with_barrier, self._nodes), ())

    # --- uneven all-to-alls --------------------------------------------------------------------------------------

    @cached_property
    def _uneven(self) -> Instances:
        return self._instances(is_all2allv, _SHARED)

    @cached_property
    def _columns_uneven(self) -> dict[str, Cells]:
        return all2allv_columns(self._uneven, self._nodes)

    @cached_property
    def all2allv(self) -> Table:
        """Each uneven all-to-all."""
        return self._table("nccl_all2allv", self._columns_uneven, self._notes_of(self._uneven))

    def summary_all2allv(self, statistics: Sequence[str] = DEFAULT_STATISTICS) -> Table:
        """These by process group and type.

        Args:
            statistics: which, of `STATISTICS`.
        """
        columns = summary_all2allv_columns(self._columns_uneven, _checked(statistics))
        return self._table("nccl_summary_all2allv", columns, self._notes_of(self._uneven))

    @cached_property
    def all2allv_heatmap(self) -> Table:
        """What each rank sends to each other one."""
        found = heatmap(self._uneven)
        notes = (
            [f"{found.left_out:,} kernels do not tell how much goes to which rank: left out"] if found.left_out else []
        )
        return self._table("nccl_all2allv_heatmap", found.columns, notes)

    # --- what they share -----------------------------------------------------------------------------------------

    def _instances(self, chosen: Callable[[Arguments], bool], agree: Sequence[str]) -> Instances:
        return Instances.where(self.kernels, chosen, agree, self._strict)

    def _notes_of(self, found: Instances) -> Iterator[str]:
        if found.mismatches:
            others = f" and {len(found.mismatches) - 1:,} more" if len(found.mismatches) > 1 else ""
            yield f"members disagree, and what the lowest rank says counts: {found.mismatches[0]}{others}"
        if lacking := found.lacking:
            yield f"{lacking:,} of {len(found):,} collectives lack ranks of their groups, which may be the last"

    def _table(self, name: str, columns: Mapping[str, Cells], notes: Iterator[str] | Sequence[str]) -> Table:
        schema = schema_of(name)
        return schema.table(columns, titled(schema.answers.removesuffix("."), self.kernels.traces), notes)


def _checked(statistics: Sequence[str]) -> Sequence[str]:
    for one in statistics:
        if one not in STATISTICS:
            raise AnalysisError(f"there is no statistic {one!r}; {hint(str(one), STATISTICS)}")
    return statistics
