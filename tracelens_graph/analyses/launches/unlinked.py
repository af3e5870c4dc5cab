"""How far the answers can be trusted: GPU work without a launch, odd nesting, time without a model, missing events.

Functions take a graph; `incomplete_traces` takes a sequence of `Placed`.
"""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import GPU_SUM, percent
from tracelens_graph.analyses.shared.grouping import Cells, Groups, group_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

UNLAUNCHED_GPU_TIME = TableSchema(
    "unlaunched_gpu_time",
    "Which GPU work has no launch in the trace, by name.",
    {
        "kind": Column.key("Kernel, Memcpy or Memset"),
        "name": Column.key("name of the GPU events"),
        "streams": Column("streams that they are on"),
        "gpu_events": Column.count("GPU events without a launch in the trace"),
        "gpu_sum_us": GPU_SUM,
        "percent": Column.share("share of the sum over all GPU events"),
        "early_events": Column.count(
            "those that began before the first runtime call of the trace: launched before recording"
        ),
        "first_start_ms": Column.moment("start of the first of them, as Perfetto UI shows it", "ms"),
        "last_end_ms": Column("end of the last of them", "ms", Role.max),
        "uid": Column.uid("the one that starts first"),
    },
)

UNLINKED = TableSchema(
    "unlinked",
    "How much of each stream's time has no launch in the trace.",
    {
        "device": Column("index of the device"),
        "stream": Column("number of the stream"),
        "gpu_events": Column.count("GPU events of the stream"),
        "unlinked_events": Column.count("those without a launch in the trace"),
        "gpu_sum_us": Column.total("sum of the durations of all of them", "us"),
        "unlinked_us": Column.total("sum of the durations of those without a launch", "us"),
        "percent_of_stream": Column("unlinked_us as share of gpu_sum_us", "%"),
        "percent": Column.share("unlinked_us as share of the sum over all GPU events"),
        "first_linked_ms": Column.moment("start of the first that has a launch, as Perfetto UI shows it", "ms"),
        "last_unlinked_ms": Column("start of the last that has none", "ms", Role.max),
    },
)


def unlinked(g: Core | Window) -> Table:
    """Time of each stream that is charged to nothing, because its launch is not in the trace; the most first.

    Work that was launched before recording began lies before first_linked_ms. `unlaunched_gpu_time` names the kernels.

    Returns:
        One row per stream.
    """
    w = window_of(g)
    core, c, rows = w.core, w.core.columns, w.gpu_rows
    group, first = group_by(c.device[rows], c.stream[rows])
    lone = c.parent[rows] < 0
    time = sum_by_group(group, c.dur_ns[rows], len(first))
    lost = sum_by_group(group, np.where(lone, c.dur_ns[rows], 0), len(first))
    first_linked, last_lone = np.full(len(first), np.inf), np.full(len(first), -np.inf)
    np.minimum.at(first_linked, group[~lone], c.start_ns[rows[~lone]])
    np.maximum.at(last_lone, group[lone], c.start_ns[rows[lone]])
    device, stream = (
        [number if number != -1 else None for number in column[rows[first]].tolist()] for column in (c.device, c.stream)
    )
    columns: dict[str, Cells] = {
        "device": device, "stream": stream, "gpu_events": np.bincount(group, minlength=len(first)),
        "unlinked_events": np.bincount(group[lone], minlength=len(first)), "gpu_sum_us": time / 1e3,
        "unlinked_us": lost / 1e3, "percent_of_stream": percent(lost, time),
        "percent": percent(lost, int(time.sum())),
        "first_linked_ms": np.where(np.isfinite(first_linked), core.info.shown_ms(first_linked), np.nan),
        "last_unlinked_ms": np.where(np.isfinite(last_lone), core.info.shown_ms(last_lone), np.nan),
    }  # fmt: skip
    order = np.lexsort((c.stream[rows[first]], c.device[rows[first]], -lost))
    return UNLINKED.table(columns, w.titled("GPU work without a launch by stream")).take(order)


def unlaunched_gpu_time(g: Core | Window) -> Table:
    """GPU work whose launch is not in the trace, by name."""
    w = window_of(g)
    core, c = w.core, w.core.columns
    rows = w.gpu_rows[c.parent[w.gpu_rows] < 0]
    rows = rows[np.lexsort((c.uid[rows], c.start_ns[rows]))]
    group, first = group_by(c.kind[rows], c.name[rows])
    groups = len(first)
    spots, _ = group_by(group, c.device[rows], c.stream[rows])
    streams = np.bincount(group[np.unique(spots, return_index=True)[1]], minlength=groups)
    calls = np.flatnonzero(c.kind == Kind.RuntimeCall)
    # Without a runtime call in the trace nothing shows that an event came early.
    begin = int(c.start_ns[calls].min()) if len(calls) else np.iinfo(np.int64).min
    sums = sum_by_group(group, c.dur_ns[rows], groups)
    lead = rows[first]
    columns = {
        "kind": [Kind(kind).name for kind in c.kind[lead].tolist()],
        "name": [core.names[code] for code in c.name[lead].tolist()], "streams": streams,
        "gpu_events": np.bincount(group, minlength=groups), "gpu_sum_us": sums / 1e3,
        "percent": 100 * sums / max(int(c.dur_ns[w.gpu_rows].sum()), 1),
        "early_events": np.bincount(group[c.start_ns[rows] < begin], minlength=groups),
        "first_start_ms": core.info.shown_ms(c.start_ns[lead]),
        "last_end_ms": core.info.shown_ms(Groups(group, c.end_ns[rows], groups).max), "uid": c.uid[lead],
    }  # fmt: skip
    table = UNLAUNCHED_GPU_TIME.table(columns, w.titled("GPU work whose launch is not in the trace"))
    return table.take(np.argsort(-sums, kind="stable"))
