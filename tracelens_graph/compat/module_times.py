"""GPU busy time of nn.Modules, whole and without the modules in them."""

from __future__ import annotations

import numpy as np

from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import union_length_by_group
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.schema import Kind


class ModuleTimes:
    """GPU busy time of all modules of a graph, computed once.

    Args:
        graph: the graph.
        modules: rows of the modules, ascending.
    """

    def __init__(self, graph: Core, modules: np.ndarray) -> None:
        c, gpu = graph.columns, graph.gpu_rows
        nearest = nearest_above(c, gpu, (Kind.Module,))
        inside = nearest >= 0
        gpu, group = gpu[inside], np.searchsorted(modules, nearest[inside])
        own = union_length_by_group(group, c.start_ns[gpu], c.end_ns[gpu], len(modules))
        self._busy_ns = dict(zip(modules.tolist(), graph.gpu_busy_ns(modules).tolist(), strict=True))
        self._own_ns = dict(zip(modules.tolist(), own.tolist(), strict=True))

    def busy_us(self, row: int) -> float | None:
        """Time during which anything runs that was launched below a module; None for a row that is none (-1)."""
        return self._busy_ns[row] / 1000 if row >= 0 else None

    def own_us(self, row: int) -> float:
        """The same of what was launched below a module, but below no module in it."""
        return self._own_ns[row] / 1000
