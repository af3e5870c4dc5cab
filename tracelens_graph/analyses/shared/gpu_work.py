"""What the tables of several themes have in common: GPU time, its shares, and the modules it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.shared.grouping import Cells, cell_order, picked
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import climb, nearest_above
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import Kind
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table


def percent(part_ns: np.ndarray, whole_ns: int | np.ndarray) -> np.ndarray:
    """Shares in percent; NaN where the whole is zero."""
    whole = np.broadcast_to(np.asarray(whole_ns, float), np.shape(part_ns))
    return np.divide(100.0 * part_ns, whole, out=np.full(np.shape(part_ns), np.nan), where=whole > 0)


def names_of(core: Core, rows: np.ndarray) -> list[str | None]:
    """Names of rows; None for -1."""
    return [core.names[core.columns.name[row]] if row >= 0 else None for row in rows.tolist()]


def known(values: np.ndarray) -> list[Any]:
    """Values as a list, None for NaN."""
    return [None if value != value else value for value in values.tolist()]


def modules_of(core: Core, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each GPU row the row of the module call it belongs to, -1 for none, and whether as backward work.

    That is the nearest module above; where a backward op comes first, the module around its forward op.
    """
    c, forward, backward = core.columns, autograd_of(core).forward, autograd_of(core).backward
    # Of several forward ops the earliest: the one that is no recomputation.
    order = np.lexsort((forward, c.start_ns[forward], backward))
    ops, first = np.unique(backward[order], return_index=True)
    stop = c.kind == Kind.Module
    stop[ops] = True
    found = climb(c.parent, c.parent[rows], stop)
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
    return schema.table({key: picked(cells, order) for key, cells in columns.items()}, w.titled(title))
