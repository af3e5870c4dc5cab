"""Streams beside one another: communication that computation does not hide, and two streams at work at once."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.idle.host_states import Clock, ends
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, COMPUTATION, gpu_classes, percent
from tracelens_graph.analyses.shared.grouping import Cells, cell_order, text_codes
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import merge, sum_by_group, union_length, union_length_by_group
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

EXPOSED_COMMUNICATION = TableSchema(
    "exposed_communication",
    "How much communication ran without computation beside it.",
    {
        "collective": Column.key("kind of collective; absent where it is not known"),
        "group": Column.key("name of the process group, else its key"),
        "group_description": Column.text("what the program calls it"),
        "group_size": Column("number of ranks in it"),
        "kernels": Column.count("number of kernels"),
        "total_us": Column.total("sum of their durations", "us"),
        "exposed_us": Column.total("sum of the parts of them without computation on the device", "us", compared="main"),
        "exposed_percent": Column("exposed_us as share of total_us", "%"),
        "mean_us": Column("mean of their durations", "us", Role.mean),
        "max_us": Column("greatest of their durations", "us", Role.max),
    },
    counts="kernel",
)

STREAM_OVERLAP = TableSchema(
    "stream_overlap",
    "How long two streams work at once.",
    {
        "device": Column("index of the device"),
        "stream_a": Column("number of the first stream"),
        "events_a": Column.count("its GPU events"),
        "busy_a_us": Column("time in which it works", "us"),
        "stream_b": Column("number of the second stream"),
        "events_b": Column.count("its GPU events"),
        "busy_b_us": Column("time in which it works", "us"),
        "both_us": Column("time in which both work", "us"),
        "percent_of_a": Column("both_us as share of busy_a_us", "%"),
        "percent_of_b": Column("both_us as share of busy_b_us", "%"),
    },
)


def exposed_communication(g: Core | Window) -> Table:
    """The time of collectives, and the part that no computation overlaps; the longest first.

    A communication kernel is exposed while no kernel or fill computes on its device. Parts of several kernels are
    added up; where no two communication kernels of a device meet, and there is but one device, they add up to
    exposed_comm_time of the timeline.

    Returns:
        One row per kind of collective and process group, and one for kernels where both are unknown.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    what = gpu_classes(core, w.gpu_rows)
    rows, computing = (w.gpu_rows[what == one] for one in (COMMUNICATION, COMPUTATION))
    exposed = np.zeros(len(rows), np.int64)
    on = {device: computing[positions] for device, positions in positions_by(c.device[computing])}
    for device, here in positions_by(c.device[rows]):
        beside = on.get(device, computing[:0])
        uncovered = Clock(merge(c.start_ns[beside], ends(core, beside)))
        exposed[here] = uncovered(ends(core, rows[here])) - uncovered(c.start_ns[rows[here]])
    found = collectives_of(core)
    nodes = [found.nodes[found.of_row[row]] if row in found.of_row else None for row in rows.tolist()]
    group = text_codes([(one.kind, one.group_key) if one else None for one in nodes])
    firsts = [nodes[i] for i in np.unique(group, return_index=True)[1].tolist()]
    count = np.bincount(group, minlength=len(firsts))
    longest = np.zeros(len(firsts), np.int64)
    np.maximum.at(longest, group, c.dur_ns[rows])
    total, alone = (sum_by_group(group, ns, len(firsts)) for ns in (c.dur_ns[rows], exposed))
    columns: dict[str, Cells] = {
        "collective": [one and one.kind for one in firsts],
        "group": [one and (one.group or one.group_key) for one in firsts],
        "group_description": [one and (one.group_description or None) for one in firsts],
        "group_size": [one and one.group_size for one in firsts], "kernels": count, "total_us": total / 1e3,
        "exposed_us": alone / 1e3, "exposed_percent": percent(alone, total),
        "mean_us": total / 1e3 / np.maximum(count, 1), "max_us": longest / 1e3,
    }  # fmt: skip
    nameless = rows[[one is None for one in nodes]]
    lone = nameless[c.parent[nameless] < 0]
    ms = int(c.dur_ns[lone].sum()) / 1e6
    notes = (
        [f"without a name: {len(lone):,} kernels ({ms:,.3f} ms) whose launch is not in the trace"] if len(lone) else []
    )
    table = EXPOSED_COMMUNICATION.table(columns, w.titled("Exposed communication"), notes)
    keys = [one and one.group_key for one in firsts]
    return table.take(cell_order(alone, -total, columns["collective"], columns["group"], keys))


def stream_overlap(
    g: Core,
    device: int | None = None,
    stream_a: int | None = None,
    stream_b: int | None = None,
) -> Table:
    """The time in which two streams of a device both work; times are lengths of unions of intervals.

    Args:
        device: index of a device; by default that of the busiest stream.
        stream_a: number of a stream; by default the busiest but `stream_b`.
        stream_b: number of another stream; by default the busiest but `stream_a`.

    Returns:
        One row; none where there are no two such streams.
    """
    w = window_of(g)
    c, rows = w.core.columns, w.gpu_rows
    rows = rows[(c.device[rows] != -1) & (c.stream[rows] >= 0)]  # below: what is not a number, such as 1.5
    if device is not None:
        rows = rows[c.device[rows] == device]
    lanes, lane = np.unique(np.stack((c.device[rows], c.stream[rows]), axis=1), axis=0, return_inverse=True)
    lane = lane.reshape(-1)
    start, end = c.start_ns[rows], ends(w.core, rows)
    busy = union_length_by_group(lane, start, end, len(lanes))
    order = np.lexsort((lanes[:, 1], lanes[:, 0], -busy))

    def busiest(of_device: int | None, wanted: int | None, other: int | None) -> int | None:
        for one in order.tolist():
            on, stream = lanes[one].tolist()
            if of_device in (None, on) and wanted in (None, stream) and stream != other:
                return int(one)
        return None

    a = busiest(device, stream_a, stream_b)
    b = None if a is None else busiest(int(lanes[a, 0]), stream_b, int(lanes[a, 1]))
    pair = np.array([] if b is None else [(a, b)], np.int64).reshape(-1, 2)
    both = np.isin(lane, pair)
    count = np.bincount(lane, minlength=len(lanes))
    shared = busy[pair].sum(axis=1) - union_length(start[both], end[both])
    columns: dict[str, np.ndarray] = {"device": lanes[pair[:, 0], 0]}
    for side, one in (("a", pair[:, 0]), ("b", pair[:, 1])):
        columns |= {f"stream_{side}": lanes[one, 1], f"events_{side}": count[one], f"busy_{side}_us": busy[one] / 1e3}
    columns["both_us"] = shared / 1e3
    columns |= {f"percent_of_{side}": percent(shared, busy[one]) for side, one in zip("ab", pair.T, strict=True)}
    return STREAM_OVERLAP.table(columns, w.titled("Overlap of two streams"))
