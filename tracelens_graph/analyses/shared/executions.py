"""Executions of XLA's programs on GPUs: which of them left GPU events in a profile, and which did not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracelens_graph.graph.device_graphs import DeviceDetails
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import Kind

_EXECUTION = ":XLA GPU module"
"""How XLA calls the range in which it launches a program's work for one device, behind the program's name (a `TraceMe`
of `GpuExecutable::ExecuteThunks`)."""


@dataclass(frozen=True)
class Executions:
    """Executions of programs in a window, each device's for itself.

    Attributes:
        row: their calls, ascending.
        lost: which of them left no GPU events although others of the program of that name did: the profiler lost
            their work.
    """

    row: np.ndarray
    lost: np.ndarray

    @property
    def lost_in_all(self) -> int:
        """Number of those whose GPU events are missing."""
        return int(np.count_nonzero(self.lost))

    @property
    def told(self) -> str:
        """`75 of 80 executions left no GPU events`; "" where none is known to be missing."""
        lost = self.lost_in_all
        return f"{lost:,} of {len(self.row):,} executions of programs left no GPU events" if lost else ""


def recorded_executions(w: Window) -> Executions:
    """The executions whose calls are in a window; computed once."""
    every, lost = w.whole.once(_executions)
    inside = w.holds(every)
    return Executions(every[inside], lost[inside])


def _executions(whole: Window) -> tuple[np.ndarray, np.ndarray]:
    core, c = whole.core, whole.core.columns
    named = np.array([name.endswith(_EXECUTION) for name in core.names] or [False])
    calls = whole.rows_of_kind(Kind.RuntimeCall)
    calls = calls[named[c.name[calls]]]
    gpu = core.gpu_rows
    events = np.searchsorted(gpu, c.last[calls], "right") - np.searchsorted(gpu, calls, "right")
    empty = events == 0
    lost = empty & np.isin(c.name[calls], c.name[calls[~empty]])
    unlinked = int(np.count_nonzero(c.parent[gpu] < 0))
    # Theirs may be events whose launch is unknown, in a graph of one device events of the others, and in a piece of a
    # profile those that lie outside.
    is_part = isinstance(core.details, DeviceDetails) or "generator" in core.info.metadata
    if is_part or unlinked >= max(int(np.count_nonzero(lost)), 1):
        lost[:] = False
    return calls, lost
