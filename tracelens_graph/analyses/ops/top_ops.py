"""The operations with most GPU time, and where in the program they are called."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.ops.launchers import NO_LAUNCH, OpCalls, launchers
from tracelens_graph.analyses.ops.ops import IN_CALL, OPS_SUMMARY
from tracelens_graph.analyses.shared.call_stacks import parent_modules
from tracelens_graph.analyses.shared.grouping import Cells, group_by
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.graph.user_code import is_python, line_names, origins
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

TOP_OPS = TableSchema(
    "top_ops",
    "Which ops take most GPU time, and where they are called.",
    {
        "name": OPS_SUMMARY["name"],
        "total_ms": Column.total(f"sum over calls of {IN_CALL}", "ms", "GPU ms"),
        "percent": Column.share("share of the sum over all operations", "% of GPU"),
        "count": Column.count("calls that launched GPU work", "calls"),
        "mostly_in": Column.text(
            "innermost nn.Module around most of its time with the one around that, by class, and its "
            "share; else the line of Python of the longest call",
            "mostly in",
        ),
        "uid": Column.uid(
            "the longest call; where `mostly_in` names modules, the longest in these", heading="uid", drop_priority=0
        ),
    },
)


_MOST = 0.5
"""Share of an op's time from which the modules that it is called in say where it is called."""


def top_ops(g: Core | Window, linked_only: bool = False, top: int = 5) -> Table:
    """The operations with most GPU time, as in `ops_summary`, each with the place where most of its time is launched.

    A place is the innermost module around the calls with the one around that, by class; for a backward op the modules
    of its forward op. Where most of the time lies in no module it is the line of Python of the longest call.

    Args:
        linked_only: leave out GPU events whose launch is not in the trace, and communication.
        top: how many operations.
    """
    found = launchers(w := window_of(g), linked_only)
    core, c = found.core, found.core.columns
    group, first = group_by(c.name[found.rows])
    time = sum_by_group(group, found.direct_ns, len(first))
    lone = int(c.dur_ns[found.unlinked].sum())
    whole = int(time.sum()) + lone
    shown = np.lexsort((c.uid[found.rows[first]], -time))[:top].tolist()
    places = [_place(w, found, np.flatnonzero(group == op)) for op in shown]
    columns: dict[str, Cells] = {
        "name": [core.names[c.name[found.rows[first[op]]]] for op in shown],
        "total_ms": [float(time[op]) / 1e6 for op in shown],
        "percent": [100 * float(time[op]) / whole if whole else 0.0 for op in shown],
        "count": [int(count) for count in np.bincount(group, minlength=len(first))[shown]],
        "mostly_in": [place for place, _ in places],
        "uid": [int(c.uid[found.rows[call]]) for _, call in places],
    }
    if lone and len(shown):
        at = sum(ms * 1e6 >= lone for ms in columns["total_ms"])
        cells = (NO_LAUNCH, lone / 1e6, 100 * lone / whole, len(found.unlinked), "", None)
        for values, cell in zip(columns.values(), cells, strict=True):
            assert isinstance(values, list)
            values.insert(at, cell)
            del values[top:]
    notes = [] if is_python(core) or not shown else [core.framework.no_place]
    return TOP_OPS.table(columns, w.titled("Operations with most GPU time"), notes)


def _place(w: Window, found: OpCalls, calls: np.ndarray) -> tuple[str, int]:
    """Where calls of an op stand, empty if the trace does not say, and the longest call there."""
    core = found.core
    rows, time = found.rows[calls], found.direct_ns[calls]
    longest = int(time.argmax())
    if not is_python(core):
        return "", int(calls[longest])
    origin = origins(core, rows)
    inner = nearest_above(core.columns, origin, (Kind.Module,))
    inside = np.flatnonzero(inner >= 0)
    if time[inside].sum() <= _MOST * time.sum():
        return line_names(w, origin[[longest]])[0], int(calls[longest])
    modules, of = distinct(inner[inside])
    outer = nearest_above(core.columns, modules, (Kind.Module,))
    names = [
        f"{around}/{name}" if above >= 0 else name
        for name, around, above in zip(_classes(core, modules), _classes(core, outer), outer.tolist(), strict=True)
    ]
    places = {name: number for number, name in enumerate(dict.fromkeys(names))}
    place = np.array([places[name] for name in names])[of]
    spent = sum_by_group(place, time[inside], len(places))
    most = int(spent.argmax())
    share = 100 * float(spent[most]) / float(time.sum())
    there = inside[place == most]
    text = list(places)[most] + (f" ({share:.0f} %)" if share < 99.5 else "")
    return text, int(calls[there[time[there].argmax()]])


def _classes(core: Core, modules: np.ndarray) -> list[str]:
    return [name.removeprefix("nn.Module: ") for name in parent_modules(core, modules)]
