"""Tables of two traces of one run: what leads from the execution trace to the profiler's trace, and back."""

from __future__ import annotations

from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema

COUNTED = {
    "nodes": "ops and ranges in the execution trace",
    "linked": "nodes with an event in the profiler's trace",
    "events": "ops and ranges in the profiler's trace",
    "linked_events": "events with a node in the execution trace",
    "ops_with_gpu_work": "ops in the profiler's trace with GPU work",
    "round_trip": "ops to which all of their GPU work leads back",
    "gpu_events": "kernels, copies and fills",
    "traced_gpu_events": "GPU events that lead to an op",
}
"""Rows of `link_counts`, and what they mean."""

LINK_COUNTS = TableSchema(
    "link_counts",
    "How much of two traces of one run links and round-trips.",
    {
        "what": Column.key("what is counted"),
        "meaning": Column.text("the same in words"),
        "count": Column("how many there are", role=Role.count, figure="count"),
        "of": Column("out of how many"),
        "percent": Column("share of these", "%", figure="percent"),
    },
    ordered=True,
)

LINK_WAYS = TableSchema(
    "link_ways",
    "By which way ops and kernels link, and why the rest does not.",
    {
        "of": Column.key("what leads: op to its GPU work and back, GPU event to an op, or join of an op with a node"),
        "way": Column.key("how it leads, or why it does not"),
        "count": Column.count("how many do so"),
        "leads": Column("whether it leads", role=Role.flag, cells="flag"),
    },
    ordered=True,
)

LINK_OPS = TableSchema(
    "link_ops",
    "Which ops with GPU work round-trip.",
    {
        "name": Column.key("name of the ops"),
        "ops": Column.count("how many of them have GPU work"),
        "linked": Column("how many of these have a node in the execution trace", role=Role.sum),
        "round_trip": Column("to how many of these all of their GPU work leads back", role=Role.sum),
        "gpu_events": Column.total("kernels, copies and fills below them", ""),
        "gpu_time_us": Column.total("sum of the durations of these", "us"),
        "cpu_op_id": Column("node of the one with most GPU time; absent where it has none", role=Role.uid),
        "uid": Column.uid("the one with most GPU time in the profiler's trace"),
    },
)
