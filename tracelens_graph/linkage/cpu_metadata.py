"""What an execution trace records of one operator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tracelens_graph.graph.execution_trace import Arguments, ExecutionTrace
from tracelens_graph.linkage.traces import execution_trace_of, row_of_node

_ELEMENT_TYPE = re.compile(r"Tensor\(((?:[^()]|\([^()]*\))*)\)")
_UNDEFINED = "nullptr (uninitialized)"
_TENSOR_ITEMS = 6
"""A tensor is written as [tensor id, storage id, offset, elements, bytes per element, device]."""
_DEEPEST = 32
"""Levels of lists in lists that are looked through for tensors; PyTorch writes two."""


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
        * `inputs`, `outputs`: a list with a dictionary for each tensor: `argument` (position among the arguments),
          `item` (position in a list of tensors, else None), `tensor_id`, `storage_id`, `offset` (in elements),
          `shape`, `dtype` (None for an undefined tensor), `device`, `elements`, `element_bytes`, `bytes` (the product
          of the two), `stride`
        * `input_bytes`, `output_bytes`: sums of `bytes`
        * `values`: inputs that are no tensors, each with `argument`, `type` and `value`
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
    inputs, values = _arguments(execution.inputs[row])
    outputs, _ = _arguments(execution.outputs[row])
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
        "values": values,
        "attributes": dict(execution.more.get(row, {})),
    }


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def _arguments(side: Arguments) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Tensors on one side of an operator, and its other arguments."""
    tensors, others = [], []
    for place, argument in enumerate(side.decoded()):
        found = list(_tensors(argument.value, argument.shape, argument.strides, _DEEPEST))
        if "Tensor" not in argument.type or not found:
            others.append({"argument": place, "type": argument.type, "value": argument.value})
            continue
        types = _ELEMENT_TYPE.findall(argument.type)
        is_list = not _is_tensor(argument.value)
        for item, (value, shape, strides) in enumerate(found):
            dtype = types[item] if item < len(types) else types[-1] if types else None
            tensors.append(
                {"argument": place, "item": item if is_list else None, **_tensor(value, shape, strides, dtype)}
            )
    return tensors, others


def _tensor(value: list[Any], shape: Any, strides: Any, dtype: str | None) -> dict[str, Any]:
    tensor, storage, offset, elements, width, device = value
    return {
        "tensor_id": tensor,
        "storage_id": storage,
        "offset": offset,
        "shape": shape if isinstance(shape, list) else None,
        "dtype": None if dtype == _UNDEFINED else dtype,
        "device": device,
        "elements": elements,
        "element_bytes": width,
        "bytes": elements * width,
        "stride": strides if isinstance(strides, list) and strides else None,
    }


def _tensors(value: Any, shape: Any, strides: Any, depth: int) -> Iterator[tuple[list[Any], Any, Any]]:
    """Tensors in a value, which may be lists of lists, with their shapes and strides."""
    if _is_tensor(value):
        yield value, shape, strides
    elif isinstance(value, list) and depth:
        for place, one in enumerate(value):
            yield from _tensors(one, _item(shape, place), _item(strides, place), depth - 1)


def _is_tensor(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == _TENSOR_ITEMS
        and isinstance(value[-1], str)
        and all(type(number) is int for number in value[:-1])
    )


def _item(of: Any, place: int) -> Any:
    return of[place] if isinstance(of, list) and place < len(of) else None
