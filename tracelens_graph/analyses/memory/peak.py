"""What memory is in use when most of it is, and how much there is of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.analyses.memory.blocks import blocks_of, whose_work
from tracelens_graph.analyses.memory.instants import NO_VALUE, instants_of
from tracelens_graph.analyses.memory.notes import notes_on, without_instants
from tracelens_graph.analyses.places.python_lines import frames_with_line
from tracelens_graph.analyses.shared.gpu_work import names_of
from tracelens_graph.analyses.shared.grouping import Cells, text_codes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import climb
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

_ALLOCATED = Column("bytes in use then", "B")

_RESERVED = Column("bytes that the allocator holds of the device then; absent where that is not recorded", "B")

_FRAGMENTATION = Column("what of it is not in use: reserved_bytes less allocated_bytes", "B")

DEVICE = Column.key("whose memory: cuda:0, hip:0, cpu", drop_priority=1)

MEMORY_PEAK = TableSchema(
    "memory_peak",
    "What is in use when most memory of a device is, by the module and the op that allocated it.",
    {
        "device": DEVICE,
        "module_path": Column.key(
            "names of the modules around what allocated it, joined by /; in brackets what is of no module, of the "
            "optimizer, or was allocated before the recording"
        ),
        "op": Column.key("outermost op around the allocation; absent for none"),
        "blocks": Column.count("number of blocks alive then; absent for what was there before"),
        "bytes": Column.total("sum of their sizes", "B"),
        "percent": Column.share("share of all bytes in use then on the device"),
        "unreleased_bytes": Column.total("part of bytes that is not released in the recording", "B", drop_priority=3),
        "line": Column.text("innermost line of Python around the allocation of the largest of them", drop_priority=2),
        "peak_us": Column.moment("the first moment at which most bytes are in use", "us"),
        "allocated_bytes": replace(_ALLOCATED, drop_priority=4),
        "reserved_bytes": replace(_RESERVED, drop_priority=4),
        "fragmentation_bytes": replace(_FRAGMENTATION, drop_priority=4),
        "uid": Column.uid("the op, else the call, that allocated the largest of them"),
    },
)

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
        "peak_reserved_bytes": Column("most bytes that the allocator holds of the device", "B", drop_priority=0),
        "fragmentation_bytes": Column(
            "bytes that it holds at peak_us and that are not in use then", "B", drop_priority=0
        ),
        "unreleased": Column.count("number of allocations that are not released in the recording", drop_priority=2),
        "unreleased_bytes": Column.total("sum of their sizes", "B"),
        "earlier": Column.count("number of releases of what was allocated before the recording", drop_priority=3),
        "earlier_bytes": Column.total("sum of their sizes", "B", drop_priority=3),
    },
)


BEFORE = "(before the recording)"
"""What was in use at the peak, but not allocated in the recording."""


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


def memory_peak(g: Core | Window) -> Table:
    """What is in use when most bytes of a device are, by the module and the outermost op that allocated it.

    An allocation belongs to the call around it, and to the module that GPU work launched there would belong to: what a
    backward op allocates, to the module that called its forward op. Bytes of a device add up to what its allocator
    says; what the recorded allocations do not account for was allocated before the recording.

    Args:
        g: the graph; of a window of it the peak is the greatest of its own moments, and whatever is in use then counts.
    """
    w = window_of(g)
    core, title = w.core, w.titled("Memory in use at the peak")
    found, blocks = instants_of(core), blocks_of(core)
    if not w.holds(found.rows).any():
        return without_instants(MEMORY_PEAK, title, w)
    whose = whose_work(core)
    rows: list[tuple[Any, ...]] = []
    notes: list[str] = []
    for peak in peaks(w):
        notes.append(_in_words(core, peak))
        alive = blocks.alive_at(peak.at, peak.here)
        begin, size = blocks.begin[alive], blocks.bytes[alive]
        most = int(found.allocated[peak.at])
        about = (_shown_us(core, found.rows[peak.at]), most, *_held_then(found.reserved[peak.at], most))
        paths = [whose.paths[place] for place in whose.path[begin].tolist()]
        ops = names_of(core, whose.op[begin])
        lines, uids = _lines_and_uids(core, whose.op[begin], whose.call[begin])
        group = text_codes(list(zip(paths, ops, strict=True)))
        kept = size * ~blocks.is_released[alive]
        counts = np.bincount(group)
        held, left = np.zeros((2, len(counts)), np.int64)
        np.add.at(held, group, size)
        np.add.at(left, group, kept)
        largest = _first_largest(group, size)
        for place, one in enumerate(largest):
            share = 100.0 * int(held[place]) / most if most else None
            rows.append(
                (peak.device, paths[one], ops[one], int(counts[place]), int(held[place]), share, int(left[place]),
                 lines[one], *about, uids[one])
            )  # fmt: skip
        if rest := most - int(size.sum()):
            gone = _of_before(blocks.before, peak, found.change)
            rows.append(
                (peak.device, BEFORE, None, None, rest, 100.0 * rest / most if most else None, rest - gone, None,
                 *about, None)
            )  # fmt: skip
    rows.sort(key=lambda row: (device_key(row[0]), -row[4], row[1], row[2] or ""))
    columns: dict[str, Cells] = {name: [row[i] for row in rows] for i, name in enumerate(MEMORY_PEAK)}
    return MEMORY_PEAK.table(columns, title, [*notes, *notes_on(w)])


def memory_summary(g: Core | Window) -> Table:
    """How much memory of each device is in use at the beginning, at most, and at the end.

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
        first, last, most = peak.held[0], peak.held[-1], int(found.allocated[peak.at])
        reserved = found.reserved[peak.held]
        kept = blocks.bytes[np.isin(blocks.begin, peak.held) & ~blocks.is_released]
        earlier = -found.change[np.intersect1d(blocks.before, peak.held)]
        rows.append(
            (peak.device, len(peak.held), int(found.allocated[first] - found.change[first]), most,
             int(found.allocated[last]), _shown_us(core, found.rows[peak.at]), _held_then(int(reserved.max()), 0)[0],
             _held_then(found.reserved[peak.at], most)[1], len(kept), int(kept.sum()), len(earlier), int(earlier.sum()))
        )  # fmt: skip
    rows.sort(key=lambda row: device_key(row[0]))
    columns: dict[str, Cells] = {name: [row[i] for row in rows] for i, name in enumerate(MEMORY_SUMMARY)}
    return MEMORY_SUMMARY.table(columns, title, notes_on(w))


def device_key(name: str) -> tuple[bool, int, str]:
    """Accelerators first, by index."""
    return name.startswith("cpu"), len(name), name


def _in_words(core: Core, peak: Peak) -> str:
    """When the peak of a device is, and how much it is."""
    found = instants_of(core)
    most, at = int(found.allocated[peak.at]), core.info.shown_ms(int(core.columns.start_ns[found.rows[peak.at]]))
    reserved, rest = _held_then(found.reserved[peak.at], most)
    of = "" if reserved is None else f" of {reserved:,} reserved; {rest:,} of these are not in use"
    return f"{peak.device}: at {at:,.3f} ms {most:,} bytes are in use{of}"


def _held_then(reserved: int, allocated: int) -> tuple[int | None, int | None]:
    """Reserved bytes, and what of them is not in use; None where they are not recorded, as on the CPU."""
    if reserved in (NO_VALUE, 0):
        return None, None
    return int(reserved), int(reserved) - allocated


def _shown_us(core: Core, row: int) -> float:
    return float(core.info.shown_ms(int(core.columns.start_ns[row])) * 1e3)


def _first_largest(group: np.ndarray, size: np.ndarray) -> list[int]:
    """Place of the first of the largest of each group."""
    order = np.lexsort((np.arange(len(size)), -size, group))
    first: list[int] = order[np.unique(group[order], return_index=True)[1]].tolist()
    return first


def _lines_and_uids(
    core: Core, ops: np.ndarray, calls: np.ndarray
) -> tuple[Sequence[str | None], Sequence[int | None]]:
    c = core.columns
    lines = names_of(core, climb(c.parent, calls, np.append(frames_with_line(core), False)))
    here = np.where(ops >= 0, ops, calls)
    return lines, [int(c.uid[row]) if row >= 0 else None for row in here.tolist()]


def _of_before(before: np.ndarray, peak: Peak, change: np.ndarray) -> int:
    """Bytes that were there before the recording, and are released in it behind the peak."""
    later = before[(before > peak.at) & (before < peak.here.stop)]
    return -int(change[later].sum())
