"""How much of two traces of one run leads from one to the other, over all operators and all GPU work at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.execution.link import Link
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.linkage.identifiers import shared_identifiers
from tracelens_graph.linkage.kernel_ops import WAYS, Origins, origins
from tracelens_graph.linkage.tables import COUNTED, LINK_COUNTS, LINK_OPS, LINK_WAYS
from tracelens_graph.schema import Kind
from tracelens_graph.tables.table import Table

RETURNS, NO_NODE, SHARED, ELSEWHERE = range(4)
VERDICTS = (
    "every kernel leads back to it",
    "has no node in the execution trace",
    "a kernel shares its identifier with another GPU event",
    "a kernel leads to an op that is not inside it in the execution trace",
)
"""What becomes of an op with GPU work, by code."""


@dataclass(eq=False)
class Validation:
    """What of a linked graph round-trips: op -> its GPU work -> the op, or one that it called.

    The nesting of ops is told twice, by times in one trace and by control dependencies in the other, so that GPU work
    found by the one has to be found by the other.

    Attributes:
        core: the graph of the profiler's trace.
        link: what links it with the execution trace.
    """

    core: Core
    link: Link

    @cached_property
    def origins(self) -> Origins:
        """For each of `core.gpu_rows` the op or range it comes from."""
        return origins(self.core, self.link, self.core.gpu_rows)

    @cached_property
    def _work(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of ops with GPU work, and for each the first and one behind the last of it among `core.gpu_rows`."""
        c, gpu = self.core.columns, self.core.gpu_rows
        ops = np.flatnonzero(c.kind == Kind.Op)
        low, high = np.searchsorted(gpu, ops, "left"), np.searchsorted(gpu, c.last[ops], "right")
        has_work = high > low
        return ops[has_work], low[has_work], high[has_work]

    @property
    def ops(self) -> np.ndarray:
        """Rows of ops with GPU work, ascending."""
        return self._work[0]

    @cached_property
    def _shared(self) -> np.ndarray:
        return shared_identifiers(self.core)

    @cached_property
    def _nesting(self) -> tuple[np.ndarray, np.ndarray]:
        return preorder(self.link.execution)

    @cached_property
    def _place_of_origin(self) -> np.ndarray:
        """For each of `core.gpu_rows` the place of its node among all nodes in pre-order, -1 for none."""
        origin = self.origins.row
        node = np.where(origin >= 0, self.link.node_of_row[origin], -1)
        return np.where(node >= 0, self._nesting[0][node], -1)

    def leads_back(self, row: int, gpu: np.ndarray) -> np.ndarray:
        """For each of some GPU events whether its identifier leads to a node, or to one inside it.

        Args:
            row: the node's event.
            gpu: rows of GPU events, ascending.
        """
        first, last = self._nesting
        node = int(self.link.node_of_row[row])
        at = np.searchsorted(self.core.gpu_rows, gpu)
        place = self._place_of_origin[at]
        found: np.ndarray = (place >= first[node]) & (place <= last[node]) & ~self._shared[at]
        return found

    @cached_property
    def verdict(self) -> np.ndarray:
        """For each of `ops` what becomes of it, as in `VERDICTS`."""
        ops, low, high = self._work
        node, place = self.link.node_of_row[ops], self._place_of_origin
        first, last = self._nesting
        inside = (least(place, low, high) >= first[node]) & (-least(-place, low, high) <= last[node])
        shared = np.concatenate(([0], np.cumsum(self._shared)))
        verdict = np.where(inside, RETURNS, ELSEWHERE)
        verdict[shared[high] > shared[low]] = SHARED
        verdict[node < 0] = NO_NODE
        return verdict

    @cached_property
    def counts(self) -> Table:
        """How much there is, links and round-trips."""
        core, link = self.core, self.link
        execution, c = link.execution, core.columns
        nodes, events = int(execution.is_op.sum()), int(is_kind(c.kind, (Kind.Op, Kind.Annotation, Kind.Step)).sum())
        joined, linked = int((link.row_of_node >= 0).sum()), int((link.node_of_row >= 0).sum())
        works, gpu = len(self.ops), len(core.gpu_rows)
        returning, traced = int((self.verdict == RETURNS).sum()), int((self.origins.row >= 0).sum())
        count = np.array([nodes, joined, events, linked, works, returning, gpu, traced])
        of = np.array([nodes, nodes, events, events, works, works, gpu, gpu])
        columns: dict[str, Cells] = {
            "what": list(COUNTED),
            "meaning": list(COUNTED.values()),
            "count": count,
            "of": of,
            "percent": np.where(of > 0, 100 * count / np.maximum(of, 1), np.nan),
        }
        note = f"joined by: {link.method}; {link.equal_names_percent:.4g} % of the names are equal"
        return LINK_COUNTS.table(columns, "What links", [note])

    @cached_property
    def ways(self) -> Table:
        """By which way things lead from one trace to the other, and why some do not."""
        verdicts = Counter(self.verdict.tolist())
        ways = Counter(zip(self.origins.way.tolist(), (self.origins.row >= 0).tolist(), strict=True))
        rows = [("op", VERDICTS[code], verdicts[code], code == RETURNS) for code in sorted(verdicts)]
        rows += [
            ("GPU event", WAYS[way], ways[way, leads], leads)
            for way, leads in sorted(ways, key=lambda one: (-one[1], -ways[one]))
        ]
        rows += [("join", why, count, False) for why, count in self.link.unjoined.items() if count]
        columns: dict[str, Cells] = {
            "of": [of for of, *_ in rows],
            "way": [way for _, way, *_ in rows],
            "count": np.array([count for *_, count, _ in rows], np.int64),
            "leads": [leads for *_, leads in rows],
        }
        return LINK_WAYS.table(columns, "Ways, and why the rest has none")

    @cached_property
    def by_name(self) -> Table:
        """Ops with GPU work by name, the most GPU time first."""
        core, c = self.core, self.core.columns
        ops, low, high = self._work
        gpu = core.gpu_rows
        running = np.concatenate(([0], np.cumsum(c.dur_ns[gpu])))
        time = running[high] - running[low]
        names, group = np.unique(c.name[ops], return_inverse=True)
        size = len(names)
        total = np.bincount(group, time, size)
        good, node = self.verdict == RETURNS, self.link.node_of_row[ops]
        order = np.argsort(-total, kind="stable")
        largest = np.lexsort((-ops, time, group))[np.cumsum(np.bincount(group, minlength=size)) - 1] if size else ops
        columns: dict[str, Cells] = {
            "name": [core.names[name] for name in names[order].tolist()],
            "ops": np.bincount(group, minlength=size)[order],
            "linked": np.bincount(group, node >= 0, size).astype(np.int64)[order],
            "round_trip": np.bincount(group, good, size).astype(np.int64)[order],
            "gpu_events": np.bincount(group, high - low, size).astype(np.int64)[order],
            "gpu_time_us": total[order] / 1000,
            "cpu_op_id": [self._id(int(node[at])) for at in largest[order].tolist()],
            "uid": c.uid[ops[largest[order]]],
        }
        title = "Ops with GPU work; GPU time of an op is that of all it calls"
        return LINK_OPS.table(columns, title)

    def _id(self, node: int) -> int | None:
        return int(self.link.execution.id[node]) if node >= 0 else None

    def tables(self) -> dict[str, Table]:
        """All tables, by name."""
        return {table.name: table for table in (self.counts, self.ways, self.by_name)}


def preorder(execution: ExecutionTrace) -> tuple[np.ndarray, np.ndarray]:
    """For each node its place in the order parent, then children, and the place of the last node below it.

    Rows of several threads alternate, so that what is below a node is no range of rows.
    """
    parent = execution.parent.tolist()
    size = [1] * len(parent)
    for row in range(len(parent) - 1, -1, -1):
        if parent[row] >= 0:
            size[parent[row]] += size[row]
    place, free, roots = [0] * len(parent), [0] * len(parent), 0
    for row, above in enumerate(parent):
        if above < 0:
            place[row], roots = roots, roots + size[row]
        else:
            place[row] = free[above]
            free[above] += size[row]
        free[row] = place[row] + 1
    first = np.array(place, np.int64)
    return first, first + np.array(size, np.int64) - 1


def least(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The least value of each range `low .. high - 1`, none of which is empty, in n log n steps."""
    found = np.empty(len(low), values.dtype)
    power = np.frexp(high - low)[1] - 1
    table = values
    for level in range(int(power.max(initial=-1)) + 1):
        if level:
            half = 1 << (level - 1)
            table = np.minimum(table[:-half], table[half:])
        at = np.flatnonzero(power == level)
        found[at] = np.minimum(table[low[at]], table[high[at] - (1 << level)])
    return found
