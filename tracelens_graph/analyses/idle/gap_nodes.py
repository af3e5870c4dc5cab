"""Idle time of devices as nodes of a graph: between which GPU events each gap lies, and what caused it."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.idle.idle import Cause, idle_parts
from tracelens_graph.analyses.idle.idle_gaps import HOST_PARTS, gap_order, host_parts
from tracelens_graph.graph.context import Context
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import window_of


def add_gaps(context: Context, core: Core) -> None:
    """Add a node for each stretch of time in which a device did nothing, the longest first.

    BEFORE and AFTER lead there from the GPU events around it. CAUSED_BY leads to what the launching thread was in for
    most of it: a call, an op and a frame. Where the work that ended the gap had been queued before, the host was not
    what the device waited for.
    """
    w = window_of(core).whole
    idle, c = idle_parts(w), core.columns
    order = gap_order(idle)
    start, end, row, ended = idle.start[order], idle.end[order], idle.row[order], idle.ended[order]
    device = c.device[row]
    on_device = np.zeros(len(row), np.int64)
    for one in np.unique(device).tolist():
        of_device = device == one
        on_device[of_device] = np.arange(1, of_device.sum() + 1)
    causes = idle.parts[:, order].argmax(axis=0) if len(order) else order
    found = host_parts(core, row, start, end)
    numbers = np.arange(len(row))
    first = len(context.nodes)
    for number in numbers.tolist():
        length = int(end[number] - start[number])
        host = {f"{what}_ns": found[what][1][number] for what in HOST_PARTS if found[what][0][number] >= 0}
        context.add(
            f"gap:{number + 1}", "Gap", name=f"{length / 1e3:g} us", number=number + 1,
            number_on_device=int(on_device[number]), device=int(device[number]) if device[number] != -1 else None,
            start_ns=int(start[number]), end_ns=int(end[number]), dur_ns=length, cause=Cause(causes[number]).name,
            **{name: int(ns) for name, ns in host.items()},
        )  # fmt: skip
    for name, rows in (("BEFORE", ended), ("AFTER", row)):
        by_row = np.argsort(rows, kind="stable")
        context.from_events[name] = rows[by_row], first + numbers[by_row]
    ends = [(numbers[rows >= 0], rows[rows >= 0]) for rows, _ in found.values()]
    context.to_events["CAUSED_BY"] = (
        first + np.concatenate([gaps for gaps, _ in ends]),
        np.concatenate([rows for _, rows in ends]),
    )
