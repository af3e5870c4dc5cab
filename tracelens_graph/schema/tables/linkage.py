"""Tables of two traces of one run: what leads from the execution trace to the profiler's trace, and back."""

from __future__ import annotations

from tracelens_graph.schema.tables.shared import count, key, text, total, uid
from tracelens_graph.tables.column import About, Column, Role, TableSchema

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

LINK_COUNTS: About = {
    "what": key("what is counted"),
    "meaning": text("the same in words"),
    "count": Column("how many there are", role=Role.count, figure="count"),
    "of": Column("out of how many"),
    "percent": Column("share of these", "%", figure="percent"),
}

LINK_WAYS: About = {
    "of": key("what leads: op to its GPU work and back, GPU event to an op, or join of an op with a node"),
    "way": key("how it leads, or why it does not"),
    "count": count("how many do so"),
    "leads": Column("whether it leads", role=Role.flag, cells="flag"),
}

LINK_OPS: About = {
    "name": key("name of the ops"),
    "ops": count("how many of them have GPU work"),
    "linked": Column("how many of these have a node in the execution trace", role=Role.sum),
    "round_trip": Column("to how many of these all of their GPU work leads back", role=Role.sum),
    "gpu_events": total("kernels, copies and fills below them", ""),
    "gpu_time_us": total("sum of the durations of these", "us"),
    "cpu_op_id": Column("node of the one with most GPU time; absent where it has none", role=Role.uid),
    "uid": uid("the one with most GPU time in the profiler's trace"),
}

SCHEMAS = {
    "link_counts": TableSchema("How much of two traces of one run links and round-trips.", LINK_COUNTS, ordered=True),
    "link_ways": TableSchema("By which way ops and kernels link, and why the rest does not.", LINK_WAYS, ordered=True),
    "link_ops": TableSchema("Which ops with GPU work round-trip.", LINK_OPS),
}
