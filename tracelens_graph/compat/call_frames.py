"""Frames of kernels and of launcher calls: one row each, with times, arguments and place in the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tracelens_graph.analyses.ops.kernel_details import overlap
from tracelens_graph.analyses.ops.launchers import OpCalls
from tracelens_graph.analyses.shared.call_stacks import OUTSIDE_MODULES, parent_modules
from tracelens_graph.analyses.shared.gpu_work import names_of
from tracelens_graph.categories.kernels import kernel_categories
from tracelens_graph.compat.cells import NO_MODULE, as_tuples, stacks_of_modules, thread_columns
from tracelens_graph.compat.summaries import ARGUMENTS, DIRECT, SUBTREE, Details
from tracelens_graph.compat.trace_to_tree import TraceToTree
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.graph.traversals import launcher, nearest_above
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Mask, Rows

_SHAPES = {
    "Input dims": "Input Dims",
    "Input types": "Input type",
    "Input strides": "Input Strides",
    "Concrete Inputs": "Concrete Inputs",
}
"""Column -> name of the argument in the file."""


def file_times(tree: TraceToTree, rows: Rows) -> np.ndarray:
    """Starts of events on the clock of the file, us."""
    # Nanoseconds since 1970 have more digits than float64, microseconds have not.
    whole, rest = np.divmod(tree.graph.columns.start_ns[rows] + tree.clock_ns, 1000)
    return whole + rest / 1000


def kernel_columns(
    tree: TraceToTree, rows: Rows, launch: bool = False, op: bool = True, module: bool = False, category: bool = False
) -> dict[str, Any]:
    """Columns about kernels; what a kernel does not have is None or NaN.

    Args:
        tree: the tree, whose clock times are given on.
        rows: rows of kernels.
        launch: add the launch: UID, name, grid and block.
        op: add the op nearest above: UID, name, arguments, and the kernel's share of its GPU busy time.
        module: add the module nearest above: UID, name, and the kernel's share of its GPU busy time.
        category: add what the kernel does, by its name and the op that launched it.
    """
    core, c = tree.graph, tree.graph.columns
    columns: dict[str, Any] = {
        "UID": c.uid[rows],
        "Kernel name": [core.names[code] for code in c.name[rows].tolist()],
        "Kernel t start": file_times(tree, rows),
        "Kernel duration (µs)": c.dur_ns[rows] / 1000,
        "Kernel stream": _whole(c.stream[rows], c.stream[rows] >= 0),
    }
    if category:
        above = np.asarray(launcher(c, rows), np.int64)
        names = zip(columns["Kernel name"], names_of(core, above), strict=True)
        columns["kernel_category"] = kernel_categories((kernel, over or "") for kernel, over in names)
    if launch:
        above = c.parent[rows].astype(np.int64)
        columns |= {"Launcher UID": _uids(core, above), "Launcher": names_of(core, above)}
        events = core.details.events(c.uid[np.concatenate((rows, above[above >= 0]))].tolist())
        uids = zip(c.uid[rows].tolist(), c.uid[above].tolist(), (above >= 0).tolist(), strict=True)
        args = [_args(events, kernel) | (_args(events, call) if known else {}) for kernel, call, known in uids]
        columns["Grid"] = [as_tuples(each.get("grid")) for each in args]
        columns["Block"] = [as_tuples(each.get("block")) for each in args]
    if op:
        above = nearest_above(c, rows, (Kind.Op,))
        columns |= {"Parent cpu_op UID": _uids(core, above), "Parent cpu_op": names_of(core, above)}
        different, back = np.unique(above, return_inverse=True)
        shapes = [Node(core, row).shapes if row >= 0 else {} for row in different.tolist()]
        for column, name in _SHAPES.items():
            values = [as_tuples(each.get(name)) for each in shapes]
            columns[column] = [values[i] for i in back.tolist()]
        events = core.details.events(c.uid[different[different >= 0]].tolist())
        files = [_args(events, int(c.uid[row])).get("kernel_file") if row >= 0 else None for row in different.tolist()]
        columns["kernel_file"] = [files[i] for i in back.tolist()]
        busy, count, share = _part(core, rows, above)
        columns["Parent cpu_op busy time (µs)"] = busy
        columns["Parent cpu_op kernel count"] = count
        columns["Percent of Parent cpu_op busy time (%)"] = share
    if module:
        above = nearest_above(c, rows, (Kind.Module,))
        columns |= {"Parent nn.Module UID": _uids(core, above), "Parent nn.Module": names_of(core, above)}
        busy, count, share = _part(core, rows, above)
        columns["Parent nn.Module kernel count"] = count
        columns["Parent nn.Module GPU busy time (µs)"] = busy
        columns["Percent of Parent nn.Module busy time (%)"] = share
    return columns


def _part(core: Core, rows: Rows, above: Rows) -> tuple[np.ndarray, Any, np.ndarray]:
    """GPU busy time in us and number of GPU events below nodes above kernels, and the kernels' shares of the time."""
    c, gpu = core.columns, core.gpu_rows
    known = above >= 0
    different, back = np.unique(above[known], return_inverse=True)
    busy, count = np.full(len(rows), np.nan), np.zeros(len(rows), np.int64)
    busy[known] = core.gpu_busy_ns(different)[back] / 1000
    count[known] = (np.searchsorted(gpu, c.last[different], "right") - np.searchsorted(gpu, different))[back]
    share = np.full(len(rows), np.nan)
    np.divide(c.dur_ns[rows] / 10, busy, out=share, where=known & (busy > 0))
    return busy, _whole(count, known), share


def _whole(values: np.ndarray, known: Mask) -> Any:
    return pd.arrays.IntegerArray(values.astype(np.int64), ~known)


def _uids(core: Core, rows: Rows) -> Any:
    return _whole(np.where(rows >= 0, core.columns.uid[rows], 0), rows >= 0)


def _args(events: Mapping[int, dict[str, Any]], uid: int) -> dict[str, Any]:
    args = events.get(uid, {}).get("args")
    return args if isinstance(args, dict) else {}


def calls_frame(
    tree: TraceToTree,
    found: OpCalls,
    *,
    arguments: Sequence[str] = ARGUMENTS,
    start: bool = False,
    ids: bool = False,
    details: bool = False,
    names: bool = False,
    call_stack: bool = False,
    recompute: bool = False,
) -> pd.DataFrame:
    """A row per launcher, in the order of starts; see `TreePerfAnalyzer.get_df_kernel_launchers`."""
    core, c, rows = tree.graph, tree.graph.columns, found.rows
    columns: dict[str, Any] = {
        "name": [core.names[code] for code in c.name[rows].tolist()],
        "op category": [found.categories[code] for code in found.category.tolist()],
        "UID": c.uid[rows],
        DIRECT: found.direct_ns / 1000,
        SUBTREE: found.subtree_ns / 1000,
        "direct_kernel_count": found.count,
    }
    if start:
        columns["ts"] = file_times(tree, rows)
    columns |= arguments_as(as_tuples, core, rows, arguments)
    if ids:
        external = c.external_id[rows].astype(np.int64)
        columns["pid"] = [core.threads[code][0] for code in c.thread[rows].tolist()]
        columns["tid"] = [core.threads[code][1] for code in c.thread[rows].tolist()]
        columns["external_id"] = pd.arrays.IntegerArray(external, external == -1)
    if details:
        columns["kernel_details"] = kernel_details(found)
    if names:
        columns["kernel_names"] = kernel_names(found)
    if call_stack:
        columns["call_stack"] = stacks_of_modules(core, rows)
        modules = parent_modules(core, found.module)
        columns["parent_module"] = [NO_MODULE if name == OUTSIDE_MODULES else name for name in modules]
    if recompute:
        columns["is_recompute"] = autograd_of(core).recompute[rows]
    columns |= thread_columns(core, rows)
    if details:
        beside = overlap(found)
        columns["overlapping_kernel_names"] = beside.names
        columns["overlapping_kernels_details"] = _details(core, beside.beside[:, 1], beside.beside[:, 0], len(rows))
        columns["overlap_pct"] = np.round(beside.share, 2)
    return pd.DataFrame(columns)


def kernel_details(found: OpCalls) -> list[Details]:
    """Name, duration (us) and stream of the GPU events charged to each launcher, in the order of their launches."""
    return _details(found.core, found.gpu, found.of, len(found))


def kernel_names(found: OpCalls) -> list[list[str]]:
    """Names of the GPU events charged to each launcher, in the order of their launches."""
    lists: list[list[str]] = [[] for _ in range(len(found))]
    for at, name in zip(found.of.tolist(), found.core.columns.name[found.gpu].tolist(), strict=True):
        lists[at].append(found.core.names[name])
    return lists


def _details(core: Core, gpu: Rows, group: Codes, groups: int) -> list[Details]:
    c = core.columns
    lists: list[Details] = [[] for _ in range(groups)]
    names, durations = c.name[gpu].tolist(), (c.dur_ns[gpu] / 1000).tolist()
    for at, name, dur, stream in zip(group.tolist(), names, durations, c.stream[gpu].tolist(), strict=True):
        lists[at].append({"name": core.names[name], "dur": dur, "stream": stream if stream >= 0 else None})
    return lists


def arguments_as(spelled: Callable[[Any], Any], core: Core, rows: Rows, names: Sequence[str]) -> dict[str, list[Any]]:
    """Arguments of events as `as_tuples` or `as_lists` spell them, one for all events of one argument set."""
    c = core.columns
    _, first, back = np.unique(c.argset[rows], return_index=True, return_inverse=True)
    shapes = [Node(core, row).shapes for row in rows[first].tolist()]
    elsewhere = any(name not in ARGUMENTS for name in names)
    events = core.details.events(c.uid[rows].tolist()) if elsewhere else {}
    args = [events.get(uid, {}).get("args") for uid in c.uid[rows].tolist()]
    columns = {}
    for name in names:
        if name in ARGUMENTS:
            values = [spelled(shape.get(name)) for shape in shapes]
            columns[name] = [values[i] for i in back.tolist()]
        else:
            columns[name] = [spelled(each.get(name)) if isinstance(each, dict) else None for each in args]
    return columns
