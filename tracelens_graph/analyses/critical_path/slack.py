"""How much later GPU work could have ended without delaying the end of a critical path."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracelens_graph.analyses.critical_path.path import Path
from tracelens_graph.analyses.critical_path.rank_answers import Slack, Tail, slack_on, starts_on
from tracelens_graph.analyses.critical_path.rerun import NEVER
from tracelens_graph.analyses.critical_path.walk import Class
from tracelens_graph.graph.ranks import rank_number
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

SLACK = TableSchema(
    "critical_path_slack",
    "Which GPU work could end later without delaying the step, and by how much.",
    {
        "name": Column.key("name of the GPU work", "name"),
        "gpu_events": Column.count("its GPU events in the step, over all ranks", "GPU events"),
        "time_ms": Column.total("sum of their durations", "ms", "time ms"),
        "on_path_ms": Column.total("of that on the path", "ms", "on path ms"),
        "least_slack_us": Column(
            "how much later the most urgent of them could have ended without delaying the path's end",
            "us",
            Role.min,
            heading="least slack us",
        ),
        "median_slack_us": Column("median over them; absent if most delay nothing", "us", Role.spread, "median us"),
        "rank": Column("rank of the most urgent", heading="on rank"),
        "uid": Column.uid("the most urgent"),
    },
)

_RUNS = (Class.computation, Class.copy, Class.communication, Class.peer)


def slack_by_name(path: Path) -> Table:
    """One row per name of GPU work that ends within the path, the most urgent first.

    Slack is an upper bound: causes that did not bind count with the least latency of their kind.
    """
    found: dict[str, list[tuple[int, Slack]]] = {}
    for rank, slack in slack_of_ranks(path):
        for name, one in slack.items():
            found.setdefault(name, []).append((rank, one))
    on_path = dict.fromkeys(found, 0)
    runs = np.flatnonzero(np.isin(path.kind, _RUNS))
    for at, ns in zip(runs.tolist(), (path.end_ns - path.start_ns)[runs].tolist(), strict=True):
        on_path[path.nodes.name[at]] += ns
    records: list[dict[str, Any]] = []
    for name, of in found.items():
        rank, urgent = min(of, key=lambda one: int(one[1].slack_ns.min()))
        late = np.concatenate([one.slack_ns for _, one in of])
        records.append({
            "name": name, "gpu_events": len(late), "time_ms": sum(one.ns for _, one in of) / 1e6,
            "on_path_ms": on_path[name] / 1e6, "least_slack_us": _us(int(late.min())),
            "median_slack_us": _us(float(np.median(late))), "rank": rank_number(path.traces, rank), "uid": urgent.uid,
        })  # fmt: skip
    records.sort(
        key=lambda record: (record["least_slack_us"] is None, record["least_slack_us"] or 0.0, -record["time_ms"])
    )
    return SLACK.of_records(records, f"Slack: {path.title}", path.notes)


def slack_of_ranks(path: Path) -> list[tuple[int, dict[str, Slack]]]:
    """Each rank, and how much later its GPU work could have ended, by name."""
    job, (_, end) = path.job, path.job.extent(path.step)
    sink, none = job.sink(end), np.zeros(0, np.int64)
    ends = [np.array([end]) if rank == sink else none for rank in range(len(path.traces))]
    reach = dict(job.ask(starts_on, list(zip(job.given, ends, strict=True))))
    tails = job.meetings.again(reach).tails(sink)
    start = end - path.length_ns
    first = job.meetings.first
    given = [
        (one, Tail(tails[first[rank] : first[rank + 1]], 0 if rank == sink else NEVER, (start, end)))
        for rank, one in enumerate(job.given)
    ]
    return sorted(job.ask(slack_on, given), key=lambda one: one[0])


def _us(ns: float) -> float | None:
    """Nanoseconds in us; None for what cannot delay anything."""
    return ns / 1e3 if ns < -NEVER // 2 else None
