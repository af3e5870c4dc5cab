"""What the profiler's trace, its device and its name tell of a kernel, copy or fill."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from tracelens_graph.categories.kernel_names import properties
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.linkage.identifiers import identifier_of_row, row_of_identifier, timestamp_us
from tracelens_graph.linkage.records import CATEGORIES
from tracelens_graph.linkage.traces import graph_of
from tracelens_graph.perf.occupancy import theoretical_occupancy
from tracelens_graph.schema import Kind

_COUNTS_THREADS = frozenset({"hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"})
"""Calls whose grid is a number of threads, not of blocks."""

_BANDWIDTH = "memory bandwidth (GB/s)"


def kernel_metadata_scrape(identifier: Any, gpu_trace: Any) -> dict[str, Any]:
    """What is known of a kernel, copy or fill.

    Args:
        identifier: what `get_gpu_op_identifier` gives: (timestamp, duration, stream, External id).
        gpu_trace: the profiler's trace: a path, parsed JSON or a graph.

    Returns:
        A dictionary of plain values, None for what the trace does not tell:

        * `uid`, `identifier`, `name`, `category` (`kernel`, `gpu_memcpy`, `gpu_memset`), `device`, `device_name`,
          `context`, `stream`, `correlation`, `external_id`
        * `ts_us`, `dur_us` as in the file; `start_ns`, `end_ns` from the trace's start, `dur_ns`, which are exact
        * of kernels: `grid` in blocks and `block` in threads, [x, y, z] each; `blocks`, `threads_per_block`,
          `threads` of the whole grid; `shared_memory_bytes` of a block, `registers_per_thread`; `blocks_per_sm` and
          `warps_per_sm`, those of the grid divided by the number of multiprocessors
        * `occupancy_percent` and `occupancy_source`: what the profiler wrote ("reported"). Where that is 0, which a
          small estimate is rounded to, or nothing: the estimate for a grid that does not fill the device
          ("estimated"), else the theoretical one ("theoretical"). None with the reason in `occupancy_unknown`
        * `theoretical_occupancy`: None, or `percent`, `blocks_per_sm` and `warps_per_sm` that can be resident at a
          time, `most_warps_per_sm`, `limited_by` (resources that allow no more), `limits` (resource -> blocks that it
          alone allows) and `estimated_percent`, by the formula of the reported one, not rounded
        * of copies and fills: `bytes`, `bandwidth_gb_s`
        * `name_tells`: what the name says, such as library, data type and tile

    Raises:
        NodeNotFoundError: no GPU event has the identifier, or several have.
        TraceError: the trace cannot be read.
    """
    core = graph_of(gpu_trace)
    return metadata_of_gpu_row(core, row_of_identifier(core, identifier))


def metadata_of_gpu_row(core: Core, row: int) -> dict[str, Any]:
    """What `kernel_metadata_scrape` gives, for a row of the graph."""
    node = Node(core, row)
    args, launch = node.args, node.parent
    launch_args = launch.args if launch is not None and launch.kind is Kind.RuntimeCall else {}
    device = _device(core, node.device)
    size = int(core.columns.bytes[row])
    found: dict[str, Any] = {
        "uid": node.uid,
        "identifier": identifier_of_row(core, row),
        "name": node.name,
        "category": CATEGORIES[node.kind],
        "device": node.device,
        "device_name": str(device["name"]) if device.get("name") else None,
        "context": _number(args.get("context")),
        "stream": node.stream,
        "correlation": _number(int(core.columns.correlation[row]), least=0),
        "external_id": node.external_id,
        "ts_us": timestamp_us(core, row),
        "dur_us": node.dur_ns / 1000,
        "start_ns": node.start_ns,
        "end_ns": node.end_ns,
        "dur_ns": node.dur_ns,
    }
    if node.kind is Kind.Kernel:
        counts_threads = launch is not None and launch.name in _COUNTS_THREADS
        found |= _launch_shape(args, launch_args, counts_threads)
        found |= _occupancy(args, device, found)
    else:
        found["bytes"] = size if size >= 0 else None
        found["bandwidth_gb_s"] = _number(args.get(_BANDWIDTH))
    found["name_tells"] = properties(node.name)
    return found


def _launch_shape(args: Mapping[str, Any], launch: Mapping[str, Any], counts_threads: bool) -> dict[str, Any]:
    """Grid, block and resources of a kernel; AMD's profilers write some of them with its launch."""

    def told(key: str) -> Any:
        return args.get(key, launch.get(key))

    grid, block = _sizes(told("grid")), _sizes(told("block"))
    if counts_threads and grid and block and all(block):
        grid = [-(-threads // width) for threads, width in zip(grid, block, strict=True)]
    blocks, width = prod(grid) if grid else None, prod(block) if block else None
    return {
        "grid": grid,
        "block": block,
        "blocks": blocks,
        "threads_per_block": width,
        "threads": None if blocks is None or width is None else blocks * width,
        "shared_memory_bytes": _number(told("shared memory")),
        "registers_per_thread": _number(args.get("registers per thread")),
        "blocks_per_sm": _number(args.get("blocks per SM")),
        "warps_per_sm": _number(args.get("warps per SM")),
    }


def _occupancy(args: Mapping[str, Any], device: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    reported = _number(args.get("est. achieved occupancy %"))
    theory = theoretical_occupancy(
        device, shape["threads_per_block"], shape["registers_per_thread"], shape["shared_memory_bytes"], shape["blocks"]
    )
    percent, source, described = reported or None, "reported" if reported else None, None
    if not isinstance(theory, str):
        if not reported:
            is_small = theory.is_filled is False
            percent = theory.estimated_percent if is_small else theory.percent
            source = "estimated" if is_small else "theoretical"
        described = {
            "percent": theory.percent,
            "blocks_per_sm": theory.blocks,
            "warps_per_sm": theory.warps,
            "most_warps_per_sm": theory.most_warps,
            "limited_by": theory.limited_by,
            "limits": dict(theory.limits),
            "estimated_percent": theory.estimated_percent,
        }
    return {
        "occupancy_percent": percent,
        "occupancy_source": source,
        "occupancy_unknown": None if percent is not None else theory,
        "theoretical_occupancy": described,
    }


def _device(core: Core, number: int | None) -> Mapping[str, Any]:
    """What the profiler wrote of a device."""
    listed = core.info.metadata.get("deviceProperties")
    described = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return next((one for one in described if one.get("id") == number), {})


def _sizes(value: Any) -> list[int] | None:
    """Three sizes of a grid or block."""
    is_triple = isinstance(value, list) and len(value) == 3 and all(type(one) is int and one >= 0 for one in value)
    return list(value) if is_triple else None


def _number(value: Any, least: float | None = None) -> Any:
    """A number of the trace as it stands there; None for anything else."""
    if type(value) not in (int, float) or (least is not None and value < least):
        return None
    return value
