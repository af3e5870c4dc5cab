"""GPU profiler traces as property graphs: load, ask, compare, and push to Neo4j.

    import tracelens_graph as tlg

    g = tlg.load("trace.json.gz")       # a networkx graph that reads columns
    tlg.gpu_timeline(g).to_pandas()     # where the GPU's time went

Names are imported on first use, so that `import tracelens_graph` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tracelens_graph._version import __version__ as __version__

if TYPE_CHECKING:
    from tracelens_graph.analyses.attribution import attribution as attribution
    from tracelens_graph.analyses.collectives import coll_analysis as coll_analysis
    from tracelens_graph.analyses.compare import compare as compare
    from tracelens_graph.analyses.kernels import kernel_summary as kernel_summary
    from tracelens_graph.analyses.modules import modules as modules
    from tracelens_graph.analyses.ops import ops_summary as ops_summary
    from tracelens_graph.analyses.ops import ops_summary_by_category as ops_summary_by_category
    from tracelens_graph.analyses.ops import ops_unique_args as ops_unique_args
    from tracelens_graph.analyses.report_tables import ReportOptions as ReportOptions
    from tracelens_graph.analyses.report_tables import report_tables as report_tables
    from tracelens_graph.analyses.runtime import runtime_summary as runtime_summary
    from tracelens_graph.analyses.short_kernels import short_kernel_histogram as short_kernel_histogram
    from tracelens_graph.analyses.short_kernels import short_kernels_summary as short_kernels_summary
    from tracelens_graph.analyses.steps import step_summary as step_summary
    from tracelens_graph.analyses.timeline import gpu_timeline as gpu_timeline
    from tracelens_graph.analyses.verdict import verdict as verdict
    from tracelens_graph.api import TraceGraph as TraceGraph
    from tracelens_graph.api import from_networkx as from_networkx
    from tracelens_graph.api import load as load
    from tracelens_graph.compat.report import generate_perf_report_pytorch as generate_perf_report_pytorch
    from tracelens_graph.compat.trace_to_tree import TraceToTree as TraceToTree
    from tracelens_graph.compat.tree_perf import TreePerfAnalyzer as TreePerfAnalyzer
    from tracelens_graph.errors import AnalysisError as AnalysisError
    from tracelens_graph.errors import ChangedTraceError as ChangedTraceError
    from tracelens_graph.errors import DamagedTraceWarning as DamagedTraceWarning
    from tracelens_graph.errors import MissingExtraError as MissingExtraError
    from tracelens_graph.errors import NodeNotFoundError as NodeNotFoundError
    from tracelens_graph.errors import NotATraceError as NotATraceError
    from tracelens_graph.errors import OutputError as OutputError
    from tracelens_graph.errors import TraceError as TraceError
    from tracelens_graph.errors import TraceLensGraphError as TraceLensGraphError
    from tracelens_graph.schema import Kind as Kind

_HOME = {
    "AnalysisError": "errors",
    "ChangedTraceError": "errors",
    "DamagedTraceWarning": "errors",
    "Kind": "schema",
    "MissingExtraError": "errors",
    "NodeNotFoundError": "errors",
    "NotATraceError": "errors",
    "OutputError": "errors",
    "ReportOptions": "analyses.report_tables",
    "TraceError": "errors",
    "TraceGraph": "api",
    "TraceLensGraphError": "errors",
    "TraceToTree": "compat.trace_to_tree",
    "TreePerfAnalyzer": "compat.tree_perf",
    "attribution": "analyses.attribution",
    "coll_analysis": "analyses.collectives",
    "compare": "analyses.compare",
    "from_networkx": "api",
    "generate_perf_report_pytorch": "compat.report",
    "gpu_timeline": "analyses.timeline",
    "kernel_summary": "analyses.kernels",
    "load": "api",
    "modules": "analyses.modules",
    "ops_summary": "analyses.ops",
    "ops_summary_by_category": "analyses.ops",
    "ops_unique_args": "analyses.ops",
    "report_tables": "analyses.report_tables",
    "runtime_summary": "analyses.runtime",
    "short_kernel_histogram": "analyses.short_kernels",
    "short_kernels_summary": "analyses.short_kernels",
    "step_summary": "analyses.steps",
    "verdict": "analyses.verdict",
}

__all__ = [
    "AnalysisError",
    "ChangedTraceError",
    "DamagedTraceWarning",
    "Kind",
    "MissingExtraError",
    "NodeNotFoundError",
    "NotATraceError",
    "OutputError",
    "ReportOptions",
    "TraceError",
    "TraceGraph",
    "TraceLensGraphError",
    "TraceToTree",
    "TreePerfAnalyzer",
    "__version__",
    "attribution",
    "coll_analysis",
    "compare",
    "from_networkx",
    "generate_perf_report_pytorch",
    "gpu_timeline",
    "kernel_summary",
    "load",
    "modules",
    "ops_summary",
    "ops_summary_by_category",
    "ops_unique_args",
    "report_tables",
    "runtime_summary",
    "short_kernel_histogram",
    "short_kernels_summary",
    "step_summary",
    "verdict",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
