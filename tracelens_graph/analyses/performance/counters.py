"""Counters of the hardware that were recorded per kernel, joined to the ops that launched them.

Kineto wrote those of CUPTI's range profiler as events of category `cuda_profiler_range`, one per kernel, named after
it, with a counter per argument (`CUPTI_PROFILER_METRICS`). It dropped the range profiler since; traces that have them
stay readable. With it no kernel is recorded as such: the n-th range is the work of the n-th launch. Metrics that Nsight
Systems sampled are read as such events, too, and name the launch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np

from tracelens_graph.analyses.memory.blocks import outermost_op
from tracelens_graph.analyses.shared.gpu_work import calls_named, names_of
from tracelens_graph.analyses.shared.grouping import Cells, Groups, text_codes
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column, statistics
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Rows

KERNEL_COUNTERS = TableSchema(
    "kernel_counters",
    "What counters of the hardware say of kernels, by the op that launched them.",
    {
        "kernel": Column.key("name of the range: the kernel"),
        "op": Column.key("innermost op around its launch; absent where the launch is not known", drop_priority=0),
        "outermost_op": Column.key("outermost op around its launch", drop_priority=2),
        "counter": Column.key("name of the counter", drop_priority=-1),
        "ranges": Column.count("number of ranges with the counter"),
        "sum": Column.total("sum of its values", "", drop_priority=-1),
        **statistics("{}", "its values", "", ("mean", "min", "max")),
        "uid": Column.uid("launch of the first of the ranges"),
    },
)

_CATEGORY = "cuda_profiler_range"
_NO_COUNTERS = {"device", "context", "stream", "correlation", "External id", "external id", "Ev Idx"}
"""Numbers among the arguments that count nothing."""
_MOST = 2**64
"""What a counter holds at most; what is beyond is damage."""


class _Event(msgspec.Struct, gc=False):
    cat: str | None = None
    name: str = ""
    ts: float = 0.0
    args: dict[str, Any] | None = None


_EVENTS = msgspec.json.Decoder(list[msgspec.Raw])
_EVENT = msgspec.json.Decoder(_Event)


class _Range(NamedTuple):
    ts: float
    uid: int
    name: str
    counters: dict[str, float]
    launch: int
    """Number of the launch, -1 where it is not recorded."""


def kernel_counters(g: Core | Window) -> Table:
    """Counters of CUPTI's range profiler by kernel, op and counter, in the order of the first ranges.

    Ranges follow one another as launches do. Where there are as many launches as ranges, the n-th range belongs to the
    n-th launch, by any call that launches kernels; else ops are not known. (Holistic Trace Analysis knows
    `cudaLaunchKernel` alone, and gives nothing where numbers differ.)

    Raises:
        ChangedTraceError: the file is no longer the one that was loaded.
    """
    w = window_of(g)
    found, title = w.whole.once(_ranges), w.titled("Counters of kernels")
    if not found:
        return KERNEL_COUNTERS.table({name: [] for name in KERNEL_COUNTERS}, title, [_NONE])
    launch = _launches(w.whole, np.array([one.launch for one in found]))
    notes = []
    if len(launch) != len(found):
        notes.append(f"{len(found):,} ranges and {len(launch):,} launches of kernels: which belong together is unknown")
        launch = np.full(len(found), -1)
    kept = np.flatnonzero(w.holds(launch) | (launch < 0)) if not w.is_whole else np.arange(len(found))
    c = w.core.columns
    inner = np.where(launch >= 0, nearest_above(c, launch, (Kind.Op,)), -1)
    ops, outer = names_of(w.core, inner), names_of(w.core, outermost_op(w.core, launch))
    keys, values, rows = [], [], []
    too_large = 0
    for at in kept.tolist():
        for counter, value in found[at].counters.items():
            if abs(value) > _MOST:
                too_large += 1
                continue
            keys.append((found[at].name, ops[at], outer[at], counter))
            values.append(value)
            rows.append(int(launch[at]))
    if too_large:
        notes.append(f"values beyond 64 bits are left out: {too_large:,}")
    code = text_codes(keys)
    first = np.unique(code, return_index=True)[1] if len(keys) else np.zeros(0, np.int64)
    groups = Groups(code, np.array(values, float), len(first))
    names = zip(*(keys[at] for at in first.tolist()), strict=True) if len(first) else ([], [], [], [])
    columns: dict[str, Cells] = dict(zip(("kernel", "op", "outermost_op", "counter"), map(list, names), strict=True))
    uids = [int(c.uid[rows[at]]) if rows[at] >= 0 else None for at in first.tolist()]
    columns |= {
        "ranges": groups.count, "sum": groups.sum, "mean": groups.mean, "min": groups.min, "max": groups.max,
        "uid": uids,
    }  # fmt: skip
    return KERNEL_COUNTERS.table(columns, title, notes)


_NONE = (
    "the trace has no counters of kernels: no events of category cuda_profiler_range, which Kineto wrote until it "
    "dropped CUPTI's range profiler, and no metrics of GPUs as nsys profile --gpu-metrics-devices=all samples them"
)


def _ranges(w: Window) -> list[_Range]:
    """The ranges in the order of time. They are not nodes, so they are read from the file, where it names them."""
    core = w.core
    if not core.info.left_out.get(f"category {_CATEGORY}"):
        return []
    found = []
    firsts = core.details.first.tolist()
    for first, text in zip(firsts, core.details.texts(range(len(firsts))), strict=True):
        if _CATEGORY.encode() not in text:
            continue
        for place, raw in enumerate(_EVENTS.decode(text)):
            if _CATEGORY.encode() in bytes(raw) and (event := _read(raw)) and event.cat == _CATEGORY:
                counters = {
                    name: value
                    for name, value in (event.args or {}).items()
                    if isinstance(value, int | float) and not isinstance(value, bool) and name not in _NO_COUNTERS
                }
                launch = (event.args or {}).get("correlation")
                number = launch if type(launch) is int and 0 < launch < 2**63 else -1
                found.append(_Range(event.ts, first + place, event.name, counters, number))
    return sorted(found, key=lambda one: one[:2])


def _read(raw: msgspec.Raw) -> _Event | None:
    try:
        return _EVENT.decode(raw)
    except msgspec.DecodeError:
        return None


def _launches(w: Window, numbers: np.ndarray) -> Rows:
    """Calls of these numbers, -1 for what is not recorded; without numbers all calls that launch kernels, by start."""
    if (numbers > 0).any():
        c = w.core.columns
        calls = np.flatnonzero((c.kind == Kind.RuntimeCall) & (c.correlation > 0))
        calls = np.append(calls[np.argsort(c.correlation[calls], kind="stable")], -1)
        at = np.searchsorted(c.correlation[calls[:-1]], numbers)
        return np.where(np.append(c.correlation[calls[:-1]], -1)[at] == numbers, calls[at], -1)
    calls = calls_named(w, lambda name: normal_name(Kind.RuntimeCall, name) == "launch")
    return np.asarray(calls[np.argsort(w.core.columns.start_ns[calls], kind="stable")])
