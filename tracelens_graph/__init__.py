"""GPU profiler traces as property graphs: load, ask, compare, and push to Neo4j.

    import tracelens_graph as tlg

    g = tlg.load("trace.json.gz")       # a networkx graph that reads columns
    tlg.gpu_timeline(g).to_pandas()     # where the GPU's time went

Names are imported on first use, so that `import tracelens_graph` costs next to nothing.
"""

from __future__ import annotations

from tracelens_graph._lazy import on_first_use as _on_first_use
from tracelens_graph.registry import RENAMED as _RENAMED
from tracelens_graph.registry import public_questions as _public_questions

_NAMES = {
    "_version": "__version__",
    "analyses.across.compare": "compare",
    "analyses.critical_path.critical_path": "critical_path",
    "analyses.critical_path.what_if": "what_if",
    "analyses.diagnosis.finding": "Finding",
    "analyses.diagnosis.verdict": "verdict",
    "analyses.kernels.short_kernels": "short_kernel_histogram",
    "analyses.memory.peak": "memory_over_time",
    "analyses.performance.perf_sheets": "perf_sheets",
    "analyses.performance.roofline_summary": "roofline_summary",
    "analyses.places.modules": "modules",
    "analyses.questions": "QUESTIONS Question",
    "analyses.ranks.job": "collectives rank_tables",
    "analyses.report.report_tables": "ReportOptions report_tables",
    "analyses.stragglers.slowdown": "slowdown",
    "api": "diff from_networkx load load_set",
    "categories.kernels": "KernelRule",
    "categories.ops": "OpRules Rule",
    "compat.ranks.tables": "tracelens_tables",
    "compat.report": "generate_perf_report_pytorch",
    "compat.trace_to_tree": "TraceToTree",
    "compat.tree_perf": "TreePerfAnalyzer",
    "db.database": "Database connect",
    "errors": (
        "AnalysisError ChangedTraceError ClusterError DamagedTraceWarning DatabaseError ExtensionError "
        "IncompleteSetWarning LinkError MissingExtraError NodeNotFoundError NotATraceError OutputError "
        "ServerError TraceError TraceLensGraphError"
    ),
    "extensions.extension": "Extension Replayer combined",
    "extensions.loading": "load_extension",
    "graph.node": "Node",
    "graph.trace_set": "TraceMember TraceSet",
    "graph.window": "Window",
    "linkage.metadata": "kernel_metadata_scrape operation_metadata_scrape",
    "linkage.traces": "get_gpu_op_identifier load_trace",
    "linkage.tracing": "kernel_to_op_tracing op_to_kernel_tracing",
    "nxview.ranks": "TraceGraphSet",
    "nxview.trace_diff": "TraceDiff",
    "nxview.trace_graph": "TraceGraph",
    "perf.cost": "Cost",
    "perf.devices": "architecture",
    "perf.model": "OpModel TimeModel",
    "schema": "Kind",
    "tables.column": "Column Role",
    "tables.table": "Table",
}
"""Module -> the public names that are imported from it; `__init__.pyi` is made of it."""

for _module, _names in _public_questions().items():
    _NAMES[_module] = f"{_NAMES.get(_module, '')} {_names}"

_imported, __dir__, __all__ = _on_first_use(__name__, _NAMES)


def __getattr__(name: str) -> object:
    """A public name; also the old one of a question, which is still answered."""
    if name in _RENAMED:
        from tracelens_graph.analyses.questions import QUESTIONS

        return QUESTIONS[name]
    return _imported(name)
