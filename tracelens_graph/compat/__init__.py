"""The names that users of TraceLens know, over the same graph.

import tracelens_graph.compat as TraceLens
from tracelens_graph.compat import TreePerfAnalyzer
from tracelens_graph.compat.PerfModel import dict_cat2names
"""

from __future__ import annotations

from tracelens_graph._lazy import on_first_use as _on_first_use

_NAMES = {
    "compat.EventReplay": "EventReplay",
    "compat.PerfModel": "PerfModel",
    "compat.PerfModel.torch_op_mapping": "TRACELENS_MODELS",
    "compat.TreePerf": "GPUEventAnalyser TreePerf",
    "compat.event_replay": "EventReplayer",
    "compat.nccl_analyser": "NcclAnalyser",
    "compat.report": "generate_perf_report_jax generate_perf_report_pytorch",
    "compat.trace_diff": "TraceDiff",
    "compat.trace_to_tree": "TraceToTree",
    "compat.tree_perf": "TreePerfAnalyzer",
}
"""Module -> the public names that are imported from it; `__init__.pyi` is made of it."""

__getattr__, __dir__, __all__ = _on_first_use(__name__, _NAMES)
