"""Loading a JAX or XLA profile: planes, events, instructions, and the graph of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tracelens_graph.errors import DamagedBytesError, NotATraceError
from tracelens_graph.frameworks import XLA
from tracelens_graph.graph.build import build_core
from tracelens_graph.graph.graph import Graph
from tracelens_graph.graph.info import TraceInfo
from tracelens_graph.loaders.sources import Source
from tracelens_graph.loaders.xplane.collect import GPU, HOST, PROGRAMS, TASK, Collector, Events, programs
from tracelens_graph.loaders.xplane.details import XplaneDetails
from tracelens_graph.loaders.xplane.ops import instructions
from tracelens_graph.loaders.xplane.programs import Programs
from tracelens_graph.loaders.xplane.space import Plane, planes, stats_of
from tracelens_graph.loaders.xplane.table import event_table
from tracelens_graph.loaders.xplane.wire import Buffer, opened_bytes
from tracelens_graph.utils.gc_pause import MANY, give_memory_back
from tracelens_graph.utils.texts import cut_end, printable

_LONGEST = 100
"""Columns of a name in a message."""


def load_xplane(source: Source, progress: Callable[[int, int], None] | None = None) -> Graph:
    """The graph of a JAX or XLA profile.

    Args:
        source: where its bytes are.
        progress: called after each plane, with bytes done and bytes in all.

    Raises:
        NotATraceError: it is something else, or nothing in it can be read; the message says what.
        TraceError: it cannot be read.
    """
    with opened_bytes(source) as data:
        found, is_cut, repairs = _planes(data)
        plane_stats = {plane.name: stats_of(data, plane.stats, plane.stat_names) for plane in found}
        collector = Collector(data, _process(plane_stats))
        for plane in found:
            collector.read(plane)
            if progress:
                progress(max((end for _, end in plane.lines), default=0), len(data))
        events = collector.finish()
        if len(events) > MANY:
            give_memory_back()
        if not found or (is_cut and not events.count):
            raise NotATraceError(
                f"{source.name}: begins like a JAX/XLA profile (protocol buffer), but no event in it can be read"
                f"{_where_cut(found, len(data)) if is_cut else ''}{source.packing_fault}"
            )
        which = instructions(events)
        known = Programs(data, programs(data, found))
        table, sources = event_table(events, which, known)
    table.info = _info(source, events, plane_stats, repairs)
    if is_cut or source.cut_short:
        table.info.planes = [_shown(plane.name) for plane in found]
    if known.odd:
        table.info.repairs[
            f"instructions about which their program says nothing sound, such as {_shown(known.odd[0])}"
        ] = len(known.odd)
    named = len(table.info.processes) + len(table.info.threads)
    table.info.events += int(len(table.columns["kind"]) - len(events)) + named
    table.info.left_out["process or thread"] = named
    is_large = len(events) > MANY
    del events, which  # its columns are as large as the graph's
    if is_large:
        give_memory_back()
    core = build_core(table)
    core.details = XplaneDetails(source, collector.index, sources, core)
    return core


def _planes(data: Buffer) -> tuple[list[Plane], bool, dict[str, int]]:
    """Planes, whether the end of the file is missing, and what `TraceInfo.repairs` says is wrong with the file."""
    found: list[Plane] = []
    names = set()
    try:
        for plane in planes(data):
            if plane.name in names and (plane.name in (HOST, PROGRAMS, TASK) or GPU.fullmatch(plane.name)):
                return found, False, {"second_trace": 1}
            names.add(plane.name)
            found.append(plane)
    except DamagedBytesError:
        return found, True, {"truncated": 1}
    return found, False, {}


def _shown(name: str) -> str:
    """A name of the file in a message of one line."""
    return " ".join(cut_end(printable(name), _LONGEST).split())


def _where_cut(found: list[Plane], size: int) -> str:
    inside = f" in {_shown(found[-1].name)}" if found and found[-1].is_cut and found[-1].name else ""
    return f": its end is missing, it breaks off{inside} after {size:,} bytes; copy or record it again"


def _process(plane_stats: Mapping[str, Mapping[str, Any]]) -> Any:
    """The number of the process, where the file says it; else the name of the plane of its threads."""
    for plane in (HOST, "/host:metadata"):
        number = plane_stats.get(plane, {}).get("process_id")
        if isinstance(number, int):
            return number
    return HOST


def _info(
    source: Source, events: Events, plane_stats: Mapping[str, Mapping[str, Any]], repairs: dict[str, int]
) -> TraceInfo:
    start = plane_stats.get(TASK, {}).get("profile_start_time", 0)
    start = start if isinstance(start, int) and 0 <= start < 2**62 else 0
    metadata: dict[str, Any] = {"profiler": XLA.profiler, "baseTimeNanoseconds": start}
    if properties := [
        _device(name, stats) for name, stats in plane_stats.items() if GPU.fullmatch(name) and len(stats) > 1
    ]:
        metadata["deviceProperties"] = sorted(properties, key=lambda one: int(one["id"]))
    for key in ("jax_version", "jaxlib_version"):
        if isinstance(version := plane_stats.get("/host:metadata", {}).get(key), str):
            metadata[key] = version
    process = _process(plane_stats)
    streams = [[*events.threads[code], name] for code, name in events.streams.items()]
    devices = {device: f"/device:GPU:{device}" for device, *_ in streams if device != process}
    return TraceInfo(
        source=source.name,
        start_epoch_ns=start,
        metadata=metadata,
        processes=[[process, "host", ""], *([device, name, ""] for device, name in devices.items())],
        threads=[*([pid, tid, f"thread {tid}"] for pid, tid in events.threads if pid == process), *streams],
        events=events.count,
        accelerator="TPU" if any(name.startswith("/device:TPU") for name in plane_stats) else "",
        left_out=dict(events.left_out),
        repairs=repairs,
        lost_events=events.lost_events,
        lost_bytes=events.lost_bytes,
        cut_short=source.cut_short,
    )


_PROPERTIES = {
    "device_vendor": "vendor", "core_count": "numSms", "memory_size": "totalGlobalMem",
    "compute_cap_major": "computeMajor", "compute_cap_minor": "computeMinor",
}  # fmt: skip
"""Statistic of a device's plane -> what PyTorch's profiler calls it."""


def _device(name: str, stats: Mapping[str, Any]) -> dict[str, Any]:
    described = {
        ours: stats[theirs] for theirs, ours in _PROPERTIES.items() if isinstance(stats.get(theirs), int | str)
    }
    return {"id": int(name.rpartition(":")[2]), **described}
