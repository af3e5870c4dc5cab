"""How far the answers can be trusted: GPU work without a launch, odd nesting, time without a model, missing events.

Functions take a graph; `incomplete_traces` takes a sequence of `Placed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tracelens_graph.analyses import roofline_summary
from tracelens_graph.analyses.grouping import Cells, group_by
from tracelens_graph.analyses.host_states import ends
from tracelens_graph.analyses.questions.gpu_work import names_of, percent
from tracelens_graph.analyses.questions.placed import Placed
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.schema import Flag, Kind
from tracelens_graph.schema.tables import UNMODELLED
from tracelens_graph.table import Column, Table

ABOUT: Mapping[str, Mapping[str, Column]] = {
    "unlinked": {
        "device": Column("index of the device"),
        "stream": Column("number of the stream"),
        "gpu_events": Column("GPU events of the stream"),
        "unlinked_events": Column("those without a launch in the trace"),
        "gpu_sum_us": Column("sum of the durations of all of them", "us"),
        "unlinked_us": Column("sum of the durations of those without a launch", "us"),
        "percent_of_stream": Column("unlinked_us as share of gpu_sum_us", "%"),
        "percent": Column("unlinked_us as share of the sum over all GPU events", "%"),
        "first_linked_ms": Column("start of the first that has a launch, from the trace's start", "ms"),
        "last_unlinked_ms": Column("start of the last that has none", "ms"),
    },
    "outliving_events": {
        "kind": Column("kind of the events"),
        "name": Column("name of the events"),
        "count": Column("how many of them end after the event that they started in"),
        "callees": Column("how many of these end after their caller"),
        "greatest_excess_us": Column("longest time by which one of these ends after its caller", "us"),
        "total_excess_us": Column("sum of these times", "us"),
        "caller": Column("the caller in the case of the greatest excess"),
        "uid": Column("the event in that case, else the first"),
    },
    "unmodelled_time": UNMODELLED,
    "incomplete_traces": {
        "run": Column("name of the run"),
        "trace": Column("name of the trace"),
        "rank": Column("rank in its job"),
        "state": Column("loading, complete or dropping"),
        "damage": Column("what was repaired in the file and what was lost; absent for a sound file"),
        "lean": Column("whether events were left out when it was pushed"),
        "options": Column("of a lean push, what was pushed, JSON"),
        "entries": Column("entries of the file's event list"),
        "nodes": Column("events that were pushed"),
    },
}
"""Name of a question -> columns of its table."""


def unlinked(g: Core, step: int | None = None) -> Table:
    """How much of each stream's time is charged to nobody, its launch not being in the trace; the most first.

    Work that was launched before recording began lies before first_linked_ms. `unlaunched_gpu_time` names the kernels.

    Args:
        g: the graph.
        step: n of `ProfilerStep#n`.

    Returns:
        One row per stream.

    Raises:
        AnalysisError: the trace has no such step.
    """
    w = g.window(step=step)
    c, rows = w.core.columns, w.gpu_rows
    group, first = group_by(c.device[rows], c.stream[rows])
    lone = c.parent[rows] < 0
    time = sum_by_group(group, c.dur_ns[rows], len(first))
    lost = sum_by_group(group, np.where(lone, c.dur_ns[rows], 0), len(first))
    first_linked, last_lone = np.full(len(first), np.inf), np.full(len(first), -np.inf)
    np.minimum.at(first_linked, group[~lone], c.start_ns[rows[~lone]])
    np.maximum.at(last_lone, group[lone], c.start_ns[rows[lone]])
    device, stream = (
        [number if number != -1 else None for number in column[rows[first]].tolist()] for column in (c.device, c.stream)
    )
    columns: dict[str, Cells] = {
        "device": device,
        "stream": stream,
        "gpu_events": np.bincount(group, minlength=len(first)),
        "unlinked_events": np.bincount(group[lone], minlength=len(first)),
        "gpu_sum_us": time / 1e3,
        "unlinked_us": lost / 1e3,
        "percent_of_stream": percent(lost, time),
        "percent": percent(lost, int(time.sum())),
        "first_linked_ms": np.where(np.isfinite(first_linked), first_linked / 1e6, np.nan),
        "last_unlinked_ms": np.where(np.isfinite(last_lone), last_lone / 1e6, np.nan),
    }
    order = np.lexsort((c.stream[rows[first]], c.device[rows[first]], -lost))
    return Table("unlinked", columns, ABOUT["unlinked"], w.titled("GPU work without a launch by stream")).take(order)


def outliving_events(g: Core) -> Table:
    """Calls that end after the call that they started in, by kind and name, the most frequent first.

    If at least half of such a call lies inside, it stays a callee of the other, which it then exceeds; else it stands
    beside it.
    """
    c = g.columns
    rows = np.flatnonzero((c.flags & Flag.outlives_parent.value) > 0)
    caller = c.parent[rows].astype(np.int64)
    excess = np.where(caller >= 0, ends(g, rows) - ends(g, caller), 0)
    # The greatest excess first, so that the first of a group is its worst case.
    order = np.lexsort((rows, -np.maximum(excess, 0)))
    rows, excess = rows[order], excess[order]
    callee = excess > 0
    group, worst = group_by(c.kind[rows], c.name[rows])
    callees = np.bincount(group[callee], minlength=len(worst))
    total = sum_by_group(group, np.where(callee, excess, 0), len(worst))
    exceeds = callee[worst]
    columns: dict[str, Cells] = {
        "kind": [Kind(kind).name for kind in c.kind[rows[worst]].tolist()],
        "name": names_of(g, rows[worst]),
        "count": np.bincount(group, minlength=len(worst)),
        "callees": callees,
        "greatest_excess_us": np.where(exceeds, excess[worst] / 1e3, np.nan),
        "total_excess_us": np.where(exceeds, total / 1e3, np.nan),
        "caller": names_of(g, np.where(exceeds, c.parent[rows[worst]], -1)),
        "uid": c.uid[rows[worst]],
    }
    table = Table("outliving_events", columns, ABOUT["outliving_events"], "Calls that outlive their callers")
    keys = list(zip(columns["count"], columns["kind"], columns["name"], strict=True))
    by_count = sorted(range(len(keys)), key=lambda at: (-keys[at][0], *keys[at][1:]))
    return table.take(np.array(by_count, np.int64))


def unmodelled_time(g: Core, step: int | None = None) -> Table:
    """GPU time that no performance model covers, by operation and reason, as `unmodelled` of the report.

    Args:
        g: the graph.
        step: n of `ProfilerStep#n`.

    Raises:
        AnalysisError: the trace has no such step.
    """
    table = roofline_summary.unmodelled(g.window(step=step))
    return Table("unmodelled_time", table.columns, table.about, table.title, table.notes)


def incomplete_traces(traces: Sequence[Placed], run: str | None = None) -> Table:
    """Traces that lack something: those of files that were damaged.

    In a database there may be more: traces whose push or drop has not ended, and lean ones. A graph in memory is
    always complete.

    Args:
        traces: the traces.
        run: name of a run; by default all.
    """
    found = [one for one in traces if one.core.info.damage and run in (None, one.run)]
    found.sort(key=lambda one: (one.run, one.core.info.rank is None, one.core.info.rank or 0, one.name))
    columns: dict[str, Cells] = {
        "run": [one.run for one in found],
        "trace": [one.name for one in found],
        "rank": [one.core.info.rank for one in found],
        "state": ["complete"] * len(found),
        "damage": [one.core.info.damage for one in found],
        "lean": [False] * len(found),
        "options": [None] * len(found),
        "entries": [one.core.info.events for one in found],
        "nodes": [len(one.core.columns) for one in found],
    }
    return Table("incomplete_traces", columns, ABOUT["incomplete_traces"], "Traces that lack something")


QUESTIONS: Mapping[str, Callable[..., Table]] = {
    "unlinked": unlinked,
    "outliving_events": outliving_events,
    "unmodelled_time": unmodelled_time,
    "incomplete_traces": incomplete_traces,
}
"""Name of a query -> its twin."""
