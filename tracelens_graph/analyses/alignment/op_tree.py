"""Two aligned call trees as one of ops, launches and GPU events, numbered as TraceLens numbers its merged tree.

Frames of Python and modules are passed over, and so are wrappers that only one side has: around shared work all of
them, around work of its own all but the innermost. Ops that no other op or launch calls are drawn whether they lead to
GPU work or not; below them only what leads to it. Work that no op launched is not in the tree.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.alignment.align import Alignment
from tracelens_graph.analyses.alignment.containers import common_places
from tracelens_graph.analyses.alignment.forest import Forest, Vocabulary
from tracelens_graph.analyses.alignment.merged import MergedNodes, one_name
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import GPU_KINDS, Kind

_MODULE_LAUNCHES = frozenset({"cuLaunchKernel", "hipModuleLaunchKernel"})

Rows = tuple[int, int]
"""A row of each graph, -1 where a side has none."""


@dataclass(eq=False)
class OpTree:
    """Nodes in pre-order; their places are their numbers.

    Attributes:
        windows: both sides.
        rows: for each node its row in each graph; -1 where a side does not have it.
        parent: node above each; -1 at the top.
        last: the last node below each, itself without any.
        events: for each side, of each node whether it is a GPU event of it.
        dropped: GPU events of each side that are not in the tree, because no op launched them.
    """

    windows: tuple[Window, Window]
    rows: list[Rows]
    parent: list[int]
    last: list[int]
    events: tuple[list[bool], list[bool]]
    dropped: Rows

    def is_shared(self, node: int) -> bool:
        """Whether both sides have it."""
        return min(self.rows[node]) >= 0

    def children(self, node: int) -> Iterator[int]:
        """Nodes right below a node."""
        below = node + 1
        while below <= self.last[node]:
            yield below
            below = self.last[below] + 1

    def names(self, node: int) -> tuple[str, str]:
        """What it is called on both sides; empty on a side that does not have it."""
        first, second = (
            w.core.names[w.core.columns.name[row]] if row >= 0 else ""
            for w, row in zip(self.windows, self.rows[node], strict=True)
        )
        return first, second

    def name(self, node: int) -> str:
        """What it is called, `x | y` where the sides call it differently."""
        return one_name(self.names(node), " | ")

    def events_below(self, node: int, side: int) -> list[int]:
        """Rows of the GPU events of a side at and below a node."""
        is_event = self.events[side]
        return [self.rows[at][side] for at in range(node, self.last[node] + 1) if is_event[at]]


def op_tree(alignment: Alignment) -> OpTree:
    """The tree of an alignment."""
    merged = MergedNodes(alignment, _is_op)
    first, second = alignment.sides
    builder = _Builder(merged, (first.window, second.window))
    return builder.tree()


def _is_op(forest: Forest) -> np.ndarray:
    return forest.is_op


class _Builder:
    def __init__(self, merged: MergedNodes, windows: tuple[Window, Window]) -> None:
        self._merged, self._windows = merged, windows
        self._tokens = Vocabulary()
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], list[tuple[int, int]]] = {}
        self._launched = 0, 0

    def tree(self) -> OpTree:
        tree = OpTree(self._windows, [], [], [], ([], []), self._dropped())
        # What is still to be drawn: rows, the node above, and the number of the merged node, 0 for launches and events.
        stack: list[tuple[Rows, int, int, list[_Item]]] = [
            (item.rows, -1, item.merged, item.below) for item in reversed(self._top())
        ]
        is_event = [np.isin(w.core.columns.kind, list(GPU_KINDS)) for w in self._windows]
        while stack:
            rows, above, merged, below = stack.pop()
            node = len(tree.rows)
            tree.rows.append(rows)
            tree.parent.append(above)
            tree.last.append(node)
            for side, row in enumerate(rows):
                tree.events[side].append(row >= 0 and bool(is_event[side][row]))
            items = _in_order([*self._ops_below(merged), *self._launches(merged)]) if merged else below
            stack += [(item.rows, node, item.merged, item.below) for item in reversed(items)]
        for node in range(len(tree.rows) - 1, -1, -1):
            if (above := tree.parent[node]) >= 0:
                tree.last[above] = max(tree.last[above], tree.last[node])
        return tree

    def _dropped(self) -> Rows:
        found = []
        for w in self._windows:
            found.append(int((nearest_above(w.core.columns, w.gpu_rows, (Kind.Op,)) < 0).sum()))
        return found[0], found[1]

    def _rows(self, merged: int) -> Rows:
        first, second = (
            int(side.row[node]) if node >= 0 else -1
            for side, node in zip(self._merged.sides, self._merged.nodes[merged - 1], strict=True)
        )
        return first, second

    def _ops_below(self, merged: int) -> list[_Item]:
        return [_Item(self._rows(op), op, []) for op in map(self._innermost, self._merged.below[merged])]

    def _innermost(self, child: tuple[object, int]) -> int:
        """The innermost of ops that one side alone has around the same work."""
        _, op = child
        while min(self._merged.nodes[op - 1]) < 0 and len(below := self._merged.below[op]) == 1:
            if any(self._merged.own[op]):
                break
            _, op = below[0]
        return op

    def _top(self) -> list[_Item]:
        """What stands at the top: also ops without GPU work, and what no shared op holds."""
        items = self._ops_below(0)
        idle = self._without_work([item.rows for item in items])
        return _in_order([*items, *idle, *self._launches(0)])

    def _launches(self, merged: int) -> list[_Item]:
        """Launches below a merged node, paired by their names in order, and the GPU events below each."""
        sides = []
        for side, w, leaves in zip(self._merged.sides, self._windows, self._merged.own[merged], strict=True):
            events = [int(row) for leaf in sorted(leaves) for row in side.events_of(leaf)]
            events = [row for row in events if row not in side.captured]
            if not merged and events:
                above = nearest_above(w.core.columns, np.array(events, np.int64), (Kind.Op,))
                events = [row for row, op in zip(events, above.tolist(), strict=True) if op >= 0]
            launches: dict[int, list[int]] = {}
            for row in events:
                launches.setdefault(int(w.core.columns.parent[row]), []).append(row)
            sides.append(launches)
        first, second = sides
        found = []
        for u, v in self._paired(list(first), list(second)):
            own, other = first.get(u, []), second.get(v, [])
            found.append(_Item((u, v), 0, self._events(own, other)))
        return found

    def _events(self, first: list[int], second: list[int]) -> list[_Item]:
        """Events below one launch: by their places where there are equally many, else by their names."""
        if len(first) == len(second):
            return [_Item(rows, 0, []) for rows in zip(first, second, strict=True)]
        return [_Item(rows, 0, []) for rows in self._paired(first, second)]

    def _paired(self, first: Sequence[int], second: Sequence[int]) -> list[Rows]:
        """Rows of both sides, paired along a longest common sequence of names; the others alone."""
        names = self._named(0, first), self._named(1, second)
        if names not in self._known:
            self._known[names] = common_places(*names)
        pairs = self._known[names]
        of_first, of_second = {i for i, _ in pairs}, {j for _, j in pairs}
        alone = [(row, -1) for i, row in enumerate(first) if i not in of_first]
        alone += [(-1, row) for j, row in enumerate(second) if j not in of_second]
        found: list[Rows] = [(first[i], second[j]) for i, j in pairs] + alone
        return [item.rows for item in _in_order([_Item(rows, 0, []) for rows in found])]

    def _named(self, side: int, rows: Sequence[int]) -> tuple[int, ...]:
        core = self._windows[side].core
        names = [core.names[code] for code in core.columns.name[np.array(rows, np.int64)].tolist()]
        return tuple(self._tokens["launch of a module" if name in _MODULE_LAUNCHES else name] for name in names)

    def _without_work(self, drawn: list[Rows]) -> list[_Item]:
        """Ops at the top that lead to no GPU work: paired by names between two shared ones with work."""
        idle = [self._idle_tops(side) for side in (0, 1)]
        shared = sorted(rows for rows in drawn if min(rows) >= 0)
        anchors: list[Rows] = []
        for rows in shared:
            if not anchors or rows[1] > anchors[-1][1]:
                anchors.append(rows)
        ends = [np.searchsorted(rows, [anchor[k] for anchor in anchors]).tolist() for k, rows in enumerate(idle)]
        begins = [[0, *end] for end in ends]
        ends = [[*end, len(rows)] for end, rows in zip(ends, idle, strict=True)]
        found = []
        for a, b, c, d in zip(begins[0], ends[0], begins[1], ends[1], strict=True):
            found += self._paired(idle[0][a:b].tolist(), idle[1][c:d].tolist())
        return [_Item(rows, 0, []) for rows in found]

    def _idle_tops(self, side: int) -> np.ndarray:
        w = self._windows[side]
        c = w.core.columns
        ops = w.rows_of_kind(Kind.Op)
        ops = ops[nearest_above(c, ops, (Kind.Op, Kind.RuntimeCall)) < 0]
        gpu = w.linked_gpu_rows
        return ops[np.searchsorted(gpu, ops) == np.searchsorted(gpu, c.last[ops], "right")]


@dataclass(eq=False)
class _Item:
    """A node to be drawn: its rows, its number among the merged nodes or 0, and what is below it otherwise."""

    rows: Rows
    merged: int
    below: list[_Item]


def _in_order(items: list[_Item]) -> list[_Item]:
    """Items as the first side has them; what only the second has stands before the next one that both have."""
    first = sorted((item for item in items if item.rows[0] >= 0), key=lambda item: item.rows[0])
    second = sorted((item for item in items if item.rows[0] < 0), key=lambda item: item.rows[1])
    if not second:
        return first
    shared = sorted((item.rows[1], at) for at, item in enumerate(first) if item.rows[1] >= 0)
    rows = [row for row, _ in shared]
    places = [at for _, at in shared] + [len(first)]
    keyed = [((at, 1, 0), item) for at, item in enumerate(first)]
    keyed += [((places[bisect_right(rows, item.rows[1])], 0, item.rows[1]), item) for item in second]
    return [item for _, item in sorted(keyed, key=lambda one: one[0])]
