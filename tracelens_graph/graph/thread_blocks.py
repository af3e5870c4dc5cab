"""How many thread blocks kernels were launched with, and how many multiprocessors there are for them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from tracelens_graph.errors import TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.utils.arrays import Codes, Rows

_COUNTS_THREADS = frozenset({"hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"})
"""Calls whose grid is a number of threads, not of blocks."""


def sizes(value: Any) -> list[int] | None:
    """Three sizes of a grid or block; None for anything else."""
    is_triple = isinstance(value, list) and len(value) == 3 and all(type(one) is int and one >= 0 for one in value)
    return list(value) if is_triple else None


def grid_in_blocks(args: Mapping[str, Any], launch: str) -> list[int] | None:
    """The grid of a kernel, counted in blocks; None where it is not recorded.

    Args:
        args: arguments of the kernel, or of its launch, where AMD's profilers write some of them.
        launch: name of the launch; some calls of HIP take a grid of threads.
    """
    grid, block = sizes(args.get("grid")), sizes(args.get("block"))
    if launch in _COUNTS_THREADS and grid and block and all(block):
        return [-(-threads // width) for threads, width in zip(grid, block, strict=True)]
    return grid


def thread_blocks(core: Core, rows: Rows, events: Mapping[int, dict[str, Any]] | None = None) -> Codes:
    """Number of blocks of each kernel; 0 where it is not recorded, or the file is gone.

    Args:
        rows: rows of kernels.
        events: their entries in the file by uid, where these were read before.
    """
    return np.array([min(prod(grid), 2**62) if grid else 0 for grid in grids_in_blocks(core, rows, events)], np.int64)


def grids_in_blocks(
    core: Core, rows: Rows, events: Mapping[int, dict[str, Any]] | None = None
) -> list[list[int] | None]:
    """The grid of each kernel, counted in blocks; None where it is not recorded, or the file is gone.

    Args:
        core, rows, events: as of `thread_blocks`.
    """
    c = core.columns
    uids, parent = c.uid[rows].tolist(), c.parent[rows]
    try:
        events = core.details.events(uids) if events is None else events
        own = [_args(events.get(uid)) for uid in uids]
        bare = np.array([sizes(args.get("grid")) is None for args in own], bool) & (parent >= 0)
        launches = core.details.events(c.uid[np.unique(parent[bare])].tolist())
    except TraceError:
        return [None] * len(rows)
    call = [int(c.uid[row]) if row >= 0 else -1 for row in parent.tolist()]
    return [
        grid_in_blocks(_args(launches.get(uid)) | args, core.names[c.name[row]] if row >= 0 else "")
        for args, uid, row in zip(own, call, parent.tolist(), strict=True)
    ]


def _args(event: Mapping[str, Any] | None) -> dict[str, Any]:
    args = event.get("args") if event else None
    return args if isinstance(args, dict) else {}


def multiprocessors(core: Core) -> dict[Any, int]:
    """How many multiprocessors the devices of a trace have, by number; without devices that do not record it."""
    found = {device: one.get("numSms") for device, one in device_properties(core).items()}
    return {device: size for device, size in found.items() if type(size) is int and size > 0}


def device_properties(core: Core) -> dict[Any, dict[str, Any]]:
    """What the profiler wrote of each device, by its number.

    ROCm numbers the devices that a process sees from 0 in the description, and by their place in the node in events:
    where no device with GPU work is described, and all descriptions are of one kind, they are descriptions of these.
    """
    return core.once(_device_properties)


def _device_properties(core: Core) -> dict[Any, dict[str, Any]]:
    listed = core.info.metadata.get("deviceProperties")
    described = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    found = {one.get("id"): one for one in reversed(described)}
    used = np.unique(core.columns.device[core.gpu_rows]).tolist()
    is_one_kind = len({(str(one.get("name")), str(one.get("numSms"))) for one in described}) == 1
    return found | dict.fromkeys(used, described[0]) if is_one_kind and found.keys().isdisjoint(used) else found
