"""Time of ops on the host and on the GPU, their own and with all that they call, by name."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.places.host_times import calls_among
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.graph.arrays import distinct, is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import outermost
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

OP_TIMES = TableSchema(
    "op_times",
    "How long ops take on the host and on the GPU, their own time and with all that they call.",
    {
        "name": Column.key("name of the op", "op"),
        "calls": Column.count("outermost calls: those not inside another op of the same name", "calls"),
        "all_calls": Column.count("calls, including those inside another op of the same name"),
        "host_self_us": Column.total(
            "sum of their time on the host without ops and runtime calls inside", "us", "host self us"
        ),
        "host_time_us": Column.total("sum of their time on the host; nested calls count once", "us", "host us"),
        "gpu_self_us": Column.total(
            "sum of the durations of the GPU events charged to them", "us", "GPU self us", compared="main"
        ),
        "gpu_time_us": Column.total("sum of the durations of the GPU events below them, each once", "us", "GPU us"),
        "uid": Column.uid("the first call"),
    },
    counts="op",
)


def op_times(g: Core | Window) -> Table:
    """Time of ops by name, by GPU self time, then by host self time, the greatest first.

    Ops without GPU work are listed, too. GPU time is that of the events of the window.
    """
    w = window_of(g)
    c = w.core.columns
    ops = w.rows_of_kind(Kind.Op)
    codes, group = distinct(c.name[ops])
    count = len(codes)
    outer = outermost(group, ops, c.last[ops])
    gpu = w.gpu_rows
    owned = gpu[c.owner[gpu] >= 0]
    charged = sum_by_group(c.owner[owned], c.dur_ns[owned], len(c))
    running = np.concatenate(([0], np.cumsum(c.dur_ns[gpu])))
    below = running[np.searchsorted(gpu, c.last[ops[outer]], "right")] - running[np.searchsorted(gpu, ops[outer])]
    calls = calls_among(w.core, is_kind(c.kind, (Kind.Op, Kind.RuntimeCall)))
    own_of = np.zeros(len(c), np.int64)
    own_of[calls.rows] = calls.own()
    own = sum_by_group(group, own_of[ops], count)
    gpu_self = sum_by_group(group, charged[ops], count)
    columns: dict[str, Cells] = {
        "name": [w.core.names[code] for code in codes.tolist()],
        "calls": np.bincount(group[outer], minlength=count),
        "all_calls": np.bincount(group, minlength=count),
        "host_self_us": own / 1e3,
        "host_time_us": sum_by_group(group[outer], c.dur_ns[ops[outer]], count) / 1e3,
        "gpu_self_us": gpu_self / 1e3,
        "gpu_time_us": sum_by_group(group[outer], below, count) / 1e3,
        "uid": c.uid[ops[np.unique(group, return_index=True)[1]]],
    }
    table = OP_TIMES.table(columns, w.titled("Time of ops on the host and on the GPU"))
    return table.take(np.lexsort((np.asarray(columns["uid"]), -own, -gpu_self)))
