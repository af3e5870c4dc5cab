"""Layers that should be alike: which one is not, and where it departs from the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.shared.grouping import group_by, text_codes
from tracelens_graph.graph.classes import argset_text, class_rows, distinct_classes, normal_name, subtree_classes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.schema.tables.structure import ODD_LAYERS
from tracelens_graph.table import Table, columns_of


class _Call(NamedTuple):
    """What a node of a layer is compared by: place and name, then arguments."""

    depth: int
    kind: Kind
    name: str
    arguments: int


@dataclass
class _Odd:
    """Layers that depart in one way: row of the first, the usual ones of its group, number of its group, how many."""

    row: int
    usual: np.ndarray
    layers: int
    times: int


def odd_layers(g: Core | Window, min_layers: int = 3, kernels: bool = True) -> Table:
    """Layers that are not as most of those beside them are, the rarest kind first, and where they depart.

    Layers are modules that differ by nothing but the number of the instance and stand in one call of a module, or in
    none. They are compared with what more than half of them do: calls with GPU work, arguments and kernels. Layers
    that are odd in the same way are one row.

    Args:
        g: the graph, or a window of it.
        min_layers: how many layers there must be.
        kernels: whether the names of kernels count.
    """
    w = window_of(g)
    core, c, names = w.core, w.core.columns, w.core.names
    sets = text_codes([*(argset_text(core, code) for code in range(len(core.argsets))), None])
    records = []
    for odd in _odd(w, min_layers, kernels):
        usual = int(odd.usual[0])
        mine, theirs = (_below(core, row) for row in (odd.row, usual))
        ours, others = ([_call(core, row, root, sets, kernels) for row in rows.tolist()]
                        for root, rows in ((odd.row, mine), (usual, theirs)))  # fmt: skip
        at = next(i for i in range(max(len(ours), len(others))) if ours[i : i + 1] != others[i : i + 1])
        here = int(mine[at]) if at < len(mine) else None
        there = int(theirs[at]) if at < len(theirs) else None
        root, end = (odd.row, here) if here is not None else (usual, there)
        assert end is not None
        around = int(nearest_above(c, np.array([odd.row]), (Kind.Module,))[0])
        records.append(
            {
                "module": names[c.name[odd.row]],
                "inside": names[c.name[around]] if around >= 0 else None,
                "times": odd.times,
                "layers": odd.layers,
                "alike": len(odd.usual),
                "differs": _difference(ours[at : at + 1], others[at : at + 1]),
                "departs_at": None if here is None else names[c.name[here]],
                "instead_of": None if there is None else names[c.name[there]],
                "way": " > ".join(names[c.name[row]] for row in _way(c.parent, root, end)),
                "gpu_time_us": int(core.gpu_sum_ns[odd.row]) / 1e3,
                "usual_gpu_time_us": int(core.gpu_sum_ns[odd.usual].sum()) / 1e3 / len(odd.usual),
                "uid": int(c.uid[odd.row]),
                "departs_uid": None if here is None else int(c.uid[here]),
                "usual_uid": int(c.uid[usual]),
            }
        )
    columns = columns_of(records, ODD_LAYERS)
    return Table("odd_layers", columns, ODD_LAYERS, w.titled("Layers that are not as the others"))


def _odd(w: Window, least: int, kernels: bool) -> list[_Odd]:
    """Ways in which layers are odd, the rarest first."""
    g, c, rows = w.core, w.core.columns, class_rows(w.core)
    rows = rows[(c.kind[rows] == Kind.Module) & w.holds(rows)]
    if not len(rows):
        return []
    _, kind = distinct_classes(subtree_classes(g, kernel_names=kernels)[rows])
    plain = text_codes([normal_name(Kind.Module, name) for name in g.names])
    group, first = group_by(nearest_above(c, rows, (Kind.Module,)), plain[c.name[rows]])
    layers = np.bincount(group)
    part, begins = group_by(group, kind)
    size = np.bincount(part)
    # The first of the largest classes of each group; the group has it as its usual one if it holds more than half.
    order = np.lexsort((begins, -size, group[begins]))
    most = np.full(len(first), -1)
    most[group[begins[order]][::-1]] = order[::-1]
    whole = layers[group[begins]]
    odd = (most[group[begins]] != np.arange(len(begins))) & (2 * size[most[group[begins]]] > whole) & (whole >= least)
    found: dict[tuple[int, int], _Odd] = {}
    for one in np.flatnonzero(odd).tolist():
        usual = int(most[group[begins[one]]])
        key = int(kind[begins[one]]), int(kind[begins[usual]])
        if key in found:
            found[key].times += int(size[one])
        else:
            found[key] = _Odd(int(rows[begins[one]]), rows[part == usual], int(whole[one]), int(size[one]))
    return sorted(found.values(), key=lambda way: (way.times, way.row))


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
    """What differs between two calls, either of which may be missing."""
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
