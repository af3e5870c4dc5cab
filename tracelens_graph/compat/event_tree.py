"""The call tree that events are shown in: with Python frames or without, row by row of the graph."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import union_length_by_group
from tracelens_graph.graph.traversals import nearest_above, rows_of_kind
from tracelens_graph.loaders.kineto.times import origin_ns
from tracelens_graph.reports.tree_text import Head, heads
from tracelens_graph.schema import GPU_KINDS, HOST_KINDS, PYTHON_KINDS, Kind
from tracelens_graph.schema.categories import CATEGORY_OF_KIND
from tracelens_graph.utils.arrays import Mask, Rows


class EventTree:
    """Parents and children of all events of a graph.

    Attributes:
        graph: the graph that everything is read from.
        clock_ns: what to add to the graph's times for those of the file, in ns.
        in_tree, is_root_op: per row of the graph whether the event is in the tree; whether it is an op under no
            other op.
    """

    in_tree: Mask
    is_root_op: Mask

    def __init__(self, graph: Core) -> None:
        self.graph = graph
        self.clock_ns = origin_ns(graph)

    def arrange(self, python_frames: bool) -> None:
        """Make the tree with Python frames, or hang calls under the nearest op or runtime call instead."""
        c = self.graph.columns
        in_forest = is_kind(c.kind, HOST_KINDS) | (is_kind(c.kind, GPU_KINDS) & (c.parent >= 0))
        self.in_tree = in_forest if python_frames else in_forest & ~is_kind(c.kind, PYTHON_KINDS)
        shown = [kind for kind in HOST_KINDS if python_frames or kind not in PYTHON_KINDS]
        parent = nearest_above(c, np.arange(len(c)), shown)
        self._parent = np.where(self.in_tree, parent, -1)
        # Stable: rows are in pre-order, so that children of one parent stay in the order of their starts.
        self._by_parent = np.argsort(self._parent, kind="stable")
        self._ordered_parents = self._parent[self._by_parent]
        is_op = c.kind == Kind.Op
        self.is_root_op = is_op & (nearest_above(c, np.arange(len(c)), (Kind.Op,)) < 0)

    def parent_row(self, row: int) -> int:
        """Row of the parent in the tree as built, -1 for none."""
        return int(self._parent[row])

    def child_rows(self, row: int) -> Rows:
        """Rows of the children in the tree as built."""
        low, high = np.searchsorted(self._ordered_parents, (row, row + 1))
        return self._by_parent[low:high]

    def root_row(self, row: int) -> int:
        """Row of the outermost caller in the tree as built: the row itself if it has no parent."""
        while (parent := self.parent_row(row)) >= 0:
            row = parent
        return row

    def gpu_rows_below(self, row: int) -> Rows:
        """Rows of the GPU events that were launched below a call, in pre-order; none for a GPU event."""
        return self.graph.gpu_rows[slice(*self._gpu_below[row])]

    def has_gpu_below(self, row: int) -> bool:
        """Whether GPU events were launched below a call; no for a GPU event."""
        low, high = self._gpu_below[row]
        return bool(low < high)

    @cached_property
    def _gpu_below(self) -> Rows:
        """Per row the place of the first GPU event below it among all GPU events, and that behind the last."""
        gpu, last = self.graph.gpu_rows, self.graph.columns.last
        return np.stack((np.searchsorted(gpu, np.arange(len(last)), "right"), np.searchsorted(gpu, last, "right")), 1)

    def uids(self, rows: Rows) -> list[int]:
        """UIDs of the events at some rows."""
        return self.graph.columns.uid[rows].tolist()

    # --- modules -----------------------------------------------------------------------------------------------

    def is_module(self, row: int) -> bool:
        """Whether an event is an nn.Module in the tree as built."""
        return bool(self.graph.columns.kind[row] == Kind.Module and self.in_tree[row])

    def module_around(self, row: int) -> int:
        """Row of the nn.Module around an event, -1 outside of modules."""
        return int(nearest_above(self.graph.columns, np.array([row]), (Kind.Module,))[0])

    def module_rows_in(self, row: int) -> Rows:
        """Rows of the nn.Modules below an event, with no other module in between."""
        modules, around = self._modules
        inside = slice(*np.searchsorted(modules, (row + 1, int(self.graph.columns.last[row]) + 1)))
        outer = row if self.graph.columns.kind[row] == Kind.Module else self.module_around(row)
        return modules[inside][around[inside] == outer]

    def module_us(self, row: int) -> float | None:
        """Time during which anything runs that was launched below a module, in us; None for a row that is none (-1)."""
        return self._module_ns[row][0] / 1000 if row >= 0 else None

    def own_module_us(self, row: int) -> float:
        """The same of what was launched below a module, but below no module in it."""
        return self._module_ns[row][1] / 1000

    @cached_property
    def _module_ns(self) -> dict[int, tuple[int, int]]:
        c, gpu, (modules, _) = self.graph.columns, self.graph.gpu_rows, self._modules
        nearest = nearest_above(c, gpu, (Kind.Module,))
        gpu, group = gpu[nearest >= 0], np.searchsorted(modules, nearest[nearest >= 0])
        own = union_length_by_group(group, c.start_ns[gpu], c.end_ns[gpu], len(modules))
        times = zip(self.graph.gpu_busy_ns(modules).tolist(), own.tolist(), strict=True)
        return dict(zip(modules.tolist(), times, strict=True))

    @cached_property
    def _modules(self) -> tuple[Rows, Rows]:
        modules = rows_of_kind(self.graph.columns, (Kind.Module,))
        return modules, nearest_above(self.graph.columns, modules, (Kind.Module,))

    # --- as the file says it -----------------------------------------------------------------------------------

    def category(self, row: int) -> str:
        """The event's category in its file."""
        return self._head(row).cat or CATEGORY_OF_KIND[Kind(int(self.graph.columns.kind[row]))]

    def phase(self, row: int) -> str:
        """The event's phase in its file."""
        return self._head(row).ph or ("i" if self.graph.columns.kind[row] == Kind.MemoryEvent else "X")

    def _head(self, row: int) -> Head:
        return self._heads.get(int(self.graph.columns.uid[row]), Head())

    @cached_property
    def _heads(self) -> dict[int, Head]:
        return heads(self.graph)
