"""Frames of calls with what performance models say of them, one row per call; and how well tiles of kernels fit.

How well they fit is TraceLens's "dim efficiency". A kernel makes the result of a product in tiles, one or more thread
blocks each, and the device runs as many blocks at a time as it has units. Lost are what sticks out of the result, and
what the last wave leaves empty: "tile" and "wave quantization" in NVIDIA's Matrix Multiplication Background User's
Guide. Blocks that share a unit are left out of account.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from tracelens_graph.analyses.ops.launchers import OpCalls, busy_by_group
from tracelens_graph.analyses.performance.perf_rows import CostedCalls, work_columns
from tracelens_graph.analyses.performance.unified import arguments_of, context_of
from tracelens_graph.analyses.shared.gpu_work import as_tracelens_counts
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.categories.gemm_names import ParsedName
from tracelens_graph.categories.kernel_names import parse_name
from tracelens_graph.compat.call_frames import arguments_as, kernel_details, kernel_names
from tracelens_graph.compat.cells import as_lists, as_tuples, has_model, in_order, thread_columns
from tracelens_graph.compat.summaries import ARGUMENTS
from tracelens_graph.compat.trace_to_tree import TraceToTree
from tracelens_graph.graph.arrays import quotients
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.graph.window import whole_window
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.devices import Architecture
from tracelens_graph.perf.model import CallContext, OpModel
from tracelens_graph.perf.registry import model_named
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Mask

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
    return OpCalls(as_tracelens_counts(whole_window(core)), np.array(rows, np.int64), found[:, 1], found[:, 0], gpu[:0])


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
    return model.estimate(arguments_of(core, row), context_of(core, row, model))


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
        columns["Non-Data-Mov TFLOPS/s"] = quotients(flops / 1e6, time)
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
    external = c.external_id[rows].tolist()
    columns: dict[str, Cells] = {
        "cat": [tree.category(row) for row in rows.tolist()],
        "name": [core.names[code] for code in c.name[rows].tolist()],
        "UID": c.uid[rows],
        "pid": [core.threads[code][0] for code in c.thread[rows].tolist()],
        "tid": [core.threads[code][1] for code in c.thread[rows].tolist()],
        "external_id": [None if value == -1 else value for value in external],
        **thread_columns(core, rows),
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
        columns |= arguments_as(as_lists, tree.graph, found.calls.rows, ARGUMENTS)
    return Table("perf_metrics", columns).to_pandas()


def unified_frame(
    tree: TraceToTree,
    found: CostedCalls,
    alone: Mask,
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
    columns["has_perf_model"] = has_model(columns["name"], found.cost >= 0)
    if details:
        columns["kernel_details"] = kernel_details(calls)
    if arguments:
        columns |= arguments_as(as_tuples, core, calls.rows, ARGUMENTS)
    return Table("unified_perf", columns).to_pandas()


def describe(core: Core, row: int) -> str:
    """An event in a message."""
    return f"{Node(core, row).name!r} (UID {int(core.columns.uid[row])})"


_BLAS = ("Tensile", "nvjet", "cuBLAS")
"""Families of names whose tiles are in BLAS's column-major sense: their M is the N of PyTorch's product. The tiles of
cuBLAS's own CUTLASS kernels are, too; the names of these begin with `cutlass_`."""

Figures = dict[str, float | int | None]

COLUMNS = ("mt_m", "mt_n", "depth_u", "num_tiles", "tile_eff", "wq_eff", "dim_eff")


def tile_columns(found: CostedCalls, units: int) -> dict[str, Cells]:
    """Columns `param: mt_m` and so on: one cell per call, None where no name of a kernel shows the tile.

    mt_m, mt_n and depth_u are the tile as the kernel's name says it, num_tiles the tiles of the result; tile_eff is the
    share of them that lies in the result, wq_eff the share of all waves that is filled, dim_eff the product of both.

    Args:
        units: multiprocessors or compute units of the device.
    """
    calls, core = found.calls, found.calls.core
    names = core.columns.name[calls.gpu].tolist()
    bounds = np.searchsorted(calls.of, np.arange(len(calls) + 1)).tolist()
    rows: list[Figures] = []
    for call, cost in enumerate(found.of_first(np.arange(len(calls)))):
        parsed = (_blas(core.names[name]) for name in names[bounds[call] : bounds[call + 1]])
        kernel = next(filter(None, parsed), None)
        m, n = (cost.params.get("M"), cost.params.get("N")) if cost else (None, None)
        if cost is None or kernel is None or m is None or n is None:
            rows.append({})
        else:
            rows.append(_figures(kernel, m, n, cost.params.get("B", 1), units))
    return {f"param: {name}": [row.get(name) for row in rows] for name in COLUMNS}


@cache
def _blas(name: str) -> ParsedName | None:
    parsed = parse_name(name)
    if parsed is None or parsed.tile is None:
        return None
    return parsed if parsed.family in _BLAS or name.startswith("cutlass_") else None


def _figures(kernel: ParsedName, m: int, n: int, batch: int, units: int) -> Figures:
    assert kernel.tile is not None
    tile_m, tile_n, *depth = kernel.tile
    across, down = -(-n // tile_m), -(-m // tile_n)
    tiles = batch * across * down
    inside = m * n / (across * tile_m * down * tile_n) if tiles else None
    filled = None
    if tiles and kernel.split_k is not True:  # else it is not known how many blocks share a tile
        blocks = tiles * (kernel.split_k or 1)
        filled = blocks / (-(-blocks // units) * units)
    both = inside * filled if inside is not None and filled is not None else None
    figures = (tile_m, tile_n, depth[0] if depth else None, tiles, inside, filled, both)
    return dict(zip(COLUMNS, figures, strict=True))
