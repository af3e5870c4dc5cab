"""What performance models say of the calls of a trace: the methods of `TreePerfAnalyzer` for cost and rates."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tracelens_graph.analyses.performance.perf_tables import attributed_calls
from tracelens_graph.analyses.performance.unified import unified
from tracelens_graph.compat import summaries
from tracelens_graph.compat.event import TraceEvent
from tracelens_graph.compat.perf_calls import (
    calls_of,
    costed,
    describe,
    estimate,
    estimates,
    metric_columns,
    perf_frame,
    size_columns,
    unified_frame,
)
from tracelens_graph.compat.trace_to_tree import TraceToTree
from tracelens_graph.errors import AnalysisError
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.window import Window
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.devices import Architecture
from tracelens_graph.perf.model import OpModel
from tracelens_graph.perf.registry import model_named

Event = Mapping[str, Any]


class PerformanceMethods:
    """Cost, achieved rates and roofline of calls.

    Attributes:
        tree: the tree of the trace.
        arch: the device, for the roofline; None for none.
        window: the whole trace; performance models are those of its extension.
        detect_recompute: whether frames separate recomputation of activations from the rest.
    """

    tree: TraceToTree
    arch: Architecture | None
    window: Window
    detect_recompute: bool

    @property
    def models(self) -> Mapping[str, OpModel]:
        """Op name -> performance model."""
        return extension_of(self.window).all_models

    # --- one family --------------------------------------------------------------------------------------------

    def compute_perf_metrics(
        self, event: Event, bwd: bool = False, non_data_mov: bool = False, perf_model_class: OpModel | None = None
    ) -> dict[str, Any]:
        """What a model says of one call, and what was reached.

        Keys: `GFLOPS` (operations / 10^9), `Data Moved (MB)` (bytes / 2^20), `FLOPS/Byte`, `TB/s`, `TFLOPS/s`,
        `Kernel Time (µs)` (busy time of the GPU events below the call), `Compute Spec`; with a device
        `Roofline Time (µs)`, `Roofline Bound`, `Pct Roofline`; and the sizes, as `param: M`. None or NaN is what is
        not known.

        Args:
            bwd: of its backward pass instead; time is that of the backward ops that belong to it.
            non_data_mov: add time and rate without kernels that only copy or transpose, by their names.
            perf_model_class: the model, instead of that of the op's name.

        Raises:
            AnalysisError: there is no model, or it does not apply to the call; the message says why.
        """
        if perf_model_class is not None and not isinstance(perf_model_class, OpModel):
            raise AnalysisError("perf_model_class has to be an OpModel (tracelens_graph.perf.model)")
        core = self.tree.graph
        row = core.row(event["UID"])
        try:
            model = perf_model_class or model_named(core.names[core.columns.name[row]], self.models)
            cost = estimate(core, row, model, bwd)
        except CannotModel as reason:
            raise AnalysisError(f"no cost of {describe(core, row)}: {reason}") from None
        found = costed(calls_of(core, [row], bwd), [cost], self.arch)
        columns = metric_columns(found, non_data_mov) | size_columns(found)
        return {
            name: cells.tolist()[0] if isinstance(cells, np.ndarray) else cells[0] for name, cells in columns.items()
        }

    def compute_fwd_perf_metrics(self, event: Event, non_data_mov: bool = False) -> dict[str, Any]:
        """`compute_perf_metrics` of a call itself."""
        return self.compute_perf_metrics(event, False, non_data_mov)

    def compute_bwd_perf_metrics(self, event: Event, non_data_mov: bool = False) -> dict[str, Any]:
        """`compute_perf_metrics` of the backward pass of a call."""
        return self.compute_perf_metrics(event, True, non_data_mov)

    def build_df_perf_metrics(
        self,
        events: Iterable[Event],
        bwd: bool = False,
        non_data_mov: bool = False,
        include_kernel_details: bool = False,
        include_args: bool = False,
        *,
        include_kernel_names: bool = False,
        detail_level: int = 0,
    ) -> pd.DataFrame:
        """One row per call: which it is, and what `compute_perf_metrics` says of it.

        Args:
            bwd: of their backward passes instead.
            non_data_mov: add time and rate without kernels that only copy or transpose.
            include_kernel_details: add kernel_details: name, dur and stream of each GPU event.
            include_args: add the arguments, as tuples.
            include_kernel_names: add kernel_names: the names alone, as older versions of TraceLens do.
            detail_level: from 1 on, add to products how their tiles fit the device (`tile_columns`), as older
                versions of TraceLens do.

        Raises:
            AnalysisError: `detail_level` asks for tiles, and the number of the device's units is not known.

        Warns:
            UserWarning: calls without an estimate are left out; the message counts them and says why for one.
        """
        units = self._units() if detail_level > 0 else None
        core = self.tree.graph
        rows = [core.row(event["UID"]) for event in events]
        costs, reasons = estimates(core, rows, self.models, bwd)
        if reasons:
            warnings.warn(
                f"{len(reasons):,} of {len(rows):,} calls have no estimate and are left out: {reasons[0]}", stacklevel=2
            )
        known = [(row, cost) for row, cost in zip(rows, costs, strict=True) if cost is not None]
        calls = calls_of(core, [row for row, _ in known], bwd)
        return perf_frame(
            self.tree,
            costed(calls, [cost for _, cost in known], self.arch),
            recompute=self.detect_recompute,
            without_moves=non_data_mov,
            details=include_kernel_details,
            names=include_kernel_names,
            arguments=include_args,
            units=units,
        )

    def _units(self) -> int:
        units = self.arch.value("compute_units") if self.arch else None
        if units is None:
            raise AnalysisError('detail_level=1 needs the units of the device: arch={"num_cus": 304}, or its name')
        return int(units)

    def build_df_fwd_perf_metrics(self, events: Iterable[Event]) -> pd.DataFrame:
        """`build_df_perf_metrics` of calls themselves."""
        return self.build_df_perf_metrics(events)

    def build_df_bwd_perf_metrics(self, events: Iterable[Event]) -> pd.DataFrame:
        """`build_df_perf_metrics` of the backward passes of calls."""
        return self.build_df_perf_metrics(events, bwd=True)

    @staticmethod
    def summarize_df_perf_metrics(
        df_perf_metrics: pd.DataFrame, agg_metrics: Sequence[str] = ("mean", "std"), group_by_num_kernels: bool = False
    ) -> pd.DataFrame:
        """Calls of one op with the same sizes as one row, the greatest time first; of a family, its sheet.

        Args:
            df_perf_metrics: what `build_df_perf_metrics` gives, or rows of it.
            agg_metrics: statistics of rates and times, named as pandas names them; the sum of times is always there.
            group_by_num_kernels: separate calls with different numbers of GPU events; needs the kernel details.

        Raises:
            AnalysisError: the frame lacks the kernel details that are needed.
        """
        _check_details(df_perf_metrics, group_by_num_kernels)
        return summaries.modelled_by_sizes(df_perf_metrics, agg_metrics, group_by_num_kernels)

    # --- each GPU event once -----------------------------------------------------------------------------------

    def collect_unified_perf_events(self) -> list[TraceEvent]:
        """Ops that GPU events are given to, by start, so that each event is given to one op at most.

        That is the outermost op that a model covers, else the op that launched the event. Not among them are
        communication that is in no modelled op, and what is launched outside of ops or beside modelled ones.
        """
        calls, alone = attributed_calls(self.window)
        return [TraceEvent(self.tree, row) for row in calls.rows[~alone].tolist()]

    def build_df_unified_perf_table(
        self,
        events: Iterable[Event] | None = None,
        include_args: bool = True,
        include_perf_metrics: bool = True,
        include_kernel_details: bool = True,
        include_nccl: bool = False,
    ) -> pd.DataFrame:
        """One row per op of `collect_unified_perf_events`, and per GPU event that is given to none of them.

        Such an event is named `op->kernel (Synthetic Op)`, and its UID is that of the GPU event. Columns: which call
        it is, op category, duration_us (on the host), the metrics of `compute_perf_metrics` where a model says them,
        perf_params (the sizes), has_perf_model, and the details of kernels.

        Args:
            events: the ops instead; those without GPU work are left out.
            include_args: add the arguments, as tuples.
            include_perf_metrics: with False there is only the time.
            include_kernel_details: add kernel_details: name, dur and stream of each GPU event.
            include_nccl: give communication that is in no modelled op to the op that launched it; without `events`.
        """
        core = self.tree.graph
        chosen = unified(self.window)
        if events is None:
            calls, alone = attributed_calls(self.window, include_nccl)
        else:
            rows = np.array([core.row(event["UID"]) for event in events], np.int64)
            below = np.searchsorted(core.gpu_rows, core.columns.last[rows], "right") > np.searchsorted(
                core.gpu_rows, rows
            )
            calls, alone = calls_of(core, rows[below].tolist()), np.zeros(int(below.sum()), bool)
        codes = [
            -1 if single else chosen.codes.get(row, -1) for row, single in zip(calls.rows.tolist(), alone, strict=True)
        ]
        costs = [chosen.costs[code] if code >= 0 else None for code in codes]
        return unified_frame(
            self.tree,
            costed(calls, costs, self.arch),
            alone,
            recompute=self.detect_recompute,
            details=include_kernel_details,
            arguments=include_args,
            metrics=include_perf_metrics,
        )

    @staticmethod
    def summarize_df_unified_perf_table(
        df_unified_perf: pd.DataFrame,
        agg_metrics: Sequence[str] = ("mean", "std"),
        include_pct: bool = False,
        group_by_num_kernels: bool = False,
    ) -> pd.DataFrame:
        """Calls of one op with the same arguments as one row, the greatest time first: unified_perf_summary.

        Args:
            df_unified_perf: what `build_df_unified_perf_table` gives, or rows of it.
            agg_metrics: statistics, named as pandas names them; means, deviations and the sum of times are always
                there.
            include_pct: add each row's share of the time, and the running share.
            group_by_num_kernels: separate calls with different numbers of GPU events; needs the kernel details.

        Raises:
            AnalysisError: the frame lacks the kernel details that are needed.
        """
        _check_details(df_unified_perf, group_by_num_kernels)
        return summaries.modelled_by_arguments(df_unified_perf, agg_metrics, include_pct, group_by_num_kernels)


def _check_details(calls: pd.DataFrame, needed: bool) -> None:
    if needed and "kernel_details" not in calls:
        raise AnalysisError("the frame has no column kernel_details: build it with include_kernel_details=True")
