"""Edges between event nodes, as pairs of rows: one function per type, computed on first use and kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import launches_of, rows_of_kind
from tracelens_graph.schema import EVENT_EDGES, HOST_KINDS, Kind
from tracelens_graph.utils.arrays import Rows

EdgeRows = tuple[Rows, Rows]
"""Rows of sources and of targets, ordered by source and then by target."""


def edge_rows(core: Core, edge_type: str) -> EdgeRows:
    """All edges of one type, at most one per pair of nodes; found once per graph.

    Args:
        edge_type: a name in `schema.EVENT_EDGES`.

    Raises:
        KeyError: there is no such type.
    """
    return core.once(_edge_rows, edge_type)


def forest_edge_rows(core: Core, edge_type: str) -> EdgeRows:
    """The edges of a type that are of the call forest: from the row that a row stands below."""
    source, target = edge_rows(core, edge_type)
    inside = core.columns.parent[target] == source
    return source[inside], target[inside]


def _edge_rows(core: Core, edge_type: str) -> EdgeRows:
    source, target = _BUILDERS[edge_type](core)
    order = np.lexsort((target, source))
    return source[order].astype(np.int64), target[order].astype(np.int64)


def _calls(core: Core) -> EdgeRows:
    return _children(core, rows_of_kind(core.columns, HOST_KINDS))


def _launches(core: Core) -> EdgeRows:
    rows = core.gpu_rows[core.columns.parent[core.gpu_rows] >= 0]
    return launches_of(core.columns, rows), rows


def _ran_as(core: Core) -> EdgeRows:
    call, rows = _children(core, core.gpu_rows)
    captured = core.columns.kind[call] != Kind.RuntimeCall
    return call[captured], rows[captured]


def _children(core: Core, rows: Rows) -> EdgeRows:
    rows = rows[core.columns.parent[rows] >= 0]
    return core.columns.parent[rows], rows


def _charged_to(core: Core) -> EdgeRows:
    rows = np.flatnonzero(core.columns.owner >= 0)
    return rows, core.columns.owner[rows]


def _next_on_stream(core: Core) -> EdgeRows:
    rows, c = core.device_order, core.columns
    same = (c.device[rows[1:]] == c.device[rows[:-1]]) & (c.stream[rows[1:]] == c.stream[rows[:-1]])
    return rows[:-1][same], rows[1:][same]


def _syncs(core: Core) -> EdgeRows:
    c = core.columns
    syncs = rows_of_kind(c, (Kind.SyncEvent,))
    syncs = syncs[c.correlation[syncs] != -1]
    calls = rows_of_kind(c, (Kind.RuntimeCall,))
    calls = calls[np.argsort(c.correlation[calls], kind="stable")]
    if not len(calls):
        return syncs[:0], syncs[:0]
    # An id beyond the last one would index past the end; the comparison below drops it.
    at = np.minimum(np.searchsorted(c.correlation[calls], c.correlation[syncs]), len(calls) - 1)
    found = c.correlation[calls[at]] == c.correlation[syncs]
    return calls[at][found], syncs[found]


def _during(core: Core) -> EdgeRows:
    rows = np.flatnonzero(core.annotation >= 0)
    return rows, core.annotation[rows]


_BUILDERS: dict[str, Callable[[Core], EdgeRows]] = {
    "CALLS": _calls,
    "LAUNCHES": _launches,
    "RAN_AS": _ran_as,
    "CHARGED_TO": _charged_to,
    "HAS_BACKWARD": lambda core: (autograd_of(core).forward, autograd_of(core).backward),
    "NEXT_ON_STREAM": _next_on_stream,
    "SYNCS": _syncs,
    "DEPENDS_ON": lambda core: (core.depends_on[:, 0], core.depends_on[:, 1]),
    "DURING": _during,
}

assert tuple(_BUILDERS) == tuple(edge.name for edge in EVENT_EDGES)
