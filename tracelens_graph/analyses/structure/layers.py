"""Layers that should be alike: which one is not, and where it departs from the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.shared.call_columns import argument_codes
from tracelens_graph.analyses.shared.grouping import group_by, text_codes
from tracelens_graph.graph.classes import class_rows, distinct_classes, normal_name, subtree_classes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Codes, Rows

ODD_LAYERS = TableSchema(
    "odd_layers",
    "Which layers are not like those beside them, and where they depart.",
    {
        "module": Column.key("the odd layer, the first one of its kind"),
        "inside": Column.text("the module around the layers"),
        "times": Column.count("number of layers that are odd in this way"),
        "layers": Column("number of layers around this one, itself included"),
        "alike": Column("how many of them are as most are"),
        "differs": Column.text("what departs first: call, arguments or kernel"),
        "departs_at": Column.text("first call or kernel that differs; absent where the layer ends before the others"),
        "instead_of": Column.text("what the others have in its place; absent where they end before"),
        "way": Column.text("names of the calls from the layer to where it departs"),
        "gpu_time_us": Column("sum of the durations of the GPU events of the layer", "us"),
        "usual_gpu_time_us": Column("mean of those that are as most are", "us"),
        "uid": Column.uid("the odd layer"),
        "departs_uid": Column.uid("what departs_at names"),
        "usual_uid": Column.uid("the first of those that are as most are"),
    },
)


class _Call(NamedTuple):
    """What a node of a layer is compared by: place and name, then arguments."""

    depth: int
    kind: Kind
    name: str
    arguments: int


@dataclass(frozen=True)
class Departure:
    """Layers beside each other that are odd in one way.

    Attributes:
        row: the first of them.
        usual: rows of those that are as most are.
        layers: number of layers beside each other, all in all.
        times: how many are odd in this way.
        key: two of the same key are odd in the same way.
        differs: what departs first: "call", "arguments" or "kernel".
        here: row of the first call or kernel that differs; None where the layer ends before the others.
        there: row of what the first usual one has in its place; None where that ends before.
        way: names of the calls from the layer to where it departs.
    """

    row: int
    usual: np.ndarray
    layers: int
    times: int
    key: tuple[int, ...]
    differs: str
    here: int | None
    there: int | None
    way: str


def odd_layers(g: Core | Window, min_layers: int = 3, kernels: bool = True) -> Table:
    """Layers that differ from most of their neighbours, the rarest kind first, and where they differ.

    Layers are modules that differ by nothing but the number of the instance and stand in one call of a module, or in
    none. They are compared with what more than half of them do: calls with GPU work, arguments and kernels. Layers
    that are odd in the same way are one row.

    Args:
        min_layers: how many layers there must be.
        kernels: whether the names of kernels count.
    """
    w = window_of(g)
    core, c, names = w.core, w.core.columns, w.core.names
    firsts: dict[tuple[int, ...], Departure] = {}
    times: dict[tuple[int, ...], int] = {}
    for one in departures(w, kernels):
        if one.layers >= min_layers:
            firsts.setdefault(one.key, one)
            times[one.key] = times.get(one.key, 0) + one.times
    records = []
    for odd in sorted(firsts.values(), key=lambda one: (times[one.key], one.row)):
        around = int(nearest_above(c, np.array([odd.row]), (Kind.Module,))[0])
        records.append(
            {
                "module": names[c.name[odd.row]],
                "inside": names[c.name[around]] if around >= 0 else None,
                "times": times[odd.key],
                "layers": odd.layers,
                "alike": len(odd.usual),
                "differs": odd.differs,
                "departs_at": None if odd.here is None else names[c.name[odd.here]],
                "instead_of": None if odd.there is None else names[c.name[odd.there]],
                "way": odd.way,
                "gpu_time_us": int(core.gpu_sum_ns[odd.row]) / 1e3,
                "usual_gpu_time_us": int(core.gpu_sum_ns[odd.usual].sum()) / len(odd.usual) / 1e3,
                "uid": int(c.uid[odd.row]),
                "departs_uid": None if odd.here is None else int(c.uid[odd.here]),
                "usual_uid": int(c.uid[odd.usual[0]]),
            }
        )
    return ODD_LAYERS.of_records(records, w.titled("Layers that are not as the others"))


def side_by_side(core: Core, modules: Rows) -> tuple[Codes, Rows]:
    """Which modules are layers of one group: they differ by nothing but the number of the instance, and stand in one
    call of a module, or in none.

    Returns:
        The number of the group of each, and the position of the first of each group.
    """
    plain = text_codes([normal_name(Kind.Module, name) for name in core.names])
    return group_by(nearest_above(core.columns, modules, (Kind.Module,)), plain[core.columns.name[modules]])


def layer_groups(w: Window) -> tuple[Rows, Codes, Rows]:
    """Rows of the modules with GPU work, ascending, and their groups; see `side_by_side`."""
    c, rows = w.core.columns, class_rows(w.core)
    rows = rows[(c.kind[rows] == Kind.Module) & w.holds(rows)]
    return rows, *side_by_side(w.core, rows)


def departures(w: Window, kernels: bool) -> list[Departure]:
    """Ways in which layers are odd among those beside them, by the first of each.

    Args:
        kernels: whether the names of kernels count.
    """
    g = w.core
    rows, group, first = layer_groups(w)
    if not len(rows):
        return []
    lanes = subtree_classes(g, kernel_names=kernels)[rows]
    _, kind = distinct_classes(lanes)
    layers = np.bincount(group)
    part, begins = group_by(group, kind)
    size = np.bincount(part)
    # The first of the largest classes of each group; the group has it as its usual one if it holds more than half.
    order = np.lexsort((begins, -size, group[begins]))
    most = np.full(len(first), -1)
    most[group[begins[order]][::-1]] = order[::-1]
    whole = layers[group[begins]]
    odd = (most[group[begins]] != np.arange(len(begins))) & (2 * size[most[group[begins]]] > whole)
    sets = argument_codes(g)
    by_part = np.split(np.argsort(part, kind="stable"), np.cumsum(size)[:-1])
    found: list[Departure] = []
    compared: dict[tuple[int, ...], tuple[int, str]] = {}
    for one in np.flatnonzero(odd).tolist():
        usual = int(most[group[begins[one]]])
        row, others = int(rows[begins[one]]), rows[by_part[usual]]
        key = (*lanes[begins[one]].tolist(), *lanes[begins[usual]].tolist())
        mine, theirs = _below(g, row), _below(g, int(others[0]))
        if key not in compared:
            compared[key] = _compare(g, (row, mine), (int(others[0]), theirs), sets, kernels)
        at, differs = compared[key]
        here = int(mine[at]) if at < len(mine) else None
        there = int(theirs[at]) if at < len(theirs) else None
        root, end = (row, here) if here is not None else (int(others[0]), there)
        assert end is not None
        way = " > ".join(g.names[g.columns.name[step]] for step in _way(g.columns.parent, root, end))
        found.append(Departure(row, others, int(whole[one]), int(size[one]), key, differs, here, there, way))
    return sorted(found, key=lambda departure: departure.row)


def _compare(
    g: Core, odd: tuple[int, np.ndarray], usual: tuple[int, np.ndarray], sets: np.ndarray, kernels: bool
) -> tuple[int, str]:
    """Where in the order of what is below them two layers depart, and what differs there."""
    ours, others = ([_call(g, row, root, sets, kernels) for row in rows.tolist()] for root, rows in (odd, usual))
    at = next(i for i in range(max(len(ours), len(others))) if ours[i : i + 1] != others[i : i + 1])
    return at, _difference(ours[at : at + 1], others[at : at + 1])


def _below(g: Core, row: int) -> np.ndarray:
    """Rows below a row that hold GPU work or are it."""
    inside = np.arange(row + 1, int(g.columns.last[row]) + 1)
    low = np.searchsorted(g.gpu_rows, inside)
    return inside[np.searchsorted(g.gpu_rows, g.columns.last[inside], "right") > low]


def _call(g: Core, row: int, root: int, sets: np.ndarray, kernels: bool) -> _Call:
    c, kind = g.columns, Kind(int(g.columns.kind[row]))
    name = g.names[c.name[row]]
    called = (name if kernels else "") if kind in GPU_KINDS else normal_name(kind, name)
    return _Call(int(c.depth[row] - c.depth[root]), kind, called, int(sets[c.argset[row]]))


def _difference(mine: list[_Call], theirs: list[_Call]) -> str:
    """What differs between two calls; either may be missing."""
    for one, other in zip(mine, theirs, strict=False):
        if one[:3] == other[:3]:
            return "arguments"
        if one.depth == other.depth and one.kind in GPU_KINDS and other.kind in GPU_KINDS:
            return "kernel"
    return "call"


def _way(parent: np.ndarray, top: int, row: int) -> list[int]:
    """Rows from one down to another below it."""
    way = [row]
    while way[-1] != top:
        way.append(int(parent[way[-1]]))
    return way[::-1]
