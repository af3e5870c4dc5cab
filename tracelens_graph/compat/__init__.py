"""The names that users of TraceLens know, over the same graph.

import tracelens_graph.compat as TraceLens
from tracelens_graph.compat import TreePerfAnalyzer
from tracelens_graph.compat.PerfModel import dict_cat2names
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracelens_graph._lazy import on_first_use as _on_first_use

if TYPE_CHECKING:
    from tracelens_graph.compat import EventReplay as EventReplay
    from tracelens_graph.compat import PerfModel as PerfModel
    from tracelens_graph.compat import TreePerf as TreePerf
    from tracelens_graph.compat.event_replay import EventReplayer as EventReplayer
    from tracelens_graph.compat.gpu_event_analyser import GPUEventAnalyser as GPUEventAnalyser
    from tracelens_graph.compat.models import TRACELENS_MODELS as TRACELENS_MODELS
    from tracelens_graph.compat.nccl_analyser import NcclAnalyser as NcclAnalyser
    from tracelens_graph.compat.report import generate_perf_report_pytorch as generate_perf_report_pytorch
    from tracelens_graph.compat.report_jax import generate_perf_report_jax as generate_perf_report_jax
    from tracelens_graph.compat.trace_diff import TraceDiff as TraceDiff
    from tracelens_graph.compat.trace_to_tree import TraceToTree as TraceToTree
    from tracelens_graph.compat.tree_perf import TreePerfAnalyzer as TreePerfAnalyzer

_HOME = {
    "EventReplay": "compat.EventReplay",
    "EventReplayer": "compat.event_replay",
    "GPUEventAnalyser": "compat.gpu_event_analyser",
    "NcclAnalyser": "compat.nccl_analyser",
    "PerfModel": "compat.PerfModel",
    "TRACELENS_MODELS": "compat.models",
    "TraceDiff": "compat.trace_diff",
    "TraceToTree": "compat.trace_to_tree",
    "TreePerf": "compat.TreePerf",
    "TreePerfAnalyzer": "compat.tree_perf",
    "generate_perf_report_jax": "compat.report_jax",
    "generate_perf_report_pytorch": "compat.report",
}

__all__ = [
    "TRACELENS_MODELS",
    "EventReplay",
    "EventReplayer",
    "GPUEventAnalyser",
    "NcclAnalyser",
    "PerfModel",
    "TraceDiff",
    "TraceToTree",
    "TreePerf",
    "TreePerfAnalyzer",
    "generate_perf_report_jax",
    "generate_perf_report_pytorch",
]

__getattr__, __dir__ = _on_first_use(__name__, _HOME)
