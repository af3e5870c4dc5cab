"""Ends of arrows between events, in columns: a trace can have as many of them as events."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np

from tracelens_graph.utils.arrays import Codes, Numbering

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
    thread: Codes
    time: np.ndarray

    @classmethod
    def of(cls, flows: Iterable[Flow] = ()) -> Flows:
        """The same ends of arrows in columns."""
        if isinstance(flows, Flows):
            return flows
        ends = FlowEnds()
        for phase, key, thread, time in flows:
            ends.add((phase,), (key,), (thread,), (time,))
        return ends.flows()

    def with_threads(self, code: Codes) -> Flows:
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


@dataclass
class FlowEnds:
    """Ends of arrows in file order, as `Flows` has them; can be pickled."""

    phases: Numbering = field(default_factory=Numbering)
    ids: Numbering = field(default_factory=Numbering)
    phase: array[int] = field(default_factory=lambda: array("i"))
    id: array[int] = field(default_factory=lambda: array("i"))
    thread: array[int] = field(default_factory=lambda: array("i"))
    time: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.time)

    def add(self, phases: Iterable[str], ids: Iterable[Any], threads: Iterable[int], times: Iterable[int]) -> None:
        """Append ends of arrows: phases, ids, codes of threads, times in ns."""
        self.phase.extend(map(self.phases.__getitem__, phases))
        self.id.extend(map(self.ids.__getitem__, ids))
        self.thread.extend(threads)
        self.time.extend(times)

    def join(self, other: FlowEnds, threads: np.ndarray) -> None:
        """Append what another process found, whose codes of threads are `threads` here."""
        columns = (
            (self.phase, self.phases.take_over(other.phases), other.phase),
            (self.id, self.ids.take_over(other.ids), other.id),
            (self.thread, threads, other.thread),
        )
        for column, code, more in columns:
            column.frombytes(code[np.frombuffer(more, np.int32)].astype(np.int32).tobytes())
        self.time += other.time

    def flows(self) -> Flows:
        """All of them, once the trace is read. They must not be added to any more."""
        phase, key, thread = (np.frombuffer(one, np.int32) for one in (self.phase, self.id, self.thread))
        return Flows(list(self.phases), list(self.ids), phase, key, thread, np.frombuffer(self.time, np.int64))
