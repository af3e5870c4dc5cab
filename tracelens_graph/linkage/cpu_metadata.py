"""What an execution trace records of one operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracelens_graph.execution.sides import Arguments
from tracelens_graph.execution.tensor_places import elements_of_type, value_at
from tracelens_graph.execution.tensor_uses import TensorUses, tensor_uses
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.linkage.traces import execution_trace_of, row_of_node


def operation_metadata_scrape(cpu_op_id: int, cpu_trace: Any) -> dict[str, Any]:
    """What the execution trace says of an operator.

    Args:
        cpu_op_id: id of its node.
        cpu_trace: the execution trace: a path, parsed JSON, or a graph that `load_trace` made or that is linked.

    Returns:
        A dictionary of plain values, None for what the trace does not tell:

        * `id`, `name`, `rf_id` (None for 0, which is no id)
        * `ctrl_deps`: id of the node that it ran in; `ctrl_deps_name`: the name of that
        * `schema`: the operator's schema, such as `aten::mm(Tensor self, Tensor mat2) -> Tensor`
        * `sequence_number`, `scope`, `thread`; of a backward op `forward_thread` and `forward_parent`, the id of the
          node that was open there
        * `inputs`, `outputs`: in the order of the schema, a dictionary for each tensor: `argument` (position among the
          arguments), `item` (position in a list of tensors, those that were not given counted, else None), `tensor_id`,
          `storage_id`, `offset` (in elements), `shape`, `dtype`, `device`, `elements`, `element_bytes`, `bytes` (the
          product of the two), `stride`
        * `input_bytes`, `output_bytes`: sums of `bytes`
        * `values`: inputs that are no tensors, or tensors that were not given, each with `argument`, `item`, `type` and
          `value`
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
