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
    if events is None:
        try:
            events = core.details.events(c.uid[rows].tolist())
        except TraceError:
            return [None] * len(rows)
    found = []
    for uid, parent in zip(c.uid[rows].tolist(), c.parent[rows].tolist(), strict=True):
        args = events.get(uid, {}).get("args")
        launch = core.names[c.name[parent]] if parent >= 0 else ""
        found.append(grid_in_blocks(args, launch) if isinstance(args, dict) else None)
    return found


def multiprocessors(core: Core) -> dict[Any, int]:
    """How many multiprocessors the devices of a trace have, by number; without devices that do not record it."""
    found = {device: one.get("numSms") for device, one in device_properties(core).items()}
    return {device: size for device, size in found.items() if type(size) is int and size > 0}


def device_properties(core: Core) -> dict[Any, dict[str, Any]]:
    """What the profiler wrote of each device, by its number."""
    listed = core.info.metadata.get("deviceProperties")
    described = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return {one.get("id"): one for one in reversed(described)}
