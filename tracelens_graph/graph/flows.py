"""Arrows between events, in columns, for a trace can have as many of them as events; GPU events and their launches.

Launches are found by correlation id; where there is none, by arrows, and else by External id.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np

from tracelens_graph.utils.arrays import Codes, Ns, Numbering

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


DEPENDENCY_ID = 2**40
"""Flow ids from here on are dependencies between GPU events, never launches."""


def link_by_id(call_id: np.ndarray, call_start: Ns, gpu_id: np.ndarray, gpu_start: Ns) -> np.ndarray:
    """For each GPU event the position of the runtime call with its id (-1: no id), -1 without one.

    Where several calls share an id (several processes in one file, ids used again), the latest call that began
    before the GPU event is taken, else the earliest.
    """
    found = np.full(len(gpu_id), -1, np.int64)
    calls = np.flatnonzero(call_id != -1)
    wanted = np.flatnonzero(gpu_id != -1)
    if not len(calls) or not len(wanted):
        return found
    calls = calls[np.lexsort((call_start[calls], call_id[calls]))]
    ids = call_id[calls]
    lo = np.searchsorted(ids, gpu_id[wanted], "left")
    hi = np.searchsorted(ids, gpu_id[wanted], "right")
    known = hi > lo
    wanted, pick, several = wanted[known], lo[known], (hi - lo > 1)[known]
    if several.any():
        asked = wanted[several]
        # If no call had begun yet, the count points before the id's first call: the maximum keeps that one.
        begun = _begun(ids, call_start[calls], gpu_id[asked], gpu_start[asked])
        pick[several] = np.maximum(pick[several], begun - 1)
    found[wanted] = calls[pick]
    return found


def _begun(ids: np.ndarray, start: Ns, id_asked: np.ndarray, at: Ns) -> np.ndarray:
    """For each id and instant how many calls stand before it, of calls by id and start; one at the instant does."""
    is_asked = np.repeat((False, True), (len(ids), len(id_asked)))
    order = np.lexsort((is_asked, np.concatenate((start, at)), np.concatenate((ids, id_asked))))
    begun = np.empty(len(order), np.int64)
    begun[order] = np.cumsum(~is_asked[order])
    return begun[len(ids) :]


def link_by_flow(
    flows: Sequence[Flow],
    call_at: dict[tuple[int, int], int],
    gpu_at: dict[tuple[int, int], list[int]],
) -> dict[int, int]:
    """GPU event -> runtime call, for events that only an arrow joins.

    Args:
        flows: both ends of the arrows.
        call_at: (thread, start in ns) -> position of a runtime call without a usable correlation id.
        gpu_at: (thread, start in ns) -> positions of GPU events without one.
    """
    starts: dict[Any, int] = {}
    for phase, key, thread, time in flows:
        if phase == "s" and not _is_dependency(key) and (thread, time) in call_at:
            starts[key] = call_at[thread, time]
    linked: dict[int, int] = {}
    for phase, key, thread, time in flows:
        if phase == "f" and key in starts:
            for position in gpu_at.get((thread, time), ()):
                linked.setdefault(position, starts[key])
    return linked


def dependencies(
    flows: Sequence[Flow], gpu_thread: np.ndarray, gpu_start: Ns, device_threads: set[int]
) -> list[tuple[int, int]]:
    """(successor, predecessor) positions of GPU events joined by arrows from device to device.

    An arrow starts at the end of the predecessor and finishes at the start of its successor.
    """
    starts = {key: (thread, time) for phase, key, thread, time in flows if phase == "s" and thread in device_threads}
    if not starts:
        return []
    order = np.lexsort((gpu_start, gpu_thread))
    threads, begin = gpu_thread[order], gpu_start[order]

    def latest(thread: int, time: int, inclusive: bool) -> int:
        lo, hi = np.searchsorted(threads, (thread, thread + 1))
        at = lo + np.searchsorted(begin[lo:hi], time, "right" if inclusive else "left") - 1
        return int(order[at]) if at >= lo else -1

    pairs = set()
    for phase, key, thread, time in flows:
        # An arrow from a place to itself joins nothing.
        if phase == "f" and starts.get(key, (thread, time)) != (thread, time) and thread in device_threads:
            # What starts where an arrow does is the next event already: the predecessor ends there.
            before = latest(*starts[key], inclusive=False)
            after = latest(thread, time, inclusive=True)
            if before >= 0 and after >= 0 and before != after:
                pairs.add((after, before))
    return sorted(pairs)


def _is_dependency(key: Any) -> bool:
    try:
        return int(key) >= DEPENDENCY_ID
    except (TypeError, ValueError):
        return False
