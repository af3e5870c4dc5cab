"""Where the GPU's time lies under the roofline, how much could be won there, and what no model covers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from tracelens_graph.analyses.idle.host_states import ends
from tracelens_graph.analyses.idle.idle import BETWEEN_STEPS, Cause, idle_parts
from tracelens_graph.analyses.idle.idle_causes import idle_causes
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.performance.unified import unified
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, gpu_classes
from tracelens_graph.analyses.shared.grouping import Cells, cell_order, group_by
from tracelens_graph.analyses.timeline.timeline import lost_notes, unlinked_notes
from tracelens_graph.graph.arrays import quotients
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group, union_length
from tracelens_graph.graph.traversals import launcher
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.perf.cost import Cost
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Mask, Rows
from tracelens_graph.utils.texts import shorten, shown_name

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

ROOFLINE_SUMMARY = TableSchema(
    "roofline_summary",
    "Which GPU time is bound by computing, which by memory, what has no model, and how much could be won.",
    {
        "part": Column.key("what bounds the work, or why nothing runs; the parts add up to GPU time and idle time"),
        "count": Column.count("GPU events; of idle time, gaps"),
        "time_ms": Column.total(
            "sum of the durations of the GPU events; of idle time, its length", "ms", compared="main"
        ),
        "percent": Column.share("share of the sum over all parts"),
        "at_roof_ms": Column.total(
            "sum over calls of the least time on the device, but not more than a call took", "ms"
        ),
        "could_be_won_ms": Column.total("the time less that at the roof", "ms", compared="diff"),
        "meaning": Column.text("the part in words"),
    },
    ordered=True,
    counts="GPU event",
)

UNMODELLED = TableSchema(
    "unmodelled",
    "Which operations have no performance model, and why.",
    {
        "op": Column.key("op that the work is given to, or the runtime call where no op is above the launch"),
        "reason": Column.key("why no performance model says what the work costs"),
        "gpu_events": Column.count("GPU events without a model"),
        "gpu_sum_ms": Column.total("sum of their durations", "ms", compared="main"),
        "percent": Column.share("share of the sum over all GPU events of the window"),
    },
    counts="GPU event",
)


class Part(IntEnum):
    """Where time may lie, in the order of the table."""

    compute_bound = 0
    memory_bound = 1
    memory_only = 2
    link_bound = 3
    no_roof = 4
    unmodelled = 5
    communication = 6
    launch_bound = 7
    host_bound = 8
    outside_window = 9
    other_idle = 10


PART_MEANING = {
    Part.compute_bound: "ops that, at the device's rates, compute longer than they move data",
    Part.memory_bound: "ops that, at the device's rates, move data longer than they compute",
    Part.memory_only: "ops that move data and compute nothing",
    Part.link_bound: "copies between host and device, which move data over the link between them",
    Part.no_roof: "ops with a model whose cost has no roof on the device",
    Part.unmodelled: "GPU work without a model",
    Part.communication: "kernels of communication libraries",
    Part.launch_bound: "nothing runs: the host was in ops and launch calls, or the launch on its way",
    Part.host_bound: "nothing runs: the host loaded data, waited, copied, allocated or was in Python",
    Part.outside_window: "nothing of the window runs, but other work on its devices",
    Part.other_idle: "nothing runs: the GPU goes on to queued work, or the trace shows no reason",
}

_OF_CAUSE = {
    Cause.launches: Part.launch_bound, Cause.outside: Part.outside_window, **dict.fromkeys((
        Cause.data_loader, Cause.synchronization, Cause.host_to_device_copy, Cause.allocation, Cause.python,
        Cause.compilation, *BETWEEN_STEPS,
    ), Part.host_bound),
}  # fmt: skip
"""Cause of idle time -> its part; of others the part is `other_idle`."""
_ROOFED = (Part.compute_bound, Part.memory_bound, Part.memory_only, Part.link_bound)

_BOUNDS = {
    "COMPUTE_BOUND": Part.compute_bound, "MEMORY_BOUND": Part.memory_bound, "LINK_BOUND": Part.link_bound,
}  # fmt: skip

NO_MODEL = "no model for this operation"
_OUTSIDE_OF_OPS = "launched outside of operations"
_BESIDE_MODELS = "launched by itself, beside operations with a model that it calls"
_NO_LAUNCH = "its launch is not in the trace"

WINDOWED = "as in layers with a sliding window"
_NAMED = 10
"""Operations without a model that are named, in lines of their own and in one line."""
_LONGEST = 100
"""Characters of a name or reason in a note."""


@dataclass
class _Work:
    """What is known of the GPU events of a window.

    Attributes:
        gpu: their rows, ascending.
        op: row of the op each is given to; of others the row of what launched it, -1 for no launch.
        code: position in `costs`, or -1 - position in `reasons`.
        communicates: whether each is communication, which has no roof.
    """

    gpu: np.ndarray
    op: np.ndarray
    code: np.ndarray
    communicates: np.ndarray
    costs: list[Cost]
    reasons: list[str]


def roofline_summary(g: Core | Window, arch: Architecture) -> Table:
    """Time by what bounds it under a device's roofline, and how much could be won.

    The parts add up exactly to the sum of the durations of the GPU events and the idle time of `idle_causes`.
    Every GPU event counts for the op that `unified_perf_summary` shows it with, and is bound by what bounds that op:
    S. Williams, A. Waterman, D. Patterson: Roofline, Communications of the ACM 52 (2009). Idle time is that of
    `idle_causes`, devices added up.

    Returns:
        One row per part. At the roof a call takes the time that the roofline gives, but not more than it took; the
        rest could be won. Launch-bound and host-bound time could be won as a whole. Of the other parts neither is
        known.
    """
    w = window_of(g)
    c, work = w.core.columns, _work(w)
    duration = c.dur_ns[work.gpu]
    part, least, why = _parts(work, arch)
    time = sum_by_group(part, duration, len(Part))
    count = np.bincount(part, minlength=len(Part))
    gaps = idle_parts(w).parts
    for idle in (Part.launch_bound, Part.host_bound, Part.outside_window, Part.other_idle):
        own = gaps[[cause for cause in Cause if _OF_CAUSE.get(cause, Part.other_idle) is idle]].sum(axis=0)
        time[idle], count[idle] = own.sum(), np.count_nonzero(own)

    roofed = np.flatnonzero(np.isin(part, _ROOFED))
    call, first = group_by(work.op[roofed])
    of_call = part[roofed[first]]
    took = sum_by_group(call, duration[roofed], len(first))
    roof = least[work.code[roofed[first]]]
    # A call on cached data may beat the roof; it must not make up for what others lose.
    at_roof = sum_by_group(of_call, np.minimum(np.rint(roof), took).astype(np.int64), len(Part))

    missing = _unmodelled(w, work)
    without_roof = np.unique(work.code[part == Part.no_roof]).tolist()
    shown = [p for p in Part if p not in (Part.link_bound, Part.outside_window) or time[p]]
    known = np.isin(shown, (*_ROOFED, Part.launch_bound, Part.host_bound))
    total = int(time.sum())
    columns: dict[str, Cells] = {
        "part": [p.name for p in shown], "count": count[shown], "time_ms": time[shown] / 1e6,
        "percent": 100 * time[shown] / total if total else np.full(len(shown), np.nan),
        "at_roof_ms": np.where(known, at_roof[shown] / 1e6, np.nan),
        "could_be_won_ms": np.where(known, (time - at_roof)[shown] / 1e6, np.nan),
        "meaning": [PART_MEANING[p] for p in shown],
    }  # fmt: skip
    notes = [
        *unlinked_notes(w, left_out=False),
        *_overlap_note(w, int(duration.sum())),
        *_faster_note(took, roof, np.isin(work.code[roofed[first]], [*_of_attention(work.costs)])),
        *(_moving_note(w, work.op[roofed[first]], of_call, took - roof) if w.framework.compiles_programs else ()),
        *[f"no_roof: {shorten(reason, _LONGEST)}" for reason in dict.fromkeys(why[n] for n in without_roof)],
        *_idle_notes(w),
        *lost_notes(w),
        *filter(None, [_share_note(w, work, missing)]),
        *(f"without a model: {line}" for line in _named(missing, _NAMED)),
    ]
    title = w.titled(f"Time under the roofline of {arch.name}")
    return ROOFLINE_SUMMARY.table(columns, title, notes)


def _moving_note(w: Window, op: np.ndarray, part: np.ndarray, over_ns: np.ndarray) -> Iterator[str]:
    """In which ops that compute nothing most could be won: XLA makes fusions of them, and no table by roofs has them.

    Args:
        op, part, over_ns: of each call its op, the part it belongs to, and how much longer it takes than at its roof.
    """
    core = w.core
    moving = np.flatnonzero((part == Part.memory_only) & (over_ns > 0))
    if not len(moving):
        return
    by_name = sum_by_group(core.columns.name[op[moving]], np.rint(over_ns[moving]).astype(np.int64), len(core.names))
    most = [code for code in np.argsort(-by_name, kind="stable")[:_NAMED].tolist() if by_name[code]]
    named = (f"{shorten(core.names[code], _LONGEST)} {by_name[code] / 1e6:.3f} ms" for code in most)
    yield f"memory_only could win most in {', '.join(named)}: no roof by FLOPs, so not among operations below it"


def unmodelled(g: Core | Window) -> Table:
    """GPU time that no performance model covers, by operation and reason, the greatest first.

    These are the GPU events in rows of `unified_perf_summary` without a model; communication is left out.
    """
    w = window_of(g)
    return _unmodelled(w, _work(w))


def unmodelled_note(g: Core | Window) -> str:
    """One line on the share of GPU time that no performance model covers; empty without GPU events."""
    w = window_of(g)
    work = _work(w)
    table = _unmodelled(w, work)
    named = _named(table, _NAMED)
    if len(table) > len(named):
        named.append(f"and {len(table) - len(named):,} more")
    return ": ".join(filter(None, (_share_note(w, work, table), "; ".join(named))))


def _work(w: Window) -> _Work:
    core, c = w.core, w.core.columns
    chosen = unified(w)
    inside = w.holds(core.gpu_rows)
    gpu, owner, alone = core.gpu_rows[inside], chosen.owner[inside], chosen.alone[inside]
    reasons = [*chosen.reasons, NO_MODEL, _OUTSIDE_OF_OPS, _BESIDE_MODELS, _NO_LAUNCH]
    no_model, outside, beside, no_launch = range(-1 - len(chosen.reasons), -1 - len(reasons), -1)
    of_row = np.full(len(c) + 1, no_model)
    of_row[np.fromiter(chosen.codes.keys(), np.int64)] = np.fromiter(chosen.codes.values(), np.int64)
    code = of_row[owner]
    code[alone] = np.where(c.owner[gpu[alone]] >= 0, beside, outside)
    code[(owner < 0) & (c.parent[gpu] < 0)] = no_launch
    op = np.where(owner >= 0, owner, launcher(c, gpu))
    return _Work(gpu, op, code, gpu_classes(core, gpu) == COMMUNICATION, chosen.costs, reasons)


@dataclass(frozen=True)
class Roofed:
    """GPU events of a window under the roofline.

    Attributes:
        gpu: their rows, ascending.
        part: of each the part of its time.
        at_roof: of each its share of the time of its call at the roof, ns; NaN for no roof.
    """

    gpu: Rows
    part: np.ndarray
    at_roof: np.ndarray


def roofed(w: Window, arch: Architecture) -> Roofed:
    """Which GPU events have a roof, what bounds each, and what each would take there."""
    work = _work(w)
    part, least, _ = _parts(work, arch)
    took = w.core.columns.dur_ns[work.gpu]
    call, first = group_by(work.op, work.code)
    of_call = sum_by_group(call, took, len(first))
    roof = np.append(least, np.nan)[np.where(np.isin(part[first], _ROOFED), work.code[first], -1)]
    share = quotients(roof, of_call)
    return Roofed(work.gpu, part, share[call] * took)


def _parts(work: _Work, arch: Architecture) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Of each GPU event its part; of each estimate its least time and why there is none, as `_bounds`."""
    bounds, least, why = _bounds(work.costs, arch)
    part = np.append(bounds, Part.unmodelled)[np.where(work.code >= 0, work.code, -1)]
    part[work.communicates] = Part.communication
    return part, least, why


def _bounds(costs: list[Cost], arch: Architecture) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Of each estimate the part it belongs to, its least time in ns (NaN for none), and why there is none."""
    parts, least, why = np.full(len(costs), Part.no_roof), np.full(len(costs), np.nan), [""] * len(costs)
    from tracelens_graph.perf.roofs import roofline, traffic_us

    for n, cost in enumerate(costs):
        roof = roofline(cost, arch)
        if not isinstance(roof, str):
            parts[n] = _BOUNDS[roof.bound]
            least[n] = roof.time_us * 1e3
        elif (moving := traffic_us(cost, arch)) is not None:
            parts[n] = Part.memory_bound if cost.flops else Part.memory_only
            least[n] = moving * 1e3
        else:
            why[n] = roof
    return parts, least, why


def _unmodelled(w: Window, work: _Work) -> Table:
    c = w.core.columns
    duration = c.dur_ns[work.gpu]
    left = np.flatnonzero((work.code < 0) & ~work.communicates)
    op = work.op[left]
    group, first = group_by(np.where(op >= 0, c.name[op], -1), work.code[left])
    time = sum_by_group(group, duration[left], len(first))
    columns: dict[str, Cells] = {
        "op": [w.core.names[c.name[row]] if row >= 0 else NO_LAUNCH for row in op[first].tolist()],
        "reason": [work.reasons[-1 - code] for code in work.code[left[first]].tolist()],
        "gpu_events": np.bincount(group, minlength=len(first)), "gpu_sum_ms": time / 1e6,
        "percent": 100 * time / max(int(duration.sum()), 1),
    }  # fmt: skip
    order = cell_order(time, columns["op"], columns["reason"])
    notes = unlinked_notes(w, left_out=False)
    communication = int(duration[work.communicates].sum())
    if communication:
        notes.append(f"communication is left out: {_percent(100 * communication / int(duration.sum()))} of GPU time")
    return UNMODELLED.table(columns, w.titled("GPU time without a performance model"), notes).take(order)


def _share_note(w: Window, work: _Work, table: Table) -> str:
    """The share of GPU time without a model; empty without GPU time."""
    total = int(w.core.columns.dur_ns[work.gpu].sum())
    if not total:
        return ""
    if not len(table):
        apart = " but communication" if work.communicates.any() else ""
        return f"all GPU time{apart} has a performance model"
    return f"{_percent(float(np.asarray(table['percent']).sum()))} of GPU time has no performance model"


def _named(table: Table, most: int) -> list[str]:
    """The largest operations without a model."""
    return [
        f"{shown_name(op, _LONGEST)} ({_percent(percent)}): {shorten(reason, _LONGEST)}"
        for op, reason, _, _, percent in islice(table.rows(), most)
    ]


def _overlap_note(w: Window, duration: int) -> list[str]:
    start, end = w.core.columns.start_ns[w.gpu_rows], ends(w.core, w.gpu_rows)
    over = duration - union_length(start, end)
    return [f"durations are added up: {over / 1e6:,.3f} ms of work ran beside other work"] if over else []


def _of_attention(costs: list[Cost]) -> Iterator[int]:
    """Positions of the estimates of attention that charge all keys."""
    return (n for n, cost in enumerate(costs) if "N_KV" in cost.params and cost.params.get("sliding_window", -1) < 0)


def _faster_note(took: np.ndarray, roof: np.ndarray, is_attention: Mask) -> list[str]:
    fast = roof > took
    if not fast.any():
        return []
    attention = int((fast & is_attention).sum())
    return [
        f"{int(fast.sum()):,} of {len(took):,} calls took less time than at the roof "
        f"({took[fast].sum() / 1e6:,.3f} ms): their data lay in a cache, or the device is not the one named"
        + (f"; attention ({attention:,} of them) may see only a part of the keys, {WINDOWED}" if attention else "")
    ]


def _idle_notes(w: Window) -> list[str]:
    """What the parts of idle time are due to, the greatest first."""
    table = idle_causes(w)
    named = [f"{cause} {ms:,.3f} ms" for cause, ms in zip(table["cause"], table["idle_ms"], strict=True)]
    return [f"idle time by cause: {', '.join(named)}"] if named else []


def _percent(percent: float) -> str:
    return f"{percent:.1f} %" if percent >= 0.05 or not percent else "less than 0.1 %"
