"""Launches of captured graphs, and what they replay."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.shared.columns import PERCENT
from tracelens_graph.analyses.shared.gpu_work import known, most_time_first, percent
from tracelens_graph.analyses.shared.grouping import Cells, group_by
from tracelens_graph.graph.classes import distinct_classes, subtree_classes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

DIFFERENT_NAMES = Column("number of different names")

GRAPH_LAUNCHES = TableSchema(
    "graph_launches",
    "Which captured graphs are launched, and what they replay.",
    {
        "call": Column.key("the runtime call"),
        "launches": Column.count("number of launches"),
        "gpu_events": Column("GPU events that one launch replays; 0 where the trace holds none of them"),
        "names": DIFFERENT_NAMES,
        "gpu_time_us": Column.total("sum of their durations in all launches", "us"),
        "mean_gpu_time_us": Column("the same per launch", "us", Role.mean),
        "percent": PERCENT,
        "longest": Column.text("name with the most time"),
        "longest_time_us": Column("its time in all launches", "us"),
        "uid": Column.uid("the first of the launches"),
    },
)


GRAPH_LAUNCH_CALLS = ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch")
"""How names of calls that launch a graph begin."""


def graph_launches(g: Core | Window) -> Table:
    """Launches of captured graphs by what they replay, the greatest time first.

    Launches that replay GPU events of the same names in the same order are one row.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    calls = w.rows_of_kind(Kind.RuntimeCall)
    begins = np.array([name.startswith(GRAPH_LAUNCH_CALLS) for name in core.names], bool)
    holds = np.array(["GraphLaunch" in name for name in core.names], bool)
    above = c.parent[calls]
    inner = (above >= 0) & (c.kind[above] == Kind.RuntimeCall) & holds[c.name[above]]
    calls = calls[begins[c.name[calls]] & ~inner]
    low, high = np.searchsorted(core.gpu_rows, calls), np.searchsorted(core.gpu_rows, c.last[calls], "right")
    _, graph = distinct_classes(subtree_classes(core, kernel_names=True)[calls])
    group, first = group_by(c.name[calls], graph, high - low)
    launches, ns = np.bincount(group, minlength=len(first)), sum_by_group(group, core.gpu_sum_ns[calls], len(first))
    replayed = [_replayed(core, low[group == n], high[group == n]) for n in range(len(first))]
    columns: dict[str, Cells] = {
        "call": [core.names[code] for code in c.name[calls[first]].tolist()],
        "launches": launches,
        "gpu_events": (high - low)[first],
        "names": np.array([names for names, _, _ in replayed], np.int64),
        "gpu_time_us": ns / 1e3,
        "mean_gpu_time_us": ns / 1e3 / np.maximum(launches, 1),
        "percent": percent(ns, int(c.dur_ns[w.gpu_rows].sum())),
        "longest": [longest for _, longest, _ in replayed],
        "longest_time_us": known(np.array([time / 1e3 for _, _, time in replayed])),
        "uid": np.array([c.uid[calls[group == n]].min() for n in range(len(first))], np.int64),
    }
    return most_time_first(GRAPH_LAUNCHES, columns, ["uid"], "Launches of graphs", w)


def _replayed(core: Core, low: np.ndarray, high: np.ndarray) -> tuple[int, str | None, float]:
    """Of the GPU events of some calls the number of names, the one with the most time, and its time in ns."""
    spans = [core.gpu_rows[begin:end] for begin, end in zip(low.tolist(), high.tolist(), strict=True)]
    gpu = np.concatenate(spans)
    if not len(gpu):
        return 0, None, np.nan
    group, first = group_by(core.columns.name[gpu])
    ns = sum_by_group(group, core.columns.dur_ns[gpu], len(first)).tolist()
    names = [core.names[code] for code in core.columns.name[gpu[first]].tolist()]
    time, longest = min((-time, name) for time, name in zip(ns, names, strict=True))
    return len(names), longest, -time
