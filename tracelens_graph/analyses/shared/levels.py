"""Quantities that change at moments, such as the length of a queue: their course, and figures of stretches of time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.utils.arrays import Mask, Ns

POINTS = 20
"""Stretches of time that people are shown."""
_MOST_POINTS = 1_000_000


class Levels(NamedTuple):
    """The course of a quantity: from each moment to the next it is `level`, before the first 0; arrays of one length.

    Attributes:
        at: moments, ns, ascending and different.
        level: what it is from then on.
    """

    at: Ns
    level: np.ndarray

    @classmethod
    def of(cls, at: Ns, change: np.ndarray) -> Levels:
        """The course by moments, in any order, at which the quantity changes by so much; 0 before the first."""
        order = np.argsort(at, kind="stable")
        moments = at[order]
        last = np.append(moments[1:] != moments[:-1], True)[: len(at)]
        return cls(moments[last], np.cumsum(change[order])[last])

    def times_of(self, holds: Mask) -> Levels:
        """A course of 1 while something holds of the level, else 0."""
        return Levels(self.at, holds.astype(np.int64))

    def total_before(self, moments: np.ndarray) -> np.ndarray:
        """Level times ns, added up to each of some moments."""
        if not len(self.at):
            return np.zeros(len(moments))
        running = np.append(0, np.cumsum(self.level[:-1] * np.diff(self.at)))
        place = np.searchsorted(self.at, moments, "right") - 1
        return np.where(place < 0, 0, running[place] + self.level[place] * (moments - self.at[place]))

    @property
    def total(self) -> float:
        """Level times ns, added up over all of it."""
        return float((self.level[:-1] * np.diff(self.at)).sum())

    def mean(self, edges: Ns) -> np.ndarray:
        """The mean level between each edge and the next one; edges are ascending and different."""
        return np.asarray(np.diff(self.total_before(edges)) / np.diff(edges))

    def greatest(self, edges: Ns) -> np.ndarray:
        """The greatest level between each edge and the next one; edges are ascending and different."""
        moments = np.unique(np.concatenate((self.at[(self.at > edges[0]) & (self.at < edges[-1])], edges[:-1])))
        place = np.searchsorted(self.at, moments, "right") - 1
        levels = np.append(self.level, 0)[place]
        return np.asarray(np.maximum.reduceat(levels, np.searchsorted(moments, edges[:-1])))


def edges_of(courses: list[Levels], points: int) -> Iterator[Ns]:
    """For each course the edges of the stretches that it is shown in.

    Args:
        courses: the courses, each with two changes or more.
        points: number of equal stretches from the first change of all of them to the last; 0 for one from each change
            of a course to its next one.

    Raises:
        AnalysisError: `points` is less than 0, or more than a million.
    """
    if not 0 <= points <= _MOST_POINTS:
        limits = f"up to {_MOST_POINTS:,}, 0 for one from each change to the next"
        raise AnalysisError(f"points is a number of stretches, {limits}, not {points}")
    if not points:
        yield from (one.at for one in courses)
    elif courses:
        begin, end = min(int(one.at[0]) for one in courses), max(int(one.at[-1]) for one in courses)
        edges = np.unique(np.array([begin + (end - begin) * i // points for i in range(points + 1)], np.int64))
        yield from (edges for _ in courses)


START_US = Column("when the stretch begins, counted from the zero of Perfetto UI", "us", Role.key, cells="number")
END_US = Column.moment("when it ends", "us", drop_priority=1)


def stretches(core: Core, edges: Ns) -> dict[str, np.ndarray]:
    """Columns `start_us` and `end_us` of the stretches between edges."""
    shown = np.asarray(core.info.shown_ms(edges) * 1e3)
    return {"start_us": shown[:-1], "end_us": shown[1:]}
