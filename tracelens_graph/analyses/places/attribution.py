"""GPU time by name at one level of the graph, and the nodes that it is charged to."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.shared.grouping import Groups
from tracelens_graph.analyses.timeline.timeline import unlinked_notes
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.arrays import distinct, distinct_pairs, expanded
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group, union_length_by_group
from tracelens_graph.graph.traversals import (
    climb,
    innermost_at,
    launcher,
    nearest_above,
    outermost,
    outermost_above,
    rows_of_kind,
)
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.suggest import hint, there_are

OPTIMIZER = "(optimizer)"
NO_MODULE = "(no module)"

_STEP = "Optimizer.step#"
"""How PyTorch's range over the step of an optimizer begins; old versions write it as an op."""


def module_calls(core: Core) -> np.ndarray:
    """Rows of module calls, ascending."""
    return rows_of_kind(core.columns, (Kind.Module,))


def of_optimizer(core: Core, rows: np.ndarray) -> np.ndarray:
    """For each row whether it is work of the step of an optimizer."""
    return optimizer_step(core, rows) >= 0


def optimizer_step(core: Core, rows: np.ndarray) -> np.ndarray:
    """For each row that of the optimizer's step whose work it is, -1 for none: a range, or in old versions an op."""
    c = core.columns
    named = np.fromiter((name.startswith(_STEP) for name in (*core.names, "")), bool, len(core.names) + 1)
    if not named.any():
        return np.full(len(rows), -1, np.int64)
    step = named[c.name]
    ranges = climb(core.annotation, core.annotation[rows], step)
    return np.where(ranges >= 0, ranges, climb(c.parent, c.parent[rows], step & (c.kind == Kind.Op)))


def frames_above(core: Core, frames: np.ndarray) -> np.ndarray:
    """For each module call the position of the one it stands under, -1 at the top.

    A recomputed call stands where the last call of the same name before it stood, in its forward pass.
    """
    c = core.columns
    above = _position(frames, nearest_above(c, frames, (Kind.Module,)))
    if not len(frames):
        return above
    again = autograd_of(core).recompute[frames]
    # Calls in a recomputed one move with it, so only the outermost need another place.
    tops = np.flatnonzero(again & ~((above >= 0) & again[above]))
    once = np.flatnonzero(~again)
    # Ranks of times, unlike times, are small enough to share an int64 with the name.
    moments, moment = np.unique(c.start_ns[frames], return_inverse=True)
    key = c.name[frames].astype(np.int64) * len(moments) + moment
    once = once[np.argsort(key[once], kind="stable")]
    # Strictly before, so that going up always leads back in time and ends.
    at = np.searchsorted(key[once], key[tops], "left") - 1
    tops, origin = tops[at >= 0], once[at[at >= 0]]
    # The key before may be that of another name: then no earlier call is in the trace.
    same = c.name[frames[tops]] == c.name[frames[origin]]
    above[tops[same]] = above[origin[same]]
    return above


def _position(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Positions of wanted rows among ascending rows; -1 stays -1."""
    return np.where(wanted >= 0, np.searchsorted(rows, wanted), -1)


def charged(core: Core, frames: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each row the position of the module call it is charged to, -1 for none, and whether as backward work.

    Rows are GPU events or ops. They are charged to the nearest "stop" above them. Stops are module calls, which are
    charged themselves, and backward ops whose forward op was called in a module, which is charged:

        Linear_0 { aten::linear { launch { k1 } } }           k1: Linear_0, forward
        autograd thread: AddmmBackward0 { launch { k2 } }     k2: Linear_0, backward, if its forward op is that linear
            engine's op: { AddmmBackward0 {}, launch { k3 } } k3: as k2, the gradient of the bias
        optimizer: aten::add_ { launch { k4 } }               k4: -1
    """
    if not len(frames):
        return np.full(len(rows), -1, np.int64), np.zeros(len(rows), bool)
    c = core.columns
    backward, called_in = _backward_ops(core)
    stops = np.concatenate((frames, backward))
    charge = np.concatenate((np.arange(len(frames)), np.searchsorted(frames, called_in)))
    order = np.argsort(stops)
    stops, charge, is_backward = stops[order], charge[order], order >= len(frames)
    is_stop = np.zeros(len(c), bool)
    is_stop[stops] = True
    enclosing = _position(stops, climb(c.parent, c.parent[stops], is_stop))
    # Rows are in pre-order, so a subtree is an interval of rows, and a row stands for the instant.
    nearest = innermost_at(stops, c.last[stops].astype(np.int64) + 1, enclosing, rows)
    return np.where(nearest >= 0, charge[nearest], -1), (nearest >= 0) & is_backward[nearest]


def _backward_ops(core: Core) -> tuple[np.ndarray, np.ndarray]:
    """Rows of backward ops with a forward op in a module, and of the engine's ops that run them; that module's call."""
    c, forward, backward = core.columns, autograd_of(core).forward, autograd_of(core).backward
    module = nearest_above(c, forward, (Kind.Module,))
    inside = np.flatnonzero(module >= 0)
    f = forward[inside]
    # Of several forward ops the earliest comes first: a later one is its recomputation.
    inside = inside[np.lexsort((f, c.start_ns[f], backward[inside]))]
    ops, first = np.unique(backward[inside], return_index=True)
    called_in = module[inside[first]]
    engine, runs = autograd_of(core).engine
    at = np.searchsorted(ops, runs)
    known = np.flatnonzero(np.append(ops, -1)[at] == runs)
    return np.concatenate((ops, engine[known])), np.concatenate((called_in, called_in[at[known]]))


ATTRIBUTION = TableSchema(
    "attribution",
    "GPU time per name at one level of the graph: modules, ops, launches or kernels.",
    {
        "name": Column.key(
            "name at this level; a line in brackets stands for GPU events that are charged to nothing here"
        ),
        "count": Column.count("nodes of this name with GPU work in their subtree"),
        "inclusive_sum_us": Column("sum of the durations of the GPU events in the subtrees, each event once", "us"),
        "inclusive_busy_us": Column("length of the union of those GPU events", "us"),
        "exclusive_sum_us": Column.total(
            "sum of the durations of the GPU events charged to the nodes themselves", "us", compared="main"
        ),
        "exclusive_busy_us": Column("length of the union of those GPU events", "us"),
        "min_us": Column("least sum that is charged to a node with any", "us"),
        "median_us": Column("median of these sums", "us"),
        "max_us": Column("greatest of these sums", "us"),
        "inclusive_percent": Column("inclusive_sum_us as share of the sum over all GPU events", "%"),
        "uid": Column.uid("the first node of this name with GPU work; none for a line in brackets"),
    },
    counts="node",
)


@dataclass(frozen=True)
class _Level:
    """The nodes of a level, and which of them GPU events are charged to.

    Attributes:
        nodes: rows of the nodes, ascending.
        charged: for each GPU row the node that it is charged to, -1 for none.
        nobody: what stands for those that no node is charged with.
        above: of each node, the position among the nodes of the one around it, -1 for none; None where that follows
            from the call forest.
    """

    nodes: Callable[[Core], np.ndarray]
    charged: Callable[[Core, np.ndarray], np.ndarray]
    nobody: str
    above: Callable[[Core, np.ndarray], np.ndarray] | None = None


def _module_of(g: Core, rows: np.ndarray) -> np.ndarray:
    frames = module_calls(g)
    frame, _ = charged(g, frames, rows)
    return np.where(frame >= 0, np.append(frames, -1)[frame], -1)


def _ops(g: Core) -> np.ndarray:
    return rows_of_kind(g.columns, (Kind.Op,))


def _root_ops(g: Core) -> np.ndarray:
    ops = _ops(g)
    return ops[nearest_above(g.columns, ops, (Kind.Op,)) < 0]


def _launchers(g: Core) -> np.ndarray:
    found = np.unique(launcher(g.columns, g.gpu_rows))
    return found[found >= 0]


LEVELS = {
    "module": _Level(module_calls, _module_of, NO_MODULE, frames_above),
    "root_op": _Level(_root_ops, lambda g, rows: outermost_above(g.columns.last, _root_ops(g), rows), "(no op)"),
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
    one name nest. Exclusive time covers those whose nearest node of the level is one of them: the nearest op above the
    launch, the outermost op, the launcher, the runtime call, the event itself. To a module belongs the backward work
    of its ops, too, as in `modules`, and the optimizer has a row of its own. The exclusive sums of all rows add up to
    the sum over all GPU events exactly.

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
    core, gpu, c = w.core, w.gpu_rows, w.core.columns
    rule, names = LEVELS[level], len(core.names)
    start, dur = c.start_ns[gpu], c.dur_ns[gpu]
    to = np.asarray(rule.charged(core, gpu), np.int64)
    nodes, inside, by = _around(core, rule, to) if rule.above else _below(core, rule, gpu)
    count = np.bincount(c.name[nodes], minlength=names)

    # Further names: charged to nobody at this level, without a launch at all, or to an optimizer.
    launched = (c.parent[gpu] >= 0) | (to >= 0)
    nobody = np.where(launched, np.where(of_optimizer(core, gpu), 0, 1) if rule.above else 1, 2)
    by_charge = np.where(to >= 0, c.name[to] if len(c) else 0, names + nobody)
    rest = np.flatnonzero(to < 0)
    inside, by = np.concatenate((inside, rest)), np.concatenate((by, by_charge[rest]))
    table = {
        "inclusive_sum_us": sum_by_group(by, dur[inside], names + 3),
        "inclusive_busy_us": _busy(by, start[inside], dur[inside], names + 3),
        "exclusive_sum_us": sum_by_group(by_charge, dur, names + 3),
        "exclusive_busy_us": _busy(by_charge, start, dur, names + 3),
    }
    used, of = distinct(to[to >= 0])
    each = Groups(c.name[used].astype(np.int64), sum_by_group(of, dur[to >= 0], len(used)), names + 3)
    table |= {"min_us": each.min, "median_us": each.median, "max_us": each.max}
    return _table(w, level, name, rule.nobody, nodes, count, table, int(dur.sum()))


def _below(g: Core, rule: _Level, gpu: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes with GPU work in their subtrees; positions of GPU events, and for each a name that it counts for."""
    c, nodes = g.columns, rule.nodes(g)
    low, high = np.searchsorted(gpu, nodes), np.searchsorted(gpu, c.last[nodes], "right")
    busy = high > low
    nodes, low, high = nodes[busy], low[busy], high[busy]
    # What is below an inner node of a name is below the outer one, too, and must not count twice.
    outer = outermost(c.name[nodes], nodes, c.last[nodes])
    events, of = expanded(low[outer], high[outer])
    return nodes, events, c.name[nodes[outer]].astype(np.int64)[of]


def _around(g: Core, rule: _Level, to: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `_below`, of nodes that GPU events are charged to and those around these."""
    assert rule.above
    nodes = rule.nodes(g)
    above, events = rule.above(g, nodes), np.flatnonzero(to >= 0)
    used, of = distinct(np.searchsorted(nodes, to[events]))
    here, begin = used, np.arange(len(used))
    found: list[tuple[np.ndarray, np.ndarray]] = []
    while len(here):
        found.append((begin, here))
        up = above[here]
        begin, here = begin[up >= 0], up[up >= 0]
    begin, here = (np.concatenate(parts) for parts in zip(*found, strict=True)) if found else (used, used)
    begin, name = distinct_pairs(begin, g.columns.name[nodes[here]])
    # Each event counts once for every name around what it is charged to.
    low, high = np.searchsorted(begin, of), np.searchsorted(begin, of, "right")
    place, at = expanded(low, high)
    return nodes[distinct(here)[0]], events[at], name[place].astype(np.int64)


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
    labels = [*g.names, OPTIMIZER, nobody, NO_LAUNCH]
    count = np.concatenate((count, [0, 0, 0]))
    first = np.full(len(labels), -1, np.int64)
    first[g.columns.name[nodes[::-1]]] = g.columns.uid[nodes[::-1]]
    shown = np.flatnonzero((count > 0) | (values["inclusive_sum_us"] > 0))
    there = [labels[i] for i in shown.tolist()]
    if isinstance(name, str):
        shown = shown[[labels[i] == name for i in shown.tolist()]]
    elif name is not None:
        shown = shown[[name.search(labels[i]) is not None for i in shown.tolist()]]
    shown = shown[
        np.lexsort((first[shown], -values["inclusive_sum_us"][shown], np.maximum(shown - len(g.names) + 1, 0)))
    ]
    columns: dict[str, np.ndarray | list[Any]] = {"name": [labels[i] for i in shown.tolist()], "count": count[shown]}
    columns |= {key: time[shown] / 1000 for key, time in values.items()}
    columns["inclusive_percent"] = 100 * values["inclusive_sum_us"][shown] / max(total, 1)
    columns["uid"] = [uid if uid >= 0 else None for uid in first[shown].tolist()]
    notes = [] if len(w.gpu_rows) else unlinked_notes(w, False)
    if name is not None and there and not len(shown):
        wanted = name if isinstance(name, str) else name.pattern
        notes = [*notes, f"nothing with GPU time has name {wanted!r}; {hint(wanted, there)}"]
    return ATTRIBUTION.table(columns, w.titled(f"GPU time by {level}"), notes)


def _busy(group: np.ndarray, start: np.ndarray, dur: np.ndarray, groups: int) -> np.ndarray:
    return union_length_by_group(group, start, start + dur, groups)
