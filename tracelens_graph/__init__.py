"""GPU profiler traces as property graphs: load, ask, compare, and push to Neo4j.

    import tracelens_graph as tlg

    g = tlg.load("trace.json.gz")       # a networkx graph that reads columns
    tlg.gpu_timeline(g).to_pandas()     # where the GPU's time went

Names are imported on first use, so that `import tracelens_graph` costs next to nothing.
"""

from __future__ import annotations

from tracelens_graph._lazy import on_first_use as _on_first_use
from tracelens_graph._version import __version__ as __version__

TYPE_CHECKING = False  # that of typing, which need not be imported for it
if TYPE_CHECKING:
    from tracelens_graph.analyses.across.compare import compare as compare
    from tracelens_graph.analyses.critical_path.critical_path import critical_path as critical_path
    from tracelens_graph.analyses.critical_path.what_if import what_if as what_if
    from tracelens_graph.analyses.diagnosis.finding import Finding as Finding
    from tracelens_graph.analyses.diagnosis.verdict import verdict as verdict
    from tracelens_graph.analyses.idle.idle import idle_causes as idle_causes
    from tracelens_graph.analyses.kernels.kernel_categories import kernel_category_detail as kernel_category_detail
    from tracelens_graph.analyses.kernels.kernel_categories import kernel_category_summary as kernel_category_summary
    from tracelens_graph.analyses.kernels.kernels import kernel_summary as kernel_summary
    from tracelens_graph.analyses.kernels.short_kernels import short_kernel_histogram as short_kernel_histogram
    from tracelens_graph.analyses.kernels.short_kernels import short_kernels_summary as short_kernels_summary
    from tracelens_graph.analyses.launches.runtime import runtime_summary as runtime_summary
    from tracelens_graph.analyses.memory.over_time import memory_over_time as memory_over_time
    from tracelens_graph.analyses.ops.ops import ops_summary as ops_summary
    from tracelens_graph.analyses.ops.ops import ops_summary_by_category as ops_summary_by_category
    from tracelens_graph.analyses.ops.ops import ops_unique_args as ops_unique_args
    from tracelens_graph.analyses.performance.perf_sheets import perf_sheets as perf_sheets
    from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary as unified_perf_summary
    from tracelens_graph.analyses.performance.roofline_summary import roofline_summary as roofline_summary
    from tracelens_graph.analyses.performance.roofline_summary import unmodelled as unmodelled
    from tracelens_graph.analyses.places.attribution import attribution as attribution
    from tracelens_graph.analyses.places.modules import modules as modules
    from tracelens_graph.analyses.questions import QUESTIONS as QUESTIONS
    from tracelens_graph.analyses.questions import Question as Question
    from tracelens_graph.analyses.ranks.job import collectives as collectives
    from tracelens_graph.analyses.ranks.job import rank_tables as rank_tables
    from tracelens_graph.analyses.report.report_tables import ReportOptions as ReportOptions
    from tracelens_graph.analyses.report.report_tables import report_tables as report_tables
    from tracelens_graph.analyses.timeline.collectives import coll_analysis as coll_analysis
    from tracelens_graph.analyses.timeline.steps import step_summary as step_summary
    from tracelens_graph.analyses.timeline.timeline import gpu_timeline as gpu_timeline
    from tracelens_graph.api import diff as diff
    from tracelens_graph.api import from_networkx as from_networkx
    from tracelens_graph.api import load as load
    from tracelens_graph.api import load_set as load_set
    from tracelens_graph.categories.kernels import KernelRule as KernelRule
    from tracelens_graph.categories.ops import OpRules as OpRules
    from tracelens_graph.categories.ops import Rule as Rule
    from tracelens_graph.compat.ranks.tables import tracelens_tables as tracelens_tables
    from tracelens_graph.compat.report import generate_perf_report_pytorch as generate_perf_report_pytorch
    from tracelens_graph.compat.trace_to_tree import TraceToTree as TraceToTree
    from tracelens_graph.compat.tree_perf import TreePerfAnalyzer as TreePerfAnalyzer
    from tracelens_graph.db.database import Database as Database
    from tracelens_graph.db.database import connect as connect
    from tracelens_graph.errors import AnalysisError as AnalysisError
    from tracelens_graph.errors import ChangedTraceError as ChangedTraceError
    from tracelens_graph.errors import ClusterError as ClusterError
    from tracelens_graph.errors import DamagedTraceWarning as DamagedTraceWarning
    from tracelens_graph.errors import DatabaseError as DatabaseError
    from tracelens_graph.errors import ExtensionError as ExtensionError
    from tracelens_graph.errors import IncompleteSetWarning as IncompleteSetWarning
    from tracelens_graph.errors import LinkError as LinkError
    from tracelens_graph.errors import MissingExtraError as MissingExtraError
    from tracelens_graph.errors import NodeNotFoundError as NodeNotFoundError
    from tracelens_graph.errors import NotATraceError as NotATraceError
    from tracelens_graph.errors import OutputError as OutputError
    from tracelens_graph.errors import ServerError as ServerError
    from tracelens_graph.errors import TraceError as TraceError
    from tracelens_graph.errors import TraceLensGraphError as TraceLensGraphError
    from tracelens_graph.extensions.extension import Extension as Extension
    from tracelens_graph.extensions.extension import combined as combined
    from tracelens_graph.extensions.loading import load_extension as load_extension
    from tracelens_graph.extensions.replayer import Replayer as Replayer
    from tracelens_graph.graph.node import Node as Node
    from tracelens_graph.graph.trace_set import TraceMember as TraceMember
    from tracelens_graph.graph.trace_set import TraceSet as TraceSet
    from tracelens_graph.graph.window import Window as Window
    from tracelens_graph.linkage.cpu_metadata import operation_metadata_scrape as operation_metadata_scrape
    from tracelens_graph.linkage.identifiers import get_gpu_op_identifier as get_gpu_op_identifier
    from tracelens_graph.linkage.kernel_metadata import kernel_metadata_scrape as kernel_metadata_scrape
    from tracelens_graph.linkage.kernel_ops import kernel_to_op_tracing as kernel_to_op_tracing
    from tracelens_graph.linkage.op_events import op_to_kernel_tracing as op_to_kernel_tracing
    from tracelens_graph.linkage.traces import load_trace as load_trace
    from tracelens_graph.nxview.trace_diff import TraceDiff as TraceDiff
    from tracelens_graph.nxview.trace_graph import TraceGraph as TraceGraph
    from tracelens_graph.nxview.trace_graph_set import TraceGraphSet as TraceGraphSet
    from tracelens_graph.perf.cost import Cost as Cost
    from tracelens_graph.perf.devices import architecture as architecture
    from tracelens_graph.perf.model import OpModel as OpModel
    from tracelens_graph.perf.time_model import TimeModel as TimeModel
    from tracelens_graph.schema import Kind as Kind
    from tracelens_graph.tables.column import Column as Column
    from tracelens_graph.tables.column import Role as Role
    from tracelens_graph.tables.table import Table as Table

_HOME = {
    "AnalysisError": "errors",
    "ChangedTraceError": "errors",
    "Column": "tables.column",
    "Cost": "perf.cost",
    "ClusterError": "errors",
    "DamagedTraceWarning": "errors",
    "Database": "db.database",
    "DatabaseError": "errors",
    "Extension": "extensions.extension",
    "ExtensionError": "errors",
    "Finding": "analyses.diagnosis.finding",
    "IncompleteSetWarning": "errors",
    "KernelRule": "categories.kernels",
    "Kind": "schema",
    "LinkError": "errors",
    "MissingExtraError": "errors",
    "Node": "graph.node",
    "NodeNotFoundError": "errors",
    "NotATraceError": "errors",
    "OpModel": "perf.model",
    "OpRules": "categories.ops",
    "OutputError": "errors",
    "QUESTIONS": "analyses.questions",
    "Question": "analyses.questions",
    "Replayer": "extensions.replayer",
    "ReportOptions": "analyses.report.report_tables",
    "Role": "tables.column",
    "Rule": "categories.ops",
    "ServerError": "errors",
    "Table": "tables.table",
    "TimeModel": "perf.time_model",
    "TraceDiff": "nxview.trace_diff",
    "TraceError": "errors",
    "TraceGraph": "nxview.trace_graph",
    "TraceGraphSet": "nxview.trace_graph_set",
    "TraceLensGraphError": "errors",
    "TraceMember": "graph.trace_set",
    "TraceSet": "graph.trace_set",
    "TraceToTree": "compat.trace_to_tree",
    "TreePerfAnalyzer": "compat.tree_perf",
    "Window": "graph.window",
    "architecture": "perf.devices",
    "attribution": "analyses.places.attribution",
    "coll_analysis": "analyses.timeline.collectives",
    "collectives": "analyses.ranks.job",
    "combined": "extensions.extension",
    "compare": "analyses.across.compare",
    "connect": "db.database",
    "critical_path": "analyses.critical_path.critical_path",
    "diff": "api",
    "from_networkx": "api",
    "generate_perf_report_pytorch": "compat.report",
    "get_gpu_op_identifier": "linkage.identifiers",
    "gpu_timeline": "analyses.timeline.timeline",
    "idle_causes": "analyses.idle.idle",
    "kernel_category_detail": "analyses.kernels.kernel_categories",
    "kernel_category_summary": "analyses.kernels.kernel_categories",
    "kernel_metadata_scrape": "linkage.kernel_metadata",
    "kernel_summary": "analyses.kernels.kernels",
    "kernel_to_op_tracing": "linkage.kernel_ops",
    "load": "api",
    "load_extension": "extensions.loading",
    "load_set": "api",
    "load_trace": "linkage.traces",
    "memory_over_time": "analyses.memory.over_time",
    "modules": "analyses.places.modules",
    "op_to_kernel_tracing": "linkage.op_events",
    "operation_metadata_scrape": "linkage.cpu_metadata",
    "ops_summary": "analyses.ops.ops",
    "ops_summary_by_category": "analyses.ops.ops",
    "ops_unique_args": "analyses.ops.ops",
    "perf_sheets": "analyses.performance.perf_sheets",
    "rank_tables": "analyses.ranks.job",
    "report_tables": "analyses.report.report_tables",
    "roofline_summary": "analyses.performance.roofline_summary",
    "runtime_summary": "analyses.launches.runtime",
    "short_kernel_histogram": "analyses.kernels.short_kernels",
    "short_kernels_summary": "analyses.kernels.short_kernels",
    "step_summary": "analyses.timeline.steps",
    "tracelens_tables": "compat.ranks.tables",
    "unified_perf_summary": "analyses.performance.perf_tables",
    "unmodelled": "analyses.performance.roofline_summary",
    "verdict": "analyses.diagnosis.verdict",
    "what_if": "analyses.critical_path.what_if",
}

__all__ = [
    "QUESTIONS",
    "AnalysisError",
    "ChangedTraceError",
    "Column",
    "Cost",
    "DamagedTraceWarning",
    "Database",
    "DatabaseError",
    "Extension",
    "ExtensionError",
    "Finding",
    "IncompleteSetWarning",
    "KernelRule",
    "Kind",
    "LinkError",
    "MissingExtraError",
    "Node",
    "NodeNotFoundError",
    "NotATraceError",
    "OpModel",
    "OpRules",
    "OutputError",
    "Question",
    "Replayer",
    "ReportOptions",
    "Role",
    "Rule",
    "ServerError",
    "Table",
    "TimeModel",
    "TraceDiff",
    "TraceError",
    "TraceGraph",
    "TraceGraphSet",
    "TraceLensGraphError",
    "TraceMember",
    "TraceSet",
    "TraceToTree",
    "TreePerfAnalyzer",
    "Window",
    "__version__",
    "architecture",
    "attribution",
    "coll_analysis",
    "collectives",
    "combined",
    "compare",
    "connect",
    "critical_path",
    "diff",
    "from_networkx",
    "generate_perf_report_pytorch",
    "get_gpu_op_identifier",
    "gpu_timeline",
    "idle_causes",
    "kernel_category_detail",
    "kernel_category_summary",
    "kernel_metadata_scrape",
    "kernel_summary",
    "kernel_to_op_tracing",
    "load",
    "load_extension",
    "load_set",
    "load_trace",
    "memory_over_time",
    "modules",
    "op_to_kernel_tracing",
    "operation_metadata_scrape",
    "ops_summary",
    "ops_summary_by_category",
    "ops_unique_args",
    "perf_sheets",
    "rank_tables",
    "report_tables",
    "roofline_summary",
    "runtime_summary",
    "short_kernel_histogram",
    "short_kernels_summary",
    "step_summary",
    "tracelens_tables",
    "unified_perf_summary",
    "unmodelled",
    "verdict",
    "what_if",
]

__getattr__, __dir__ = _on_first_use(__name__, _HOME)
