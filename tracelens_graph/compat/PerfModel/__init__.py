"""TraceLens's `PerfModel`: formulas to call with sizes, and which ops have a model."""

from __future__ import annotations

from tracelens_graph.compat.PerfModel.perf_model import GEMM, SDPA
from tracelens_graph.compat.PerfModel.torch_op_mapping import dict_cat2names, op_to_perf_model_class_map

__all__ = ["GEMM", "SDPA", "dict_cat2names", "op_to_perf_model_class_map"]
