"""The walk back over binding causes of a rank, and what each segment of it is."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.points import UNEXPLAINED_NS, Edge
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, MEMCPY, gpu_classes
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.utils.arrays import Codes, Ns, Rows

NEAR_NS = 2_000
"""Causes that came no more than this before the binding one are near ties."""


class Class(IntEnum):
    """What time on a critical path is."""

    host = 0
    launch = 1
    computation = 2
    communication = 3
    peer = 4
    copy = 5
    stream = 6
    event = 7
    sync = 8
    unrecorded = 9


_OF_EDGE: Mapping[Edge, Class] = {
    Edge.host: Class.host, Edge.call: Class.host, Edge.launch: Class.launch, Edge.stream: Class.stream,
    Edge.event: Class.event, Edge.sync: Class.sync, Edge.run: Class.computation, Edge.arrive: Class.peer,
    Edge.transfer: Class.communication, Edge.maybe: Class.event,
}  # fmt: skip


def followed(causes: Causes, at: int, start: int | None) -> Rows:
    """The edges that lead to a point, in the order of time, from a moment on or as far as is known."""
    time, binding, before = causes.time, causes.binding, causes.before
    found = []
    while (start is None or time[at] > start) and (bound := int(binding[at])) >= 0:
        found.append(bound)
        at = int(before[bound])
    return np.array(found[::-1], np.int64)


def segments_of(causes: Causes, core: Core, edge: Rows, start: int | None) -> tuple[Rows, Ns, Ns, Codes]:
    """Edge, start, end and class of the segments of edges of a rank, one behind the other, from a moment on."""
    begun, done = causes.time[causes.before[edge]], causes.time[causes.after[edge]]
    if start is not None:
        begun = np.maximum(begun, start)
    kind = _classes(causes, core, edge)
    lasting = done > begun
    return _split(causes, core, edge[lasting], begun[lasting], done[lasting], kind[lasting])


def _classes(causes: Causes, core: Core, edge: Rows) -> Codes:
    """Class of each segment: of its edge, and of GPU work what that does."""
    kind = np.array([_OF_EDGE[one] for one in Edge], np.int8)[causes.kind[edge]]
    gaps = np.isin(causes.kind[edge], (Edge.stream, Edge.event))
    gaps &= causes.time[causes.after[edge]] - causes.time[causes.before[edge]] > UNEXPLAINED_NS
    kind[gaps] = Class.unrecorded  # it must have waited for something that the trace does not show
    runs = np.flatnonzero(causes.kind[edge] == Edge.run)
    work = gpu_classes(core, causes.row[causes.after[edge[runs]]])
    kind[runs[work == COMMUNICATION]] = Class.communication
    kind[runs[work == MEMCPY]] = Class.copy
    return kind


def _split(causes: Causes, core: Core, edge: Rows, start: Ns, end: Ns, kind: Codes) -> tuple[Rows, Ns, Ns, Codes]:
    """Segments of collectives whose ranks are not all in the set, as two: waiting for them, and moving data.

    Moving the data is taken to last as long as in the shortest equal collective of the rank.
    """
    alone = np.flatnonzero((kind == Class.communication) & ~causes.is_whole[causes.after[edge]])
    moving = end.copy()
    if len(alone):
        shortest = shortest_equal(core, causes.row[causes.after[edge[alone]]])
        moving[alone] = np.maximum(end[alone] - shortest, start[alone])
    waiting = alone[moving[alone] > start[alone]]
    if not len(waiting):
        return edge, start, end, kind
    # Half a place ahead: a wait goes right before what is left of its segment.
    order = np.argsort(np.concatenate((np.arange(len(edge)), waiting - 0.5)), kind="stable")
    begin = start.copy()
    begin[waiting] = moving[waiting]
    peer = np.full(len(waiting), Class.peer, kind.dtype)
    order = order[np.append(end > begin, np.ones(len(waiting), bool))[order]]  # the shortest one may last no time
    return (
        np.concatenate((edge, edge[waiting]))[order],
        np.concatenate((begin, start[waiting]))[order],
        np.concatenate((end, moving[waiting]))[order],
        np.concatenate((kind, peer))[order],
    )


def shortest_equal(core: Core, rows: Rows) -> Ns:
    """For kernels of collectives the duration of the shortest of an equal collective: of kind, type, size and group."""
    c, found = core.columns, collectives_of(core)
    keys: dict[object, int] = {}

    def key_of(row: int) -> int:
        if (at := found.of_row.get(row)) is None:
            alike: object = int(c.name[row])
        else:
            one = found.nodes[at]
            alike = (one.kind, one.dtype, one.in_elements, one.out_elements, one.group_key, int(c.name[row]))
        return keys.setdefault(alike, len(keys))

    every = np.unique(np.concatenate((rows, np.array(sorted(found.of_row), np.int64))))
    key = np.array([key_of(row) for row in every.tolist()], np.int64)
    shortest = np.full(len(keys), np.iinfo(np.int64).max)
    np.minimum.at(shortest, key, c.dur_ns[every])
    least: np.ndarray = shortest[key[np.searchsorted(every, rows)]]
    return least


class Ties(NamedTuple):
    """Edges that came nearly as late as the binding edge of a point on a path.

    Attributes:
        edge: the edges.
        margin_ns: how much earlier each would have allowed its point.
        points: number of different points that they lead to.
    """

    edge: Rows
    margin_ns: Ns
    points: int


def ties_of(causes: Causes, on_path: Rows) -> Ties:
    """Edges into points of a path that would have allowed them nearly as late as those that bind them.

    Args:
        causes: the points of a rank.
        on_path: the edges of the path.
    """
    into = causes.into.of(causes.after[on_path])
    binding = causes.binding[causes.after[into]]
    last, other = (causes.time[causes.before[edge]] + causes.usual_ns[causes.kind[edge]] for edge in (binding, into))
    margin = last - other
    near = (into != binding) & (margin < NEAR_NS) & (causes.time[causes.before[into]] < causes.time[causes.after[into]])
    order = np.argsort(margin[near], kind="stable")
    return Ties(into[near][order], margin[near][order], len(np.unique(causes.after[into[near]])))
