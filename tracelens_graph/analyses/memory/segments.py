"""Segments of PyTorch's caching allocator: what it has of a device, and what of that is free, in pieces."""

from __future__ import annotations

from typing import Any

from tracelens_graph.analyses.memory.peak import DEVICE
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.info import SEGMENTS
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

MEMORY_SEGMENTS = TableSchema(
    "memory_segments",
    "What the allocator holds of each device when a snapshot of memory is taken, segment by segment, and what is free.",
    {
        "device": DEVICE,
        "address": Column.key("where it begins", cells="number", drop_priority=2),
        "stream": Column.key("handle of the stream that it is for; 0 for the default one", cells="number"),
        "type": Column.text("`small`: for blocks of up to 1 MiB, else `large`", drop_priority=1),
        "pool": Column.text("its pool; others than (0, 0) are of CUDA graphs and of users", drop_priority=3),
        "expandable": Column("whether it can grow", cells="flag", drop_priority=3),
        "reserved_bytes": Column.total("bytes of the device", "B", compared="main"),
        "allocated_bytes": Column.total("part in blocks in use", "B", compared="diff"),
        "waiting_bytes": Column.total("part in blocks that are released and wait for a stream", "B", drop_priority=2),
        "free_bytes": Column.total("the rest", "B", compared="diff"),
        "split_bytes": Column.total(
            "free_bytes of a segment that is in use in part, so that it cannot be given back to the device", "B"
        ),
        "largest_free_bytes": Column("largest free block: what the segment can still give at once", "B"),
        "free_blocks": Column.total("number of free blocks", "", drop_priority=1),
        "blocks": Column.count("number of blocks in use"),
        "requested_bytes": Column.total(
            "part of allocated_bytes that was asked for; the rest is rounding", "B", drop_priority=1
        ),
    },
    counts="block",
)

_TEXTS = {"type": str, "pool": str, "expandable": bool}


def memory_segments(g: Core | Window) -> Table:
    """The segments of a memory snapshot, the most free bytes first.

    Args:
        g: the graph of a snapshot, or of a trace that is joined with one; segments are those of the snapshot's moment,
            whatever part of the graph is asked for.
    """
    w = window_of(g)
    rows = segments_in(w.core)
    if not rows:
        return MEMORY_SEGMENTS.empty("Segments", ["no segment is recorded: they stand in snapshots of CUDA memory"])
    rows.sort(key=lambda row: (row["device"], -row["free_bytes"], row["address"]))
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in MEMORY_SEGMENTS if name != "device"}
    columns = {"device": [f"cuda:{row['device']}" for row in rows], **columns}
    reserved, free, split, allocated, requested = (
        sum(columns[f"{name}_bytes"]) for name in ("reserved", "free", "split", "allocated", "requested")
    )
    notes = [
        f"{reserved:,} bytes in {len(rows):,} segments: {free:,} free, {split:,} of these in segments that are in use "
        f"in part; the largest free block has {max(columns['largest_free_bytes']):,}; {allocated - requested:,} are "
        "rounding"
    ]
    if odd := sum(row.get("unknown_bytes") != 0 for row in rows):
        notes.append(f"blocks of {odd:,} segments do not add up to their sizes: what is in no block counts as free")
    return MEMORY_SEGMENTS.table(columns, "Segments", notes)


def segments_in(core: Core) -> list[dict[str, Any]]:
    """The segments that a snapshot of memory lists, those whose row has all cells."""
    return [row for row in core.info.metadata.get(SEGMENTS, ()) if _is_segment(row)]


def _is_segment(row: Any) -> bool:
    """Whether a row of the file has all cells."""
    return isinstance(row, dict) and all(type(row.get(name)) is _TEXTS.get(name, int) for name in MEMORY_SEGMENTS)
