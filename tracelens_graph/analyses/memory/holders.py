"""Who holds memory: at its peak, at the end, and what would have to go to fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.analyses.memory.blocks import blocks_of, whose_work
from tracelens_graph.analyses.memory.instants import instants_of, notes_on, without_instants
from tracelens_graph.analyses.memory.peak import DEVICE, Peak, device_key, held_then, peaks, shown_us
from tracelens_graph.analyses.memory.segments import segments_in
from tracelens_graph.analyses.shared.gpu_work import names_of, uids_of
from tracelens_graph.analyses.shared.grouping import Cells, text_codes
from tracelens_graph.frameworks import SNAPSHOT
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.user_code import user_lines
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

_PATH = Column.key(
    "names of the modules around what allocated it, joined by /; in brackets what is of no module, of the optimizer, "
    "or was allocated before the recording"
)
_OP = Column.key(
    "outermost op around the allocation; where there is none, as in a snapshot of memory, the innermost line of Python"
)

MEMORY_PEAK = TableSchema(
    "memory_peak",
    "What is in use when most memory of a device is, by the module and the op that allocated it.",
    {
        "device": DEVICE,
        "module_path": _PATH,
        "op": _OP,
        "blocks": Column.count("number of blocks alive then; absent for the rest that was there before"),
        "bytes": Column.total("sum of their sizes", "B", compared="main", drop_priority=-1),
        "percent": Column.share("share of all bytes in use then on the device"),
        "unreleased_bytes": Column.total("part of bytes that is not released in the recording", "B", drop_priority=3),
        "line": Column.text("innermost line of Python around the allocation of the largest of them", drop_priority=2),
        "peak_us": Column.moment("the first moment at which most bytes are in use", "us"),
        "allocated_bytes": Column("bytes in use then", "B", drop_priority=4),
        "reserved_bytes": Column(
            "device memory that the allocator holds then; absent where that is not recorded", "B",
            drop_priority=4,
        ),
        "fragmentation_bytes": Column(
            "the part of it that is not in use: reserved_bytes less allocated_bytes", "B", drop_priority=4
        ),
        "uid": Column.uid("the op, else the call, that allocated the largest of them"),
    },
    counts="block",
)  # fmt: skip

MEMORY_AT_END = TableSchema(
    "memory_at_end",
    "What is still in use at the end, by the module and the op that allocated it.",
    {name: MEMORY_PEAK[name] for name in ("device", "module_path", "op", "blocks", "bytes", "percent", "line", "uid")},
    counts="block",
)

MEMORY_TO_FIT = TableSchema(
    "memory_to_fit",
    "Which allocations that are in use at the peak would have to go for it to fit into some bytes, the largest first.",
    {
        "device": DEVICE,
        "module_path": _PATH,
        "op": _OP,
        "bytes": Column.total("size of the block", "B", drop_priority=-1),
        "left_bytes": Column("bytes in use at the peak without this block and those above it", "B", drop_priority=-1),
        "line": replace(MEMORY_PEAK["line"], definition="innermost line of Python around the allocation"),
        "allocated_us": Column.moment("when it was allocated", "us"),
        "uid": Column.uid("the op, else the call, that allocated it"),
    },
)

BEFORE = "(before the recording)"
"""What was in use then, but not allocated in the recording."""


class _Holders(NamedTuple):
    """Of some blocks, whose they are: module path, op or line, innermost line of Python, uid of the op or call."""

    paths: list[str]
    ops: list[str | None]
    lines: list[str | None]
    uids: list[int | None]


def _holders(core: Core, begin: np.ndarray) -> _Holders:
    """Of blocks, by the positions of their allocations."""
    whose = whose_work(core)
    op, call = whose.op[begin], whose.call[begin]
    lines = list(names_of(core, user_lines(core, call)))
    ops = [name if name is not None else line for name, line in zip(names_of(core, op), lines, strict=True)]
    is_before = instants_of(core).is_before[begin].tolist()
    at = whose.path[begin].tolist()
    paths = [BEFORE if early else whose.paths[one] for early, one in zip(is_before, at, strict=True)]
    return _Holders(paths, ops, lines, list(uids_of(core, np.where(op >= 0, op, call))))


def memory_peak(g: Core | Window) -> Table:
    """Memory in use at a device's peak, by the module and the outermost op that allocated it.

    An allocation belongs to the call around it, and to the module that GPU work launched there would belong to: what a
    backward op allocates, to the module that called its forward op. Bytes of a device add up to what its allocator
    says; what the recorded allocations do not account for was allocated before the recording.

    Args:
        g: the graph; of a window of it the peak is the greatest of its own moments, and whatever is in use then counts.
    """
    return _held(window_of(g), MEMORY_PEAK, "Memory in use at the peak", lambda peak: peak.at)


def memory_at_end(g: Core | Window) -> Table:
    """Memory in use after the last allocation or release of each device; otherwise like `memory_peak`.

    Of two snapshots of memory, or two traces of one program, a comparison of this table says what grew.

    Args:
        g: the graph, or a window of it.
    """
    return _held(window_of(g), MEMORY_AT_END, "Memory in use at the end", lambda peak: int(peak.held[-1]))


def _held(w: Window, schema: TableSchema, title: str, when: Callable[[Peak], int]) -> Table:
    """What is in use at a moment of each device, as the columns of `MEMORY_PEAK` that a table has."""
    core, title = w.core, w.titled(title)
    found, blocks = instants_of(core), blocks_of(core)
    if not w.holds(found.rows).any():
        return without_instants(schema, title, w)
    rows: list[tuple[Any, ...]] = []
    notes: list[str] = []
    for peak in peaks(w):
        moment = when(peak)
        notes.append(_in_words(core, peak.device, moment))
        alive = blocks.alive_at(moment, peak.here)
        begin, size = blocks.begin[alive], blocks.bytes[alive]
        most = int(found.allocated[moment])
        about = (shown_us(core, found.rows[moment]), most, *held_then(found.reserved[moment], most))
        paths, ops, lines, uids = _holders(core, begin)
        group = text_codes(list(zip(paths, ops, strict=True)))
        kept = size * ~blocks.is_released[alive]
        counts = np.bincount(group)
        # Weights of bincount are floats, but bytes have to add up exactly.
        held, left = np.zeros((2, len(counts)), np.int64)
        np.add.at(held, group, size)
        np.add.at(left, group, kept)
        for place, one in enumerate(_first_largest(group, size)):
            share = 100.0 * int(held[place]) / most if most else None
            rows.append(
                (peak.device, paths[one], ops[one], int(counts[place]), int(held[place]), share, int(left[place]),
                 lines[one], *about, uids[one])
            )  # fmt: skip
        if rest := most - int(size.sum()):
            later = blocks.before[(blocks.before > moment) & (blocks.before < peak.here.stop)]
            gone = -int(found.change[later].sum())
            rows.append(
                (peak.device, BEFORE, None, None, rest, 100.0 * rest / most if most else None, rest - gone, None,
                 *about, None)
            )  # fmt: skip
        if schema is MEMORY_AT_END:
            notes += _not_in_segments(w, peak)
    rows.sort(key=lambda row: (device_key(row[0]), -row[4], row[1], row[2] or ""))
    columns: dict[str, Cells] = {name: [row[i] for row in rows] for i, name in enumerate(MEMORY_PEAK) if name in schema}
    return schema.table(columns, title, [*notes, *notes_on(w)])


def _not_in_segments(w: Window, peak: Peak) -> list[str]:
    """How many bytes the history of a snapshot says are in use at its end, which none of its blocks holds."""
    listed = [row for row in segments_in(w.core) if f"cuda:{row['device']}" == peak.device]
    if w.framework is not SNAPSHOT or peak.held[-1] != peak.here.stop - 1 or not listed:
        return []
    there = sum(row["requested_bytes"] + row["waiting_bytes"] for row in listed)
    if (missing := int(instants_of(w.core).allocated[peak.held[-1]]) - there) <= 0:
        return []
    return [f"{peak.device}: {missing:,} bytes of these are in no block of the snapshot: see memory_segments; their "
            "releases are not in its history"]  # fmt: skip


def memory_to_fit(g: Core | Window, size: int | None = None) -> Table:
    """The blocks in use at a device's peak that would have to go for it to fit, the largest first.

    Args:
        g: the graph, or a window of it.
        size: bytes into which it is to fit; None for a list of all blocks.
    """
    w = window_of(g)
    core, title = w.core, w.titled("Memory that would have to go" if size is not None else "Blocks at the peak")
    found, blocks = instants_of(core), blocks_of(core)
    if not w.holds(found.rows).any():
        return without_instants(MEMORY_TO_FIT, title, w)
    rows: list[tuple[Any, ...]] = []
    notes: list[str] = []
    for peak in sorted(peaks(w), key=lambda peak: device_key(peak.device)):
        notes.append(_in_words(core, peak.device, peak.at))
        most, alive = int(found.allocated[peak.at]), blocks.alive_at(peak.at, peak.here)
        alive = alive[np.argsort(-blocks.bytes[alive], kind="stable")]
        left = most - np.cumsum(blocks.bytes[alive])
        if size is not None:
            wanted = int(np.count_nonzero(np.append(most, left[:-1]) > size)) if len(left) else 0
            alive, left = alive[:wanted], left[:wanted]
            over, goes = max(most - size, 0), int(blocks.bytes[alive].sum())
            what = f"{len(alive):,} block{'s' * (len(alive) != 1)}"
            short = f"; what goes is {over - goes:,} bytes short of that" if goes < over else ""
            notes.append(f"{peak.device}: {over:,} bytes too many for {size:,}: {what}{short}")
        begin = blocks.begin[alive]
        moments = [shown_us(core, row) for row in found.rows[begin].tolist()]
        paths, ops, lines, uids = _holders(core, begin)
        rows += zip(
            [peak.device] * len(alive), paths, ops, blocks.bytes[alive].tolist(), left.tolist(), lines, moments, uids,
            strict=True,
        )  # fmt: skip
    columns: dict[str, Cells] = {name: [row[i] for row in rows] for i, name in enumerate(MEMORY_TO_FIT)}
    return MEMORY_TO_FIT.table(columns, title, [*notes, *notes_on(w)])


def _in_words(core: Core, device: str, at: int) -> str:
    """How much of a device is in use at an instant."""
    found = instants_of(core)
    most, ms = int(found.allocated[at]), core.info.shown_ms(int(core.columns.start_ns[found.rows[at]]))
    reserved, rest = held_then(found.reserved[at], most)
    of = "" if reserved is None else f" of {reserved:,} reserved; {rest:,} of these are not in use"
    return f"{device}: at {ms:,.3f} ms {most:,} bytes are in use{of}"


def _first_largest(group: np.ndarray, size: np.ndarray) -> list[int]:
    """Place of the first of the largest of each group."""
    order = np.lexsort((np.arange(len(size)), -size, group))
    first: list[int] = order[np.unique(group[order], return_index=True)[1]].tolist()
    return first
