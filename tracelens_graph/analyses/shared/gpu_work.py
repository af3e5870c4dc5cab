"""What tables of several themes share: GPU time and its shares, what GPU events do, the modules they belong to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.shared.grouping import Cells, cell_order
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.collective_kinds import communication
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import climb, nearest_above
from tracelens_graph.graph.window import Window, whole_window
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Mask, Rows

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


def communicates(name: str) -> bool:
    """Whether time in a kernel or fill of this name counts as communication.

    Kernels that TraceLens counts as computation do so here: of a model's own all-reduces only `cross_device_reduce`
    is communication to it. `collectives_of(core)` has nodes for all.
    """
    found = communication(name)
    return found is not None and found.in_timeline


def gpu_classes(core: Core, rows: np.ndarray) -> np.ndarray:
    """COMPUTATION, COMMUNICATION or MEMCPY for each GPU row; a fill is computation."""
    kind, name = core.columns.kind[rows], core.columns.name[rows]
    of_name = whole_window(core).once(_name_classes)
    codes = distinct(name)[0]
    for code in codes[of_name[codes] == _NOT_ASKED].tolist():
        of_name[code] = _name_class(core.names[code])
    of_event = of_name[name]
    found = np.full(len(rows), COMPUTATION, np.int8)
    found[(of_event & _COMMUNICATES) > 0] = COMMUNICATION
    found[(kind == Kind.Memcpy) | ((kind == Kind.Kernel) & ((of_event & _COPIES) > 0))] = MEMCPY
    return found


_COMMUNICATES, _COPIES, _NOT_ASKED = 1, 2, 4


def _name_classes(w: Window) -> np.ndarray:
    """For each name of a graph what `gpu_classes` found out of it: many tables ask for the same names."""
    return np.full(len(w.core.names), _NOT_ASKED, np.int8)


def _name_class(name: str) -> int:
    return _COMMUNICATES * communicates(name) + _COPIES * (COPY_KERNEL_NAME.search(name) is not None)


def percent(part_ns: np.ndarray, whole_ns: int | np.ndarray) -> np.ndarray:
    """Shares in percent; NaN where the whole is zero."""
    whole = np.broadcast_to(np.asarray(whole_ns, float), np.shape(part_ns))
    return np.divide(100.0 * part_ns, whole, out=np.full(np.shape(part_ns), np.nan), where=whole > 0)


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
