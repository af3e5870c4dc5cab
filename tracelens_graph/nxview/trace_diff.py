"""Two graphs aligned, for Python users: a networkx graph of both call forests, with tables and texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from html import escape
from typing import Any

import networkx as nx
import numpy as np

from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.matches import kind_name
from tracelens_graph.analyses.alignment.merged import merged_tree
from tracelens_graph.analyses.alignment.tables import diff_tables
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.edges import forest_edge_rows
from tracelens_graph.graph.node import Node
from tracelens_graph.graph.window import Window
from tracelens_graph.nxview import views
from tracelens_graph.nxview.lazy import FrozenDict, KeyIndex, OnDemandDict
from tracelens_graph.nxview.trace_graph import Frames
from tracelens_graph.nxview.views import Edges, TypedEdges, typed
from tracelens_graph.reports.diff_tree import tree_lines
from tracelens_graph.schema import FOREST_KINDS
from tracelens_graph.tables.table import Table

_SIDES = ("a", "b")
_MATCHES = "MATCHES"


class TraceDiff(Diff, views.ReadOnly, nx.MultiDiGraph):
    """Two graphs, or windows of them, aligned by structure; a read-only `networkx.MultiDiGraph` of both call forests.

    A node is `("a", uid)` or `("b", uid)`, with the attributes of `Node.attributes()`. Edges CALLS and LAUNCHES are
    those of the two graphs; MATCHES leads from a node of the first to the one of the second that it belongs to, and
    its `kind` says how they resemble each other: identical, same structure, renamed, other arguments, wrapped, fused
    (n GPU events against m), or changed (what is below differs).

    `diff()` makes one.

    Attributes:
        a, b: the windows that were compared.
        names: what they are called.
    """

    _made_of = Window

    def __init__(self, a: Window, b: Window, names: tuple[str, str] = ("A", "B")) -> None:
        Diff.__init__(self, a, b, names)
        cores = a.core, b.core
        rows = [_forest_rows(window, side.row) for window, side in zip((a, b), self.alignment.sides, strict=True)]
        uids = [core.columns.uid[of].tolist() for core, of in zip(cores, rows, strict=True)]
        index = KeyIndex([(side, uid) for side, of in zip(_SIDES, uids, strict=True) for uid in of])
        first = len(rows[0])

        def make(position: int) -> FrozenDict:
            side = int(position >= first)
            return FrozenDict(Node(cores[side], int(rows[side][position - side * first])).attributes())

        def block(low: int, high: int) -> list[FrozenDict]:
            return [make(position) for position in range(low, high)]

        def edges() -> TypedEdges:
            return [*_own_edges(cores, rows), *self._match_edges(rows)]

        attributes = {"name": " against ".join(reversed(names)), "a": a.core.info.source, "b": b.core.info.source}
        self._put_on(attributes, OnDemandDict(index, block), Edges(len(index), edges), _data_of)

    # --- reading ---------------------------------------------------------------------------------------------

    def points(self) -> Table:
        """Where the two differ, the largest change first; changes add up to that of the GPU time. See `diff_places`.

        A row is one op, or other call, of all equal layers: times, kernels and what launched them on both sides,
        module path, line of Python, arguments, and the reason with its evidence.
        """
        return self._tables["diff_places"]

    def tree(self, min_percent: float = 1, width: int = 120) -> str:
        """Both call trees drawn as one, with both times and the kernels that differ.

        Args:
            min_percent: what has less than this share of the time and of the change is folded into one line; 0 draws
                everything.
        """
        return "\n".join(tree_lines(merged_tree(self.alignment), width, min_percent=min_percent))

    @cached_property
    def tables(self) -> Frames:
        """`diff_totals`, `diff_times` and `diff_places` as DataFrames by name."""
        return Frames(self._tables)

    @cached_property
    def _tables(self) -> dict[str, Table]:
        return diff_tables(self)

    def _match_edges(self, rows: Sequence[np.ndarray]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        found = self.matches
        source, target = (np.searchsorted(of, mine) for of, mine in zip(rows, found.rows, strict=True))
        for kind in np.unique(found.kinds).tolist():
            here = found.kinds == kind
            yield f"{_MATCHES} {kind_name(kind)}", source[here], target[here] + len(rows[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return TraceDiff, (self.a, self.b, self.names)

    def __repr__(self) -> str:
        return f"{self}\n{self.points()!r}"

    def __str__(self) -> str:
        return f"<{self._one_line}>"

    def _repr_html_(self) -> str:
        totals, points = self._tables["diff_totals"], self.points()
        return f"<p>{escape(self._one_line)}</p>{totals._repr_html_()}{points._repr_html_()}"

    @property
    def _one_line(self) -> str:
        first, second = (ns / 1e6 for ns in self.ns)
        percent = f" ({100 * (second / first - 1):+.1f} %)" if first and math.isfinite(second / first) else ""
        return (
            f"TraceDiff {self.names[0]} -> {self.names[1]}: GPU time {first:,.3f} -> {second:,.3f} ms{percent}, "
            f"{len(self.matches):,} matches"
        )


def _forest_rows(window: Window, aligned: np.ndarray) -> np.ndarray:
    """Rows of the call forest in a window, and of the calls around its GPU work, ascending."""
    c = window.core.columns
    keep = window.holds(np.arange(len(c))) & is_kind(c.kind, FOREST_KINDS)
    keep[aligned[aligned >= 0]] = True
    return np.flatnonzero(keep)


def _own_edges(cores: Sequence[Any], rows: Sequence[np.ndarray]) -> TypedEdges:
    """The edges of both call forests whose ends are taken, between positions."""
    found = []
    for name in views.TREE_EDGES:
        ends: list[tuple[np.ndarray, np.ndarray]] = []
        for side, (core, of) in enumerate(zip(cores, rows, strict=True)):
            place = np.full(len(core.columns), -1, np.int64)
            place[of] = np.arange(len(of)) + side * len(rows[0])
            source, target = (place[one] for one in forest_edge_rows(core, name))
            taken = (source >= 0) & (target >= 0)
            ends.append((source[taken], target[taken]))
        source, target = (np.concatenate(of) for of in zip(*ends, strict=True))
        found.append((name, source, target))
    return found


def _data_of(name: str) -> FrozenDict:
    """What networkx sees of an edge of a type."""
    if not name.startswith(f"{_MATCHES} "):
        return typed(name)
    return FrozenDict({_MATCHES: FrozenDict({"kind": name.removeprefix(f"{_MATCHES} ")})})
