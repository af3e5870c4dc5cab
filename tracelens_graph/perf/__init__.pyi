# Made by docs/make_stub.py of the list in __init__.py.

from tracelens_graph.perf.arguments import Arguments as Arguments
from tracelens_graph.perf.cost import CannotModel as CannotModel
from tracelens_graph.perf.cost import Cost as Cost
from tracelens_graph.perf.devices import Architecture as Architecture
from tracelens_graph.perf.devices import architecture as architecture
from tracelens_graph.perf.devices import detect as detect
from tracelens_graph.perf.families.attention import attention as attention
from tracelens_graph.perf.families.convolution import convolution as convolution
from tracelens_graph.perf.families.convolution import convolution_backward as convolution_backward
from tracelens_graph.perf.families.elementwise import binary as binary
from tracelens_graph.perf.families.elementwise import unary as unary
from tracelens_graph.perf.families.gemm import gemm as gemm
from tracelens_graph.perf.families.grouped_gemm import grouped_gemm as grouped_gemm
from tracelens_graph.perf.families.moe import fused_moe as fused_moe
from tracelens_graph.perf.families.normalization import normalization as normalization
from tracelens_graph.perf.families.normalization import rms_norm as rms_norm
from tracelens_graph.perf.families.reduction import reduction as reduction
from tracelens_graph.perf.families.reduction import softmax as softmax
from tracelens_graph.perf.families.rope import rope as rope
from tracelens_graph.perf.families.ssm import causal_conv1d as causal_conv1d
from tracelens_graph.perf.families.ssm import mamba2 as mamba2
from tracelens_graph.perf.families.training import cross_entropy as cross_entropy
from tracelens_graph.perf.families.training import rows_by_index as rows_by_index
from tracelens_graph.perf.model import CallContext as CallContext
from tracelens_graph.perf.model import OpModel as OpModel
from tracelens_graph.perf.model import TimeModel as TimeModel
from tracelens_graph.perf.model import Work as Work
from tracelens_graph.perf.registry import MODELS as MODELS
from tracelens_graph.perf.registry import model_named as model_named
from tracelens_graph.perf.roofs import Roof as Roof
from tracelens_graph.perf.roofs import roofline as roofline

__all__: list[str]
