"""Runtime and driver calls: what they cost the host, and how long what they launch takes to start."""

from __future__ import annotations

from typing import Literal

import numpy as np

from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.shared.gpu_work import fitting_names
from tracelens_graph.analyses.shared.grouping import Cells, Groups, picked
from tracelens_graph.analyses.timeline.timeline import unlinked_notes
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.arrays import distinct, is_kind
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group, union_length_by_group
from tracelens_graph.graph.traversals import launches_of
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import HOST_KINDS, Kind
from tracelens_graph.tables.column import Column, Role, shown, statistics
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Rows

RUNTIME_SUMMARY = TableSchema(
    "runtime_summary",
    "What the runtime and driver calls cost the host, what they launched, and how long that took to start.",
    {
        "name": Column.key(
            "runtime or driver call; a line in brackets stands for GPU events without a launch in the trace",
            "runtime call",
        ),
        "calls": Column.count("calls", "calls"),
        **shown(
            statistics("host_{}_us", "the durations of the calls", "us", ("sum", "mean", "median", "max")),
            host_sum_us="host us",
            host_mean_us="mean us",
        ),
        "host_self_us": Column.total("sum of the durations without that of calls inside them", "us"),
        "gpu_events": Column.count("GPU events that the calls launched", "GPU events"),
        "gpu_sum_us": Column.total("sum of the durations of these", "us", "GPU us"),
        "calls_without_gpu": Column.count("calls that launched no GPU event"),
        "delay_min_us": Column(
            "smallest delay from the start of a call to the start of its first GPU event", "us", Role.min
        ),
        "delay_median_us": Column("median of these delays", "us", Role.spread, "median delay us"),
        "delay_p90_us": Column("nine tenths of these delays are not longer", "us", Role.spread, "p90 us"),
        "delay_max_us": Column("greatest of these delays", "us", Role.max),
        "longest_uid": Column.instance("uid of the longest call"),
    },
)


def runtime_summary(g: Core | Window) -> Table:
    """Host time, GPU work and launch delay per name of runtime or driver call, the longest on the host first.

    The delay of a call is the start of its first GPU event minus the start of the call: the time in the call, in
    the stream's queue, and on the way between. (Holistic Trace Analysis subtracts the end of the call instead.)
    GPU events whose launch is not in the trace are a row of their own, the last, so the GPU columns add up to all
    GPU events of the window; those launched before the window count under the name of their launch.

    A call of a compiled function of JAX is recorded twice, once inside the other: `PjitFunction(f)` right below one of
    its name is no call of its own.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    every, gpu = w.rows_of_kind(Kind.RuntimeCall), w.linked_gpu_rows
    calls = every[~_is_repeated(core, every)]
    unlinked = w.gpu_rows[c.parent[w.gpu_rows] < 0]
    call = launches_of(c, gpu)
    launches, first = _first_of_each(c, call, gpu)
    delay = c.start_ns[first] - c.start_ns[launches]
    codes, _ = distinct(np.concatenate((c.name[every], c.name[launches])))
    names = len(codes)
    place = np.zeros(len(core.names) + 1, np.int64)
    place[codes] = np.arange(names)

    def of(rows: np.ndarray) -> np.ndarray:
        return place[c.name[rows]]

    host = Groups(of(calls), c.dur_ns[calls], names)
    work = Groups(of(call), c.dur_ns[gpu], names)
    waits = Groups(of(launches), delay, names)
    launched = np.zeros(len(c) + 1, bool)
    launched[launches] = True
    idle = ~launched[calls]
    longest = np.full(names, -1, np.int64)
    longest_calls = calls[c.dur_ns[calls] == host.max[of(calls)]]
    longest[of(longest_calls)] = c.uid[longest_calls]
    columns: dict[str, Cells] = {
        "name": [core.names[code] for code in codes.tolist()], "calls": host.count, "host_sum_us": host.sum / 1e3,
        "host_mean_us": host.mean / 1e3, "host_median_us": host.median / 1e3, "host_max_us": host.max / 1e3,
        "host_self_us": sum_by_group(of(every), _self_ns(c, every), names) / 1e3, "gpu_events": work.count,
        "gpu_sum_us": work.sum / 1e3, "calls_without_gpu": np.bincount(of(calls[idle]), minlength=names),
        "delay_min_us": waits.min / 1e3, "delay_median_us": waits.median / 1e3,
        "delay_p90_us": waits.quantile(0.9) / 1e3, "delay_max_us": waits.max / 1e3,
        "longest_uid": [uid if uid >= 0 else None for uid in longest.tolist()],
    }  # fmt: skip
    order = np.lexsort((codes, -work.sum, -host.sum))
    columns = {name: picked(cells, order) for name, cells in columns.items()}
    if len(unlinked):
        known = {"name": NO_LAUNCH, "calls": 0, "host_sum_us": 0.0, "host_self_us": 0.0, "calls_without_gpu": 0,
                 "gpu_events": len(unlinked), "gpu_sum_us": int(c.dur_ns[unlinked].sum()) / 1e3}  # fmt: skip
        columns = {name: _appended(cells, known.get(name)) for name, cells in columns.items()}
    notes = unlinked_notes(w, False) if len(calls) or len(w.gpu_rows) else []
    if not len(calls):
        notes.insert(0, f"the {'window' if w.title else 'trace'} has no runtime or driver calls")
    if outside := int(np.count_nonzero(~w.holds(call))):
        notes.append(f"{outside:,} GPU events were launched by calls outside of the window")
    if early := int(np.count_nonzero(delay < 0)):
        notes.append(f"{early:,} of {len(delay):,} delays are negative: the clocks of host and device differ")
    return RUNTIME_SUMMARY.table(columns, w.titled("Runtime and driver calls"), notes)


def _first_of_each(c: Columns, call: Rows, gpu: Rows) -> tuple[Rows, Rows]:
    """The different calls, and of each the GPU event that starts first."""
    order = np.lexsort((c.start_ns[gpu], call))
    calls, first = np.unique(call[order], return_index=True)
    return calls, gpu[order[first]]


_COMPILED = "PjitFunction("


def _is_repeated(core: Core, calls: np.ndarray) -> np.ndarray:
    """Per call whether it is the second record of a call of a compiled function."""
    c = core.columns
    compiled = fitting_names(core, lambda name: name.startswith(_COMPILED))
    above = c.parent[calls]
    is_same = (above >= 0) & (c.name[above] == c.name[calls]) & (c.kind[above] == Kind.RuntimeCall)
    return is_same & compiled[c.name[calls]]


def _self_ns(c: Columns, calls: np.ndarray) -> np.ndarray:
    """Duration of each call without that of the calls inside it (a runtime call may make driver calls)."""
    is_call = np.zeros(len(c) + 1, bool)  # the last entry is for roots, whose parent is -1
    is_call[calls] = True
    inner = np.flatnonzero(is_call[c.parent] & is_kind(c.kind, HOST_KINDS))
    outer = c.parent[inner]
    # An inner call may end behind the outer one; what sticks out is no time of the outer one.
    inside = union_length_by_group(
        np.searchsorted(calls, outer), c.start_ns[inner], np.minimum(c.end_ns[inner], c.end_ns[outer]), len(calls)
    )
    return c.dur_ns[calls] - inside


def _appended(cells: Cells, value: object) -> Cells:
    if isinstance(cells, np.ndarray):
        return np.append(cells, np.array([np.nan if value is None else value], cells.dtype))
    return [*cells, value]


LAUNCH_DELAY = TableSchema(
    "launch_delay",
    "How long GPU work takes to start after its launch.",
    {
        "name": Column.key("op that the work is charged to, or call that launched it"),
        "launches": Column.count("calls that launched GPU work"),
        **statistics(
            "delay_{}_us",
            "the times from the start of a call to the start of its first GPU event",
            "us",
            ("mean", "median"),
        ),
        "delay_p99_us": Column("99 of 100 of these times are not longer", "us", Role.spread),
        "delay_max_us": Column("greatest of these times", "us", Role.max),
        **statistics(
            "after_{}_us",
            "the times from the end of a call to the start of its first GPU event; negative where "
            "that starts before the call returns",
            "us",
            ("mean", "median"),
        ),
        "after_p99_us": Column("99 of 100 of these times are not longer", "us", Role.spread),
        "after_max_us": Column("greatest of these times", "us", Role.max),
        "longest_uid": Column.uid("uid of the call with the longest delay"),
    },
)


NO_OP = "(no op)"


def launch_delay(g: Core | Window, by: Literal["op", "call"] = "op") -> Table:
    """The time from a launch call to the start of its first GPU event, by op or by launch call.

    Args:
        by: "op" for the op that the GPU event is charged to, "call" for the runtime call.

    Raises:
        AnalysisError: `by` is neither.
    """
    if by not in ("op", "call"):
        raise AnalysisError(f'by is "op" or "call", not {by!r}')
    w = window_of(g)
    core, c = w.core, w.core.columns
    gpu = w.linked_gpu_rows
    calls, gpu = _first_of_each(c, launches_of(c, gpu), gpu)
    named = c.owner[gpu] if by == "op" else calls
    code = np.where(named >= 0, c.name[named] if len(c) else 0, len(core.names))
    codes, group = distinct(code)
    delay = Groups(group, c.start_ns[gpu] - c.start_ns[calls], len(codes))
    after = Groups(group, c.start_ns[gpu] - c.end_ns[calls], len(codes))
    order = np.lexsort((calls, -delay.values, group))
    longest = calls[order[np.searchsorted(group[order], np.arange(len(codes)))]]
    columns: dict[str, Cells] = {
        "name": [([*core.names, NO_OP])[i] for i in codes.tolist()],
        "launches": delay.count,
        **{
            f"{name}_{which}_us": values / 1e3
            for name, times in (("delay", delay), ("after", after))
            for which, values in (
                ("mean", times.mean), ("median", times.median), ("p99", times.quantile(0.99)), ("max", times.max),
            )
        },
        "longest_uid": c.uid[longest],
    }  # fmt: skip
    table = LAUNCH_DELAY.table(columns, w.titled(f"Launch delay by {by}"))
    return table.take(np.argsort(-delay.sum, kind="stable"))
