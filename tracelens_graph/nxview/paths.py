"""Critical paths of a job as nodes and edges of the graph of all ranks, made when someone looks at them."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.critical_path.critical_path import JobPaths
from tracelens_graph.graph.trace_set import NODES_PER_TRACE
from tracelens_graph.nxview.adjacency import NOTHING
from tracelens_graph.nxview.lazy import FrozenDict

FIRST_PATH = 2**39 + 2**37
"""Numbers of paths begin here among those of nodes that belong to no trace, and those of their segments further on."""

FIRST_SEGMENT = 2**39 + 2**38

_ON_PATH, _OF_PATH, _NEXT = (FrozenDict({name: NOTHING}) for name in ("ON_PATH", "OF_PATH", "NEXT_ON_PATH"))


class PathNodes:
    """A `CriticalPath` node per path and a `PathSegment` node per segment, with their edges.

    Args:
        paths: the paths.
        base: number of the first node that belongs to no trace.
    """

    def __init__(self, paths: JobPaths, base: int) -> None:
        self._paths = paths
        self._first_path, self._first_segment = base + FIRST_PATH, base + FIRST_SEGMENT
        segment, ordinal, uid = paths.events
        event = ordinal.astype(np.int64) * NODES_PER_TRACE + uid
        self._event_of = dict(zip(segment.tolist(), event.tolist(), strict=True))
        order = np.argsort(event, kind="stable")
        self._segments_of: dict[int, list[int]] = {}
        for node, number in zip(event[order].tolist(), segment[order].tolist(), strict=True):
            self._segments_of.setdefault(node, []).append(self._first_segment + number)

    @property
    def keys(self) -> list[int]:
        """Numbers of the nodes: of the paths, then of the segments."""
        paths, segments = len(self._paths.paths), len(self._paths.path)
        return [
            *range(self._first_path, self._first_path + paths),
            *range(self._first_segment, self._first_segment + segments),
        ]

    @property
    def edges(self) -> int:
        """How many edges there are."""
        following = int((np.diff(self._paths.path) == 0).sum())
        return len(self._paths.path) + following + len(self._event_of)

    def of_step(self, step: int | None) -> int | None:
        """The node of the path of a step, or with None of everything; None where there is no such path."""
        steps = [path.step for path in self._paths.paths]
        return self._first_path + steps.index(step) if step in steps else None

    def attributes(self, key: int) -> FrozenDict:
        """The attributes of a node."""
        if key < self._first_segment:
            kind, known = "CriticalPath", self._paths.about(key - self._first_path)
        else:
            number = key - self._first_segment
            kind, known = "PathSegment", {name: values[number] for name, values in self._paths.columns.items()}
        return FrozenDict({"kind": kind, **{name: value for name, value in known.items() if value is not None}})

    def out(self, key: int) -> dict[int, FrozenDict]:
        """The edges from a node, of a path or not: neighbour -> type -> attributes."""
        if (number := self._number(key)) is None:
            return dict.fromkeys(self._segments_of.get(key, ()), _ON_PATH)
        path = int(self._paths.path[number])
        of_path = {self._first_path + path: _OF_PATH}
        return of_path | ({key + 1: _NEXT} if number + 1 < self._paths.first[path + 1] else {})

    def into(self, key: int) -> dict[int, FrozenDict]:
        """The edges to a node."""
        if (number := self._number(key)) is not None:
            event = {self._event_of[number]: _ON_PATH} if number in self._event_of else {}
            return event | ({key - 1: _NEXT} if number > self._paths.first[self._paths.path[number]] else {})
        path = key - self._first_path
        if not 0 <= path < len(self._paths.paths):
            return {}
        low, high = self._paths.first[path : path + 2].tolist()
        return dict.fromkeys(range(self._first_segment + low, self._first_segment + high), _OF_PATH)

    def _number(self, key: int) -> int | None:
        """Number of the segment that a node is; None if it is none."""
        return key - self._first_segment if 0 <= key - self._first_segment < len(self._paths.path) else None
