"""What the traces record of one operator, and of one kernel, copy or fill."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from tracelens_graph.categories.kernel_names import properties
from tracelens_graph.execution.sides import Arguments
from tracelens_graph.execution.tensor_places import elements_of_type, value_at
from tracelens_graph.execution.tensor_uses import TensorUses, tensor_uses
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.graph.thread_blocks import device_properties, grid_in_blocks, sizes
from tracelens_graph.linkage.traces import (
    CATEGORIES,
    execution_trace_of,
    graph_of,
    identifier_of_row,
    row_of_identifier,
    row_of_node,
    timestamp_us,
)
from tracelens_graph.perf.occupancy import theoretical_occupancy
from tracelens_graph.schema import Kind


def operation_metadata_scrape(cpu_op_id: int, cpu_trace: Any) -> dict[str, Any]:
    """The record of an operator in the execution trace.

    Args:
        cpu_op_id: id of its node.
        cpu_trace: the execution trace: a path, parsed JSON, or a graph that `load_trace` made or that is linked.

    Returns:
        A dictionary of plain values, None for what the trace does not say:

        * `id`, `name`, `rf_id` (None for 0, which is not an id)
        * `ctrl_deps`: id of the node that it ran in; `ctrl_deps_name`: the name of that
        * `schema`: the operator's schema, such as `aten::mm(Tensor self, Tensor mat2) -> Tensor`
        * `sequence_number`, `scope`, `thread`; of a backward op `forward_thread` and `forward_parent`, the id of the
          node that was open there
        * `inputs`, `outputs`: in the order of the schema, a dictionary for each tensor: `argument` (position among the
          arguments), `item` (position in a list of tensors, those that were not given counted, else None), `tensor_id`,
          `storage_id`, `offset` (in elements), `shape`, `dtype`, `device`, `elements`, `element_bytes`, `bytes` (the
          product of the two), `stride`
        * `input_bytes`, `output_bytes`: sums of `bytes`
        * `values`: inputs that are not tensors, or tensors that were not given, each with `argument`, `item`, `type`
          and `value`
        * `attributes`: what else was recorded, such as sizes of a collective

    Raises:
        NodeNotFoundError: no node has the id.
        TraceError: the execution trace cannot be read, or is none.
    """
    execution = execution_trace_of(cpu_trace)
    return metadata_of_row(execution, row_of_node(execution, cpu_op_id))


def metadata_of_row(execution: ExecutionTrace, row: int) -> dict[str, Any]:
    """What `operation_metadata_scrape` gives, for a row of the execution trace."""
    parent, forward_parent = int(execution.parent[row]), int(execution.forward_parent[row])
    uses = tensor_uses(execution, [row])
    tensors, is_output = list(_tensors(uses)), uses.is_output.tolist()
    inputs, outputs = (
        [one for one, made in zip(tensors, is_output, strict=True) if made is side] for side in (False, True)
    )
    return {
        "id": int(execution.id[row]),
        "name": execution.names[execution.name[row]],
        "rf_id": int(execution.rf_id[row]) or None,
        "ctrl_deps": int(execution.id[parent]) if parent >= 0 else None,
        "ctrl_deps_name": execution.names[execution.name[parent]] if parent >= 0 else None,
        "schema": execution.schemas[execution.schema[row]] or None,
        "sequence_number": _known(int(execution.sequence[row])),
        "scope": int(execution.scope[row]),
        "thread": int(execution.tid[row]) or None,
        "forward_thread": int(execution.forward_tid[row]) or None,
        "forward_parent": int(execution.id[forward_parent]) if forward_parent >= 0 else None,
        "inputs": inputs,
        "outputs": outputs,
        "input_bytes": sum(tensor["bytes"] for tensor in inputs),
        "output_bytes": sum(tensor["bytes"] for tensor in outputs),
        "values": list(_values(execution.inputs[row], {(tensor["argument"], tensor["item"]) for tensor in inputs})),
        "attributes": dict(execution.more.get(row, {})),
    }


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def _values(side: Arguments, tensors: set[tuple[int, int | None]]) -> Iterator[dict[str, Any]]:
    """What is no tensor, also in lists that hold some."""
    with_tensors = {place for place, _ in tensors}
    for place, argument in enumerate(side.decoded()):
        if place not in with_tensors:
            yield {"argument": place, "item": None, "type": argument.type, "value": argument.value}
        elif (place, None) not in tensors:
            for item, (path, kind) in enumerate(elements_of_type(argument.type)):
                if (place, item) not in tensors:
                    yield {"argument": place, "item": item, "type": kind, "value": value_at(argument.value, path)}


def _tensors(uses: TensorUses) -> Iterator[dict[str, Any]]:
    for use in range(len(uses)):
        item, elements, width = (int(of[use]) for of in (uses.element, uses.elements, uses.itemsize))
        strides = uses.all_strides[uses.strides[use]]
        yield {
            "argument": int(uses.position[use]),
            "item": _known(item),
            "tensor_id": int(uses.tensor[use]),
            "storage_id": int(uses.storage[use]),
            "offset": int(uses.offset[use]),
            "shape": list(uses.shapes[uses.shape[use]]),
            "dtype": uses.dtypes[uses.dtype[use]] or None,
            "device": uses.devices[uses.device[use]],
            "elements": elements,
            "element_bytes": width,
            "bytes": elements * width,
            "stride": None if strides is None else list(strides),
        }


_BANDWIDTH = "memory bandwidth (GB/s)"


def kernel_metadata_scrape(identifier: Any, gpu_trace: Any) -> dict[str, Any]:
    """The recorded properties of a kernel, copy or fill.

    Args:
        identifier: what `get_gpu_op_identifier` gives: (timestamp, duration, stream, External id).
        gpu_trace: the profiler's trace: a path, parsed JSON or a graph.

    Returns:
        A dictionary of plain values, None for what the trace does not say:

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
    device = device_properties(core).get(node.device, {})
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
        found |= _launch_shape({**launch_args, **args}, "" if launch is None else launch.name)
        found |= _occupancy(args, device, found)
    else:
        found["bytes"] = size if size >= 0 else None
        found["bandwidth_gb_s"] = _number(args.get(_BANDWIDTH))
    found["name_tells"] = properties(node.name)
    return found


def _launch_shape(args: Mapping[str, Any], launch: str) -> dict[str, Any]:
    """Grid, block and resources of a kernel; AMD's profilers write some of them with its launch."""
    grid, block = grid_in_blocks(args, launch), sizes(args.get("block"))
    blocks, width = prod(grid) if grid else None, prod(block) if block else None
    return {
        "grid": grid,
        "block": block,
        "blocks": blocks,
        "threads_per_block": width,
        "threads": None if blocks is None or width is None else blocks * width,
        "shared_memory_bytes": _number(args.get("shared memory")),
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


def _number(value: Any, least: float | None = None) -> Any:
    """A number of the trace as it stands there; None for anything else."""
    if type(value) not in (int, float) or (least is not None and value < least):
        return None
    return value
