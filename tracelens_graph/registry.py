"""Every table by name: which module declares and computes it, which report shows it, what it was called before.

A table is declared (`TableSchema`) beside the function that computes it. Modules are imported when one of their tables
is asked for, so this list of homes is the one thing that is written twice; a test holds it against the declarations.
A question is a table that a function of its name in a folder of `analyses` computes from a window, or from a `TraceSet`
if the function's first parameter is called `traces`; the folder is its theme, and a Cypher file of its name its twin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tracelens_graph.utils.suggest import hint

if TYPE_CHECKING:
    from tracelens_graph.tables.column import Column
    from tracelens_graph.tables.schema import TableSchema
    from tracelens_graph.tables.table import Table

_QUESTIONS = {
    "analyses.timeline.timeline": "gpu_timeline",
    "analyses.timeline.steps": "step_summary",
    "analyses.timeline.step_breakdown": "step_breakdown",
    "analyses.timeline.streams": "exposed_communication stream_overlap",
    "analyses.timeline.collectives": "coll_analysis",
    "analyses.timeline.copy_bandwidth": "copy_bandwidth",
    "analyses.idle.idle_gaps": "idle_gaps",
    "analyses.idle.idle_causes": "idle_causes",
    "analyses.serving.iterations": "iterations",
    "analyses.serving.phases": "phases steady_state",
    "analyses.serving.costs": "step_costs",
    "analyses.ops.ops": "ops_summary_by_category ops_summary ops_unique_args",
    "analyses.ops.op_times": "op_times",
    "analyses.ops.signatures": "op_signatures modules_of_signature",
    "analyses.ops.passes": "forward_backward",
    "analyses.ops.programs": "programs",
    "analyses.ops.instruction_costs": "instruction_costs",
    "analyses.kernels.kernels": "kernel_summary kernel_category_summary kernel_category_detail",
    "analyses.kernels.shares": "category_shares kernels_by_tile copies graph_launches",
    "analyses.kernels.occupancy": "kernel_occupancy device_use",
    "analyses.kernels.short_kernels": "short_kernels_summary",
    "analyses.launches.runtime": "runtime_summary launch_delay",
    "analyses.launches.queues": "queues queue_length",
    "analyses.launches.unlinked": "unlaunched_gpu_time unlinked",
    "analyses.launches.replays": "replays",
    "analyses.identification.tables": "identified_kernels",
    "analyses.performance.perf_tables": "unified_perf_summary",
    "analyses.performance.model_flops": "model_flops",
    "analyses.performance.roofline_summary": "unmodelled",
    "analyses.performance.counters": "kernel_counters",
    "analyses.opportunities.opportunities": "opportunities",
    "analyses.opportunities.kernel_candidates": "kernel_candidates",
    "analyses.opportunities.sequences": "kernel_sequences",
    "analyses.diagnosis.explain": "explain",
    "analyses.places.attribution": "attribution",
    "analyses.places.host_times": "host_times",
    "analyses.places.modules": "modules=module_times",
    "analyses.places.python_lines": "gpu_time_under python_lines",
    "analyses.structure.structure": (
        "repeated_subtrees path_to_python unusual_kernels recomputed_share outliving_events"
    ),
    "analyses.structure.layers": "odd_layers",
    "analyses.tensors.storages": "storage_kernels bytes_alive peak_bytes_by_module shared_reads",
    "analyses.tensors.copies": "tensor_makers copy_chains",
    "analyses.memory.peak": "memory_summary allocations_by_module",
    "analyses.memory.holders": "memory_peak memory_at_end memory_to_fit",
    "analyses.memory.segments": "memory_segments",
    "analyses.across.signatures": "common_signatures kernel_choices ops_only_in_one",
    "analyses.across.divergences": "diff_places=divergences kernel_replacements layer_differences",
    "analyses.across.identified_labels": "identified_labels",
    "analyses.across.history": "run_history incomplete_traces",
    "analyses.across.regressions": "regressions",
    "analyses.across.runs": "findings_across worst_of_roof signature_history runs_like",
    "analyses.ranks.collective_tables": "rank_collectives collective_kinds",
    "analyses.ranks.rank_tables": "rank_balance",
    "analyses.critical_path.critical_path": "critical_path=segments_of_run",
}
"""Module -> the questions that it answers; `name=function` where a public function of the name is something else."""

_OTHERS = {
    "analyses.across.compare": "comparison",
    "analyses.across.overview": "overview",
    "analyses.alignment.common_ancestors": "diff_stats diff_stats_unique_args_summary perf_summary_by_lca",
    "analyses.alignment.several": "diff_runs diff_within",
    "analyses.alignment.tables": "diff_totals",
    "analyses.alignment.times": "diff_times",
    "analyses.serving.compared": "diff_phases",
    "analyses.critical_path.path_tables": (
        "critical_path_classes critical_path_ranks critical_path_names critical_path_steps critical_path_ties"
    ),
    "analyses.critical_path.slack": "critical_path_slack",
    "analyses.critical_path.what_if": "what_if",
    "analyses.kernels.short_kernels": "short_kernel_histogram",
    "analyses.stragglers.late_causes": "late_arrivals late_ranks",
    "analyses.stragglers.slowdown": "slowdown",
    "analyses.stragglers.culprits": "culprits",
    "analyses.ops.top_ops": "top_ops",
    "analyses.performance.roofline_points": "below_roof",
    "analyses.performance.perf_sheets": "perf_sheet",
    "analyses.performance.roofline_summary": "roofline_summary",
    "analyses.performance.work_summary": "work_summary",
    "analyses.places.host_times": "host_functions host_lines host_modules host_threads",
    "analyses.places.modules": "module_tree",
    "analyses.ranks.collective_tables": "unmatched_collectives",
    "analyses.ranks.link_tables": "rank_links",
    "analyses.ranks.rank_tables": "rank_times rank_steps",
    "analyses.structure.calls": "calls_by_category calls_by_op calls_by_arguments",
    "analyses.tensors.life": "tensor_life tensor_versions",
    "compat.jax.tables": (
        "gpu_events_averages kernel_launchers kernel_launchers_summary kernel_launchers_summary_by_category "
        "kernel_launchers_unique_args df_xla_perf xla_summary"
    ),
    "compat.ranks.schemas": (
        "nccl_summary_implicit_sync nccl_summary_long nccl_summary_all2allv nccl_all2allv_heatmap nccl_long "
        "nccl_implicit_sync nccl_all2allv straggler_summary"
    ),
    "linkage.tables": "link_counts link_ways link_ops",
    "reports.html.timeline": "lanes",
    "replay.tables": "replay_signatures replay_coverage replay_verify replay_results replay_devices",
}
"""Module -> the tables that other commands and reports show."""

THEMES: Mapping[str, str] = {
    "timeline": "When the GPU worked",
    "idle": "When it did not, and why",
    "serving": "The steps of a server",
    "identification": "What replayed kernels are, inferred without a capture",
    "ops": "What the GPU's time is charged to: ops, arguments, passes, programs",
    "kernels": "Kernels, copies, graphs",
    "launches": "Calls that launch, and GPU work without one",
    "performance": "What work should cost, and what it reached",
    "opportunities": "Where time could be won, and how",
    "diagnosis": "What the report says, and why",
    "places": "Modules and lines of Python",
    "structure": "Calls that are alike, and calls that are not",
    "tensors": "Tensors and storages, of traces that are linked with an execution trace",
    "memory": "Allocations and releases, of traces with `profile_memory=True` and of snapshots of CUDA memory",
    "across": "Across traces, runs and platforms",
    "ranks": "The ranks of a job",
    "critical_path": "What bounds a step",
}
"""Folders of `analyses` with questions, and what they are about."""

FIRST = (
    "opportunities", "idle_causes", "exposed_communication", "step_breakdown", "ops_summary", "category_shares",
    "modules", "python_lines", "host_times", "memory_peak",
)  # fmt: skip
"""The questions that most people have."""

REPORT: Mapping[str, str] = {
    "gpu_timeline": "always",
    "ops_summary_by_category": "always",
    "ops_summary": "always",
    "ops_unique_args": "always",
    "kernel_summary": "always",
    "kernel_category_detail": "kernel_categories",
    "kernel_category_summary": "kernel_categories",
    "unified_perf_summary": "models",
    "work_summary": "comparison",
    "coll_analysis": "always",
    "runtime_summary": "always",
    "step_summary": "always",
    "programs": "programs",
    "short_kernel_histogram": "short_kernels_us",
    "host_times": "host",
    "host_functions": "host",
    "host_lines": "host",
    "host_modules": "host",
    "host_threads": "host",
    "idle_causes": "by name",
    "short_kernels_summary": "short_kernels_us",
    "opportunities": "by name",
    "model_flops": "by name",
    "step_breakdown": "by name",
    "device_use": "by name",
    "memory_summary": "by name",
    "memory_peak": "by name",
    "memory_at_end": "by name",
    "memory_segments": "by name",
    "allocations_by_module": "by name",
}
"""The tables of a report, in its order, and when they are in it: always, with an option of `ReportOptions`, if there
are compiled programs, where there is no GPU event, in comparisons of runs, or only when someone asks by name."""


@dataclass(frozen=True)
class Renamed:
    """What a table of an old name is now.

    Attributes:
        name: the table that has its rows.
        given: parameters of the question that stand for what the old one was.
        columns: the old table's columns -> those of the new one; empty for all of them under their names. A time in us
            may have been one in ms since.
    """

    name: str
    given: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)

    def as_before(self, name: str, table: Table) -> Table:
        """A table of today under its old name, with the columns that it had."""
        if not self.columns:
            return replace(table, name=name)
        columns, about = {}, {}
        for old, new in self.columns.items():
            if new not in table.columns:
                continue
            columns[old], about[old] = table[new], replace(table.about[new], heading=None)
            if old.endswith("_us") and new.endswith("_ms"):
                columns[old] = [None if ms is None else round(1e6 * ms) / 1e3 for ms in table[new]]
                about[old] = replace(about[old], unit="us")
        return replace(table, name=name, columns=columns, about=about)


def _columns(names: str) -> dict[str, str]:
    """Old name -> new name of columns; where the two differ, they are written `old=new`."""
    pairs = (one.partition("=") for one in names.split())
    return {old: new or old for old, _, new in pairs}


RENAMED: Mapping[str, Renamed] = {
    "divergences": Renamed("diff_places"),
    "short_kernels": Renamed(
        "short_kernels_summary",
        {"by_arguments": False},
        {
            name: name
            for name in (
                "Parent cpu_op",
                "Kernel name",
                "Short Kernel duration (µs) sum",
                "Short Kernel count",
                "Short Kernel duration (µs) mean",
                "Short Kernel duration (µs) percent of total time",
            )
        },
    ),
    "steps": Renamed("step_summary", {"top_ops": 0}),
    "unmodelled_time": Renamed("unmodelled"),
    "collective_spread": Renamed(
        "rank_collectives",
        columns=_columns(
            "kind group sequence collective=key ranks first_start_us=start_us last_start_us start_skew_us end_skew_us "
            "wait_us shortest_us longest_us duration_spread_us last_trace last_rank"
        ),
    ),
    "waits_by_group": Renamed(
        "collective_kinds",
        {"by": "group"},
        _columns(
            "group group_ranks kind ranks=recorded_ranks collectives=count wait_us=wait_ms transfer_us=transfer_ms "
            "end_skew_us=end_skew_ms wait_percent mean_wait_us longest_wait_us last_trace last_rank "
            "last_wait_us=last_wait_ms"
        ),
    ),
    "slowest_ranks": Renamed(
        "rank_balance",
        {"late_first": True},
        _columns(
            "trace rank collectives times_last=times_among_last times_first wait_us=wait_ms mean_wait_us "
            "collective_us=collective_ms"
        ),
    ),
    "path_of_step": Renamed(
        "critical_path", columns=_columns("place class rank trace name op start_us dur_ns from_rank uid")
    ),
}
"""Old names, which are still understood."""


@dataclass(frozen=True)
class Home:
    """Where a table is declared and computed.

    Attributes:
        module: the module below `tracelens_graph`.
        function: the function in it that computes it; of a table that is not a question it may not exist.
        is_question: whether it can be asked by name.
    """

    module: str
    function: str
    is_question: bool

    @property
    def theme(self) -> str:
        """What the table is about: the folder of `analyses` that it is in."""
        return self.module.split(".")[1]

    def load(self) -> Any:
        """The module."""
        return import_module(f"tracelens_graph.{self.module}")


def _homes() -> dict[str, Home]:
    found = {}
    for is_question, modules in ((True, _QUESTIONS), (False, _OTHERS)):
        for module, names in modules.items():
            for entry in names.split():
                name, _, function = entry.partition("=")
                found[name] = Home(module, function or name, is_question)
    return found


HOMES: Mapping[str, Home] = _homes()
"""Every table by name; questions first."""


def public_questions() -> dict[str, str]:
    """Module -> the functions that answer a question of their name, which are public."""
    found: dict[str, list[str]] = {}
    for name, home in HOMES.items():
        if home.is_question and home.function == name:
            found.setdefault(home.module, []).append(name)
    return {module: " ".join(names) for module, names in found.items()}


def current(name: str) -> str:
    """The name that a table has now; that of one that was never renamed is itself."""
    return RENAMED[name].name if name in RENAMED else name


def schema_of(name: str) -> TableSchema:
    """What is declared of a table.

    Raises:
        KeyError: there is no such table.
    """
    from tracelens_graph.tables.schema import DECLARED

    name = current(name)
    if name not in HOMES:
        raise KeyError(f"there is no table {name!r}; {hint(name, HOMES)}")
    if name not in DECLARED:
        HOMES[name].load()
    return DECLARED[name]


def schemas() -> Mapping[str, TableSchema]:
    """Every table by name; imports all of their modules."""
    return {name: schema_of(name) for name in HOMES}


def about_columns(table: str, columns: Iterable[str]) -> dict[str, Column]:
    """What is known of the columns of a table by its name; of one by family of operations, by its columns.

    Args:
        table: name of the table.
        columns: names of its columns; the answer keeps to these.
    """
    there = list(columns)
    if current(table) in HOMES:
        return schema_of(table).about(there)
    return schema_of("perf_sheet").about(there) if "UID_first" in there else {}
