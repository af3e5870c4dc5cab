"""GPU events of a rank in the order in which streams take them."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, gpu_classes
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import launches_of
from tracelens_graph.utils.arrays import Ns, Rows


class GpuQueue:
    """GPU events of a rank in the order in which streams take them.

    Attributes:
        rows: rows of the GPU events, by device, stream and start.
        lane: number of the stream of each, over all devices.
        launched_ns: when it, or one before it on its stream, was launched: streams keep the order of launches.
    """

    def __init__(self, core: Core) -> None:
        c = core.columns
        self.core = core
        self.rows = core.device_order
        device, stream = c.device[self.rows].astype(np.int64), c.stream[self.rows].astype(np.int64)
        self.start_ns = c.start_ns[self.rows]
        self.end_ns = self.start_ns + c.dur_ns[self.rows]
        new = np.ones(len(self.rows), bool)
        new[1:] = (device[1:] != device[:-1]) | (stream[1:] != stream[:-1])
        self.lane = np.cumsum(new) - 1
        self.first = np.flatnonzero(new)
        self._lane_of = {
            key: lane for lane, key in enumerate(zip(device[new].tolist(), stream[new].tolist(), strict=True))
        }
        self.launch = launches_of(c, self.rows)
        known = self.launch >= 0
        launched = np.where(known, c.start_ns[self.launch], -1)
        self._moments, code = np.unique(launched, return_inverse=True)
        width = len(self._moments) + 1
        # The stream is the high part of the key, so that one running maximum serves all streams.
        self._key = np.maximum.accumulate(self.lane * width + code)
        self._width = width
        self.launched_ns = self._moments[self._key - self.lane * width]

    @property
    def lanes(self) -> int:
        """Number of streams, over all devices."""
        return len(self.first)

    def lane_of(self, device: int, stream: int) -> int:
        """Number of a stream; -1 for one that ran nothing."""
        return self._lane_of.get((device, stream), -1)

    def lanes_of(self, device: int) -> list[int]:
        """Numbers of all streams of a device."""
        return [lane for (of, _), lane in self._lane_of.items() if of == device]

    def last_before(self, lane: np.ndarray, at: np.ndarray) -> np.ndarray:
        """The last event on each stream that was launched before a moment; -1 without one."""
        return self._near(lane, at, -1)

    def first_after(self, lane: np.ndarray, at: np.ndarray) -> np.ndarray:
        """The first event on each stream that was launched at a moment or later; -1 without one."""
        return self._near(lane, at, 0)

    def _near(self, lane: np.ndarray, at: np.ndarray, beside: int) -> np.ndarray:
        found = np.searchsorted(self._key, lane * self._width + np.searchsorted(self._moments, at), "left") + beside
        # Behind all events, and before them, is one of no stream.
        return np.where((lane >= 0) & (np.append(self.lane, -1)[found] == lane), found, -1)

    @cached_property
    def by_launch(self) -> np.ndarray:
        """Positions of the events whose launch is known, in the order of launches."""
        known = np.flatnonzero(self.launch >= 0)
        return known[np.lexsort((self.launch[known], self.core.columns.start_ns[self.launch[known]]))]

    @cached_property
    def communicates(self) -> np.ndarray:
        """Which events communicate."""
        return gpu_classes(self.core, self.rows) == COMMUNICATION

    @cached_property
    def kinds(self) -> np.ndarray:
        """Kinds of the collectives that events carry out; empty for other work."""
        found = collectives_of(self.core)
        kinds = np.array(["", *(one.kind for one in found.nodes)])
        of_row = np.zeros(len(self.core.columns), np.int64)
        of_row[list(found.of_row)] = np.array(list(found.of_row.values()), np.int64) + 1
        return kinds[of_row[self.rows]]

    def explained_ns(self, waiting: Rows, awaited: Rows) -> Ns:
        """When all that each event is known to follow from has ended: its launch, the one before it, what it awaits."""
        found = np.full(len(self.rows), np.iinfo(np.int64).min)
        known = self.launch >= 0
        found[known] = self.core.columns.end_ns[self.launch[known]]
        same = np.flatnonzero(self.lane[1:] == self.lane[:-1])
        found[same + 1] = np.maximum(found[same + 1], self.end_ns[same])
        np.maximum.at(found, waiting, self.end_ns[awaited])
        return found
