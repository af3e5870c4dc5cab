# Made by docs/make_stub.py of the list in __init__.py.

from tracelens_graph.compat import EventReplay as EventReplay
from tracelens_graph.compat import PerfModel as PerfModel
from tracelens_graph.compat import TreePerf as TreePerf
from tracelens_graph.compat.event_replay import EventReplayer as EventReplayer
from tracelens_graph.compat.nccl_analyser import NcclAnalyser as NcclAnalyser
from tracelens_graph.compat.PerfModel.torch_op_mapping import TRACELENS_MODELS as TRACELENS_MODELS
from tracelens_graph.compat.report import generate_perf_report_jax as generate_perf_report_jax
from tracelens_graph.compat.report import generate_perf_report_pytorch as generate_perf_report_pytorch
from tracelens_graph.compat.trace_diff import TraceDiff as TraceDiff
from tracelens_graph.compat.trace_to_tree import TraceToTree as TraceToTree
from tracelens_graph.compat.tree_perf import TreePerfAnalyzer as TreePerfAnalyzer
from tracelens_graph.compat.TreePerf import GPUEventAnalyser as GPUEventAnalyser

__all__: list[str]
