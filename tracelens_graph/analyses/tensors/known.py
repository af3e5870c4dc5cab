"""What questions about tensors have in common: the tensors of a graph, kernels of ops, and a table without any."""

from __future__ import annotations

import numpy as np

from tracelens_graph.execution.link import GraphTensors
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

NO_TENSORS = (
    "the trace is not linked with its execution trace, which alone tells tensors: load it with et=, or give --et"
)


def without_tensors(schema: TableSchema, title: str) -> Table:
    """The empty table of a graph that knows no tensors."""
    return schema.empty(title, [NO_TENSORS])


def storages_by_row(tensors: GraphTensors, edge: str) -> tuple[np.ndarray, np.ndarray]:
    """Distinct pairs of a row and the storage of a tensor that an edge leads to from there."""
    rows, numbers = tensors.edges[edge]
    storage, place = tensors.storages_of(numbers)
    pairs = np.unique(np.stack((storage, rows[place]), axis=1), axis=0)
    return pairs[:, 1], pairs[:, 0]


class KernelsOfOps:
    """GPU events of a window by the op that they are charged to."""

    def __init__(self, w: Window) -> None:
        rows, owner = w.gpu_rows, w.core.columns.owner[w.gpu_rows]
        order = np.argsort(owner, kind="stable")
        self._rows, self._owner = rows[order], owner[order]

    def of(self, ops: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """GPU events of ops, and for each the place of its op."""
        low, high = (np.searchsorted(self._owner, ops, side) for side in ("left", "right"))
        count = high - low
        place = np.repeat(np.arange(len(ops)), count)
        within = np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count)
        return self._rows[low[place] + within], place


def shown_us(core: Core, ns: np.ndarray) -> np.ndarray:
    """Moments as Perfetto UI counts them, in us."""
    return np.asarray(core.info.shown_ms(ns) * 1e3)
