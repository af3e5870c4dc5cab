"""GPU time charged to whatever level one asks for: modules, ops, runtime calls, kernels."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.timeline.timeline import unlinked_notes
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group, union_length_by_group
from tracelens_graph.graph.traversals import launcher, nearest_above, outermost, rows_of_kind
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.schema.tables.places import ATTRIBUTION
from tracelens_graph.suggest import there_are
from tracelens_graph.table import Table


@dataclass(frozen=True)
class _Level:
    """Which nodes a level holds, and which of them each GPU event is charged to (-1: none)."""

    nodes: Callable[[Core], np.ndarray]
    charged: Callable[[Core, np.ndarray], np.ndarray]
    nobody: str


def _modules(g: Core) -> np.ndarray:
    return rows_of_kind(g.columns, (Kind.Module,))


def _ops(g: Core) -> np.ndarray:
    return rows_of_kind(g.columns, (Kind.Op,))


def _root_ops(g: Core) -> np.ndarray:
    ops = _ops(g)
    return ops[nearest_above(g.columns, ops, (Kind.Op,)) < 0]


def _root_op_above(g: Core, rows: np.ndarray) -> np.ndarray:
    roots = _root_ops(g)
    if not len(roots):
        return np.full(len(rows), -1, np.int64)
    above = roots[np.searchsorted(roots, rows, "right") - 1]
    return np.where((above < rows) & (rows <= g.columns.last[above]), above, -1)


def _launchers(g: Core) -> np.ndarray:
    found = np.unique(launcher(g.columns, g.gpu_rows))
    return found[found >= 0]


LEVELS = {
    "module": _Level(_modules, lambda g, rows: nearest_above(g.columns, rows, (Kind.Module,)), "(no module)"),
    "root_op": _Level(_root_ops, _root_op_above, "(no op)"),
    "op": _Level(_ops, lambda g, rows: g.columns.owner[rows], "(no op)"),
    "launcher": _Level(_launchers, lambda g, rows: launcher(g.columns, rows), ""),
    "runtime": _Level(
        lambda g: rows_of_kind(g.columns, (Kind.RuntimeCall,)), lambda g, rows: g.columns.parent[rows], ""
    ),
    "kernel": _Level(lambda g: rows_of_kind(g.columns, GPU_KINDS), lambda g, rows: rows, ""),
}
"""Level -> its nodes and the rule of charging."""


def attribution(g: Core | Window, level: str = "op", name: str | re.Pattern[str] | None = None) -> Table:
    """GPU time per name at one level of the graph.

    The total GPU time of every `aten::linear` is `attribution(g, level="op", name="aten::linear")`.

    Inclusive time covers all GPU events in the subtrees of a name's nodes, each event once even where nodes of
    one name nest. Exclusive time covers those whose nearest node of the level is one of them: the nearest module
    or op above the launch, the outermost op, the launcher, the runtime call, the event itself. The exclusive sums
    of all rows add up to the sum over all GPU events exactly.

    Args:
        g: the graph, or a window of it; nodes of a window are charged with its GPU events only.
        level: "module", "root_op" (ops under no other op), "op", "launcher" (op, or runtime call without an op),
            "runtime" or "kernel".
        name: keep only this name, or names in which a compiled pattern is found.

    Raises:
        AnalysisError: there is no such level; the message lists those there are.
    """
    if level not in LEVELS:
        raise AnalysisError(f"there is no level {level!r}; {there_are(LEVELS)}")
    w = window_of(g)
    core = w.core
    rule, c = LEVELS[level], core.columns
    gpu = w.gpu_rows
    start, dur = c.start_ns[gpu], c.dur_ns[gpu]
    names, nodes = len(core.names), rule.nodes(core)
    low, high = np.searchsorted(gpu, nodes), np.searchsorted(gpu, c.last[nodes], "right")
    busy_nodes = high > low
    nodes, low, high = nodes[busy_nodes], low[busy_nodes], high[busy_nodes]
    count = np.bincount(c.name[nodes], minlength=names)
    outer = outermost(c.name[nodes], nodes, c.last[nodes])
    inside, by = _expand(low[outer], high[outer], c.name[nodes[outer]])

    # Two further names: charged to nobody at this level, and without a launch at all.
    charged = np.asarray(rule.charged(core, gpu), np.int64)
    launched = (c.parent[gpu] >= 0) | (charged >= 0)
    by_charge = np.where(charged >= 0, c.name[charged] if len(c) else 0, np.where(launched, names, names + 1))
    rest = np.flatnonzero(charged < 0)
    inside, by = np.concatenate((inside, rest)), np.concatenate((by, by_charge[rest]))
    table = {
        "inclusive_sum_us": sum_by_group(by, dur[inside], names + 2),
        "inclusive_busy_us": _busy(by, start[inside], dur[inside], names + 2),
        "exclusive_sum_us": sum_by_group(by_charge, dur, names + 2),
        "exclusive_busy_us": _busy(by_charge, start, dur, names + 2),
    }
    return _table(w, level, name, rule.nobody, nodes, count, table, int(dur.sum()))


def _table(
    w: Window,
    level: str,
    name: str | re.Pattern[str] | None,
    nobody: str,
    nodes: np.ndarray,
    count: np.ndarray,
    values: dict[str, np.ndarray],
    total: int,
) -> Table:
    g = w.core
    labels = [*g.names, nobody, NO_LAUNCH]
    count = np.concatenate((count, [0, 0]))
    first = np.full(len(labels), -1, np.int64)
    first[g.columns.name[nodes[::-1]]] = g.columns.uid[nodes[::-1]]
    shown = np.flatnonzero((count > 0) | (values["inclusive_sum_us"] > 0))
    if isinstance(name, str):
        shown = shown[[labels[i] == name for i in shown.tolist()]]
    elif name is not None:
        shown = shown[[name.search(labels[i]) is not None for i in shown.tolist()]]
    shown = shown[
        np.lexsort((first[shown], -values["inclusive_sum_us"][shown], np.maximum(shown - len(g.names) + 1, 0)))
    ]
    columns: dict[str, np.ndarray | list[Any]] = {
        "name": [labels[i] for i in shown.tolist()],
        "count": count[shown],
    }
    columns |= {key: time[shown] / 1000 for key, time in values.items()}
    columns["inclusive_percent"] = 100 * values["inclusive_sum_us"][shown] / max(total, 1)
    columns["uid"] = [uid if uid >= 0 else None for uid in first[shown].tolist()]
    notes = [] if len(w.gpu_rows) else unlinked_notes(w, False)
    return Table("attribution", columns, ATTRIBUTION, w.titled(f"GPU time by {level}"), notes)


def _expand(low: np.ndarray, high: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All positions low..high-1 of every range, and the label of the range each comes from."""
    size = high - low
    begin = np.repeat(low - np.concatenate(([0], np.cumsum(size)[:-1])), size) if len(size) else low
    return begin + np.arange(int(size.sum())), np.repeat(label.astype(np.int64), size)


def _busy(group: np.ndarray, start: np.ndarray, dur: np.ndarray, groups: int) -> np.ndarray:
    return union_length_by_group(group, start, start + dur, groups)
