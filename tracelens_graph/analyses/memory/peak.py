"""Memory in use: over time, at its peak, and by the module that allocated it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.analyses.memory.blocks import Blocks, blocks_of, whose_work
from tracelens_graph.analyses.memory.instants import NO_VALUE, instants_of, notes_on, without_instants
from tracelens_graph.analyses.places.modules import PASSES
from tracelens_graph.analyses.shared.grouping import Cells, text_codes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table


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
    """Memory over time for each device with allocations or releases: accelerators by index, then the CPU.

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
            if reserved is not None and ((reserved > 0) & (reserved < found.allocated[there])).any():
                reserved = None  # where a total cannot be true, the one before does not fit either
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


DEVICE = Column.key("whose memory: cuda:0, hip:0, cpu", drop_priority=1)

MEMORY_SUMMARY = TableSchema(
    "memory_summary",
    "How much memory of each device is in use, and at most.",
    {
        "device": replace(DEVICE, drop_priority=-1),
        "events": Column.count("number of allocations and releases"),
        "start_bytes": Column("bytes in use before the first of them", "B", drop_priority=1),
        "peak_bytes": Column("most bytes in use", "B", drop_priority=-1),
        "end_bytes": Column("bytes in use behind the last of them", "B", drop_priority=1),
        "peak_us": Column.moment("the first moment at which most bytes are in use", "us"),
        "peak_reserved_bytes": Column("most device memory that the allocator holds", "B", drop_priority=0),
        "fragmentation_bytes": Column(
            "bytes that the allocator holds at peak_us without using them", "B", drop_priority=0
        ),
        "unreleased": Column.count("number of allocations that are not released in the recording", drop_priority=2),
        "unreleased_bytes": Column.total("sum of their sizes", "B"),
        "earlier": Column.count("number of releases of what was allocated before the recording", drop_priority=3),
        "earlier_bytes": Column.total("sum of their sizes", "B", drop_priority=3),
    },
)


class Peak(NamedTuple):
    """The moment of a device at which most of its bytes are in use.

    Attributes:
        device: its name.
        here: where its instants stand.
        held: positions of those in the window.
        at: position of the first instant with the most bytes.
    """

    device: str
    here: slice
    held: np.ndarray
    at: int


def peaks(w: Window) -> Iterator[Peak]:
    """The peak of each device that has instants in a window."""
    found = instants_of(w.core)
    inside = w.holds(found.rows)
    for device, here in found.of_devices():
        held = here.start + np.flatnonzero(inside[here])
        if len(held):
            yield Peak(device, here, held, int(held[np.argmax(found.allocated[held])]))


def memory_summary(g: Core | Window) -> Table:
    """The memory of each device in use at the beginning, at the peak, and at the end.

    Args:
        g: the graph, or a window of it: allocations and releases in it count, with the totals of the whole trace.
    """
    w = window_of(g)
    core, title = w.core, w.titled("Memory")
    found, blocks = instants_of(core), blocks_of(core)
    if not w.holds(found.rows).any():
        return without_instants(MEMORY_SUMMARY, title, w)
    rows: list[tuple[Any, ...]] = []
    for peak in peaks(w):
        last, most = peak.held[-1], int(found.allocated[peak.at])
        recorded = peak.held[~found.is_before[peak.held]]
        first = recorded[0] if len(recorded) else last
        start = int(found.allocated[first] - (found.change[first] if len(recorded) else 0))
        max_reserved = int(found.reserved[peak.held].max())
        max_reserved = max_reserved if max_reserved >= most else NO_VALUE
        kept = blocks.bytes[np.isin(blocks.begin, recorded) & ~blocks.is_released]
        given_back = blocks.end[blocks.is_released & found.is_before[blocks.begin]]
        earlier = -found.change[np.intersect1d(np.append(blocks.before, given_back), recorded)]
        rows.append(
            (peak.device, len(recorded), start, most,
             int(found.allocated[last]), shown_us(core, found.rows[peak.at]), held_then(max_reserved, 0)[0],
             held_then(found.reserved[peak.at], most)[1], len(kept), int(kept.sum()), len(earlier), int(earlier.sum()))
        )  # fmt: skip
    rows.sort(key=lambda row: device_key(row[0]))
    columns: dict[str, Cells] = {name: [row[i] for row in rows] for i, name in enumerate(MEMORY_SUMMARY)}
    return MEMORY_SUMMARY.table(columns, title, notes_on(w))


def device_key(name: str) -> tuple[bool, int, str]:
    """Accelerators first, by index."""
    return name.startswith("cpu"), len(name), name


def held_then(reserved: int, allocated: int) -> tuple[int | None, int | None]:
    """Reserved bytes, and what of them is not in use; None where they are not recorded, as on the CPU."""
    if reserved in (NO_VALUE, 0):
        return None, None
    return int(reserved), int(reserved) - allocated


def shown_us(core: Core, row: int) -> float:
    """When an event begins, us from the zero of Perfetto UI."""
    return float(core.info.shown_ms(int(core.columns.start_ns[row])) * 1e3)


ALLOCATIONS_BY_MODULE = TableSchema(
    "allocations_by_module",
    "What modules allocate, forward and backward, for how long, and what they leave.",
    {
        "device": DEVICE,
        "module_path": Column.key(
            "names of the modules around what allocates, joined by /; in brackets what is of no "
            "module, or of the optimizer"
        ),
        "pass": Column.key("forward, backward or optimizer"),
        "allocations": Column.count("number of allocations"),
        "allocated_bytes": Column.total("sum of their sizes", "B", drop_priority=-1),
        "released_bytes": Column.total(
            "part of it that is released in the recording, whoever releases it", "B", drop_priority=3
        ),
        "net_bytes": Column.total("the rest of it", "B", drop_priority=1),
        "peak_bytes": Column("most bytes of these that are in use at one moment", "B", Role.max, drop_priority=0),
        "unreleased": Column.count("number of those that are not released in the recording", drop_priority=3),
        "mean_lifetime_us": Column(
            "mean time from allocation to release of those that are released", "us", drop_priority=2
        ),
        "uid": Column.uid(
            "the call of the module, or the step of the optimizer, that allocates first; absent for none"
        ),
    },
)


def allocations_by_module(g: Core | Window) -> Table:
    """Memory that modules allocate, forward and backward, its lifetime, and what is not released; most bytes first.

    Each allocation counts once, for the innermost module that it belongs to; see `memory_peak`.

    Args:
        g: the graph, or a window of it: allocations in it count, whenever they are released.
    """
    w = window_of(g)
    core, c, title = w.core, w.core.columns, w.titled("Allocations by module")
    found, blocks = instants_of(core), blocks_of(core)
    inside = np.flatnonzero((w.holds(found.rows) & ~found.is_before)[blocks.begin])
    if not len(inside):
        return without_instants(ALLOCATIONS_BY_MODULE, title, w)
    whose, begin, size = whose_work(core), blocks.begin[inside], blocks.bytes[inside]
    path = text_codes(whose.paths)[whose.path[begin]]
    group = text_codes(
        list(zip(found.device[begin].tolist(), path.tolist(), whose.passes[begin].tolist(), strict=True))
    )
    firsts = np.unique(group, return_index=True)[1]
    groups, released = len(firsts), blocks.is_released[inside]
    at = c.start_ns[found.rows]
    lifetime = np.where(released, at[blocks.end[inside]] - at[begin], 0)
    count, freed = np.bincount(group, minlength=groups), np.bincount(group[released], minlength=groups)
    allocated, given_back = sum_by_group(group, size, groups), sum_by_group(group, size * released, groups)
    lived, most = sum_by_group(group, lifetime, groups), _peaks(blocks, inside, group, groups, len(found))
    rows: list[tuple[Any, ...]] = []
    for place, first in enumerate(begin[firsts].tolist()):
        module, gone = int(whose.module[first]), int(freed[place])
        rows.append((
            found.devices[found.device[first]],
            whose.paths[whose.path[first]],
            PASSES[whose.passes[first]],
            int(count[place]),
            int(allocated[place]),
            int(given_back[place]),
            int(allocated[place] - given_back[place]),
            int(most[place]),
            int(count[place]) - gone,
            int(lived[place]) / 1e3 / gone if gone else None,
            int(c.uid[module]) if module >= 0 else None,
        ))  # fmt: skip
    rows.sort(key=lambda row: (device_key(row[0]), -row[4], row[1], row[2]))
    columns: dict[str, Cells] = {name: [row[i] for row in rows] for i, name in enumerate(ALLOCATIONS_BY_MODULE)}
    return ALLOCATIONS_BY_MODULE.table(columns, title, notes_on(w))


def _peaks(blocks: Blocks, inside: np.ndarray, group: np.ndarray, groups: int, behind: int) -> np.ndarray:
    """Most bytes of each group of blocks that are alive at one moment.

    Args:
        blocks: blocks of the trace.
        inside: which of them.
        group: the group of each of these; all of a group are of one device.
        groups: number of groups.
        behind: a position behind all.
    """
    end = np.where(blocks.end[inside] >= 0, blocks.end[inside], behind)
    position, change = np.concatenate((blocks.begin[inside], end)), np.tile(blocks.bytes[inside], 2)
    change[len(inside) :] *= -1
    of = np.tile(group, 2)
    order = np.lexsort((change, position, of))  # what ends where another begins, at one address, ends before
    total = np.cumsum(change[order])  # every block ends, so each group begins at zero
    most = np.zeros(groups, np.int64)
    np.maximum.at(most, of[order], total)
    return most
