"""Storages of a linked trace: which kernels touch them, how much memory they hold, what several streams read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracelens_graph.analyses.memory.blocks import outermost_op
from tracelens_graph.analyses.shared.gpu_work import GPU_TIME, names_of, percent
from tracelens_graph.analyses.shared.grouping import Cells, text_codes
from tracelens_graph.errors import NodeNotFoundError
from tracelens_graph.execution.link import GraphTensors, tensors_of
from tracelens_graph.graph.arrays import expanded
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.suggest import hint

NO_TENSORS = (
    "the trace is not linked with its execution trace, which alone names tensors: load it with et=, or give --et"
)


def without_tensors(schema: TableSchema, title: str) -> Table:
    """The empty table of a graph that knows no tensors."""
    return schema.empty(title, [NO_TENSORS])


def storages_by_row(tensors: GraphTensors, edge: str) -> tuple[np.ndarray, np.ndarray]:
    """Distinct pairs of a row and the storage of a tensor that an edge leads to from there."""
    rows, numbers = tensors.edges[edge]
    storage, place = tensors.storages_of(numbers)
    pairs = np.unique(np.stack((storage, rows[place]), axis=1), axis=0)
    return pairs[:, 1], pairs[:, 0]


class KernelsOfOps:
    """GPU events of a window by the op that they are charged to."""

    def __init__(self, w: Window) -> None:
        rows, owner = w.gpu_rows, w.core.columns.owner[w.gpu_rows]
        order = np.argsort(owner, kind="stable")
        self._rows, self._owner = rows[order], owner[order]

    def of(self, ops: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """GPU events of ops, and for each the place of its op."""
        low, high = (np.searchsorted(self._owner, ops, side) for side in ("left", "right"))
        events, place = expanded(low, high)
        return self._rows[events], place


def shown_us(core: Core, ns: np.ndarray) -> np.ndarray:
    """Moments as Perfetto UI counts them, in us."""
    return np.asarray(core.info.shown_ms(ns) * 1e3)


STORAGE_KERNELS = TableSchema(
    "storage_kernels",
    "Kernels, copies and fills of the ops that touched a storage.",
    {
        "storage": Column.key("name of the storage"),
        "kernel": Column.text("name of the kernel, copy or fill"),
        "access": Column.text("what the op that it is charged to did with tensors of the storage: made, read, written"),
        "op": Column.text("name of that op"),
        "op_uid": Column.uid("that op"),
        "device": Column("index of the device"),
        "stream": Column("number of the stream"),
        "start_us": Column.moment("start of the kernel", "us"),
        "dur_us": Column("its duration", "us", Role.sum),
        "uid": Column.instance("the kernel"),
    },
)

BYTES_ALIVE = TableSchema(
    "bytes_alive",
    "How much memory tensors hold over time.",
    {
        "device": Column.key("device, such as cuda:0"),
        "at_us": Column.moment("the moment", "us"),
        "bytes": Column("sum of the sizes of the storages alive then", "B"),
        "storages": Column("number of these"),
        "percent_of_peak": Column("the same as share of the greatest sum at any moment", "%"),
    },
)

PEAK_BYTES_BY_MODULE = TableSchema(
    "peak_bytes_by_module",
    "Who allocated what is in use when most memory is.",
    {
        "device": Column.key("device, such as cuda:0"),
        "at_us": Column.moment("the first moment at which most bytes are alive", "us"),
        "module": Column.key("innermost nn.Module around the op that allocated the storages; absent for none"),
        "op": Column.key(
            "outermost op around the allocation; absent for what was there before, or was made out of sight"
        ),
        "storages": Column.count("number of storages alive then"),
        "bytes": Column("sum of their sizes", "B", Role.sum),
        "percent": Column("share of all bytes alive then on the device", "%", Role.share),
    },
)

SHARED_READS = TableSchema(
    "shared_reads",
    "Memory that kernels on several streams read.",
    {
        "storage": Column.key("name of the storage"),
        "bytes": Column("its size", "B"),
        "device": Column("index of the device of the kernels"),
        "streams": Column("number of streams with kernels of ops that read it"),
        "stream_numbers": Column.text("the numbers of these streams"),
        "kernels": Column.count("number of these kernels, copies and fills"),
        "gpu_time_us": GPU_TIME,
        "uid": Column.instance("the first of them"),
    },
)


_ACCESS = {"PRODUCES": "made", "CONSUMES": "read", "WRITES": "written"}


def storage_kernels(g: Core | Window, storage: str | None = None) -> Table:
    """Kernels, copies and fills of ops that made, read or wrote tensors of a storage, in the order of their starts.

    A kernel counts for the op that it is charged to; which of the op's tensors it touches itself, nobody recorded.

    Args:
        storage: name of a storage, such as `s124`; None for the one with the most time of kernels.

    Raises:
        NodeNotFoundError: there is no such storage.
    """
    w = window_of(g)
    core, c, tensors = w.core, w.core.columns, tensors_of(w.core)
    title = w.titled("Kernels that touched a storage")
    if tensors is None:
        return without_tensors(STORAGE_KERNELS, title)
    kernels = KernelsOfOps(w)
    found = {word: storages_by_row(tensors, edge) for edge, word in _ACCESS.items()}
    number = _busiest(kernels, core, found, tensors) if storage is None else _storage_named(tensors, storage)
    accesses: dict[int, list[str]] = {}
    for word, (rows, numbers) in found.items():
        for row in rows[numbers == number].tolist():
            accesses.setdefault(row, []).append(word)
    ops = np.array(sorted(accesses), np.int64)
    events, place = kernels.of(ops)
    order = np.lexsort((c.uid[events], c.start_ns[events]))
    events, place = events[order], place[order]
    owner = ops[place]
    columns: dict[str, Cells] = {
        "storage": [tensors.storage_name(number)] * len(events) if number >= 0 else [],
        "kernel": names_of(core, events),
        "access": [", ".join(accesses[row]) for row in owner.tolist()],
        "op": names_of(core, owner),
        "op_uid": c.uid[owner],
        "device": c.device[events],
        "stream": c.stream[events],
        "start_us": shown_us(core, c.start_ns[events]),
        "dur_us": c.dur_ns[events] / 1e3,
        "uid": c.uid[events],
    }
    return STORAGE_KERNELS.table(columns, title)


def _busiest(
    kernels: KernelsOfOps, core: Core, found: dict[str, tuple[np.ndarray, np.ndarray]], tensors: GraphTensors
) -> int:
    """The storage with the most time of kernels, of several the one with the smallest id and version; -1 for none."""
    both = np.concatenate([np.stack(pairs, axis=1) for pairs in found.values()])
    # An op may read and write one storage; its kernels count for it once.
    pairs = np.unique(both, axis=0)
    events, place = kernels.of(pairs[:, 0])
    every = tensors.lineage.storages
    time, count = np.zeros(len(every), np.int64), np.zeros(len(every), np.int64)
    np.add.at(time, pairs[place, 1], core.columns.dur_ns[events])
    np.add.at(count, pairs[place, 1], 1)
    with_kernels = np.flatnonzero(count)
    if not len(with_kernels):
        return -1
    order = np.lexsort((every.version[with_kernels], every.id[with_kernels], -time[with_kernels]))
    return int(with_kernels[order[0]])


def _storage_named(tensors: GraphTensors, name: str) -> int:
    names = [tensors.storage_name(number) for number in range(len(tensors.lineage.storages))]
    if name not in names:
        raise NodeNotFoundError(f"there is no storage {name!r}; {hint(name, names)}")
    return names.index(name)


_NO_RELEASES = "releases are not recorded: a storage counts from when it was made, or from the start, to its last use"


def bytes_alive(g: Core | Window, points: int = 20) -> Table:
    """Bytes of live storages at regular intervals, by device.

    A storage is alive from the start of the op that allocated it (from the trace's start if that was not seen) to the
    end of the last op that uses it: releases are not recorded, and kernels run later than the ops that launch them.
    The sizes are how far tensors reach; an allocator rounds up, and keeps what was released.

    Args:
        g: the graph; of a window of it the whole trace is shown.
        points: number of moments, from the trace's start.
    """
    w = window_of(g)
    tensors, title = tensors_of(w.core), "Bytes alive over time"
    if tensors is None:
        return without_tensors(BYTES_ALIVE, title)
    end = int(w.core.columns.end_ns.max(initial=0))
    moments = np.array([end * i // max(points, 1) for i in range(points)], np.int64)
    parts = []
    for device, here in _by_device(tensors):
        alive = _Alive(tensors, here)
        held, count = alive.at(moments)
        parts.append((device, moments, held, count, 100.0 * held / max(alive.peak, 1)))
    columns: dict[str, Cells] = {
        "device": [device for device, at, *_ in parts for _ in at],
        "at_us": shown_us(w.core, _joined([part[1] for part in parts])),
        "bytes": _joined([part[2] for part in parts]),
        "storages": _joined([part[3] for part in parts]),
        "percent_of_peak": _joined([part[4] for part in parts]).astype(float),
    }
    return BYTES_ALIVE.table(columns, title, [_NO_RELEASES])


def peak_bytes_by_module(g: Core | Window) -> Table:
    """Live storages at the peak, by the module and the outermost op that allocated them; the most bytes first.

    What is alive when: see `bytes_alive`. For an execution trace alone the order of its ops decides; `at_us` is absent.

    Args:
        g: the graph; of a window of it the whole trace is shown.
    """
    w = window_of(g, needs_times=False)
    core, tensors, title = w.core, tensors_of(w.core), "Bytes alive at the peak by module"
    if tensors is None:
        return without_tensors(PEAK_BYTES_BY_MODULE, title)
    c, every = core.columns, tensors.lineage.storages
    found: list[tuple[str, float, str | None, str | None, int, int, float]] = []
    for device, here in _by_device(tensors):
        alive = _Alive(tensors, here)
        then = here[alive.is_alive(alive.peak_at)]
        maker = tensors.rows_of_nodes(every.producer[then])
        module = np.where(maker >= 0, nearest_above(c, maker, (Kind.Module,)), -1)
        modules, ops = names_of(core, module), names_of(core, outermost_op(core, maker))
        group = text_codes(list(zip(modules, ops, strict=True)))
        firsts = np.unique(group, return_index=True)[1].tolist()
        held = np.zeros(len(firsts), np.int64)
        np.add.at(held, group, every.bytes[then])
        share = percent(held, int(every.bytes[then].sum()))
        count = np.bincount(group, minlength=len(firsts))
        at = float(shown_us(core, np.array(alive.peak_at)))
        found += [
            (device, at, modules[first], ops[first], int(count[i]), int(held[i]), float(share[i]))
            for i, first in enumerate(firsts)
        ]
    found.sort(key=lambda row: (row[0], -row[5], row[2] or "", row[3] or ""))
    columns: dict[str, Cells] = {name: [row[i] for row in found] for i, name in enumerate(PEAK_BYTES_BY_MODULE)}
    if not core.framework.has_times:
        del columns["at_us"]
    return PEAK_BYTES_BY_MODULE.table(columns, title, [_NO_RELEASES])


def shared_reads(g: Core | Window, top: int = 20) -> Table:
    """Storages that kernels on several streams of a device read, the most streams first, then the most time.

    A kernel counts for the op that it is charged to: it reads what the op reads.

    Args:
        top: number of rows; 0 for all.
    """
    w = window_of(g)
    c, tensors = w.core.columns, tensors_of(w.core)
    title = w.titled("Storages read from several streams")
    if tensors is None:
        return without_tensors(SHARED_READS, title)
    rows, storage = storages_by_row(tensors, "CONSUMES")
    events, place = KernelsOfOps(w).of(rows)
    storage = storage[place]
    there = (c.device[events] != -1) & (c.stream[events] != -1)
    events, storage = events[there], storage[there]
    group = text_codes(list(zip(storage.tolist(), c.device[events].tolist(), strict=True)))
    found = []
    for of_group in _groups(group):
        here = events[of_group]
        streams = sorted(set(c.stream[here].tolist()))
        if len(streams) > 1:
            first = here[np.lexsort((c.uid[here], c.start_ns[here]))[0]]
            found.append((int(storage[of_group[0]]), int(c.device[first]), streams, here, int(first)))
    every = tensors.lineage.storages
    found.sort(key=lambda one: (-len(one[2]), -int(c.dur_ns[one[3]].sum()), every.id[one[0]], every.version[one[0]]))
    found = found[:top] if top else found
    columns: dict[str, Cells] = {
        "storage": [tensors.storage_name(one[0]) for one in found],
        "bytes": [int(every.bytes[one[0]]) for one in found],
        "device": [one[1] for one in found],
        "streams": [len(one[2]) for one in found],
        "stream_numbers": [", ".join(map(str, one[2])) for one in found],
        "kernels": [len(one[3]) for one in found],
        "gpu_time_us": [int(c.dur_ns[one[3]].sum()) / 1e3 for one in found],
        "uid": [int(c.uid[one[4]]) for one in found],
    }
    return SHARED_READS.table(columns, title)


class _Alive:
    """Bytes of some storages over time.

    Attributes:
        peak: the most bytes that are alive at one moment.
        peak_at: the first such moment, ns from the trace's start.
    """

    def __init__(self, tensors: GraphTensors, storages: np.ndarray) -> None:
        spans = tensors.storage_spans
        self._start, self._end = spans.start_ns[storages], spans.end_ns[storages]
        self._size = tensors.lineage.storages.bytes[storages]
        times = np.concatenate((self._start, self._end))
        changes = np.concatenate((self._size, -self._size))
        order = np.lexsort((changes, times))  # what ends at a moment is no longer alive then
        self._times, self._held = times[order], np.cumsum(changes[order])
        best = int(self._held.argmax()) if len(order) else -1
        self.peak = int(self._held[best]) if best >= 0 else 0
        self.peak_at = int(self._times[best]) if best >= 0 else 0

    def is_alive(self, moment: int) -> np.ndarray:
        """Whether each storage is alive at a moment."""
        return np.asarray((self._start <= moment) & (moment < self._end))

    def at(self, moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bytes and number of the storages alive at each of some moments."""
        masks = [self.is_alive(moment) for moment in moments.tolist()]
        held = np.array([int(self._size[mask].sum()) for mask in masks], np.int64)
        return held, np.array([int(mask.sum()) for mask in masks], np.int64)


def _by_device(tensors: GraphTensors) -> Iterator[tuple[str, np.ndarray]]:
    """Storages that ops of the graph use, by the name of their device."""
    every, devices = tensors.lineage.storages, tensors.lineage.uses.devices
    there = tensors.storage_spans.end_ns >= 0
    for code in sorted(set(every.device[there].tolist()), key=devices.__getitem__):
        yield devices[code], np.flatnonzero(there & (every.device == code))


def _groups(codes: np.ndarray) -> Iterator[np.ndarray]:
    """Places of equal codes."""
    order = np.argsort(codes, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else ()


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
