"""Nodes and edges in batches: which rows go in one transaction, and what may be written side by side.

Whoever writes an edge locks both its ends until the commit. Two transactions that share nodes would wait for each
other, and now and then for ever, until the server ends one of them. So edges that are written side by side share none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.db.image import Edges, Nodes, ranges_by_size
from tracelens_graph.db.statements import write_edges, write_nodes
from tracelens_graph.schema.database import EVENT, EVENT_PROPERTIES
from tracelens_graph.utils.arrays import Codes, Rows

BATCH = 5000
"""Rows of a transaction: less costs time, more brings none."""

BATCH_BYTES = 8_000_000
"""Characters of text in a transaction, so that long names fill neither memory; a longer row goes alone."""

FEW = 1000
"""Rows that one transaction writes alone."""

SESSIONS = 2
"""Transactions side by side; more were slower."""

_WORTH_IT = 0.2
"""Share of edges that the smaller of two parts must have for both to be written side by side."""


class Part(NamedTuple):
    """Rows `low` to `high` of some nodes or edges."""

    group: Nodes | Edges
    low: int
    high: int


class Batch(NamedTuple):
    """Rows that one statement writes in one transaction."""

    statement: str
    parts: tuple[Part, ...]

    def __len__(self) -> int:
        return sum(part.high - part.low for part in self.parts)

    def rows(self) -> list[list[Any]]:
        """The rows as the statement takes them."""
        return [row for part in self.parts for row in _rows(part)]


def _rows(part: Part) -> list[list[Any]]:
    group, low, high = part
    rows = group.rows(low, high)
    if isinstance(group, Edges):
        return rows
    names = [prop.name for prop in group.properties]
    if group.labels[0] != EVENT:
        return [
            [row[0], {name: value for name, value in zip(names, row, strict=True) if value is not None}] for row in rows
        ]
    labels = list(group.labels[1:])
    places = [names.index(prop.name) if prop.name in names else len(names) for prop in EVENT_PROPERTIES[1:]]
    return [[row[0], labels, *map([*row, None].__getitem__, places)] for row in rows]


def node_batches(groups: Sequence[Nodes]) -> list[Batch]:
    """Nodes in batches: neighbours that one statement writes, whatever their labels, share batches of about one size.

    Which of these are written side by side does not matter, as no two want the same node.
    """
    found = []
    for statement, alike in groupby(groups, write_nodes):
        nodes = list(alike)
        sizes = np.concatenate([one.sizes for one in nodes])
        number = max(-(-len(sizes) // BATCH), SESSIONS if len(sizes) > FEW else 1)
        for low, high in pairwise(_ends(len(sizes), number)):
            ranges = ranges_by_size(low, sizes[low:high], BATCH_BYTES)
            found += [Batch(statement, _parts(nodes, *one)) for one in ranges]
    return found


def _parts(groups: Sequence[Nodes], low: int, high: int) -> tuple[Part, ...]:
    """The groups' parts of a range of all their rows."""
    ends = np.cumsum([0, *map(len, groups)]).tolist()
    return tuple(
        Part(group, max(low, begin) - begin, min(high, end) - begin)
        for group, (begin, end) in zip(groups, pairwise(ends), strict=True)
        if low < end and begin < high
    )


def edge_stages(groups: Sequence[Edges]) -> Iterator[list[list[Batch]]]:
    """Edges in stages, one to be written after the other: batches that are written side by side share no node.

    First come types with few edges, those between events beside those without any; then one type after the other.
    """
    few = [edges for edges in groups if len(edges) <= FEW and _among_events(edges) is not None]
    yield [_batches([edges for edges in few if _among_events(edges) is among]) for among in (True, False)]
    for edges in groups:
        if len(edges) > FEW or _among_events(edges) is None:
            for parts in _apart(edges):
                yield [_batches([part]) for part in parts]


def _among_events(edges: Edges) -> bool | None:
    """Whether both ends are events, or none is; None where one is."""
    source, target = edges.source == EVENT, edges.target == EVENT
    return source if source is target else None


def _batches(groups: Sequence[Edges]) -> list[Batch]:
    return [
        Batch(write_edges(edges), (Part(edges, low, high),))
        for edges in groups
        for low, high in pairwise(_ends(len(edges), -(-len(edges) // BATCH)))
    ]


def _ends(length: int, number: int) -> list[int]:
    return [length * place // number for place in range(number + 1)] if number else []


def _apart(edges: Edges) -> Iterator[list[Edges]]:
    """The edges in stages of parts that share no node.

    They are cut in two in the middle, and those of one part with an end in the other are left over. Where that leaves
    little of it, all edges are one part.
    """
    if len(edges) <= FEW:
        yield [edges]
        return
    first, second = _halves(edges)
    if min(len(first), len(second)) < _WORTH_IT * len(edges):
        yield [edges]
        return
    yield [_taken(edges, first), _taken(edges, second)]
    left = np.ones(len(edges), bool)
    left[first] = left[second] = False
    if left.any():
        yield [_taken(edges, np.flatnonzero(left))]


def _halves(edges: Edges) -> tuple[Rows, Rows]:
    """Rows of two parts that share no node."""
    source, target = _numbered(edges)
    middle = _cut(source if edges.by_source else target)
    alone = []
    for low, high in ((0, middle), (middle, len(edges))):
        elsewhere = np.ones(len(edges), bool)
        elsewhere[low:high] = False
        there = np.zeros(max(source.max(), target.max()) + 1, bool)
        there[source[elsewhere]] = there[target[elsewhere]] = True
        alone.append(low + np.flatnonzero(~there[source[low:high]] & ~there[target[low:high]]))
    first, second = alone
    if len(first) + len(edges) - middle >= len(second) + middle:  # what one part leaves over, the other need not
        return first, np.arange(middle, len(edges))
    return np.arange(middle), second


def _numbered(edges: Edges) -> tuple[Codes, Codes]:
    """Both ends of all edges, as numbers that are equal where the nodes may be."""
    keys = [column if isinstance(column, list) else column.tolist() for column in edges.columns[:2]]
    known: dict[Any, int] = {}
    source = np.fromiter((known.setdefault(key, len(known)) for key in keys[0]), np.int64, len(edges))
    first = 0
    if (edges.source, edges.scopes[0]) != (edges.target, edges.scopes[1]):
        first, known = len(known), {}
    target = np.fromiter((known.setdefault(key, len(known)) for key in keys[1]), np.int64, len(edges))
    return source, target + first


def _cut(column: np.ndarray) -> int:
    """A row near the middle, if possible where the edges of a node end."""
    middle, near = len(column) // 2, len(column) // 8
    changes = np.flatnonzero(column[1:] != column[:-1]) + 1
    changes = changes[np.abs(changes - middle) <= near]
    return int(changes[np.argmin(np.abs(changes - middle))]) if len(changes) else middle


def _taken(edges: Edges, rows: Rows) -> Edges:
    """Some of the edges."""
    columns = tuple(
        [column[row] for row in rows.tolist()] if isinstance(column, list) else column[rows] for column in edges.columns
    )
    return replace(edges, columns=columns)
