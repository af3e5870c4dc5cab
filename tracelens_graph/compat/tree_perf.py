"""TraceLens's `TreePerfAnalyzer`, over the graph: timeline, launchers, kernels and modules as DataFrames.

    analyzer = TreePerfAnalyzer.from_file("trace.json.gz", add_python_func=True)
    calls = analyzer.get_df_kernel_launchers(include_kernel_details=True)
    analyzer.get_df_kernel_launchers_summary(calls[calls["thread_name"] == "main"])

Times are microseconds. Events stay as they are: what TraceLens writes into them stands in the views and frames that
are returned.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tracelens_graph.analyses.ops.launchers import OpCalls, launchers
from tracelens_graph.analyses.shared.gpu_work import as_tracelens_counts
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.compat import summaries
from tracelens_graph.compat.call_frames import calls_frame, kernel_columns, kernel_details
from tracelens_graph.compat.event import MeasuredEvent, TraceEvent
from tracelens_graph.compat.options import Device, device, loaded, refuse, warn_of_damage
from tracelens_graph.compat.summaries import ARGUMENTS, DIRECT, SUBTREE
from tracelens_graph.compat.trace_to_tree import TraceToTree
from tracelens_graph.compat.tree_perf_models import PerformanceMethods
from tracelens_graph.errors import AnalysisError
from tracelens_graph.extensions.extension import Extension
from tracelens_graph.graph.traversals import nearest_above, rows_of_kind
from tracelens_graph.graph.window import Window, whole_window
from tracelens_graph.perf.model import OpModel
from tracelens_graph.schema import PYTHON_KINDS, Kind


class TreePerfAnalyzer(PerformanceMethods):
    """GPU time of a trace by launcher, kernel and module.

    Args:
        tree: a `TraceToTree`, or whatever one can be made of.
        add_python_func: whether Python frames are part of the tree.
        event_to_category: what the printing methods of the tree call an event; kinds decide everything else.
        include_unlinked_kernels: whether the timeline covers GPU events whose launch is not in the trace. Nothing
            else does, except `get_df_kernels`.
        rebuild_tree: build the tree as `add_python_func` says; with False it stays as it is.
        detect_recompute: separate recomputation of activations from the rest; makes Python frames part of the tree.
        arch: the device, for the roofline: TraceLens's description of one (parsed, or the path of its file), or a name
            such as `h100-sxm`.
        models: op name -> performance model; None for all there are.
        use_kernel_name_categories: show what kernels do by their names, in `get_df_kernels`.
        enable_pseudo_ops: let parts of fused work be ops where models are asked.
        jax, python_path, tree_postprocess_extension, enable_origami, inductor_cache_dir: not available.

    Attributes:
        gpu_only: whether the trace has neither ops nor Python frames.

    Raises:
        AnalysisError: an argument asks for what is not available.
    """

    def __init__(
        self,
        tree: Any,
        add_python_func: bool = False,
        arch: Device | None = None,
        jax: bool = False,
        python_path: str | None = None,
        event_to_category: Callable[[Mapping[str, Any]], str] | None = None,
        include_unlinked_kernels: bool = False,
        enable_pseudo_ops: bool = False,
        tree_postprocess_extension: Any = None,
        rebuild_tree: bool = True,
        detect_recompute: bool = False,
        enable_origami: bool = False,
        inductor_cache_dir: str | None = None,
        *,
        models: Mapping[str, OpModel] | None = None,
        use_kernel_name_categories: bool = False,
    ) -> None:
        refuse(
            jax=jax, python_path=python_path, tree_postprocess_extension=tree_postprocess_extension,
            enable_origami=enable_origami, inductor_cache_dir=inductor_cache_dir,
        )  # fmt: skip
        self.arch = device(arch)
        self.enable_pseudo_ops = enable_pseudo_ops
        self.use_kernel_name_categories = use_kernel_name_categories
        self.tree = tree if isinstance(tree, TraceToTree) else TraceToTree(tree)
        everything = self._everything
        self.window = everything if models is None else Extension(registry=models, name="models").of(everything)
        if event_to_category is not None:
            self.tree.event_to_category = event_to_category
        self.include_unlinked_kernels = include_unlinked_kernels
        self.detect_recompute = detect_recompute
        if rebuild_tree:
            self.tree.build_tree(add_python_func or detect_recompute)
        self.add_python_func = self.tree.add_python_func
        self.gpu_only = not len(rows_of_kind(self.tree.graph.columns, (Kind.Op, *PYTHON_KINDS)))

    @staticmethod
    def from_file(profile_filepath: Any, capture_trace_filepath: str | None = None, **options: Any) -> TreePerfAnalyzer:
        """An analyzer of a trace file, or of whatever else `tracelens_graph.load` takes.

        Args:
            capture_trace_filepath: captures of the graphs that it replays: a folder, a file, or several.

        Raises:
            TraceError: the file cannot be read as a trace.
            AnalysisError: an argument asks for what is not available.

        Warns:
            DamagedTraceWarning: the trace was broken; the message counts what was repaired and what was lost.
        """
        source = (
            profile_filepath if capture_trace_filepath is None else loaded(profile_filepath, capture_trace_filepath)
        )
        analyzer = TreePerfAnalyzer(source, **options)
        warn_of_damage(analyzer.tree.graph)
        return analyzer

    # --- timeline ----------------------------------------------------------------------------------------------

    def get_df_gpu_timeline(self, micro_idle_thresh_us: float | None = None) -> pd.DataFrame:
        """How long the GPU computed, communicated, copied and stood idle; see `analyses.timeline.gpu_timeline`.

        Args:
            micro_idle_thresh_us: split idle time into gaps below this length and the others.
        """
        linked_only = not self.include_unlinked_kernels
        return gpu_timeline(
            self.tree.graph, linked_only, micro_idle_thresh_us, by_recompute=self.detect_recompute
        ).to_pandas()

    # --- launchers ---------------------------------------------------------------------------------------------

    def get_kernel_launchers(self, include_nccl: bool = False) -> list[MeasuredEvent]:
        """Events that launched GPU work, by start: ops, and runtime calls under no op.

        Beside their own keys the views have `op category`, `total_direct_kernel_time` and
        `total_subtree_kernel_time` (busy time of the GPU events charged to the event, and of all below it, us),
        `direct_kernel_count`, and `kernel_details` (name, dur and stream of each GPU event charged to it).

        Args:
            include_nccl: whether communication kernels are charged to launchers; subtrees hold them anyway.
        """
        found = self._launchers(include_nccl)
        columns = {
            "op category": [found.categories[code] for code in found.category.tolist()],
            DIRECT: (found.direct_ns / 1000).tolist(),
            SUBTREE: (found.subtree_ns / 1000).tolist(),
            "direct_kernel_count": found.count.tolist(),
            "kernel_details": kernel_details(found),
        }
        records = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
        return [MeasuredEvent(self.tree, *pair) for pair in zip(found.rows.tolist(), records, strict=True)]

    def get_df_kernel_launchers(
        self,
        id_cols: bool = False,
        include_kernel_details: bool = False,
        include_call_stack: bool = False,
        include_first_occurrence_time: bool = False,
        args_cols: Sequence[str] = ARGUMENTS,
        *,
        include_kernel_names: bool = False,
    ) -> pd.DataFrame:
        """One row per launcher call, by start, without communication kernels.

        Columns: name, op category, UID, the times and the count of `get_kernel_launchers`, the arguments as tuples,
        names of process and thread, and, if asked for:

        Args:
            id_cols: pid, tid, external_id.
            include_kernel_details: kernel_details; and what ran beside on other streams for other launchers:
                overlapping_kernel_names, overlapping_kernels_details, and overlap_pct, the share (0 to 1) of the
                direct time during which some of it ran.
            include_call_stack: call_stack (the call and the modules around it, the innermost first) and parent_module
                (the innermost, without the number of the instance).
            include_first_occurrence_time: ts, the start on the file's clock, from which the summary by arguments makes
                first_occurrence_time.
            args_cols: which arguments, by their names in the file.
            include_kernel_names: kernel_names: the names alone, as older versions of TraceLens do.
        """
        return calls_frame(
            self.tree,
            self._launchers(),
            arguments=args_cols,
            start=include_first_occurrence_time,
            ids=id_cols,
            details=include_kernel_details,
            names=include_kernel_names,
            call_stack=include_call_stack,
            recompute=self.detect_recompute,
        )

    @staticmethod
    def get_df_kernel_launchers_summary(df_kernel_launchers: pd.DataFrame) -> pd.DataFrame:
        """Time per name (and is_recompute), the greatest first."""
        return summaries.by_name(df_kernel_launchers, "is_recompute")

    @staticmethod
    def get_df_kernel_launchers_summary_module(df_kernel_launchers: pd.DataFrame) -> pd.DataFrame:
        """Time per name and module around the op, if the frame says it, the greatest first."""
        return summaries.by_name(df_kernel_launchers, "parent_module")

    @staticmethod
    def get_df_kernel_launchers_summary_by_category(df_kernel_launchers: pd.DataFrame) -> pd.DataFrame:
        """Time per category (and is_recompute), the greatest first."""
        return summaries.by_category(df_kernel_launchers, "is_recompute")

    @staticmethod
    def get_df_kernel_launchers_summary_by_category_module(df_kernel_launchers: pd.DataFrame) -> pd.DataFrame:
        """Time per category and module around the op, if the frame says it, the greatest first."""
        return summaries.by_category(df_kernel_launchers, "parent_module")

    @staticmethod
    def get_df_kernel_launchers_summary_by_shape(df_kernel_launchers: pd.DataFrame, name: str) -> pd.DataFrame:
        """Time of one op per shape, the greatest first.

        Warns:
            DeprecationWarning: `get_df_kernel_launchers_unique_args` says more.
        """
        warnings.warn("use get_df_kernel_launchers_unique_args(df, event_name=...)", DeprecationWarning, stacklevel=2)
        return summaries.by_shape(df_kernel_launchers, name)

    @staticmethod
    def get_df_kernel_launchers_unique_args(
        df_kernel_launchers: pd.DataFrame,
        event_name: str | None = None,
        agg_metrics: Sequence[str] = ("mean",),
        include_pct: bool = False,
        group_by_num_kernels: bool = False,
        group_by_parent_module: bool = False,
        include_overlapping_kernels: bool = False,
    ) -> pd.DataFrame:
        """Time per op, arguments and thread name, the greatest first.

        Args:
            event_name: only calls of this name.
            agg_metrics: statistics of the times of calls, named as pandas names them; the sum is always there.
            include_pct: add each row's share of the time, and the running share.
            group_by_num_kernels: separate calls with different numbers of GPU events.
            group_by_parent_module: separate modules around the op; needs the call stack in the frame.
            include_overlapping_kernels: separate by what ran beside; needs the kernel details in the frame.

        Raises:
            AnalysisError: the frame lacks a column that is needed.
        """
        calls = df_kernel_launchers
        if event_name is not None:
            calls = calls[calls["name"] == event_name]
        asked = {
            "parent_module": group_by_parent_module,
            "is_recompute": "is_recompute" in calls,
            "num_kernels": group_by_num_kernels,
            "overlapping_kernel_names": include_overlapping_kernels,
        }
        if group_by_num_kernels:
            calls = calls.assign(num_kernels=calls["direct_kernel_count"])
        keys = [key for key, wanted in asked.items() if wanted]
        if missing := [key for key in keys if key not in calls]:
            raise AnalysisError(f"the frame has no column {', '.join(missing)}")
        return summaries.by_arguments(calls, agg_metrics, keys, shares=include_pct)

    # --- kernels -----------------------------------------------------------------------------------------------

    def get_kernel_details(
        self,
        kernel_event: Mapping[str, Any],
        launcher_detail: bool = False,
        cpu_op_detail: bool = True,
        nn_module_detail: bool = False,
    ) -> dict[str, Any] | None:
        """What `get_df_kernels` says of one kernel; None for another event.

        Keys about a launch, op or module that the kernel does not have are left out.
        """
        c = self.tree.graph.columns
        row = self.tree.graph.row(kernel_event["UID"])
        if c.kind[row] != Kind.Kernel:
            return None
        rows = np.array([row])
        columns = kernel_columns(
            self.tree,
            rows,
            launch=launcher_detail and c.parent[row] >= 0,
            op=cpu_op_detail and nearest_above(c, rows, (Kind.Op,))[0] >= 0,
            module=nn_module_detail and self.add_python_func and nearest_above(c, rows, (Kind.Module,))[0] >= 0,
            category=self.use_kernel_name_categories,
        )
        return {
            name: values.tolist()[0] if hasattr(values, "tolist") else values[0] for name, values in columns.items()
        }

    def get_df_kernels(
        self, launcher_detail: bool = False, cpu_op_detail: bool = True, nn_module_detail: bool = False
    ) -> pd.DataFrame:
        """One row per kernel (no copies, no fills), linked or not, in file order.

        Columns: UID, Kernel name, Kernel t start (us on the file's clock), Kernel duration (µs), Kernel stream, with
        `use_kernel_name_categories` kernel_category, and:

        Args:
            launcher_detail: the launch: Launcher UID, Launcher, Grid, Block (of the kernel where the launch has none).
            cpu_op_detail: the op nearest above: its UID, name and arguments, GPU busy time and number of GPU events,
                and the kernel's share of that time.
            nn_module_detail: the same of the module nearest above, if Python frames are part of the tree.
        """
        rows = rows_of_kind(self.tree.graph.columns, (Kind.Kernel,))
        rows = rows[np.argsort(self.tree.graph.columns.uid[rows])]
        module = nn_module_detail and self.add_python_func
        category = self.use_kernel_name_categories
        return pd.DataFrame(kernel_columns(self.tree, rows, launcher_detail, cpu_op_detail, module, category))

    def agg_kernels_in_subtree(
        self, event: Mapping[str, Any], filter_func: Callable[[TraceEvent], bool] | None = None, verbose: bool = False
    ) -> tuple[float, list[int]]:
        """Sum of durations (us) and UIDs of the GPU events in the subtree of an event, itself included.

        Args:
            event: any event; its calls through Python frames count whether or not these are part of the tree.
            filter_func: which GPU events count.
            verbose: print each of them.
        """
        total, uids = 0.0, []
        for gpu in self.tree.get_gpu_events(event):
            if filter_func is None or filter_func(gpu):
                total += gpu["dur"]
                uids.append(gpu["UID"])
                if verbose:
                    print(f"{gpu['dur']} us  {gpu['name']}")
        return total, uids

    def loop_and_aggregate_kernels(
        self,
        events: Iterable[Mapping[str, Any]],
        filter_func: Callable[[TraceEvent], bool] | None = None,
        verbose: bool = False,
    ) -> tuple[float, list[int]]:
        """Sums and UIDs of `agg_kernels_in_subtree` over events; GPU events below two of them count twice."""
        total, uids = 0.0, []
        for event in events:
            time, found = self.agg_kernels_in_subtree(event, filter_func, verbose)
            total += time
            uids += found
        return total, uids

    # --- modules -----------------------------------------------------------------------------------------------

    def build_nn_module_latency_tree(self, root_nn_module: Mapping[str, Any]) -> dict[int, TraceEvent]:
        """A module and all modules below it, with their GPU busy times.

        Returns:
            UID -> module, each before those in it. Their times are keys of the events: see `TraceEvent`.

        Raises:
            AnalysisError: the event is not a module, or Python frames are not part of the tree.
        """
        core, c = self.tree.graph, self.tree.graph.columns
        root = core.row(root_nn_module["UID"])
        if c.kind[root] != Kind.Module:
            raise AnalysisError(f"{core.names[c.name[root]]!r} is no nn.Module")
        if not self.add_python_func:
            raise AnalysisError("modules are Python frames: use add_python_func=True")
        below = np.arange(root, int(c.last[root]) + 1)
        return {int(c.uid[row]): TraceEvent(self.tree, row) for row in below[c.kind[below] == Kind.Module].tolist()}

    # --- parts -------------------------------------------------------------------------------------------------

    @property
    def _everything(self) -> Window:
        return as_tracelens_counts(whole_window(self.tree.graph), self.enable_pseudo_ops)

    def _launchers(self, communication: bool = False) -> OpCalls:
        return launchers(self._everything, linked_only=True, communication=communication)
