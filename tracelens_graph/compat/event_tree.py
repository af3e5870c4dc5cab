"""The call tree that events are shown in: with Python frames or without, row by row of the graph."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.loaders.kineto.times import epoch_ns
from tracelens_graph.reports.original import CATEGORY, Head, heads
from tracelens_graph.schema import GPU_KINDS, HOST_KINDS, PYTHON_KINDS, Kind


class EventTree:
    """Parents and children of all events of a graph.

    Attributes:
        graph: the graph that everything is read from.
        clock_ns: what to add to the graph's times for those of the file, in ns.
        in_tree, is_root_op: per row of the graph whether the event is in the tree; whether it is an op under no
            other op.
    """

    in_tree: np.ndarray
    is_root_op: np.ndarray

    def __init__(self, graph: Core) -> None:
        self.graph = graph
        self.clock_ns = graph.info.start_epoch_ns - epoch_ns(graph.info.metadata.get("baseTimeNanoseconds"))

    def arrange(self, python_frames: bool) -> None:
        """Make the tree with Python frames, or hang calls under the nearest op or runtime call instead."""
        c = self.graph.columns
        in_forest = is_kind(c.kind, HOST_KINDS) | (is_kind(c.kind, GPU_KINDS) & (c.parent >= 0))
        self.in_tree = in_forest if python_frames else in_forest & ~is_kind(c.kind, PYTHON_KINDS)
        shown = [kind for kind in HOST_KINDS if python_frames or kind not in PYTHON_KINDS]
        parent = nearest_above(c, np.arange(len(c)), shown)
        self._parent = np.where(self.in_tree, parent, -1)
        self._by_parent = np.argsort(self._parent, kind="stable")
        self._ordered_parents = self._parent[self._by_parent]
        is_op = c.kind == Kind.Op
        self.is_root_op = is_op & (nearest_above(c, np.arange(len(c)), (Kind.Op,)) < 0)

    def parent_row(self, row: int) -> int:
        """Row of the parent in the tree as built, -1 for none."""
        return int(self._parent[row])

    def child_rows(self, row: int) -> np.ndarray:
        """Rows of the children in the tree as built."""
        low, high = np.searchsorted(self._ordered_parents, (row, row + 1))
        return self._by_parent[low:high]

    def category(self, row: int) -> str:
        """The event's category in its file."""
        return self._head(row).cat or CATEGORY[Kind(int(self.graph.columns.kind[row]))]

    def phase(self, row: int) -> str:
        """The event's phase in its file."""
        return self._head(row).ph or ("i" if self.graph.columns.kind[row] == Kind.MemoryEvent else "X")

    def _head(self, row: int) -> Head:
        return self._heads.get(int(self.graph.columns.uid[row]), Head())

    @cached_property
    def _heads(self) -> dict[int, Head]:
        return heads(self.graph)
