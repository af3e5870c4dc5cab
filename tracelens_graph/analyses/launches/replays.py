"""Which captured graphs a trace replays, and how well its kernels were joined with what the captures recorded."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.info import ReplayedGraph
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import file_name

REPLAYS = TableSchema(
    "replays",
    "Which captured graphs are replayed, and what share of their kernels the captures explain.",
    {
        "capture": Column.key("file of the capture"),
        "graph": Column.key("which of the graphs in it", cells="number"),
        "batch_size": Column.key("batch that it was captured for", cells="number"),
        "mode": Column.key(
            "FULL for a whole forward pass, PIECEWISE for a piece of one, or what the server calls it", drop_priority=2
        ),
        "rule": Column.key("how replayed kernels were joined with captured calls"),
        "replays": Column.count("number of launches"),
        "least_batch": Column("least batch of the server's steps that they are in", drop_priority=2),
        "greatest_batch": Column("greatest batch of these steps", drop_priority=2),
        "calls": Column("number of calls that launch, copy or fill in the capture", drop_priority=2),
        "gpu_events": Column.count("GPU events of all these replays"),
        "joined": Column.count("those that got the op of a captured call", drop_priority=2),
        "percent_joined": Column("joined as share of gpu_events", "%", drop_priority=-1),
        "gpu_time_us": Column.total("sum of the durations of the GPU events", "us", drop_priority=2),
        "doubtful": Column.count(
            "joined ones that also fit another call: of several streams, or beside lost ones", drop_priority=-1
        ),
        "implausible": Column.count(
            "kernels that cannot be their op's work: joined by name, or left out", drop_priority=1
        ),
        "lost": Column.count("captured calls that replays lack", drop_priority=-1),
        "extra": Column.count("GPU events of replays without a captured call", drop_priority=1),
        "what": Column.text("names of what is odd, lost or extra", wraps=True),
        "uid": Column.uid("the first of the launches"),
    },
    reads=(),
)


def replays(g: Core | Window) -> Table:
    """Replays of captured graphs, by graph and by how they were joined; for a trace joined with captures.

    The table is of the whole trace, also for a window.
    """
    core = window_of(g).core
    found = [one for one in core.info.replays if one.file]
    ns = [int(core.gpu_sum_ns[_launches(core, one)].sum()) for one in found]
    columns: dict[str, Cells] = {
        "capture": [file_name(one.file) for one in found],
        "graph": [one.graph for one in found],
        "batch_size": [one.batch_size for one in found],
        "mode": [one.mode or None for one in found],
        "rule": [one.rule for one in found],
        "replays": [len(one.launches) for one in found],
        "least_batch": [one.sizes[0] if one.sizes else None for one in found],
        "greatest_batch": [one.sizes[-1] if one.sizes else None for one in found],
        **{name: [getattr(one, name) for one in found] for name in ("calls", "gpu_events", "joined")},
        "percent_joined": [100 * one.joined / max(one.gpu_events, 1) for one in found],
        "gpu_time_us": [one / 1e3 for one in ns],
        **{name: [getattr(one, name) for one in found] for name in ("doubtful", "implausible", "lost", "extra")},
        "what": [one.what or None for one in found],
        "uid": [min(one.launches, default=0) for one in found],
    }
    table = REPLAYS.table(columns, "Replays of captured graphs", _notes(core))
    return table.take(np.argsort(-np.array(ns, np.int64), kind="stable"))


def _launches(core: Core, one: ReplayedGraph) -> np.ndarray:
    rows = core.rows_of(one.launches)
    return rows[rows >= 0]


def _notes(core: Core) -> list[str]:
    if not core.info.replays:
        return ["no replay of the trace is joined with a capture; --capture or load(..., capture=) names their folder"]
    left = [one for one in core.info.replays if not one.file]
    launches, events = sum(len(one.launches) for one in left), sum(one.gpu_events for one in left)
    what = "1 replay" if launches == 1 else f"{launches:,} replays"
    return [f"{what} with {events:,} GPU events: no captured graph fits"] if launches else []


def joined_line(core: Core) -> str:
    """One line on what share of the replayed kernels the captures explain, and by which rules; empty without any."""
    found = core.info.replays
    if not found:
        return ""
    joined, events = sum(one.joined for one in found), sum(one.gpu_events for one in found)
    fitting = [one for one in found if one.file]
    rules = list(dict.fromkeys(one.rule for one in fitting))
    graphs = len({(one.file, one.graph) for one in fitting})
    share = 100 * joined / max(events, 1)
    what = f"captures explain {joined:,} of {events:,} replayed GPU events ({share:.4g} %)"
    if fitting:
        what += f", of {'1 graph' if graphs == 1 else f'{graphs:,} graphs'}: {', '.join(rules)}"
    odd = list(dict.fromkeys(text for one in fitting if (text := one.what)))
    odd += _notes(core)
    if not odd:
        return what
    more = "; more: tracelens-graph ask replays" if len(odd) > 1 else ""
    return f"{what}; {odd[0]}{more}"
