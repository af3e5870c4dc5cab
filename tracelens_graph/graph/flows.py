"""Ends of arrows between events, in columns: a trace can have as many of them as events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

Flow = tuple[str, Any, int, int]
"""One end of an arrow: phase (`s` start, `f` finish), id, thread code, time in ns."""

_BLOCK = 1 << 14
"""Ends that are made into tuples at a time."""


@dataclass(frozen=True, eq=False)
class Flows(Sequence[Flow]):
    """Ends of arrows in file order; as a sequence, one `Flow` each.

    Attributes:
        phases, ids: different phases and ids, in any order.
        phase, id: per end the position of its phase and its id among them.
        thread, time: per end the code of its thread, and its time in ns.
    """

    phases: list[str]
    ids: list[Any]
    phase: np.ndarray
    id: np.ndarray
    thread: np.ndarray
    time: np.ndarray

    @classmethod
    def of(cls, flows: Iterable[Flow] = ()) -> Flows:
        """The same ends of arrows in columns."""
        if isinstance(flows, Flows):
            return flows
        phases: dict[str, int] = {}
        ids: dict[Any, int] = {}
        ends = [
            (phases.setdefault(phase, len(phases)), ids.setdefault(key, len(ids)), thread, time)
            for phase, key, thread, time in flows
        ]
        phase, key, thread, time = np.array(ends, np.int64).reshape(-1, 4).T
        return cls(list(phases), list(ids), phase, key, thread, time)

    def with_threads(self, code: np.ndarray) -> Flows:
        """The same ends, where the code of each thread is another."""
        return replace(self, thread=code[self.thread])

    def since(self, origin: int) -> Flows:
        """The same ends, with times counted from another instant."""
        return replace(self, time=self.time - origin)

    def of_phase(self, phase: str) -> np.ndarray:
        """Positions of the ends of a phase, ascending."""
        return np.flatnonzero(self.phase == (self.phases.index(phase) if phase in self.phases else -1))

    def __len__(self) -> int:
        return len(self.time)

    @overload
    def __getitem__(self, index: int) -> Flow: ...
    @overload
    def __getitem__(self, index: slice) -> Flows: ...
    def __getitem__(self, index: int | slice) -> Flow | Flows:
        columns = (self.phase[index], self.id[index], self.thread[index], self.time[index])
        if isinstance(index, slice):
            return Flows(self.phases, self.ids, *columns)
        phase, key, thread, time = map(int, columns)
        return self.phases[phase], self.ids[key], thread, time

    def __iter__(self) -> Iterator[Flow]:
        for begin in range(0, len(self), _BLOCK):
            part = slice(begin, begin + _BLOCK)
            yield from zip(
                map(self.phases.__getitem__, self.phase[part].tolist()),
                map(self.ids.__getitem__, self.id[part].tolist()),
                self.thread[part].tolist(),
                self.time[part].tolist(),
                strict=True,
            )
