"""The walk back over binding causes, and what each segment of it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.path_nodes import Nodes, nodes_of, segment_rows
from tracelens_graph.analyses.critical_path.points import UNEXPLAINED_NS, Edge
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, MEMCPY, gpu_classes
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.graph.core import Core

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
    Edge.transfer: Class.communication,
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Path:
    """A critical path: segments one behind the other; each begins where the one before it ends.

    Attributes:
        causes: the points of the ranks and what bound them.
        step: number of the step; None for all there is.
        sink: the point that the path leads to.
        edge: per segment its edge of `causes`, -1 where nothing is recorded that the path could follow.
        start_ns, end_ns: per segment from when to when it lasts, on the clock of the set, ns.
        kind: per segment its `Class`.
    """

    causes: Causes
    step: int | None
    sink: int
    edge: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    kind: np.ndarray

    @cached_property
    def length_ns(self) -> int:
        """From the beginning of the path to its end, ns: the sum of its segments."""
        return int((self.end_ns - self.start_ns).sum())

    def __repr__(self) -> str:
        spent = sorted(self.ns_by_class.items(), key=lambda item: -item[1])
        shares = ", ".join(f"{name} {100 * ns / self.length_ns:.1f} %" for name, ns in spent)
        return f"<{self.title}: {self.length_ns / 1e6:,.3f} ms{f': {shares}' if shares else ''}>"

    @property
    def title(self) -> str:
        """What the path is of."""
        count = len(self.causes.traces)
        ranks = f"{count:,} ranks" if count > 1 else "1 rank"
        of = "Critical path" if self.step is None else f"Critical path of step {self.step}"
        return self.causes.traces.titled(f"{of}, {ranks}")

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the path."""
        notes = list(self.causes.notes)
        if (missing := int((self.end_ns - self.start_ns)[self.kind == Class.unrecorded].sum())) > 0:
            notes.append(f"{missing / 1e6:,.3f} ms of the path have no recorded cause")
        if ties := len(self.ties.edge):
            points, others = self.ties.points, "another cause" if ties == 1 else f"{ties:,} other causes"
            place = "1 point" if points == 1 else f"{points:,} points"
            notes.append(
                f"{place} of the path might as well follow from {others}, less than {NEAR_NS / 1e3:g} us behind"
            )
        return notes

    @cached_property
    def ns_by_class(self) -> dict[str, int]:
        """Time on the path by class, ns; adds up to `length_ns`."""
        spent = np.zeros(len(Class), np.int64)
        np.add.at(spent, self.kind, self.end_ns - self.start_ns)
        return {one.name: int(spent[one]) for one in Class if spent[one]}

    @cached_property
    def ordinal(self) -> np.ndarray:
        """Per segment the place of its rank in the set; -1 where nothing is recorded."""
        return np.where(self.edge >= 0, self.causes.ordinal[self.causes.after[self.edge]], -1)

    @cached_property
    def came_from(self) -> np.ndarray:
        """Per segment the place of the rank that the path comes from; -1 where nothing is recorded."""
        return np.where(self.edge >= 0, self.causes.ordinal[self.causes.before[self.edge]], -1)

    @cached_property
    def ties(self) -> Ties:
        """Points of the path that might as well have followed from something else."""
        return _ties(self)

    @cached_property
    def nodes(self) -> Nodes:
        """Per segment the node that stands for it."""
        rows = segment_rows(self.causes, self.edge, self.start_ns, self.end_ns)
        return nodes_of(self.causes, self.ordinal, rows)


@dataclass(frozen=True, eq=False)
class Ties:
    """Edges that came nearly as late as the binding edge of a point on a path.

    Attributes:
        edge: the edges.
        margin_ns: how much earlier each would have allowed its point.
        points: number of different points that they lead to.
    """

    edge: np.ndarray
    margin_ns: np.ndarray
    points: int


Segments = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def walk(causes: Causes, start: int | None, end: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The path that leads to the last GPU end at a moment, from another moment on.

    Returns:
        The point that it leads to, and per segment its edge, start, end and class; see `Path`.
    """
    sink = int(causes.last_ends(np.array([end], np.int64))[0])
    edge, begun, done, kind = segments_of(causes, followed(causes, sink, start), start)
    if start is not None and (first := int(begun[0]) if len(edge) else end) > start:
        edge, begun, done = np.append(-1, edge), np.append(start, begun), np.append(first, done)
        kind = np.append(np.int8(Class.unrecorded), kind)
    return sink, edge, begun, done, kind


def followed(causes: Causes, at: int, start: int | None) -> np.ndarray:
    """The edges that lead to a point, in the order of time, from a moment on or as far as is known."""
    time, binding, before = causes.time, causes.binding, causes.before
    found = []
    while (start is None or time[at] > start) and (bound := int(binding[at])) >= 0:
        found.append(bound)
        at = int(before[bound])
    return np.array(found[::-1], np.int64)


def segments_of(causes: Causes, edge: np.ndarray, start: int | None) -> Segments:
    """Edge, start, end and class of the segments of edges, one behind the other, from a moment on."""
    begun, done = causes.time[causes.before[edge]], causes.time[causes.after[edge]]
    if start is not None:
        begun = np.maximum(begun, start)
    kind = _classes(causes, edge)
    lasting = done > begun
    return _split(causes, edge[lasting], begun[lasting], done[lasting], kind[lasting])


def _classes(causes: Causes, edge: np.ndarray) -> np.ndarray:
    """Class of each segment: of its edge, and of GPU work what that does."""
    kind = np.array([_OF_EDGE[one] for one in Edge], np.int8)[causes.kind[edge]]
    gaps = np.isin(causes.kind[edge], (Edge.stream, Edge.event))
    gaps &= causes.time[causes.after[edge]] - causes.time[causes.before[edge]] > UNEXPLAINED_NS
    kind[gaps] = Class.unrecorded  # it must have waited for something that the trace does not show
    runs = np.flatnonzero(causes.kind[edge] == Edge.run)
    point = causes.after[edge[runs]]
    for ordinal, of in positions_by(causes.ordinal[point]):
        work = gpu_classes(causes.core(ordinal), causes.row[point[of]])
        kind[runs[of[work == COMMUNICATION]]] = Class.communication
        kind[runs[of[work == MEMCPY]]] = Class.copy
    return kind


def _split(causes: Causes, edge: np.ndarray, start: np.ndarray, end: np.ndarray, kind: np.ndarray) -> Segments:
    """Segments of collectives whose ranks are not all in the set, as two: waiting for them, and moving data.

    Moving the data is taken to last as long as in the shortest equal collective of the rank.
    """
    alone = np.flatnonzero((kind == Class.communication) & ~causes.is_whole[causes.after[edge]])
    point = causes.after[edge[alone]]
    moving = end.copy()
    for ordinal, of in positions_by(causes.ordinal[point]):
        shortest = shortest_equal(causes.core(ordinal), causes.row[point[of]])
        moving[alone[of]] = np.maximum(end[alone[of]] - shortest, start[alone[of]])
    waiting = alone[moving[alone] > start[alone]]
    if not len(waiting):
        return edge, start, end, kind
    # Half a place ahead: a wait goes right before what is left of its segment.
    order = np.argsort(np.concatenate((np.arange(len(edge)), waiting - 0.5)), kind="stable")
    first_start, rest_start = start[waiting], start.copy()
    rest_start[waiting] = moving[waiting]
    peer = np.full(len(waiting), Class.peer, kind.dtype)
    return (
        np.concatenate((edge, edge[waiting]))[order],
        np.concatenate((rest_start, first_start))[order],
        np.concatenate((end, moving[waiting]))[order],
        np.concatenate((kind, peer))[order],
    )


def shortest_equal(core: Core, rows: np.ndarray) -> np.ndarray:
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


def _ties(path: Path) -> Ties:
    """Edges into points of the path that would have allowed them nearly as late as those that bind them."""
    causes = path.causes
    on_path = path.edge[path.edge >= 0]
    # A collective that ends on the path was bound by whoever came last, though that took no time.
    arrivals = causes.before[on_path[causes.kind[on_path] == Edge.transfer]]
    into = causes.into.of(np.append(causes.after[on_path], arrivals))
    binding = causes.binding[causes.after[into]]
    last, other = (causes.time[causes.before[edge]] + causes.usual_ns[causes.kind[edge]] for edge in (binding, into))
    margin = last - other
    near = (into != binding) & (margin < NEAR_NS) & (causes.time[causes.before[into]] < causes.time[causes.after[into]])
    near |= (into != binding) & (margin < NEAR_NS) & (causes.kind[into] == Edge.arrive)
    order = np.argsort(margin[near], kind="stable")
    return Ties(into[near][order], margin[near][order], len(np.unique(causes.after[into[near]])))
