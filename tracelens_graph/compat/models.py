"""The performance models of ops that TraceLens has models of."""

from __future__ import annotations

from collections.abc import Mapping

from tracelens_graph.op_table import OP_TABLE
from tracelens_graph.perf.model import OpModel
from tracelens_graph.perf.registry import Models

TRACELENS_MODELS: Mapping[str, OpModel] = Models({op: entry for op, entry in OP_TABLE.items() if entry.in_tracelens})
"""Op name -> our model of it, of the ops that TraceLens has a model of."""
