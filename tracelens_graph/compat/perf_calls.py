"""Frames of calls with what performance models say of them: one row per call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tracelens_graph.analyses.ops.launchers import OpCalls, busy_by_group
from tracelens_graph.analyses.performance.perf_rows import CostedCalls, work_columns
from tracelens_graph.analyses.performance.unified import arguments_of, context_of, unified
from tracelens_graph.analyses.shared.call_columns import thread_labels
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, gpu_classes
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.compat.gemm_tiles import tile_columns
from tracelens_graph.compat.launcher_calls import argument_tuples, kernel_details, kernel_names
from tracelens_graph.compat.launcher_frames import ARGUMENTS
from tracelens_graph.compat.perf_params import in_order
from tracelens_graph.compat.trace_to_tree import TraceToTree
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.graph.window import Window, whole_window
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.devices import Architecture
from tracelens_graph.perf.model import CallContext, OpModel
from tracelens_graph.perf.registry import model_named
from tracelens_graph.tables.table import Table

_MOVES_DATA = ("direct_copy_kernel_cuda", "transpose_")
"""In the names of kernels that only move data."""


# --- calls -------------------------------------------------------------------------------------------------------


def calls_of(core: Core, rows: Sequence[int], backward: bool = False) -> OpCalls:
    """Calls with all GPU events below them, or with those below the backward ops of theirs, in the given order."""
    c, gpu = core.columns, core.gpu_rows
    pairs: list[np.ndarray] = []
    for place, row in enumerate(rows):
        for op in autograd_of(core).backward_of(row) if backward else [row]:
            below = gpu[slice(*np.searchsorted(gpu, (op, int(c.last[op]) + 1)))]
            pairs.append(np.stack((np.full(len(below), place), below), axis=1))
    found = np.unique(np.concatenate(pairs), axis=0) if pairs else np.zeros((0, 2), np.int64)
    return OpCalls(whole_window(core), np.array(rows, np.int64), found[:, 1], found[:, 0], gpu[:0])


def unified_perf_calls(w: Window, communication: bool = False) -> tuple[OpCalls, np.ndarray]:
    """The ops that GPU events are given to, by start, and events that stand for themselves.

    Args:
        w: the whole trace.
        communication: give communication that is in no modelled op to the op that launched it.

    Returns:
        The calls, and which of them stand for a GPU event: their row is that of the op or call that launched it.
    """
    core, c, gpu, chosen = w.core, w.core.columns, w.core.gpu_rows, unified(w)
    owner = chosen.owner
    if communication:
        left = (owner < 0) & ~chosen.alone & (gpu_classes(core, gpu) == COMMUNICATION)
        owner = np.where(left, c.owner[gpu], owner)
    rows, of = np.unique(owner[owner >= 0], return_inverse=True)
    single = gpu[chosen.alone]
    rows = np.concatenate((rows, np.where(c.owner[single] >= 0, c.owner[single], c.parent[single])))
    order = np.lexsort((rows, c.start_ns[rows]))
    place = np.argsort(order)
    call = place[np.concatenate((of, len(rows) - len(single) + np.arange(len(single)))).astype(np.int64)]
    events = np.concatenate((gpu[owner >= 0], single))
    by_call = np.lexsort((events, call))
    calls = OpCalls(whole_window(core), rows[order], events[by_call], call[by_call], gpu[:0])
    return calls, (np.arange(len(rows)) >= len(rows) - len(single))[order]


# --- estimates ---------------------------------------------------------------------------------------------------


def estimate(core: Core, row: int, model: OpModel | None, backward: bool = False) -> Cost:
    """The cost of a call, or of its backward pass.

    Raises:
        CannotModel: there is no model, or it does not apply.
    """
    if model is None:
        raise CannotModel("no model is known for this op")
    if backward:
        if model.backward is None:
            raise CannotModel("no formula is known for its backward pass")
        return model.backward(arguments_of(core, row), CallContext())
    low, high = np.searchsorted(core.gpu_rows, (row, int(core.columns.last[row]) + 1)).tolist()
    return model.estimate(arguments_of(core, row), context_of(core, row, low, high))


def estimates(
    core: Core, rows: Sequence[int], models: Mapping[str, OpModel], backward: bool
) -> tuple[list[Cost | None], list[str]]:
    """The costs of calls, None where there is none, and why there is none, call by call."""
    known: dict[tuple[int, int], Cost | str] = {}
    costs: list[Cost | None] = []
    reasons: list[str] = []
    c = core.columns
    for row in rows:
        key = (int(c.name[row]), int(c.argset[row]))
        model = model_named(core.names[key[0]], models)
        found = known.get(key)
        if found is None:
            try:
                found = estimate(core, row, model, backward)
            except CannotModel as reason:
                found = f"{core.names[key[0]]}: {reason}"
            if backward or model is None or not model.uses_context:
                known[key] = found
        costs.append(found if isinstance(found, Cost) else None)
        if isinstance(found, str):
            reasons.append(found)
    return costs, reasons


def costed(calls: OpCalls, costs: Sequence[Cost | None], arch: Architecture | None) -> CostedCalls:
    """Calls with a cost each, or none."""
    different = {id(cost): cost for cost in costs if cost is not None}
    place = {key: i for i, key in enumerate(different)}
    code = np.array([-1 if cost is None else place[id(cost)] for cost in costs], np.int64)
    return CostedCalls(calls, code, list(different.values()), arch)


# --- columns -----------------------------------------------------------------------------------------------------


def metric_columns(found: CostedCalls, without_moves: bool = False) -> dict[str, Cells]:
    """What models say of calls, and what was reached, under TraceLens's names.

    Args:
        found: the calls.
        without_moves: add time and rate without kernels that only copy or transpose.
    """
    calls, every = found.calls, np.arange(len(found.calls))
    costs = found.of_first(every)
    columns: dict[str, Cells] = {
        **work_columns(costs),
        **found.rates,
        "Kernel Time (µs)": calls.direct_ns / 1000,
        "Compute Spec": [cost.compute_spec if cost else "" for cost in costs],
    }
    if without_moves:
        names = calls.core.names
        moves = np.array([any(part in name for part in _MOVES_DATA) for name in names] or [False])
        kept = ~moves[calls.core.columns.name[calls.gpu]]
        time = busy_by_group(calls.core, calls.gpu[kept], calls.of[kept], len(calls)) / 1000
        flops = found.per_call(cost.flops for cost in found.costs)
        columns["Non-Data-Mov Kernel Time (µs)"] = time
        columns["Non-Data-Mov TFLOPS/s"] = np.divide(flops / 1e6, time, out=np.full(len(time), np.nan), where=time > 0)
    if found.arch and found.arch.value("memory_bandwidth_gbps"):
        roofs = found.roof_of_first(every)
        columns["Roofline Time (µs)"] = [roof.time_us if roof else None for roof in roofs]
        columns["Roofline Bound"] = [roof.bound if roof else None for roof in roofs]
        columns["Pct Roofline"] = found.percent_of_roof
    return columns


def size_columns(found: CostedCalls) -> dict[str, Cells]:
    """The sizes that costs follow from, as columns `param: M` and so on."""
    params = _params(found)
    return {
        f"param: {name}": [each.get(name) for each in params] for name in dict.fromkeys(n for p in params for n in p)
    }


def _params(found: CostedCalls) -> list[dict[str, Any]]:
    core = found.calls.core
    names = [core.names[code] for code in core.columns.name[found.calls.rows].tolist()]
    costs = found.of_first(np.arange(len(names)))
    return [
        {size: cost.params[size] for size in in_order(cost.params, name)} if cost else {}
        for name, cost in zip(names, costs, strict=True)
    ]


def identity_columns(tree: TraceToTree, calls: OpCalls, recompute: bool) -> dict[str, Cells]:
    """Which events calls are, and where they ran."""
    core, c, rows = tree.graph, tree.graph.columns, calls.rows
    labels, label = thread_labels(core)
    places = [labels[code] for code in label[c.thread[rows]].tolist()]
    external = c.external_id[rows].tolist()
    columns: dict[str, Cells] = {
        "cat": [tree.category(row) for row in rows.tolist()],
        "name": [core.names[code] for code in c.name[rows].tolist()],
        "UID": c.uid[rows],
        "pid": [core.threads[code][0] for code in c.thread[rows].tolist()],
        "tid": [core.threads[code][1] for code in c.thread[rows].tolist()],
        "external_id": [None if value == -1 else value for value in external],
        "process_name": [place[0] for place in places],
        "process_label": [place[1] for place in places],
        "thread_name": [place[2] for place in places],
    }
    return columns | ({"is_recompute": autograd_of(core).recompute[rows]} if recompute else {})


# --- frames ------------------------------------------------------------------------------------------------------


def perf_frame(
    tree: TraceToTree,
    found: CostedCalls,
    *,
    recompute: bool,
    without_moves: bool,
    details: bool,
    names: bool,
    arguments: bool,
    units: int | None,
) -> pd.DataFrame:
    """See `build_df_perf_metrics`; `units` of the device for the efficiency of tiles, None for no such columns."""
    columns = identity_columns(tree, found.calls, recompute)
    columns |= metric_columns(found, without_moves) | size_columns(found)
    if units is not None:
        columns |= tile_columns(found, units)
    if details:
        columns["kernel_details"] = kernel_details(found.calls)
    if names:
        columns["kernel_names"] = kernel_names(found.calls)
    if arguments:
        columns |= argument_tuples(tree.graph, found.calls.rows, ARGUMENTS)
    return Table("perf_metrics", columns).to_pandas()


def unified_frame(
    tree: TraceToTree,
    found: CostedCalls,
    alone: np.ndarray,
    *,
    recompute: bool,
    details: bool,
    arguments: bool,
    metrics: bool,
) -> pd.DataFrame:
    """See `build_df_unified_perf_table`; `alone` says which calls stand for a GPU event."""
    core, c, calls = tree.graph, tree.graph.columns, found.calls
    columns = identity_columns(tree, calls, recompute)
    columns["op category"] = [calls.categories[code] for code in calls.category.tolist()]
    first = calls.gpu[calls.first] if len(calls) else calls.gpu
    columns["UID"] = np.where(alone, c.uid[first], c.uid[calls.rows])
    columns["name"] = [
        f"{name}->{core.names[kernel]} (Synthetic Op)" if single else name
        for name, kernel, single in zip(columns["name"], c.name[first].tolist(), alone.tolist(), strict=True)
    ]
    columns["duration_us"] = c.dur_ns[calls.rows] / 1000
    if metrics:
        columns |= metric_columns(found)
        params = _params(found)
        columns["perf_params"] = [each if code >= 0 else None for each, code in zip(params, found.cost, strict=True)]
    else:
        columns["Kernel Time (µs)"] = calls.direct_ns / 1000
    columns["has_perf_model"] = found.cost >= 0
    if details:
        columns["kernel_details"] = kernel_details(calls)
    if arguments:
        columns |= argument_tuples(core, calls.rows, ARGUMENTS)
    return Table("unified_perf", columns).to_pandas()


def describe(core: Core, row: int) -> str:
    """An event in a message."""
    return f"{Node(core, row).name!r} (UID {int(core.columns.uid[row])})"
