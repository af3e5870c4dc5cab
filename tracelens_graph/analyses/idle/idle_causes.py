"""Idle time of the GPU summed up by cause, each with its longest gap and the call that it is due to most."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracelens_graph.analyses.idle.between_steps import are_between_steps
from tracelens_graph.analyses.idle.blame import blame
from tracelens_graph.analyses.idle.idle import CAUSE_MEANING, UNKNOWN, Cause, edge_parts, idle_parts
from tracelens_graph.analyses.timeline.timeline import lost_notes, unlinked_notes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.user_code import line_names, shown_name
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

IDLE_CAUSES = TableSchema(
    "idle_causes",
    "What the host did in every gap in which the GPU had nothing to do.",
    {
        "cause": Column.key(
            "what the idle time is due to; the causes add up to the idle time, those unknown included", "cause"
        ),
        "gaps": Column.count("gaps between GPU events with a part that is due to it", "gaps", figure="count"),
        "idle_ms": Column.total("idle time due to it, over all devices", "ms", "idle ms", compared="main", figure="ms"),
        "percent_of_idle": Column.share("share of the idle time", "% of idle", drop_priority=2),
        "percent_of_total": Column.share(
            "share of the GPU span, from the first to the last GPU event, summed over devices; unlike in the causes of "
            "a report, the parts of the steps before and after it do not count",
            "% of GPU span",
            figure="percent",
        ),
        "longest_ms": Column("the longest part of one gap that is due to it", "ms", Role.max, heading="longest ms"),
        "gap_start_ms": Column(
            "where that gap begins, as Perfetto UI shows it", "ms", heading="gap start ms", drop_priority=2
        ),
        "ends_with_uid": Column.uid("the GPU event that ends it", heading="ends with uid"),
        "because": Column.text(
            "call or frame to which most of it is due, found by descending while one holds more than half of it",
            "because",
            drop_priority=0,
        ),
        "because_uid": Column.uid("that call or frame", heading="because uid", drop_priority=0),
        "because_ms": Column("time of it, and of other calls of its function, in the gaps", "ms", drop_priority=0),
        "line": Column.text("the user's line of Python that it comes from", "line", drop_priority=2),
        "between_steps_ms": Column(
            "part of idle_ms that lies between steps of a server; absent without these",
            "ms",
            heading="between steps ms",
            drop_priority=2,
        ),
        "meaning": Column.text("the cause in words", "meaning"),
    },
    counts="gap",
    figure="idle",
)


def idle_causes(g: Core | Window) -> Table:
    """Idle time of the GPU by cause; the causes add up to it exactly.

    A gap between two GPU events of a device is due to what the thread that launched the second one did before it
    began to launch it. Data loading and the profiler's own code come first. Then, if the gap began while the host
    waited in a synchronising call, as much of the gap is due to the call as such calls had cost the host of its lead:
    so much sooner the host would have launched. The rest goes by the innermost call of the thread. From the launch
    call on, the gap is due to the launch; where that had returned before the gap, to the GPU's way from one piece of
    work to the next. But a start later than 0.1 ms after the launch, or than 20 us after other work, has no known
    cause. Of several devices the times are added up.

    Returns:
        One row per cause with its gaps, its time, the longest example and the call that it is due to most, which is
        that of the findings of a report; the cause with most time first.
    """
    w = window_of(g)
    idle, c = idle_parts(w), w.core.columns
    sums = idle.parts.sum(axis=1)
    total = int(sums.sum())
    records: list[dict[str, Any]] = []
    between = are_between_steps(w.core, idle.row, idle.ended)
    for number in sorted(np.flatnonzero(sums).tolist(), key=lambda n: -sums[n]):
        cause, part, time = Cause(number), idle.parts[number], int(sums[number])
        longest = int(part.argmax())
        found = blame(w.core, idle, np.arange(len(idle.row)), (cause,))
        because = found.row
        records.append({
            "cause": cause.name, "gaps": int((part > 0).sum()), "idle_ms": time / 1e6,
            "percent_of_idle": 100 * time / total, "percent_of_total": 100 * time / idle.total_ns,
            "longest_ms": int(part[longest]) / 1e6,
            "gap_start_ms": float(w.core.info.shown_ms(int(idle.start[longest]))),
            "ends_with_uid": int(c.uid[idle.row[longest]]),
            "because": shown_name(w.core, because) if because >= 0 else "",
            "because_uid": int(c.uid[because]) if because >= 0 else None,
            "because_ms": found.ns / 1e6 if because >= 0 else None,
            "line": line_names(w, np.array([because]))[0] or None if because >= 0 else None,
            "between_steps_ms": int(part[between].sum()) / 1e6 if between.any() else None,
            "meaning": CAUSE_MEANING[cause],
        })  # fmt: skip
    notes = unlinked_notes(w, left_out=False)
    if records and Cause[records[0]["cause"]] in UNKNOWN:
        notes = [*notes, "{cause}: {meaning}".format(**records[0])]
    if len(w.gpu_rows) and not total:
        notes = [*notes, "the GPU was never idle"]
    notes = [*notes, *lost_notes(w)]
    devices = len(np.unique(c.device[w.gpu_rows]))
    span = "the GPU span is" if devices < 2 else f"the GPU spans of {devices:,} GPUs, added up, are"
    edges = edge_parts(w)
    beyond_ns = int((edges.end - edges.start).sum())
    if devices > 1 or beyond_ns:
        beyond = f"; {beyond_ns / 1e6:,.3f} ms of the steps lie before and after it and do not count"
        notes = [*notes, f"{span} {idle.total_ns / 1e6:,.3f} ms, from the first to the last GPU event"
                 f"{beyond if beyond_ns else ''}"]  # fmt: skip
    return IDLE_CAUSES.of_records(records, w.titled("Idle GPU time by cause"), notes)
