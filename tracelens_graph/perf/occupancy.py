"""How many blocks of a kernel fit onto a multiprocessor, by NVIDIA's rules.

The rules are those of the occupancy calculator that comes with CUDA, with the limits of each compute capability from
the technical specifications in the CUDA C++ Programming Guide. The capacities themselves (threads, registers, shared
memory) are those that the profiler wrote of the device. AMD's rules need the registers of a kernel, which no trace of
an AMD device shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

WARPS, BLOCKS, REGISTERS, SHARED_MEMORY = "warps", "blocks", "registers", "shared memory"
_NEEDED = ("threads of a block", "registers of a thread", "shared memory")
_CAPACITIES = ("maxThreadsPerMultiprocessor", "warpSize", "regsPerMultiprocessor", "sharedMemPerMultiprocessor")
_LARGEST = 2**40
"""A size from which on nothing is believed."""


class _Rules(NamedTuple):
    """What a kind of multiprocessor does with a block.

    Attributes:
        most_blocks: blocks that one holds at a time.
        partitions: parts of it with registers of their own; a warp's registers lie in one of them.
        register_unit: registers of a warp are allotted in multiples of this.
        shared_unit: shared memory of a block, in bytes, is allotted in multiples of this.
        shared_reserved: bytes of shared memory that each block takes beside its own.
    """

    most_blocks: int
    partitions: int
    register_unit: int
    shared_unit: int
    shared_reserved: int


_KEPLER = _Rules(16, 4, 256, 256, 0)
_MAXWELL = _Rules(32, 4, 256, 256, 0)
_AMPERE = _Rules(32, 4, 256, 128, 1024)

_BY_CAPABILITY: Mapping[tuple[int, int], _Rules] = {
    (3, 0): _KEPLER, (3, 5): _KEPLER, (3, 7): _KEPLER,
    (5, 0): _MAXWELL, (5, 2): _MAXWELL, (5, 3): _MAXWELL,
    (6, 0): _MAXWELL._replace(partitions=2), (6, 1): _MAXWELL, (6, 2): _MAXWELL,
    (7, 0): _MAXWELL, (7, 2): _MAXWELL, (7, 5): _MAXWELL._replace(most_blocks=16),
    (8, 0): _AMPERE, (8, 6): _AMPERE._replace(most_blocks=16), (8, 7): _AMPERE._replace(most_blocks=16),
    (8, 9): _AMPERE._replace(most_blocks=24), (9, 0): _AMPERE, (10, 0): _AMPERE, (10, 3): _AMPERE,
    (11, 0): _AMPERE._replace(most_blocks=24), (12, 0): _AMPERE._replace(most_blocks=24),
    (12, 1): _AMPERE._replace(most_blocks=24),
}  # fmt: skip
"""Compute capability of an NVIDIA device -> its rules."""

_WAVE = 64
"""Threads that AMD's devices for data centres run together; NVIDIA's warps have 32."""


@dataclass(frozen=True)
class Occupancy:
    """What of a kernel can be resident on one multiprocessor at a time, if it has blocks enough.

    Attributes:
        blocks: blocks on a multiprocessor.
        warps: warps of these; most_warps: warps that it can hold at all.
        limits: resource -> blocks that it alone would allow.
        estimated_percent: share of the threads of all multiprocessors that the grid fills if its blocks spread evenly,
            which is what Kineto writes, rounded, as `est. achieved occupancy %`; None where the number of blocks or of
            multiprocessors is not known.
        is_filled: whether the grid has blocks enough for all multiprocessors; None where the estimate is.
    """

    blocks: int
    warps: int
    most_warps: int
    limits: Mapping[str, int]
    estimated_percent: float | None = None
    is_filled: bool | None = None

    @property
    def percent(self) -> float:
        """Resident warps as a share of those that a multiprocessor can hold: the theoretical occupancy."""
        return 100 * self.warps / self.most_warps

    @property
    def limited_by(self) -> list[str]:
        """The resources that allow no more blocks."""
        return [resource for resource, blocks in self.limits.items() if blocks == self.blocks]


def theoretical_occupancy(
    device: Mapping[str, Any],
    threads_per_block: int | None,
    registers_per_thread: int | None,
    shared_memory_bytes: int | None,
    grid_blocks: int | None = None,
) -> Occupancy | str:
    """The occupancy that a kernel's launch allows on a device.

    Shared memory counts with the largest share of the on-chip memory that the device can give it, as the driver
    chooses by default.

    Args:
        shared_memory_bytes: shared memory of a block, static and dynamic.

    Returns:
        The occupancy, or why it is not known, in words.
    """
    if not (_is_size(threads_per_block) and _is_size(registers_per_thread) and _is_size(shared_memory_bytes)):
        given = zip(_NEEDED, (threads_per_block, registers_per_thread, shared_memory_bytes), strict=True)
        return f"the trace does not give {', '.join(what for what, size in given if not _is_size(size))} of the kernel"
    rules = _rules_of(device)
    if isinstance(rules, str):
        return rules
    sizes = [size for key in _CAPACITIES if _is_size(size := device.get(key)) and size]
    if len(sizes) < len(_CAPACITIES):
        return "the trace does not give threads, warp size, registers and shared memory of a multiprocessor"
    threads, width, registers, shared = sizes
    if not threads_per_block:
        return "a block of the kernel has no threads"
    most_warps = threads // width
    warps = -(-threads_per_block // width)
    limits = {WARPS: most_warps // warps, BLOCKS: rules.most_blocks}
    if registers_per_thread:
        of_warp = _rounded_up(registers_per_thread * width, rules.register_unit)
        # A warp's registers lie in one partition, so what is left over in several of them serves no further warp.
        limits[REGISTERS] = registers // rules.partitions // of_warp * rules.partitions // warps
    if of_block := _rounded_up(shared_memory_bytes + rules.shared_reserved, rules.shared_unit):
        limits[SHARED_MEMORY] = shared // of_block
    blocks = min(limits.values())
    if not blocks:
        too_much = [resource for resource, count in limits.items() if not count]
        return f"a block of the kernel needs more {' and '.join(too_much)} than the device has"
    units = device.get("numSms")
    estimate = is_filled = None
    if _is_size(units) and units and _is_size(grid_blocks):
        # By threads, and with fractions of blocks, as Kineto estimates it.
        estimate = 100 * min(blocks, grid_blocks / units) * threads_per_block / threads
        is_filled = grid_blocks >= blocks * units
    return Occupancy(blocks, blocks * warps, most_warps, limits, estimate, is_filled)


def _rules_of(device: Mapping[str, Any]) -> _Rules | str:
    major, minor = device.get("computeMajor"), device.get("computeMinor")
    if device.get("warpSize") == _WAVE:
        return "no rules are known for AMD devices"
    if found := _BY_CAPABILITY.get((major, minor)) if isinstance(major, int) and isinstance(minor, int) else None:
        return found
    if major is None:
        return "the trace does not describe the device"
    return f"no rules are known for compute capability {major!r:.20}.{minor!r:.20}"


def _rounded_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _is_size(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < _LARGEST
