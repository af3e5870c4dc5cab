"""Recorded changes of memory as columns, and notes on traces without them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import fitting_names
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.info import BEFORE_HISTORY, OLD_MEMORY
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.graph.window import Window, whole_window
from tracelens_graph.schema import Kind
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

NO_VALUE = -(2**63)
"""Stands for what was not recorded."""

CPU = "cpu"

LARGEST = 2**50
"""Bytes of the largest change and the largest total that are believed, 1 PiB: what is beyond is no size."""

_LARGEST_SUM = 2**62

_DEVICE_TYPES = {
    0: CPU, 1: "cuda", 2: "mkldnn", 3: "opengl", 4: "opencl", 5: "ideep", 6: "hip", 7: "fpga", 8: "maia", 9: "xla",
    10: "vulkan", 11: "metal", 12: "xpu", 13: "mps", 14: "meta", 15: "hpu", 16: "ve", 17: "lazy", 18: "ipu",
    19: "mtia", 20: "privateuseone",
}  # fmt: skip
"""`Device Type` as PyTorch numbers them (c10/core/DeviceType.h)."""

_TOTALS = ("Total Allocated", "Total Reserved")
_ARGUMENTS = ("Device Type", "Device Id", "Addr", *_TOTALS, BEFORE_HISTORY)
_AT_ONCE = 65536
_WHOLE = re.compile(r"-?[0-9]{1,20}")


@dataclass(frozen=True)
class Instants:
    """Allocations and releases, device by device in the order of time; those of one moment in the order of the file.

    Attributes:
        rows: their rows.
        device: place of each one's device in `devices`.
        devices: names of devices: accelerators by index, then the CPU. Each has instants.
        change: bytes, positive where they were allocated.
        address: of the block; NO_VALUE where it is not recorded.
        allocated: total of the allocator behind the change; where it is not recorded, by the sum of changes.
        reserved: what the allocator holds of the device then; NO_VALUE where that is not recorded.
        is_summed: per device, whether any of `allocated` is a sum.
        has_totals: per device, whether any of `allocated` is recorded.
        is_spoilt: whether a total is recorded that cannot be one: no number, negative, beyond `LARGEST`, or less
            reserved than allocated, which does not count as reserved.
        is_before: whether it stands for what was allocated before the recorded history, as snapshots show it.
        failed: rows of allocations that failed for want of memory; they are none of the above.
        unreadable: rows of allocations and releases whose size is not recorded, no number, or beyond `LARGEST`; they
            are none of the above, either.
    """

    rows: np.ndarray
    device: np.ndarray
    devices: tuple[str, ...]
    change: np.ndarray
    address: np.ndarray
    allocated: np.ndarray
    reserved: np.ndarray
    is_summed: np.ndarray
    has_totals: np.ndarray
    is_spoilt: np.ndarray
    is_before: np.ndarray
    failed: np.ndarray
    unreadable: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def of_devices(self) -> Iterator[tuple[str, slice]]:
        """Each device, and where its instants stand."""
        ends = np.cumsum(np.bincount(self.device, minlength=len(self.devices))).tolist()
        for name, low, high in zip(self.devices, [0, *ends], ends, strict=False):
            yield name, slice(low, high)


def instants_of(core: Core) -> Instants:
    """The allocations and releases of a trace, read from its file the first time only.

    Raises:
        ChangedTraceError: the file is no longer the one that was loaded.
    """
    return whole_window(core).once(_instants)


def _instants(w: Window) -> Instants:
    core, c = w.core, w.core.columns
    rows = rows_of_kind(c, (Kind.MemoryEvent,))
    is_failure = fitting_names(core, _is_failure)[c.name[rows]]
    failed, rows = rows[is_failure], rows[~is_failure]
    is_size = _are_sizes(c.bytes[rows])
    is_change = fitting_names(core, lambda name: name == "[memory]")[c.name[rows]]
    unreadable, rows = rows[~is_size & is_change], rows[is_size]
    if not len(rows):
        none, no = np.zeros(0, np.int64), np.zeros(0, bool)
        return Instants(rows, none, (), none, none, none, none, no, no, no, no, failed, unreadable)
    (kind, index, address, allocated, reserved, before), is_spoilt = _arguments(core, rows)
    index = np.where(index == NO_VALUE, c.device[rows], index)
    # Some versions of numpy give the inverse a second dimension, hence the reshape below.
    kinds, device = np.unique(np.stack((kind, index), axis=1), axis=0, return_inverse=True)
    names = [_device_name(*pair) for pair in kinds.tolist()]
    known = sorted(set(names), key=lambda name: (name.startswith(CPU), name.partition(":")[0], _number(name)))
    device = np.array([known.index(name) for name in names], np.int64)[device.reshape(-1)]
    order = np.lexsort((c.uid[rows], c.start_ns[rows], device))
    rows, device = rows[order], device[order]
    address, allocated, reserved, is_spoilt = address[order], allocated[order], reserved[order], is_spoilt[order]
    is_too_few = (reserved > 0) & (reserved < allocated)
    reserved[is_too_few], is_spoilt = NO_VALUE, is_spoilt | is_too_few
    change = c.bytes[rows].astype(np.int64)
    is_summed = np.zeros(len(known), bool)
    is_summed[device[allocated == NO_VALUE]] = True
    has_totals = np.zeros(len(known), bool)
    has_totals[device[allocated != NO_VALUE]] = True
    found = Instants(
        rows, device, tuple(known), change, address, allocated, reserved, is_summed, has_totals, is_spoilt,
        before[order] == 1, failed, unreadable,
    )  # fmt: skip
    for place, (_, here) in enumerate(found.of_devices()):
        if is_summed[place]:
            allocated[here] = _summed(change[here], address[here], allocated[here])
    return found


def _is_failure(name: str) -> bool:
    return "outofmemory" in re.sub(r"[^a-z]", "", name.lower())


def _are_sizes(change: np.ndarray) -> np.ndarray:
    """Which changes are sizes that may be added up: of very many large ones those alone whose sum is an int64."""
    known = (change >= -LARGEST) & (change <= LARGEST)
    # Added up as floats: whole numbers would overflow just where that has to be noticed.
    if np.abs(change[known].astype(float)).sum() >= _LARGEST_SUM:
        known &= np.abs(np.where(known, change, 0)) <= _LARGEST_SUM // len(change)
    return np.asarray(known)


def _device_name(kind: int, index: int) -> str:
    if kind == NO_VALUE:  # of old PyTorch
        return CPU if index < 0 else f"device:{index}"
    name = _DEVICE_TYPES.get(kind, f"type{kind}")
    return name if index < 0 else f"{name}:{index}"


def _number(name: str) -> int:
    return int(name.partition(":")[2] or -1)


def _summed(change: np.ndarray, address: np.ndarray, allocated: np.ndarray) -> np.ndarray:
    """Totals, those that are missing by the sum of changes: from the first one that is there, else from what was there
    from the beginning, which is what is released but never allocated."""
    total, known = np.cumsum(change), allocated != NO_VALUE
    if known.any():
        first = int(np.argmax(known))
        return np.where(known, allocated, total + (allocated[first] - total[first]))
    freed = np.flatnonzero(change < 0)
    total = total - int(change[freed[releases(address, change)[0][freed] < 0]].sum())
    return np.asarray(total - min(int(total.min()), 0))


def releases(address: np.ndarray, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which release belongs to which allocation: the next change at its address.

    Args:
        address: address of each change, of one device in the order of time.
        change: bytes, positive where they were allocated.

    Returns:
        For each release the place of its allocation, -1 for none, and for each other change -1; for each allocation
        the place of the next change at its address, -1 for none, and for each other change -1. That next change is
        another allocation where the release was not recorded.
    """
    allocation, following = np.full(len(address), -1, np.int64), np.full(len(address), -1, np.int64)
    known = np.flatnonzero((address != NO_VALUE) & (change != 0))
    # Stable, so that the changes of an address stay in the order of time.
    known = known[np.argsort(address[known], kind="stable")]
    before, behind = known[:-1], known[1:]
    same = (address[before] == address[behind]) & (change[before] > 0)
    before, behind = before[same], behind[same]
    following[before] = behind
    freed = change[behind] < 0
    allocation[behind[freed]] = before[freed]
    return allocation, following


def _arguments(core: Core, rows: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """The arguments of events, as they stand in the file, an array each; and for which a total cannot be one."""
    uids = core.columns.uid[rows]
    found = [np.full(len(rows), NO_VALUE, np.int64) for _ in _ARGUMENTS]
    is_spoilt = np.zeros(len(rows), bool)
    order = np.argsort(uids)
    events = core.details.each(uids.tolist())
    while some := list(islice(events, _AT_ONCE)):
        here = order[np.searchsorted(uids, [uid for uid, _ in some], sorter=order)]
        arguments = [_args(event) for _, event in some]
        for name, values in zip(_ARGUMENTS, found, strict=True):
            numbers = _numbers([one.get(name) for one in arguments])
            if name in _TOTALS:
                numbers[(numbers < 0) | (numbers > LARGEST)] = NO_VALUE
                lost = [
                    place
                    for place in np.flatnonzero(numbers == NO_VALUE).tolist()
                    if arguments[place].get(name) is not None
                ]
                is_spoilt[here[lost]] = True
            values[here] = numbers
    return found, is_spoilt


def _args(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _numbers(values: Sequence[Any]) -> np.ndarray:
    if all(type(value) is int for value in values):
        try:
            return np.array(values, np.int64)
        except OverflowError:  # addresses of 64 bits
            pass
    return np.fromiter(_whole(values), np.int64, len(values))


def _whole(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            value = int(value)
        if isinstance(value, float) and abs(value) < 2**62:
            value = int(value)
        # Addresses may take all 64 bits; in two's complement different ones stay different in an int64.
        yield (value + 2**63) % 2**64 - 2**63 if type(value) is int and abs(value) < 2**64 else NO_VALUE


_OLD = (
    "allocations and releases are recorded as in 2021, without addresses, and cannot be read: record with a newer "
    "PyTorch and profile_memory=True"
)
_SIZES = 4
"""How many sizes of allocations that failed a note names, the largest."""
_NOT_HERE = "no allocation or release is in this part of the trace"


def without_instants(schema: TableSchema, title: str, w: Window) -> Table:
    """The empty table of a window without allocations."""
    return schema.empty(title, [_why_none(w), *notes_on(w)])


def _why_none(w: Window) -> str:
    found = instants_of(w.core)
    if (unreadable := int(w.holds(found.unreadable).sum())) and not w.holds(found.rows).any():
        return f"{unreadable:,} allocations and releases are recorded, but no size can be read"
    if len(found) or len(found.unreadable):
        return _NOT_HERE
    if old := w.core.info.left_out.get(OLD_MEMORY, 0):
        return f"{old:,} {_OLD}"
    return w.framework.no_allocations


def notes_on(w: Window) -> list[str]:
    """What the profiler did not record, and what went wrong in the program."""
    found, notes = instants_of(w.core), []
    if len(failed := found.failed[w.holds(found.failed)]):
        sizes = [f"{size:,}" for size in sorted({*w.core.columns.bytes[failed].tolist()}, reverse=True) if size > 0]
        of = f" ({', '.join(sizes[:_SIZES])} bytes)" if sizes else ""
        notes.append(f"{len(failed):,} {'allocation' if len(failed) == 1 else 'allocations'} failed: out of memory{of}")
    here = int(w.holds(found.rows).sum())
    if here and (unreadable := int(w.holds(found.unreadable).sum())):
        notes.append(
            f"{unreadable:,} of {unreadable + here:,} allocations and releases have no readable size and do not count: "
            "what they allocated or released seems to be allocated earlier, or unreleased"
        )
    if spoilt := int((w.holds(found.rows) & found.is_spoilt).sum()):
        notes.append(f"{spoilt:,} of {here:,} allocations and releases have no total of the allocator that can be true")
    if summed := _devices(found, found.is_summed & ~found.has_totals):
        notes.append(
            f"totals of {summed} are not recorded: changes are summed up, so what was in use before and is not "
            "released is missing"
        )
    if partly := _devices(found, found.is_summed & found.has_totals):
        notes.append(f"not every total of {partly} is recorded: the others are sums of changes")
    lost = int((w.holds(found.rows) & (found.address == NO_VALUE)).sum())
    if lost:
        notes.append(f"{lost:,} of {len(found):,} changes have no address: nobody is said to hold what they allocate")
    return notes


def _devices(found: Instants, chosen: np.ndarray) -> str:
    return ", ".join(name for name, is_chosen in zip(found.devices, chosen.tolist(), strict=True) if is_chosen)
