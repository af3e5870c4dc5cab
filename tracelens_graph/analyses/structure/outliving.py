"""Calls that end after the call that they started in."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.idle.host_states import ends
from tracelens_graph.analyses.shared.gpu_work import names_of
from tracelens_graph.analyses.shared.grouping import Cells, group_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Flag, Kind
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

OUTLIVING_EVENTS = TableSchema(
    "outliving_events",
    "Which calls end after the call that they started in.",
    {
        "kind": Column.key("kind of the events"),
        "name": Column.key("name of the events"),
        "count": Column.count("how many of them end after the event that they started in"),
        "callees": Column.count("how many of these end after their caller"),
        "greatest_excess_us": Column("longest time by which one of these ends after its caller", "us", Role.max),
        "total_excess_us": Column.total("sum of these times", "us"),
        "caller": Column.text("the caller in the case of the greatest excess"),
        "uid": Column.uid("the event in that case, else the first"),
    },
)


def outliving_events(g: Core | Window) -> Table:
    """Calls that end after the call that they started in, by kind and name, the most frequent first.

    If at least half of such a call lies inside, it stays a callee of the other, which it then exceeds; else it stands
    beside it.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    rows = np.flatnonzero((c.flags & Flag.outlives_parent.value) > 0)
    rows = rows[w.holds(rows)]
    caller = c.parent[rows].astype(np.int64)
    excess = np.where(caller >= 0, ends(core, rows) - ends(core, caller), 0)
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
        "name": names_of(core, rows[worst]),
        "count": np.bincount(group, minlength=len(worst)),
        "callees": callees,
        "greatest_excess_us": np.where(exceeds, excess[worst] / 1e3, np.nan),
        "total_excess_us": np.where(exceeds, total / 1e3, np.nan),
        "caller": names_of(core, np.where(exceeds, c.parent[rows[worst]], -1)),
        "uid": c.uid[rows[worst]],
    }
    table = OUTLIVING_EVENTS.table(columns, w.titled("Calls that outlive their callers"))
    keys = list(zip(columns["count"], columns["kind"], columns["name"], strict=True))
    by_count = sorted(range(len(keys)), key=lambda at: (-keys[at][0], *keys[at][1:]))
    return table.take(np.array(by_count, np.int64))
