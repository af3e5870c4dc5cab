"""Questions about two traces aligned by structure: where they differ, which kernels took whose place, which layers.

Of the traces of a set `b` is the last and `a` the one before it, unless others are named. Where both are whole and have
steps, a step of median GPU time of each is compared, else their windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tracelens_graph.analyses.alignment.compared_steps import median_steps
from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.host_work import has_gpu_work
from tracelens_graph.analyses.alignment.matches import kind_name
from tracelens_graph.analyses.alignment.tables import DIFF_PLACES, diff_tables
from tracelens_graph.analyses.shared.gpu_work import names_of, uids_of
from tracelens_graph.analyses.shared.grouping import first_rows
from tracelens_graph.analyses.structure.layers import side_by_side
from tracelens_graph.graph.arrays import distinct, is_kind
from tracelens_graph.graph.classes import class_rows
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet, titled
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.tables.column import About, Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

_TIMES: About = {
    "gpu_time_a_us": Column.total("sum of the durations of the GPU events there in a", "us"),
    "gpu_time_b_us": Column.total("the same in b", "us"),
    "change_us": Column.total("GPU time of b less that of a", "us"),
}

KERNEL_REPLACEMENTS = TableSchema(
    "kernel_replacements",
    "Which kernels of one trace replaced those of another.",
    {
        "op": Column.key("op that the GPU work is charged to, in a if it is there; absent for none"),
        "kernel_a": Column.key("name of the GPU event in a; absent where only b has one"),
        "kernel_b": Column.key("name of what belongs to it in b; absent where only a has one"),
        "events_a": Column.count("GPU events of that name in a, as far as the row is about them"),
        "events_b": Column.count("the same in b"),
        **_TIMES,
    },
)

LAYER_DIFFERENCES = TableSchema(
    "layer_differences",
    "Which layers of two traces are not the same.",
    {
        "layer_a": Column.key("the layer in a; absent where only b has it"),
        "layer_b": Column.key("what belongs to it in b; absent where only a has it"),
        "inside": Column.text("the module around it, in a if it is there; absent for none"),
        "kind": Column.text(
            "how they resemble each other: identical, same structure, renamed, other arguments, "
            "wrapped, changed (what is below differs), only in a, only in b"
        ),
        **_TIMES,
        "uid_a": Column.uid("the layer in a"),
        "uid_b": Column.uid("what belongs to it in b"),
    },
)


_IDENTICAL = "identical"


def divergences(traces: TraceSet, a: str | None = None, b: str | None = None, top: int = 100) -> Table:
    """Where the GPU work of two traces differs by structure, the largest change first, and why.

    Args:
        traces: the traces, in order.
        a: path, name or id of one trace; by default the one before the other.
        b: path, name or id of the other; by default the last.
        top: number of places; 0 for all.

    Raises:
        AnalysisError: there are not two such traces, or `top` is negative.
    """
    difference, title = _compared(traces, a, b, "Where GPU work differs by structure")
    rows = [] if difference is None else diff_tables(difference)["diff_places"].records()
    return _table(DIFF_PLACES, title, rows, top)


def kernel_replacements(
    traces: TraceSet, a: str | None = None, b: str | None = None, kernel: str = "", top: int = 100
) -> Table:
    """Which GPU events of one trace replaced those of another, call by call; the largest change first.

    Of events that belong together by structure those of other names, and those that only one trace has.

    Args:
        traces: the traces, in order.
        a: path, name or id of one trace; by default the one before the other.
        b: path, name or id of the other; by default the last.
        kernel: what the name on either side holds.
        top: number of rows; 0 for all.

    Raises:
        AnalysisError: there are not two such traces, or `top` is negative.
    """
    difference, title = _compared(traces, a, b, "Kernels in the place of others")
    rows = [] if difference is None else list(_replacements(difference, kernel))
    rows.sort(key=lambda row: (-abs(row["change_us"]), row["kernel_a"] or "", row["kernel_b"] or "", row["op"] or ""))
    return _table(KERNEL_REPLACEMENTS, title, rows, top)


def layer_differences(traces: TraceSet, a: str | None = None, b: str | None = None, top: int = 100) -> Table:
    """Layers that differ between two traces, the largest change first.

    Layers are modules that differ by nothing but the number of the instance and stand in one call of a module, or in
    none.

    Args:
        traces: the traces, in order.
        a: path, name or id of one trace; by default the one before the other.
        b: path, name or id of the other; by default the last.
        top: number of rows; 0 for all.

    Raises:
        AnalysisError: there are not two such traces, or `top` is negative.
    """
    difference, title = _compared(traces, a, b, "Layers that differ")
    rows = [] if difference is None else [*_layer_rows(difference)]
    rows = [row for row in rows if row["kind"] != _IDENTICAL or row["change_us"]]
    rows.sort(key=lambda row: (-abs(row["change_us"]), row["uid_a"] is None, row["uid_a"] or row["uid_b"]))
    return _table(LAYER_DIFFERENCES, title, rows, top)


def _compared(traces: TraceSet, a: str | None, b: str | None, what: str) -> tuple[Diff | None, str]:
    """The comparison of two traces, None if one of them has no GPU work; and a title."""
    one, other = traces.pair(a, b)
    windows = one.window, other.window
    if one.window.is_whole and other.window.is_whole:
        windows = median_steps(*windows)
    title = titled(
        f"{what}: {other.path} (b) against {one.path} (a)",
        [replace(member, graph=window) for member, window in zip((one, other), windows, strict=True)],
    )
    if not all(map(has_gpu_work, windows)):
        return None, title
    return Diff(*windows, ("a", "b")), title


def _replacements(difference: Diff, kernel: str) -> Iterator[dict[str, Any]]:
    """GPU events in place of others, by the op that they are charged to and both names."""
    cores = difference.a.core, difference.b.core
    every, _ = difference.matches.with_alone()
    fits = [(rows < 0) | is_kind(core.columns.kind, GPU_KINDS)[rows] for core, rows in zip(cores, every, strict=True)]
    sides = [rows[fits[0] & fits[1]] for rows in every]
    codes = {"": -1}
    names, ops = (
        [_codes(core, rows, of_owner, codes) for core, rows in zip(cores, sides, strict=True)]
        for of_owner in (False, True)
    )
    texts = {code: name for name, code in codes.items()}
    op = np.where(ops[0] >= 0, ops[0], ops[1])
    differ = names[0] != names[1]
    if not differ.any():
        return
    keys, of = np.unique(np.stack((op, *names))[:, differ], axis=1, return_inverse=True)
    times = [core.columns.dur_ns for core in cores]
    order = np.argsort(of.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(of.ravel(), minlength=keys.shape[1]))[:-1]
    groups = [np.split(side[differ][order], ends) for side in sides]
    for key, *grouped in zip(keys.T.tolist(), *groups, strict=True):
        called = [texts[code] if code >= 0 else None for code in key]
        if not any(kernel in (name or "") for name in called[1:]):
            continue
        # An event with several partners stands in several pairs, but its time counts once.
        rows = [np.unique(one[one >= 0]) for one in grouped]
        ns = [int(time[one].sum()) for time, one in zip(times, rows, strict=True)]
        yield {
            "op": called[0], "kernel_a": called[1], "kernel_b": called[2], "events_a": len(rows[0]),
            "events_b": len(rows[1]), "gpu_time_a_us": ns[0] / 1e3, "gpu_time_b_us": ns[1] / 1e3,
            "change_us": (ns[1] - ns[0]) / 1e3,
        }  # fmt: skip


def _codes(core: Core, rows: np.ndarray, of_owner: bool, codes: dict[str, int]) -> np.ndarray:
    """Numbers of the names of rows, or of the ops that they are charged to, the same for both graphs; -1 for none."""
    c = core.columns
    if of_owner:
        rows = np.where(rows >= 0, c.owner[rows], -1)
    name = np.where(rows >= 0, c.name[rows], -1)
    known, back = distinct(name)
    found = [codes.setdefault(core.names[one], len(codes)) if one >= 0 else -1 for one in known.tolist()]
    return np.array(found, np.int64)[back]


def _layer_rows(difference: Diff) -> Iterator[dict[str, Any]]:
    """Layers of the first trace, each with its partner, then those that only the second has."""
    found, cores = difference.matches, (difference.a.core, difference.b.core)
    rows, ns = found.with_alone()
    for side, core in enumerate(cores):
        there = np.flatnonzero(rows[side] >= 0)
        layers, around = _layers(core, rows[side][there])
        for at, inside in zip(there[layers].tolist(), around, strict=True):
            if side and rows[0][at] >= 0:
                continue
            first, second = (int(of[at]) for of in ns)
            is_pair = at < len(found)
            yield {
                "inside": inside,
                "kind": kind_name(found.kinds[at]) if is_pair else f"only in {'ab'[side]}",
                "gpu_time_a_us": first / 1e3,
                "gpu_time_b_us": second / 1e3,
                "change_us": (second - first) / 1e3,
                **{
                    name: value
                    for letter, one, of in zip("ab", cores, rows, strict=True)
                    for name, value in (
                        (f"layer_{letter}", names_of(one, of[at : at + 1])[0]),
                        (f"uid_{letter}", uids_of(one, of[at : at + 1])[0]),
                    )
                },
            }


def _layers(core: Core, rows: np.ndarray) -> tuple[np.ndarray, list[str | None]]:
    """Which of some rows are layers, and the name of the module around each."""
    c = core.columns
    at = np.flatnonzero((c.kind[rows] == Kind.Module) & np.isin(rows, class_rows(core)))
    group, _ = side_by_side(core, rows[at])
    at = at[np.bincount(group)[group] > 1]
    return at, names_of(core, nearest_above(c, rows[at], (Kind.Module,)))


def _table(schema: TableSchema, title: str, rows: list[dict[str, Any]], top: int) -> Table:
    shown, notes = first_rows(rows, top)
    return schema.of_records(shown, title, notes)
