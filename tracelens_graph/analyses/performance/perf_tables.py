"""Performance tables: one row per op and arguments with what it should cost and what it reached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tracelens_graph.analyses.ops.kernel_details import Details, detail_columns
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH, OpCalls
from tracelens_graph.analyses.ops.ops import (
    ARGUMENTS,
    ENTRY_POINT,
    KERNEL_DETAILS,
    KERNEL_DETAILS_SHORT,
    OPS_UNIQUE_ARGS,
    PLACE,
)
from tracelens_graph.analyses.performance.perf_rows import CostedCalls, stats, time_about, time_columns, work_columns
from tracelens_graph.analyses.performance.perf_sheets import COST, RATES, ROOF_SHARES
from tracelens_graph.analyses.performance.unified import Unified, unified
from tracelens_graph.analyses.shared.call_columns import (
    argument_cells,
    argument_codes,
    by_time,
    numbers,
    place_columns,
    thread_labels,
)
from tracelens_graph.analyses.shared.call_stacks import NOT_FOUND, call_stacks, entry_points
from tracelens_graph.analyses.shared.gpu_work import (
    COMMUNICATION,
    IS_RECOMPUTE,
    SHARE,
    gpu_classes,
    is_in_tracelens_layout,
)
from tracelens_graph.analyses.shared.grouping import Cells, Groups, group_by, shares
from tracelens_graph.analyses.timeline.timeline import unlinked_notes
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import FIVE, About, Column, Role, statistics
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Mask

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

_KERNEL_TIME = statistics("Kernel Time (µs)_{}", "GPU busy time per call", "us", (*FIVE, "sum"))
_KERNEL_TIME |= {
    "Kernel Time (µs)_mean": replace(_KERNEL_TIME["Kernel Time (µs)_mean"], heading="mean us", compared="diff"),
    "Kernel Time (µs)_sum": replace(_KERNEL_TIME["Kernel Time (µs)_sum"], heading="sum us", compared="main"),
}

SPEEDUP: About = {
    "speedup (trace2/trace1)": Column(
        "TraceLens's name for the time of the second trace as multiple of that of the first: above 1 it is slower"
    ),
    "speedup_of_trace2": Column(
        "how many times as fast the second trace is: above 1 it is faster", heading="speed-up", drop_priority=0
    ),
}

UNIFIED_COMPARISON: About = {
    "speedup (trace2/trace1)": SPEEDUP["speedup (trace2/trace1)"],
    "delta_us (trace2 - trace1)": Column("lca_total_kernel_time_trace2_us less the kernel time of the row", "us"),
    "lca_count_trace2": Column("lowest common ancestors (LCAs) of its GPU events that have any in the second trace"),
    "lca_id": Column.text("numbers of these LCAs in the merged tree, joined by `; `"),
    "lca_name": Column.text("their names, joined likewise"),
    "lca_total_kernel_time_trace1_us": Column("sum over its LCAs of the time with any GPU event below that differs",
                                              "us"),
    "lca_total_kernel_time_trace2_us": Column("the same of the second trace", "us"),
    "speedup_of_trace2": SPEEDUP["speedup_of_trace2"],
}  # fmt: skip
"""Columns that a comparison adds, behind the sum of kernel times."""

UNIFIED_PERF_SUMMARY = TableSchema(
    "unified_perf_summary",
    "What calls should cost and what they reached, every GPU event in one row.",
    {
        "name": Column.key(
            "outermost op whose model claims it, else the op that launched; one row per op for every GPU event", "op"
        ),
        "op category": OPS_UNIQUE_ARGS["op category"],
        **PLACE,
        **ARGUMENTS,
        "is_recompute": IS_RECOMPUTE,
        "ex_UID": Column.instance("uid of the first call, or of the event that stands for itself", compared="beside"),
        "operation_count": Column.count("calls", "calls"),
        "total_duration_us": Column.total("sum of the durations of the calls on the host", "us"),
        "mean_duration_us": Column("mean of the durations of the calls on the host", "us", Role.mean),
        "std_duration_us": Column("standard deviation of the durations of the calls on the host", "us", Role.spread),
        **{name: COST[name] for name in ("GFLOPS", "Data Moved (MB)", "FLOPS/Byte", "Compute Spec", "Roofline Bound")},
        **RATES,
        "TB/s_mean": replace(RATES["TB/s_mean"], heading="TB/s", compared="diff"),
        "TFLOPS/s_mean": replace(RATES["TFLOPS/s_mean"], heading="TFLOP/s", compared="diff"),
        **_KERNEL_TIME,
        **statistics("duration_us_{}", "the durations of the calls on the host", "us", ("median", "min", "max")),
        "Roofline Time (µs)_first": COST["Roofline Time"],
        "Roofline Time (µs)_mean": Column(
            "mean over calls of the time at the roof, which attention over other lengths changes", "us", Role.mean
        ),
        **ROOF_SHARES,
        "kernel_details_summary": KERNEL_DETAILS,
        "trunc_kernel_details": KERNEL_DETAILS_SHORT,
        "perf_params": Column("the sizes that operations and bytes follow from", cells="list"),
        "has_perf_model": Column("whether a model applies", role=Role.flag),
        "entry_point": replace(ENTRY_POINT, heading=None),
        "call_stack_full": Column(
            "frames, modules and ops above the kernels of the first call, the outermost first", cells="list"
        ),
        **SHARE,
        **UNIFIED_COMPARISON,
    },
)


COMMUNICATION_LINE = "(communication)"


def unified_perf_summary(
    g: Core | Window,
    linked_only: bool = False,
    *,
    arch: Architecture | None = None,
    recompute: bool = False,
    call_stack: bool = False,
    python_frames: bool = True,
    as_recorded: bool = False,
) -> Table:
    """Cost and rates per op and arguments, each GPU event in one row, the greatest time first.

    Args:
        g: the graph, or a window of it; models, and what else predicts times, are those of its extension.
        linked_only: without the rows of communication and of GPU events without a launch.
        arch: the device, for columns of the roofline.
        recompute: separate recomputation of activations from the rest.
        call_stack: show the Python function that the first call comes from, and the stack down to the kernels.
        python_frames: with it, functions and modules of Python; else ops alone, and no function.
        as_recorded: kernel details with durations and streams as the file spells them.
    """
    w = window_of(g)
    core, c, time_models = w.core, w.core.columns, extension_of(w).time_models
    chosen = unified(w)
    calls, alone = attributed_calls(w)
    found = CostedCalls(calls, _codes(chosen, calls.rows, alone), chosen.costs, arch)
    group, first = rows_of_calls(calls, alone, recompute)
    kernel = _kernel_alone(calls, alone)
    again = autograd_of(core).recompute[calls.rows] if recompute else None
    rows, costs = calls.rows[first], found.of_first(first)
    columns: dict[str, Cells] = {
        "name": [_name(core, row, code) for row, code in zip(rows.tolist(), kernel[first].tolist(), strict=True)],
        "op category": [calls.categories[i] for i in calls.category[first].tolist()],
        **place_columns(core, rows),
        **argument_cells(core, c.argset[rows]),
    }
    if again is not None:
        columns["is_recompute"] = again[first].tolist()
    columns["ex_UID"] = example_uids(calls, alone, first).tolist()
    columns["operation_count"] = np.bincount(group, minlength=len(first))
    host = Groups(group, c.dur_ns[calls.rows], len(first))
    columns |= {
        "total_duration_us": host.sum / 1e3,
        "mean_duration_us": host.mean / 1e3,
        "std_duration_us": host.std() / 1e3,
        **work_columns(costs),
        "Compute Spec": [cost.compute_spec if cost else "" for cost in costs],
    }
    if arch:
        roofs = found.roof_of_first(first)
        columns["Roofline Bound"] = found.bounds(group, len(first))
    busy = Groups(group, calls.direct_ns, len(first))
    rates = {name: Groups(group, values, len(first)) for name, values in found.rates.items()}
    for name, values in rates.items():
        columns |= stats(name, values, ("mean", "std"))
    columns |= stats("Kernel Time (µs)", busy, ("mean", "std", "sum"), 1e-3)
    columns |= stats("duration_us", host, ("median", "min", "max"), 1e-3)
    for name, values in rates.items():
        columns |= stats(name, values, ("median", "min", "max"))
    if arch:
        columns["Roofline Time (µs)_first"] = [roof.time_us if roof else None for roof in roofs]
        if not is_in_tracelens_layout(core):
            columns |= stats("Roofline Time (µs)", Groups(group, found.roof_us, len(first)), ("mean",))
        share = Groups(group, found.percent_of_roof, len(first))
        columns |= stats("Pct Roofline", share)
    columns |= time_columns(found, group, first, time_models, np.isin(calls.rows, list(chosen.backward)))
    columns |= stats("Kernel Time (µs)", busy, ("median", "min", "max"), 1e-3)
    details, notes = detail_columns(calls, group, first, as_recorded=as_recorded)
    columns |= details
    columns["perf_params"] = [None if cost is None else dict(cost.params) for cost in costs]
    columns["has_perf_model"] = [cost is not None for cost in costs]
    if call_stack:
        listed = _as_listed(calls, first, columns["kernel_details_summary"])
        columns["entry_point"] = entry_points(core, rows) if python_frames else [NOT_FOUND] * len(rows)
        columns["call_stack_full"] = call_stacks(core, listed, python_frames)
    columns = by_time(columns, "Kernel Time (µs)_sum", numbers(columns["ex_UID"]))
    if not linked_only:
        _append_lines(columns, w, chosen)
    columns |= shares(numbers(columns["Kernel Time (µs)_sum"]))
    title = w.titled("Cost and rates by operation and arguments")
    notes = [*unlinked_notes(w, linked_only), *notes]
    return UNIFIED_PERF_SUMMARY.table(columns, title, notes, more=dict(time_about(time_models)))


def attributed_calls(w: Window, communication: bool = False) -> tuple[OpCalls, Mask]:
    """The ops that `unified` gives the GPU events of a window to, by start, and events that stand for themselves.

    Args:
        communication: give communication that is in no modelled op to the op that launched it.

    Returns:
        The calls, and for each whether it is an event that stands for itself: its row is that of the op or call that
        launched it.
    """
    core, c, gpu, chosen = w.core, w.core.columns, w.core.gpu_rows, unified(w)
    inside, owner = w.holds(gpu), chosen.owner
    if communication:
        left = (owner < 0) & ~chosen.alone & (gpu_classes(core, gpu) == COMMUNICATION)
        owner = np.where(left, c.owner[gpu], owner)
    given = inside & (owner >= 0)
    rows, of = np.unique(owner[given], return_inverse=True)
    single = gpu[inside & chosen.alone]
    launcher = np.where(c.owner[single] >= 0, c.owner[single], c.parent[single])
    every = np.concatenate((rows, launcher)).astype(np.int64)
    by_start = np.lexsort((every, c.start_ns[every]))
    call = np.concatenate((of, len(rows) + np.arange(len(single)))).astype(np.int64)
    calls = OpCalls.ordered(w, by_start, every, np.concatenate((gpu[given], single)), call)
    return calls, by_start >= len(rows)


def rows_of_calls(calls: OpCalls, alone: np.ndarray, recompute: bool) -> tuple[np.ndarray, np.ndarray]:
    """Which calls that `attributed_calls` gives are in one row of `unified_perf_summary`.

    Returns:
        The number of each call's row, in no order, and for each row its first call.
    """
    core, c = calls.core, calls.core.columns
    _, label = thread_labels(core)
    keys = [c.name[calls.rows], _kernel_alone(calls, alone), calls.category, label[c.thread[calls.rows]],
            argument_codes(core)[c.argset[calls.rows]]]  # fmt: skip
    if recompute:
        keys.append(autograd_of(core).recompute[calls.rows])
    return group_by(*keys)


def example_uids(calls: OpCalls, alone: np.ndarray, which: np.ndarray) -> np.ndarray:
    """What stands for some calls in `ex_UID`: their uids, those of GPU events that stand for themselves."""
    uid: np.ndarray = calls.core.columns.uid
    return np.where(alone[which], uid[calls.gpu[calls.first[which]]], uid[calls.rows[which]])


def _kernel_alone(calls: OpCalls, alone: np.ndarray) -> np.ndarray:
    return np.where(alone, calls.core.columns.name[calls.gpu[calls.first]], -1)


def _as_listed(calls: OpCalls, first: np.ndarray, details: Iterable[Details]) -> list[np.ndarray]:
    """GPU events of some calls, in the order in which their kernel details name them."""
    found = []
    for call, entries in zip(first.tolist(), details, strict=True):
        events = calls.gpu[calls.first[call] : calls.first[call] + calls.count[call]]
        # Reversed, so that of several entries of a name the first counts.
        place = {entry["name"]: at for at, entry in reversed(list(enumerate(entries)))}
        names = [calls.core.names[code] for code in calls.core.columns.name[events].tolist()]
        found.append(events[np.argsort([place[name] for name in names], kind="stable")])
    return found


def _codes(chosen: Unified, rows: np.ndarray, alone: np.ndarray) -> np.ndarray:
    found = np.array([chosen.codes.get(row, -1) for row in rows.tolist()], np.int64)
    return np.where(alone, -1, np.maximum(found, -1))


def _name(core: Core, row: int, kernel: int) -> str:
    name = core.names[core.columns.name[row]]
    return name if kernel < 0 else f"{name}->{core.names[kernel]} (Synthetic Op)"


def _append_lines(columns: dict[str, Cells], w: Window, chosen: Unified) -> None:
    """Add a row for communication that is in no modelled op, and one for GPU events without a launch."""
    core, c = w.core, w.core.columns
    gpu = core.gpu_rows
    left = w.holds(gpu) & (chosen.owner < 0) & ~chosen.alone
    for name, picked in ((COMMUNICATION_LINE, left & (c.parent[gpu] >= 0)), (NO_LAUNCH, left & (c.parent[gpu] < 0))):
        if not picked.any():
            continue
        times = Groups(np.zeros(int(picked.sum()), np.int64), c.dur_ns[gpu[picked]], 1)
        kernel_time = stats("Kernel Time (µs)", times, (*FIVE, "sum"), 1e-3)
        known = {"name": name, "operation_count": int(times.count[0]), "has_perf_model": False}
        known |= {column: float(values[0]) for column, values in kernel_time.items()}
        for column, cells in columns.items():
            columns[column] = [*(cells.tolist() if isinstance(cells, np.ndarray) else cells), known.get(column)]
