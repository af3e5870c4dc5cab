"""One table of ops: what is known of each by its name.

    OP_TABLE["aten::mm"]
    OpEntry(category="GEMM", model=ModelSpec("gemm", "Product", ...), sheet="GEMM", in_tracelens=True, ...)

The category of an op (`categories.ops`), its performance model (`perf.registry`), and the models that TraceLens has too
(`compat.PerfModel`) are all read from here. The table is data: it imports no formula.

How to add an op or a model
---------------------------

* **An op whose formula exists**: one row in the module of its domain here. Positions of arguments and the like are
  parameters of the reader: `*ops("mine::mm", model=model("gemm.Product", weight=True), sheet="GEMM")`.
* **An op with a category but no model**: a row without `model`.
* **An op whose formula does not**: a function of sizes in `perf/families/`. If it takes tensors alone, the row says
  where they stand among the arguments: `model("training.cross_entropy", tensors=(0, 1))`. Else there is a reader beside
  it, which takes the recorded arguments of a call and returns a `Cost` or raises `CannotModel`: a function of
  `(arguments, context)` and parameters, or a frozen dataclass of parameters with `__call__(arguments, context)`.
  `@looks_at_context` marks a reader whose answer depends on the context. Then one row.
* **A part of fused work**, which no op's name describes: a rule in `pseudo`, by which the graph gets an op for it, and
  a row for that op, with `is_part=True` if TraceLens has no model of it.
* **A new domain**: a module with a list `OPS`, named in `DOMAINS`.

`in_tracelens=True` says that TraceLens has a model of the op, and makes ours claim GPU events. Set it for no other
reason. Ops that belong to no public library come in through an extension (docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from tracelens_graph.op_table import attention, elementwise, hlo, matrix, normalization, reduction, serving, training
from tracelens_graph.op_table.entry import OpEntry

DOMAINS = (attention, elementwise, hlo, matrix, normalization, reduction, serving, training)
"""Modules of rows."""

OP_TABLE: Mapping[str, OpEntry] = {name: entry for domain in DOMAINS for name, entry in domain.OPS}
"""Op name -> what is known of it."""

WITH_TWO_TENSORS: Mapping[str, str] = {"aten::max": "aten::maximum", "aten::min": "aten::minimum"}
"""Op -> what it is where its first two arguments are tensors: `torch.max(a, b)` compares elementwise, and reduces
nothing."""
