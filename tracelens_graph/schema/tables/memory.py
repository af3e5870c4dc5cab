"""Tables of allocations and releases, as the profiler records them with `profile_memory=True`."""

from __future__ import annotations

from dataclasses import replace

from tracelens_graph.schema.tables.shared import count, key, moment, share, text, total, uid
from tracelens_graph.tables.column import About, Column, Role, TableSchema

_DEVICE = replace(key("whose memory: cuda:0, hip:0, cpu"), drop_priority=1)
_ALLOCATED = Column("bytes in use then", "B")
_RESERVED = Column("bytes that the allocator holds of the device then; absent where that is not recorded", "B")
_FRAGMENTATION = Column("what of it is not in use: reserved_bytes less allocated_bytes", "B")

MEMORY_PEAK: About = {
    "device": _DEVICE,
    "module_path": key(
        "names of the modules around what allocated it, joined by /; in brackets what is of no module, of the "
        "optimizer, or was allocated before the recording"
    ),
    "op": key("outermost op around the allocation; absent for none"),
    "blocks": count("number of blocks alive then; absent for what was there before"),
    "bytes": total("sum of their sizes", "B"),
    "percent": share("share of all bytes in use then on the device"),
    "unreleased_bytes": replace(total("part of bytes that is not released in the recording", "B"), drop_priority=3),
    "line": replace(text("innermost line of Python around the allocation of the largest of them"), drop_priority=2),
    "peak_us": moment("the first moment at which most bytes are in use", "us"),
    "allocated_bytes": replace(_ALLOCATED, drop_priority=4),
    "reserved_bytes": replace(_RESERVED, drop_priority=4),
    "fragmentation_bytes": replace(_FRAGMENTATION, drop_priority=4),
    "uid": uid("the op, else the call, that allocated the largest of them"),
}

ALLOCATIONS_BY_MODULE: About = {
    "device": _DEVICE,
    "module_path": key(
        "names of the modules around what allocates, joined by /; in brackets what is of no module, or of the optimizer"
    ),
    "pass": key("forward, backward or optimizer"),
    "allocations": count("number of allocations"),
    "allocated_bytes": replace(total("sum of their sizes", "B"), drop_priority=-1),
    "released_bytes": replace(
        total("part of it that is released in the recording, whoever releases it", "B"), drop_priority=3
    ),
    "net_bytes": replace(total("the rest of it", "B"), drop_priority=1),
    "peak_bytes": Column("most bytes of these that are in use at one moment", "B", Role.max, drop_priority=0),
    "unreleased": replace(count("number of those that are not released in the recording"), drop_priority=3),
    "mean_lifetime_us": Column(
        "mean time from allocation to release of those that are released", "us", drop_priority=2
    ),
    "uid": uid("the call of the module, or the step of the optimizer, that allocates first; absent for none"),
}

MEMORY_SUMMARY: About = {
    "device": replace(_DEVICE, drop_priority=-1),
    "events": count("number of allocations and releases"),
    "start_bytes": Column("bytes in use before the first of them", "B", drop_priority=1),
    "peak_bytes": Column("most bytes in use", "B", drop_priority=-1),
    "end_bytes": Column("bytes in use behind the last of them", "B", drop_priority=1),
    "peak_us": moment("the first moment at which most bytes are in use", "us"),
    "peak_reserved_bytes": Column("most bytes that the allocator holds of the device", "B", drop_priority=0),
    "fragmentation_bytes": Column("bytes that it holds at peak_us and that are not in use then", "B", drop_priority=0),
    "unreleased": replace(count("number of allocations that are not released in the recording"), drop_priority=2),
    "unreleased_bytes": total("sum of their sizes", "B"),
    "earlier": replace(count("number of releases of what was allocated before the recording"), drop_priority=3),
    "earlier_bytes": replace(total("sum of their sizes", "B"), drop_priority=3),
}

SCHEMAS = {
    "memory_summary": TableSchema("How much memory of each device is in use, and at most.", MEMORY_SUMMARY),
    "memory_peak": TableSchema(
        "What is in use when most memory of a device is, by the module and the op that allocated it.", MEMORY_PEAK
    ),
    "allocations_by_module": TableSchema(
        "What modules allocate, forward and backward, for how long, and what they leave.", ALLOCATIONS_BY_MODULE
    ),
}
