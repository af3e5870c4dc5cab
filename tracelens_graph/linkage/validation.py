"""How much of two traces of one run leads from one to the other, over all operators, and in full of single ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tracelens_graph.analyses.ops.launchers import launchers
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.errors import NodeNotFoundError
from tracelens_graph.execution.link import Link, tensors_of
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import outermost
from tracelens_graph.graph.window import window_of
from tracelens_graph.linkage.metadata import metadata_of_gpu_row, metadata_of_row
from tracelens_graph.linkage.tables import COUNTED, LINK_COUNTS, LINK_OPS, LINK_WAYS
from tracelens_graph.linkage.traces import row_of_node, shared_identifiers
from tracelens_graph.linkage.tracing import WAYS, Origins, events_of_op, origins, row_of_event, rows_inside
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Codes, Mask, Rows
from tracelens_graph.utils.suggest import did_you_mean

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

    The nesting of ops is recorded twice, by times in one trace and by control dependencies in the other, so GPU work
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

    def leads_back(self, row: int, gpu: Rows) -> Mask:
        """For each of some GPU events whether its identifier leads to a node, or to one inside it.

        Args:
            row: the node's event.
            gpu: rows of GPU events, ascending.
        """
        first, last = self._nesting
        node = int(self.link.node_of_row[row])
        at = np.searchsorted(self.core.gpu_rows, gpu)
        place = self._place_of_origin[at]
        return (place >= first[node]) & (place <= last[node]) & ~self._shared[at]

    @cached_property
    def verdict(self) -> Codes:
        """For each of `ops` what becomes of it, as in `VERDICTS`."""
        ops, low, high = self._work
        node, place = self.link.node_of_row[ops], self._place_of_origin
        first, last = self._nesting
        # All events lead inside if the least and the greatest place do; -1, for no node, lies before every first.
        inside = (least(place, low, high) >= first[node]) & (-least(-place, low, high) <= last[node])
        shared = np.concatenate(([0], np.cumsum(self._shared)))
        verdict = np.where(inside, RETURNS, ELSEWHERE)
        # The last assignment holds: of an op without a node nothing else is known.
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
        # What is below an op in another one of its name is below that, too, and must not count twice.
        outer = outermost(group, ops, c.last[ops])
        total = sum_by_group(group[outer], time[outer], size)
        good, node = self.verdict == RETURNS, self.link.node_of_row[ops]
        order = np.argsort(-total, kind="stable")
        # The last one of a group has the most time, and of equal ones the smallest row.
        largest = np.lexsort((-ops, time, group))[np.cumsum(np.bincount(group, minlength=size)) - 1] if size else ops
        columns: dict[str, Cells] = {
            "name": [core.names[name] for name in names[order].tolist()],
            "ops": np.bincount(group, minlength=size)[order],
            "linked": np.bincount(group, node >= 0, size).astype(np.int64)[order],
            "round_trip": np.bincount(group, good, size).astype(np.int64)[order],
            "gpu_events": sum_by_group(group[outer], (high - low)[outer], size)[order],
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
    """The least value of each range `low .. high - 1`, where none is empty, in n log n steps."""
    found = np.empty(len(low), values.dtype)
    # Two stretches of the greatest power of two cover a range; a minimum may count an element twice.
    power = np.frexp(high - low)[1] - 1
    table = values
    for level in range(int(power.max(initial=-1)) + 1):
        if level:
            half = 1 << (level - 1)
            table = np.minimum(table[:-half], table[half:])
        at = np.flatnonzero(power == level)
        found[at] = np.minimum(table[low[at]], table[high[at] - (1 << level)])
    return found


_MOST_DIGITS = 4000
"""Digits of an id that are read: Python refuses to read more than 4,300."""
MOST_KERNELS = 3
"""Kernels of an operator whose configuration is shown, the longest first."""


def top_ops(validation: Validation, most: int | None = None) -> dict[int, str]:
    """Of each kind of op the one whose own launches brought most GPU time.

    Args:
        validation: the linked pair.
        most: how many kinds; None for all.

    Returns:
        Id of the op's node -> its kind; the kind with most GPU time first. Ops without a node are passed over.
    """
    core, link = validation.core, validation.link
    calls = launchers(window_of(core))
    has_node = link.node_of_row[calls.rows] >= 0
    time = np.where(has_node, calls.direct_ns, -1)
    kinds = np.bincount(calls.category, calls.direct_ns, len(calls.categories))
    found = {}
    for kind in np.argsort(-kinds, kind="stable").tolist():
        of_kind = np.flatnonzero((calls.category == kind) & has_node & (time > 0))
        if len(of_kind):
            row = int(calls.rows[of_kind[time[of_kind].argmax()]])
            found[int(link.execution.id[link.node_of_row[row]])] = calls.categories[kind]
    return dict(list(found.items())[:most])


def chosen_ops(validation: Validation, asked: Sequence[str]) -> dict[int, str]:
    """The ops that a user names.

    Args:
        validation: the linked pair.
        asked: ids of nodes, and names; a name stands for the linked op of that name with most GPU time.

    Returns:
        Id of the op's node -> what was asked for.

    Raises:
        NodeNotFoundError: there is no such node, or none that has an event.
    """
    core, link = validation.core, validation.link
    execution = link.execution
    found = {}
    for one in asked:
        if one.strip().isascii() and one.strip().isdecimal():
            number = int(one.strip()[:_MOST_DIGITS])
            row_of_node(execution, number)
            row_of_event(core, link, number)
            found[number] = one
            continue
        names = np.flatnonzero([name == one for name in execution.names])
        rows = link.row_of_node[np.isin(execution.name, names)]
        rows = rows[rows >= 0]
        if not len(rows):
            joined = {execution.names[code] for code in execution.name[link.row_of_node >= 0].tolist()}
            largest = [str(name) for name in validation.by_name["name"][:5]]
            meant = did_you_mean(one, sorted(joined)) or f"most GPU time have {', '.join(largest) or 'none'}"
            raise NodeNotFoundError(f"no op that is in both traces is called {one[:80]!r}; {meant}")
        node = link.node_of_row[rows[core.gpu_sum_ns[rows].argmax()]]
        found[int(execution.id[node])] = one
    return found


def op_report(validation: Validation, cpu_op_id: int, why: str) -> dict[str, Any]:
    """What there is to say of an operator.

    Args:
        validation: the linked pair.
        cpu_op_id: id of its node, which has an event.
        why: what it stands for: its kind, or what the user asked for.

    Returns:
        A dictionary of plain values: `cpu_op_id`, `why`, `uid` of its event; `metadata`, as `operation_metadata_scrape`
        gives, and of each tensor the `name`, `form` and `storage` that lineage gives, such as `t12#2`,
        `float32[4,8]` and `s13`; `tracing`, as `op_to_kernel_tracing` gives; `kernels`, the longest GPU events as
        `kernel_metadata_scrape` gives them; `gpu_events`, how many there are in all; `returning`, how many of these
        lead back to the operator or to one that it called.
    """
    core, link = validation.core, validation.link
    row = row_of_event(core, link, cpu_op_id)
    inside = rows_inside(core, row)
    gpu = inside[is_kind(core.columns.kind[inside], GPU_KINDS)]
    largest = gpu[np.argsort(-core.columns.dur_ns[gpu], kind="stable")[:MOST_KERNELS]]
    return {
        "cpu_op_id": cpu_op_id,
        "why": why,
        "uid": int(core.columns.uid[row]),
        "metadata": _with_names(core, row, metadata_of_row(link.execution, row_of_node(link.execution, cpu_op_id))),
        "tracing": events_of_op(core, link, cpu_op_id),
        "kernels": [metadata_of_gpu_row(core, one) for one in largest.tolist()],
        "gpu_events": len(gpu),
        "returning": int(validation.leads_back(row, gpu).sum()),
    }


def _with_names(core: Core, row: int, metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata of an operator, its tensors with their names."""
    tensors = tensors_of(core)
    assert tensors is not None
    known = tensors.lineage
    sides = {}
    for side, uses in zip(("inputs", "outputs"), tensors.uses_at(row), strict=True):
        sides[side] = [
            {
                **tensor,
                "name": tensors.tensor_name(int(known.tensor[use])),
                "form": tensors.form(use),
                "storage": tensors.storage_name(int(known.storage[use])) if known.storage[use] >= 0 else None,
            }
            for tensor, use in zip(metadata[side], uses, strict=True)
        ]
    return {**metadata, **sides}
