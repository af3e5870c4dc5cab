"""A comparison by structure in the tables of TraceLens's TraceDiff: GPU events by their lowest common ancestor.

The **lowest common ancestor** (LCA) of a GPU event is the lowest node of the merged tree that both sides have and that
has it below a child of one side alone; of an event that is paired with one of the other side, it is that pair. Every
GPU event that an op launched has one, but for what stands at the top of one side alone; it has none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from tracelens_graph.analyses.alignment.common_ancestor_tables import (
    DIFF_STATS,
    DIFF_STATS_SUMMARY,
    PERF_SUMMARY_BY_LCA,
)
from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.host_work import is_of_host
from tracelens_graph.analyses.alignment.op_tree import OpTree, op_tree
from tracelens_graph.analyses.shared.call_columns import argument_cells
from tracelens_graph.analyses.shared.call_stacks import module_stacks
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.arguments import ARGUMENTS
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group, union_length_by_group
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.schema import Kind
from tracelens_graph.tables.table import Table

SOURCES = ("trace1", "trace2")
_ROOT = "root"
_INDENT = 4
_DEEPEST = 1000
"""Levels of the merged tree that are drawn; the recursion of TraceLens ends there too."""
_OF_OP = ("Input Dims", "Input Strides", "Input type", "Concrete Inputs")


@dataclass(frozen=True)
class Ancestor:
    """A lowest common ancestor, and what differs below it.

    Attributes:
        node: its number in the merged tree; None for what stands at the top of one side alone.
        name: what it is called, `x | y` where the sides call it differently.
        events: rows of the GPU events of both sides.
        busy_ns: length of the union of their intervals.
        sum_ns: sum of their durations.
    """

    node: int | None
    name: str | None
    events: tuple[list[int], list[int]]
    busy_ns: tuple[int, int]
    sum_ns: tuple[int, int]


class TraceLensDiff:
    """A comparison as TraceLens's TraceDiff shows it. `trace1` is the first side.

    Args:
        modules: whether the tables name the modules around ops; TraceLens does if its trees hold Python frames.
    """

    def __init__(self, difference: Diff, modules: bool = True) -> None:
        if is_of_host(difference.a):
            sources = " or ".join(w.core.info.source for w in (difference.a, difference.b))
            raise AnalysisError(f"{sources}: holds no GPU events to compare, as TraceLens does")
        self._difference = difference
        self._modules = modules
        self._windows = difference.a, difference.b

    @cached_property
    def tree(self) -> OpTree:
        """Both call trees as one."""
        return op_tree(self._difference.alignment)

    @cached_property
    def ancestors(self) -> list[Ancestor]:
        """The lowest common ancestors, in the order of the merged tree."""
        tree = self.tree
        nodes: list[int | None] = []
        events: list[tuple[list[int], list[int]]] = []
        for node in range(len(tree.rows)):
            is_shared = tree.is_shared(node)
            if is_shared or tree.parent[node] < 0:
                below = self._differing(node) if is_shared else (tree.events_below(node, 0), tree.events_below(node, 1))
                if any(below):
                    nodes.append(node if is_shared else None)
                    events.append(below)
        times = [self._times(side, [below[side] for below in events]) for side in (0, 1)]
        busy, sums = ([(int(a), int(b)) for a, b in zip(*both, strict=True)] for both in zip(*times, strict=True))
        names = [None if node is None else tree.name(node) for node in nodes]
        return list(map(Ancestor, nodes, names, events, busy, sums))

    def _differing(self, node: int) -> tuple[list[int], list[int]]:
        """GPU events of both sides that differ right below a shared node; the node itself if it is a pair of events."""
        tree = self.tree
        if tree.events[0][node]:
            return [tree.rows[node][0]], [tree.rows[node][1]]
        alone = [child for child in tree.children(node) if not tree.is_shared(child)]
        first, second = ([row for child in alone for row in tree.events_below(child, side)] for side in (0, 1))
        return first, second

    def _times(self, side: int, events: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        """For some groups of GPU events of a side the length of their union, and the sum of their durations."""
        c = self._windows[side].core.columns
        rows = np.array([row for group in events for row in group], np.int64)
        group = np.repeat(np.arange(len(events)), [len(one) for one in events])
        busy = union_length_by_group(group, c.start_ns[rows], c.end_ns[rows], len(events))
        return busy, sum_by_group(group, c.dur_ns[rows], len(events))

    @property
    def notes(self) -> list[str]:
        """What is not in the tables."""
        found = []
        for source, w, dropped in zip(SOURCES, self._windows, self.tree.dropped, strict=True):
            if dropped:
                events = f"{dropped:,} of {len(w.gpu_rows):,} GPU events"
                found.append(f"{source}: {events} are left out: no op launched them")
        return found

    @cached_property
    def diff_stats(self) -> Table:
        """One row per GPU event that an op launched."""
        records = [
            {
                "source": SOURCES[side],
                "busy_time": round(one.busy_ns[side] / 1e3, 3),
                "lowest_common_ancestor_name": one.name,
                "lowest_common_ancestor_id": one.node,
                **self._cells[side][row],
            }
            for one in self.ancestors
            for side, rows in enumerate(one.events)
            for row in rows
        ]
        return DIFF_STATS.of_records(records, self._title("GPU events by lowest common ancestor"), self.notes)

    @cached_property
    def _cells(self) -> tuple[dict[int, dict[str, Any]], dict[int, dict[str, Any]]]:
        """Of both sides for each GPU event the columns of `diff_stats` that follow from it alone."""
        sides: tuple[dict[int, dict[str, Any]], dict[int, dict[str, Any]]] = ({}, {})
        for side, found in enumerate(sides):
            core = self._windows[side].core
            c = core.columns
            events = np.array([row for one in self.ancestors for row in one.events[side]], np.int64)
            op = nearest_above(c, events, (Kind.Op,))
            ops, of = np.unique(op, return_inverse=True)
            arguments = argument_cells(core, c.argset[ops])
            stacks = self._stacks(core, ops)
            for row, own, at in zip(events.tolist(), op.tolist(), of.tolist(), strict=True):
                found[row] = {
                    "name": core.names[c.name[row]],
                    "cpu_op_name": core.names[c.name[own]],
                    "cpu_op_uid": int(c.uid[own]),
                    **{column: arguments[column][at] for column in _OF_OP},
                    "kernel_time": int(c.dur_ns[row]) / 1e3,
                    "gpu_op_uid": int(c.uid[row]),
                    "nn_module_stack": ";".join(stacks[at]),
                    "nn_module_parent": stacks[at][-1],
                }
        return sides

    def _stacks(self, core: Core, ops: np.ndarray) -> list[list[str]]:
        """For each op the names of the modules around it, behind the root."""
        if not self._modules:
            return [[_ROOT] for _ in ops]
        modules, of = np.unique(nearest_above(core.columns, ops, (Kind.Module,)), return_inverse=True)
        above = module_stacks(core, modules[modules >= 0])
        names = [core.names[code] for code in core.columns.name[modules[modules >= 0]].tolist()]
        found = [[_ROOT, *stack, name] for stack, name in zip(above, names, strict=True)]
        if len(found) < len(modules):
            found.insert(0, [_ROOT])
        return [found[at] for at in of.tolist()]

    @cached_property
    def diff_stats_unique_args_summary(self) -> Table:
        """Rows of `diff_stats` that differ in nothing but time, LCA's number and GPU event; the greatest time first."""
        keys = [name for name in DIFF_STATS_SUMMARY if name in DIFF_STATS]
        stats = self.diff_stats
        groups: dict[tuple[str, ...], list[int]] = {}
        for at, cells in enumerate(zip(*(stats[name] for name in keys), strict=True)):
            groups.setdefault(tuple(map(repr, cells)), []).append(at)
        ns = [self._ns(side, row) for one in self.ancestors for side in (0, 1) for row in one.events[side]]
        sums = [sum(ns[at] for at in places) for places in groups.values()]
        order = sorted(range(len(sums)), key=lambda group: -sums[group])
        places = list(groups.values())
        columns: dict[str, Cells] = {name: [stats[name][places[group][0]] for group in order] for name in keys}
        columns["operation_count"] = [len(places[group]) for group in order]
        columns["kernel_time_mean"] = [sums[group] / len(places[group]) / 1e3 for group in order]
        columns["kernel_time_sum"] = [sums[group] / 1e3 for group in order]
        ordered = {name: columns[name] for name in DIFF_STATS_SUMMARY}
        title = self._title("GPU events by op, arguments, kernel and lowest common ancestor")
        return DIFF_STATS_SUMMARY.table(ordered, title, self.notes)

    def _ns(self, side: int, row: int) -> int:
        return int(self._windows[side].core.columns.dur_ns[row])

    @cached_property
    def perf_summary_by_lca(self) -> Table:
        """One row per lowest common ancestor with both times, the greatest time of the first side first."""
        found = sorted((one for one in self.ancestors if one.node is not None), key=lambda one: -one.busy_ns[0])
        totals = [sum(one.busy_ns[side] for one in found) for side in (0, 1)]
        running = accumulate(one.busy_ns[0] for one in found)
        records = [self._summary(one, totals, so_far) for one, so_far in zip(found, running, strict=True)]
        title = self._title("Lowest common ancestors of GPU work that differs")
        return PERF_SUMMARY_BY_LCA.of_records(records, title, self.notes)

    def _summary(self, one: Ancestor, totals: Sequence[int], running: int) -> dict[str, Any]:
        cells = [[self._cells[side][row] for row in rows] for side, rows in enumerate(one.events)]
        shown = cells[0] or cells[1]
        first, second = one.busy_ns
        return {
            "name": " | ".join(sorted({cell["cpu_op_name"] for cell in shown})),
            "lowest_common_ancestor_name": one.name,
            "lowest_common_ancestor_id": one.node,
            "nn_module_stack": shown[0]["nn_module_stack"],
            "nn_module_parent": shown[0]["nn_module_parent"],
            **{column: shown[0][column] for column in ARGUMENTS},
            "kernel_time_trace1_us": first / 1e3,
            "kernel_time_trace2_us": second / 1e3,
            "gpu_sum_trace1_us": one.sum_ns[0] / 1e3,
            "gpu_sum_trace2_us": one.sum_ns[1] / 1e3,
            "num_kernels_trace1": len(cells[0]),
            "num_kernels_trace2": len(cells[1]),
            "kernel_names_trace1": [cell["name"] for cell in cells[0]],
            "kernel_names_trace2": [cell["name"] for cell in cells[1]],
            "speedup (trace2/trace1)": ratio(second, first),
            "speedup_of_trace2": ratio(first, second),
            "delta_us (trace2 - trace1)": (second - first) / 1e3,
            "pct_of_trace1_total (%)": ratio(100 * first, totals[0]),
            "cumulative_pct_trace1 (%)": ratio(100 * running, totals[0]),
            "pct_of_trace2_total (%)": ratio(100 * second, totals[1]),
        }

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables by their names."""
        return {
            "diff_stats": self.diff_stats,
            "diff_stats_unique_args_summary": self.diff_stats_unique_args_summary,
            "perf_summary_by_lca": self.perf_summary_by_lca,
        }

    @property
    def cpu_op_map(self) -> dict[str, dict[str, dict[str, list[str]]]]:
        """Op -> trace -> its kernels, and the modules right around it; ops in the order of their greatest row."""
        kernels: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        modules: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        table = self.diff_stats_unique_args_summary
        columns = (table[name] for name in ("cpu_op_name", "source", "name", "nn_module_parent"))
        for op, source, kernel, module in zip(*columns, strict=True):
            kernels[op][source].add(kernel)
            modules[op][source].add(module.replace(" ", ""))
        return {
            op: {
                source: {"kernels": sorted(names[source]), "nn_module_parents": sorted(modules[op][source])}
                for source in SOURCES
                if source in names
            }
            for op, names in kernels.items()
        }

    def cpu_op_map_of(self, source: str) -> dict[str, list[str]]:
        """Op -> its kernels in one of the traces, by name."""
        whole = self.cpu_op_map
        return {op: whole[op][source]["kernels"] for op in sorted(whole) if source in whole[op]}

    def tree_lines(self, prune_non_gpu: bool = False) -> Iterator[str]:
        """The merged tree, a line per node; below each node what both have, then the first side's, then the second's.

        Below a thousand levels a line shows the number of nodes only, because a line is as long as it is deep.

        Args:
            prune_non_gpu: without ops that lead to no GPU work.
        """
        tree = self.tree
        roots = [node for node in range(len(tree.rows)) if tree.parent[node] < 0]
        if prune_non_gpu:
            is_event = np.logical_or(*(np.array(side, bool) for side in tree.events))
            running = np.concatenate(([0], np.cumsum(is_event)))
            roots = [node for node in roots if running[tree.last[node] + 1] > running[node]]
        stack = [(node, "", node == roots[-1]) for node in reversed(roots)]
        while stack:
            node, indent, is_last = stack.pop()
            yield f"{indent}{'└── ' if is_last else '├── '}{self._line(node)}"
            if len(indent) == _DEEPEST * _INDENT and tree.last[node] > node:
                yield f"{indent}    └── {tree.last[node] - node:,} nodes below, not drawn"
                continue
            below = sorted(tree.children(node), key=self._side)
            indent += "    " if is_last else "│   "
            stack += [(child, indent, child == below[-1]) for child in reversed(below)]

    def _side(self, node: int) -> int:
        return 0 if self.tree.is_shared(node) else 1 if self.tree.rows[node][0] >= 0 else 2

    def _line(self, node: int) -> str:
        first, second = self.tree.names(node)
        match self._side(node):
            case 0:
                return first if first == second else f"combined: {first} | {second}"
            case 1:
                return f">> trace1: {first}"
        return f"<< trace2: {second}"

    def _title(self, text: str) -> str:
        first, second = self._difference.names
        return f"{text}: {first} (trace1), {second} (trace2)"


def ratio(part: int, whole: int) -> float | None:
    """A quotient; None of nothing."""
    return part / whole if whole else None
