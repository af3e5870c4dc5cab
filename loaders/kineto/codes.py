"""Tables that grow while a trace is read: codes of things, and ends of arrows in columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracelens_graph.graph.flows import Flows


class Codes(dict[Any, int]):
    """Numbers things in the order in which they are first seen."""

    def __missing__(self, key: Any) -> int:
        code = self[key] = len(self)
        return code

    def take_over(self, other: Codes) -> np.ndarray:
        """Number what another table holds; for each of its codes the code here."""
        return np.fromiter(map(self.__getitem__, other), np.int64, len(other))


@dataclass
class FlowEnds:
    """Ends of arrows in file order, as `Flows` has them; can be pickled."""

    phases: Codes = field(default_factory=Codes)
    ids: Codes = field(default_factory=Codes)
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
