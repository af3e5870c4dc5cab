"""What analyses know of a graph, as nodes and edges of it: categories, costs of signatures, parsed kernel names."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tracelens_graph.analyses.launchers import launchers
from tracelens_graph.analyses.modelled import Modelled, modelled_of
from tracelens_graph.analyses.perf_tables import unified_of
from tracelens_graph.categories.kernel_names import properties
from tracelens_graph.categories.kernels import kernel_category
from tracelens_graph.graph.context import Context, content_key
from tracelens_graph.graph.core import Core
from tracelens_graph.perf.model import OpModel
from tracelens_graph.perf.registry import MODELS
from tracelens_graph.schema import Kind


def add_knowledge(context: Context, core: Core, models: Mapping[str, OpModel] = MODELS) -> None:
    """Add to the context of a graph what analyses know of it.

    Categories of ops and of kernel names (IN_CATEGORY); operations, bytes and units on signatures, or why no model
    applies; what the name of a kernel tells, on its node; the op that each GPU event is modelled by (MODELLED_BY).

    Args:
        context: what `build_context` made.
        core: the graph.
        models: op name -> model.
    """
    _categories_of_ops(context, core)
    _kernel_names(context, core)
    _costs(context, core, modelled_of(core, models))
    chosen = unified_of(core, models)
    given = chosen.owner >= 0
    context.between_events["MODELLED_BY"] = core.gpu_rows[given], chosen.owner[given]


def _categories_of_ops(context: Context, core: Core) -> None:
    found = launchers(core.everything)
    is_op = core.columns.kind[found.rows] == Kind.Op

    def category_of(code: int) -> int:
        return _category(context, "op", found.categories[code])

    context.join_events("IN_CATEGORY", found.rows[is_op], found.category[is_op], category_of)


def _category(context: Context, of: str, name: str) -> int:
    return context.add(f"category:{of}:{name}", "Category", name=name, of=of)


def _kernel_names(context: Context, core: Core) -> None:
    c, rows = core.columns, core.gpu_rows
    for code in np.unique(c.name[rows[c.kind[rows] == Kind.Kernel]]).tolist():
        name = core.names[code]
        key = content_key("kname", name)
        context.nodes[key] |= properties(name)
        number = context.add(key, "KernelName")
        context.join("IN_CATEGORY", number, _category(context, "kernel", kernel_category(name)))


def _costs(context: Context, core: Core, found: Modelled) -> None:
    """Costs stand on signatures; of a model that looks at more than arguments, that of the first call."""
    rows, numbers = context.from_events["HAS_SIGNATURE"]
    keys = list(context.nodes)
    seen: set[int] = set()
    for position, number in enumerate(numbers[np.searchsorted(rows, found.rows)].tolist()):
        if number in seen:
            continue
        seen.add(number)
        node, cost = context.nodes[keys[number]], found.cost(position)
        if cost is None:
            node["no_model"] = found.reason(position)
            continue
        node["flops"] = cost.flops
        if cost.bytes is not None:
            node["bytes"] = cost.bytes
        if cost.compute_spec:
            node["compute_spec"] = cost.compute_spec
