"""GPU time and launches: how long launches take, both passes of training, what has no launch."""

from __future__ import annotations

from typing import Literal

import numpy as np

from tracelens_graph.analyses.shared.grouping import group_by
from tracelens_graph.analyses.shared.statistics import Groups
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column, Role, statistics
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

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
    """From a launch call to the start of its first GPU event, by op or by launch call.

    Args:
        g: the graph, or a window of it.
        by: "op" for the op that the GPU event is charged to, "call" for the runtime call.

    Raises:
        AnalysisError: `by` is neither.
    """
    if by not in ("op", "call"):
        raise AnalysisError(f'by is "op" or "call", not {by!r}')
    w = window_of(g)
    core, c = w.core, w.core.columns
    gpu = w.linked_gpu_rows
    # The first of a call's GPU events in row order is the one that starts first.
    _, first = group_by(c.parent[gpu])
    gpu, calls = gpu[first], c.parent[gpu[first]]
    named = c.owner[gpu] if by == "op" else calls
    code = np.where(named >= 0, c.name[named] if len(c) else 0, len(core.names))
    codes, group = distinct(code)
    delay = Groups(group, c.start_ns[gpu] - c.start_ns[calls], len(codes))
    after = Groups(group, c.start_ns[gpu] - c.end_ns[calls], len(codes))
    order = np.lexsort((calls, -delay.values, group))
    longest = calls[order[np.searchsorted(group[order], np.arange(len(codes)))]]
    columns = {
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
