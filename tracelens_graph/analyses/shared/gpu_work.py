"""What tables of several themes share: GPU time and its shares, what GPU events do, the modules they belong to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.shared.grouping import Cells, cell_order, group_by
from tracelens_graph.analyses.shared.op_names import OpNames
from tracelens_graph.analyses.shared.unnamed_communication import unnamed_communication
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.arrays import distinct, fitting, quotients
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.collective_kinds import counts_in_tracelens
from tracelens_graph.graph.collectives import kernels_of_collectives
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import changed
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import climb, launcher, launches_of, nearest_above, rows_of_kind
from tracelens_graph.graph.window import Window, whole_window
from tracelens_graph.op_table.pseudo import PARTS, PARTS_OF_TRACELENS
from tracelens_graph.perf.registry import unnumbered
from tracelens_graph.schema import Kind, OwnerRule
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Codes, Mask, Rows

SHARE = {
    "Percentage (%)": Column.share("share of the sum over all rows of the table", "% of GPU time", "percent"),
    "Cumulative Percentage (%)": Column("share of this row and those above it", "%", heading="sum of these %"),
}

PARENT_MODULE = Column(
    "innermost nn.Module around the op, without the number of the instance", role=Role.key, heading="module"
)
IS_RECOMPUTE = Column(
    "whether the calls belong to recomputation of activations", role=Role.key, heading="recompute", cells="flag"
)
CALL_STACK_FIRST = Column.text("names of the modules around the first call, the outermost first", "modules")

GPU_EVENTS = Column.count("number of GPU events")
GPU_TIME = Column.total("sum of the durations of the GPU events", "us")
MEAN_TIME = Column("mean of the durations of the GPU events", "us", Role.mean)
PERCENT = Column.share("share of the GPU time, the sum of the durations of all GPU events")

GPU_SUM = Column.total("sum of their durations", "us")
GPU_BUSY = Column("length of the union of these GPU events", "us")


COMPUTATION, COMMUNICATION, MEMCPY = 0, 1, 2
CLASS_NAMES = ("computation", "communication", "memcpy")

COPY_KERNEL_NAME = re.compile(r"MEMORY_COPY_\w*TO|__amd_rocclr_copyBuffer|\bcopyBuffer(Aligned|Rect)?\b")
"""Kernels that are copies in disguise (ROCm copies by kernel where no copy engine serves)."""

_COPY_CALL = re.compile(r"^(?:hip|cuda|cu)Mem(?:ory)?cpy")
"""Calls that copy, whatever the kernel is called that does it."""


def gpu_classes(core: Core, rows: Rows) -> Codes:
    """COMPUTATION, COMMUNICATION or MEMCPY for each GPU row; a fill is computation.

    Kernels that take part in collectives, or are named as those of any library for it, or stand in the trace as only
    communication does (`unnamed_communication`), are communication: for all tables alike, but for those in TraceLens's
    layout (`as_tracelens_counts`).
    """
    return core.once(_classes)[rows]


def _classes(core: Core) -> Codes:
    """The class of every row; of what is no GPU event, COMPUTATION."""
    c, found = core.columns, np.full(len(core.columns), COMPUTATION, np.int8)
    named = np.concatenate(kernels_of_collectives(core))
    found[named] = COMMUNICATION
    found[unnamed_communication(core, named)] = COMMUNICATION
    kernels = rows_of_kind(c, (Kind.Kernel,))
    found[kernels[fitting(core.names, c.name[kernels], COPY_KERNEL_NAME.search)]] = MEMCPY
    found[_launched_as_copies(core, kernels[found[kernels] == COMPUTATION])] = MEMCPY
    found[c.kind == Kind.Memcpy] = MEMCPY
    return found


def copies_of(w: Window) -> Rows:
    """Copies and fills of a window, kernels that are copies among them."""
    c, gpu = w.core.columns, w.gpu_rows
    return gpu[(gpu_classes(w.core, gpu) == MEMCPY) | (c.kind[gpu] == Kind.Memset)]


def _launched_as_copies(core: Core, kernels: Rows) -> Rows:
    """Of some kernels those that are copies by the calls that launch them: all of a name, if half of them are, or none.

    How a copy kernel is called, and which of its launches are in the trace, depends on the version of ROCm.
    """
    c = core.columns
    codes, of = distinct(c.name[kernels])
    launch = launches_of(c, kernels)
    copied = (launch >= 0) & fitting_names(core, _COPY_CALL.search)[np.where(launch >= 0, c.name[launch], -1)]
    if not copied.any():
        return kernels[:0]
    of_copies, launched = (np.bincount(of[which], minlength=len(codes)) for which in (copied, launch >= 0))
    return kernels[((of_copies > 0) & (2 * of_copies >= launched))[of]]


def communication_names(core: Core) -> frozenset[str]:
    """Names of the kernels and fills that are communication."""
    return core.once(_communication_names)


def _communication_names(core: Core) -> frozenset[str]:
    rows = core.gpu_rows
    codes = distinct(core.columns.name[rows[gpu_classes(core, rows) == COMMUNICATION]])[0]
    return frozenset(core.names[code] for code in codes.tolist())


def gpu_categories(w: Window) -> tuple[list[str], Codes]:
    """What GPU events do: the categories, sorted, and for each row of the graph a position among them.

    A kernel's category is that of its name and of the op, or else the call, that launches it; of copies and fills it is
    Memory Ops. Communication that no rule knows is in its category all the same. Every table, page, finding and query
    goes by these, that of an op included (`ops.launchers`).
    """
    return w.whole.once(_gpu_categories)


def _gpu_categories(w: Window) -> tuple[list[str], Codes]:
    # Many tables do without these rules, and without the time that it takes to import them.
    from tracelens_graph.categories.kernels import category_of_op, kernel_categories

    core, c, gpu = w.core, w.core.columns, w.core.gpu_rows
    rules, communicates = extension_of(w).all_kernel_rules, communication_names(core)
    call = np.asarray(launcher(c, gpu), np.int64)
    # Rules are regular expressions: each pair of names is matched once, not each event.
    pair, first = group_by(c.name[gpu], np.where(call >= 0, c.name[call], -1), c.kind[gpu] == Kind.Kernel)
    names, calls = core.once(OpNames), call[first]
    kernels = [core.names[code] for code in c.name[gpu[first]].tolist()]
    ops = [core.names[c.name[row]] if row >= 0 else "" for row in calls.tolist()]
    named = list(zip(kernels, ops, strict=True))
    found = kernel_categories(named, rules)
    for i, (name, kind, row) in enumerate(zip(kernels, c.kind[gpu[first]].tolist(), calls.tolist(), strict=True)):
        if kind != Kind.Kernel:
            found[i] = "Memory Ops"
        elif found[i] == rules.other:
            op = names.names[names.codes(calls[i : i + 1])[0]] if row >= 0 else ""
            found[i] = "Communication" if name in communicates else category_of_op(op, rules)
    labels = sorted(set(found))
    code = np.array([labels.index(one) for one in found], np.int16)
    of_row = np.zeros(len(c), np.int16)
    of_row[gpu] = code[pair]
    return labels, of_row


def as_tracelens_counts(w: Window, pseudo_ops: bool = False) -> Window:
    """The window for tables in TraceLens's layout.

    There NCCL, RCCL and `cross_device_reduce` alone communicate, and categories of ops are TraceLens's.

    Args:
        pseudo_ops: keep pseudo ops that TraceLens makes, too. GPU events are charged to the ops above them there.
    """
    if is_in_tracelens_layout(w.core):
        return w
    core = w.core.once(_as_tracelens_counts, pseudo_ops)
    return whole_window(core) if w is whole_window(w.core) else w.moved_to(core)


def is_in_tracelens_layout(core: Core) -> bool:
    """Whether a graph is for tables in TraceLens's layout."""
    return recorded(core) is not core


def recorded(core: Core) -> Core:
    """The graph that one for TraceLens's layout was made of; any other itself."""
    return core.once(_itself)


def _itself(core: Core) -> Core:
    return core


def _as_tracelens_counts(given: Core, pseudo_ops: bool) -> Core:
    core = _without_numbers(given) if pseudo_ops else given
    core = _without_pseudo_ops(core, kept=PARTS_OF_TRACELENS if pseudo_ops else frozenset())
    c, rows, ours = core.columns, core.gpu_rows, core.once(_classes)
    theirs = np.where(ours == COMMUNICATION, COMPUTATION, ours)
    copies = rows[(theirs[rows] == MEMCPY) & (c.kind[rows] == Kind.Kernel)]
    theirs[copies[~fitting(core.names, c.name[copies], COPY_KERNEL_NAME.search)]] = COMPUTATION
    named = rows[fitting(core.names, c.name[rows], counts_in_tracelens)]
    theirs[named[(theirs[named] == COMPUTATION) & (c.kind[named] != Kind.Memcpy)]] = COMMUNICATION
    other = changed(core)
    other.remember(theirs, _classes)
    other.remember(given, _itself)
    return other


def _without_numbers(core: Core) -> Core:
    """The graph in which the ranges of SGLang have no numbers of their instances; the same if it has none."""
    names = [unnumbered(name) for name in core.names]
    if names == core.names:
        return core
    codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
    column = np.array([codes[name] for name in names], np.int32)[core.columns.name]
    return changed(core, columns=Columns(dict(core.columns) | {"name": column}), names=list(codes))


def _without_pseudo_ops(core: Core, kept: frozenset[str]) -> Core:
    """The graph in which pseudo ops are charged nothing, and but for some are no ops; the same if it has none."""
    c = core.columns
    parts = np.flatnonzero(fitting(core.names, c.name, PARTS.__contains__))
    if not len(parts):
        return core
    kind, owner, rule = c.kind.copy(), c.owner.copy(), c.owner_rule.copy()
    charged = np.flatnonzero(rule == OwnerRule.pseudo_op)
    owner[charged] = climb(c.parent, c.parent[owner[charged]], c.kind == Kind.Op)
    rule[charged] = np.where(owner[charged] >= 0, OwnerRule.nearest_op, OwnerRule.no_op)
    # As a call of the runtime it stands in no table of ops, and in no call stack.
    kind[parts[~fitting(core.names, c.name[parts], kept.__contains__)]] = Kind.RuntimeCall
    return changed(core, columns=Columns(dict(c) | {"kind": kind, "owner": owner, "owner_rule": rule}))


def percent(part_ns: np.ndarray, whole_ns: int | np.ndarray) -> np.ndarray:
    """Shares in percent; NaN where the whole is zero."""
    whole = np.broadcast_to(np.asarray(whole_ns, float), np.shape(part_ns))
    return quotients(100.0 * part_ns, whole)


def names_of(core: Core, rows: np.ndarray) -> list[str | None]:
    """Names of rows; None for -1."""
    return [core.names[core.columns.name[row]] if row >= 0 else None for row in rows.tolist()]


def uids_of(core: Core, rows: np.ndarray) -> list[int | None]:
    """Uids of rows; None for -1."""
    return [int(core.columns.uid[row]) if row >= 0 else None for row in rows.tolist()]


def fitting_names(core: Core, fits: Callable[[str], object]) -> Mask:
    """For each name of a graph whether it fits; the last entry is for no name, and False."""
    return np.array([*(bool(fits(name)) for name in core.names), False], bool)


def calls_named(w: Window, fits: Callable[[str], object]) -> Rows:
    """Rows of the window's runtime calls whose names fit, ascending."""
    calls = w.rows_of_kind(Kind.RuntimeCall)
    return calls[fitting_names(w.core, fits)[w.core.columns.name[calls]]]


def known(values: np.ndarray) -> list[Any]:
    """Values as a list, None for NaN."""
    return [None if value != value else value for value in values.tolist()]


def modules_of(core: Core, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each GPU row the row of the module call it belongs to, -1 for none, and whether as backward work.

    That is the nearest module above; where a backward op comes first, or the engine's op around it, the module around
    its forward op.
    """
    c, links = core.columns, autograd_of(core)
    forward, backward = links.forward, links.backward
    # Of several forward ops the earliest: the one that is no recomputation.
    order = np.lexsort((forward, c.start_ns[forward], backward))
    ops, first = np.unique(backward[order], return_index=True)
    stop = c.kind == Kind.Module
    stop[ops] = stop[links.engine[0]] = True
    found = links.run_by(climb(c.parent, c.parent[rows], stop))
    is_backward = (found >= 0) & (c.kind[found] != Kind.Module)
    origin = forward[order][first][np.searchsorted(ops, found[is_backward])]
    found[is_backward] = nearest_above(c, origin, (Kind.Module,))
    return found, is_backward


def gpu_time_columns(w: Window, rows: np.ndarray, group: np.ndarray, groups: int) -> dict[str, Cells]:
    """Number, time and share of GPU events by group."""
    duration = w.core.columns.dur_ns
    count, ns = np.bincount(group, minlength=groups), sum_by_group(group, duration[rows], groups)
    return {
        "count": count,
        "gpu_time_us": ns / 1e3,
        "mean_time_us": ns / 1e3 / np.maximum(count, 1),
        "percent": percent(ns, int(duration[w.gpu_rows].sum())),
    }


def most_time_first(
    schema: TableSchema, columns: Mapping[str, Cells], then: Sequence[str], title: str, w: Window
) -> Table:
    """The table, rows with the most GPU time first; equal ones by the cells of further columns."""
    order = cell_order(np.asarray(columns["gpu_time_us"]), *(columns[one] for one in then))
    return schema.table(columns, w.titled(title)).take(order)
