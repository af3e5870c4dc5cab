"""The frame of launcher calls: one row per call, with its GPU time, arguments and place in the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tracelens_graph.analyses.ops.kernel_details import overlap
from tracelens_graph.analyses.ops.launchers import OpCalls
from tracelens_graph.analyses.shared.call_columns import thread_labels
from tracelens_graph.analyses.shared.call_stacks import module_stacks, parent_modules
from tracelens_graph.compat.cells import as_tuples
from tracelens_graph.compat.kernel_frames import file_times
from tracelens_graph.compat.launcher_frames import ARGUMENTS, DIRECT, SUBTREE, Details
from tracelens_graph.compat.trace_to_tree import TraceToTree
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node


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
    columns |= argument_tuples(core, rows, arguments)
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
        columns["call_stack"] = module_stacks(core, rows)
        columns["parent_module"] = parent_modules(core, found.module)
    if recompute:
        columns["is_recompute"] = autograd_of(core).recompute[rows]
    labels, label = thread_labels(core)
    for i, column in enumerate(("process_name", "process_label", "thread_name")):
        columns[column] = [labels[code][i] for code in label[c.thread[rows]].tolist()]
    if details:
        beside = overlap(found)
        columns["overlapping_kernel_names"] = beside.names
        columns["overlapping_kernels_details"] = _details(core, beside.beside[:, 1], beside.beside[:, 0], len(rows))
        columns["overlap_pct"] = beside.share
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


def _details(core: Core, gpu: np.ndarray, group: np.ndarray, groups: int) -> list[Details]:
    c = core.columns
    lists: list[Details] = [[] for _ in range(groups)]
    names, durations = c.name[gpu].tolist(), (c.dur_ns[gpu] / 1000).tolist()
    for at, name, dur, stream in zip(group.tolist(), names, durations, c.stream[gpu].tolist(), strict=True):
        lists[at].append({"name": core.names[name], "dur": dur, "stream": stream if stream >= 0 else None})
    return lists


def argument_tuples(core: Core, rows: np.ndarray, names: Sequence[str]) -> dict[str, list[Any]]:
    """Arguments of events as tuples, one tuple for all events of one argument set."""
    c = core.columns
    _, first, back = np.unique(c.argset[rows], return_index=True, return_inverse=True)
    shapes = [Node(core, row).shapes for row in rows[first].tolist()]
    elsewhere = any(name not in ARGUMENTS for name in names)
    events = core.details.events(c.uid[rows].tolist()) if elsewhere else {}
    args = [events.get(uid, {}).get("args") for uid in c.uid[rows].tolist()]
    columns = {}
    for name in names:
        if name in ARGUMENTS:
            values = [as_tuples(shape.get(name)) for shape in shapes]
            columns[name] = [values[i] for i in back.tolist()]
        else:
            columns[name] = [as_tuples(each.get(name)) if isinstance(each, dict) else None for each in args]
    return columns
