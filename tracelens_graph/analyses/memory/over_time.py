"""How much memory allocators hold over time, device by device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.memory.instants import NO_VALUE, instants_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of


@dataclass(frozen=True)
class DeviceMemory:
    """What the allocator of a device did in a window, a step at each allocation and release; arrays of one length.

    Attributes:
        device: such as `cuda:0`, `hip:0` or `cpu`.
        time_ns: moments from the trace's start, ascending.
        change_bytes: bytes allocated (positive) or released (negative).
        allocated_bytes: bytes in use from then on; what was in use before the recording is among them where the
            profiler recorded totals. That of the CPU counts from the beginning of the recording.
        reserved_bytes: bytes that the allocator holds of the device from then on; None where that is not recorded, as
            on the CPU. Where single ones are not, the one before stands for them.
        rows: rows of the `MemoryEvent` nodes.
    """

    device: str
    time_ns: np.ndarray
    change_bytes: np.ndarray
    allocated_bytes: np.ndarray
    reserved_bytes: np.ndarray | None
    rows: np.ndarray


def memory_over_time(g: Core | Window) -> list[DeviceMemory]:
    """Memory over time of each device with allocations or releases: accelerators by index, then the CPU.

    Totals are those that the profiler recorded with each instant. Where it recorded none, changes are summed up, above
    what was released but never allocated.

    Args:
        g: the graph, or a window of it; totals are those of the whole trace.

    Raises:
        ChangedTraceError: the file is no longer the one that was loaded.
    """
    w = window_of(g)
    found, c = instants_of(w.core), w.core.columns
    held = w.holds(found.rows)
    devices = []
    for name, here in found.of_devices():
        there = np.flatnonzero(held[here]) + here.start
        if len(there):
            rows = found.rows[there]
            reserved = _filled(found.reserved[there])
            devices.append(
                DeviceMemory(name, c.start_ns[rows], found.change[there], found.allocated[there], reserved, rows)
            )
    return devices


def _filled(reserved: np.ndarray) -> np.ndarray | None:
    """Gaps filled with what stands before them; None without anything but zeros, as allocators of the CPU write."""
    known = reserved != NO_VALUE
    if not (reserved[known] > 0).any():
        return None
    last = np.maximum.accumulate(np.where(known, np.arange(len(reserved)), -1))
    return np.asarray(reserved[np.where(last >= 0, last, int(np.argmax(known)))])
