"""Loading a JAX or XLA profile: planes, events, instructions, and the graph of them."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracelens_graph.errors import NotATraceError
from tracelens_graph.graph.build import EventTable, build_core
from tracelens_graph.graph.core import Core, TraceInfo
from tracelens_graph.graph.hlo.program import Program
from tracelens_graph.loaders.sources import Source
from tracelens_graph.loaders.xplane.arguments import ArgumentSet, argument_set
from tracelens_graph.loaders.xplane.collect import ABSENT, GPU, HOST, TASK, Collector, Events, programs
from tracelens_graph.loaders.xplane.hlo import read_program
from tracelens_graph.loaders.xplane.names import COPIES, FILLS, bytes_told, frame_name, host_kind
from tracelens_graph.loaders.xplane.ops import Instructions, instructions
from tracelens_graph.loaders.xplane.space import Plane, Span, planes, stats_of
from tracelens_graph.loaders.xplane.wire import Buffer, Damaged
from tracelens_graph.schema import STORED, Kind

_STRUCTURE = ("parent", "last", "depth", "owner", "owner_rule")


def load_xplane(source: Source, progress: Callable[[int, int], None] | None = None) -> Core:
    """The graph of a JAX or XLA profile.

    Args:
        source: where its bytes are.
        progress: called after each plane, with bytes done and bytes in all.

    Raises:
        NotATraceError: it is something else, or nothing in it can be read; the message says what.
        TraceError: it cannot be read.
    """
    data = _bytes(source)
    found, is_cut, lost = _planes(data)
    if not found:
        raise NotATraceError(f"{source.name}: begins like a JAX/XLA profile, but no plane of it can be read")
    told = {plane.name: stats_of(data, plane.stats, plane.stat_names) for plane in found}
    collector = Collector(data, _process(told))
    for plane in found:
        collector.read(plane)
        if progress:
            progress(max((end for _, end in plane.lines), default=0), len(data))
    events = collector.finish()
    which = instructions(events)
    table = _table(events, which, _Programs(data, programs(data, found)))
    table.info = _info(source, events, told, is_cut or any(plane.is_cut for plane in found), lost)
    return build_core(table)


def _bytes(source: Source) -> Buffer:
    """The bytes of a source: of a plain file its pages, which the system reads when they are looked at."""
    with source.open() as stream:
        if source.packing == "plain" and source.path is not None:
            return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
        return memoryview(stream.read())


def _planes(data: Buffer) -> tuple[list[Plane], bool, int]:
    """Planes, whether the end of the file is missing, and bytes behind the last plane that are none."""
    found: list[Plane] = []
    try:
        for plane in planes(data):
            found.append(plane)
    except Damaged:
        return found, True, 0
    return found, False, 0


def _process(told: Mapping[str, Mapping[str, Any]]) -> Any:
    """The number of the process, where the file tells it; else the name of the plane of its threads."""
    for plane in (HOST, "/host:metadata"):
        number = told.get(plane, {}).get("process_id")
        if isinstance(number, int):
            return number
    return HOST


class _Programs:
    """Programs that events name, each read when the first of them is looked up."""

    def __init__(self, data: Buffer, spans: Mapping[int, Span]) -> None:
        self._data, self._spans = data, spans
        self._read: dict[int, Program | None] = {}

    def get(self, number: int) -> Program | None:
        """A program; None if the file does not hold it."""
        if number not in self._read:
            span = self._spans.get(number)
            self._read[number] = None if span is None else read_program(self._data, *span, number)
        return self._read[number]


def _table(events: Events, which: Instructions, known: _Programs) -> EventTable:
    made = len(which.made[0])
    count = len(events.uid) + made
    kind, name = _kinds(events, which)
    start, dur, thread, program, hlo = which.made
    absent = {prop.name: prop.absent or 0 for prop in STORED}
    columns: dict[str, np.ndarray] = {
        prop.name: np.full(count, absent[prop.name], prop.dtype) for prop in STORED if prop.name not in _STRUCTURE
    }
    columns["uid"] = np.concatenate((events.uid, events.count + np.arange(made)))
    columns["kind"] = np.concatenate((kind, np.full(made, Kind.Op))).astype(np.uint8)
    columns["name"] = np.concatenate((name, hlo)).astype(np.int32)
    columns["thread"] = np.concatenate((events.thread, thread)).astype(np.int32)
    columns["start_ns"] = np.concatenate((events.start_ns, start))
    columns["dur_ns"] = np.concatenate((events.dur_ns, dur))
    correlation = events.numbers.get("correlation_id")
    if correlation is not None:
        columns["correlation"][: len(events.uid)] = np.where(correlation > 0, correlation, -1)
    is_op = columns["kind"] == Kind.Op
    programs_of = np.concatenate((which.program, program))
    hlo_of = np.concatenate((which.hlo, hlo))
    columns["argset"], argsets = _argsets(events, is_op, programs_of, hlo_of, known)
    for stat in ("memcpy_details", "memset_details"):
        if stat in events.texts:
            codes = events.texts[stat]
            at = np.flatnonzero((codes >= 0) & events.on_gpu)
            sizes = {code: bytes_told(events.names[code]) for code in np.unique(codes[at]).tolist()}
            for place in at.tolist():
                if (size := sizes[int(codes[place])]) is not None:
                    columns["bytes"][place] = size
    names, columns["name"] = _renamed(events, columns["name"], columns["kind"])
    return EventTable(columns, names, events.threads, argsets)


def _kinds(events: Events, which: Instructions) -> tuple[np.ndarray, np.ndarray]:
    """Kind of each event, and the code of its name: steps get their number."""
    codes, first = np.unique(events.name.astype(np.int64) * max(len(events.threads), 1) + events.thread, return_inverse=True)
    width = max(len(events.threads), 1)
    told = [
        host_kind(events.names[code // width], str(events.threads[code % width][1])) for code in codes.tolist()
    ]
    kind = np.array(told or [0], np.uint8)[first] if len(codes) else np.zeros(0, np.uint8)
    name = events.name.copy()
    kind[which.is_launch] = Kind.RuntimeCall
    kind[which.is_op] = Kind.Op
    gpu = np.flatnonzero(events.on_gpu)
    kind[gpu] = _gpu_kinds(events, gpu)
    numbers = events.numbers.get("step_num")
    if numbers is not None:
        for at in np.flatnonzero((numbers != ABSENT) & ~events.on_gpu).tolist():
            kind[at] = Kind.Step
            name[at] = _added(events, f"{events.names[int(name[at])]}#{int(numbers[at])}")
    return kind, name


def _added(events: Events, name: str) -> int:
    code = events.code(name)
    if code == len(events.names):
        events.names.append(name)
    return code


def _gpu_kinds(events: Events, gpu: np.ndarray) -> np.ndarray:
    """Kinds of GPU events: copies and fills by their details, else by the name of their launch, else by their own."""
    kind = np.full(len(gpu), Kind.Kernel, np.uint8)
    correlation = events.numbers.get("correlation_id")
    by_name = {code: _of_name(events.names[code]) for code in np.unique(events.name[gpu]).tolist()}
    kind[:] = [by_name[code] for code in events.name[gpu].tolist()]
    if correlation is not None:
        host = np.flatnonzero(~events.on_gpu & (correlation > 0))
        launched = {code: _of_launch(events.names[code]) for code in np.unique(events.name[host]).tolist()}
        order = host[np.argsort(correlation[host], kind="stable")]
        at = np.searchsorted(correlation[order], correlation[gpu])
        at = np.minimum(at, max(len(order) - 1, 0))
        if len(order):
            same = (correlation[order[at]] == correlation[gpu]) & (kind == Kind.Kernel)
            told = np.array([launched[code] for code in events.name[order[at]].tolist()], np.uint8)
            kind = np.where(same, told, kind)
    for stat, value in (("memcpy_details", Kind.Memcpy), ("memset_details", Kind.Memset)):
        if stat in events.texts:
            kind[events.texts[stat][gpu] >= 0] = value
    return kind


def _of_launch(name: str) -> Kind:
    return Kind.Memset if FILLS.search(name) else Kind.Memcpy if COPIES.search(name) else Kind.Kernel


def _of_name(name: str) -> Kind:
    plain = name.lower()
    return Kind.Memset if plain.startswith("memset") else Kind.Memcpy if plain.startswith("memcpy") else Kind.Kernel


def _argsets(
    events: Events, is_op: np.ndarray, program: np.ndarray, hlo: np.ndarray, known: _Programs
) -> tuple[np.ndarray, list[ArgumentSet]]:
    """Argument set of each op, made once per instruction."""
    found = np.full(len(is_op), -1, np.int32)
    ops = np.flatnonzero(is_op & (program != ABSENT) & (hlo >= 0))
    sets: dict[ArgumentSet, int] = {}
    order = ops[np.lexsort((hlo[ops], program[ops]))]
    new = np.ones(len(order), bool)
    new[1:] = (program[order][1:] != program[order][:-1]) | (hlo[order][1:] != hlo[order][:-1])
    first = np.flatnonzero(new)
    codes = []
    for at in order[first].tolist():
        read = known.get(int(program[at]))
        one = None if read is None else read.by_name.get(events.names[int(hlo[at])])
        codes.append(-1 if one is None or read is None else sets.setdefault(argument_set(read, one), len(sets)))
    found[order] = np.repeat(np.array(codes, np.int32), np.diff([*first.tolist(), len(order)]))
    return found, list(sets)


def _renamed(events: Events, code: np.ndarray, kind: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Names and their codes, with frames of Python as PyTorch's profiler writes them, and without unused texts."""
    used = np.zeros(len(events.names), bool)
    used[code] = True
    place = np.full(len(used), -1, np.int32)
    names: dict[str, int] = {}
    for one in np.flatnonzero(used).tolist():
        name = events.names[one]
        place[one] = names.setdefault(frame_name(name) if name.startswith("$") else name, len(names))
    return list(names), place[code]


def _info(
    source: Source, events: Events, told: Mapping[str, Mapping[str, Any]], is_cut: bool, lost: int
) -> TraceInfo:
    start = told.get(TASK, {}).get("profile_start_time", 0)
    start = start if isinstance(start, int) and 0 <= start < 2**62 else 0
    metadata: dict[str, Any] = {"profiler": "XLA", "baseTimeNanoseconds": start}
    if devices := [_device(name, stats) for name, stats in told.items() if GPU.fullmatch(name) and len(stats) > 1]:
        metadata["deviceProperties"] = sorted(devices, key=lambda one: int(one["id"]))
    for key in ("jax_version", "jaxlib_version"):
        if isinstance(version := told.get("/host:metadata", {}).get(key), str):
            metadata[key] = version
    process = _process(told)
    return TraceInfo(
        source=source.name,
        start_epoch_ns=start,
        metadata=metadata,
        processes=[[process, "host", ""]],
        threads=[[pid, tid, str(tid)] for pid, tid in events.threads if pid == process],
        events=events.count,
        left_out=dict(events.left_out),
        repairs={"truncated": 1} if is_cut else {},
        lost_events=events.lost_events,
        lost_bytes=events.lost_bytes + lost,
        cut_short=source.cut_short,
    )


_PROPERTIES = {
    "device_vendor": "vendor", "core_count": "numSms", "memory_size": "totalGlobalMem",
    "compute_cap_major": "computeMajor", "compute_cap_minor": "computeMinor",
}  # fmt: skip
"""Statistic of a device's plane -> what PyTorch's profiler calls it."""


def _device(name: str, stats: Mapping[str, Any]) -> dict[str, Any]:
    described = {ours: stats[theirs] for theirs, ours in _PROPERTIES.items() if isinstance(stats.get(theirs), int | str)}
    return {"id": int(name.rpartition(":")[2]), **described}
