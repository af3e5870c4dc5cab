"""TraceLens's `TreePerf`: the analyzers of a tree and of GPU events."""  # noqa: N999 (the name users know)

from __future__ import annotations

from tracelens_graph.compat.gpu_event_analyser import GPUEventAnalyser
from tracelens_graph.compat.tree_perf import TreePerfAnalyzer

__all__ = ["GPUEventAnalyser", "TreePerfAnalyzer"]
