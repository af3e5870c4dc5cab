"""TraceLens's `NcclAnalyser`: the collectives of all ranks of a job.

    analyser = NcclAnalyser(["rank0_trace.json", "rank1_trace.json"], world_size=2)
    analyser.build_df_summary_nccl_implicit_sync_cat(agg_metrics=["mean"])

Its frames are TraceLens's tables of `tracelens_graph.compat.ranks.tables`, without the columns of nodes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracelens_graph.compat.cells import in_python
from tracelens_graph.compat.options import warn_of_damage
from tracelens_graph.compat.ranks.tables import DEFAULT_STATISTICS, RankTables
from tracelens_graph.errors import TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceMember, TraceSet
from tracelens_graph.loading.many import load_core_set
from tracelens_graph.loading.one import load_core
from tracelens_graph.registry import schema_of

if TYPE_CHECKING:
    import pandas as pd

_NODES = ("node_id", "node_span")


class NcclAnalyser:
    """Tables of the collectives of all ranks.

    Args:
        list_profile_filepaths: the traces, that of rank 0 first: whatever `tracelens_graph.load` takes, or loaded
            graphs.
        world_size: number of ranks of the job; accepted and not needed.
        use_multiprocessing: load several traces at a time.
        max_workers: how many; by default one per core.

    Raises:
        TraceError: a trace cannot be read.

    Warns:
        DamagedTraceWarning: a trace was broken; the message counts what was repaired and what was lost.
    """

    def __init__(
        self,
        list_profile_filepaths: Iterable[Any],
        world_size: int | None = None,
        use_multiprocessing: bool = False,
        max_workers: int | None = None,
    ) -> None:
        self.list_profile_filepaths = list(list_profile_filepaths)
        self.world_size = world_size
        cores = _loaded(self.list_profile_filepaths, max_workers if use_multiprocessing else 1)
        for core in cores:
            warn_of_damage(core)
        self._traces = TraceSet(TraceMember(core, f"rank {rank}", rank=rank) for rank, core in enumerate(cores))
        self._made: dict[bool, RankTables] = {}

    def build_df_long(self) -> pd.DataFrame:
        """One row per kernel."""
        return self._frame("nccl_long", False)

    def build_df_summary_long(self) -> pd.DataFrame:
        """Kernels by rank, arguments and stream."""
        return self._frame("nccl_summary_long", False)

    def build_df_nccl_implicit_sync_cat(
        self, detailed: bool = False, strict_metadata_check: bool = True
    ) -> pd.DataFrame:
        """One row per collective that ends together on all ranks.

        Args:
            detailed: with columns of each rank.
            strict_metadata_check: whether it is an error that ranks disagree on what they carry out.

        Raises:
            AnalysisError: they do.
        """
        return self._frame("nccl_implicit_sync", strict_metadata_check, detailed)

    def build_df_summary_nccl_implicit_sync_cat(
        self, agg_metrics: Sequence[str] = ("mean", "std"), strict_metadata_check: bool = True
    ) -> pd.DataFrame:
        """These by kind, type and size.

        Args:
            agg_metrics: statistics: mean, median, std, min, max, sum.
            strict_metadata_check: as in `build_df_nccl_implicit_sync_cat`.

        Raises:
            AnalysisError: ranks disagree, or there is no such statistic.
        """
        return self._frame("nccl_summary_implicit_sync", strict_metadata_check, statistics=agg_metrics)

    def build_df_nccl_all2allv(self, detailed: bool = False, strict_metadata_check: bool = True) -> pd.DataFrame:
        """One row per uneven all-to-all; arguments and errors as in `build_df_nccl_implicit_sync_cat`."""
        return self._frame("nccl_all2allv", strict_metadata_check, detailed)

    def build_df_summary_nccl_all2allv(
        self, agg_metrics: Sequence[str] = ("mean", "std", "min", "max"), strict_metadata_check: bool = True
    ) -> pd.DataFrame:
        """These by process group and type; arguments and errors as in `build_df_summary_nccl_implicit_sync_cat`."""
        return self._frame("nccl_summary_all2allv", strict_metadata_check, statistics=agg_metrics)

    def build_df_all2allv_heatmap(self, strict_metadata_check: bool = True) -> pd.DataFrame:
        """What each rank sends to each other one in uneven all-to-alls; without rows if there are none.

        Args:
            strict_metadata_check: whether it is an error that ranks disagree on what they carry out.

        Raises:
            AnalysisError: they do.
        """
        return self._frame("nccl_all2allv_heatmap", strict_metadata_check)

    def build_df_straggler_summary(self, strict_metadata_check: bool = True) -> pd.DataFrame:
        """Which ranks the others wait for, the worst first; argument and error as in `build_df_all2allv_heatmap`."""
        return self._frame("straggler_summary", strict_metadata_check)

    def _frame(
        self, name: str, strict: bool, detailed: bool = True, statistics: Sequence[str] = DEFAULT_STATISTICS
    ) -> pd.DataFrame:
        """A table as TraceLens's frame of it; `detailed` with columns of each rank."""
        if strict not in self._made:
            self._made[strict] = RankTables(self._traces, strict)
        table, declared = self._made[strict].table(name, statistics), schema_of(name)
        columns = {
            name: cells
            for name, cells in table.columns.items()
            if name not in _NODES and (detailed or name in declared)
        }
        return in_python(replace(table, columns=columns)).to_pandas()


def _loaded(sources: Sequence[Any], processes: int | None) -> list[Core]:
    """The graphs of some sources, in their order.

    Raises:
        TraceError: one of them is no trace that can be read.
    """
    if not all(isinstance(one, str | os.PathLike) for one in sources) or len(sources) < 2:
        return [one if isinstance(one, Core) else load_core(one) for one in sources]
    traces = load_core_set([os.fspath(one) for one in sources], processes=processes)
    if len(traces) < len(sources):  # ranks are places in the list, so none may be left out
        raise TraceError("; ".join((*traces.broken, *traces.notes)))
    return [member.core for member in traces]
