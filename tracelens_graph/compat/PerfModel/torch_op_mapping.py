"""Which ops have a performance model, and in which family: ops that TraceLens has a model of, with models of ours."""

from __future__ import annotations

from collections.abc import Mapping

from tracelens_graph.op_table import OP_TABLE
from tracelens_graph.perf.model import OpModel
from tracelens_graph.perf.registry import models_of

TRACELENS_MODELS: Mapping[str, OpModel] = models_of({op: entry for op, entry in OP_TABLE.items() if entry.in_tracelens})
"""Op name -> our model of it, of the ops that TraceLens has a model of."""

op_to_perf_model_class_map = TRACELENS_MODELS
"""The same by TraceLens's name, to be given as `perf_model_class`. `TreePerfAnalyzer.models` has further ops, too."""


def _by_family() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for op in op_to_perf_model_class_map:
        family = OP_TABLE[op].sheet.removesuffix("_fwd").removesuffix("_bwd")
        found.setdefault(family, []).append(op)
    return found


dict_cat2names: Mapping[str, list[str]] = _by_family()
"""Family, such as `GEMM`, `SDPA` or `UnaryElementwise` -> names of its ops, forward and backward."""
